# SPDX-License-Identifier: Apache-2.0
"""Thresholds, of the job and by default, against ranges of what was measured. Pure.

A figure is known within a range: its confidence interval (reports/uncertainty.py), and
best and worst case of what the generator, not the directory, has caused. A threshold is
met when the whole range meets it, missed when the whole range misses it, and uncertain
otherwise.

Per server, or agent, each part of an operation is judged like the whole; how requests
hang together is taken from the whole. A threshold that has to be missed for some time
is judged by intervals: missed, when each of them missed it for that long, and none of
them was disturbed; uncertain, when this depends on intervals that were disturbed or are
unknown.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ldapslam.jobs.fields.thresholds import (
    DEFAULT_THRESHOLDS,
    PERCENTILES,
    SHARES,
    TIME_METRICS,
    UNITS,
    Threshold,
    parse_threshold,
    samples_needed,
    share_of,
)
from ldapslam.reports.collect.telemetry import subjects_of
from ldapslam.reports.collect.timeline import NS_PER_S, IntervalState
from ldapslam.reports.collect.totals import OperationTotals, ServerTotals
from ldapslam.reports.distribution import us_of
from ldapslam.reports.document import format_figure
from ldapslam.reports.figures import LONGER, Figure, Range, matching
from ldapslam.reports.rules.evidence import Evidence
from ldapslam.reports.rules.operation_range import (
    Judged,
    OperationRange,
    Outcome,
    sooner,
)
from ldapslam.reports.typeset import limit_text
from ldapslam.results.histogram import Histogram


@dataclass(frozen=True, slots=True)
class ThresholdResult:
    expression: str
    #: Value of the worst operation or stream; None without any.
    value: float | None
    #: The operation, or part of one, stream or server that it is of.
    of: str
    #: Of value and limit.
    unit: str
    #: What the value is compared with, and how.
    comparison: str
    limit: float
    #: The value with its unit, where it is, and what it may be.
    shown: str
    where: str
    range: str
    outcome: Outcome
    #: Why it is missed or uncertain, for people.
    reason: str
    is_default: bool

    @property
    def passed(self) -> bool:
        return self.outcome is Outcome.MET


def judge_thresholds(
    expressions: Sequence[str],
    evidence: Evidence,
    figures: Sequence[Figure],
    *,
    blamed: frozenset[str],
) -> tuple[ThresholdResult, ...]:
    """Judge the job's thresholds and the default thresholds by the figures of the run;
    `blamed`: rules about the generator that fail."""
    own = [parse_threshold(text) for text in expressions]
    results = [
        _judge(
            one,
            [*matching(one, figures), *_unread(one, figures)],
            evidence,
            blamed,
            is_default=False,
        )
        for one in own
    ]
    # what is dropped is of no server, and a time is not the phase
    plain = [one for one in own if one.is_of_stream and not one.hold_ns and not one.per]
    for one in map(parse_threshold, DEFAULT_THRESHOLDS):
        others = [
            each
            for each in plain
            if (each.metric, each.statistic) == (one.metric, one.statistic)
        ]
        judged = [
            figure
            for figure in matching(one, figures)
            if not any(each.matches(*figure.place) for each in others)
            and figure.value is not None
            # what a log has searched for in vain may be missing here, too
            and not (one.metric == "empty" and evidence.is_replay(figure.subject))
        ]
        if judged:
            results.append(_judge(one, judged, evidence, blamed, is_default=True))
    return tuple(results)


#: Operations that a reason names after the worst.
_LISTED = 4
_RANK = {Outcome.MET: 0, Outcome.UNCERTAIN: 1, Outcome.MISSED: 2}


def _judge(
    threshold: Threshold,
    figures: Sequence[Figure],
    evidence: Evidence,
    blamed: frozenset[str],
    *,
    is_default: bool,
) -> ThresholdResult:
    found: dict[str, Judged] = {}
    for figure in figures:
        of = figure.title
        if figure.metric != threshold.metric:
            of += f" {figure.metric}"
        if figure.server:
            of += f" at {figure.server}"
        if threshold.is_of_stream and threshold.hold_ns:
            found[of] = _judge_hold(threshold, figure.place, evidence, blamed)
        elif threshold.per:
            for part, judged in _by_part(threshold, figure, evidence, blamed):
                found[f"{of} at {part}" if part else of] = judged
        else:
            found[of] = _judge_one(threshold, figure, evidence, blamed)
    if not found:
        nothing = Judged(Outcome.MISSED, None, "no data", "", "nothing matches it")
        return _result(threshold, nothing, "", is_default)
    # of a time, the longest is the worst
    is_upper = threshold.comparison.startswith("<") or bool(threshold.hold_ns)
    of = _worst(found, is_upper=is_upper)
    is_one_of_many = "*" in (threshold.subject, threshold.part)
    is_named = of != threshold.subject and (
        is_one_of_many or bool(threshold.per) or not threshold.is_of_stream
    )
    others = {
        name: one
        for name, one in found.items()
        if name != of and one.outcome is found[of].outcome is not Outcome.MET
    }
    return _result(
        threshold, found[of], of, is_default, is_named=is_named, others=others
    )


def _worst(found: Mapping[str, Judged], *, is_upper: bool) -> str:
    """The one that is furthest from its limit, of the worst outcome there is; nothing
    is worse than no value."""

    def rank(name: str) -> tuple[int, float]:
        one = found[name]
        if one.value is None:
            return _RANK[one.outcome], math.inf
        return _RANK[one.outcome], one.value if is_upper else -one.value

    return max(found, key=rank)


def _by_part(
    threshold: Threshold,
    figure: Figure,
    evidence: Evidence,
    blamed: frozenset[str],
) -> Iterator[tuple[str, Judged]]:
    """Server or agent, and its part of an operation; the whole where it has one."""
    key = figure.place
    whole = evidence.collected.operations[key]
    parts = dict(_parts(threshold.per, key, whole, evidence))
    if len(parts) < 2:
        yield "", _judge_one(threshold, figure, evidence, blamed)
        return
    requests = sum(one.measured["sent"] for one in parts.values())
    window_s = evidence.window_of(key[0]).measure_s
    for name, totals in parts.items():
        share = totals.measured["sent"] / max(requests, 1)
        one = OperationRange(key, totals, evidence, blamed, share)
        done = totals.completed_in_measure
        if not share:
            yield name, _of_nothing(threshold, done, window_s, blamed)
        elif threshold.metric in TIME_METRICS:
            wanted = evidence.plan.wanted_of(key)
            times = totals.union(threshold.metric, (wanted,))
            p = PERCENTILES[threshold.statistic or ""]
            yield name, one.percentile(threshold, us_of(times.reliable_percentile(p)))
        else:
            value = share_of("errors", totals.measured)
            if threshold.metric == "throughput":
                value = done / window_s if window_s else None
            part = one.ranged(replace(figure, value=value, interval=None))
            yield name, _judge_one(threshold, part, evidence, blamed)


def _of_nothing(
    threshold: Threshold, done: int, window_s: float | None, blamed: frozenset[str]
) -> Judged:
    """Judge a server that received, or an agent that sent, nothing in the measure
    phase. A server that is up has requests; an agent's silence is its own."""
    detail = "nothing was sent there"
    if threshold.per == "agent" or blamed:
        detail = "it sent nothing" if threshold.per == "agent" else detail
        return Judged(Outcome.UNCERTAIN, None, "no data", "", detail)
    if threshold.metric == "throughput" and threshold.holds(done / (window_s or 1)):
        return Judged(Outcome.MET, 0.0, limit_text(threshold, 0.0), "")
    return Judged(Outcome.MISSED, None, "no data", "", detail)


