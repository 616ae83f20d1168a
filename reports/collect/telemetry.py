# SPDX-License-Identifier: Apache-2.0
"""What monitors read: rates of counters, restarts, points for charts. Pure.

A counter is shown as its rate between two readings that follow each other,

    rate = (value - value before) / (time - time before)

where the time is the middle of the reading: a server that is slow to answer has counted
meanwhile. There is none across a reading that failed, a missing value or a restart, and
none where the counter went back. What it rose by in all (`increase`) is there across
readings that failed. The mean of a counter over the measure phase is what it rose by
over the time that its rates cover; of a gauge, the mean of its readings. A reading is
of the phase if it lies in it or less than a fifth of the usual distance outside: a
counter needs the readings at both ends. A gauge's reading just after the phase says
what the load left behind, and is not of it.

A threshold with `for` is missed from the first to the last of readings that miss it one
after another (a counter's rate is of the time before its reading, too), and at most
between the nearest two that meet it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ldapslam.base.arrays import Floats, median
from ldapslam.jobs.fields.thresholds import MONITORS, Threshold
from ldapslam.reports.collect.timeline import DISPLAY_POINTS, NS_PER_S
from ldapslam.results.facts import MonitorFacts
from ldapslam.results.records import (
    STARTED,
    EventRecord,
    Metric,
    MonitorSeries,
    utc_text,
)

#: Reasons kept of each monitor.
_FAILURES = 5
_EDGE = 0.2


@dataclass(frozen=True, slots=True)
class Points:
    """A metric over the run; None, where there is no value, breaks its line."""

    at_s: tuple[float, ...]
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class MetricSummary:
    metric: Metric
    #: In the measure phase; per s for a counter. None without a value.
    lowest: float | None
    mean: float | None
    highest: float | None
    #: Increase of a counter in the whole run; None without two readings.
    increase: float | None
    #: Share of the readings that lack it.
    missing_share: float
    points: Points

    @property
    def unit(self) -> str:
        """The unit of the statistics above; that of the rate for a counter."""
        unit = self.metric.unit
        if self.metric.kind == "gauge":
            return "" if unit == "1" else unit
        return {"1": "/s", "s": "s/s"}.get(unit, f"{unit}/s")

    @property
    def is_idle(self) -> bool:
        """Nothing ever came of it: always zero, where it is known at all."""
        known = [value for value in self.points.values if value is not None]
        return not any(known)


class Stretch(NamedTuple):
    """The longest time in s in which reading after reading misses a threshold."""

    surely_s: float
    at_most_s: float


@dataclass(frozen=True, slots=True)
class MonitorSummary:
    agent: str
    name: str
    facts: MonitorFacts
    readings: int
    failed: int
    #: The first of the reasons, each once.
    failures: tuple[str, ...]
    took_mean_s: float | None
    took_longest_s: float | None
    #: When a restart was noticed, in s since T0.
    restarts_s: tuple[float, ...]
    #: In the monitor's order, but for the time since which it has been running.
    metrics: tuple[MetricSummary, ...]
    #: By the expression of a threshold with `for` and a metric that it is about, where
    #: the phase has readings of it.
    stretches: Mapping[tuple[str, str], Stretch]

    @property
    def means(self) -> dict[str, float | None]:
        return {each.metric.name: each.mean for each in self.metrics}


def subjects_of(name: str, facts: MonitorFacts) -> tuple[str, ...]:
    """Return what the figures of a monitor are of: the URIs of its servers; itself, of
    an entry or a log; nothing, of a kind that is not known."""
    if facts.kind not in ("directory", "host", "process"):
        return (name,) * (facts.kind in MONITORS)
    return tuple(dict.fromkeys(uri for uris in facts.serves.values() for uri in uris))


#: CPU times of a host in which no CPU was busy.
_IDLE = ("cpu_idle", "cpu_iowait")


def cpu_seconds(means: Mapping[str, float | None]) -> tuple[float, float]:
    """Busy CPU time and all CPU time, both in s per s of the measure phase, from the
    means of a monitor's metrics."""
    times = {name: one or 0.0 for name, one in means.items() if name.startswith("cpu_")}
    busy = sum(value for name, value in times.items() if name not in _IDLE)
    return busy, sum(times.values())


def telemetry(
    series: Iterable[MonitorSeries],
    measure_s: tuple[float, float],
    held: Sequence[Threshold] = (),
) -> tuple[MonitorSummary, ...]:
    """Statistics of every monitor. `measure_s`: start and end of the measure phase,
    NaN without one; `held`: thresholds with `for`."""
    with np.errstate(over="ignore", invalid="ignore"):
        return tuple(_monitor(one, measure_s, held) for one in series)


