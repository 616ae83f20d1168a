# SPDX-License-Identifier: Apache-2.0
"""Has parts of runs collected while they go on, by the process that judges: the verdict
on a long run of many agents need not read all that they reported."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ldapslam.base.errors import StoreError
from ldapslam.coordinator.control import Coordinator
from ldapslam.coordinator.extension import Extension
from ldapslam.coordinator.observer import JudgedRun
from ldapslam.coordinator.security.guard import Server
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.proto import operator_pb2 as pb
from ldapslam.results.collected import CollectedPart, keep
from ldapslam.results.window import Window

_log = logging.getLogger(__name__)

#: A run with fewer is not collected while it goes on.
_FIRST_REPORTS = 20_000
#: Intervals until the next try, after one that failed.
_PAUSE = 60


class Collect(Protocol):
    async def __call__(
        self, run_id: str, first_index: int, last_index: int
    ) -> Mapping[str, object]:
        """Collect a part of a run within these intervals: `part` and `content`, where
        there is one that is not kept, and `next`, the last interval of the next one;
        `why`: none can be collected. OSError or ValueError without an answer."""


@dataclass(slots=True)
class _Following:
    """A run that goes on."""

    #: Since this coordinator began.
    reports: int = 0
    #: The first interval of what is not collected yet.
    first_index: int = 0
    #: The interval after which it is worth while to ask.
    due_index: int = 0
    task: asyncio.Task[None] | None = None


class PartCollector(Extension):
    def __init__(self, collect: Collect) -> None:
        self._collect = collect
        self._writer: StoreWriter | None = None
        self._runs: defaultdict[str, _Following] = defaultdict(_Following)

    async def start(self, coordinator: Coordinator, server: Server) -> None:
        self._writer = coordinator.writer

    async def stop(self) -> None:
        tasks = [one.task for one in self._runs.values() if one.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def interval_measured(
        self, run_id: str, figures: pb.IntervalFigures, window: Window
    ) -> None:
        run = self._runs[run_id]
        run.reports += len(window.reports["agent"])
        is_busy = run.task is not None and not run.task.done()
        is_due = run.reports >= _FIRST_REPORTS and figures.index >= run.due_index
        if is_due and not is_busy:
            run.task = asyncio.create_task(self._keep(run_id, run, figures.index))

    def run_judged(self, judged: JudgedRun) -> None:
        run = self._runs.pop(judged.record.run_id, None)
        if run is not None and run.task is not None:
            run.task.cancel()

    async def _keep(self, run_id: str, run: _Following, last_index: int) -> None:
        writer = self._writer
        assert writer is not None, "no run is measured before the start"
        try:
            answer = await self._collect(run_id, run.first_index, last_index)
            if "why" in answer:
                raise ValueError(answer["why"])
            part, content = answer.get("part"), answer.get("content")
            run.due_index = int(str(answer["next"]))
            if isinstance(part, dict) and isinstance(content, str):
                found = CollectedPart(**part)
                run.first_index = found.last_index + 1
                packed = b64decode(content, validate=True)
                await writer.call(keep, writer.store, run_id, found, packed)
        except (OSError, ValueError, KeyError, TypeError, StoreError) as error:
            _log.error("no part of run %s can be collected: %s", run_id, error)
            # the verdict reads their reports
            run.first_index, run.due_index = last_index + 1, last_index + _PAUSE
