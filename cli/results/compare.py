# SPDX-License-Identifier: Apache-2.0
"""`compare`: runs beside each other; or, given a directory, the LDAP operation."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import click

from ldapslam.base.errors import ConfigError
from ldapslam.cli.console import json_option, put, put_json
from ldapslam.cli.measure.one_line import compare_command as compare_values
from ldapslam.cli.options import coordinator_option
from ldapslam.cli.results.report import store_of
from ldapslam.reports.comparison import comparison_tables, differences_of
from ldapslam.reports.formats.text import render_table
from ldapslam.reports.result import result_of
from ldapslam.reports.summarise import summarise

_SCHEMES = ("ldap://", "ldaps://", "ldapi://")


class _Compare(click.Command):
    """The runs' command, unless what is to be compared is in a directory."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        if any(one.startswith(_SCHEMES) for one in args):
            return compare_values.make_context(info_name, args, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command("compare", cls=_Compare)
@click.argument("runs", metavar="RUN RUN...", nargs=-1)
@click.option(
    "--store",
    metavar="URL",
    help="Read this results store (URL, file or run folder), not a coordinator's.",
)
@coordinator_option
@json_option
def compare_command(
    runs: Sequence[str], store: str | None, coordinator: str, as_json: bool
) -> None:
    """Show runs beside each other: how they were made, and what came out.

    RUN is what `report` takes: an id or its beginning, or the folder of a run.

    With the URI of a directory instead, put LDAP compare operations on it:

    \b
      ldapslam compare ldap://ds1 -b uid=user.[0-9999],ou=people,… -a sn --value Smith
    """
    if len(runs) < 2:
        raise ConfigError(
            f"two runs are needed to compare, got {len(runs)}",
            hint="`ldapslam list` shows those of a coordinator; for the LDAP operation "
            "name a directory (ldap://…)",
        )
    summaries = []
    for run in runs:
        with ExitStack() as stack:
            results, run_id, _ = stack.enter_context(store_of(run, store, coordinator))
            summaries.append(summarise(results, run_id))
    if as_json:
        put_json(
            {
                "runs": [result_of(summary) for summary in summaries],
                "differences": differences_of(summaries),
            }
        )
        return
    put("\n\n".join(render_table(one) for one in comparison_tables(summaries)))
