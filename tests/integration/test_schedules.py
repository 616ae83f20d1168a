# SPDX-License-Identifier: Apache-2.0
"""A month of schedules in an injected time, with crashes; and schedules as users have
them, with a coordinator and an agent of their own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise, product
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from ldapslam.base.errors import ExitCode, RunNotFound
from ldapslam.base.time_zone import parse_utc
from ldapslam.cli.main import run
from ldapslam.proto import schedule_pb2
from ldapslam.results import schedule_store
from ldapslam.results.schedule_store import FireRecord
from support.cron_oracle import oracle_times, readings
from support.draws import Draws
from support.fake_queue import (
    BEGIN,
    Crash,
    FakeQueue,
    create,
    moment,
    outcomes,
    schedule_request,
)
from support.fleet import FleetOfProcesses, fake_engine, job_text

NOON = moment("2026-03-01 12:00")
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def test_a_crash_at_any_step_neither_loses_nor_doubles_a_run(
    tmp_path: Path, draws: Draws
) -> None:
    """Three times are due at once; the process ends at each step in turn, and again at
    steps of the recovery."""

    async def settle_noon(path: Path, crashes: list[int]) -> int:
        """The steps that the last, undisturbed scheduler took."""
        path.mkdir()
        queue = FakeQueue(path, BEGIN)
        try:
            await queue.new_scheduler()
            request = schedule_request(
                "three",
                every_ns=15_000_000_000,
                from_utc="2026-03-01T12:00:00Z",
                until_utc="2026-03-01T12:00:30Z",
                misfire=schedule_pb2.MISFIRE_POLICY_RUN_ONCE,
                overlap=schedule_pb2.OVERLAP_POLICY_QUEUE,
            )
            schedule_id = await create(queue, request)
            queue.now = NOON + MINUTE / 2
            for crash in crashes:
                queue.fuse.set(crash)
                with contextlib.suppress(Crash):
                    await queue.tick()
                queue.fuse.set(None)
                queue.now += timedelta(seconds=5)
                await queue.new_scheduler()
            queue.fuse.set(None)
            await queue.tick()
            steps = queue.fuse.steps
            while len(queue.begun) < 3 and queue.now < NOON + HOUR:
                await queue.tick_at(queue.now + 3 * MINUTE)
            await queue.tick_at(NOON + HOUR)
            fires = schedule_store.fires(queue.writer.store, schedule_id, 10)[::-1]
            made = [record.run_id for record in queue.records()]
            assert outcomes(queue, schedule_id) == [("12:00", "submitted")] * 3
            assert sorted(one for fire in fires for one in fire.run_ids) == sorted(made)
            assert len(made) == 3
            assert sorted(queue.begun) == sorted(made)
            return steps
        finally:
            await queue.close()

    async def go() -> None:
        steps = await settle_noon(tmp_path / "0", [])
        # a submission and its commit are two steps, each call of the store too
        assert steps >= 12
        for first in range(1, steps + 1):
            await settle_noon(tmp_path / f"{first}", [first])
        pairs = list(product(range(3, steps, 3), (1, 2, 4, 6, 8)))
        for first, second in pairs[:: len(pairs) // draws.of(len(pairs))]:
            await settle_noon(tmp_path / f"{first}-{second}", [first, second])

    asyncio.run(go())


# A month.

#: Both changes of the clocks lie in it: forward in New York (8 March) and Berlin (29
#: March), back in Santiago and on Lord Howe (5 April).
MONTH = (moment("2026-03-06 00:00"), moment("2026-04-07 00:00"))
GRACE = MINUTE
#: No tick is later than this after the one before, while a coordinator is there.
TICK = timedelta(seconds=40)
#: When nobody is there: hours, over changes of the clocks among others.
DOWNTIMES = [
    ("2026-03-11 03:00", "2026-03-11 17:30"),
    ("2026-03-28 23:40", "2026-03-29 04:10"),
    ("2026-04-05 01:20", "2026-04-05 02:30"),
]


@dataclass(frozen=True)
class Case:
    """A schedule, each with a target of its own, and short runs: none overlap."""

    name: str
    cron: str
    zone: str
    misfire: int = schedule_pb2.MISFIRE_POLICY_SKIP
    every: timedelta | None = None
    overlap: int = schedule_pb2.OVERLAP_POLICY_SKIP

    @property
    def is_alone(self) -> bool:
        """Nothing but its time decides when a run begins."""
        return self.overlap != schedule_pb2.OVERLAP_POLICY_QUEUE

    def times(self) -> list[datetime]:
        """By looking at every minute; croniter has no part in it."""
        begin, end = MONTH
        if self.every is None:
            shown = readings(ZoneInfo(self.zone), begin, end)
            return oracle_times(self.cron, shown, begin)
        count = (end - begin) // self.every
        return [begin + number * self.every for number in range(1, count + 1)]


CASES = [
    Case("berlin-gap", "30 2 * * *", "Europe/Berlin"),
    Case(
        "new-york-gap",
        "15 2 * * sun,wed",
        "America/New_York",
        misfire=schedule_pb2.MISFIRE_POLICY_RUN_ONCE,
    ),
    Case("santiago-fold", "30 23 * * *", "America/Santiago"),
    Case(
        "lord-howe-fold",
        "40 1 * * fri,sat,sun",
        "Australia/Lord_Howe",
        misfire=schedule_pb2.MISFIRE_POLICY_RUN_ONCE,
    ),
    Case("kolkata", "0 6 1-31/5 * *", "Asia/Kolkata"),
    Case(
        "hours-of-a-day",
        "20 * 29 3 *",
        "Europe/Berlin",
        misfire=schedule_pb2.MISFIRE_POLICY_RUN_ONCE,
        overlap=schedule_pb2.OVERLAP_POLICY_QUEUE,
    ),
    Case(
        "every-17-hours",
        "",
        "UTC",
        misfire=schedule_pb2.MISFIRE_POLICY_RUN_ONCE,
        every=timedelta(hours=17),
    ),
]


@dataclass
class Month:
    """What is done to the scheduler, by chance: ticks, restarts, crashes."""

    seed: int
    ticks: list[datetime] = field(default_factory=list)
    crashes: int = 0
    restarts: int = 0

    async def live(self, queue: FakeQueue) -> None:
        chance = random.Random(self.seed)
        downtimes = [(moment(begin), moment(end)) for begin, end in DOWNTIMES]
        dues = sorted(due for case in CASES for due in case.times())
        while queue.now < MONTH[1]:
            now = self._next_tick(queue.now, dues, downtimes, chance)
            if any(begin < now <= end for begin, end in downtimes):
                now = next(end for begin, end in downtimes if begin < now <= end)
                await queue.new_scheduler()
            queue.now = now
            self.ticks.append(now)
            await self._tick(queue, chance)
            if chance.random() < 0.03:
                self.restarts += 1
                await queue.new_scheduler()

    async def _tick(self, queue: FakeQueue, chance: random.Random) -> None:
        """Whoever crashes is back at once, and may crash again."""
        for _ in range(3):
            queue.fuse.set(chance.choice([None, chance.randint(1, 14)]))
            try:
                await queue.tick()
                break
            except Crash:
                self.crashes += 1
                queue.fuse.set(None)
                await queue.new_scheduler()
        queue.fuse.set(None)
        await queue.tick()

    @staticmethod
    def _next_tick(
        now: datetime,
        dues: list[datetime],
        downtimes: list[tuple[datetime, datetime]],
        chance: random.Random,
    ) -> datetime:
        """Often around the times that matter, and hourly between them."""
        marks = [*dues, *(time for pair in downtimes for time in pair)]
        upcoming = min((mark for mark in marks if mark > now), default=MONTH[1])
        near = any(now - 5 * MINUTE <= mark <= now + MINUTE for mark in marks)
        step = TICK * chance.uniform(0.3, 1.0) if near else HOUR
        return min(now + step, max(upcoming - TICK / 2, now + TICK / 4))


def expected_runs(case: Case, ticks: list[datetime]) -> dict[datetime, int]:
    """Time -> its runs, from the times and the ticks: on time when a tick came within
    the grace; missed ones as the policy has it."""
    found: dict[datetime, int] = {}
    late: dict[datetime, list[datetime]] = {}
    for due in case.times():
        tick = next((tick for tick in ticks if tick >= due), None)
        if tick is None:
            continue
        if tick - due <= GRACE:
            found[due] = 1
        else:
            late.setdefault(tick, []).append(due)
    for dues in late.values():
        if case.misfire == schedule_pb2.MISFIRE_POLICY_RUN_ONCE:
            found[dues[-1]] = 1
    return found


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_a_month_of_schedules_runs_each_time_once_by_its_rule(
    tmp_path: Path, seed: int
) -> None:
    """At least a hundred runs in six time zones, with both changes of the clocks, three
    downtimes, restarts, and crashes at any step."""
    month = Month(seed)

    async def go() -> tuple[dict[str, list[FireRecord]], FakeQueue]:
        queue = FakeQueue(tmp_path, MONTH[0])
        try:
            await queue.new_scheduler()
            ids = {}
            for case in CASES:
                every = case.every or timedelta()
                request = schedule_request(
                    case.name,
                    duration="3m",
                    uri=f"ldap://{case.name}",
                    cron=case.cron,
                    every_ns=every // timedelta(microseconds=1) * 1000,
                    time_zone=case.zone,
                    misfire=case.misfire,
                    overlap=case.overlap,
                )
                ids[case.name] = await create(queue, request)
            await month.live(queue)
            store = queue.writer.store
            fires = {
                name: schedule_store.fires(store, schedule_id, 10_000)[::-1]
                for name, schedule_id in ids.items()
            }
            runs = Counter(record.schedule_id for record in queue.records())
            for name, schedule_id in ids.items():
                made = sum(len(fire.run_ids) for fire in fires[name])
                assert runs[schedule_id] == made, name
            return fires, queue
        finally:
            await queue.close()

    fires, queue = asyncio.run(go())
    for case in CASES:
        found = {
            parse_utc(fire.due_utc): len(fire.run_ids)
            for fire in fires[case.name]
            if fire.run_ids
        }
        assert found == expected_runs(case, month.ticks), case.name
        # every time has its row, and no row is of another time
        until = max(month.ticks)
        rows = [parse_utc(fire.due_utc) for fire in fires[case.name]]
        assert rows == [due for due in case.times() if due <= until], case.name
        assert {fire.outcome for fire in fires[case.name]} <= {"submitted", "missed"}
    check_begins(queue, fires)
    runs = [run for rows in fires.values() for fire in rows for run in fire.run_ids]
    assert len(runs) == len(set(runs)) >= 100
    assert month.crashes >= 50
    assert month.restarts >= 20


def check_begins(queue: FakeQueue, fires: Mapping[str, list[FireRecord]]) -> None:
    """Each run has begun, never before its time, and at once where nothing of the same
    schedule is in its way; runs of a schedule follow each other."""
    for case in CASES:
        begins = []
        for fire in fires[case.name]:
            for run_id in fire.run_ids:
                begun = queue.begun[run_id]
                assert begun >= parse_utc(fire.due_utc)
                if case.is_alone:
                    assert begun == parse_utc(fire.at_utc)
                begins.append(begun)
        assert all(
            later - earlier >= 3 * MINUTE for earlier, later in pairwise(sorted(begins))
        )


# As users have them.

#: For runs that follow each other.
_PATIENCE_S = 120.0


class Operator:
    """Calls commands of one coordinator, in this process."""

    def __init__(
        self, fleet: FleetOfProcesses, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.fleet, self._capsys = fleet, capsys
        self.job = fleet.folder / "job.json"
        self.job.write_text(job_text(duration="200ms"))

    def start_agent(self) -> None:
        """An agent of any job, and wait for it."""
        self.fleet.start_agent("a", fake_engine())

        def is_idle() -> bool:
            agents = self.fleet.agents()
            return "a" in agents and agents["a"].state == "idle"

        self.fleet.wait_until(is_idle, "an idle agent", _PATIENCE_S)

    def call(self, *words: str, expected: int = ExitCode.PASS) -> str:
        """What the command printed; on stderr when it was refused."""
        self._capsys.readouterr()
        code = run([*words, "--coordinator", self.fleet.address])
        said = self._capsys.readouterr()
        assert code == expected, said.err
        return said.err if expected else said.out.strip()

    def submit(self, *options: str, expected: int = ExitCode.PASS) -> str:
        return self.call("submit", str(self.job), *options, expected=expected)

    def read(self, *words: str) -> Any:
        return json.loads(self.call(*words, "--json"))


@pytest.fixture
def operator(fleet: FleetOfProcesses, capsys: pytest.CaptureFixture[str]) -> Operator:
    """With a coordinator that has schedules."""
    fleet.start_coordinator(schedules=True)
    return Operator(fleet, capsys)


def test_what_waits_and_what_is_scheduled_survives_the_end_of_the_coordinator(
    operator: Operator,
) -> None:
    fleet = operator.fleet
    operator.start_agent()
    first = operator.submit("--at", "+2s")
    second = operator.submit("--after", first)
    never = operator.submit("--after", first, "--if", "pass")
    often = ("--every", "3s", "--until", "+7s", "--name", "often")
    schedule_id = operator.submit(*often, "--overlap", "queue")
    waiting = fleet.run(second)
    assert (waiting.state, first in waiting.state_detail) == ("queued", True)
    fleet.end("coordinator", signal.SIGKILL)
    fleet.start_coordinator(schedules=True)
    for run_id in (first, second):
        fleet.wait_for(run_id, "finished", timeout_s=_PATIENCE_S)
    # this coordinator has no judge
    status = fleet.wait_for(never, "cancelled", "failed", timeout_s=_PATIENCE_S)
    assert f"run {first} ended as" in status.state_detail

    def is_over() -> bool:
        return bool(
            operator.read("fleet", "schedule", "list", "often")["state"] == "over"
        )

    fleet.wait_until(is_over, "the schedule's last time", timeout_s=_PATIENCE_S)
    shown = operator.read("fleet", "schedule", "list", schedule_id[:8])
    assert shown["fires"]
    assert {fire["outcome"] for fire in shown["fires"]} == {"submitted"}
    for fire in shown["fires"]:
        [run_id] = fire["run_ids"]
        status = fleet.wait_for(run_id, "finished", timeout_s=_PATIENCE_S)
        assert status.schedule_id == schedule_id
    did = {
        (one["action"], one["subject"])
        for one in operator.read("fleet", "audit", "--limit", "0")
    }
    assert {("submit", first), ("schedule", schedule_id), ("submit", run_id)} <= did


def test_a_schedule_is_listed_paused_resumed_and_removed(
    operator: Operator,
) -> None:
    rule = ("--cron", "30 22 * * mon-fri", "--tz", "Europe/Berlin")
    schedule_id = operator.submit(*rule, "--name", "nightly", "--from", "2030-10-25")
    listed = operator.call("fleet", "schedule", "list").splitlines()
    # the clocks are put back on 27 October 2030, a Sunday
    assert listed == [
        f"nightly  {schedule_id}  active  job fleet-test  "
        "cron '30 22 * * mon-fri' Europe/Berlin",
        "    Fri 2030-10-25 22:30 CEST = Fri 2030-10-25 20:30 UTC",
        "    Mon 2030-10-28 22:30 CET = Mon 2030-10-28 21:30 UTC",
        "    Tue 2030-10-29 22:30 CET = Tue 2030-10-29 21:30 UTC",
        "    Wed 2030-10-30 22:30 CET = Wed 2030-10-30 21:30 UTC",
        "    Thu 2030-10-31 22:30 CET = Thu 2030-10-31 21:30 UTC",
    ]
    for state in ("paused", "active"):
        document = operator.read("fleet", "schedule", "set", "nightly", state)
        assert document["state"] == state
        assert bool(document["next"]) is (state == "active")
        [found] = operator.read("fleet", "schedule", "list")
        assert found == document
    shown = operator.call("fleet", "schedule", "list", "nightly")
    assert "misfire    skip" in shown
    unknown = ("--after", "20260101-000000-abcdef")
    assert unknown[1] in operator.submit(*unknown, expected=RunNotFound.exit_code)
    refused = operator.submit(*rule, "--name", "nightly", expected=ExitCode.USAGE)
    assert "there is a schedule named 'nightly' already" in refused
    operator.call("fleet", "schedule", "remove", "nightly")
    assert operator.read("fleet", "schedule", "list") == []
    refused = operator.call(
        *("fleet", "schedule", "set", "nightly", "paused"), expected=ExitCode.USAGE
    )
    assert "`ldapslam fleet schedule list` shows all" in refused
