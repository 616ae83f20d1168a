# SPDX-License-Identifier: Apache-2.0
"""What figures of an operation may be, and what of the generator limits them. Pure.

Rates, shares and means have ranges that no threshold changes. A percentile is judged by
the share of requests above its limit: `p99 < 5ms` says that at most 1 % are. Failures,
dropped arrivals and requests without a response are above every limit. The worst case
takes times as they were measured, and missing intervals as above the limit. The best
case takes away

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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

from ldapslam.base.causes import WITH_REQUESTS, causes_text
from ldapslam.base.units import NS_PER_S, format_duration
from ldapslam.jobs.fields.remedies import BOUND_BEFORE, empty_remedy, remedy_of
from ldapslam.jobs.fields.result_codes import code_name
from ldapslam.jobs.fields.thresholds import (
    OUTAGE_STATISTICS,
    PERCENTILES,
    SHARES,
    TIME_METRICS,
    Threshold,
)
from ldapslam.proto.fields import OUTCOMES
from ldapslam.reports.collect.totals import (
    BatchTotals,
    OperationTotals,
    counter_title,
    unanswered,
)
from ldapslam.reports.distribution import us_of
from ldapslam.reports.document import format_figure
from ldapslam.reports.figures import LONGER, Figure, Range
from ldapslam.reports.rules.evidence import Evidence
from ldapslam.reports.typeset import limit_text
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

#: The lags that are tried as d, in addition to the tolerated lag.
_LAGS_NS = tuple(int(10**exponent) for exponent in (4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5, 8))
#: In thresholds on a time, above every time.
_ERRORS = SHARES["errors"][0]
#: Of floats, as in 1 - 0.99.
_SLACK = 1e-12
#: Times a percentile, or a part of it: no sample of that size wanders so far by chance.
_FAR = 2.0
AT_FAULT = "the generator was at fault"
#: Times as long as a run was: more is not proposed.
_MOST_TIMES = 100


def sooner(evidence: Evidence) -> str:
    """What helps where the generator was at fault."""
    if evidence.has_realtime:
        return "give agents CPUs of their own, or more agents"
    return "give agents CPUs of their own, CAP_SYS_NICE, or more agents"


class Outcome(StrEnum):
    MET = "met"
    MISSED = "missed"
    UNCERTAIN = "uncertain"


class Judged(NamedTuple):
    outcome: Outcome
    value: float | None
    shown: str
    range: str
    detail: str = ""
    #: What would tell more, of an uncertain one.
    remedy: str = ""


def rate_interval(
    metric: str,
    value: float,
    key: tuple[str, str],
    batches: Sequence[BatchTotals],
    evidence: Evidence,
    part: float = 1.0,
) -> Estimate:
    """Return a throughput or goodput per s, with its interval by batches if the stream
    was at work all the time, else by the count."""
    lengths_s = evidence.plan.batch_lengths_s(BATCHES)
    name = "completed" if metric == "throughput" else "succeeded"
    amounts = [getattr(one, name) for one in batches]
    window_s = evidence.window_of(key[0]).measure_s
    reach = 1.96 * math.sqrt(value / window_s) if window_s else 0.0
    if lengths_s and window_s and window_s > 0.99 * sum(lengths_s):
        found = ratio_interval(amounts, lengths_s)
        if found is not None and found.value:
            # a part of the requests varies like all of them, and more by chance
            reach = value * (1 - found.low / found.value) / math.sqrt(part)
    return Estimate(value, value - reach, value + reach)


def batches_of(totals: OperationTotals, evidence: Evidence) -> list[BatchTotals]:
    """Return the batches of the measure phase, including empty batches."""
    return [
        totals.batches.get(number, BatchTotals())
        for number in range(len(evidence.plan.batch_lengths_s(BATCHES)))
    ]


def with_ranges(
    figures: Iterable[Figure], evidence: Evidence, blamed: frozenset[str]
) -> Iterator[Figure]:
    """Yield the figures with what they may be, and what limits that; `blamed`: rules
    about the generator that fail."""
    ranges = {
        key: OperationRange(key, totals, evidence, blamed)
        for key, totals in evidence.collected.operations.items()
    }
    for one in figures:
        if one.kind == "stream" and one.place in ranges:
            yield ranges[one.place].ranged(one)
        elif one.metric == "cpu_per_operation" and blamed and one.value is not None:
            # what agents completed is a part of it
            any_time = Range(0.0, math.inf, 0.0, math.inf)
            yield replace(one, range=any_time, limited_by=(AT_FAULT,))
        elif one.metric == "outage":
            yield _outage(one, evidence)
        elif one.metric == "unsent" and one.value is not None:
            yield _unsent(one, one.value, evidence, blamed)
        else:
            yield one


def _outage(one: Figure, evidence: Evidence) -> Figure:
    """The directory may have been away while nobody looked."""
    outage, low = evidence.outage_of(one.subject), one.value or 0.0
    longest_s, total_s = evidence.unseen_s(one.subject)
    window_s = evidence.window_of(one.subject).measure_s or math.inf
    place = OUTAGE_STATISTICS.index(one.statistic or "total")
    high = (
        (outage.longest_s[1] + longest_s) * 1e6,
        (outage.total_s[1] + total_s) * 1e6,
        outage.share[1] + total_s / window_s,
    )[place]
    text = outage.worst[place][1]
    if outage.stalled_s or longest_s:
        limit = "the generator stood still meanwhile, or intervals are missing"
        found = Range(low, high, low, high, text)
        return replace(one, range=found, limited_by=(limit,))
    tells = "no request was sent meanwhile; send requests more often"
    return replace(one, range=Range(low, high, low, low, text, "", tells))


def _unsent(
    one: Figure, value: float, evidence: Evidence, blamed: frozenset[str]
) -> Figure:
    """Chance, and a generator that stood still, excuse some of it."""
    if blamed or evidence.has_stalled_at_end(one.subject):
        found = Range(0.0, value, 0.0, value)
        return replace(one, range=found, limited_by=(AT_FAULT,))
    least = share_interval(value, evidence.arrivals_of(one.subject)).low
    waited = "no connection was free: these still waited"
    return replace(one, range=Range(least, least, least, least, waited))


class OperationRange:
    """What figures of one operation, or of a server's or an agent's part of it, may
    be."""

    def __init__(
        self,
        key: tuple[str, str],
        totals: OperationTotals,
        evidence: Evidence,
        blamed: frozenset[str],
        part: float = 1.0,
    ) -> None:
        """`part`: the share of the operation's requests that `totals` are of; its
        batches are the whole operation's."""
        self._part = part
        self._key = key
        self._totals = totals
        self._evidence = evidence
        self._is_sound = not blamed
        #: Times are then in doubt as a whole; late sends have bounds of their own.
        self._is_disturbed = "generator_disturbed" in blamed
        self._wanted = evidence.plan.wanted_of(key)
        self._batches = batches_of(totals, evidence)
        self._narrowed_by = evidence.outage_of(key[0]).text or LONGER

    def ranged(self, figure: Figure) -> Figure:
        """Return the figure with what limits it; a rate, a share and the mean response
        time with its range."""
        metric, value, found = figure.metric, figure.value, None
        if value is None:
            return figure
        missing = self._evidence.missing_share
        limits = [f"{_percent(missing)} of the intervals are missing"] * bool(missing)
        if metric in SHARES:
            found = self._share(metric, value, limits)
        elif metric in ("throughput", "goodput"):
            found = self._rate(figure, value, limits)
        elif (metric, figure.statistic) == ("response_time", "mean"):
            found = self._mean(figure, value, limits)
        is_at_fault = not self._is_sound and metric != "empty"
        if metric in TIME_METRICS:
            is_at_fault = self._is_disturbed
        limits += [AT_FAULT] * is_at_fault
        return replace(figure, range=found, limited_by=tuple(limits))

    # Percentiles: the share of requests above the limit.

    def percentile(self, threshold: Threshold, value: float | None) -> Judged:
        """Judge the share above the limit: its effective sample, and which late sends
        matter, depend on the limit, so that a percentile has no range without one."""
        counts = self._totals.measured
        p = PERCENTILES[threshold.statistic or ""]
        allowed = 1 - p / 100
        limit_ns = threshold.limit * 1000
        or_at = threshold.comparison == "<"
        times = self._totals.union(threshold.metric, (self._wanted,))
        times.unanswered = unanswered(counts)
        outside = sum(counts[name] for name in _ERRORS) - times.unanswered
        size = times.sample + outside
        if not size:
            return Judged(Outcome.UNCERTAIN, None, "no data", "", "", "was it sent?")
        above = times.beyond(limit_ns, or_at=or_at) + outside
        found_us = us_of(times.percentile(p))
        sample = self._effective(threshold, p, size, found_us)
        missing = self._evidence.missing_share
        worst = above / size * (1 - missing) + missing
        best = above / size * (1 - missing)
        reasons: list[str] = []
        if missing:
            reasons.append(f"{_percent(missing)} of the intervals are missing")
        if self._is_disturbed:
            best = counts["failed"] / size
            reasons.append(AT_FAULT)
        else:
            on_time = self._on_time(threshold, times) + outside
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
        here, over = _percent(above / size), _over(threshold)
        limit = f"{_percent(allowed)} allowed"
        text = f"{_range(low, high)} of requests {over}, {limit}"
        if value is None or outside or times.unanswered:
            shown, detail = f"{here} {over}", self._made_of() or limit
        else:
            shown = limit_text(threshold, value)
            detail = f"{here} of requests {over}, {limit}"
            reasons.insert(0, f"{here} in this run")
        known = Judged(Outcome.UNCERTAIN, value, shown, text, detail)
        # `p99 < 5ms` is met when 1 % are at 5 ms or above, as ranks count
        met = {one <= allowed + _SLACK for one in (low, high)}
        if len(met) == 1:
            return known._replace(
                outcome=Outcome.MET if met == {True} else Outcome.MISSED
            )
        if (best <= allowed + _SLACK) == (worst <= allowed + _SLACK):
            if not sample:
                reasons = [f"fewer than {FEWEST_BATCHES} intervals"]
            remedy = self._longer(best, worst, allowed, sample, size)
            return known._replace(detail=", ".join(reasons), remedy=remedy)
        remedy = sooner(self._evidence)
        return known._replace(detail=", ".join(reasons), remedy=remedy)

    def _longer(
        self, best: float, worst: float, allowed: float, sample: float, size: int
    ) -> str:
        """That a longer run helps, and which length is enough if it goes on like this
        one; a stream that ends by itself is no longer in a longer run."""
        collected, stream = self._evidence.collected, self._key[0]
        if outage := self._evidence.outage_of(stream).text:
            return f"{outage}: a run without that tells"
        steady = self._evidence.steady.get(self._key)
        # requests hang together, by a trend: a longer run has more of it
        if sample < size / 2 and steady is not None and steady.text:
            return f"{steady.text}: after a longer warm_up, a steady run tells"
        start_ns, end_ns = collected.measure_start_ns, collected.measure_end_ns
        planned = self._evidence.run.plan.stream(stream)
        if not sample or start_ns is None or end_ns is None:
            return LONGER
        if planned.count or planned.end_ns or planned.is_replay:
            return LONGER
        for times in range(2, _MOST_TIMES + 1):
            low = share_interval(best, sample * times).low
            high = share_interval(worst, sample * times).high
            if high <= allowed + _SLACK or low > allowed + _SLACK:
                length_s = math.ceil((end_ns - start_ns) * times / NS_PER_S)
                return f"{LONGER}, such as --set run.duration={length_s}s"
        return LONGER

    def _effective(
        self, threshold: Threshold, p: float, size: int, value: float | None
    ) -> float:
        """The effective sample of the share above the limit; 0: nothing is known.

        Of few above the limit the batches do not show how they hang together. They do
        at the percentile itself, unless the limit is far away from it.
        """
        limit_ns, or_at = threshold.limit * 1000, threshold.comparison == "<"
        ratio = threshold.limit / max(value or 0.0, 1e-9)
        is_far = value is None or not 1 / _FAR <= ratio <= _FAR
        times = [one.times for one in self._batches]
        if sum(bool(one.sample) for one in times) < FEWEST_BATCHES:
            return size if is_far else 0
        outside = [
            sum(one.measured[name] for name in _ERRORS) - one.times.unanswered
            if threshold.metric == "response_time"
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
        return min(size, self._part * found)

    def _on_time(self, threshold: Threshold, times: Histogram) -> int:
        """At least how many would be above the limit if all had been sent on time."""
        limit_ns, or_at = threshold.limit * 1000, threshold.comparison == "<"
        above = times.beyond(limit_ns, or_at=or_at)
        if threshold.metric == "service_time":
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

    def _share(self, metric: str, value: float, limits: list[str]) -> Range:
        counts = self._totals.measured
        some, every = SHARES[metric]
        size = sum(counts[name] for name in every)
        missing = self._evidence.missing_share
        best, worst = value * (1 - missing), value * (1 - missing) + missing
        in_doubt = sum(self._totals.disturbed[name] for name in some) / size
        if in_doubt:
            best = max(0.0, best - in_doubt)
            limits.append(f"{_percent(in_doubt)} while the generator was disturbed")
        made_of = remedy = ""
        if metric == "empty":
            planned = self._evidence.operation_plan(self._key)
            made_of = "searches found nothing"
            remedy = empty_remedy(planned.about, counts["references"])
        elif not self._is_sound:
            best = counts["failed"] / size if metric == "errors" else 0.0
        if metric == "errors" and (made_of := self._made_of()):
            remedy = self._remedy()
        # counted, not estimated: chance has no part in it
        return Range(best, worst, best, worst, made_of, remedy)

    def _failures(self) -> Counter[int]:
        """Responses by their unexpected result codes."""
        accepted = self._evidence.operation_plan(self._key).accepted_codes
        codes = self._totals.result_codes
        return Counter({code: codes[code] for code in codes if code not in accepted})

    def _remedy(self) -> str:
        """Return the remedy for the most frequent result code of the errors; empty if
        none is known."""
        stream = self._evidence.run.plan.stream(self._key[0])
        planned = self._evidence.operation_plan(self._key)
        kind, size_limit = planned.kind, planned.size_limit
        who = stream.identity or "the bind DN"
        if stream.identity_change:
            who = BOUND_BEFORE
        most = self._failures().most_common(1)
        return next((remedy_of(code, kind, who, size_limit) for code, _ in most), "")

    def _made_of(self) -> str:
        """The errors by what they were."""
        counts = self._totals.measured
        parts: Counter[str] = Counter()
        said: dict[str, str] = {}
        for code, number in self._failures().items():
            parts[code_name(code)] += number
            for text in self._totals.diagnostic_messages.get(code, ())[:1]:
                said[code_name(code)] = f' ("{text}")'
        for name in ("timed_out", "unresolved"):
            parts[counter_title(name)] += counts[name]
        if self._part == 1:
            counters = self._evidence.totals_of(self._key[0]).counters
            if losses := causes_text(counters, WITH_REQUESTS):
                said[counter_title("unresolved")] = f" (connections lost: {losses})"
        texts = [
            f"{number:,} {name}{said.get(name, '')}"
            for name, number in parts.most_common(4)
            if number
        ]
        if counts["dropped"]:
            share = _percent(counts["dropped"] / max(counts["scheduled"], 1))
            texts.insert(
                0, f"no connection was free: {share} of arrivals were not sent"
            )
        return ", ".join(texts)

    # Rates and means.

    def _rate(self, figure: Figure, value: float, limits: list[str]) -> Range:
        evidence = self._evidence
        found = figure.interval or rate_interval(
            figure.metric, value, self._key, self._batches, evidence, self._part
        )
        there, lag = 1 - evidence.missing_share, evidence.loop_share(self._key[0])
        high, best = (one / max(there, _SLACK) for one in (found.high, value))
        most = self._most_per_s(value)
        if not self._is_sound:
            high = best = most
        elif lag:
            high, best = high / (1 - lag), best / (1 - lag)
            limits.append(
                f"lags of the generator were {_percent(lag)} of the clients' time"
            )
        tells = self._narrowed_by
        if tells == LONGER and not math.isinf(most):
            tells = (
                f"the stream offers {format_figure(most)}/s: ask for some percent less"
            )
        low, high, best = max(0.0, found.low), min(high, most), min(best, most)
        return Range(low, high, value, best, narrowed_by=tells)

    def _most_per_s(self, value: float) -> float:
        """An open loop has no more completions than arrivals were due."""
        evidence, stream = self._evidence, self._key[0]
        window_s = evidence.window_of(stream).measure_s
        if self._part < 1:  # arrivals are of no server
            return math.inf
        if evidence.run.plan.stream(stream).model != "open" or not window_s:
            return math.inf
        offered = self._totals.measured["scheduled"] / window_s
        due, begun = evidence.arrivals_due(stream), evidence.arrivals_of(stream)
        if due and begun:
            offered *= max(1.0, due / begun)
        return max(value, offered)

    def _mean(self, figure: Figure, value: float, limits: list[str]) -> Range:
        low, high = figure.interval[1:] if figure.interval else (value, value)
        best = value
        if self._is_disturbed:
            low = best = 0.0
        elif lag_ns := self._totals.union("send_lag", OUTCOMES).mean():
            low, best = max(0.0, low - lag_ns / 1000), max(0.0, best - lag_ns / 1000)
            limits.append(
                f"the send lag was {format_figure(lag_ns / 1e6)} ms on average"
            )
        return Range(low, high, best, value, narrowed_by=self._narrowed_by)


def _over(threshold: Threshold) -> str:
    """Which requests miss the limit, for people."""
    sign = "≥" if threshold.comparison == "<" else ">"
    return f"{sign} {format_duration(round(threshold.limit * 1000))}"


def _range(low: float, high: float) -> str:
    """Of shares, as one where they look alike."""
    ends = dict.fromkeys((_percent(low), _percent(high)))
    return " to ".join(ends)


def _percent(share: float) -> str:
    return f"{format_figure(share * 100)}%"
