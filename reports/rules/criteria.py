# SPDX-License-Identifier: Apache-2.0
"""Thresholds, of the job and by default, against ranges of what was measured. Pure.

A figure is known within a range: its confidence interval (reports/uncertainty.py), and
best and worst case of what the generator, not the directory, has caused. A threshold is
met when the whole range meets it, missed when the whole range misses it, and uncertain
otherwise.

A percentile is judged by the share of requests above its limit: `p99 < 5ms` says that
at most 1 % are. Failures, dropped arrivals and requests without a response are above
every limit. The worst case takes times as they were measured, and missing intervals as
above the limit. The best case takes away

- requests that were sent late. A response time without its send lag is above the limit
  only if the service time is, or the response time exceeds the limit by more than the
  lag; so for any d, P(response >= limit + d) - P(lag > d) are above it without the lag
  (Frechet's bound: which request had which lag need not be known);
- completions in disturbed intervals (evidence.py);
- everything but failures, where a rule about the generator fails.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from ldapslam.base.units import format_duration
from ldapslam.jobs.fields.result_codes import code_name
from ldapslam.jobs.fields.thresholds import (
    COMPARISONS,
    DEFAULT_THRESHOLDS,
    PERCENTILES,
    SHARES,
    Threshold,
    figure,
    matching,
    parse_threshold,
    samples_needed,
)
from ldapslam.proto.fields import OUTCOMES
from ldapslam.reports.collect.totals import (
    BatchTotals,
    OperationTotals,
    counter_title,
    unanswered,
)
from ldapslam.reports.distribution import us_of
from ldapslam.reports.rules.evidence import Evidence
from ldapslam.reports.uncertainty import (
    BATCHES,
    FEWEST_BATCHES,
    Estimate,
    effective_sample,
    percentile_interval,
    ratio_interval,
    share_interval,
)
from ldapslam.results.histogram import Histogram

#: The lags that are tried as d, beside the tolerated one.
_LAGS_NS = tuple(int(10**exponent) for exponent in (4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5, 8))
#: Above every time, beside the requests without an answer.
_OUTSIDE = ("failed", "dropped")
#: Of floats, as in 1 - 0.99.
_SLACK = 1e-12
#: Times a percentile, or a part of it: no sample of that size wanders so far by chance.
_FAR = 2.0
_LONGER = "a longer run narrows it"
_SOONER = "give agents CPUs of their own, CAP_SYS_NICE, or more agents"


class Outcome(StrEnum):
    MET = "met"
    MISSED = "missed"
    UNCERTAIN = "uncertain"


@dataclass(frozen=True, slots=True)
class ThresholdResult:
    expression: str
    #: Of the operation or stream that is worst; None: there is none.
    value: float | None
    #: The value with its unit, and what it may be.
    shown: str
    range: str
    outcome: Outcome
    #: Why it is missed or uncertain, for people.
    reason: str
    is_default: bool

    @property
    def passed(self) -> bool:
        return self.outcome is Outcome.MET


class _Judged(NamedTuple):
    outcome: Outcome
    value: float | None
    shown: str
    range: str
    detail: str = ""
    #: What would tell more, of an uncertain one.
    remedy: str = ""


def judge_thresholds(
    expressions: Sequence[str],
    evidence: Evidence,
    statistics: Mapping[str, Any],
    *,
    blamed: frozenset[str],
) -> tuple[ThresholdResult, ...]:
    """The job's and the default ones; `blamed`: rules about the generator that fail."""
    own = [parse_threshold(text) for text in expressions]
    results = [
        _judge(one, list(matching(one, statistics)), evidence, blamed, is_default=False)
        for one in own
    ]
    for one in map(parse_threshold, DEFAULT_THRESHOLDS):
        others = [
            each
            for each in own
            if (each.metric, each.statistic) == (one.metric, one.statistic)
        ]
        places = [
            place
            for place in matching(one, statistics)
            if not any(each.matches(place[0], place[1]) for each in others)
            and figure(one, place[2]) is not None
            # what a log has searched for in vain may be missing here, too
            and not (one.metric == "empty" and evidence.is_replay(place[0]))
        ]
        if places:
            results.append(_judge(one, places, evidence, blamed, is_default=True))
    return tuple(results)


_RANK = {Outcome.MET: 0, Outcome.UNCERTAIN: 1, Outcome.MISSED: 2}


