# SPDX-License-Identifier: Apache-2.0
"""Callers who hang up at any moment, while the store is slow: each change is in the
store, in memory and in the audit log, or in none of them."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from ldapslam.coordinator.control import Coordinator
from ldapslam.coordinator.schedules.service import Schedules
from ldapslam.coordinator.server import serve
from ldapslam.proto import operator_pb2, schedule_pb2
from ldapslam.proto.operator_pb2_grpc import OperatorServiceStub
from ldapslam.proto.schedule_pb2_grpc import ScheduleServiceStub
from ldapslam.results import audit, schedule_store
from ldapslam.results.audit import AuditRecord
from ldapslam.results.store import Store
from support.fake_queue import job_request, schedule_request

CALLS = 50
#: The store is locked for that long at a time, at most.
_LOCKED_S = 0.03
_TIMEOUT_S = 120

TOMORROW = "2999-01-01T00:00:00+00:00"
Change = schedule_pb2.ChangeScheduleRequest


@contextmanager
def slow(store: Path) -> Iterator[None]:
    """Another process's lock on it comes and goes."""
    rng, end = random.Random(1), threading.Event()

    def lock() -> None:
        connection = sqlite3.connect(store, isolation_level=None, timeout=30)
        while not end.wait(rng.uniform(0, _LOCKED_S / 3)):
            connection.execute("BEGIN IMMEDIATE")
            end.wait(rng.uniform(0, _LOCKED_S))
            connection.execute("ROLLBACK")
        connection.close()

    thread = threading.Thread(target=lock)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


class Scene:
    """A served coordinator, and who calls it."""

    def __init__(self, coordinator: Coordinator, address: str) -> None:
        self.coordinator = coordinator
        self.writer = coordinator.writer
        self._channel = grpc.aio.insecure_channel(address)
        self.operators: Any = OperatorServiceStub(self._channel)  # type: ignore[no-untyped-call]
        self.schedules: Any = ScheduleServiceStub(self._channel)  # type: ignore[no-untyped-call]
        self._rng = random.Random(2)
        #: Found so that half of the callers hang up too early.
        self._patience_s = 0.05
        #: What became of the calls, for their callers.
        self.ends: Counter[str] = Counter()

    async def close(self) -> None:
        await self._channel.close()

    async def hang_up(self, method: Callable[..., Any], requests: list[Any]) -> None:
        """Call with each, one after the other; callers wait for different times."""
        assert len(requests) >= CALLS
        for request in requests:
            call = method(request)
            patience_s = self._rng.uniform(0, 2 * self._patience_s)
            await asyncio.wait([asyncio.ensure_future(call)], timeout=patience_s)
            call.cancel()
            end = await asyncio.gather(call, return_exceptions=True)
            is_cut = isinstance(end[0], asyncio.CancelledError)
            assert is_cut or not isinstance(end[0], BaseException), end
            self.ends["cut" if is_cut else "answered"] += 1
            self._patience_s *= 1.1 if is_cut else 1 / 1.1

    async def notes(self, *actions: str) -> list[AuditRecord]:
        """The oldest first."""
        found = await self.writer.call(audit.newest, self.writer.store)
        return [note for note in reversed(found) if note.action in actions]

    async def agree(self, find: Callable[[], Awaitable[list[Any]]]) -> Any:
        """What `find` has from memory, store and audit log, once all of it is the same:
        what was admitted goes on when its caller has left."""
        while True:
            found = await find()
            if all(one == found[0] for one in found):
                return found[0]


