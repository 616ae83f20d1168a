# SPDX-License-Identifier: Apache-2.0
"""`report`: the reports of a run, from a coordinator or from a store's file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import click

from ldapslam.cli.client import Client
from ldapslam.cli.console import json_option, put, put_json
from ldapslam.cli.options import coordinator_option, format_option, run_argument
from ldapslam.cli.outcome import fetched_store, report
from ldapslam.cli.run import RUNS_FOLDER, STORE_NAME
from ldapslam.jobs.errors import RunNotFound
from ldapslam.reports.results.store import Store


@click.command("report")
@run_argument
@format_option
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help=f"Where to write; {RUNS_FOLDER}/RUN_ID when left out.",
)
@click.option(
    "--store",
    metavar="URL",
    help="Read this results store (URL, file or run folder), not a coordinator's.",
)
@coordinator_option
@json_option
def report_command(
    run_id: str,
    formats: tuple[str, ...],
    out: Path | None,
    store: str | None,
    coordinator: str,
    as_json: bool,
) -> None:
    """Write the reports of RUN; print their paths on stdout.

    RUN may also be the folder of a run, such as ldapslam-runs/RUN_ID.
    """
    with _store_of(run_id, store, coordinator) as (results, full_id):
        folder = out or _folder_of(run_id) or RUNS_FOLDER / full_id
        summary, files = report(results, full_id, out=folder, formats=formats)
    if as_json:
        put_json(
            {"run_id": full_id, "verdict": summary.verdict, "files": _names(files)}
        )
    else:
        put("\n".join(_names(files)))


def _names(files: list[Path]) -> list[str]:
    return [str(path) for path in files]


def _folder_of(run: str) -> Path | None:
    """RUN as the folder of a run."""
    return Path(run) if (Path(run) / STORE_NAME).is_file() else None


@contextlib.contextmanager
def _store_of(
    run: str, store: str | None, coordinator: str
) -> Iterator[tuple[Store, str]]:
    """The store that has the run, and the run's full id."""
    folder = _folder_of(run)
    if "/" in run and folder is None:
        raise RunNotFound(run, hint=f"there is no {STORE_NAME} in that folder")
    place = store or folder
    if place is not None:
        with Store.open(place, read_only=True) as results:
            yield results, _find(results, "latest" if folder else run)
        return
    with Client(coordinator) as client:
        full_id = client.run(run).run_id
        with fetched_store(client, full_id) as results:
            yield results, full_id


def _find(store: Store, run: str) -> str:
    if run != "latest":
        return store.run(run).run_id
    runs = store.runs()
    if not runs:
        raise RunNotFound(run, hint="this store has no runs yet")
    return runs[0].run_id
