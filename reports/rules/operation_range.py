# SPDX-License-Identifier: Apache-2.0
"""What a figure of an operation may be, against a limit. Pure.

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
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from ldapslam.base.causes import LOSS_CAUSES, causes_text
from ldapslam.base.units import NS_PER_S, format_duration
from ldapslam.jobs.fields.remedies import BOUND_BEFORE, empty_remedy, remedy_of
from ldapslam.jobs.fields.result_codes import code_name
from ldapslam.jobs.fields.thresholds import PERCENTILES, SHARES, Threshold
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

#: The lags that are tried as d, in addition to the tolerated lag.
_LAGS_NS = tuple(int(10**exponent) for exponent in (4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5, 8))
#: Ranked above every time, like the requests without an answer.
_OUTSIDE = ("failed", "dropped")
#: Of floats, as in 1 - 0.99.
_SLACK = 1e-12
#: Times a percentile, or a part of it: no sample of that size wanders so far by chance.
_FAR = 2.0
LONGER = "a longer run narrows it"
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


class OperationRange:
    """One operation, or a server's or an agent's part of it, against one threshold."""

    def __init__(
        self,
        threshold: Threshold,
        key: tuple[str, str],
        totals: OperationTotals,
        evidence: Evidence,
        blamed: frozenset[str],
        part: float = 1.0,
    ) -> None:
        """`part`: the share of the operation's requests that `totals` are of; its
        batches are the whole operation's."""
        self._threshold = threshold
        self._part = part
        self._key = key
        self._totals = totals
        self._evidence = evidence
        self._is_sound = not blamed
        #: Times are then in doubt as a whole; late sends have bounds of their own.
        self._is_disturbed = "generator_disturbed" in blamed
        self._wanted = evidence.plan.wanted_of(key)
        self._batches = batches_of(totals, evidence)
        self._losses = evidence.collected.streams[key[0]].counters

    # Percentiles: the share of requests above the limit.

    def percentile(self, value: float | None) -> Judged:
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
            return Judged(Outcome.UNCERTAIN, None, "no data", "", "", "was it sent?")
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
        here, over = _percent(above / size), _over(threshold)
        limit = f"{_percent(allowed)} allowed"
        text = f"{_range(low, high)} of requests {over}, {limit}"
        if value is None or outside or times.unanswered:
            shown, detail = f"{here} {over}", self._made_of() or limit
        else:
            shown = threshold.format(value)
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
            remedy = self._longer(best, worst, allowed, sample)
            return known._replace(detail=", ".join(reasons), remedy=remedy)
        remedy = sooner(self._evidence)
        return known._replace(detail=", ".join(reasons), remedy=remedy)

    def _longer(self, best: float, worst: float, allowed: float, sample: float) -> str:
        """That a longer run helps, and which length is enough if it goes on like this
        one; a stream that ends by itself is no longer in a longer run."""
        collected, stream = self._evidence.collected, self._key[0]
        if outage := self._evidence.outage_of(stream).text:
            return f"{outage}: a run without that tells"
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
        return min(size, self._part * found)

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

    def share(self) -> Judged:
        threshold, counts = self._threshold, self._totals.measured
        some, every = SHARES[threshold.metric]
        size = sum(counts[name] for name in every)
        if not size:
            sent = sum(counts[name] for name in SHARES["errors"][1])
            why = f"none of {sent:,} requests succeeded" if sent else "nothing was sent"
            return Judged(Outcome.UNCERTAIN, None, "no data", "", why)
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
        text = _range(best, worst) if best < worst else ""
        detail = self._made_of() if threshold.metric == "errors" else ""
        remedy = self._remedy() if detail else ""
        shown = threshold.format(value)
        if threshold.metric == "empty" and value > threshold.limit:
            planned = self._evidence.operation_plan(self._key)
            remedy = empty_remedy(planned.about, counts["references"])
            detail = "searches found nothing"
        known = Judged(Outcome.UNCERTAIN, value, shown, text, detail, remedy)
        ends = best, worst
        return self._decide(known, ends, ends, reasons)

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
        if losses := causes_text(self._losses, LOSS_CAUSES):
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

    def rate(self, value: float | None) -> Judged:
        threshold, evidence = self._threshold, self._evidence
        if value is None:
            return Judged(Outcome.MISSED, None, "no data", "")
        found = rate_interval(
            threshold.metric, value, self._key, self._batches, evidence, self._part
        )
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
        known = Judged(Outcome.UNCERTAIN, value, shown, text)
        judged = self._decide(known, (low, high), (value, best), reasons)
        if judged.remedy == LONGER and not math.isinf(most):
            offered = f"the stream offers {threshold.format(most)}"
            return judged._replace(remedy=f"{offered}: ask for some percent less")
        return judged

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

    def mean(self, value: float | None) -> Judged:
        threshold = self._threshold
        if value is None:
            return Judged(Outcome.MISSED, None, "n/a", "", self._made_of())
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
        known = Judged(Outcome.UNCERTAIN, value, shown, text)
        return self._decide(known, (low, high), (best, value), reasons)

    # The range against the limit.

    def _decide(
        self,
        known: Judged,
        ends: tuple[float, float],
        without_chance: tuple[float, float],
        reasons: Sequence[str],
    ) -> Judged:
        """`ends` of the whole range, and of what the generator alone leaves open."""
        holds = self._threshold.holds
        met = {holds(one) for one in ends}
        if met == {True}:
            return known._replace(outcome=Outcome.MET)
        if met == {False}:
            return known._replace(outcome=Outcome.MISSED)
        if self._is_sound and len({holds(one) for one in without_chance}) == 1:
            outage = self._evidence.outage_of(self._key[0]).text
            return known._replace(remedy=outage or LONGER)
        remedy = sooner(self._evidence)
        return known._replace(detail=", ".join(reasons), remedy=remedy)


def _over(threshold: Threshold) -> str:
    """Which requests miss the limit, for people."""
    sign = "≥" if threshold.comparison == "<" else ">"
    return f"{sign} {format_duration(round(threshold.limit * 1000))}"


def _range(low: float, high: float) -> str:
    """Of shares, as one where they look alike."""
    ends = dict.fromkeys((_percent(low), _percent(high)))
    return " to ".join(ends)


def _percent(share: float) -> str:
    return f"{share * 100:.3g}%"