def _parts(
    per: str, key: tuple[str, str], whole: OperationTotals, evidence: Evidence
) -> Iterator[tuple[str, OperationTotals]]:
    """Yield the totals of all servers of the role, or of all agents of the stream."""
    wanted = evidence.plan.wanted_of(key)
    if per == "server":
        for uri in evidence.run.plan.stream(key[0]).uris:
            server = whole.servers.get(uri) or ServerTotals()
            part = _part_of(whole, server.measured, server.times, wanted)
            part.completed_in_measure = server.completed_in_measure
            yield uri, part
        return
    for name, agent in evidence.collected.agents.items():
        if key[0] in agent.streams or key in agent.operations:
            response_times = agent.response_times.get(key) or Histogram()
            times = {"response_time": response_times}
            yield name, _part_of(whole, agent.operations[key], times, wanted)


def _part_of(
    whole: OperationTotals,
    measured: Counter[str],
    times: Mapping[str, Histogram],
    wanted: str,
) -> OperationTotals:
    """What is not known of a part is the whole's: at worst, all of it is the part's."""
    part = OperationTotals(measured=measured, disturbed=whole.disturbed)
    part.batches = whole.batches
    part.histograms.update(whole.histograms)
    for metric, histogram in times.items():
        part.histograms[metric, wanted] = histogram
    return part


