# SPDX-License-Identifier: Apache-2.0
"""Has parts of runs collected while they go on, by the process that judges: the verdict
on a long run of many agents need not read all that they reported."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode
from collections import Counter
from collections.abc import Mapping
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


class Collect(Protocol):
    async def __call__(self, run_id: str, last_index: int) -> Mapping[str, object]:
        """Collect a part of a run that ends with this interval, or before it: `part`
        and `content`, where there is one that is not kept, and `next`, the last
        interval of the next one. OSError or ValueError without an answer."""


class PartCollector(Extension):
    def __init__(self, collect: Collect) -> None:
        self._collect = collect
        self._writer: StoreWriter | None = None
        self._reports: Counter[str] = Counter()
        #: Run -> the last interval of the part that is collected next.
        self._due: dict[str, int] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def start(self, coordinator: Coordinator, server: Server) -> None:
        self._writer = coordinator.writer

    async def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def interval_measured(
        self, run_id: str, figures: pb.IntervalFigures, window: Window
    ) -> None:
        self._reports[run_id] += len(window.reports["agent"])
        is_due = figures.index >= self._due.get(run_id, 0)
        has_enough = self._reports[run_id] >= _FIRST_REPORTS
        if is_due and has_enough and run_id not in self._tasks:
            task = asyncio.create_task(self._keep(run_id, figures.index))
            self._tasks[run_id] = task
            task.add_done_callback(lambda _: self._tasks.pop(run_id))

    def run_judged(self, judged: JudgedRun) -> None:
        self._reports.pop(judged.record.run_id, None)
        self._due.pop(judged.record.run_id, None)

    async def _keep(self, run_id: str, last_index: int) -> None:
        writer = self._writer
        assert writer is not None, "no run is measured before the start"
        # without an answer the verdict reads the reports
        self._due[run_id] = last_index + _FIRST_REPORTS
        try:
            answer = await self._collect(run_id, last_index)
            part, content = answer.get("part"), answer.get("content")
            if isinstance(part, dict) and isinstance(content, str):
                found = CollectedPart(**part), b64decode(content, validate=True)
                await writer.call(keep, writer.store, run_id, *found)
            self._due[run_id] = int(str(answer["next"]))
        except (OSError, ValueError, KeyError, TypeError, StoreError) as error:
            _log.error("no part of run %s can be collected: %s", run_id, error)
