# SPDX-License-Identifier: Apache-2.0
"""`report`: the reports of a run, from a coordinator, a store, or a run's folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import click
from click.core import ParameterSource

from ldapslam.base.errors import CoordinatorUnreachable, RunNotFound
from ldapslam.cli.client import Client, any_run_argument
from ldapslam.cli.console import put_result, say
from ldapslam.cli.options import (
    FOLDER,
    RUNS_FOLDER,
    STORE_NAME,
    format_option,
    option,
    store_option,
)
from ldapslam.cli.outcome import fetched_store, report
from ldapslam.cli.security import client_options
from ldapslam.results.records import FINAL_STATES
from ldapslam.results.store import Store


@click.command("report")
@any_run_argument
@format_option
@option(
    "--out DIR", f"Where to write; {RUNS_FOLDER}/RUN_ID when left out.", type=FOLDER
)
@store_option
@client_options
def report_command(
    run_id: str,
    formats: tuple[str, ...],
    out: Path | None,
    store: str | None,
    coordinator: str,
    as_json: bool,
) -> None:
    """Write the reports of RUN; print their paths on stdout.

    RUN is an id, the beginning of one, or `latest`; or the folder of a run, such as
    ldapslam-runs/RUN_ID. Runs of `ldapslam run` are found there by their ids too,
    unless --store or --coordinator says where to look.
    """
    with store_of(run_id, store, coordinator) as (results, full_id, own_folder):
        folder = out or own_folder or RUNS_FOLDER / full_id
        state = results.run(full_id).state
        summary, files = report(results, full_id, out=folder, formats=formats)
    is_partial = state not in FINAL_STATES
    if is_partial:
        say(f"run {full_id} has not ended (it is {state}): its report is partial")
    names = [str(path) for path in files]
    result = {
        "run_id": full_id,
        "verdict": summary.verdict,
        "partial": is_partial,
        "files": names,
    }
    put_result(result, names, as_json=as_json)


@contextlib.contextmanager
def store_of(
    run: str, store: str | None, coordinator: str
) -> Iterator[tuple[Store, str, Path | None]]:
    """The store that has the run, the run's full id, and its folder if it has one."""
    folder = Path(run) if (Path(run) / STORE_NAME).is_file() else None
    if "/" in run and folder is None:
        raise RunNotFound(run, hint=f"there is no {STORE_NAME} in that folder")
    source = click.get_current_context().get_parameter_source("coordinator")
    by_option = source is ParameterSource.COMMANDLINE
    if folder is None and store is None and not by_option and run != "latest":
        # an id tells which run is meant, whatever coordinator a variable names
        folder = _local(run)
    place = store or folder
    if place is None:
        try:
            with Client(coordinator) as client:
                full_id = client.run(run).run_id
                with fetched_store(client, full_id) as results:
                    yield results, full_id, None
            return
        except CoordinatorUnreachable as error:
            is_default = source is ParameterSource.DEFAULT
            local = _local_folders() if is_default and run == "latest" else []
            if not local:
                raise
            say(f"no coordinator: this is the latest run in {RUNS_FOLDER} ({error})")
            place = folder = local[-1]
    with Store.open(place, read_only=True) as results:
        yield results, _find(results, "latest" if folder else run), folder


def _local_folders() -> list[Path]:
    """Folders of runs of `ldapslam run`, the oldest first: ids begin with the time."""
    return sorted(path.parent for path in RUNS_FOLDER.glob(f"[0-9]*/{STORE_NAME}"))


def _local(run: str) -> Path | None:
    """The folder of the run of `ldapslam run` whose id begins so."""
    found = [path for path in _local_folders() if path.name.startswith(run)]
    if len(found) > 1 and found[0].name != run:
        names = ", ".join(path.name for path in found[:5])
        raise RunNotFound(run, hint=f"{len(found)} runs begin so: {names}")
    return found[0] if found else None


def _find(store: Store, run: str) -> str:
    if run != "latest":
        return store.run(run).run_id
    runs = store.runs(1)
    if not runs:
        raise RunNotFound(run, hint="this store has no runs yet")
    return runs[0].run_id
