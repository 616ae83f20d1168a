# SPDX-License-Identifier: Apache-2.0
"""`results baseline`: the runs that a gate compares with, in a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ldapslam.base.errors import ConfigError
from ldapslam.cli.client import operator_name
from ldapslam.cli.command import command
from ldapslam.cli.console import put_result
from ldapslam.cli.options import FILE, STORE_NAME
from ldapslam.cli.runs import Place, complete_run, runs_options, store_of
from ldapslam.results.records import utc_text
from ldapslam.results.store import Store

if TYPE_CHECKING:
    from ldapslam.reports.model import Summary
    from ldapslam.studies.baseline import GateFile


@command("baseline")
@click.argument("file", metavar="FILE", type=FILE)
@click.argument("runs", metavar="[RUN]...", nargs=-1, shell_complete=complete_run)
@runs_options
def baseline_command(
    file: Path,
    runs: Sequence[str],
    place: Place,
) -> None:
    """Save runs as a baseline for `gate --baseline`, or show the baseline in FILE.

    Without RUN, what FILE has is shown: its figures, and how its runs were made. Else
    five runs or more that PASS are saved; others are named and left out.

    RUN is what `report` takes, or the folder of a gate: then the runs of its new side,
    whatever its answer, which is printed, and also runs that are only too short for a
    threshold. Runs of different days and starts tell most of what varies.
    """
    if not runs:
        _show(file)
        return
    from ldapslam.studies.baseline import (
        baseline_of,
        left_out,
        read_gate,
        save_baseline,
    )

    if file.exists():
        raise ConfigError(
            f"{str(file)!r} is there already", hint="choose another name, or remove it"
        )
    gates = {run: gate for run in runs if (gate := read_gate(Path(run)))}
    found = [one for run in runs for one in _summaries(run, gates.get(run), place)]
    summaries = [summary for summary, _ in found]
    ids = [one.run.run_id for one in summaries]
    if twice := next((one for one in ids if ids.count(one) > 1), None):
        raise ConfigError(f"the run {twice!r} is named twice", hint="name it once")
    of_gates = {one.run_id for gate in gates.values() for one in gate.runs}
    made = baseline_of(
        summaries,
        saved_utc=utc_text(datetime.now(UTC)),
        saved_by=operator_name(),
        other_cpu_shares={summary.run.run_id: share for summary, share in found},
        of_gates=of_gates,
    )
    save_baseline(file, made)
    others = left_out(summaries, of_gates)
    put_result(
        {
            "file": str(file),
            "runs": [one.run_id for one in made.runs],
            "left_out": others,
        },
        [
            f"{file}: {len(made.runs)} runs of {made.job}",
            *(line for run, gate in gates.items() for line in _taken(run, gate)),
            *(f"left out: {one}" for one in others),
        ],
    )


def _show(file: Path) -> None:
    from ldapslam.reports.formats.text import render_table
    from ldapslam.studies.baseline import baseline_tables, load_baseline

    found = load_baseline(file)
    put_result(
        found.model_dump(mode="json"),
        ["\n\n".join(render_table(one) for one in baseline_tables(found))],
    )


def _taken(folder: str, gate: GateFile) -> Iterator[str]:
    """Name the side of a gate that the runs were taken from, and its answer."""
    yield f"of the new side of the gate {folder}"
    if gate.sides.get("old") == gate.sides.get("new"):
        yield "--aa: both sides of that gate are the old one"
    if gate.answer != "no regression":
        yield f"the answer of that gate: {gate.answer}"


def _summaries(
    run: str, gate: GateFile | None, place: Place
) -> Iterator[tuple[Summary, float | None]]:
    """Yield the summary of each run, and the CPU share of other processes."""
    from ldapslam.reports.summarise import summarise

    if gate is not None:
        with Store.open(Path(run) / STORE_NAME, read_only=True) as results:
            for one in gate.runs:
                if one.side == "new" and one.run_id and not one.pilot:
                    yield summarise(results, one.run_id), one.other_cpu_share
        return
    with ExitStack() as stack:
        results, run_id, _ = stack.enter_context(store_of(run, place))
        yield summarise(results, run_id), None