async def submissions(scene: Scene) -> None:
    job = {"not_before_utc": TOMORROW}
    await scene.hang_up(scene.operators.SubmitJob, [job_request(**job)] * CALLS)
    runs, store = scene.coordinator.fleet.runs, scene.writer.store

    async def submitted() -> list[Any]:
        stored = {run.run_id for run in await scene.writer.call(store.runs)}
        noted = {note.subject for note in await scene.notes("submit")}
        return [set(runs), stored, noted]

    ids = sorted(await scene.agree(submitted))
    assert ids

    wanted = [scene.operators.SubmitJob(job_request(**job)) for _ in range(CALLS)]
    replies = await asyncio.gather(*wanted)
    others = [reply.run_id for reply in replies]
    cancel = operator_pb2.CancelRunRequest
    await scene.hang_up(
        scene.operators.CancelRun, [cancel(run_id=run_id) for run_id in others]
    )

    async def cancelled() -> list[Any]:
        stored = await scene.writer.call(store.runs)
        ended = {run.run_id for run in stored if run.state == "cancelled"}
        noted = {note.subject for note in await scene.notes("cancel")}
        return [set(others) - set(runs), ended, noted]

    assert await scene.agree(cancelled)


async def schedules(scene: Scene) -> None:
    names = [f"s{number}" for number in range(CALLS)]
    yearly = {name: schedule_request(name, cron="0 0 1 1 *") for name in names}
    await scene.hang_up(scene.schedules.CreateSchedule, [*yearly.values()])
    store = scene.writer.store

    async def states() -> list[Any]:
        answer = await scene.schedules.ListSchedules(
            schedule_pb2.ListSchedulesRequest()
        )
        known = {one.name: str(one.state) for one in answer.schedules}
        rows = await scene.writer.call(schedule_store.schedules, store)
        noted: dict[str, str] = {}
        for note in await scene.notes("schedule"):
            name, _, state = note.detail.partition(" is ")
            noted[name] = state or "active"
            if state == "removed":
                del noted[name]
        return [known, {row.name: row.state for row in rows}, noted]

    made = sorted(await scene.agree(states))
    assert made
    turns = (Change.CHANGE_PAUSE, Change.CHANGE_RESUME)
    changes = [
        Change(schedule=name, change=turn)
        for turn in turns * (CALLS // len(made) + 1)
        for name in made
    ]
    await scene.hang_up(scene.schedules.ChangeSchedule, changes[: max(CALLS, 60)])
    await scene.agree(states)

    for name in set(names).difference(made):
        await scene.schedules.CreateSchedule(yearly[name])
    remove = schedule_pb2.RemoveScheduleRequest
    gone = [remove(schedule=name) for name in names]
    await scene.hang_up(scene.schedules.RemoveSchedule, gone)
    assert len(await scene.agree(states)) < CALLS


@pytest.mark.long
@pytest.mark.parametrize("calls", [submissions, schedules])
def test_a_change_is_everywhere_or_nowhere(
    tmp_path: Path, calls: Callable[[Scene], Awaitable[None]]
) -> None:
    store = tmp_path / "results.sqlite"
    Store.open(store).close()

    async def test() -> Counter[str]:
        async with (
            asyncio.timeout(_TIMEOUT_S),
            serve(
                [f"unix:{tmp_path}/socket"], str(store), extensions=[Schedules()]
            ) as served,
        ):
            scene = Scene(served.coordinator, served.address)
            try:
                with slow(store):
                    await calls(scene)
            finally:
                await scene.close()
        return scene.ends

    ends = asyncio.run(test())
    assert ends["cut"] > CALLS / 5, ends
    assert ends["answered"] > CALLS / 5, ends


def test_a_change_that_cannot_be_noted_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*_: object) -> None:
        raise ZeroDivisionError

    async def test() -> None:
        address = f"unix:{tmp_path}/socket"
        extensions = [Schedules()]
        async with serve([address], str(tmp_path / "s"), extensions=extensions) as one:
            scene = Scene(one.coordinator, one.address)
            monkeypatch.setattr(audit, "add", break_down)
            with pytest.raises(grpc.aio.AioRpcError):
                await scene.operators.SubmitJob(job_request(not_before_utc=TOMORROW))
            yearly = schedule_request("s", cron="0 0 1 1 *")
            with pytest.raises(grpc.aio.AioRpcError):
                await scene.schedules.CreateSchedule(yearly)
            await scene.close()

    asyncio.run(test())
    with Store.open(tmp_path / "s") as store:
        assert store.runs() == []
        assert schedule_store.schedules(store) == []
