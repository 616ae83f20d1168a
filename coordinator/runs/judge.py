# SPDX-License-Identifier: Apache-2.0
"""Verdicts of ended runs, from a process of its own (reports/judge.py).

One at a time, with low priority and a time limit. A process that fails is started again
a few times; then the run has no verdict, and an event that says why.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Protocol

from ldapslam.base.child import ask
from ldapslam.base.errors import (
    LdapSlamError,
    RunNotFound,
    StoreError,
    StoreFull,
    StoreRefused,
)
from ldapslam.coordinator.observer import Observer
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.results.digest import canonical, stored_digest
from ldapslam.results.records import FINAL_STATES, RunRecord, utc_text

_log = logging.getLogger(__name__)

#: Twelve hours of four agents took 70 s on two busy cores.
LIMIT_S = 300.0

_VERDICTS = ("PASS", "FAIL", "INVALID")
#: Runs without a verdict that a start judges.
_JUDGED_AT_START = 20
#: Late reports of an agent come one after the other.
_QUIET_S = 5.0
#: Of a run's end: others wait for the judge as well.
_SIGNED_WITHIN = timedelta(minutes=30)
_READER_WAITS_S = 20.0
#: Longer than what is added takes to be stored.
_CHECK_HOLDS_S = 60.0
#: Of a run that the judge cannot read; then it goes without.
_MOST_LOOKS = 3
#: Before each further try of a judgement that failed.
_PAUSES_S = (1.0, 5.0, 15.0)


@dataclass(frozen=True, slots=True)
class Judgement:
    #: PASS, FAIL or INVALID; None: the run never began, or could not be judged.
    verdict: str | None = None
    reasons: tuple[str, ...] = ()
    #: What binds them to what was measured: reports/digest.py.
    document: Mapping[str, Any] = field(default_factory=dict)
    #: What of the stored run is not what was judged before.
    altered: tuple[str, ...] = ()
    #: Why there is no verdict of a run that should have one.
    problem: str = ""


class Judge(Protocol):
    async def __call__(self, run_id: str, *, looks_only: bool = False) -> Judgement:
        """Judge a run as it is now; `looks_only`: is it what was judged before?"""


#: The signature of a document in canonical JSON.
Sign = Callable[[bytes], Mapping[str, str]]


class JudgeProcess:
    """Judges the runs of one store; the log says why one could not be judged."""

    def __init__(
        self, command: Sequence[str], store_url: str, *, limit_s: float = LIMIT_S
    ) -> None:
        self._command = command
        self._store_url = store_url
        self._limit_s = limit_s
        self._one_at_a_time = asyncio.Lock()

    async def __call__(self, run_id: str, *, looks_only: bool = False) -> Judgement:
        question = {"store": self._store_url, "run_id": run_id}
        question["limit_s"] = f"{self._limit_s:.0f}"
        question["looks_only"] = "yes" if looks_only else ""
        async with self._one_at_a_time:
            try:
                answer = await ask(self._command, question, self._limit_s)
            except (OSError, ValueError) as error:
                answer = {"why": str(error)}
        verdict = answer.get("verdict")
        if verdict in _VERDICTS:
            reasons = tuple(map(str, answer.get("reasons", ())))
            altered = tuple(map(str, answer.get("altered", ())))
            return Judgement(verdict, reasons, answer.get("document", {}), altered)
        if verdict is not None or "why" in answer:
            why = answer.get("why", f"verdict {verdict!r}")
            _log.error("run %s could not be judged: %s", run_id, why)
            return Judgement(problem=str(why))
        return Judgement()


class Verdicts:
    """Has runs judged that have ended, stores the verdict with a digest of what it is
    of, and tells observers."""

    def __init__(
        self,
        writer: StoreWriter,
        judge: Judge | None,
        observers: Sequence[Observer],
        sign: Sign | None = None,
    ) -> None:
        self._writer = writer
        self._judge = judge
        self._observers = observers
        self._sign = sign
        #: Of which run.
        self._tasks: dict[asyncio.Task[None], str] = {}
        #: Ended run -> when more of it was stored.
        self._late: dict[str, float] = {}
        #: Ended run -> was it as judged, just now?
        self._checks: dict[str, asyncio.Task[bool]] = {}
        #: Ended run -> how often nothing could be found out of it.
        self._unseen: Counter[str] = Counter()

    def judge(self, record: RunRecord) -> None:
        """Judge a run in the background; the last that happens to it."""
        self._start(self._judge_run(record), record.run_id)

    def _start(self, work: Coroutine[Any, Any, None], run_id: str) -> None:
        task = asyncio.create_task(work)
        self._tasks[task] = run_id
        task.add_done_callback(self._tasks.pop)

    async def before_late(self, run_id: str) -> bool:
        """More of an ended run is about to be stored: is what it will be added to still
        what was judged? Only then `note_late` is for it."""
        if self._judge is None or run_id in self._late:
            return True
        check = self._checks.get(run_id)
        if check is None:
            check = asyncio.create_task(self._is_as_judged(run_id))
            self._checks[run_id] = check
            check.add_done_callback(partial(self._forget_later, run_id))
        # another one's addition may have come before the check
        return await asyncio.shield(check) or run_id in self._late

    def _forget_later(self, run_id: str, check: asyncio.Task[bool]) -> None:
        """Others may be about to add to the run as it was then; a check that failed
        tells them nothing."""
        is_known = not check.cancelled() and check.exception() is None
        hold_s = _CHECK_HOLDS_S if is_known else 0.0
        asyncio.get_running_loop().call_later(hold_s, self._forget, run_id, check)

    def _forget(self, run_id: str, check: asyncio.Task[bool]) -> None:
        if self._checks.get(run_id) is check:
            del self._checks[run_id]

    def note_late(self, run_id: str) -> None:
        """More of an ended run was stored. It is judged, and signed, again when nothing
        more comes; until then its reports say that it has more."""
        if self._judge is None:
            return
        is_known = run_id in self._late
        self._late[run_id] = asyncio.get_running_loop().time()
        if not is_known:
            self._start(self._judge_late(run_id), run_id)

    async def _is_as_judged(self, run_id: str) -> bool:
        assert self._judge is not None
        record = await self._writer.call(self._writer.store.run, run_id)
        if record.digest is None:
            return record.verdict is None  # it is about to be judged
        found = await self._judge(run_id, looks_only=True)
        if found.verdict is None:
            self._unseen[run_id] += 1
            if self._unseen[run_id] < _MOST_LOOKS:  # the agent sends its report again
                raise StoreError(f"run {run_id} cannot be looked at: see the log")
            return False
        if found.altered:
            why = "; ".join(found.altered)
            _log.error("run %s is not what was judged: %s", run_id, why)
        return not found.altered

    async def _judge_late(self, run_id: str) -> None:
        loop = asyncio.get_running_loop()
        first = [task for task, of in self._tasks.items() if of == run_id]
        others = [task for task in first if task is not asyncio.current_task()]
        if others:
            await asyncio.wait(others)
        try:
            while True:
                while (left_s := self._late[run_id] + _QUIET_S - loop.time()) > 0:
                    await asyncio.sleep(left_s)
                at_s = self._late[run_id]
                record = await self._writer.call(self._writer.store.run, run_id)
                await self._judge_run(record, is_late=True)
                if self._late[run_id] == at_s:
                    return
        finally:
            del self._late[run_id]
            self._checks.pop(run_id, None)

    async def judge_those_left(self) -> None:
        """Runs whose end was stored, but not their verdict."""
        if self._judge is None:
            return
        records = await self._writer.call(
            self._writer.store.runs, _JUDGED_AT_START, states=FINAL_STATES
        )
        for record in records:
            if record.verdict is None:
                self.judge(record)

    async def wait(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def wait_for(self, run_id: str) -> None:
        """Until the run is judged, or for so long that a reader goes without it."""
        if tasks := [task for task, of in self._tasks.items() if of == run_id]:
            await asyncio.wait(tasks, timeout=_READER_WAITS_S)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _judge_run(self, record: RunRecord, *, is_late: bool = False) -> None:
        found = Judgement()
        if self._judge is not None:
            try:
                found = await self._judged(record)
                if found.verdict is not None:
                    digest = await self._digest(found.document, record, is_late=is_late)
                    await self._store(record.run_id, found.verdict, digest)
            except Exception:
                _log.exception("run %s cannot be judged", record.run_id)
        if record.verdict is not None and record.verdict == found.verdict:
            return  # judged again, and as before
        record = replace(record, verdict=found.verdict)
        for observer in self._observers:
            try:
                observer.run_judged(record, found.reasons)
            except Exception:
                _log.exception("run %s: an observer failed", record.run_id)

    async def _judged(self, record: RunRecord) -> Judgement:
        """By a process that may fail: it dies, or the host has no memory left."""
        assert self._judge is not None
        run_id = record.run_id
        found = await self._judge(run_id)
        for pause_s in _PAUSES_S:
            if not found.problem:
                return found
            await asyncio.sleep(pause_s)
            found = await self._judge(run_id)
        if found.problem and record.verdict is None:
            text = f"the run could not be judged: {found.problem}"
            now_utc = utc_text(datetime.now(UTC))
            add_event = self._writer.store.add_event
            self._writer.post(add_event, run_id, "not_judged", text, now_utc)
        return found

    async def _store(
        self, run_id: str, verdict: str, digest: Mapping[str, Any] | None
    ) -> None:
        """As soon as the store takes it."""
        while True:
            try:
                set_verdict = self._writer.store.set_verdict
                return await self._writer.call(set_verdict, run_id, verdict, digest)
            except (RunNotFound, StoreFull, StoreRefused):
                raise
            except StoreError as error:
                _log.warning("run %s: its verdict has to wait: %s", run_id, error)
                await asyncio.sleep(_QUIET_S)

    async def _digest(
        self, document: Mapping[str, Any], record: RunRecord, *, is_late: bool
    ) -> dict[str, Any] | None:
        """As the store keeps it: without a signature, where there is nobody to sign, or
        where the run lay in the store for long: who knows what became of it there."""
        if not document:
            return None
        signature = None
        if self._sign is not None and (is_late or _has_just_ended(record)):
            try:
                signature = await asyncio.to_thread(self._sign, canonical(document))
            except LdapSlamError as error:
                _log.error("run %s is not signed: %s", document["run_id"], error)
        return stored_digest(document, signature)


def _has_just_ended(record: RunRecord) -> bool:
    if record.finished_utc is None:
        return False
    since = datetime.now(UTC) - datetime.fromisoformat(record.finished_utc)
    return since < _SIGNED_WITHIN
