# SPDX-License-Identifier: Apache-2.0
"""A store read by several processes, each with a connection of its own."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

from ldapslam.base.errors import ReportError
from ldapslam.base.process import end_with_parent
from ldapslam.results.store import Store

T = TypeVar("T")


def in_order(
    store: Store, calls: Sequence[Callable[[Store], T]]
) -> Generator[T, None, None]:
    """What these functions of a store return, in their order, few at a time. They are
    sent to processes. ReportError: a process ended before its time."""
    processes = min(len(calls), len(os.sched_getaffinity(0)))
    # no other process can open a store in memory, or with a password
    if store.path is None or processes <= 1:
        yield from (call(store) for call in calls)
        return
    import multiprocessing
    from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor

    # not forked: the caller may have threads
    context = multiprocessing.get_context("spawn")
    # they hold pipes to each other: without it they would survive this process
    pool = ProcessPoolExecutor(processes, context, initializer=end_with_parent)
    waiting: deque[Future[T]] = deque()
    with pool as executor:
        try:
            for call in calls:
                waiting.append(executor.submit(_called, store.url, call))
                if len(waiting) > processes:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenExecutor as error:
            raise ReportError(
                "a process that read the run ended before its time",
                hint="what it wrote on stderr says why",
            ) from error


def _called(url: str, call: Callable[[Store], T]) -> T:
    with Store.open(url, read_only=True) as store:
        return call(store)
