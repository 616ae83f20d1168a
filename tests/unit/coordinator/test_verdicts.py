# SPDX-License-Identifier: Apache-2.0
"""Verdicts with their digests: signed, and given anew when more arrives."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ldapslam.base.errors import ConfigError, StoreBusy, StoreError
from ldapslam.coordinator.observer import JudgedRun, Observer
from ldapslam.coordinator.runs import judge as judge_module
from ldapslam.coordinator.runs.judge import Judgement, Standing, Verdicts
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.results.digest import canonical, sha256_of
from ldapslam.results.records import RunRecord, utc_text
from ldapslam.results.rows import note_addition
from ldapslam.results.store import Store
from support.store import RUN_ID, Scenario, fill

DOCUMENT: Any = {"run_id": RUN_ID, "parts": {}, "word": "ä"}
DIED = Judgement(problem="its process ended with -9")
SOUND = Judgement("PASS", (), DOCUMENT)
ALTERED = Judgement("PASS", (), DOCUMENT, altered=("job has others",))
UNSEEN = Judgement()


class Court(Observer):
    """Verdicts on one run; judges it by a list, signs, and notes what it was told."""

    def __init__(self, writer: StoreWriter) -> None:
        self.writer = writer
        self.store = writer.store
        #: Still to be given; a Judgement is given as it is.
        self.verdicts: list[str | Judgement] = []
        #: What it sees when it only looks, the last of them for ever.
        self.looks = [SOUND]
        self.looked = 0
        self.told: list[str | None] = []
        self.signed: list[bytes] = []
        #: Set when all verdicts are given.
        self.is_done = asyncio.Event()
        #: Done before each judgement.
        self.before: Callable[[], Awaitable[None]] | None = None
        self.start()

    def start(self) -> None:
        """As each process of a coordinator does."""
        self.given = Verdicts(self.writer, self.judge, [self], self.sign)

    async def judge(
        self, run_id: str, reports: int = 0, *, looks_only: bool = False
    ) -> Judgement:
        assert run_id == RUN_ID
        if self.before is not None:
            await self.before()
        if looks_only:
            self.looked += 1
            return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        verdict = self.verdicts.pop(0)
        if not self.verdicts:
            self.is_done.set()
        if isinstance(verdict, Judgement):
            return verdict
        return Judgement(verdict, ("why",), DOCUMENT)

    def sign(self, content: bytes) -> Mapping[str, str]:
        self.signed.append(content)
        return {"signer": "c1"}

    def run_judged(self, judged: JudgedRun) -> None:
        self.told.append(judged.record.verdict)

    @property
    def run(self) -> RunRecord:
        return self.store.run(RUN_ID)

    async def judge_at_its_end(self, *verdicts: str | Judgement) -> None:
        """Give the first of these verdicts, as when a run ends."""
        self.verdicts += verdicts
        self.given.judge(self.run)
        await self.given.wait()

    async def judge_at_a_start(self) -> None:
        await self.given.judge_those_left()
        await self.given.wait()

    async def store_more(self) -> None:
        """Add to the run in the store, without what it is."""

        def add() -> None:
            with self.store.transaction(writes=True) as connection:
                note_addition(connection, [RUN_ID])

        await self.writer.call(add)

    async def add_more(self) -> Standing:
        """As the agents' service does."""
        standing = await self.given.before_late(RUN_ID)
        await self.store_more()
        self.given.note_late(RUN_ID, standing)
        return standing

    async def until_judged(self) -> None:
        """All of its verdicts are given, and stored."""
        await self.is_done.wait()
        await self.given.wait()


@pytest.fixture
def court(
    runner: asyncio.Runner, writer: StoreWriter, monkeypatch: pytest.MonkeyPatch
) -> Court:
    """A court that judges a run that has just ended."""
    monkeypatch.setattr(judge_module, "_QUIET_S", 0.0)
    monkeypatch.setattr(judge_module, "_PAUSES_S", (0.0, 0.0))
    ended = {"verdict": None, "finished_utc": utc_text(datetime.now(UTC))}
    scenario = Scenario(run=ended, measure_s=2)
    runner.run(writer.call(fill, writer.store, scenario))
    return Court(writer)


