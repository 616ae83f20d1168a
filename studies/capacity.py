# SPDX-License-Identifier: Apache-2.0
"""The highest load that holds an objective: bracketing, bisection, confirmation. Pure.

A load holds when the verdict of its run is PASS. The search multiplies the load until a
run does not hold, narrows the gap between what holds and what does not down to the
precision, and confirms the highest load that held by a longer run. An overloaded run
shows where to search next: the load that it achieved is close to the capacity. Only a
FAIL shows it: an INVALID run may have achieved the limit of the generator. Otherwise
the gap is bisected on the logarithm.

One FAIL may be chance: before the lowest load that did not hold ends the search it is
run again, and a PASS then counts; unless a run of a higher load was overloaded and
achieved no more than this run, which is evidence of the same. A load with a failed
confirmation does not hold, for good: a capacity never has a failed confirmation. An
INVALID run is tried again, by a longer run where the objective was not certain, and
after `patience` of them, those of the search and of the confirmation counted apart, its
load counts as not held: no higher one could be certified. Where that ends the search,
what held is only a lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ldapslam.base.units import NS_PER_S
from ldapslam.jobs.doubts import (
    percentile_thresholds,
    requests_of_clients,
    unsupported,
)
from ldapslam.jobs.fields.thresholds import parse_name
from ldapslam.jobs.model import Job, Stream
from ldapslam.jobs.operations.sequence import sessions_of
from ldapslam.jobs.plan import measure_span, planned_arrivals
from ldapslam.reports.figures import combined, figures_in, matching

PASS, FAIL, INVALID = "PASS", "FAIL", "INVALID"

_NS_PER_US = 1e3
_GROWTH = 4.0
#: A run that achieved less than this share of its load was overloaded.
_OVERLOADED = 0.98
#: Guesses by what overloaded runs achieved; then only bisection, which always ends.
_MOST_GUESSES = 3


@dataclass(frozen=True)
class Range:
    """Where to search; loads are multiples of `step`."""

    lowest: float
    highest: float
    #: Largest gap between what holds and what does not, as a share of what holds.
    precision: float = 0.03
    #: Loads are multiples of this: 1 for clients.
    step: float = 1.0
    #: INVALID runs of a load until it counts as not held.
    patience: int = 2

    def rounded(self, load: float) -> float:
        """The nearest load of the range."""
        return min(max(round(load / self.step) * self.step, self.lowest), self.highest)


@dataclass(frozen=True)
class Probe:
    """A run that was made, or that is wanted."""

    load: float
    is_confirmation: bool = False
    #: Verdict of a run that was made.
    verdict: str = ""
    #: The load that it achieved, where loads are rates; see `rates_of`.
    achieved: float | None = None
    #: Whether a run that was made is INVALID only for too little data.
    is_uncertain: bool = False
    #: Longer than others of its kind, as one like it was uncertain.
    is_longer: bool = False


@dataclass(frozen=True)
class Found:
    """The answer of a search that is over."""

    #: The highest load that held, confirmed; None: not even the lowest did.
    capacity: float | None
    #: The lowest load that did not hold, and its verdict; None: all of the range held.
    above: float | None
    above_verdict: str = ""

    @property
    def verdict(self) -> str:
        """INVALID where the generator or the evidence has ended the search: then it is
        not known what the directory does not hold."""
        if self.above_verdict == INVALID:
            return INVALID
        return FAIL if self.capacity is None else PASS

    @property
    def is_lower_bound(self) -> bool:
        """Whether the directory may hold more than the capacity."""
        return self.capacity is not None and self.above_verdict != FAIL


@dataclass
class _Evidence:
    held: set[float] = field(default_factory=set)
    #: Load -> the run that showed that it does not hold.
    not_held: dict[float, Probe] = field(default_factory=dict)
    #: Those of them that are not run again.
    settled: set[float] = field(default_factory=set)
    confirmed: set[float] = field(default_factory=set)
    guesses: int = 0


def next_probe(limits: Range, made: Sequence[Probe]) -> Probe | Found:
    """The run that the search wants next, or its answer."""
    wanted = _wanted(limits, made)
    if isinstance(wanted, Found):
        return wanted
    same = (wanted.load, wanted.is_confirmation)
    before = [one for one in made if (one.load, one.is_confirmation) == same]
    return replace(wanted, is_longer=any(one.is_uncertain for one in before))


def _wanted(limits: Range, made: Sequence[Probe]) -> Probe | Found:
    known = _evidence(limits, made)
    if made and made[-1].verdict == INVALID and made[-1].load not in known.not_held:
        return Probe(made[-1].load, made[-1].is_confirmation)
    high = min(known.not_held, default=None)
    low = max((one for one in known.held if high is None or one < high), default=None)
    if low is None:
        if high is None or high > limits.lowest or high not in known.settled:
            return Probe(limits.lowest)
        return Found(None, high, known.not_held[high].verdict)
    if high is None:
        wanted = limits.rounded(low * _GROWTH)
    else:
        wanted = _between(limits, low, high, known)
    if wanted != low:
        return Probe(wanted)
    if high is not None and not _is_settled(high, known):
        return Probe(high)
    if low not in known.confirmed:
        return Probe(low, is_confirmation=True)
    verdict = "" if high is None else known.not_held[high].verdict
    return Found(low, high, verdict)


def _is_settled(high: float, known: _Evidence) -> bool:
    """Whether the lowest load that did not hold is not to be run again."""
    achieved = [
        _overloaded_at(run) for load, run in known.not_held.items() if load > high
    ]
    return high in known.settled or any(one and one <= high for one in achieved)


def _overloaded_at(one: Probe) -> float | None:
    """Return the load that an overloaded run achieved; None for other runs."""
    if one.verdict != FAIL or one.achieved is None:
        return None
    return one.achieved if one.achieved < _OVERLOADED * one.load else None


def _between(limits: Range, low: float, high: float, known: _Evidence) -> float:
    """A load between what holds and what does not; `low` when they are close enough."""
    if high - low <= max(limits.precision * low, limits.step) * (1 + 1e-9):
        return low
    achieved = _overloaded_at(known.not_held[high])
    near = low * (1 + 0.1 * limits.precision)  # as good as tried
    middle = limits.rounded(math.sqrt(low * high))
    if achieved is not None:
        guesses = [
            limits.rounded(achieved * (1 + sign * 0.45 * limits.precision))
            for sign in (-1, 1)
        ]
        if known.guesses < _MOST_GUESSES:
            for guess in guesses:
                if near < guess < high:
                    return guess
        if guesses[-1] <= near:  # short of the limit by little, then by more and more
            beyond = sum(guesses[0] < one <= low for one in known.held)
            step = 2 * limits.precision * 2 ** (beyond - 1)
            wanted = limits.rounded(low * (1 + step))
            if low < wanted < middle:
                return wanted
    return middle if low < middle < high else limits.rounded(low + limits.step)


def _evidence(limits: Range, made: Sequence[Probe]) -> _Evidence:
    known = _Evidence()
    invalid: dict[tuple[float, bool], int] = {}
    for one in made:
        if one.verdict == PASS:
            known.held.add(one.load)
            known.not_held.pop(one.load, None)
            if one.is_confirmation:
                known.confirmed.add(one.load)
            continue
        if one.verdict != FAIL:
            key = one.load, one.is_confirmation
            invalid[key] = invalid.get(key, 0) + 1
            if invalid[key] < limits.patience:
                continue
        if one.verdict != FAIL or one.is_confirmation or one.load in known.not_held:
            known.settled.add(one.load)
        known.guesses += not one.is_confirmation and one.load not in known.not_held
        known.not_held[one.load] = one
    return known


def rates_of(limits: Range, lowest: Job, highest: Job) -> Mapping[str, float]:
    """Return stream -> arrivals per second in the measure phase for a load of 1, for
    the streams with the load as their rate at both ends of the range. Empty where loads
    are something else, such as clients, or completions do not count arrivals."""
    rates = {}
    for before, after in zip(lowest.streams, highest.streams, strict=True):
        first, last = _rate_per_s(lowest, before), _rate_per_s(highest, after)
        if first == last:
            continue
        rates[before.name] = first / limits.lowest
        if not _is_counted(before) or not math.isclose(
            last / limits.highest, rates[before.name], rel_tol=1e-6
        ):
            return {}
    return rates


def short_runs(job: Job) -> Iterator[str]:
    """Warnings where runs of a closed loop may be too short for the objective: one that
    just holds the limit of a percentile may have no more requests than the clients
    make when each takes as long as the limit."""
    comes = "come if each takes as long as the limit"
    for threshold in percentile_thresholds(job):
        if not threshold.comparison.startswith("<"):
            continue
        for stream in job.streams:
            names = (name for name, _ in stream.request_names)
            times_ns = dict.fromkeys(names, threshold.limit * _NS_PER_US)
            requests = requests_of_clients(job, stream, times_ns)
            yield from unsupported(job, threshold, requests, comes)


def _rate_per_s(job: Job, stream: Stream) -> float:
    measure = measure_span(job.run)
    count = planned_arrivals(job.run, stream, measure.start_ns, measure.end_ns)
    return count / (measure.end_ns - measure.start_ns) * NS_PER_S


def _is_counted(stream: Stream) -> bool:
    """Whether each arrival is one request of the whole measure phase."""
    sessions = sessions_of(stream.operations)
    is_single = all(len(one.requests) == 1 for one in sessions)
    return bool(sessions) and is_single and stream.count is None


def achieved_load(
    rates: Mapping[str, float], result: Mapping[str, Any]
) -> float | None:
    """The load that a run achieved, by its result.json; None where it is not known."""
    done = combined(
        [
            one
            for one in matching(parse_name("throughput"), figures_in(result))
            if one.subject in rates
        ]
    )
    return None if done is None else done / math.fsum(rates.values())


def is_uncertain(result: Mapping[str, Any]) -> bool:
    """Whether all that made a run INVALID is that its thresholds were not certain; by
    its result.json."""
    return (
        result.get("verdict") == INVALID
        and all(one["passed"] for one in result.get("rules", ()))
        and any(one["outcome"] == "uncertain" for one in result.get("thresholds", ()))
    )
