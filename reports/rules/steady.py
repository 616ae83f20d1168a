# SPDX-License-Identifier: Apache-2.0
"""Was an operation in a steady state all through the measure phase? Pure.

The medians of its points on the time axis, in at most BLOCKS successive blocks, are
tested for a drift (Kendall's test, lines.py) and for steps (steps.py). Only streams of
constant load are tested: under a load that changes, medians have to change. In many
tests some would find a change by chance, so the limit of p is divided by their number,
over all operations.

A change below LEAST_SHIFT does not matter, even if it is significant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ldapslam.base.arrays import Floats, median
from ldapslam.jobs.run_plan import PlannedStream
from ldapslam.reports.collect.timeline import Timeline
from ldapslam.reports.rules.lines import block_medians, theil_sen
from ldapslam.reports.rules.steps import LEAST_SHIFT, step_places, stretch_apart

LEAST_POINTS = 10
#: Fewer show a large change, but that none is found in them means little.
LEAST_STEADY_POINTS = 20
#: The share of runs without any change in which an operation is called unsteady.
FALSE_ALARMS = 0.05
BLOCKS = 60
#: The highest autocorrelation of residuals. A transient is neither a line nor levels,
#: and its residuals are alike because they are the transient.
_MOST_ALIKE = 0.6


@dataclass(frozen=True, slots=True)
class Steady:
    """Whether an operation under constant load was in a steady state."""

    stream: str
    operation: str
    #: Number of medians that were tested.
    points: int
    #: None: too few points to distinguish a change from chance.
    is_steady: bool | None = None
    #: What is not steady, for people; empty where nothing is known to be.
    text: str = ""


def steady_findings(
    timeline: Timeline, streams: Mapping[str, PlannedStream]
) -> tuple[Steady, ...]:
    """Test each operation of the streams of constant load; `streams` are the
    planned streams by name."""
    medians = {
        key: _known(series.p50_us, timeline.measured)
        for key, series in timeline.operations.items()
        if key[0] in streams and is_constant(streams[key[0]])
    }
    tests = 2 * sum(values.size >= LEAST_POINTS for values in medians.values())
    limit = FALSE_ALARMS / max(1, tests)
    return tuple(_finding(key, values, limit) for key, values in medians.items())


def is_constant(stream: PlannedStream) -> bool:
    """Return whether the load is the same all through the measure phase."""
    if stream.is_replay or stream.count or stream.start_ns or stream.end_ns:
        return False
    if stream.model == "closed":
        return True
    mean, peak = stream.rate_per_s, stream.peak_rate_per_s
    return mean is not None and (peak is None or peak <= mean * (1 + 1e-6))


def _known(values: Iterable[float | None], places: Iterable[int]) -> Floats:
    listed = list(values)
    known = [value for place in places if (value := listed[place]) is not None]
    return np.array(known, np.float64)


def _finding(key: tuple[str, str], medians: Floats, limit: float) -> Steady:
    count = medians.size
    blocks = block_medians(medians, BLOCKS)
    if count < LEAST_POINTS or _lowest_p(blocks.size) > limit:
        return Steady(*key, count)
    at_s = np.arange(blocks.size, dtype=np.float64)
    changes = (
        [*_levels(blocks, step_places(at_s, blocks, limit))]
        or [*_drift(at_s, blocks, limit)]
        or [*_levels(blocks, stretch_apart(at_s, blocks, limit, _MOST_ALIKE)[0])]
    )
    if not changes:
        return Steady(*key, count, is_steady=count >= LEAST_STEADY_POINTS or None)
    text = f"{'.'.join(key)}: the median response time is {'; '.join(changes)}"
    return Steady(*key, count, is_steady=False, text=text)


def _lowest_p(blocks: int) -> float:
    """Return the p of medians that all rise, than which no drift is surer."""
    rising = np.arange(blocks, dtype=np.float64)
    return theil_sen(rising, rising).p


def _drift(at_s: Floats, blocks: Floats, limit: float) -> Iterator[str]:
    third = blocks.size // 3
    p = theil_sen(at_s, blocks, _MOST_ALIKE).p
    share = _change(blocks[:third], blocks[-third:])
    if p <= limit and abs(share) >= LEAST_SHIFT:
        shown = "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
        phase = "the last third of the measure phase than in the first"
        yield f"{_side(share)} ({shown}) in {phase}"


def _levels(blocks: Floats, places: Sequence[int]) -> Iterator[str]:
    levels = np.split(blocks, places)
    for place, (before, after) in zip(places, pairwise(levels), strict=True):
        share = _side(_change(before, after))
        yield f"{share} after {place / blocks.size:.0%} of the measure phase"


def _change(before: Floats, after: Floats) -> float:
    """Return the difference of the medians as a share of the earlier one."""
    level = median(before)
    return median(after) / level - 1 if level else 0.0


def _side(share: float) -> str:
    return f"{abs(share):.1%} {'higher' if share > 0 else 'lower'}"