def _judge_hold(
    threshold: Threshold,
    key: tuple[str, str],
    evidence: Evidence,
    blamed: frozenset[str],
) -> Judged:
    found = evidence.collected.timeline.states.get(threshold.expression, {})
    states = found.get(key) or bytes(len(evidence.plan.intervals))
    missed_s = _longest_s(states, evidence, (IntervalState.MISSED,))
    unknown = (IntervalState.MISSED, IntervalState.UNKNOWN)
    at_most_s = _longest_s(states, evidence, unknown)
    known = _by_stretch(threshold, missed_s, at_most_s)
    if known.outcome is Outcome.MET or (known.outcome is Outcome.MISSED and not blamed):
        return known
    detail = "in the other intervals, little was sent or the generator was disturbed"
    remedy = _longer_intervals(threshold, key, evidence)
    if blamed:
        detail, remedy = "the generator was at fault", sooner(evidence)
    return known._replace(
        outcome=Outcome.UNCERTAIN,
        range=f"up to {format_figure(at_most_s)} s",
        detail=detail,
        remedy=remedy,
    )


def _by_stretch(threshold: Threshold, missed_s: float, at_most_s: float) -> Judged:
    """Judge a threshold with `for` by how long it was, and may have been, missed."""
    hold_s = threshold.hold_ns / NS_PER_S
    shown = f"missed for {format_figure(missed_s)} s at a stretch"
    if at_most_s < hold_s:
        return Judged(Outcome.MET, missed_s, shown, "")
    if missed_s >= hold_s:
        return Judged(Outcome.MISSED, missed_s, shown, "")
    return Judged(
        Outcome.UNCERTAIN, missed_s, shown, f"up to {format_figure(at_most_s)} s"
    )


def _longer_intervals(
    threshold: Threshold, key: tuple[str, str], evidence: Evidence
) -> str:
    """What helps where an interval has too few requests for a percentile."""
    p = PERCENTILES.get(threshold.statistic or "")
    totals = evidence.collected.operations.get(key)
    measure_s = evidence.window_of(key[0]).measure_s
    if p is None or totals is None or not measure_s:
        return ""
    interval_s = evidence.plan.interval_s
    most = totals.measured["completed"] / measure_s * interval_s
    needed = samples_needed(p)
    if most >= needed:
        return ""
    longer_s = math.ceil(interval_s * needed / max(most, 1))
    return f"p{p:g} needs {needed:,} requests in each: --set run.interval={longer_s}s"


def _longest_s(
    states: Sequence[int], evidence: Evidence, chosen: Collection[int]
) -> float:
    """Return the longest stretch of measured intervals in the chosen states, in s."""
    longest_ns = length_ns = 0
    last = evidence.collected.last_index
    there = evidence.plan.intervals[: last + 1]
    for state, interval in zip(states, there, strict=False):
        is_so = interval.phase == "measure" and state in chosen
        length_ns = length_ns + interval.end_ns - interval.start_ns if is_so else 0
        longest_ns = max(longest_ns, length_ns)
    return longest_ns / NS_PER_S


def _unread(threshold: Threshold, figures: Sequence[Figure]) -> list[Figure]:
    """Return a figure without a value for each server of the role that lacks what a
    threshold is about, or one for the role if nothing is known of it."""
    if threshold.is_of_stream:
        return []
    kind, metric, subject = threshold.kind, threshold.metric, threshold.subject
    known = {one.subject for one in matching(threshold, figures)}
    lacking = {
        one.subject
        for one in figures
        if {one.kind, kind} <= {"directory", "host", "process"}
        and subject in ("*" * (one.kind == kind), one.subject, *one.roles)
    }
    needs = f"readings of {metric} of the {kind} of {subject}"
    return [
        Figure(name, "*", metric, threshold.statistic, None, needs=needs, kind=kind)
        for name in sorted(lacking - known) or ["*"] * (not known)
    ]


def _judge_readings(threshold: Threshold, figure: Figure, evidence: Evidence) -> Judged:
    """Judge a threshold with `for` on what a monitor reads."""
    stretches = [
        stretch
        for one in evidence.monitors
        if one.facts.kind == figure.kind
        and figure.subject in subjects_of(one.name, one.facts)
        if (stretch := one.stretches.get((threshold.expression, figure.metric)))
    ]
    if len(stretches) != 1:
        detail = f"{len(stretches)} processes serve it, each by itself"
        return Judged(Outcome.UNCERTAIN, None, "n/a", "", detail)
    known = _by_stretch(threshold, *stretches[0])
    if known.outcome is not Outcome.UNCERTAIN:
        return known
    detail = "it was not read in between"
    return known._replace(detail=detail, remedy="a shorter `every` of its monitor")


