# SPDX-License-Identifier: Apache-2.0
"""Makes the runs that a study or a search wants, one after the other.

Every run is a process of `ldapslam run` (or `submit`, in a fleet) with a folder of its
own. What has ended is one line of runs.jsonl in the study's folder: a study that was
interrupted or killed goes on behind the last line.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ldapslam.base.errors import ConfigError, ExitCode, LdapSlamError, NotAsJudged
from ldapslam.base.files import errors_of
from ldapslam.base.inert import one_line_texts, parse_json
from ldapslam.base.names import checked_name
from ldapslam.base.units import format_duration
from ldapslam.jobs.connection_settings import ConnectionSettings
from ldapslam.jobs.model import Job
from ldapslam.studies.labs import Labs, Servers
from ldapslam.studies.points import Point, Turn
from ldapslam.studies.server_settings import ChangedSettings, Place, change
from ldapslam.studies.study_file import Hook
from ldapslam.studies.study_folder import JOURNAL, RUNS

RESULT = "result.json"

#: Runs a job: point, folder of the results, file for what it says. The exit code.
Launch = Callable[[Point, Path, Path], int]


@dataclass(frozen=True)
class Ended:
    """A run that has ended: a line of the journal."""

    point: int
    repeat: int
    attempt: int
    #: Name of its folder in `runs`.
    folder: str
    exit_code: int
    #: PASS, FAIL, INVALID; empty without a result.
    verdict: str
    #: Why there is no result.
    error: str
    lasted_s: float
    #: Values of its point.
    values: Mapping[str, Any]


class Journal:
    """The runs of a study's folder; see `alone_in`."""

    def __init__(
        self, folder: Path, identity: Mapping[str, Any], kind: str = "study"
    ) -> None:
        """`identity` identifies the study; ConfigError if the folder has the runs of
        another."""
        self.folder = folder
        self._file = folder / JOURNAL
        self.ended: list[Ended] = []
        self.runs = folder / RUNS
        self.runs.mkdir(mode=0o700, parents=True, exist_ok=True)
        head = {"study": dict(identity)}
        whole, end, half = "", "", ""
        if self._file.exists():
            whole, end, half = self._file.read_text("utf-8").rpartition("\n")
        if half:  # it was killed in the middle of a line
            os.truncate(self._file, len((whole + end).encode()))
        if whole:
            first, *lines = whole.split("\n")
            if first != _line(head):
                hint = f"name another folder, such as --out {_free(folder)}"
                if ChangedSettings(folder):
                    hint = "--restore first: servers are not what they were before"
                raise ConfigError(
                    f"the folder {str(folder)!r} has the runs of another {kind}, or of "
                    "this study before it was changed",
                    hint=hint,
                )
            self.ended += map(_ended, lines)
        else:
            self._append(head)

    def attempts(self, turn: Turn) -> list[Ended]:
        return [
            one
            for one in self.ended
            if (one.point, one.repeat) == (turn.point, turn.repeat)
        ]

    def add(self, one: Ended) -> None:
        self.ended.append(one)
        self._append(asdict(one))

    def result(self, one: Ended) -> dict[str, Any] | None:
        """Its result.json, None without one; NotAsJudged."""
        path = self.runs / one.folder / RESULT
        if not one.verdict and not path.exists():
            return None
        found = _read(path)
        if one.verdict and one.verdict != found["verdict"]:
            raise NotAsJudged(
                f"{path} says {found['verdict']}, {self._file} says {one.verdict}",
                hint="somebody changed the study: make its runs in another folder",
            )
        return found

    def why(self, one: Ended) -> str:
        """Why it has no result or is not PASS, as the end of a line."""
        reasons = [one.error] if one.error else (self.result(one) or {}).get("reasons")
        return f": {reasons[0]}" if reasons and one.verdict != "PASS" else ""

    def _append(self, content: Mapping[str, Any]) -> None:
        with self._file.open("a", encoding="utf-8") as out:
            out.write(_line(content) + "\n")
            out.flush()
            os.fsync(out.fileno())


def _read(path: Path) -> dict[str, Any]:
    # slow to load
    from ldapslam.reports.digest import read_result

    return read_result(path)


def _free(folder: Path) -> Path:
    """The first folder of this name and a number that does not exist."""
    numbered = (folder.with_name(f"{folder.name}-{n}") for n in itertools.count(2))
    return next(one for one in numbered if not one.exists())


def journal_in(folder: Path) -> tuple[Mapping[str, Any], list[Ended]]:
    """Which study is in this folder, which may go on, and its runs; ConfigError."""
    try:
        head, *lines = (folder / JOURNAL).read_text("utf-8").split("\n")
        # what comes after the last line feed is still being written
        return dict(parse_json(head)["study"]), list(map(_ended, lines[:-1]))
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise ConfigError(f"{folder / JOURNAL}: cannot be read: {error}") from error


def _ended(line: str) -> Ended:
    content = parse_json(line)
    checked_name(content["folder"])
    return Ended(**one_line_texts(content))


def _line(content: Mapping[str, Any]) -> str:
    return json.dumps(content, sort_keys=True)


def is_settled(attempts: Sequence[Ended], most: int) -> bool:
    """Whether a repeat needs no more runs."""
    return len(attempts) >= most or any(
        one.verdict in ("PASS", "FAIL") for one in attempts
    )


