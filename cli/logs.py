# SPDX-License-Identifier: Apache-2.0
"""Logs of the commands that serve: `--log-format`, and how their errors are told."""

from __future__ import annotations

import logging
import os

import click

from ldapslam.base.errors import LdapSlamError
from ldapslam.base.log_format import FORMAT_VARIABLE, FORMATS, is_json, set_up_log
from ldapslam.cli.console import say

_log = logging.getLogger("ldapslam")

log_format_option = click.option(
    "--log-format",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    show_default=True,
    envvar=FORMAT_VARIABLE,
    show_envvar=True,
    help="Log lines of text, or one JSON object a line; engine processes follow.",
)


def log_to_stderr(log_format: str, **fields: str) -> None:
    """A server says what it does also without --verbose."""
    level = min(logging.getLogger().level, logging.INFO)
    set_up_log(log_format, level=level).update(fields)
    logging.getLogger("alembic").setLevel(max(level, logging.WARNING))


def warn_of_root(*, is_wanted: bool) -> None:
    """A service needs none of root's rights; is_wanted: part of a command of root's."""
    if os.geteuid() == 0 and not is_wanted:
        _log.warning(
            "running as root, which nothing here needs: the shipped systemd units run "
            "as users of their own"
        )


def announce(text: str) -> None:
    """What a server says when it begins: to people, or as a line of its log."""
    if is_json():
        _log.info("%s", text)
    else:
        say(text)


def log_error(error: LdapSlamError) -> None:
    """An error that ends a server, where logs are JSON."""
    hint = f"; hint: {error.hint}" if error.hint else ""
    _log.error("%s%s", error, hint)
