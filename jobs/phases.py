# SPDX-License-Identifier: Apache-2.0
"""The time line of a run: its phases and the ends of its intervals.

All times are ns relative to T0, the common start of all agents. Both are computed from
the job alone, so every agent and the coordinator have the same ones. The drain follows
the last phase; it has no planned end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ldapslam.jobs.model import Run

DRAIN = "drain"
MEASURE = "measure"

#: An interval shorter than this share of the nominal one joins its neighbour.
_SLIVER_DIVISOR = 10


@dataclass(frozen=True)
class PhaseSpan:
    """One phase: from start_ns up to, not including, end_ns."""

    name: str
    start_ns: int
    end_ns: int


def phase_spans(run: Run) -> tuple[PhaseSpan, ...]:
    """The phases with a length, in order and without gaps, from 0; no drain."""
    spans: list[PhaseSpan] = []
    start_ns = 0
    for name, length_ns in (
        ("ramp_up", run.ramp_up_ns),
        ("warm_up", run.warm_up_ns),
        (MEASURE, run.duration_ns),
        ("cool_down", run.cool_down_ns),
    ):
        if length_ns:
            spans.append(PhaseSpan(name, start_ns, start_ns + length_ns))
            start_ns += length_ns
    return tuple(spans)


def planned_end_ns(run: Run) -> int:
    """Length of the time line, without the drain."""
    return phase_spans(run)[-1].end_ns


def measure_span(run: Run) -> PhaseSpan:
    return next(span for span in phase_spans(run) if span.name == MEASURE)


def interval_boundaries_ns(run: Run) -> tuple[int, ...]:
    """Ends of the intervals, ascending: the multiples of the interval since T0, and the
    end of every phase, so that no interval belongs to two phases. A piece shorter than
    a tenth of the interval joins its neighbour within the phase."""
    ends: list[int] = []
    sliver_ns = run.interval_ns // _SLIVER_DIVISOR
    for span in phase_spans(run):
        first = span.start_ns // run.interval_ns + 1
        ends += (
            end_ns
            for end_ns in range(first * run.interval_ns, span.end_ns, run.interval_ns)
            if end_ns - span.start_ns >= sliver_ns and span.end_ns - end_ns >= sliver_ns
        )
        ends.append(span.end_ns)
    return tuple(ends)


def phase_at(spans: Sequence[PhaseSpan], time_ns: int) -> str:
    """Name of the phase of a time since T0; `drain` after the last one."""
    for span in spans:
        if time_ns < span.end_ns:
            return span.name
    return DRAIN