def _judge(
    threshold: Threshold,
    places: Sequence[tuple[str, str, Mapping[str, Any]]],
    evidence: Evidence,
    blamed: frozenset[str],
    *,
    is_default: bool,
) -> ThresholdResult:
    found = {
        (stream, operation): _judge_one(
            threshold, (stream, operation), statistics, evidence, blamed
        )
        for stream, operation, statistics in places
    }
    if not found:
        nothing = _Judged(Outcome.MISSED, None, "no data", "", "nothing matches it")
        return _result(threshold, nothing, "", is_default)
    sign = 1 if threshold.comparison.startswith("<") else -1
    worst = max(
        found,
        key=lambda key: (
            _RANK[found[key].outcome],
            math.inf if found[key].value is None else sign * (found[key].value or 0),
        ),
    )
    stream, operation = worst
    of = stream if operation == "*" else f"{stream}.{operation}"
    named = "*" in (threshold.stream, threshold.operation) and of != threshold.stream
    return _result(threshold, found[worst], of if named else "", is_default)


def _result(
    threshold: Threshold, one: _Judged, of: str, is_default: bool
) -> ThresholdResult:
    where = f" of {of}" if of else ""
    reason = ""
    if one.outcome is Outcome.MISSED:
        reason = f"threshold failed: {threshold.expression}, was {one.shown}{where}"
        reason += f" ({one.detail})" if one.detail else ""
    elif one.outcome is Outcome.UNCERTAIN:
        reason = f"not certain: {threshold.expression}, was {one.shown}{where}"
        if one.range:
            reason += f", may be {one.range}"
        details = "; ".join(filter(None, (one.detail, one.remedy)))
        reason += f" ({details})" if details else ""
    return ThresholdResult(
        threshold.expression,
        one.value,
        one.shown + where,
        one.range,
        one.outcome,
        reason,
        is_default,
    )


def _judge_one(
    threshold: Threshold,
    key: tuple[str, str],
    statistics: Mapping[str, Any],
    evidence: Evidence,
    blamed: frozenset[str],
) -> _Judged:
    value = figure(threshold, statistics)
    totals = evidence.collected.operations.get(key)
    if totals is not None:
        one = _Operation(threshold, key, totals, evidence, blamed)
        if threshold.metric in ("throughput", "goodput"):
            return one.rate(value)
        if threshold.metric in SHARES:
            return one.share()
        if threshold.metric in ("response_time", "service_time"):
            if threshold.statistic in PERCENTILES and threshold.comparison[0] == "<":
                return one.percentile(value)
            if threshold.statistic == "mean" and threshold.metric == "response_time":
                return one.mean(value)
    if value is None:
        if few := _too_few(threshold, statistics):
            return _Judged(Outcome.UNCERTAIN, None, "n/a", "", few, _LONGER)
        detail = _why_none(threshold, statistics)
        shown = "n/a" if detail else threshold.format(None)
        return _Judged(Outcome.MISSED, None, shown, "", detail)
    compare = COMPARISONS[threshold.comparison]
    outcome = Outcome.MET if compare(value, threshold.limit) else Outcome.MISSED
    known = _Judged(outcome, value, threshold.format(value), "")
    if threshold.metric == "outage":
        return _judge_outage(threshold, known, evidence, key[0])
    if threshold.metric == "unsent" and outcome is Outcome.MISSED:
        return _judge_unsent(threshold, known, evidence, key[0], blamed)
    return known


def _judge_outage(
    threshold: Threshold, known: _Judged, evidence: Evidence, stream: str
) -> _Judged:
    """Uncertain where the directory may have been away while nobody looked."""
    worst = evidence.outage_of(stream, at_worst=True)
    longest_s, total_s = evidence.unseen_s(stream)
    window_s = evidence.window_of(stream).measure_s or math.inf
    most = {
        "longest": (worst.longest_s + longest_s) * 1e6,
        "total": (worst.total_s + total_s) * 1e6,
        "share": worst.share + total_s / window_s,
    }[threshold.statistic or "total"]
    if known.outcome is Outcome.MET and not COMPARISONS[threshold.comparison](
        most, threshold.limit
    ):
        return known._replace(
            outcome=Outcome.UNCERTAIN,
            range=f"up to {threshold.format(most)}",
            detail="the generator stood still meanwhile, or intervals are missing",
            remedy=_SOONER,
        )
    return known._replace(detail=evidence.outage_of(stream).text)


def _judge_unsent(
    threshold: Threshold,
    known: _Judged,
    evidence: Evidence,
    stream: str,
    blamed: frozenset[str],
) -> _Judged:
    """Of a limit that is exceeded: chance, and a generator that stood still, excuse
    it."""
    if blamed or evidence.has_stalled_at_end(stream):
        return known._replace(
            outcome=Outcome.UNCERTAIN,
            detail="the generator was at fault",
            remedy=_SOONER,
        )
    due = evidence.arrivals_of(stream)
    if share_interval(known.value or 0.0, due).low <= threshold.limit:
        return known._replace(outcome=Outcome.MET)
    detail = "overloaded: so many arrivals still waited for a connection"
    return known._replace(detail=detail)


