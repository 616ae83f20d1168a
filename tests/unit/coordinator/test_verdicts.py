# SPDX-License-Identifier: Apache-2.0
"""Verdicts with their digests: signed, and given anew when more arrives."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ldapslam.base.errors import ConfigError, StoreBusy, StoreError
from ldapslam.coordinator.observer import KeyFigures, Observer
from ldapslam.coordinator.runs import judge as judge_module
from ldapslam.coordinator.runs.judge import Judgement, Standing, Verdicts
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.results.digest import canonical, sha256_of
from ldapslam.results.records import RunRecord, utc_text
from ldapslam.results.rows import note_addition
from ldapslam.results.store import Store
from support.store import RUN_ID, Scenario, fill

DOCUMENT = {"run_id": RUN_ID, "parts": {}, "word": "ä"}


class Seen(Observer):
    """Judges by a list of verdicts, signs, and notes what it was told."""

    def __init__(self, *verdicts: str) -> None:
        self.verdicts = list(verdicts)
        self.told: list[str | None] = []
        self.signed: list[bytes] = []
        #: Set when all verdicts are given.
        self.is_done = asyncio.Event()

    async def judge(self, run_id: str, *, looks_only: bool = False) -> Judgement:
        assert run_id == RUN_ID
        if looks_only:
            return Judgement("PASS", (), DOCUMENT)
        verdict = self.verdicts.pop(0)
        if not self.verdicts:
            self.is_done.set()
        return Judgement(verdict, ("why",), DOCUMENT)

    def sign(self, content: bytes) -> Mapping[str, str]:
        self.signed.append(content)
        return {"signer": "c1"}

    def run_judged(
        self,
        record: RunRecord,
        reasons: Sequence[str],
        ended_s: float | None,
        figures: KeyFigures,
    ) -> None:
        self.told.append(record.verdict)


@pytest.fixture
def store(runner: asyncio.Runner, writer: StoreWriter) -> Store:
    """Of a run that has just ended."""
    ended = {"verdict": None, "finished_utc": utc_text(datetime.now(UTC))}
    scenario = Scenario(run=ended, measure_s=2)
    runner.run(writer.call(fill, writer.store, scenario))
    return writer.store


def verdicts_of(writer: StoreWriter, seen: Seen) -> Verdicts:
    return Verdicts(writer, seen.judge, [seen], seen.sign)


async def judged_at_its_end(verdicts: Verdicts, store: Store) -> None:
    verdicts.judge(store.run(RUN_ID))
    await verdicts.wait()


async def stored_more(verdicts: Verdicts, store: Store) -> None:
    """What is added to a run in the store, without what it is."""

    def add() -> None:
        with store.transaction(writes=True) as connection:
            note_addition(connection, [RUN_ID])

    await verdicts._writer.call(add)


async def add_more(verdicts: Verdicts, store: Store) -> Standing:
    """As the agents' service does."""
    standing = await verdicts.before_late(RUN_ID)
    await stored_more(verdicts, store)
    verdicts.note_late(RUN_ID, standing)
    return standing


async def until_judged(seen: Seen, verdicts: Verdicts) -> None:
    """All of its verdicts are given, and stored."""
    await seen.is_done.wait()
    await verdicts.wait()


async def test_a_verdict_is_stored_with_its_signed_digest(
    writer: StoreWriter, store: Store
) -> None:
    seen = Seen("FAIL")
    verdicts = verdicts_of(writer, seen)
    verdicts.judge(store.run(RUN_ID))
    await verdicts.wait()
    run = store.run(RUN_ID)
    assert run.verdict == "FAIL"
    assert run.digest == {
        "document": DOCUMENT,
        "sha256": sha256_of(DOCUMENT),
        "signature": {"signer": "c1"},
    }
    assert seen.signed == [canonical(DOCUMENT)]
    assert seen.told == ["FAIL"]


class Failing(Seen):
    """Its process dies so often."""

    def __init__(self, failures: int, *verdicts: str) -> None:
        super().__init__(*(verdicts or ("PASS",)))
        self.failures = failures

    async def judge(self, run_id: str, *, looks_only: bool = False) -> Judgement:
        if self.failures:
            self.failures -= 1
            return Judgement(problem="its process ended with -9")
        return await super().judge(run_id, looks_only=looks_only)


