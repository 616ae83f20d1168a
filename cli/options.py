# SPDX-License-Identifier: Apache-2.0
"""Arguments and options that several commands have, declared once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ldapslam.cli.security import security_options
from ldapslam.jobs.errors import ConfigError, LdapSlamError
from ldapslam.proto.address import DEFAULT_PORT

_Command = TypeVar("_Command", bound=Callable[..., Any])

_COORDINATOR_VARIABLE = "LDAPSLAM_COORDINATOR"
_DEFAULT_COORDINATOR = f"127.0.0.1:{DEFAULT_PORT}"

#: Formats of a report, in the order in which they are made.
FORMATS = ("html", "pdf", "text", "json", "csv", "hlog")

job_argument = click.argument(
    "job_file", metavar="JOB", type=click.Path(path_type=Path, dir_okay=False)
)

set_option = click.option(
    "--set",
    "overrides",
    metavar="PATH=VALUE",
    multiple=True,
    help="Change a field of the job, such as run.duration=30s; repeatable.",
)

_coordinator_option = click.option(
    "--coordinator",
    metavar="HOST:PORT",
    envvar=_COORDINATOR_VARIABLE,
    default=_DEFAULT_COORDINATOR,
    show_default=True,
    show_envvar=True,
    help="Where the coordinator listens; also unix:PATH.",
)


def coordinator_option(command: _Command) -> _Command:
    """--coordinator, and what a connection to it may need; client.py uses it."""
    return _coordinator_option(security_options(command))


def _complete_run(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[str]:
    """Ids of runs for the shell's completion; none without a coordinator."""
    from ldapslam.cli.client import Client

    address = (
        context.params.get("coordinator")
        or os.environ.get(_COORDINATOR_VARIABLE)
        or _DEFAULT_COORDINATOR
    )
    try:
        with Client(address) as client:
            runs = [status.run_id for status in client.runs(limit=50)]
    except LdapSlamError:
        return []
    return [run for run in ("latest", *runs) if run.startswith(incomplete)]


def run_argument(command: _Command) -> _Command:
    """RUN: an id, the beginning of one, or `latest`."""
    argument = click.argument("run_id", metavar="RUN", shell_complete=_complete_run)
    return argument(command)


def parse_formats(
    _: click.Context | None, __: click.Parameter | None, value: str | None
) -> tuple[str, ...]:
    """`html,pdf` as a tuple; None and `all` are all."""
    if value in (None, "all"):
        return FORMATS
    wanted = tuple(part.strip() for part in str(value).split(",") if part.strip())
    unknown = [part for part in wanted if part not in FORMATS]
    if unknown or not wanted:
        raise ConfigError(
            f"--format: expected formats separated by commas, got {value!r}",
            hint=f"the formats are {', '.join(FORMATS)}",
        )
    return wanted


format_option = click.option(
    "--format",
    "formats",
    metavar="FORMAT,…",
    callback=parse_formats,
    help=f"Which reports: {', '.join(FORMATS)}. All when left out.",
)
