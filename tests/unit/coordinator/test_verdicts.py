# SPDX-License-Identifier: Apache-2.0
"""Verdicts with their digests: signed, and given anew when more arrives."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ldapslam.base.errors import ConfigError, StoreBusy, StoreError
from ldapslam.coordinator.observer import Observer
from ldapslam.coordinator.runs import judge as judge_module
from ldapslam.coordinator.runs.judge import Judgement, Verdicts
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.results.digest import canonical, sha256_of
from ldapslam.results.records import RunRecord, utc_text
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

    def run_judged(self, record: RunRecord, reasons: Sequence[str]) -> None:
        self.told.append(record.verdict)


def in_a_store(
    folder: Path, seen: Seen, test: Callable[[Verdicts, Store], Awaitable[None]]
) -> None:
    async def run() -> None:
        writer = StoreWriter(str(folder / "results.sqlite"))
        verdicts = Verdicts(writer, seen.judge, [seen], seen.sign)
        ended = {"verdict": None, "finished_utc": utc_text(datetime.now(UTC))}
        scenario = Scenario(run=ended, measure_s=2)
        await writer.call(fill, writer.store, scenario)
        async with asyncio.timeout(30):
            await test(verdicts, writer.store)
            await verdicts.stop()
        await writer.close()

    asyncio.run(run())


async def until_judged(seen: Seen, verdicts: Verdicts) -> None:
    """All of its verdicts are given, and stored."""
    await seen.is_done.wait()
    await verdicts.wait()


def test_a_verdict_is_stored_with_its_signed_digest(tmp_path: Path) -> None:
    seen = Seen("FAIL")

    async def test(verdicts: Verdicts, store: Store) -> None:
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

    in_a_store(tmp_path, seen, test)
    assert seen.told == ["FAIL"]


class Failing(Seen):
    """Its process dies so often."""

    def __init__(self, failures: int) -> None:
        super().__init__("PASS")
        self.failures = failures

    async def judge(self, run_id: str, *, looks_only: bool = False) -> Judgement:
        if self.failures:
            self.failures -= 1
            return Judgement(problem="its process ended with -9")
        return await super().judge(run_id, looks_only=looks_only)


@pytest.mark.parametrize(
    ("failures", "verdict", "events"), [(2, "PASS", 0), (3, None, 1)]
)
def test_a_judge_that_fails_is_asked_again_and_then_the_run_says_why(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failures: int,
    verdict: str | None,
    events: int,
) -> None:
    monkeypatch.setattr(judge_module, "_PAUSES_S", (0.0, 0.0))
    seen = Failing(failures)

    async def test(verdicts: Verdicts, store: Store) -> None:
        before = len(store.events(RUN_ID))
        verdicts.judge(store.run(RUN_ID))
        await verdicts.wait()
        await verdicts._writer.flush()
        assert store.run(RUN_ID).verdict == verdict
        added = store.events(RUN_ID)[before:]
        assert [one.kind for one in added] == ["not_judged"] * events
        assert all("ended with -9" in one.text for one in added)

    in_a_store(tmp_path, seen, test)
    assert seen.told == [verdict]


def test_a_key_that_signs_nothing_costs_no_verdict(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Unable(Seen):
        def sign(self, content: bytes) -> Mapping[str, str]:
            raise ConfigError("key.pem: cannot be read")

    async def test(verdicts: Verdicts, store: Store) -> None:
        verdicts.judge(store.run(RUN_ID))
        await verdicts.wait()
        run = store.run(RUN_ID)
        assert (run.verdict, run.digest and run.digest["signature"]) == ("PASS", None)

    with caplog.at_level(logging.ERROR):
        in_a_store(tmp_path, Unable("PASS"), test)
    assert "is not signed: key.pem" in caplog.text


@pytest.mark.parametrize(
    ("second", "told"), [("PASS", ["PASS"]), ("INVALID", ["PASS", "INVALID"])]
)
def test_a_run_is_judged_again_when_no_more_of_it_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: str, told: list[str]
) -> None:
    """Once for all that comes; until then it has its verdict, and observers hear of
    another one only."""
    monkeypatch.setattr(judge_module, "_QUIET_S", 0.1)
    seen = Seen("PASS", second)

    async def test(verdicts: Verdicts, store: Store) -> None:
        verdicts.judge(store.run(RUN_ID))
        await verdicts.wait()
        # of two agents at once
        await asyncio.gather(*(verdicts.before_late(RUN_ID) for _ in range(2)))
        for _ in range(3):
            assert await verdicts.before_late(RUN_ID)
            verdicts.note_late(RUN_ID)
            assert store.run(RUN_ID).verdict == "PASS"
        await until_judged(seen, verdicts)
        run = store.run(RUN_ID)
        assert (run.verdict, run.digest and run.digest["signature"]) == (
            second,
            {"signer": "c1"},
        )

    in_a_store(tmp_path, seen, test)
    assert seen.told == told


def test_what_comes_while_a_run_is_judged_has_it_judged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_module, "_QUIET_S", 0.0)
    seen = Seen("INVALID", "PASS")

    async def test(verdicts: Verdicts, store: Store) -> None:
        verdicts.judge(store.run(RUN_ID))
        assert await verdicts.before_late(RUN_ID)
        verdicts.note_late(RUN_ID)
        await until_judged(seen, verdicts)
        assert store.run(RUN_ID).verdict == "PASS"

    in_a_store(tmp_path, seen, test)
    assert seen.told == ["INVALID", "PASS"]


def test_a_run_that_was_altered_is_not_signed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody changed it in the store, and then a report comes late."""
    monkeypatch.setattr(judge_module, "_QUIET_S", 0.0)

    class Altered(Seen):
        async def judge(self, run_id: str, *, looks_only: bool = False) -> Judgement:
            found = await super().judge(run_id, looks_only=looks_only)
            return replace(found, altered=("job has others",) * looks_only)

    seen = Altered("FAIL")

    async def test(verdicts: Verdicts, store: Store) -> None:
        verdicts.judge(store.run(RUN_ID))
        await verdicts.wait()
        before = store.run(RUN_ID)
        assert not await verdicts.before_late(RUN_ID)
        await verdicts.wait()
        assert store.run(RUN_ID) == before

    in_a_store(tmp_path, seen, test)
    assert len(seen.signed) == 1
    assert "is not what was judged: job has others" in caplog.text


