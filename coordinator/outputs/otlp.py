# SPDX-License-Identifier: Apache-2.0
"""Sends figures of runs to a collector by OTLP: each interval, and a span of the run.

A thread of its own sends. What the collector does not take is lost, and counted: it
never holds up a run. Totals are cumulative: the next export makes up for a lost one.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Any, Protocol

from prometheus_client.metrics_core import Metric

from ldapslam.base.errors import ConfigError
from ldapslam.base.log_format import without_passwords
from ldapslam.coordinator.bounds import Bound, note_exceeded
from ldapslam.coordinator.control import Coordinator
from ldapslam.coordinator.extension import Extension
from ldapslam.coordinator.outputs.families import run_families
from ldapslam.coordinator.outputs.shown_runs import RunFigures, ShownRuns
from ldapslam.proto import operator_pb2 as pb
from ldapslam.proto.common_pb2 import Snapshot
from ldapslam.results.records import RunRecord, unix_ns, utc_text

_log = logging.getLogger(__name__)

#: Exports that wait.
MOST_WAITING = 100
#: A verdict that comes later after a run's end is not sent.
_KEPT_S = 3600.0
#: Characters of why something was lost.
_MAX_REASON = 300
#: At the end, for what waits.
_STOP_GRACE_S = 5.0


class Link(Protocol):
    """otlp_link.OtlpLink."""

    def send_figures(
        self, families: Sequence[Metric], start_ns: int, time_ns: int
    ) -> str: ...

    def send_span(self, record: RunRecord) -> str: ...

    def close(self) -> None: ...


#: Sends something; why it was not taken, or empty.
_Export = Callable[[Link], str]


def check_installed() -> None:
    """ConfigError when the library is not there."""
    try:
        is_there = importlib.util.find_spec("opentelemetry.exporter.otlp.proto.http")
    except ModuleNotFoundError:  # a part of its path
        is_there = None
    if is_there is None:
        raise ConfigError(
            "--otlp needs OpenTelemetry's exporter, which is not there",
            hint="pip install 'opentelemetry-exporter-otlp-proto-http>=1.30'",
        )


def _new_link(url: str) -> Link:
    from ldapslam.coordinator.outputs.otlp_link import OtlpLink

    return OtlpLink(url)


class Otlp(Extension):
    """All but the sending is on the event loop."""

    def __init__(
        self,
        url: str,
        runs: ShownRuns,
        *,
        new_link: Callable[[str], Link] = _new_link,
    ) -> None:
        self._url = url
        self._runs = runs
        runs.keep_for(_KEPT_S)
        self._shown_url = without_passwords(url)
        self._new_link = new_link
        self._link: Link | None = None
        self._queue: SimpleQueue[tuple[str, _Export] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._coordinator: Coordinator | None = None
        #: Run -> exports that are not done, and those that were lost.
        self._waiting: Counter[str] = Counter()
        self._lost: Counter[str] = Counter()
        #: Run -> why the first one was.
        self._why: dict[str, str] = {}
        self._is_taken = True
        self._judged: set[str] = set()

    async def check(self) -> None:
        check_installed()

    async def start(self, coordinator: Coordinator, server: Any) -> None:
        self._coordinator = coordinator
        coordinator.bounds[Bound.OTLP] = lambda: self._waiting.total(), MOST_WAITING
        self._link = self._new_link(self._url)
        self._thread = threading.Thread(
            target=_send,
            args=(self._queue, self._link, asyncio.get_running_loop(), self._sent),
            name="otlp",
            daemon=True,
        )
        self._thread.start()
        _log.info("figures go to %s", self._shown_url)

    async def stop(self) -> None:
        if self._thread is None or self._link is None:
            return
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join, _STOP_GRACE_S)
        if self._thread.is_alive():
            self._link.close()
        await asyncio.sleep(0)  # what the thread has to say
        for run_id, count in (+self._waiting).items():
            self._lose(
                run_id, "it had not taken them when the coordinator ended", count
            )
        for run_id in list(self._lost):
            self._conclude(run_id)

    def interval_measured(
        self, run_id: str, figures: pb.IntervalFigures, snapshots: Sequence[Snapshot]
    ) -> None:
        run = self._runs.run(run_id)
        if run is not None and run.t0_utc:
            self._put_figures(run, unix_ns(run.t0_utc) + figures.end_ns)

    def run_judged(
        self, record: RunRecord, reasons: Sequence[str], ended_s: float | None
    ) -> None:
        run = self._runs.run(record.run_id)
        if run is None or not run.t0_utc:
            return
        if record.verdict is not None and record.finished_utc:
            self._put_figures(run, unix_ns(record.finished_utc))
        self._put(record.run_id, lambda link: link.send_span(record))
        self._judged.add(record.run_id)
        self._conclude_judged(record.run_id)  # nothing of it may have found room

    def _put_figures(self, run: RunFigures, time_ns: int) -> None:
        start_ns = unix_ns(run.t0_utc) + run.totals_from_ns
        # families are made by the thread, one export at a time: they are large
        now = run.copy()
        self._put(
            run.run_id,
            lambda link: link.send_figures(
                list(run_families([now])), start_ns, time_ns
            ),
        )

    def _put(self, run_id: str, export: _Export) -> None:
        if self._waiting.total() < MOST_WAITING:
            self._waiting[run_id] += 1
            self._queue.put((run_id, export))
        else:
            note_exceeded(Bound.OTLP)
            self._lose(run_id, f"{MOST_WAITING} exports wait already")

    def _sent(self, run_id: str, why: str) -> None:
        self._waiting[run_id] -= 1
        if why:
            self._lose(run_id, why)
        elif not self._is_taken:
            _log.info("%s takes figures again", self._shown_url)
            self._is_taken = True
        self._conclude_judged(run_id)

    def _lose(self, run_id: str, why: str, count: int = 1) -> None:
        # a library's words, or the collector's: they may quote the URL
        why = without_passwords(why)[:_MAX_REASON]
        if self._is_taken:
            _log.warning("%s does not take figures: %s", self._shown_url, why)
        self._is_taken = False
        self._why.setdefault(run_id, why)
        self._lost[run_id] += count

    def _conclude_judged(self, run_id: str) -> None:
        if run_id in self._judged and not self._waiting[run_id]:
            self._judged.discard(run_id)
            self._conclude(run_id)

    def _conclude(self, run_id: str) -> None:
        """Say what was lost of a run, and forget it."""
        del self._waiting[run_id]
        lost, why = self._lost.pop(run_id, 0), self._why.pop(run_id, "")
        if not lost or self._coordinator is None:
            return
        text = f"{lost} exports to {self._shown_url} were lost: {why}"
        writer = self._coordinator.writer
        at_utc = utc_text(datetime.now(UTC))
        writer.post(writer.store.add_event, run_id, "otlp_lost", text, at_utc)


def _send(
    queue: SimpleQueue[tuple[str, _Export] | None],
    link: Link,
    loop: asyncio.AbstractEventLoop,
    sent: Callable[[str, str], None],
) -> None:
    while (item := queue.get()) is not None:
        run_id, export = item
        try:
            why = export(link)
        except Exception as error:
            _log.debug("an export", exc_info=True)
            why = f"{type(error).__name__}: {error}"
        try:
            loop.call_soon_threadsafe(sent, run_id, why)
        except RuntimeError:  # the loop is closed: nobody waits for it any more
            return
