# SPDX-License-Identifier: Apache-2.0
"""A coordinator as the scheduler sees it: its queue, in a time that a test sets.

Its runs are in the store, as a coordinator's are; they take the time that they plan,
one at a time for each target. `fuse` makes it crash, and the scheduler with it.
"""

from __future__ import annotations

import asyncio
import functools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import pytest

from ldapslam.coordinator.run_queue import RunQueue
from ldapslam.coordinator.runs.submission import (
    Submission,
    load_submission,
    new_run_id,
)
from ldapslam.coordinator.schedules.scheduler import Scheduler
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.proto import operator_pb2 as pb
from ldapslam.proto import schedule_pb2
from ldapslam.results import schedule_store
from ldapslam.results.audit import AuditRecord
from ldapslam.results.records import RunRecord, utc_text
from ldapslam.results.schedule_store import FireRecord
from ldapslam.results.store import Store
from support.fleet import job_text, submission

P = ParamSpec("P")
T = TypeVar("T")


@functools.cache
def _empty_store() -> bytes:
    """A store's file: making one takes longer than most tests."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.sqlite"
        Store.open(path).close()
        return path.read_bytes()


class Crash(BaseException):
    """The process ends here."""


class Fuse:
    """Crashes at the step that it is set to; counts the steps."""

    def __init__(self) -> None:
        self.steps = 0
        self._at: int | None = None

    def set(self, steps: int | None) -> None:
        """Crash at the so manyth step from now, counted from 1; None: never."""
        self.steps, self._at = 0, steps

    def step(self) -> None:
        self.steps += 1
        if self.steps == self._at:
            raise Crash


class CrashingWriter(StoreWriter):
    """A step before and one after each call of the store."""

    def __init__(self, url: str, fuse: Fuse) -> None:
        super().__init__(url)
        self._fuse = fuse

    async def call(
        self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        self._fuse.step()
        result = await super().call(function, *args, **kwargs)
        self._fuse.step()
        return result


@dataclass
class LiveRun:
    submission: Submission
    #: Of its plan, with the drain.
    length: timedelta
    #: It waits for its targets alone.
    is_released: bool
    #: When it began; None while it waits.
    began: datetime | None = None


class FakeQueue:
    """A RunQueue, and what a coordinator does by itself: `advance`."""

    scheduler: Scheduler

    def __init__(self, path: Path, begin: datetime) -> None:
        self.now = begin
        self.fuse = Fuse()
        store = path / "results.sqlite"
        store.write_bytes(_empty_store())
        self.writer = CrashingWriter(str(store), self.fuse)
        self.runs: dict[str, LiveRun] = {}
        #: Runs that have ended and wait for their verdict.
        self.judging: set[str] = set()
        self.explained: dict[str, str] = {}
        self.dropped: dict[str, str] = {}
        #: Runs that began, with when.
        self.begun: dict[str, datetime] = {}
        #: Verdict of runs that end from now on.
        self.verdict: str | None = "PASS"
        #: Of scheduled submissions: raised in their place.
        self.error: Exception | None = None

    # Of a test.

    async def new_scheduler(self) -> Scheduler:
        """As a coordinator that starts has it."""
        self.explained = {}
        self.scheduler = Scheduler(self.writer, cast(RunQueue, self), lambda: self.now)
        await self.scheduler.load()
        return self.scheduler

    async def tick(self) -> None:
        """The scheduler's tick, and what comes of it."""
        await self.scheduler.tick()
        await self.advance()

    async def tick_at(self, now: datetime) -> None:
        self.now = now
        await self.tick()

    async def submit(self, **fields: Any) -> str:
        """An operator's run."""
        run_id = new_run_id(self.now)
        await self._create(job_request(**fields), run_id, None)
        return run_id

    async def advance(self) -> None:
        """End and begin runs."""
        for run_id, run in list(self.runs.items()):
            if run.began is not None and run.began + run.length <= self.now:
                await self.end(run_id, "finished", self.verdict)
        busy = [run.submission.targets for run in self.runs.values() if run.began]
        for run_id, run in self.runs.items():
            if run.began or not run.is_released:
                continue
            if not any(run.submission.targets & targets for targets in busy):
                run.began = self.begun[run_id] = self.now
                busy.append(run.submission.targets)
                await asyncio.to_thread(
                    self.writer.store.set_run_state,
                    run_id,
                    "running",
                    t0_utc=utc_text(self.now),
                )

    async def end(self, run_id: str, state: str, verdict: str | None) -> None:
        store = self.writer.store
        del self.runs[run_id]
        now_utc = utc_text(self.now)
        await asyncio.to_thread(
            store.set_run_state, run_id, state, finished_utc=now_utc
        )
        if verdict is not None:
            await asyncio.to_thread(store.set_verdict, run_id, verdict)

    async def close(self) -> None:
        self.fuse.set(None)
        await self.writer.close()

    # RunQueue

    async def submit_scheduled(
        self,
        request: pb.SubmitJobRequest,
        schedule_id: str,
        run_id: str,
        note: AuditRecord,
    ) -> None:
        assert (note.action, note.subject) == ("submit", run_id)
        self.fuse.step()
        if self.error is not None:
            raise self.error
        await self._create(request, run_id, schedule_id)
        self.fuse.step()

    async def _create(
        self, request: pb.SubmitJobRequest, run_id: str, schedule_id: str | None
    ) -> None:
        submission = load_submission(
            request, self.now, run_id=run_id, schedule_id=schedule_id
        )
        await asyncio.to_thread(self.writer.store.create_run, submission.record)
        limits = submission.limits
        length = timedelta(microseconds=(limits.planned_ns + limits.grace_ns) // 1000)
        is_released = not (request.not_before_utc or request.after_run)
        self.runs[run_id] = LiveRun(submission, length, is_released)

    def waiting(self) -> Sequence[Submission]:
        return [run.submission for run in self.runs.values() if not run.is_released]

    def awaits_verdict(self, run_id: str) -> bool:
        return run_id in self.runs or run_id in self.judging

    async def release(self, run_id: str) -> None:
        run = self.runs[run_id]
        assert run.began is None
        assert not run.is_released
        run.is_released = True

    async def drop(self, run_id: str, reason: str) -> None:
        self.dropped[run_id] = reason
        await self.end(run_id, "cancelled", None)

    async def cancel_run(self, run_id: str, by: str) -> None:
        if run_id in self.runs:
            await self.end(run_id, "cancelled", None)

    def explain(self, run_id: str, reason: str) -> None:
        self.explained[run_id] = reason

    # What became of it all.

    def records(self) -> list[RunRecord]:
        """Every run, the first submitted first."""
        return self.writer.store.runs()[::-1]


def job_request(
    *, duration: str = "10m", uri: str = "ldap://ds1:389", **fields: Any
) -> pb.SubmitJobRequest:
    text = job_text(uri, duration=duration, run={"duration": duration, "drain": "1s"})
    return submission(text, **fields)


def schedule_request(
    name: str,
    *,
    duration: str = "10m",
    uri: str = "ldap://ds1:389",
    paused: bool = False,
    **rule: Any,
) -> schedule_pb2.CreateScheduleRequest:
    return schedule_pb2.CreateScheduleRequest(
        name=name,
        job=job_request(duration=duration, uri=uri),
        rule=schedule_pb2.ScheduleRule(**rule),
        paused=paused,
    )


async def create(queue: FakeQueue, request: schedule_pb2.CreateScheduleRequest) -> str:
    """Make a schedule; its id."""
    async with queue.scheduler.settled() as now:
        entry = await queue.scheduler.schedules.create(request, "ana@workstation", now)
    return entry.schedule_id


def moment(text: str) -> datetime:
    """`2026-03-01 12:00` in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


BEGIN = moment("2026-03-01 11:30")


@pytest.fixture
def queue(runner: asyncio.Runner, tmp_path: Path) -> Iterator[FakeQueue]:
    """With a scheduler whose time begins at BEGIN."""
    queue = FakeQueue(tmp_path, BEGIN)
    runner.run(queue.new_scheduler())
    yield queue
    runner.run(queue.close())


async def tick_every(queue: FakeQueue, step: timedelta, until: timedelta) -> None:
    """Ticks from now on."""
    end = queue.now + until
    while queue.now < end:
        await queue.tick_at(queue.now + step)


def fires(queue: FakeQueue, schedule_id: str) -> list[FireRecord]:
    """What became of a schedule's times, oldest first."""
    return schedule_store.fires(queue.writer.store, schedule_id, 1000)[::-1]


def outcomes(queue: FakeQueue, schedule_id: str) -> list[tuple[str, str]]:
    """(HH:MM that a run was due, what became of it), oldest first."""
    return [
        (fire.due_utc[11:16], str(fire.outcome)) for fire in fires(queue, schedule_id)
    ]


def states(queue: FakeQueue) -> list[str]:
    """Of the runs, the first submitted first."""
    return [record.state for record in queue.records()]