def test_what_is_altered_after_a_duplicate_is_not_signed_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report that adds nothing has the run looked at, and the next one again."""
    monkeypatch.setattr(judge_module, "_CHECK_HOLDS_S", 0.0)

    class AlteredLater(Seen):
        looks = 0

        async def judge(self, run_id: str, *, looks_only: bool = False) -> Judgement:
            self.looks += looks_only
            found = await super().judge(run_id, looks_only=looks_only)
            return replace(found, altered=("job has others",) * (self.looks > 1))

    seen = AlteredLater("FAIL")

    async def test(verdicts: Verdicts, store: Store) -> None:
        verdicts.judge(store.run(RUN_ID))
        await verdicts.wait()
        assert await verdicts.before_late(RUN_ID)
        while await verdicts.before_late(RUN_ID):
            await asyncio.to_thread(int)  # others have their turn

    in_a_store(tmp_path, seen, test)
    assert seen.looks == 2


def test_a_run_that_cannot_be_looked_at_is_asked_for_again_but_not_for_ever(
    tmp_path: Path,
) -> None:
    class Blind(Seen):
        looks = 0

        async def judge(self, run_id: str, *, looks_only: bool = False) -> Judgement:
            self.looks += looks_only
            if looks_only:
                return Judgement()
            return await super().judge(run_id)

    seen = Blind("FAIL")

    async def test(verdicts: Verdicts, store: Store) -> None:
        verdicts.judge(store.run(RUN_ID))
        await verdicts.wait()
        for _ in range(2):
            with pytest.raises(StoreError, match="cannot be looked at"):
                await verdicts.before_late(RUN_ID)
            await asyncio.to_thread(int)  # the check is forgotten
        assert not await verdicts.before_late(RUN_ID)

    in_a_store(tmp_path, seen, test)
    assert seen.looks == 3


def test_a_verdict_is_stored_as_soon_as_the_store_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_module, "_QUIET_S", 0.0)
    set_verdict, faults = Store.set_verdict, [StoreBusy("results.sqlite", 10)]

    def busy_first(*args: Any, **kwargs: Any) -> None:
        if faults:
            raise faults.pop()
        set_verdict(*args, **kwargs)

    async def test(verdicts: Verdicts, store: Store) -> None:
        monkeypatch.setattr(Store, "set_verdict", busy_first)
        verdicts.judge(store.run(RUN_ID))
        await verdicts.wait()
        assert store.run(RUN_ID).verdict == "FAIL"

    in_a_store(tmp_path, Seen("FAIL"), test)


def test_what_lay_in_the_store_for_long_is_judged_and_not_signed(
    tmp_path: Path,
) -> None:
    seen = Seen("PASS")

    async def test(verdicts: Verdicts, store: Store) -> None:
        old = utc_text(datetime.now(UTC) - timedelta(hours=1))
        store.set_run_state(RUN_ID, "finished", finished_utc=old)
        await verdicts.judge_those_left()
        await verdicts.wait()
        run = store.run(RUN_ID)
        assert run.verdict == "PASS"
        assert run.digest
        assert run.digest["signature"] is None

    in_a_store(tmp_path, seen, test)
    assert seen.signed == []


def test_a_stopped_coordinator_judges_nothing_more(tmp_path: Path) -> None:
    seen = Seen("PASS")

    async def test(verdicts: Verdicts, store: Store) -> None:
        verdicts.note_late(RUN_ID)

    in_a_store(tmp_path, seen, test)
    assert seen.verdicts == ["PASS"]
