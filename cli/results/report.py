# SPDX-License-Identifier: Apache-2.0
"""`report`: the reports of a run, from a coordinator, a store, or a run's folder."""

from __future__ import annotations

from pathlib import Path

from ldapslam.cli.command import command
from ldapslam.cli.console import put_result
from ldapslam.cli.options import (
    FOLDER,
    RUNS_FOLDER,
    flag,
    format_option,
    option,
)
from ldapslam.cli.outcome import report
from ldapslam.cli.results.browser import open_report
from ldapslam.cli.runs import LATEST, Place, run_argument_of, runs_options, store_of
from ldapslam.results.records import FINAL_STATES


@command("report")
@run_argument_of(default=LATEST)
@format_option
@option(
    "-o --out DIR", f"Where to write; {RUNS_FOLDER}/RUN_ID when left out.", type=FOLDER
)
@flag(
    "--open is_open",
    "Open the HTML report in the browser; that is written where it is missing.",
)
@runs_options
def report_command(
    run_id: str,
    formats: tuple[str, ...],
    out: Path | None,
    is_open: bool,
    place: Place,
) -> None:
    """Write the reports of RUN; print their paths on stdout.

    RUN is an id, the beginning of one, or the folder of a run, such as
    ldapslam-runs/RUN_ID; the latest run without it. With --open it may be the folder of
    a study, a search for capacity, a gate or a history, too.
    """
    if is_open:
        open_report(run_id, place)
        return
    with store_of(run_id, place) as (results, full_id, own_folder):
        folder = out or own_folder or RUNS_FOLDER / full_id
        summary, files = report(results, full_id, out=folder, formats=formats)
    names = [str(path) for path in files]
    result = {
        "run_id": full_id,
        "verdict": summary.verdict,
        "partial": summary.run.state not in FINAL_STATES,
        "files": names,
    }
    put_result(result, names)
