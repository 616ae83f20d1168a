# SPDX-License-Identifier: Apache-2.0
"""The store for the event loop: one thread, one write after the other.

Writes happen in the order in which they were posted, those that wait in one
transaction. An export only reads, so it has its own thread and connection.

A store that is full, locked or away refuses what is awaited; what is only posted is
kept until it is written, and nothing is acknowledged before (`flush`). A write that the
store will never take ends its run. Where the store is another coordinator's, nothing is
acknowledged any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from ldapslam.base.errors import (
    RunNotFound,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreRefused,
    StoreTaken,
)
from ldapslam.coordinator.bounds import Bound, note_exceeded
from ldapslam.results import audit
from ldapslam.results.audit import AuditRecord
from ldapslam.results.records import IntervalRecord, Taken
from ldapslam.results.store import Store

_log = logging.getLogger(__name__)

#: Writes that wait for the store; runs end without it, so they are few.
MOST_KEPT = 100_000
#: Reports of one transaction.
_MOST_TOGETHER = 256
#: How long the first of them waits for others.
_GATHER_S = 0.05
#: Until a locked store is asked again, unless by `flush`: it holds the thread for long.
_RETRY_S = 1.0
#: How long a coordinator that starts waits for a database that is away.
_START_S = 10.0

#: A write; of its arguments, the first text is a run's id.
Work = partial[object]
#: A report, and the future of its commit.
_Waiting = tuple[str, IntervalRecord, asyncio.Future[Taken]]

P = ParamSpec("P")
T = TypeVar("T")


def when_there(url: str, call: Callable[[], T]) -> T:
    """Return what a call of a coordinator that starts returns; the server of its store
    may be starting, too."""
    patience_s = _START_S if url.startswith("postgresql") else 0.0
    until_s = time.monotonic() + patience_s
    while True:
        try:
            return call()
        except StoreError as error:
            # the subclasses know that it is there
            if type(error) is not StoreError or time.monotonic() >= until_s:
                raise
            _log.warning("%s: it is tried for %g s", error, _START_S)
            time.sleep(_RETRY_S)


class StoreWriter:
    """Calls on the store's thread. Close it to have them all done."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._kept: deque[Work] = deque()
        #: Run -> why a write of it was given up.
        self._refused: dict[str, StoreRefused] = {}
        #: Why the writes that are kept are not written; None when they are.
        self.failure: StoreError | None = None
        #: Until then, calls wait for a database that is away.
        self.is_started = False
        self._retry_s = 0.0
        self._is_woken = False
        self._reports: deque[_Waiting] = deque()
        self._gathering: asyncio.TimerHandle | None = None
        try:
            self.store = self._executor.submit(
                when_there, url, partial(Store.open, url)
            ).result()
        except BaseException:
            self._executor.shutdown()
            raise

    async def call(
        self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """The function's result, once everything posted before is done."""
        if self.is_started:
            return await self.submit(function, *args, **kwargs)
        work = partial(function, *args, **kwargs)
        return await self.submit(when_there, self._url, work)

    async def call_noted(
        self,
        note: AuditRecord,
        change: Callable[P, T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """`call`, for a change that is kept together with a note of it."""
        work = partial(change, *args, **kwargs)
        return await self.call(audit.noted, self.store, note, work)

    def submit(
        self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        """As `call`, to be awaited later."""
        work = partial(function, *args, **kwargs)
        future = self._executor.submit(self._do, work)
        return asyncio.wrap_future(future)

    async def add_interval(self, run_id: str, record: IntervalRecord) -> Taken:
        """`Store.add_interval`, in one transaction with others that wait: a commit of
        many takes as long as of one. Each is answered when it is durable."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Taken] = loop.create_future()
        self._reports.append((run_id, record, answer))
        if self._gathering is None:
            self._gathering = loop.call_later(_GATHER_S, self._gathered)
        return await answer

    def _gathered(self) -> None:
        self._gathering = None
        self._wake()

    def _wake(self) -> None:
        """Have what waits written: once for all of it, as others need the thread."""
        if not self._is_woken:
            self._is_woken = True
            self._executor.submit(self._work)

    def _work(self) -> None:
        # first: what comes from now on wakes the thread again
        self._is_woken = False
        self._write_kept()
        self._add_reports()
        if self._reports:
            self._wake()

    def _add_reports(self) -> None:
        taken: list[_Waiting] = []
        while self._reports and len(taken) < _MOST_TOGETHER:
            taken.append(self._reports.popleft())
        if not taken:
            return
        reports = [(run_id, record) for run_id, record, _ in taken]
        became: Sequence[Taken | Exception]
        try:
            became = self._do(partial(self.store.add_intervals, reports))
        except (RunNotFound, StoreRefused):
            # each alone shows which one fails
            became = [self._add_report(run_id, record) for run_id, record in reports]
        except Exception as error:
            became = [error] * len(taken)
        answers = [answer for _, _, answer in taken]
        answers[0].get_loop().call_soon_threadsafe(_answer, answers, became)

    def _add_report(self, run_id: str, record: IntervalRecord) -> Taken | Exception:
        try:
            return self._do(partial(self.store.add_interval, run_id, record))
        except Exception as error:
            return error

    def post(
        self, function: Callable[P, object], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Write it as soon as the store takes it."""
        work = partial(function, *args, **kwargs)
        if len(self._kept) < MOST_KEPT:
            self._kept.append(work)
            self._wake()
        else:
            note_exceeded(Bound.STORE_WRITES)
            self._refuse(work, StoreRefused(f"more than {MOST_KEPT} writes wait"))

    @property
    def waiting(self) -> int:
        """Writes that were posted and are not written yet."""
        return len(self._kept)

    def retry(self) -> None:
        """Try again to write what is kept, if it is time to."""
        if self.failure is not None:
            self._wake()

    def keep_claim(self) -> None:
        """Look whether a server's database still keeps other coordinators out."""
        if self.store.path is None and self.failure is None:
            self.post(self.store.keep_claim)

    @property
    def is_over(self) -> bool:
        """Nothing more will ever be written."""
        return isinstance(self.failure, StoreTaken)

    def _do(self, work: Callable[[], T]) -> T:
        self._write_kept()
        try:
            return work()
        except StoreTaken as error:
            self._fail(error)
            raise

    def _write_kept(self, *, at_once: bool = False) -> None:
        """Write what the store takes, in order."""
        if not self._kept or (time.monotonic() < self._retry_s and not at_once):
            return
        if self.is_over:
            return
        waiting = [self._kept.popleft() for _ in range(len(self._kept))]
        try:
            self._write_all(waiting)
        except StoreError as error:
            self._fail(error)
            self._kept.extendleft(reversed(waiting))
            return
        if self.failure is not None and not self.is_over:
            _log.warning("the store takes writes again")
            self.failure = None

    def _write_all(self, waiting: list[Work]) -> None:
        """Removes what is written. StoreError: the first that is left is not taken."""
        try:
            with self.store.together():
                for work in waiting:
                    work()
            waiting.clear()
        except (StoreBusy, StoreFull):
            raise
        except Exception:
            while waiting:  # one of them spoils the others
                self._write(waiting[0])
                del waiting[0]

    def _write(self, work: Work) -> None:
        try:
            work()
        except RunNotFound as error:
            _log.warning("a write of a run that was removed: %s", error)
        except StoreTaken:
            raise
        except StoreRefused as error:
            self._refuse(work, error)
        except StoreError:
            raise
        except Exception as error:
            self._refuse(work, StoreRefused(f"a write failed: {error}"))

    def _refuse(self, work: Work, error: StoreRefused) -> None:
        """The store will never take it: what waits for its run's writes is told."""
        _log.error("%s", error, exc_info=error)
        of_run = next((one for one in work.args if isinstance(one, str)), "")
        self._refused[of_run] = error

    def _fail(self, error: StoreError) -> None:
        if type(error) is not type(self.failure):
            _log.error("%s", error)
        self.failure = error
        if isinstance(error, StoreBusy):
            self._retry_s = time.monotonic() + _RETRY_S

    async def flush(self, run_id: str = "") -> None:
        """Return when all posted is committed. StoreError when some is not;
        StoreRefused, once, when some of this run will never be."""
        await asyncio.wrap_future(self._executor.submit(self._check, run_id))

    def _check(self, run_id: str) -> None:
        self._write_kept(at_once=True)
        if self.failure is not None:
            waiting = f"{len(self._kept)} writes wait"
            if isinstance(self.failure, StoreFull):
                raise StoreFull(self.store.url, f"{waiting} for room")
            raise StoreError(f"{waiting} for the store: {self.failure}")
        if run_id in self._refused:
            raise self._refused.pop(run_id)

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
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathered()
        with contextlib.suppress(StoreError):  # it is logged
            await self.flush()
        await self.call(self.store.close)
        self._executor.shutdown()


def _answer(
    answers: Sequence[asyncio.Future[Taken]], became: Sequence[Taken | Exception]
) -> None:
    """One wake-up of the loop for all of them."""
    for answer, one in zip(answers, became, strict=True):
        if answer.done():
            continue  # nobody waits for it any more; it is sent again
        if isinstance(one, Exception):
            answer.set_exception(one)
        else:
            answer.set_result(one)


def _export(url: str, run_id: str) -> Generator[bytes, None, None]:
    with Store.open(url, read_only=True) as store:
        yield from store.export_run(run_id)
