# SPDX-License-Identifier: Apache-2.0
"""`compare`: runs against runs, and whether their figures differ."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ldapslam.base.errors import ConfigError, ExitCode
from ldapslam.cli.command import command
from ldapslam.cli.console import put_result, say
from ldapslam.cli.options import option
from ldapslam.cli.runs import Place, complete_run, runs_options, store_of
from ldapslam.reports.comparing.comparison import Side, compare_sides
from ldapslam.reports.comparing.tables import document_of, tables_of
from ldapslam.reports.document import Table, column, table
from ldapslam.reports.formats.text import render_table
from ldapslam.reports.model import Summary
from ldapslam.reports.summarise import summarise
from ldapslam.studies.study_folder import JOURNAL

if TYPE_CHECKING:
    from ldapslam.studies.comparisons import LeftOut

_LETTERS = 26


@command("compare")
@click.argument("sides", metavar="SIDE SIDE...", nargs=-1, shell_complete=complete_run)
@option(
    "--include-invalid",
    "Compare INVALID runs too; they are left out of the statistics otherwise.",
    is_flag=True,
)
@runs_options
def compare_command(
    sides: Sequence[str],
    include_invalid: bool,
    place: Place,
) -> ExitCode:
    """Compare runs: how they were made, and whether their figures differ.

    SIDE is a run, or several runs that repeat the same, joined by commas:

    \b
      ldapslam compare RUN RUN
      ldapslam compare A1,A2,A3 B1,B2,B3

    or the folders of studies: then each point that they have in common is compared, and
    the others are named.

    The first side is the baseline. RUN is what `report` takes: an id or its beginning,
    or the folder of a run. Three runs a side or more tell what varies from run to run.
    """
    if len(sides) < 2:
        raise ConfigError(
            f"two sides are needed to compare, got {len(sides)}",
            hint="`ldapslam list` shows the runs; runs joined by commas are one side",
        )
    if all(os.path.isfile(os.path.join(side, JOURNAL)) for side in sides):
        return _studies(sides, include_invalid=include_invalid)
    made = [
        Side(_name(number), _runs(runs, place)) for number, runs in enumerate(sides)
    ]
    ids = [run.run.run_id for side in made for run in side.runs]
    if twice := next((one for one in ids if ids.count(one) > 1), None):
        raise ConfigError(
            f"the run {twice!r} is named twice",
            hint="a run tells nothing when it is compared with itself",
        )
    comparison = compare_sides(made, include_invalid=include_invalid)
    text = "\n\n".join(render_table(one) for one in tables_of(comparison))
    put_result(document_of(comparison), [text])
    if not comparison.without_runs:
        return ExitCode.PASS
    say(
        f"no valid run of {', '.join(comparison.without_runs)}: nothing to compare\n"
        "hint: --include-invalid compares INVALID runs too"
    )
    return ExitCode.NO_BASELINE


def _studies(folders: Sequence[str], *, include_invalid: bool) -> ExitCode:
    from ldapslam.studies.comparisons import compared_studies

    if len({Path(one).resolve() for one in folders}) < len(folders):
        raise ConfigError(
            "a study is named twice",
            hint="a study tells nothing when it is compared with itself",
        )
    named = {_name(number): Path(folder) for number, folder in enumerate(folders)}
    found = compared_studies(named, include_invalid=include_invalid)
    points = [
        {"values": one.values, **document_of(one.comparison)} for one in found.made
    ]
    left_out = [{"values": one.values, "why": one.why} for one in found.left_out]
    texts = [
        "\n\n".join([one.label, *map(render_table, tables_of(one.comparison))])
        for one in found.made
    ]
    if left_out:
        texts.insert(0, render_table(_left_out(found.left_out)))
    put_result(
        {"points": points, "left_out": left_out},
        ["\n\n\n".join(texts)],
    )
    if any(not one.comparison.without_runs for one in found.made):
        return ExitCode.PASS
    say(
        "no point has valid runs in all of these studies\n"
        "hint: points are the same when all values of their axes are"
    )
    return ExitCode.NO_BASELINE


def _left_out(points: Sequence[LeftOut]) -> Table:
    return table(
        "left-out",
        "Points that are not compared",
        points,
        column("Point", lambda one: one.label),
        column("Why", lambda one: one.why),
    )


def _name(number: int) -> str:
    """A to Z, then AA, AB and so on."""
    before, letter = divmod(number, _LETTERS)
    return (_name(before - 1) if before else "") + chr(ord("A") + letter)


def _runs(runs: str, place: Place) -> tuple[Summary, ...]:
    summaries = []
    for run in runs.split(","):
        if not run:
            raise ConfigError(
                f"a run is missing in {runs!r}", hint="commas stand between runs"
            )
        with ExitStack() as stack:
            results, run_id, _ = stack.enter_context(store_of(run, place))
            summaries.append(summarise(results, run_id))
    return tuple(summaries)
