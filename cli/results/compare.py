# SPDX-License-Identifier: Apache-2.0
"""`compare`: runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import click

from ldapslam.base.errors import ConfigError
from ldapslam.cli.console import put_result
from ldapslam.cli.options import store_option
from ldapslam.cli.results.report import store_of
from ldapslam.cli.security import client_options
from ldapslam.reports.comparison import comparison_tables, differences_of
from ldapslam.reports.formats.text import render_table
from ldapslam.reports.result import result_of
from ldapslam.reports.summarise import summarise


@click.command("compare")
@click.argument("runs", metavar="RUN RUN...", nargs=-1)
@store_option
@client_options
def compare_command(
    runs: Sequence[str], store: str | None, coordinator: str, as_json: bool
) -> None:
    """Show runs side by side: how they were made, and what came out.

    RUN is what `report` takes: an id or its beginning, or the folder of a run.
    """
    if len(runs) < 2:
        raise ConfigError(
            f"two runs are needed to compare, got {len(runs)}",
            hint="`ldapslam list` shows those of a coordinator",
        )
    summaries = []
    for run in runs:
        with ExitStack() as stack:
            results, run_id, _ = stack.enter_context(store_of(run, store, coordinator))
            summaries.append(summarise(results, run_id))
    result = {
        "runs": [result_of(summary) for summary in summaries],
        "differences": differences_of(summaries),
    }
    text = "\n\n".join(render_table(one) for one in comparison_tables(summaries))
    put_result(result, [text], as_json=as_json)
