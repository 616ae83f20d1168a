# SPDX-License-Identifier: Apache-2.0
"""The two sides of a gate, and their runs: one coordinator, its agents and the labs of
both sides stay up from the first run to the last."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ldapslam.base.errors import ConfigError
from ldapslam.base.fault import Fault
from ldapslam.base.uri import check_uri
from ldapslam.cli import outcome
from ldapslam.cli.client import Client
from ldapslam.cli.console import say
from ldapslam.cli.follow import follow
from ldapslam.cli.measure.local_fleet import agent_names, local_fleet
from ldapslam.cli.options import STORE_NAME, parse_pair
from ldapslam.cli.progress import Progress
from ldapslam.cli.submission import JobFile, checked_request
from ldapslam.jobs.model import Job
from ldapslam.jobs.reading.variables import override_of
from ldapslam.proto import operator_pb2 as pb
from ldapslam.reports.rules.rules import Cause
from ldapslam.results.store import Store
from ldapslam.studies.gate import Made
from ldapslam.studies.labs import Labs, with_users
from ldapslam.studies.points import Point
from ldapslam.studies.study_file import StudyLab

if TYPE_CHECKING:
    from ldapslam.reports.model import Summary

_LAB = "lab."
_BINARY = "binary"
#: Where a server's program is below the folder that it is installed in.
_ROOTS = ("", "usr/", "usr/local/", "opt/openldap/", "opt/dirsrv/")
_PROGRAMS = {
    "slapd": ("sbin/slapd", "libexec/slapd", "lib/slapd", "slapd"),
    "389ds": ("sbin/ns-slapd", "ns-slapd"),
}


@dataclass(frozen=True)
class Side:
    """The old or the new server."""

    job: Job
    #: Its job's file and changes; its lab is in `lab` of the point.
    point: Point
    #: None: the servers are there already.
    lab: StudyLab | None

    @property
    def identity(self) -> tuple[object, ...]:
        """Equal for two sides that are the same."""
        return self.job.canonical_hash(), self.lab, dict(self.point.lab)


def side_of(
    name: str,
    changes: Sequence[str],
    source: JobFile,
    overrides: Sequence[str],
    lab: StudyLab | None,
) -> Side:
    """The side that CHANGEs of the command line describe; ConfigError, JobErrors."""
    given, of_lab = list(overrides), dict[str, str]()
    for change in changes:
        key, equals, value = change.partition("=")
        if "://" in key or not equals:
            if "://" in change:
                given.append(_target(name, change, source.load(overrides)))
            else:
                of_lab[_BINARY] = str(_program(name, Path(change), lab))
        elif key.startswith(_LAB):
            of_lab[key.removeprefix(_LAB)] = value
        elif "." in key:
            given.append(change)
        else:
            given.append(override_of(*parse_pair(change)))
    if of_lab and lab is None:
        raise ConfigError(
            f"--{name}: {next(iter(of_lab))} is of a lab's server, and there is no lab",
            hint="add --lab slapd or --lab 389ds",
        )
    point = Point({"side": name}, tuple(given), job=source.name, lab=of_lab)
    if lab is not None:
        point = with_users(point, source.path, lab)
        if point.lab != of_lab:
            entries = point.lab["entries"]
            say(f"{name}: the lab has {entries:,} people, as many as the job's users")
    return Side(source.load(point.overrides), point, lab)


def _target(name: str, uri: str, job: Job) -> str:
    try:
        check_uri(uri)
    except Fault as fault:
        raise ConfigError(f"--{name}: {fault}", hint=fault.hint) from fault
    if len(job.targets) > 1:
        roles = ", ".join(f"targets.{role}=…" for role in job.targets)
        raise ConfigError(
            f"--{name}: the job has {len(job.targets)} targets, and {uri} is one",
            hint=f"say which: {roles}",
        )
    return f"targets.{next(iter(job.targets))}={uri}"


def _program(name: str, path: Path, lab: StudyLab | None) -> Path:
    if path.is_file():
        return path.absolute()
    kinds = [lab.server] if lab else list(_PROGRAMS)
    places = [
        path / root / program
        for root in _ROOTS
        for kind in kinds
        for program in _PROGRAMS[kind]
    ]
    for place in places:
        if place.is_file():
            return place.absolute()
    if not path.exists():
        raise ConfigError(
            f"--{name}: there is no file or folder {str(path)!r}",
            hint="a variable or a field of the job is NAME=VALUE, a server ldap://HOST",
        )
    raise ConfigError(
        f"--{name}: no {' or '.join(kinds)} below {str(path)!r}",
        hint="name the program itself",
    )


class Runs:
    """Makes the runs of both sides; a context manager."""

    def __init__(
        self,
        sides: Mapping[str, Side],
        folder: Path,
        agents: int | None,
        *,
        restarts: bool,
    ) -> None:
        self._sides, self._folder, self._agents = sides, folder, agents
        self._store = folder / STORE_NAME
        self._restarts = restarts
        self._labs: dict[str, Labs] = {}
        self._stack = contextlib.ExitStack()
        #: In the order in which they ended.
        self.made: list[Made] = []

    def __enter__(self) -> Self:
        outcome.make_folder(self._folder, 0o700)
        if self._store.exists():
            raise ConfigError(
                f"the folder {str(self._folder)!r} holds the results of another gate",
                hint="name another one with --out, or remove it",
            )
        with contextlib.ExitStack() as stack:
            self._bring_up_labs(stack)
            self._bring_up_fleet(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _bring_up_labs(self, stack: contextlib.ExitStack) -> None:
        for name, side in self._sides.items():
            if side.lab is not None:
                labs = Labs(side.lab, [side.point], partial(_say_of, name))
                stack.callback(labs.close)
                labs.servers(side.point, side.job)
                self._labs[name] = labs

    def _bring_up_fleet(self, stack: contextlib.ExitStack) -> None:
        jobs = [one.job for one in self._sides.values()]
        # enough for each side's job
        names = {
            name: None for one in jobs for name in agent_names(one.agents, self._agents)
        }
        labels = {
            key: value
            for one in jobs
            for key, value in (one.agents.labels or {}).items()
        }
        fleet = stack.enter_context(
            local_fleet(list(names), labels, self._store, self._folder)
        )
        self._client = stack.enter_context(Client(fleet.address))

    def restart(self) -> None:
        """Restart the servers of the labs."""
        if self._restarts:
            for labs in self._labs.values():
                labs.restart()

    def run(self, name: str) -> Summary:
        """One run of a side; the errors of a run that never started."""
        from ldapslam.reports.summarise import summarise

        side = self._sides[name]
        changes, made_of = list(side.point.overrides), None
        if name in self._labs:
            servers = self._labs[name].servers(side.point, side.job)
            changes += servers.overrides
            made_of = servers.made_of
        is_interrupted = False

        def cancel() -> None:
            nonlocal is_interrupted
            is_interrupted = True
            say("interrupted: the run is cancelled and drains; again to end at once")
            self._client.cancel(run_id)

        request = checked_request(JobFile(Path(side.point.job)), changes, made_of)
        run_id = self._client.submit(request)
        status = follow(self._client, run_id, _Silent(), on_interrupt=cancel)
        if is_interrupted:
            raise KeyboardInterrupt
        outcome.raise_if_never_started(status)
        with Store.open(self._store) as store:
            summary = outcome.judged(store, summarise(store, run_id))
        self.made.append(
            Made(
                name,
                run_id,
                summary.verdict,
                summary.reasons,
                is_sound(summary),
                summary.run.finished_utc or "",
            )
        )
        return summary


def is_sound(summary: Summary) -> bool:
    """Whether neither the generator nor the evidence is at fault. Of a threshold that a
    short run leaves uncertain a gate knows more than the run."""
    return all(one.passed or one.cause is Cause.TARGET for one in summary.rules)


def _say_of(side: str, text: str) -> None:
    say(f"{side}: {text}")


class _Silent(Progress):
    def show(self, update: pb.RunUpdate) -> None:
        """Nothing: there are many runs."""