def _too_few(threshold: Threshold, statistics: Mapping[str, Any]) -> str:
    """Why there is no percentile of the values that there are."""
    times = statistics.get(f"{threshold.metric}_us") or {}
    counted = times.get("count", 0)
    if threshold.statistic not in PERCENTILES or not counted or times["unanswered"]:
        return ""
    needed = samples_needed(PERCENTILES[threshold.statistic])
    if counted >= needed:
        return ""
    return f"{threshold.statistic} needs {needed:,} values, there are {counted:,}"


def _why_none(threshold: Threshold, statistics: Mapping[str, Any]) -> str:
    times = statistics.get(f"{threshold.metric}_us") or {}
    if number := times.get("unanswered"):
        return f"{number:,} requests had no response"
    if threshold.metric == "elapsed":
        return "the stream did not reach its count"
    return ""


class _Operation:
    """One operation against one threshold."""

    def __init__(
        self,
        threshold: Threshold,
        key: tuple[str, str],
        totals: OperationTotals,
        evidence: Evidence,
        blamed: frozenset[str],
    ) -> None:
        self._threshold = threshold
        self._key = key
        self._totals = totals
        self._evidence = evidence
        self._is_sound = not blamed
        #: Times are then in doubt as a whole; late sends have bounds of their own.
        self._is_disturbed = "generator_disturbed" in blamed
        self._wanted = evidence.plan.wanted_of(key)
        self._batches = [
            totals.batches.get(number, BatchTotals())
            for number in range(len(evidence.plan.batch_lengths_s(BATCHES)))
        ]

    # Percentiles: the share of requests above the limit.

    def percentile(self, value: float | None) -> _Judged:
        threshold, counts = self._threshold, self._totals.measured
        p = PERCENTILES[threshold.statistic or ""]
        allowed = 1 - p / 100
        limit_ns = threshold.limit * 1000
        or_at = threshold.comparison == "<"
        outside = sum(counts[name] for name in _OUTSIDE)
        times = self._totals.union(threshold.metric, (self._wanted,))
        times.unanswered = unanswered(counts)
        size = times.sample + outside
        if not size:
            return _Judged(Outcome.UNCERTAIN, None, "no data", "", "", "was it sent?")
        above = times.beyond(limit_ns, or_at=or_at) + outside
        sample = self._effective(limit_ns, or_at, p, size, us_of(times.percentile(p)))
        missing = self._evidence.missing_share
        worst = above / size * (1 - missing) + missing
        best = above / size * (1 - missing)
        reasons: list[str] = []
        if missing:
            reasons.append(f"{_percent(missing)} of the intervals are missing")
        if self._is_disturbed:
            best = counts["failed"] / size
            reasons.append("the generator was at fault")
        else:
            on_time = self._on_time(times, limit_ns, or_at) + outside
            disturbed = sum(self._totals.disturbed.values()) / size
            if on_time < above:
                reasons.append(f"{_percent((above - on_time) / size)} were sent late")
            if disturbed:
                share = _percent(disturbed)
                reasons.append(f"{share} completed while the generator was disturbed")
            best = max(
                counts["failed"] / size, best * on_time / max(above, 1) - disturbed
            )
        low = share_interval(best, sample).low
        high = share_interval(worst, sample).high
        shown = threshold.format(value)
        if value is None or outside or times.unanswered:
            shown = f"{_percent(above / size)} above {_limit_text(threshold)}"
        text = (
            f"{_percent(low)} to {_percent(high)} above {_limit_text(threshold)}, "
            f"{_percent(allowed)} allowed"
        )
        detail = f"{_percent(allowed)} allowed"
        if value is not None and not outside and not times.unanswered:
            detail = f"{_percent(above / size)} above the limit, {detail}"
        elif made_of := self._made_of():
            detail = made_of
        known = _Judged(Outcome.UNCERTAIN, value, shown, text, detail)
        # `p99 < 5ms` is met when 1 % are at 5 ms or above, as ranks count
        met = {one <= allowed + _SLACK for one in (low, high)}
        if len(met) == 1:
            return known._replace(
                outcome=Outcome.MET if met == {True} else Outcome.MISSED
            )
        if (best <= allowed + _SLACK) == (worst <= allowed + _SLACK):
            detail = "" if sample else f"fewer than {FEWEST_BATCHES} intervals"
            return known._replace(detail=detail, remedy=_LONGER)
        return known._replace(detail=", ".join(reasons), remedy=_SOONER)

    def _effective(
        self, limit_ns: float, or_at: bool, p: float, size: int, value: float | None
    ) -> float:
        """The effective sample of the share above the limit; 0: nothing is known.

        Of few above the limit the batches do not show how they hang together. They do
        at the percentile itself, unless the limit is far away from it.
        """
        limit_us = limit_ns / 1000
        is_far = value is None or not 1 / _FAR <= limit_us / max(value, 1e-9) <= _FAR
        times = [one.times for one in self._batches]
        if sum(bool(one.sample) for one in times) < FEWEST_BATCHES:
            return size if is_far else 0
        outside = [
            sum(one.measured[name] for name in _OUTSIDE)
            if self._threshold.metric == "response_time"
            else 0
            for one in self._batches
        ]
        found = effective_sample(
            [
                one.beyond(limit_ns, or_at=or_at) + more
                for one, more in zip(times, outside, strict=True)
            ],
            [one.sample + more for one, more in zip(times, outside, strict=True)],
        )
        if not is_far:
            whole = Histogram.union(times)
            found = min(found, percentile_interval(whole, times, p).effective or found)
        return min(size, found)

    def _on_time(self, times: Histogram, limit_ns: float, or_at: bool) -> int:
        """At least how many would be above the limit if all had been sent on time."""
        above = times.beyond(limit_ns, or_at=or_at)
        if self._threshold.metric == "service_time":
            return above
        lags = self._totals.union("send_lag", OUTCOMES)
        service = self._totals.union("service_time", (self._wanted,))
        service.unanswered = times.unanswered
        tolerated = self._evidence.validity.send_lag_p99_ns
        found = [
            service.beyond(limit_ns, or_at=or_at) - lags.beyond(tolerated, or_at=False)
        ]
        for lag_ns in (*_LAGS_NS, tolerated):
            late = lags.beyond(lag_ns, or_at=False)
            found.append(times.beyond(limit_ns + lag_ns, or_at=or_at) - late)
        return min(above, max(0, *found))

    # Shares of outcomes.

    def share(self) -> _Judged:
        threshold, counts = self._threshold, self._totals.measured
        some, every = SHARES[threshold.metric]
        size = sum(counts[name] for name in every)
        if not size:
            return _Judged(Outcome.UNCERTAIN, None, "no data", "", "nothing was sent")
        amount = sum(counts[name] for name in some)
        value = amount / size
        missing = self._evidence.missing_share
        best, worst = value * (1 - missing), value * (1 - missing) + missing
        reasons = [f"{_percent(missing)} of the intervals are missing"] * bool(missing)
        in_doubt = sum(self._totals.disturbed[name] for name in some) / size
        if in_doubt:
            best = max(0.0, best - in_doubt)
            reasons.append(f"{_percent(in_doubt)} while the generator was disturbed")
        if not self._is_sound and threshold.metric != "empty":
            best = counts["failed"] / size if threshold.metric == "errors" else 0.0
            reasons.append("the generator was at fault")
        # counted, not estimated: chance has no part in it
        text = f"{_percent(best)} to {_percent(worst)}" if reasons else ""
        detail = self._made_of() if threshold.metric == "errors" else ""
        shown = threshold.format(value)
        if threshold.metric == "empty" and value > threshold.limit:
            detail = "searches found nothing: is this the data that the job is for?"
        known = _Judged(Outcome.UNCERTAIN, value, shown, text, detail)
        ends = best, worst
        return self._decide(known, threshold.limit, ends, ends, reasons)

    def _made_of(self) -> str:
        """The errors by what they were."""
        counts = self._totals.measured
        parts: Counter[str] = Counter()
        planned = self._evidence.operation_plan(self._key)
        fine = {*planned.get("success_codes", (0,)), *planned.get("expected_codes", ())}
        for code, number in self._totals.result_codes.items():
            if code not in fine:
                parts[code_name(code)] += number
        for name in ("timed_out", "unresolved"):
            parts[counter_title(name)] += counts[name]
        texts = [
            f"{number:,} {name}" for name, number in parts.most_common(4) if number
        ]
        if counts["dropped"]:
            share = _percent(counts["dropped"] / max(counts["scheduled"], 1))
            texts.insert(0, f"overloaded: {share} of arrivals could not be sent")
        return ", ".join(texts)

    # Rates and means.

    def rate(self, value: float | None) -> _Judged:
        threshold, evidence = self._threshold, self._evidence
        if value is None:
            return _Judged(Outcome.MISSED, None, "no data", "")
        found = self._rate_interval(value)
        low, high = max(0.0, found.low), found.high
        best = value
        reasons: list[str] = []
        if missing := evidence.missing_share:
            high, best = high / (1 - missing), best / (1 - missing)
            reasons.append(f"{_percent(missing)} of the intervals are missing")
        most = self._most_per_s(value)
        if not self._is_sound:
            high = best = most
            reasons.append("the generator was at fault")
        elif lag := evidence.loop_share(self._key[0]):
            high, best = high / (1 - lag), best / (1 - lag)
            reasons.append(
                f"lags of the generator were {_percent(lag)} of the clients' time"
            )
        high, best = min(high, most), min(best, most)
        shown = threshold.format(value)
        upper = "any rate" if math.isinf(high) else threshold.format(high)
        text = f"{threshold.format(low)} to {upper}"
        known = _Judged(Outcome.UNCERTAIN, value, shown, text)
        judged = self._decide(
            known, threshold.limit, (low, high), (value, best), reasons
        )
        if judged.remedy == _LONGER and not math.isinf(most):
            offered = f"the stream offers {threshold.format(most)}"
            return judged._replace(remedy=f"{offered}: ask for some percent less")
        return judged

    def _most_per_s(self, value: float) -> float:
        """An open loop has no more completions than arrivals were due."""
        evidence, stream = self._evidence, self._key[0]
        window_s = evidence.window_of(stream).measure_s
        if evidence.streams.get(stream, {}).get("model") != "open" or not window_s:
            return math.inf
        offered = self._totals.measured["scheduled"] / window_s
        due, begun = evidence.arrivals_due(stream), evidence.arrivals_of(stream)
        if due and begun:
            offered *= max(1.0, due / begun)
        return max(value, offered)

    def _rate_interval(self, value: float) -> Estimate:
        """By batches where the stream was at work all the time, else by the count."""
        lengths_s = self._evidence.plan.batch_lengths_s(BATCHES)
        name = "completed" if self._threshold.metric == "throughput" else "succeeded"
        amounts = [getattr(one, name) for one in self._batches]
        window_s = self._evidence.window_of(self._key[0]).measure_s
        if lengths_s and window_s and window_s > 0.99 * sum(lengths_s):
            found = ratio_interval(amounts, lengths_s)
            if found is not None:
                reach = found.value - found.low
                return Estimate(value, value - reach, value + reach)
        reach = 1.96 * math.sqrt(value / window_s) if window_s else 0.0
        return Estimate(value, value - reach, value + reach)

    def mean(self, value: float | None) -> _Judged:
        threshold = self._threshold
        if value is None:
            return _Judged(Outcome.MISSED, None, "n/a", "", self._made_of())
        found = ratio_interval(
            [one.times.sum_ns / 1000 for one in self._batches],
            [one.times.total for one in self._batches],
        )
        low, high = (found.low, found.high) if found else (value, value)
        lags = self._totals.union("send_lag", OUTCOMES)
        reasons: list[str] = []
        best = value
        if self._is_disturbed:
            low = best = 0.0
            reasons.append("the generator was at fault")
        elif lag_ns := lags.mean():
            low, best = max(0.0, low - lag_ns / 1000), max(0.0, best - lag_ns / 1000)
            reasons.append(
                f"the send lag was {threshold.format(lag_ns / 1000)} on average"
            )
        shown = threshold.format(value)
        text = f"{threshold.format(low)} to {threshold.format(high)}"
        known = _Judged(Outcome.UNCERTAIN, value, shown, text)
        return self._decide(known, threshold.limit, (low, high), (best, value), reasons)

    # The range against the limit.

    def _decide(
        self,
        known: _Judged,
        limit: float,
        ends: tuple[float, float],
        without_chance: tuple[float, float],
        reasons: Sequence[str],
    ) -> _Judged:
        """`ends` of the whole range, and of what the generator alone leaves open."""
        compare = COMPARISONS[self._threshold.comparison]
        met = {compare(one, limit) for one in ends}
        if met == {True}:
            return known._replace(outcome=Outcome.MET)
        if met == {False}:
            return known._replace(outcome=Outcome.MISSED)
        if self._is_sound and len({compare(one, limit) for one in without_chance}) == 1:
            return known._replace(remedy=_LONGER)
        return known._replace(detail=", ".join(reasons), remedy=_SOONER)


def _limit_text(threshold: Threshold) -> str:
    return format_duration(round(threshold.limit * 1000))


def _percent(share: float) -> str:
    return f"{share * 100:.3g}%"
