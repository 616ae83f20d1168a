# SPDX-License-Identifier: Apache-2.0
"""`history`: the runs of jobs over weeks, and where a figure changed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from ldapslam.base.errors import ConfigError, LdapSlamError
from ldapslam.cli.client import Client
from ldapslam.cli.command import command
from ldapslam.cli.console import say
from ldapslam.cli.options import FOLDER, RUNS_FOLDER, option
from ldapslam.cli.outcome import fetched_store, make_folder, put_report
from ldapslam.cli.runs import Place, runs_options
from ldapslam.results.store import Store
from ldapslam.studies.study_folder import is_run_of_study

if TYPE_CHECKING:
    from ldapslam.studies.history import Run

_RESULT = "result.json"
#: Parts of the path of a result in the folder of a study.
_OF_A_STUDY = 3


@command("history")
@click.argument(
    "places", metavar="[PLACE...]", nargs=-1, type=click.Path(path_type=Path)
)
@option("--only-job jobs NAME", "Only runs of this job; repeatable.", multiple=True)
@option("-o --out DIR", "Folder of the reports.", type=FOLDER, default=Path("history"))
@runs_options
def history_command(
    places: Sequence[Path],
    jobs: Sequence[str],
    out: Path,
    place: Place,
) -> None:
    """Show how figures change from run to run, and where they shifted.

    PLACE is a result.json, or a folder with some below it, such as a pipeline
    keeps. When left out: the runs that `ldapslam list` shows. history.html is one
    page for all jobs, which any web server can show.
    """
    from ldapslam.studies.history import (
        by_load,
        history_document,
        history_json,
        series_of,
        write_history,
    )

    if places and (place.store is not None or place.local or place.is_named):
        raise ConfigError(
            "a PLACE excludes --store, --local and --coordinator",
            hint="leave one of them out",
        )
    if places or place.is_folders:
        found = _of_files(places, out)
    elif place.store is not None:
        found = _of_store(place.store)
    else:
        found = _of_coordinator(place.coordinator, jobs)
    # one run may be there twice, such as in a copy
    runs = list({one.run_id: one for one in found}.values())
    if jobs:
        runs = [one for one in runs if one.job in jobs]
    if not runs:
        raise ConfigError(
            "there are no runs",
            hint=f"name folders with a {_RESULT}, or a --store"
            + f"; of the jobs {', '.join(jobs)}" * bool(jobs),
        )
    runs = by_load(runs)
    series = series_of(runs)
    make_folder(out)
    files = write_history(runs, series, out)
    put_report(
        history_document(runs, series),
        history_json(runs, series),
        files,
    )


def _of_files(places: Sequence[Path], out: Path) -> Iterator[Run]:
    from ldapslam.reports.digest import read_result
    from ldapslam.studies.history import run_of

    for place in places or (RUNS_FOLDER,):
        if not place.exists():
            raise ConfigError(
                f"there is no file or folder {str(place)!r}",
                hint=f"name a {_RESULT}, or a folder with some below it",
            )
        of_searches = 0
        for path in _results_in(place) if place.is_dir() else [place]:
            # a study that is itself named is to be seen
            is_below = len(path.relative_to(place).parts) > _OF_A_STUDY
            if is_below and is_run_of_study(path.parent):
                of_searches += 1
                continue
            try:
                content = read_result(path)
                page = path.with_name("report.html")
                link = quote(os.path.relpath(page, out)) if page.exists() else ""
                run = run_of(content, link)
            except (LdapSlamError, ValueError, KeyError, TypeError) as error:
                say(f"{path} is left out: {error}")
                continue
            if run is not None:
                yield run
        if of_searches:
            say(
                f"{of_searches} runs of studies and searches below {place} are left "
                "out; name their folders to see them"
            )


def _results_in(folder: Path) -> list[Path]:
    """Each once; those of runs whose results went elsewhere are behind links."""
    found = (*folder.rglob(_RESULT), *folder.glob(f"*/{_RESULT}"))
    return sorted({path.resolve(): path for path in found}.values())


def _of_store(url: str) -> Iterator[Run]:
    with Store.open(url, read_only=True) as results:
        yield from _judged_runs(results)


def _of_coordinator(address: str, jobs: Sequence[str]) -> Iterator[Run]:
    with Client(address) as client:
        for status in client.runs():
            if status.verdict and (not jobs or status.job_name in jobs):
                with fetched_store(client, status.run_id) as results:
                    yield from _judged_runs(results)


def _judged_runs(results: Store) -> Iterator[Run]:
    from ldapslam.reports.result import result_of
    from ldapslam.reports.summarise import summarise
    from ldapslam.studies.history import run_of

    for record in results.runs():
        if record.t0_utc and record.finished_utc and record.verdict:
            run = run_of(result_of(summarise(results, record.run_id)))
            if run is not None:
                yield run