def _monitor(
    series: MonitorSeries,
    measure_s: tuple[float, float],
    held: Sequence[Threshold],
) -> MonitorSummary:
    at_s = series.at_ns / NS_PER_S
    took_s = series.took_ns / NS_PER_S
    # in whole numbers, of half ns: differences are exact
    lengths_s = np.diff(2 * series.at_ns + series.took_ns) / (2 * NS_PER_S)
    metrics = series.description.metrics
    values = np.where(np.isfinite(series.values), series.values, np.nan)
    restarts = restarted_at(metrics, values)
    in_measure = _within(at_s, measure_s)
    is_before_end = at_s < measure_s[1]
    return MonitorSummary(
        agent=series.agent,
        name=series.description.name,
        facts=series.description.facts,
        readings=len(at_s),
        failed=len(series.failures),
        failures=tuple(dict.fromkeys(series.failures.values()))[:_FAILURES],
        took_mean_s=float(took_s.mean()) if len(at_s) else None,
        took_longest_s=float(took_s.max()) if len(at_s) else None,
        restarts_s=tuple(float(at_s[place]) for place in restarts),
        metrics=tuple(
            _metric(
                metric,
                at_s,
                lengths_s,
                values[:, column],
                restarts,
                in_measure & (is_before_end | (metric.kind == "counter")),
            )
            for column, metric in enumerate(metrics)
            if metric.name != STARTED
        ),
        stretches={
            (one.expression, metric): stretch
            for one in held
            for metric, read, is_rate in _read_for(
                one, series, values, lengths_s, restarts
            )
            for stretch in _stretches(one, at_s, read, is_rate, measure_s)
        },
    )


def _read_for(
    threshold: Threshold,
    series: MonitorSeries,
    values: Floats,
    lengths_s: Floats,
    restarts: Sequence[int],
) -> Iterator[tuple[str, Floats, bool]]:
    """Yield each metric that a threshold is about, if this monitor reads it: its name,
    its values by reading, and whether it is a rate: of the time since the reading
    before it, so that the first has none."""
    name, facts = series.description.name, series.description.facts
    names = {"*", *subjects_of(name, facts), *facts.serves}
    if facts.kind != threshold.kind or threshold.subject not in names:
        return
    rates = {}
    for column, metric in enumerate(series.description.metrics):
        is_it = threshold.is_about(metric.name)
        if is_it and metric.kind == "gauge":
            yield metric.name, values[:, column], False
        elif is_it or (threshold.metric == "cpu" and metric.name.startswith("cpu_")):
            rises = _rises(values[:, column], restarts)
            rates[metric.name] = np.append(np.nan, _rates(rises, lengths_s))
    named = [name for name in rates if threshold.is_about(name)]
    for name in named:
        yield name, rates[name], True
    if rates and not named:
        busy = np.sum([one for name, one in rates.items() if name not in _IDLE], axis=0)
        every = np.sum(list(rates.values()), axis=0)
        # a process has no idle time
        whole = 1.0 if threshold.kind == "process" else every
        yield threshold.metric, busy / whole, True


def _stretches(
    threshold: Threshold,
    at_s: Floats,
    values: Floats,
    is_rate: bool,
    measure_s: tuple[float, float],
) -> Iterator[Stretch]:
    """None without a value in the measure phase."""
    begins_s = np.append(at_s[:1], at_s[:-1]) if is_rate else at_s
    in_measure = _within(at_s, measure_s) & _within(begins_s, measure_s)
    in_measure &= is_rate | (at_s < measure_s[1])
    if np.isnan(values[in_measure]).all():
        return
    surely_s = at_most_s = 0.0
    met_until_s, since_s = measure_s[0], None
    for begin_s, end_s, value in zip(
        *(of[in_measure].tolist() for of in (begins_s, at_s, values)), strict=True
    ):
        if threshold.holds(value):
            at_most_s = max(at_most_s, begin_s - met_until_s)
            met_until_s, since_s = end_s, None
        elif math.isnan(value):
            since_s = None
        else:
            since_s = begin_s if since_s is None else since_s
            surely_s = max(surely_s, end_s - since_s)
    yield Stretch(surely_s, max(surely_s, at_most_s, measure_s[1] - met_until_s))


def restarted_at(metrics: Sequence[Metric], values: Floats) -> list[int]:
    """Return the first readings after restarts.

    What is monitored says since when it has been running; where it does not, a restart
    is seen from counts of operations that are lower than before.
    """
    names = [metric.name for metric in metrics]
    counts = [
        column
        for column, metric in enumerate(metrics)
        if metric.kind == "counter" and metric.unit == "operations"
    ]
    started = values[:, names.index(STARTED)] if STARTED in names else None
    restarts: list[int] = []
    last: int | None = None
    for place in range(len(values)):
        if np.isnan(values[place]).all():
            continue
        if last is not None and _has_restarted(values, started, counts, last, place):
            restarts.append(place)
        last = place
    return restarts


