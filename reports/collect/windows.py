# SPDX-License-Identifier: Apache-2.0
"""When each stream was measured: the measure phase, cut to the stream's own times.

Pure.
A stream may start after T0, stop before the run does, or end when its count of
operations is done. Its throughput is over the part of the measure phase in which it was
at work, else it would look slower the sooner it was through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ldapslam.reports.collect.timeline import NS_PER_S
from ldapslam.reports.collect.totals import Collected, StreamTotals


@dataclass(frozen=True, slots=True)
class Window:
    """One stream's part of the measure phase."""

    #: Length of it; None when the stream was not at work in the measure phase.
    measure_s: float | None
    #: From the stream's start to its last response, whatever the phase; None without
    #: one, and of a stream that did not reach its count.
    elapsed_s: float | None


def window_of(
    planned: Mapping[str, Any],
    totals: StreamTotals,
    collected: Collected,
    *,
    is_short: bool = False,
) -> Window:
    """`planned` is the stream in the run's plan; `is_short`: it has a count that it did
    not reach, so it was at work for as long as the run."""
    starts_ns = planned.get("start_ns") or 0
    stops_ns = planned.get("end_ns") or 0
    last_ns = totals.last_done_ns
    elapsed_s = None
    if last_ns is not None and last_ns > starts_ns and not is_short:
        elapsed_s = (last_ns - starts_ns) / NS_PER_S
    start_ns, end_ns = collected.measure_start_ns, collected.measure_end_ns
    if start_ns is None or end_ns is None:
        return Window(None, elapsed_s)
    if planned.get("count") and last_ns is not None and not is_short:
        end_ns = min(end_ns, last_ns)
    if stops_ns:
        # what was under way then is completed later, and counts
        end_ns = min(end_ns, max(stops_ns, last_ns or 0))
    start_ns = max(start_ns, starts_ns)
    if end_ns <= start_ns:
        return Window(None, elapsed_s)
    return Window((end_ns - start_ns) / NS_PER_S, elapsed_s)


def measured_s(
    streams: Mapping[str, Mapping[str, Any]], collected: Collected
) -> float | None:
    """Length of the measure phase as it was run, over all agents: to the last response
    when every stream has a count."""
    start_ns, end_ns = collected.measure_start_ns, collected.measure_end_ns
    if start_ns is None or end_ns is None:
        return None
    lasts_ns = [totals.last_done_ns or 0 for totals in collected.streams.values()]
    if lasts_ns and all(one.get("count") for one in streams.values()):
        end_ns = min(end_ns, max(lasts_ns))
    return (end_ns - start_ns) / NS_PER_S if end_ns > start_ns else None
