# SPDX-License-Identifier: Apache-2.0
"""`run`: a coordinator and N agents on this host, one job, its reports.

The path is the one of a fleet: submit, watch, report. Ctrl-C cancels the run, which
then drains, and its reports are written all the same; a second Ctrl-C ends at once.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from ldapslam.base.errors import ConfigError, ExitCode, LdapSlamError
from ldapslam.cli.client import Client
from ldapslam.cli.console import json_option, say
from ldapslam.cli.follow import follow
from ldapslam.cli.measure.cleanup import clean_up_run, rest_removed
from ldapslam.cli.measure.local_fleet import (
    SPOOLS,
    LocalFleet,
    agent_names,
    local_fleet,
)
from ldapslam.cli.options import FORMATS, set_option
from ldapslam.cli.outcome import (
    has_started,
    make_folder,
    name_files,
    raise_if_never_started,
    report,
    show_outcome,
)
from ldapslam.cli.progress import Progress
from ldapslam.cli.submission import JobFile, JobSource, submit_job
from ldapslam.proto import operator_pb2 as pb
from ldapslam.results.store import Store

RUNS_FOLDER = Path("ldapslam-runs")
STORE_NAME = "results.sqlite"

#: What every command that runs a job here has.
agents_option = click.option(
    "--agents",
    metavar="N",
    type=click.IntRange(1, 256),
    help="Local agents; when left out, as many as the job wants, else one.",
)
out_option = click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help=f"Folder of the results; {RUNS_FOLDER}/RUN_ID when left out.",
)


@click.command("run")
@click.argument(
    "job_file",
    metavar="JOB",
    required=False,
    type=click.Path(path_type=Path, dir_okay=False),
)
@agents_option
@set_option
@out_option
@click.option(
    "--cleanup",
    metavar="RUN",
    help="Instead of running a job, remove the entries that a run left because it was "
    "killed: its id, or the folder of its results.",
)
@click.option(
    "--spool",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="With --cleanup: the spool of the agent whose entries are left; local runs "
    "and this user's agents are found without.",
)
@json_option
def run_command(
    job_file: Path | None,
    agents: int | None,
    overrides: tuple[str, ...],
    out: Path | None,
    cleanup: str | None,
    spool: Path | None,
    as_json: bool,
) -> ExitCode:
    """Run JOB here and now: a coordinator and N agents on this host.

    The report is printed on stdout and written, in all formats, to a folder, which is
    named at the end. The exit code is the verdict's.
    """
    if cleanup is not None:
        if job_file is not None:
            raise click.UsageError("--cleanup RUN stands in place of a JOB")
        return clean_up_run(cleanup, spool, RUNS_FOLDER, click.echo)
    if job_file is None:
        raise click.UsageError("give a JOB to run, or --cleanup RUN")
    if spool is not None:
        raise click.UsageError("--spool goes with --cleanup")
    return run_locally(JobFile(job_file), agents, overrides, out, as_json=as_json)


def run_locally(
    source: JobSource,
    agents: int | None,
    overrides: Sequence[str],
    out: Path | None,
    *,
    as_json: bool,
) -> ExitCode:
    """Run a job on this host; the exit code."""
    if agents is not None:
        overrides = [*overrides, f"agents={{count: {agents}}}"]
    job = source.load(overrides)
    names = agent_names(job.agents, agents)
    with _results_folder(out) as results:
        store_file = results.folder / STORE_NAME
        labels = job.agents.labels or {}
        with (
            rest_removed(results.folder / SPOOLS),
            local_fleet(names, labels, store_file, results.folder) as fleet,
        ):
            status, is_interrupted = _run_on(fleet, source, overrides)
        if is_interrupted and not has_started(status):
            say("interrupted before any load; there is nothing to report")
            return ExitCode.INTERRUPTED
        raise_if_never_started(status)
        results.keep(status.run_id)
        with Store.open(results.folder / STORE_NAME) as store:
            summary, files = report(
                store, status.run_id, out=results.folder, formats=FORMATS
            )
        exit_code = show_outcome(summary, as_json=as_json)
        name_files(results.folder, files)
    return ExitCode.INTERRUPTED if is_interrupted else exit_code


def _run_on(
    fleet: LocalFleet, source: JobSource, overrides: Sequence[str]
) -> tuple[pb.RunStatus, bool]:
    """Submit and watch; the final status, and whether Ctrl-C ended it."""
    is_interrupted = False

    def cancel() -> None:
        nonlocal is_interrupted
        is_interrupted = True
        say("interrupted: the run is cancelled and drains; again to end at once")
        client.cancel(run_id)

    with Client(fleet.address) as client, Progress() as progress:
        run_id = submit_job(client, source, overrides)
        status = follow(client, run_id, progress, on_interrupt=cancel)
    return status, is_interrupted


class _Results:
    """The folder that results go to: the user's, or one that gets the run's name."""

    def __init__(self, out: Path | None) -> None:
        self._is_named = out is not None
        #: Until the run's id is known, a name that says so.
        self.folder = out or RUNS_FOLDER / f"unfinished-{time.time_ns()}"
        self._has_existed = self.folder.exists()
        self._is_kept = False
        if (self.folder / STORE_NAME).exists():
            raise ConfigError(
                f"the folder {str(self.folder)!r} holds the results of another run",
                hint="name another one with --out, or remove it",
            )
        # Logs and results name entries and hosts: for their owner, who may share them.
        make_folder(self.folder, 0o700)

    def keep(self, run_id: str) -> None:
        """There are results: give the folder its name."""
        self._is_kept = True
        if not self._is_named:
            self.folder = self.folder.rename(RUNS_FOLDER / run_id)

    def discard_if_useless(self) -> None:
        """Remove what a run left that never started, and no more than that."""
        if self._is_kept:
            return
        if self._has_load():
            say(
                f"what was measured is in {self.folder}; "
                f"`ldapslam report {self.folder}` reports it"
            )
        elif not self._has_existed:
            shutil.rmtree(self.folder, ignore_errors=True)
            if not self._is_named:
                with contextlib.suppress(OSError):  # other runs are there
                    RUNS_FOLDER.rmdir()

    def _has_load(self) -> bool:
        """Whether the store knows a run that had begun."""
        try:
            with Store.open(self.folder / STORE_NAME, read_only=True) as store:
                return any(run.t0_utc for run in store.runs())
        except LdapSlamError:
            return False


@contextlib.contextmanager
def _results_folder(out: Path | None) -> Iterator[_Results]:
    results = _Results(out)
    try:
        yield results
    finally:
        results.discard_if_useless()