@pytest.mark.parametrize(
    ("failures", "verdict", "events"), [(2, "PASS", 0), (3, None, 1)]
)
async def test_a_judge_that_fails_is_asked_again_and_then_the_run_says_why(
    writer: StoreWriter,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    failures: int,
    verdict: str | None,
    events: int,
) -> None:
    monkeypatch.setattr(judge_module, "_PAUSES_S", (0.0, 0.0))
    seen = Failing(failures)
    verdicts = verdicts_of(writer, seen)
    before = len(store.events(RUN_ID))
    verdicts.judge(store.run(RUN_ID))
    await verdicts.wait()
    await verdicts._writer.flush()
    assert store.run(RUN_ID).verdict == verdict
    added = store.events(RUN_ID)[before:]
    assert [one.kind for one in added] == ["not_judged"] * events
    assert all("ended with -9" in one.text for one in added)
    assert seen.told == [verdict]


async def test_a_key_that_signs_nothing_costs_no_verdict(
    writer: StoreWriter, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    class Unable(Seen):
        def sign(self, content: bytes) -> Mapping[str, str]:
            raise ConfigError("key.pem: cannot be read")

    caplog.set_level(logging.ERROR)
    verdicts = verdicts_of(writer, Unable("PASS"))
    verdicts.judge(store.run(RUN_ID))
    await verdicts.wait()
    run = store.run(RUN_ID)
    assert (run.verdict, run.digest and run.digest["signature"]) == ("PASS", None)
    assert "is not signed: key.pem" in caplog.text


@pytest.mark.parametrize(
    ("second", "told"), [("PASS", ["PASS"]), ("INVALID", ["PASS", "INVALID"])]
)
async def test_a_run_is_judged_again_when_no_more_of_it_comes(
    writer: StoreWriter,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    second: str,
    told: list[str],
) -> None:
    """Once for all that comes; until then it has its verdict, and observers hear of
    another one only."""
    monkeypatch.setattr(judge_module, "_QUIET_S", 0.1)
    seen = Seen("PASS", second)
    verdicts = verdicts_of(writer, seen)
    await judged_at_its_end(verdicts, store)
    # of two agents at once
    await asyncio.gather(*(verdicts.before_late(RUN_ID) for _ in range(2)))
    for _ in range(3):
        await add_more(verdicts, store)
        assert store.run(RUN_ID).verdict == "PASS"
    assert store.run(RUN_ID).unjudged == 3
    await until_judged(seen, verdicts)
    run = store.run(RUN_ID)
    assert (run.verdict, run.digest and run.digest["signature"]) == (
        second,
        {"signer": "c1"},
    )
    assert run.unjudged == 0
    assert seen.told == told


async def test_a_report_that_adds_nothing_leaves_verdict_and_digest(
    writer: StoreWriter, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_module, "_QUIET_S", 0.0)
    seen = Seen("PASS")
    verdicts = verdicts_of(writer, seen)
    await judged_at_its_end(verdicts, store)
    before = store.run(RUN_ID)
    verdicts.note_late(RUN_ID, await verdicts.before_late(RUN_ID))
    await verdicts.wait()
    assert store.run(RUN_ID) == before
    assert seen.told == ["PASS"]


async def test_what_comes_while_a_run_is_judged_has_it_judged_again(
    writer: StoreWriter, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_module, "_QUIET_S", 0.0)
    seen = Seen("INVALID", "PASS")
    verdicts = verdicts_of(writer, seen)
    verdicts.judge(store.run(RUN_ID))
    await add_more(verdicts, store)
    await until_judged(seen, verdicts)
    assert store.run(RUN_ID).verdict == "PASS"
    assert seen.told[-1] == "PASS"


async def test_what_comes_at_the_very_end_of_a_run_is_judged_too(
    writer: StoreWriter, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service took the report while the run was live: to it, it is not late."""
    monkeypatch.setattr(judge_module, "_QUIET_S", 0.0)

    class Meanwhile(Seen):
        async def judge(self, run_id: str, *, looks_only: bool = False) -> Judgement:
            if len(self.verdicts) == 2:
                await self.store_more()
            return await super().judge(run_id, looks_only=looks_only)

        store_more: Callable[[], Awaitable[None]]

    seen = Meanwhile("INVALID", "PASS")
    verdicts = verdicts_of(writer, seen)
    seen.store_more = lambda: stored_more(verdicts, store)
    verdicts.judge(store.run(RUN_ID))
    await until_judged(seen, verdicts)
    run = store.run(RUN_ID)
    assert (run.verdict, run.unjudged) == ("PASS", 0)
    assert seen.told == ["INVALID", "PASS"]


async def test_a_judge_that_fails_leaves_the_verdict_and_is_asked_at_the_next_start(
    writer: StoreWriter, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_module, "_QUIET_S", 0.0)
    monkeypatch.setattr(judge_module, "_PAUSES_S", ())
    seen = Failing(0, "PASS", "FAIL")
    verdicts = verdicts_of(writer, seen)
    await judged_at_its_end(verdicts, store)
    await add_more(verdicts, store)
    seen.failures = 1
    await verdicts.wait()
    run = store.run(RUN_ID)
    assert (run.verdict, run.unjudged) == ("PASS", 1)
    assert seen.told == ["PASS"]
    later = Verdicts(verdicts._writer, seen.judge, [seen], seen.sign)
    await later.judge_those_left()
    await later.wait()
    run = store.run(RUN_ID)
    assert (run.verdict, run.unjudged) == ("FAIL", 0)
    # it was signed, and nobody saw what came then
    assert run.digest
    assert run.digest["signature"] is None
    await later.judge_those_left()
    await later.wait()
    assert seen.told == ["PASS", "FAIL"]
    assert len(seen.signed) == 1


async def test_a_run_that_was_altered_is_not_signed_anew(
    writer: StoreWriter,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Somebody changed it in the store, and then a report comes late."""
    monkeypatch.setattr(judge_module, "_QUIET_S", 0.0)

    class Altered(Seen):
        async def judge(self, run_id: str, *, looks_only: bool = False) -> Judgement:
            found = await super().judge(run_id, looks_only=looks_only)
            return replace(found, altered=("job has others",) * looks_only)

    seen = Altered("FAIL")
    verdicts = verdicts_of(writer, seen)
    await judged_at_its_end(verdicts, store)
    before = store.run(RUN_ID)
    assert await add_more(verdicts, store) is Standing.ALTERED
    await verdicts.wait()
    assert store.run(RUN_ID) == before
    # nor at the next start
    await verdicts.judge_those_left()
    await verdicts.wait()
    assert store.run(RUN_ID) == before
    assert len(seen.signed) == 1
    assert "is not what was judged: job has others" in caplog.text


async def test_what_is_altered_after_a_duplicate_is_not_signed_either(
    writer: StoreWriter, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report that adds nothing has the run looked at, and the next one again."""
    monkeypatch.setattr(judge_module, "_QUIET_S", 0.0)

    class AlteredLater(Seen):
        looks = 0

        async def judge(self, run_id: str, *, looks_only: bool = False) -> Judgement:
            self.looks += looks_only
            found = await super().judge(run_id, looks_only=looks_only)
            return replace(found, altered=("job has others",) * (self.looks > 1))

    seen = AlteredLater("FAIL")
    verdicts = verdicts_of(writer, seen)
    await judged_at_its_end(verdicts, store)
    for standing in (Standing.SOUND, Standing.ALTERED):
        assert await verdicts.before_late(RUN_ID) is standing
        verdicts.note_late(RUN_ID, standing)
        await verdicts.wait()
    assert seen.looks == 2


async def test_who_hangs_up_before_it_stores_leaves_nothing_for_the_next(
    writer: StoreWriter, store: Store
) -> None:
    class Slow(Seen):
        looks = 0

        async def judge(self, run_id: str, *, looks_only: bool = False) -> Judgement:
            self.looks += looks_only
            if self.looks == 1:
                asking.cancel()
            return await super().judge(run_id, looks_only=looks_only)

    seen = Slow("FAIL")
    verdicts = verdicts_of(writer, seen)
    await judged_at_its_end(verdicts, store)
    asking = asyncio.create_task(verdicts.before_late(RUN_ID))
    await asyncio.wait([asking])
    while verdicts._checks:
        await asyncio.to_thread(int)  # others have their turn
    assert await verdicts.before_late(RUN_ID) is Standing.SOUND
    assert seen.looks == 2


async def test_a_run_that_cannot_be_looked_at_is_asked_for_again_but_not_for_ever(
    writer: StoreWriter, store: Store
) -> None:
    class Blind(Seen):
        looks = 0

        async def judge(self, run_id: str, *, looks_only: bool = False) -> Judgement:
            self.looks += looks_only
            if looks_only:
                return Judgement()
            return await super().judge(run_id)

    seen = Blind("FAIL")
    verdicts = verdicts_of(writer, seen)
    verdicts.judge(store.run(RUN_ID))
    await verdicts.wait()
    for _ in range(2):
        with pytest.raises(StoreError, match="cannot be looked at"):
            await verdicts.before_late(RUN_ID)
        await asyncio.to_thread(int)  # the check is forgotten
    assert await verdicts.before_late(RUN_ID) is Standing.UNSEEN
    assert seen.looks == 3


async def test_a_verdict_is_stored_as_soon_as_the_store_takes_it(
    writer: StoreWriter, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_module, "_QUIET_S", 0.0)
    set_verdict, faults = Store.set_verdict, [StoreBusy("results.sqlite", 10)]

    def busy_first(*args: Any, **kwargs: Any) -> None:
        if faults:
            raise faults.pop()
        set_verdict(*args, **kwargs)

    verdicts = verdicts_of(writer, Seen("FAIL"))
    monkeypatch.setattr(Store, "set_verdict", busy_first)
    verdicts.judge(store.run(RUN_ID))
    await verdicts.wait()
    assert store.run(RUN_ID).verdict == "FAIL"


async def test_what_lay_in_the_store_for_long_is_judged_and_not_signed(
    writer: StoreWriter, store: Store
) -> None:
    seen = Seen("PASS")
    verdicts = verdicts_of(writer, seen)
    old = utc_text(datetime.now(UTC) - timedelta(hours=1))
    store.set_run_state(RUN_ID, "finished", finished_utc=old)
    await verdicts.judge_those_left()
    await verdicts.wait()
    run = store.run(RUN_ID)
    assert run.verdict == "PASS"
    assert run.digest
    assert run.digest["signature"] is None
    assert seen.signed == []


@pytest.mark.parametrize("hours", [1, -1])
async def test_a_run_that_has_just_ended_is_signed_whatever_the_clock_is_set_to(
    writer: StoreWriter, store: Store, hours: int
) -> None:
    seen = Seen("PASS")
    verdicts = verdicts_of(writer, seen)
    ended = utc_text(datetime.now(UTC) - timedelta(hours=hours))
    store.set_run_state(RUN_ID, "finished", finished_utc=ended)
    verdicts.judge(store.run(RUN_ID))
    await verdicts.wait()
    assert len(seen.signed) == 1


async def test_a_run_that_ends_in_the_future_is_not_signed_at_a_start(
    writer: StoreWriter, store: Store
) -> None:
    """The clock was set back since: when it ended, nobody knows."""
    seen = Seen("PASS")
    verdicts = verdicts_of(writer, seen)
    later = utc_text(datetime.now(UTC) + timedelta(minutes=10))
    store.set_run_state(RUN_ID, "finished", finished_utc=later)
    await verdicts.judge_those_left()
    await verdicts.wait()
    assert store.run(RUN_ID).verdict == "PASS"
    assert seen.signed == []


async def test_a_stopped_coordinator_judges_nothing_more(
    writer: StoreWriter, store: Store
) -> None:
    seen = Seen("PASS")
    verdicts = verdicts_of(writer, seen)
    verdicts.note_late(RUN_ID, Standing.SOUND)
    assert seen.verdicts == ["PASS"]
