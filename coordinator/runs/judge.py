# SPDX-License-Identifier: Apache-2.0
"""Verdicts of ended runs, from a process of its own (reports/judge.py).

One at a time, with low priority and a time limit. A run that cannot be judged has no
verdict.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ldapslam.base.child import ask
from ldapslam.base.errors import LdapSlamError
from ldapslam.coordinator.observer import Observer
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.results.digest import canonical, digest_of
from ldapslam.results.records import FINAL_STATES, RunRecord

_log = logging.getLogger(__name__)

#: Twelve hours of four agents took 70 s on two busy cores.
LIMIT_S = 300.0

_VERDICTS = ("PASS", "FAIL", "INVALID")
#: Runs without a verdict that a start judges.
_JUDGED_AT_START = 20
#: Late reports of an agent come one after the other.
_QUIET_S = 5.0
_READER_WAITS_S = 20.0


@dataclass(frozen=True, slots=True)
class Judgement:
    #: PASS, FAIL or INVALID; None: the run never began, or could not be judged.
    verdict: str | None = None
    reasons: tuple[str, ...] = ()
    #: What binds them to what was measured: reports/digest.py.
    document: Mapping[str, Any] = field(default_factory=dict)


Judge = Callable[[str], Awaitable[Judgement]]
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

    async def __call__(self, run_id: str) -> Judgement:
        question = {"store": self._store_url, "run_id": run_id}
        question["limit_s"] = f"{self._limit_s:.0f}"
        async with self._one_at_a_time:
            try:
                answer = await ask(self._command, question, self._limit_s)
            except (OSError, ValueError) as error:
                answer = {"why": str(error)}
        verdict = answer.get("verdict")
        if verdict in _VERDICTS:
            reasons = tuple(map(str, answer.get("reasons", ())))
            return Judgement(verdict, reasons, answer.get("document", {}))
        if verdict is not None or "why" in answer:
            why = answer.get("why", f"verdict {verdict!r}")
            _log.error("run %s could not be judged: %s", run_id, why)
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
        #: Run -> what it was, and when it is judged again.
        self._again: dict[str, tuple[RunRecord, asyncio.TimerHandle]] = {}

    def judge(self, record: RunRecord) -> None:
        """Judge a run in the background; the last that happens to it."""
        task = asyncio.create_task(self._judge_run(record))
        self._tasks[task] = record.run_id
        task.add_done_callback(self._tasks.pop)

    async def reopen(self, run_id: str) -> None:
        """More of an ended run was stored: the verdict that it has, or is about to get,
        is of less. It is judged again when nothing more comes."""
        if self._judge is None:
            return
        store = self._writer.store
        record = await self._writer.call(store.run, run_id)
        if run_id in self._again:
            record, timer = self._again[run_id]
            timer.cancel()
        elif record.verdict is not None:
            await self._writer.call(store.set_verdict, run_id, None)
        loop = asyncio.get_running_loop()
        timer = loop.call_later(_QUIET_S, self._judge_again, record)
        self._again[run_id] = record, timer

    def _judge_again(self, record: RunRecord) -> None:
        del self._again[record.run_id]
        self.judge(record)

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
        for _, timer in self._again.values():
            timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _judge_run(self, record: RunRecord) -> None:
        found = Judgement()
        if self._judge is not None:
            try:
                found = await self._judge(record.run_id)
                if found.verdict is not None:
                    await self._writer.call(
                        self._writer.store.set_verdict,
                        record.run_id,
                        found.verdict,
                        await self._digest(found.document),
                    )
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

    async def _digest(self, document: Mapping[str, Any]) -> dict[str, Any] | None:
        """As the store keeps it: without a signature, where there is nobody to sign."""
        if not document:
            return None
        signature = None
        if self._sign is not None:
            try:
                signature = await asyncio.to_thread(self._sign, canonical(document))
            except LdapSlamError as error:
                _log.error("run %s is not signed: %s", document["run_id"], error)
        return digest_of(document, signature)
