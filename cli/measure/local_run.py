# SPDX-License-Identifier: Apache-2.0
"""A job run here and now: a coordinator and N agents on this host, and its reports.

As in a fleet: submit, watch, report. Ctrl-C cancels the run, which drains and is
reported; a second Ctrl-C ends at once. The verdict is printed before the reports are
written: an interrupt after it ends the writing and changes no exit code.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from ldapslam.base.errors import ConfigError, ExitCode, LdapSlamError
from ldapslam.cli import outcome
from ldapslam.cli.client import Client
from ldapslam.cli.console import say
from ldapslam.cli.follow import follow_or_cancel
from ldapslam.cli.measure.cleanup import rest_removed
from ldapslam.cli.measure.local_fleet import (
    SPOOLS,
    LocalFleet,
    agent_names,
    local_fleet,
)
from ldapslam.cli.options import FORMATS, RUNS_FOLDER, STORE_NAME
from ldapslam.cli.progress import Progress
from ldapslam.cli.submission import JobSource, checked_request
from ldapslam.proto import operator_pb2 as pb
from ldapslam.results.store import Store
from ldapslam.studies.study_folder import is_run_of_study

#: The formats that a command without a job file writes; `report` writes the others.
_QUICK_FORMATS = ("text", "json")


def run_locally(
    source: JobSource,
    agents: int | None,
    overrides: Sequence[str],
    out: Path | None,
    *,
    made_of: Mapping[str, str] | None = None,
    metrics: tuple[str, int] | None = None,
    is_quick: bool = False,
) -> ExitCode:
    """Run a job on this host; the exit code. `made_of`: what its lab's servers are.
    `metrics`: where Prometheus can read its figures. `is_quick`: write no charts."""
    if agents is not None:
        overrides = [*overrides, f"agents={{count: {agents}}}"]
    job = source.load(overrides)
    names = agent_names(job.agents, agents)
    outputs = _metrics_options(metrics)
    with _Results(out) as results:
        store_file = results.folder / STORE_NAME
        labels = job.agents.labels or {}
        with (
            rest_removed(results.folder / SPOOLS),
            local_fleet(names, labels, store_file, results.folder, outputs) as fleet,
        ):
            status, is_interrupted = _run_on(fleet, source, overrides, made_of)
        if is_interrupted and not outcome.has_started(status):
            say("interrupted before any load; there is nothing to report")
            return ExitCode.INTERRUPTED
        outcome.raise_if_never_started(status)
        results.keep(status.run_id)
        exit_code = report_run(results.folder, status.run_id, is_quick=is_quick)
    return ExitCode.INTERRUPTED if is_interrupted else exit_code


def report_run(folder: Path, run_id: str, *, is_quick: bool) -> ExitCode:
    """Judge the run in `folder`, print the outcome, then write the reports; the
    verdict's exit code."""
    from ldapslam.reports.formats.render import render
    from ldapslam.reports.summarise import summarise

    with Store.open(folder / STORE_NAME) as store:
        summary = outcome.judged(store, summarise(store, run_id))
        exit_code = outcome.show_outcome(summary)
        try:
            formats = _QUICK_FORMATS if is_quick else FORMATS
            files = render(summary, folder, formats, store=store)
        except KeyboardInterrupt:
            say(f"interrupted: `ldapslam report {folder}` writes the reports")
            return exit_code
    outcome.name_files(folder, files)
    if is_quick:
        say(f"`ldapslam report {folder} --open` shows the report with its charts")
    return exit_code


def _metrics_options(place: tuple[str, int] | None) -> list[str]:
    """The coordinator's; ConfigError when it could not start with them."""
    if place is None:
        return []
    from ldapslam.transport.metrics_server import free_place, metrics_url

    host, port = free_place(place)
    say(f"metrics on {metrics_url(host, port)} until the run ends")
    return ["--metrics", f"{host}:{port}"]


def _run_on(
    fleet: LocalFleet,
    source: JobSource,
    overrides: Sequence[str],
    made_of: Mapping[str, str] | None,
) -> tuple[pb.RunStatus, bool]:
    """Submit and watch; the final status, and whether Ctrl-C ended it."""
    with Client(fleet.address) as client, Progress(is_local=True) as progress:
        run_id = client.submit(checked_request(source, overrides, made_of))
        return follow_or_cancel(client, run_id, progress)


class _Results:
    """The folder that results go to: the user's, or one that gets the run's name.

    A run of the user's folder has a link in `ldapslam-runs`: there commands look for
    what was run from here.
    """

    def __init__(self, out: Path | None) -> None:
        #: In the folder of runs; until the run's id is known, a name that says so.
        self._entry = RUNS_FOLDER / f"unfinished-{time.time_ns()}"
        self.folder = out or self._entry
        self._has_existed = self.folder.exists()
        self._is_kept = False
        if (self.folder / STORE_NAME).exists():
            raise ConfigError(
                f"the folder {str(self.folder)!r} holds the results of another run",
                hint="name another one with --out, or remove it",
            )
        # Logs and results name entries and hosts: for their owner, who may share them.
        outcome.make_folder(self.folder, 0o700)
        if out is not None and not is_run_of_study(out):
            with contextlib.suppress(OSError):  # it is of use, and not needed
                RUNS_FOLDER.mkdir(0o700, exist_ok=True)
                self._entry.symlink_to(_seen_from(RUNS_FOLDER, out))

    def keep(self, run_id: str) -> None:
        """There are results: give the folder, or the link to it, the run's name."""
        self._is_kept = True
        named = RUNS_FOLDER / run_id
        if self.folder == self._entry:
            self.folder = self._entry.rename(named)
        elif self._entry.is_symlink():
            self._entry.rename(named)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove what a run left that never started, and no more than that."""
        if self._is_kept:
            return
        if self._has_load():
            say(
                f"what was measured is in {self.folder}; "
                f"`ldapslam report {self.folder}` reports it"
            )
            return
        if not self._has_existed:
            shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            if self._entry.is_symlink():
                self._entry.unlink()
            RUNS_FOLDER.rmdir()  # unless other runs are there

    def _has_load(self) -> bool:
        """Whether the store has a run that had begun."""
        try:
            with Store.open(self.folder / STORE_NAME, read_only=True) as store:
                return any(run.t0_utc for run in store.runs())
        except LdapSlamError:
            return False


def _seen_from(folder: Path, path: Path) -> Path:
    """The target of a link: both may be moved together where the path is relative."""
    if path.is_absolute():
        return path
    return Path(os.path.relpath(path, folder.resolve()))