def _has_restarted(
    values: Floats, started: Floats | None, counts: list[int], last: int, place: int
) -> bool:
    if started is not None:
        before, now = started[last], started[place]
        if not np.isnan(before) and not np.isnan(now):
            return bool(before != now)
    return bool(counts) and bool((values[place, counts] < values[last, counts]).any())


def _within(at_s: Floats, measure_s: tuple[float, float]) -> npt.NDArray[np.bool_]:
    usual_s = median(np.diff(at_s)) if len(at_s) > 1 else 0.0
    edge_s = _EDGE * usual_s
    return (at_s >= measure_s[0] - edge_s) & (at_s <= measure_s[1] + edge_s)


def _metric(
    metric: Metric,
    at_s: Floats,
    lengths_s: Floats,
    values: Floats,
    restarts: Sequence[int],
    in_measure: npt.NDArray[np.bool_],
) -> MetricSummary:
    missing = float(np.isnan(values).mean()) if len(values) else 1.0
    mean = increase = None
    if metric.kind == "counter":
        increase = _increase(values, restarts)
        rises = _rises(values, restarts)
        values = _rates(rises, lengths_s)
        in_measure = in_measure[1:] & in_measure[:-1] & ~np.isnan(values)
        covered_s = float(lengths_s[in_measure].sum())
        mean = _finite(rises[in_measure].sum() / covered_s) if covered_s else None
        at_s = at_s[1:]
    known = values[in_measure]
    known = known[~np.isnan(known)]
    lowest = highest = None
    if len(known):
        lowest, highest = float(known.min()), float(known.max())
        mean = _finite(known.mean()) if mean is None else mean
    points = _points(at_s, values)
    return MetricSummary(metric, lowest, mean, highest, increase, missing, points)


def _rises(values: Floats, restarts: Sequence[int]) -> Floats:
    rises: Floats = np.diff(values)
    rises[(rises < 0) | np.isinf(rises)] = np.nan
    rises[[place - 1 for place in restarts]] = np.nan
    return rises


def _rates(rises: Floats, lengths_s: Floats) -> Floats:
    rates: Floats = np.divide(
        rises, lengths_s, out=np.full(len(rises), np.nan), where=lengths_s > 0
    )
    rates[np.isinf(rates)] = np.nan
    return rates


def _increase(values: Floats, restarts: Sequence[int]) -> float | None:
    """What a counter rose by from each known value to the next one, but for restarts
    between them and where it went back."""
    known = np.flatnonzero(~np.isnan(values))
    rises = np.diff(values[known])
    # restarts up to each reading: another number is another server
    servers = np.searchsorted(restarts, known, side="right")
    counted = rises[(rises >= 0) & (np.diff(servers) == 0)]
    return _finite(counted.sum()) if len(counted) else None


def _finite(value: np.float64) -> float | None:
    """None of a sum that is more than a double holds: JSON has no infinity."""
    return float(value) if np.isfinite(value) else None


def _points(at_s: Floats, values: Floats) -> Points:
    """Of more readings than a chart has points, means of neighbours: only where none of
    them has a value is there none."""
    size = -(-len(at_s) // DISPLAY_POINTS) or 1
    xs: list[float] = []
    ys: list[float | None] = []
    for start in range(0, len(at_s), size):
        part = values[start : start + size]
        known = part[~np.isnan(part)]
        xs.append(float(at_s[start : start + size].mean()))
        ys.append(_finite(known.mean()) if len(known) else None)
    return Points(tuple(xs), tuple(ys))


#: Time in s since T0, kind and text.
Found = tuple[float, str, str]


def restarts_of(monitors: Iterable[MonitorSummary]) -> Iterator[Found]:
    """Yield when restarts were noticed."""
    for one in monitors:
        for at_s in one.restarts_s:
            yield at_s, "server_restarted", f"{one.name} was restarted"


def with_found(
    events: Iterable[EventRecord], found: Iterable[Found], t0_utc: str | None
) -> tuple[EventRecord, ...]:
    """The events that were recorded and `found`, in the order of time."""
    every = list(events)
    if t0_utc is not None:
        t0 = datetime.fromisoformat(t0_utc)
        every += [
            EventRecord(utc_text(t0 + timedelta(seconds=at_s)), kind, text)
            for at_s, kind, text in found
        ]
    return tuple(sorted(every, key=lambda event: event.at_utc))