@dataclass
class Runner:
    """Makes runs; `restored` is to be around all of them."""

    journal: Journal
    launch: Launch
    say: Callable[[str], None]
    #: Job of each point.
    jobs: Sequence[Job] = ()
    settle_s: float = 0.0
    before: Hook | None = None
    after: Hook | None = None
    access: ConnectionSettings | None = None
    labs: Labs | None = None

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """At the end, whatever it is, settings of servers are what they were, and the
        lab is gone."""
        try:
            yield
        finally:
            if self.labs is not None:
                self.labs.close()
            if self.access is not None:
                changed = ChangedSettings(self.journal.folder)
                for place in changed.restore(self.access):
                    self.say(f"{place.attribute} of {place.uri} is what it was")

    def keep_settings(self, points: Mapping[int, Point], study: Path) -> None:
        """Note what the servers' settings are that these points change, by the numbers
        of the points; ConfigError when another study has changed such a server."""
        if self.access is None:
            return
        places = [
            place
            for number, point in points.items()
            for place, _ in _changes(point, Servers(self.jobs[number].targets, None))
        ]
        ChangedSettings(self.journal.folder).keep(places, self.access, study)

    def run(self, turn: Turn, point: Point) -> Ended:
        """One more run of the point; its line is in the journal."""
        attempt = len(self.journal.attempts(turn)) + 1
        name = f"{turn.point + 1:03d}-{turn.repeat}-{attempt}"
        folder = self.journal.runs / name
        log = folder.with_suffix(".log")
        shutil.rmtree(folder, ignore_errors=True)  # of a study that was killed
        error, verdict, begun_s = "", "", time.monotonic()
        code = int(ExitCode.INTERNAL)
        try:
            prepared = self._prepare(turn, point, log)
            code = self.launch(prepared, folder, log)
            if self.after is not None and self.labs is None:
                _call(self.after, point, log)
            if (folder / RESULT).exists():
                verdict = _read(folder / RESULT)["verdict"]
        except LdapSlamError as problem:
            error = str(problem)
        if code == ExitCode.INTERRUPTED:
            raise KeyboardInterrupt
        if not verdict and not error:
            error = _last_line(log)
        if error:
            verdict = ""
        if self.labs is not None and verdict not in ("PASS", "FAIL"):
            self.labs.close()  # its servers may be the reason
        lasted_s = round(time.monotonic() - begun_s, 3)
        ended = Ended(
            turn.point,
            turn.repeat,
            attempt,
            name,
            code,
            verdict,
            error,
            lasted_s,
            dict(point.values),
        )
        self.journal.add(ended)
        return ended

    def _prepare(self, turn: Turn, point: Point, log: Path) -> Point:
        """The point as it is to be run."""
        if self.labs is not None:
            servers = self.labs.servers(point, self.jobs[turn.point])
            point = replace(
                point,
                overrides=(*point.overrides, *servers.overrides),
                made_of=servers.made_of,
            )
        elif point.settings:
            servers = Servers(self.jobs[turn.point].targets, self.access)
        if point.settings:
            assert servers.access is not None
            for place, value in _changes(point, servers):
                change(place, value, servers.access)
        if self.before is not None and self.labs is None:
            _call(self.before, point, log)
        if self.settle_s:
            time.sleep(self.settle_s)
        return point


def _changes(point: Point, servers: Servers) -> Iterator[tuple[Place, str]]:
    """What the point changes in servers; ConfigError."""
    for setting, value in point.settings:
        for uri in servers.of_role(setting.target):
            yield Place(uri, setting.entry, setting.attribute), value


@contextlib.contextmanager
def alone_in(folder: Path, wait_s: float = 30) -> Iterator[None]:
    """Lock the folder of a study for this process; the folder is made if it does not
    exist. ConfigError while another process has the lock. A run inherits the lock, and
    so keeps it for the moment that it needs to end when the study is killed: that is
    waited for."""
    with errors_of(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
    try:
        _lock(descriptor, folder, time.monotonic() + wait_s)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path, until_s: float) -> None:
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() >= until_s:
                raise ConfigError(
                    f"another process is making the runs of {str(folder)!r}",
                    hint="wait for it, or name another folder with --out",
                ) from error
        time.sleep(0.05)


def _call(hook: Hook, point: Point, log: Path) -> None:
    """ConfigError when the command fails, or does not end in time."""
    what = f"the command {hook.command[0]!r}"
    names = {f"AXIS_{name.upper()}": str(one) for name, one in point.values.items()}
    environment = {**os.environ, **names, "LDAPSLAM_POINT": point.label}
    try:
        with log.open("ab") as out:
            done = subprocess.run(
                hook.command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                timeout=hook.timeout_ns / 1e9,
            )
    except OSError as error:
        raise ConfigError(f"{what} cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise ConfigError(
            f"{what} was ended after {format_duration(hook.timeout_ns)}",
            hint=f"see {log}",
        ) from error
    if done.returncode:
        raise ConfigError(
            f"{what} ended with {done.returncode}: {_last_line(log)}",
            hint=f"see {log}",
        )


def _last_line(log: Path) -> str:
    with contextlib.suppress(FileNotFoundError):
        lines = log.read_text("utf-8", "replace").splitlines()
        kept = [one for one in lines if one.strip() and not one.startswith("hint:")]
        return kept[-1] if kept else "it said nothing"
    return "it said nothing"
