# SPDX-License-Identifier: Apache-2.0
"""What is compared of a run: each metric's value and its interval by batches. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ldapslam.jobs.fields.thresholds import PERCENTILES, SHARES, samples_needed
from ldapslam.reports.distribution import Distribution
from ldapslam.reports.model import OperationSummary, StreamSummary, Summary
from ldapslam.reports.uncertainty import FEWEST_BATCHES, Estimate


@dataclass(frozen=True, slots=True)
class Metric:
    #: As in JSON.
    name: str
    #: As people read it, with the unit: `p99 (ms)`; and the factor to that unit.
    title: str
    scale: float = 1.0
    #: Compared by new / old, else by new - old.
    is_ratio: bool = True

    @property
    def is_rate(self) -> bool:
        """Whether more of it is better."""
        return self in (_THROUGHPUT, _GOODPUT)

    @property
    def words(self) -> str:
        return self.title.partition(" (")[0]


_THROUGHPUT = Metric("throughput", "throughput (/s)")
_GOODPUT = Metric("goodput", "goodput (/s)")
#: A share may be 0, which has no ratio.
_ERRORS = Metric("errors", "errors (%)", 100.0, is_ratio=False)
_MEAN = Metric("mean", "mean (ms)", 1e-3)
_PERCENTILES = tuple(
    Metric(name, f"{name} (ms)", 1e-3) for name in ("p50", "p95", "p99")
)
_TOTAL_TIME = Metric("total_time", "total time (s)")
#: By name.
METRICS = {
    one.name: one
    for one in (_THROUGHPUT, _GOODPUT, _ERRORS, _MEAN, *_PERCENTILES, _TOTAL_TIME)
}

_NEEDS_BATCHES, _NEEDS_TIMES = (
    f"{FEWEST_BATCHES} intervals of the measure phase with {of} in each"
    for of in ("requests", "successful requests")
)
_NEEDS_RUNS = "repeated runs: a run has one such value"


@dataclass(frozen=True, slots=True)
class Reading:
    """One metric of one run, in units of result.json (/s, us, s, shares)."""

    value: float | None
    #: By batches of the run; None where they give none.
    interval: Estimate | None
    #: Batches that the interval is of.
    batches: int
    #: What is needed for the value, or for its interval; empty where both are there.
    needs: str
    #: Requests that a share or a percentile is of, or would be.
    sample: int = 0


#: (operation's title, or the stream's name; metric) -> reading.
Readings = dict[tuple[str, Metric], Reading]


def readings_of(summary: Summary) -> Readings:
    """All that a run has, in the order of the report."""
    found: Readings = {}
    for stream in summary.streams:
        for operation in stream.operations:
            for metric, reading in _of_operation(operation):
                found[operation.title, metric] = reading
        if (elapsed := _total_time(stream)) is not None:
            found[stream.name, _TOTAL_TIME] = elapsed
    return found


def keys_of(runs: Sequence[Readings]) -> list[tuple[str, Metric]]:
    """All that any of the runs has; goodput where it is not throughput in all."""
    keys = dict.fromkeys(key for run in runs for key in run)
    return [
        (title, metric)
        for title, metric in keys
        if metric != _GOODPUT
        or any(
            run[title, _GOODPUT].value != run[title, _THROUGHPUT].value
            for run in runs
            if (title, _GOODPUT) in run
        )
    ]


def _of_operation(one: OperationSummary) -> Iterator[tuple[Metric, Reading]]:
    def by_batches(name: str, value: float | None, needs: str = "") -> Reading:
        interval = one.by_batches.get(name)
        if value is None:
            return Reading(None, None, 0, needs or "requests in the measure phase")
        if interval is None or one.batches < FEWEST_BATCHES:
            lacks = _NEEDS_TIMES if name == "mean" else _NEEDS_BATCHES
            return Reading(value, None, 0, lacks)
        return Reading(value, _at(value, interval, name), one.batches, "")

    yield _THROUGHPUT, by_batches("throughput", one.throughput_per_s)
    yield _GOODPUT, by_batches("goodput", one.goodput_per_s)
    due = sum(one.counts.get(name, 0) for name in SHARES["errors"][1])
    yield _ERRORS, replace(by_batches("errors", one.error_share), sample=due)
    if not one.has_responses:
        return
    times = one.times["response_time"]
    yield _MEAN, by_batches("mean", times.mean_us, _why_none(times, "mean"))
    for metric in _PERCENTILES:
        reading = _percentile(times, metric.name, one.batches)
        yield metric, replace(reading, sample=times.sample)


def _at(value: float, interval: Estimate, name: str) -> Estimate:
    """The interval around the value of the report; of a rate or a mean on a logarithmic
    scale, as it is used (delta method), so that its ends are above 0."""
    if name == "errors" or value <= 0:
        return Estimate(value, interval.low, interval.high)
    factor = math.exp((interval.value - interval.low) / value)
    return Estimate(value, value / factor, value * factor)


def _percentile(times: Distribution, name: str, batches: int) -> Reading:
    value, ends = times.percentiles_us[name], times.ci95_us[name]
    if value is None:
        return Reading(None, None, 0, _why_none(times, name))
    if ends is None:
        known, needed = times.effective[name], samples_needed(PERCENTILES[name])
        if not known:
            return Reading(value, None, 0, _NEEDS_TIMES)
        longer = f"an effective sample of {needed:,} (it has {known:,}): longer runs"
        return Reading(value, None, 0, longer)
    if ends[1] is None:
        return Reading(value, None, 0, "fewer requests without an answer")
    return Reading(value, Estimate(value, ends[0], ends[1]), batches, "")


def _why_none(times: Distribution, name: str) -> str:
    if times.unanswered:
        return "an answer to each request that it depends on"
    if name in PERCENTILES and times.sample:
        return (
            f"{samples_needed(PERCENTILES[name]):,} requests (it has {times.sample:,})"
        )
    return "successful requests"


def _total_time(stream: StreamSummary) -> Reading | None:
    """From its start to its last response, of a stream that ends by its count."""
    if stream.count is None:
        return None
    elapsed_s = stream.window.elapsed_s
    needs = "the stream's count to be reached" if elapsed_s is None else _NEEDS_RUNS
    return Reading(elapsed_s, None, 0, needs)
