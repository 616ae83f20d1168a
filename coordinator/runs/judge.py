# SPDX-License-Identifier: Apache-2.0
"""Verdicts of ended runs, from a process of its own (reports/judge.py).

One at a time, with low priority and a time limit. A run that cannot be judged has no
verdict.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from ldapslam.base.child import ask
from ldapslam.coordinator.observer import Observer
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.results.records import FINAL_STATES, RunRecord

_log = logging.getLogger(__name__)

#: Twelve hours of four agents took 70 s on two busy cores.
LIMIT_S = 300.0

_VERDICTS = ("PASS", "FAIL", "INVALID")
#: Runs without a verdict that a start judges.
_JUDGED_AT_START = 20


@dataclass(frozen=True, slots=True)
class Judgement:
    #: PASS, FAIL or INVALID; None: the run never began, or could not be judged.
    verdict: str | None = None
    reasons: tuple[str, ...] = ()


Judge = Callable[[str], Awaitable[Judgement]]


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
            return Judgement(verdict, tuple(map(str, answer.get("reasons", ()))))
        if verdict is not None or "why" in answer:
            why = answer.get("why", f"verdict {verdict!r}")
            _log.error("run %s could not be judged: %s", run_id, why)
        return Judgement()


class Verdicts:
    """Has runs judged that have ended, stores the verdict, and tells observers."""

    def __init__(
        self, writer: StoreWriter, judge: Judge | None, observers: Sequence[Observer]
    ) -> None:
        self._writer = writer
        self._judge = judge
        self._observers = observers
        self._tasks: set[asyncio.Task[None]] = set()

    def judge(self, record: RunRecord) -> None:
        """Judge a run in the background; the last that happens to it."""
        task = asyncio.create_task(self._judge_run(record))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

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

    async def stop(self) -> None:
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
                        self._writer.store.set_verdict, record.run_id, found.verdict
                    )
            except Exception:
                _log.exception("run %s cannot be judged", record.run_id)
        record = replace(record, verdict=found.verdict)
        for observer in self._observers:
            try:
                observer.run_judged(record, found.reasons)
            except Exception:
                _log.exception("run %s: an observer failed", record.run_id)