async def test_a_verdict_is_stored_with_its_signed_digest(court: Court) -> None:
    await court.judge_at_its_end("FAIL")
    assert court.run.verdict == "FAIL"
    assert court.run.digest == {
        "document": DOCUMENT,
        "sha256": sha256_of(DOCUMENT),
        "signature": {"signer": "c1"},
    }
    assert court.signed == [canonical(DOCUMENT)]
    assert court.told == ["FAIL"]


@pytest.mark.parametrize(
    ("failures", "verdict", "events"), [(2, "PASS", 0), (3, None, 1)]
)
async def test_a_judge_that_fails_is_asked_again_and_then_the_run_says_why(
    court: Court, failures: int, verdict: str | None, events: int
) -> None:
    before = len(court.store.events(RUN_ID))
    await court.judge_at_its_end(*[DIED] * failures, "PASS")
    await court.writer.flush()
    assert court.run.verdict == verdict
    added = court.store.events(RUN_ID)[before:]
    assert [one.kind for one in added] == ["not_judged"] * events
    assert all("ended with -9" in one.text for one in added)
    assert court.told == [verdict]


async def test_a_key_that_signs_nothing_costs_no_verdict(
    court: Court, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def sign(content: bytes) -> Mapping[str, str]:
        raise ConfigError("key.pem: cannot be read")

    caplog.set_level(logging.ERROR)
    monkeypatch.setattr(court, "sign", sign)
    court.start()
    await court.judge_at_its_end("PASS")
    assert court.run.verdict == "PASS"
    assert court.run.digest
    assert court.run.digest["signature"] is None
    assert "is not signed: key.pem" in caplog.text


@pytest.mark.parametrize(
    ("second", "told"), [("PASS", ["PASS"]), ("INVALID", ["PASS", "INVALID"])]
)
async def test_a_run_is_judged_again_when_no_more_of_it_comes(
    court: Court, monkeypatch: pytest.MonkeyPatch, second: str, told: list[str]
) -> None:
    """Once for all that comes; until then it has its verdict, and observers hear of
    another one only."""
    monkeypatch.setattr(judge_module, "_QUIET_S", 0.1)
    await court.judge_at_its_end("PASS", second)
    # of two agents at once
    await asyncio.gather(*(court.given.before_late(RUN_ID) for _ in range(2)))
    for _ in range(3):
        await court.add_more()
        assert court.run.verdict == "PASS"
    assert court.run.unjudged == 3
    await court.until_judged()
    assert (court.run.verdict, court.run.unjudged) == (second, 0)
    assert court.run.digest
    assert court.run.digest["signature"] == {"signer": "c1"}
    assert court.told == told


async def test_a_report_that_adds_nothing_leaves_verdict_and_digest(
    court: Court,
) -> None:
    await court.judge_at_its_end("PASS")
    before = court.run
    court.given.note_late(RUN_ID, await court.given.before_late(RUN_ID))
    await court.given.wait()
    assert court.run == before
    assert court.told == ["PASS"]


async def test_what_comes_while_a_run_is_judged_has_it_judged_again(
    court: Court,
) -> None:
    court.verdicts += ["INVALID", "PASS"]
    court.given.judge(court.run)
    await court.add_more()
    await court.until_judged()
    assert court.run.verdict == "PASS"
    assert court.told[-1] == "PASS"


async def test_what_comes_at_the_very_end_of_a_run_is_judged_too(court: Court) -> None:
    """The service took the report while the run was live: to it, it is not late."""

    async def store_more_once() -> None:
        court.before = None
        await court.store_more()

    court.before = store_more_once
    await court.judge_at_its_end("INVALID", "PASS")
    await court.until_judged()
    assert (court.run.verdict, court.run.unjudged) == ("PASS", 0)
    assert court.told == ["INVALID", "PASS"]


async def test_a_judge_that_fails_leaves_the_verdict_and_is_asked_at_the_next_start(
    court: Court, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_module, "_PAUSES_S", ())
    await court.judge_at_its_end("PASS", DIED, "FAIL")
    await court.add_more()
    await court.given.wait()
    assert (court.run.verdict, court.run.unjudged) == ("PASS", 1)
    assert court.told == ["PASS"]
    court.start()
    await court.judge_at_a_start()
    assert (court.run.verdict, court.run.unjudged) == ("FAIL", 0)
    # it was signed, and nobody saw what came then
    assert court.run.digest
    assert court.run.digest["signature"] is None
    await court.judge_at_a_start()
    assert court.told == ["PASS", "FAIL"]
    assert len(court.signed) == 1


async def test_a_run_that_was_altered_is_not_signed_anew(
    court: Court, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody changed it in the store, and then a report comes late."""
    court.looks = [ALTERED]
    await court.judge_at_its_end("FAIL")
    before = court.run
    assert await court.add_more() is Standing.ALTERED
    await court.given.wait()
    assert court.run == before
    # nor at the next start
    await court.judge_at_a_start()
    assert court.run == before
    assert len(court.signed) == 1
    assert "is not what was judged: job has others" in caplog.text


async def test_what_is_altered_after_a_duplicate_is_not_signed_either(
    court: Court,
) -> None:
    """A report that adds nothing has the run looked at, and the next one again."""
    court.looks = [SOUND, ALTERED]
    await court.judge_at_its_end("FAIL")
    for standing in (Standing.SOUND, Standing.ALTERED):
        assert await court.given.before_late(RUN_ID) is standing
        court.given.note_late(RUN_ID, standing)
        await court.given.wait()
    assert court.looked == 2


async def test_who_hangs_up_before_it_stores_leaves_nothing_for_the_next(
    court: Court,
) -> None:
    async def hang_up_once() -> None:
        court.before = None
        asking.cancel()

    await court.judge_at_its_end("FAIL")
    court.before = hang_up_once
    asking = asyncio.create_task(court.given.before_late(RUN_ID))
    await asyncio.wait([asking])
    while court.given._checks:
        await asyncio.to_thread(int)  # others have their turn
    assert await court.given.before_late(RUN_ID) is Standing.SOUND
    assert court.looked == 2


async def test_a_run_that_cannot_be_looked_at_is_asked_for_again_but_not_for_ever(
    court: Court,
) -> None:
    court.looks = [UNSEEN]
    await court.judge_at_its_end("FAIL")
    for _ in range(2):
        with pytest.raises(StoreError, match="cannot be looked at"):
            await court.given.before_late(RUN_ID)
        await asyncio.to_thread(int)  # the check is forgotten
    assert await court.given.before_late(RUN_ID) is Standing.UNSEEN
    assert court.looked == 3


async def test_a_verdict_is_stored_as_soon_as_the_store_takes_it(
    court: Court, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_verdict, faults = Store.set_verdict, [StoreBusy("results.sqlite", 10)]

    def busy_first(*args: Any, **kwargs: Any) -> None:
        if faults:
            raise faults.pop()
        set_verdict(*args, **kwargs)

    monkeypatch.setattr(Store, "set_verdict", busy_first)
    await court.judge_at_its_end("FAIL")
    assert court.run.verdict == "FAIL"


@pytest.mark.parametrize(
    ("ended", "at_a_start", "signatures"),
    [
        # what lay in the store for long, or ended in the future, is not signed
        (timedelta(hours=-1), True, 0),
        (timedelta(minutes=10), True, 0),
        # a run that has just ended is, whatever the clock is set to
        (timedelta(hours=-1), False, 1),
        (timedelta(hours=1), False, 1),
    ],
)
async def test_a_run_is_signed_when_its_end_was_seen(
    court: Court, ended: timedelta, at_a_start: bool, signatures: int
) -> None:
    ended_utc = utc_text(datetime.now(UTC) + ended)
    court.store.set_run_state(RUN_ID, "finished", finished_utc=ended_utc)
    if at_a_start:
        court.verdicts = ["PASS"]
        await court.judge_at_a_start()
    else:
        await court.judge_at_its_end("PASS")
    assert court.run.verdict == "PASS"
    assert court.run.digest
    assert (court.run.digest["signature"] is not None) == bool(signatures)
    assert len(court.signed) == signatures


async def test_a_stopped_coordinator_judges_nothing_more(court: Court) -> None:
    court.verdicts = ["PASS"]
    court.given.note_late(RUN_ID, Standing.SOUND)
    assert court.verdicts == ["PASS"]
