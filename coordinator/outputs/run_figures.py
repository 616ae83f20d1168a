# SPDX-License-Identifier: Apache-2.0
"""What is shown of runs while they go: states, and the figures of their last interval.

No I/O, and the clock is a parameter. What it keeps is bounded: the figures
of an ended run go a while after its end, so that whoever asks now and then still sees
the last of them, and of very many streams only the newest runs' are kept.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ldapslam.jobs.phases import DRAIN
from ldapslam.proto import operator_pb2 as pb
from ldapslam.results.records import FINAL_STATES, RunRecord

#: Figures of an ended run are shown so long.
KEPT_S = 60.0
MAX_RUNS = 100
MAX_STREAMS = 500


@dataclass(slots=True)
class StreamFigures:
    """One stream of a run: of the last planned interval, and since the run's start."""

    last: pb.StreamFigures
    completed: int = 0
    errors: int = 0
    dropped: int = 0


@dataclass(slots=True)
class RunFigures:
    run_id: str
    job_name: str
    state: str
    agents: int = 0
    #: None before the first interval.
    interval: pb.IntervalFigures | None = None
    streams: dict[str, StreamFigures] = field(default_factory=dict)
    #: When it ended, on the clock; None of a live run.
    ended_s: float | None = None


class Watchlist:
    """The runs of a coordinator."""

    def __init__(
        self, now_s: Callable[[], float] = time.monotonic, since_utc: str = ""
    ) -> None:
        """Runs that ended before `since_utc` may be judged now; they are not news."""
        self._now_s = now_s
        self._since_utc = since_utc
        #: In the order in which they were first heard of.
        self._runs: dict[str, RunFigures] = {}
        #: (state, verdict or "none") -> runs that ended since the start.
        self.ended: Counter[tuple[str, str]] = Counter()

    def run_changed(self, status: pb.RunStatus) -> None:
        run = self._runs.get(status.run_id)
        is_over = status.state in FINAL_STATES
        if run is None:
            if is_over:
                return
            run = RunFigures(status.run_id, status.job_name, status.state)
            self._runs[status.run_id] = run
        run.state, run.agents = status.state, len(status.agents)
        if is_over and run.ended_s is None:
            run.ended_s = self._now_s()

    def interval_measured(self, run_id: str, figures: pb.IntervalFigures) -> None:
        run = self._runs.get(run_id)
        if run is None:
            return
        # a drain is as long as it happens to be: its rates mean nothing
        is_drain = figures.phase == DRAIN and run.interval is not None
        if not is_drain:
            run.interval = figures
        for row in figures.streams:
            stream = run.streams.setdefault(row.stream, StreamFigures(row))
            if not is_drain:
                stream.last = row
            stream.completed += row.completed
            stream.errors += row.errors
            stream.dropped += row.dropped

    def run_judged(self, record: RunRecord) -> None:
        if (record.finished_utc or self._since_utc) >= self._since_utc:
            self.ended[record.state, record.verdict or "none"] += 1
        run = self._runs.get(record.run_id)
        if run is not None:
            run.state = record.state
            run.ended_s = run.ended_s or self._now_s()

    def states(self) -> Counter[str]:
        """State -> live runs."""
        return Counter(run.state for run in self._runs.values() if run.ended_s is None)

    def shown(self) -> Iterator[RunFigures]:
        """The runs with figures, the newest first, as many as are shown."""
        self._forget()
        streams, shown = 0, 0
        for run in reversed(self._runs.values()):
            if run.interval is None:
                continue
            streams, shown = streams + len(run.streams), shown + 1
            if streams > MAX_STREAMS or shown > MAX_RUNS:
                return
            yield run

    def _forget(self) -> None:
        before_s = self._now_s() - KEPT_S
        gone = [
            run_id
            for run_id, run in self._runs.items()
            if run.ended_s is not None and run.ended_s < before_s
        ]
        for run_id in gone:
            del self._runs[run_id]
