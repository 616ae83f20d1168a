# SPDX-License-Identifier: Apache-2.0
"""The store for the event loop: one thread, one write after the other.

Writes happen in the order in which they were posted. An export only reads, so it has
its own thread and connection. A store without room refuses what is awaited; what is
only posted is kept and written in order when there is room again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from ldapslam.base.errors import StoreFull
from ldapslam.results.records import IntervalRecord
from ldapslam.results.store import Store

_log = logging.getLogger(__name__)

#: Writes that wait for room; runs end without it, so they are few.
_MOST_KEPT = 100_000
_MOST_TOGETHER = 64

#: A report, and the future of its commit.
_Waiting = tuple[str, IntervalRecord, Future[bool]]

P = ParamSpec("P")
T = TypeVar("T")


class StoreWriter:
    """Calls on the store's thread. Close it to have them all done."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._kept: deque[Callable[[], object]] = deque()
        self._has_room = True
        self._reports: deque[_Waiting] = deque()
        try:
            self.store = self._executor.submit(Store.open, url).result()
        except BaseException:
            self._executor.shutdown()
            raise

    async def call(
        self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """The function's result, once everything posted before is done."""
        return await self.submit(function, *args, **kwargs)

    def submit(
        self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        """As `call`, to be awaited later."""
        work = partial(function, *args, **kwargs)
        future = self._executor.submit(self._do, work)
        return asyncio.wrap_future(future)

    async def add_interval(self, run_id: str, record: IntervalRecord) -> bool:
        """`Store.add_interval`, in one transaction with others that wait: a commit of
        many takes as long as of one. Each is answered when it is durable."""
        answer: Future[bool] = Future()
        self._reports.append((run_id, record, answer))
        self._executor.submit(self._add_reports)
        return await asyncio.wrap_future(answer)

    def _add_reports(self) -> None:
        """Add all waiting reports; later calls then find none."""
        taken: list[_Waiting] = []
        while self._reports and len(taken) < _MOST_TOGETHER:
            taken.append(self._reports.popleft())
        if not taken:
            return
        reports = [(run_id, record) for run_id, record, _ in taken]
        try:
            found = self._do(partial(self.store.add_intervals, reports))
        except Exception:
            # each alone shows which one fails
            for run_id, record, answer in taken:
                self._answer(answer, partial(self.store.add_interval, run_id, record))
            return
        for (_, _, answer), is_new in zip(taken, found, strict=True):
            self._answer(answer, partial(bool, is_new))

    def _answer(self, answer: Future[bool], work: Callable[[], bool]) -> None:
        if not answer.set_running_or_notify_cancel():
            return  # nobody waits for it any more; it is sent again
        try:
            answer.set_result(self._do(work))
        except Exception as error:
            answer.set_exception(error)

    def post(
        self, function: Callable[P, object], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Write it as soon as there is room; other errors are logged."""
        self._executor.submit(self._keep, partial(function, *args, **kwargs))

    def _do(self, work: Callable[[], T]) -> T:
        self._write_kept()
        return work()

    def _keep(self, work: Callable[[], object]) -> None:
        if len(self._kept) < _MOST_KEPT:
            self._kept.append(work)
        self._write_kept()

    def _write_kept(self) -> None:
        """Write what there is room for, in order."""
        while self._kept:
            try:
                self._kept[0]()
            except StoreFull as error:
                if self._has_room:
                    _log.error("%s", error)
                self._has_room = False
                return
            except Exception as error:
                _log.error("the store: %s", error, exc_info=error)
            self._kept.popleft()
            if not self._has_room:
                _log.warning("there is room in the store again")
                self._has_room = True

    async def flush(self) -> None:
        """Return when all posted is committed; StoreFull when some has no room."""
        await self.call(self._check_room)

    def _check_room(self) -> None:
        if self._kept:
            raise StoreFull(self.store.url, f"{len(self._kept)} writes wait for room")

    async def export(self, run_id: str) -> AsyncGenerator[bytes, None]:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, thread_name_prefix="export") as executor:
            chunks = _export(self._url, run_id)
            try:
                while chunk := await loop.run_in_executor(executor, next, chunks, b""):
                    yield chunk
            finally:
                # on the same thread, after a chunk that is being read
                await loop.run_in_executor(executor, chunks.close)

    async def close(self) -> None:
        await self.call(self.store.close)
        self._executor.shutdown()


def _export(url: str, run_id: str) -> Generator[bytes, None, None]:
    with Store.open(url, read_only=True) as store:
        yield from store.export_run(run_id)