def _result(
    threshold: Threshold,
    one: Judged,
    of: str,
    is_default: bool,
    *,
    is_named: bool = True,
    others: Mapping[str, Judged] | None = None,
) -> ThresholdResult:
    """`is_named`: the expression does not say which one the value is of; `others` are
    not met like it."""
    where = f" of {of}" if of and is_named else ""
    more = f", and {len(others)} more" if others else ""
    reason = ""
    if one.outcome is not Outcome.MET:
        reason = "threshold failed: "
        if one.outcome is Outcome.UNCERTAIN:
            reason = "not certain: "
        reason += f"{threshold.expression}, was {one.shown}{where}"
        if one.outcome is Outcome.UNCERTAIN and one.range:
            reason += f", may be {one.range}"
        details = "; ".join(filter(None, (one.detail, one.remedy)))
        reason += f" ({details})" if details else ""
        reason += f"{more}: {_listed(others, one.detail)}" if others else ""
    return ThresholdResult(
        threshold.expression,
        one.value,
        of,
        "s" if threshold.hold_ns else threshold.limit_unit,
        threshold.comparison,
        threshold.hold_ns / NS_PER_S or threshold.limit,
        one.shown,
        of * is_named + more,
        one.range,
        one.outcome,
        reason,
        is_default,
    )


def _listed(others: Mapping[str, Judged], known: str) -> str:
    """Each with what it is made of, or its value where that is `known` already."""
    texts = [
        f"{name} ({one.shown if one.detail in ('', known) else one.detail})"
        for name, one in others.items()
    ]
    return ", ".join((*texts[:_LISTED], *["…"] * (len(texts) > _LISTED)))


def _judge_one(
    threshold: Threshold,
    figure: Figure,
    evidence: Evidence,
    blamed: frozenset[str],
) -> Judged:
    """Judge a figure by what it may be."""
    value, is_of_stream = figure.value, threshold.is_of_stream
    totals = evidence.collected.operations.get(figure.place)
    is_of_share = figure.metric in ("response_time", "service_time") and (
        threshold.statistic in PERCENTILES and threshold.comparison.startswith("<")
    )
    if is_of_stream and totals is not None and is_of_share:
        whole = OperationRange(figure.place, totals, evidence, blamed)
        return whole.percentile(threshold, value)
    if value is None:
        is_open = not is_of_stream or figure.is_too_small or figure.metric in SHARES
        return Judged(
            Outcome.UNCERTAIN if is_open else Outcome.MISSED,
            None,
            "n/a" if figure.needs else limit_text(threshold, None),
            "",
            f"needs {figure.needs}" if figure.needs else "",
            LONGER if figure.is_too_small else "",
        )
    if figure.unit != threshold.limit_unit:
        unit, limit_unit = UNITS[figure.unit].about, UNITS[threshold.limit_unit].about
        detail = f"it is {unit}, and is compared with {limit_unit}"
        return Judged(Outcome.UNCERTAIN, None, "n/a", "", detail)
    if threshold.hold_ns:
        return _judge_readings(threshold, figure, evidence)
    low, high = figure.interval[1:] if figure.interval else (value, value)
    found = figure.range or Range(low, high, value, value)
    text = ""
    if found.low < found.high:
        upper = "any" if math.isinf(found.high) else limit_text(threshold, found.high)
        text = f"{limit_text(threshold, found.low)} to {upper}"
    outcome = _outcome(threshold, found.low, found.high)
    detail, remedy = found.made_of, found.remedy
    if outcome is Outcome.UNCERTAIN:
        remedy = found.narrowed_by
        if figure.limited_by and (
            blamed or _outcome(threshold, found.least, found.most) is Outcome.UNCERTAIN
        ):
            detail, remedy = ", ".join(figure.limited_by), sooner(evidence)
    return Judged(outcome, value, limit_text(threshold, value), text, detail, remedy)


def _outcome(threshold: Threshold, *ends: float) -> Outcome:
    met = {threshold.holds(one) for one in ends}
    if len(met) == 2:
        return Outcome.UNCERTAIN
    return Outcome.MET if met == {True} else Outcome.MISSED
