# SPDX-License-Identifier: Apache-2.0
"""Asks a process of its own for the verdict of an ended run.

The process is reports/judge.py, which whoever starts the coordinator names: one at a
time, with low priority, within a limit of time. A run that cannot be judged has no
verdict, and stays as it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from ldapslam.jobs.child import ask

_log = logging.getLogger(__name__)

#: Twelve hours of four agents took 70 s, on two cores that were busy with others.
LIMIT_S = 300.0

_VERDICTS = ("PASS", "FAIL", "INVALID")


@dataclass(frozen=True, slots=True)
class Judgement:
    #: PASS, FAIL or INVALID; None: the run never began, or could not be judged.
    verdict: str | None = None
    #: Why the verdict is not PASS.
    reasons: tuple[str, ...] = ()


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
