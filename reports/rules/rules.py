# SPDX-License-Identifier: Apache-2.0
"""The rules: may the numbers be trusted, and if not, who is at fault? Pure.

Each rule looks at the evidence and finds one line: its limit, what was observed, and
whether it passed. A rule without anything to check (one of open streams in a run
without any) passes, marked as not applicable. A failing rule has one cause: the
generator, the evidence (what was delivered does not add up, or is not there), or the
target. The limits come from the job's section `validity`. The report lists the rules in
the order of this module.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ldapslam.base.causes import FAILURE_CAUSES, OWN_CAUSES, causes_text
from ldapslam.jobs.fields.thresholds import samples_needed
from ldapslam.jobs.types.built_in import IMPORT_OPERATION
from ldapslam.proto.fields import OUTCOMES
from ldapslam.reports.collect.job_notes import imports_of
from ldapslam.reports.collect.timeline import NS_PER_S
from ldapslam.reports.collect.totals import (
    ANSWERED,
    CLOCK_STEP_LIMIT_NS,
    DISTURBANCES,
    DISTURBED,
    GENERATOR_LAGS,
    OperationTotals,
    counter_title,
)
from ldapslam.reports.document import format_figure
from ldapslam.reports.rules.evidence import Evidence
from ldapslam.reports.rules.reconciliation import restarted, unread
from ldapslam.results.facts import AgentFacts
from ldapslam.results.histogram import Histogram

NOT_APPLICABLE = "nothing to check"

_NS_PER_MS = 1_000_000
#: What became of a request that was due.
_RESULTS = ("completed", "timed_out", "unresolved", "abandoned", "dropped")
#: Connections that were missing for more of their time, by the generator's fault: what
#: was measured says nothing of the directory.
_UNABLE = 0.01
#: A stream without connections for this share of the time could have no result.
_UNAVAILABLE = 0.5
#: Requests of others that no share is needed for: of monitors, and of people who look.
_FEW_OTHERS = 100
#: Remedy for an agent that is disturbed by the server under test.
_SHARED_HOST = "the server runs on its host too: move the agent, or lower the load"
#: The first percentile that a stream has enough requests for is judged.
_SEND_LAG_P = (99, 95, 90, 50)


class Cause(StrEnum):
    GENERATOR = "generator"
    EVIDENCE = "evidence"
    TARGET = "target"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, applied."""

    #: As in result.json and the guide: `send_lag`.
    name: str
    #: What must hold, and what is wrong when it does not, for people.
    title: str
    problem: str
    limit: str
    observed: str
    passed: bool
    #: Who is at fault where it does not pass.
    cause: Cause = Cause.EVIDENCE
    #: What helps, where that can be told.
    remedy: str = ""

    @property
    def is_checked(self) -> bool:
        """Was there anything to check?"""
        return self.observed != NOT_APPLICABLE


class Finding(NamedTuple):
    limit: str
    observed: str
    passed: bool
    #: Instead of the rule's own.
    problem: str = ""
    remedy: str = ""


RULES: list[Callable[[Evidence], Rule]] = []


def _rule(
    title: str,
    problem: str,
    remedy: str = "",
    cause: Cause = Cause.EVIDENCE,
    name: str = "",
) -> Callable[[Callable[[Evidence], Finding]], Callable[[Evidence], Rule]]:
    """A decorator that makes a rule of a function. Without a `name`, the function's
    name is the rule's, as in result.json and the guide."""

    def added(find: Callable[[Evidence], Finding]) -> Callable[[Evidence], Rule]:
        def apply(evidence: Evidence) -> Rule:
            limit, observed, passed, special, instead = find(evidence)
            found, helps = special or problem, instead or remedy
            named = name or find.__name__.removeprefix("_")
            return Rule(named, title, found, limit, observed, passed, cause, helps)

        RULES.append(apply)
        return apply

    return added


def _percent(share: float) -> str:
    return f"{format_figure(share * 100)}%"


def _ms(value_ns: float) -> str:
    return f"{format_figure(value_ns / _NS_PER_MS)} ms"


def _listed(items: Sequence[str], limit: int = 4) -> str:
    more = f" and {len(items) - limit} more" if len(items) > limit else ""
    return ", ".join(items[:limit]) + more


def _extreme(
    values: Mapping[str, float], show: Callable[[float], str]
) -> tuple[float, str]:
    """The highest value, zero without any, and it with its owner as text."""
    if not values:
        return 0.0, NOT_APPLICABLE
    name = max(values, key=values.__getitem__)
    return values[name], f"{show(values[name])} ({name})"


@_rule(
    "the run ended as planned, or a threshold aborted it",
    "the run did not come to its planned end",
)
def _run_completed(evidence: Evidence) -> Finding:
    run = evidence.run
    detail = f": {run.state_detail}" if run.state_detail else ""
    is_as_planned = run.state in ("finished", "aborted")
    return Finding("finished or aborted", f"{run.state}{detail}", is_as_planned)


@_rule("every planned agent reported", "planned agents did not report")
def _agents_present(evidence: Evidence) -> Finding:
    planned, totals = evidence.run.agents, evidence.collected.agents
    silent = [
        name
        for name in planned
        if not totals[name].seen and totals[name].final_index is None
    ]
    observed = f"{len(planned) - len(silent)} of {len(planned)}"
    if silent:
        observed += f", not {_listed(silent)}"
    limit = f"{len(planned)} agents" if len(planned) != 1 else "1 agent"
    return Finding(limit, observed, bool(planned) and not silent)


@_rule("intervals are there", "intervals are missing")
def _intervals_complete(evidence: Evidence) -> Finding:
    found, limit = evidence.completeness, evidence.validity.missing_intervals
    observed = [
        f"{count} of {agent}{_loss(evidence, agent)}"
        for agent, count in found.missing.items()
    ]
    # in a run that was stopped, the last intervals are cut short: that is no fault
    if evidence.run.state == "finished":
        observed += [f"a part of 1 of {one.agent}" for one in found.partials]
    share = evidence.missing_share
    # without its drain, an agent may have sent what no interval counts
    is_open = bool(observed) or evidence.run.state == "aborted"
    passed = share <= limit and not (found.undrained and is_open)
    text = _listed(observed)
    if share:
        text += f"; {_percent(share)} of those measured"
    return Finding(f"≤ {_percent(limit)} missing", text or "0", passed)


def _loss(evidence: Evidence, agent: str) -> str:
    """Which intervals a lost agent did not deliver, and why."""
    loss = evidence.losses.get(agent)
    if loss is None:
        return ""
    gaps = [gap for gap in evidence.completeness.gaps if gap.agent == agent]
    numbers = _listed([gap.numbers for gap in gaps])
    return f" ({numbers}; lost at {loss.at_s:+.1f} s: {loss.reason})"


@_rule(
    "every operation had a result in the measure phase",
    "operations without any result in the measure phase",
)
def _data_present(evidence: Evidence) -> Finding:
    """An unreachable target is a matter of thresholds, not missing data."""
    operations = evidence.collected.operations
    with_data = {
        key
        for key, totals in operations.items()
        if any(totals.measured[name] for name in _RESULTS)
    }
    empty = [
        ".".join(key)
        for key, totals in operations.items()
        if key not in with_data
        and not _needs_no_data(evidence, key[0], totals)
        and not evidence.outage_of(key[0]).share[1] >= _UNAVAILABLE
    ]
    observed = f"none: {_listed(empty)}" if empty else f"all {len(with_data)}"
    is_too_late = all(evidence.was_through_before(key[0]) for key in operations)
    if not operations:
        observed = "none"
    elif is_too_late:
        observed = "none: the load ended before the measure phase"
    return Finding("1 each", observed, not empty and not is_too_late)


def _needs_no_data(evidence: Evidence, stream: str, totals: OperationTotals) -> bool:
    """A log need not have every kind of operation, and a stream may end early."""
    is_replay = evidence.run.plan.stream(stream).is_replay
    never_due = is_replay and not totals.whole["scheduled"]
    return never_due or evidence.was_through_before(stream)


@_rule(
    "streams that ended before the run had reached their count",
    "a stream ended before the run, and before it had reached its count",
)
def _counts_reached(evidence: Evidence) -> Finding:
    """Nothing else may have ended a stream before the run was over."""
    counts = {name: one.count for name, one in evidence.streams.items()}
    counted = {name: count for name, count in counts.items() if count}
    short = {
        name: f"{evidence.sessions_of(name):,} of {count:,} of {name}"
        for name, count in counted.items()
        if evidence.is_short(name)
    }
    is_early = any(evidence.ended_early(name) for name in short)
    observed = "all" if counted else NOT_APPLICABLE
    if short:
        observed = _listed(list(short.values())) + " at the run's end" * (not is_early)
    return Finding("all begun", observed, not is_early)


@_rule(
    "the generator could make its connections",
    "the generator could not make connections",
)
def _connections_made(evidence: Evidence) -> Finding:
    """By time, not by attempts: one connection tries for all that wait."""
    wrong, remedies = [], []
    for name, stream in evidence.collected.streams.items():
        connections = evidence.run.plan.stream(name).connections
        time_s = connections * (evidence.window_of(name).measure_s or 0.0)
        share = stream.unable_ns / NS_PER_S / time_s if time_s else 0.0
        if share > _UNABLE:
            own = {cause: stream.counters[cause] for cause in OWN_CAUSES}
            causes = causes_text(own, FAILURE_CAUSES)
            wrong.append(f"{_percent(share)} of {name}: {causes}")
            remedies += [OWN_CAUSES[cause].remedy for cause in own if own[cause]]
    limit = f"≤ {_percent(_UNABLE)} of the time of connections is lost by its fault"
    return Finding(
        limit,
        _listed(wrong) or "0",
        not wrong,
        remedy="; ".join(dict.fromkeys(remedies)),
    )


@_rule(
    "open streams had the arrivals that their rates say",
    "an open stream did not have the arrivals of its plan",
    "more agents, or agents with CPUs of their own",
    Cause.GENERATOR,
)
def _plan_followed(evidence: Evidence) -> Finding:
    """Not of streams that a Python class drives: what it makes of an arrival is its
    own. By chance, Poisson arrivals are four standard deviations short once in 30,000
    runs."""
    limit, wrong, shown = evidence.validity.plan_deviation, [], []
    for name, stream in evidence.streams.items():
        due = evidence.arrivals_due(name)
        if not due or stream.engine == "python" or not _is_whole(evidence):
            continue
        scheduled = evidence.arrivals_of(name) / (1 - evidence.missing_share)
        shown.append(f"{scheduled:,.0f} of {due:,.0f} of {name}")
        if scheduled < due * (1 - limit) - 4 * math.sqrt(due) - 1:
            wrong.append(shown[-1])
    observed = _listed(wrong or shown) or NOT_APPLICABLE
    return Finding(f"≥ {_percent(1 - limit)} but for chance", observed, not wrong)


def _is_whole(evidence: Evidence) -> bool:
    """Did the run last as long as planned, and is anything of it there?"""
    return evidence.run.state == "finished" and evidence.missing_share < 1


@_rule(
    "streams sent on time (send lag p99)",
    "a stream sent too late (send lag p99)",
    "give agents CPUs of their own, and CAP_SYS_NICE",
    Cause.GENERATOR,
)
def _send_lag(evidence: Evidence) -> Finding:
    """Judge the p99, or the highest percentile below it that has enough requests;
    single long lags are for `generator_disturbed`. Writes of a probe are exempt:
    propagation is timed from when they were sent.

    The response time is that of all responses: requests without an answer would excuse
    any lag.
    """
    validity = evidence.validity
    worst: tuple[float, str] | None = None
    passed = True
    streams: defaultdict[str, list[OperationTotals]] = defaultdict(list)
    for (stream, _), totals in evidence.collected.operations.items():
        if not evidence.run.plan.stream(stream).watched:
            streams[stream].append(totals)
    for stream, operations in streams.items():
        lags = _union(operations, "send_lag")
        p = next((p for p in _SEND_LAG_P if lags.sample >= samples_needed(p)), None)
        responses = _union(operations, "response_time")
        if p is None or not responses.sample:
            continue
        lag_ns, response_ns = _percentile_ns(lags, p), _percentile_ns(responses, p)
        limit_ns = max(validity.send_lag_p99_ns, validity.send_lag_share * response_ns)
        passed &= lag_ns <= limit_ns
        of = stream if p == _SEND_LAG_P[0] else f"{stream} (p{p})"
        line = f"{_ms(lag_ns)} of {of}, limit {_ms(limit_ns)}"
        worst = max(worst or (0.0, ""), (lag_ns / limit_ns, line))
    share = _percent(validity.send_lag_share)
    limit = f"≤ {_ms(validity.send_lag_p99_ns)} or {share} of response time p99"
    remedy = ""
    if not passed and evidence.has_realtime:
        remedy = "give agents CPUs of their own"
    observed = worst[1] if worst else NOT_APPLICABLE
    return Finding(limit, observed, passed, remedy=remedy)


def _percentile_ns(histogram: Histogram, p: float) -> float:
    """The largest value where the percentile is above the range of the histogram."""
    value_ns = histogram.percentile(p)
    return float(histogram.max_ns) if value_ns is None else value_ns


def _union(operations: Iterable[OperationTotals], metric: str) -> Histogram:
    """Over all outcomes; those without a response have no times that count here."""
    outcomes = OUTCOMES if metric in GENERATOR_LAGS else ANSWERED
    return Histogram.union(totals.union(metric, outcomes) for totals in operations)


@_rule(
    "agents could work undisturbed",
    "an agent was disturbed",
    "find what else runs on its host, or give it less load and more agents",
    Cause.GENERATOR,
)
def _generator_disturbed(evidence: Evidence) -> Finding:
    validity = evidence.validity
    agents = {
        name: one for name, one in evidence.collected.agents.items() if one.wall_ns
    }
    shares = {
        name: one.disturbed_ns[DISTURBED] / one.wall_ns for name, one in agents.items()
    }
    highest, observed = _extreme(shares, lambda share: f"{share:.1%} of intervals")
    remedy = ""
    if highest:
        which = max(shares, key=shares.__getitem__)
        worst = agents[which]
        if evidence.facts.get(which, AgentFacts()).shares_host_with_target:
            remedy = _SHARED_HOST
        causes = [
            f"{name} in {worst.disturbed_ns[name] / worst.wall_ns:.1%}"
            for name in DISTURBANCES
            if worst.disturbed_ns[name]
        ]
        observed += f": {_listed(causes)}"
    limit = (
        f"in ≤ {_percent(validity.disturbed_intervals)} of intervals: a lag > "
        f"{_ms(validity.stall_ns)}, a worker busy > {_percent(validity.busy_share)}, "
        f"> {_percent(validity.run_queue_share)} without a CPU"
    )
    passed = highest <= validity.disturbed_intervals
    return Finding(limit, observed, passed, remedy=remedy)


@_rule(
    "clients of closed loops did not wait for the generator",
    "clients of closed loops waited for the generator",
    "fewer clients for each agent, or more agents and CPUs",
    Cause.GENERATOR,
)
def _loop_share(evidence: Evidence) -> Finding:
    limit = evidence.validity.loop_share
    shares = {
        name: evidence.loop_share(name)
        for name, stream in evidence.streams.items()
        if stream.model == "closed"
    }
    highest, observed = _extreme(shares, _percent)
    return Finding(f"≤ {_percent(limit)} of their time", observed, highest <= limit)


@_rule(
    "agents' clock offsets are known",
    "an agent's clock offset is not known well enough",
)
def _clock_offset(evidence: Evidence) -> Finding:
    """At the start, how well offsets were known; later, how far the clocks went."""
    limit_ns = min(
        evidence.validity.clock_offset_ns, evidence.plan.interval_s * NS_PER_S / 100
    )
    bounds = {
        agent: (bound_us + _drift_us(evidence, agent)) * 1e3
        for agent, facts in evidence.facts.items()
        if (bound_us := facts.clock_offset_bound_us) is not None
    }
    unknown = [name for name in evidence.run.agents if name not in bounds]
    highest, observed = _extreme(bounds, lambda bound_ns: f"±{_ms(bound_ns)}")
    passed = not unknown and highest <= limit_ns
    limit, problem = f"within ±{_ms(limit_ns)}", ""
    if unknown:
        observed = f"unknown of {_listed(unknown)}"
    if evidence.clocks:
        furthest_ns = evidence.clock_deviation_limit_ns
        deviations = {
            agent: clock.largest.at_most_ns for agent, clock in evidence.clocks.items()
        }
        largest, later = _extreme(deviations, _ms)
        limit += f" at the start, {_ms(furthest_ns)} apart later"
        observed += f" at the start, {later} later"
        passed &= largest <= furthest_ns
        problem = "an agent's clock was not known well enough, or went too far"
    return Finding(limit, observed, passed, problem)


def _drift_us(evidence: Evidence, agent: str) -> float:
    """Return the drift of the agent's clock in a run that ended before the first sample
    of it."""
    if agent in evidence.clocks:
        return 0.0
    return evidence.facts[agent].clock_drift_us


@_rule(
    "no wall clock was stepped within an interval",
    "a wall clock was stepped within an interval",
)
def _clock_step(evidence: Evidence) -> Finding:
    steps = {
        agent: float(abs(totals.clock_step_ns))
        for agent, totals in evidence.collected.agents.items()
        if totals.seen
    }
    highest, observed = _extreme(steps, _ms)
    is_within = highest <= CLOCK_STEP_LIMIT_NS
    return Finding(f"≤ {_ms(CLOCK_STEP_LIMIT_NS)}", observed, is_within)


@_rule("no duration was above one hour", "durations were above one hour")
def _histogram_overflow(evidence: Evidence) -> Finding:
    # the times of imports are kept one by one as well
    imports = {(one.stream, IMPORT_OPERATION) for one in imports_of(evidence.facts)}
    over = [
        f"{totals.overflow:,} of {'.'.join(key)}"
        for key, totals in evidence.collected.operations.items()
        if key not in imports and totals.overflow
    ]
    return Finding("0", _listed(over) or "0", not over)


#: Name, title, problem; sums of counters that are equal in each operation's whole run.
_IDENTITIES = (
    (
        "arrivals_balance",
        "every scheduled arrival is accounted for",
        "arrivals are not accounted for",
        ("scheduled",),
        ("sent", "dropped", "substituted"),
    ),
    (
        "requests_balance",
        "every sent request is accounted for",
        "requests are not accounted for",
        ("sent",),
        ("completed", "timed_out", "unresolved", "abandoned"),
    ),
    (
        "responses_balance",
        "every response is a success, expected or a failure",
        "responses are not accounted for",
        ("completed",),
        ("succeeded", "expected", "failed"),
    ),
)


def _identity(
    left: Sequence[str], right: Sequence[str]
) -> Callable[[Evidence], Finding]:
    def find(evidence: Evidence) -> Finding:
        wrong = []
        for key, totals in evidence.collected.operations.items():
            counts = totals.whole
            sums = [sum(counts[one] for one in side) for side in (left, right)]
            if sums[0] != sums[1]:
                wrong.append(f"{sums[0]:,} ≠ {sums[1]:,} of {'.'.join(key)}")
        formula = " = ".join(" + ".join(map(counter_title, x)) for x in (left, right))
        return Finding(formula, _listed(wrong) or "equal", not wrong)

    return find


for _name, _title, _problem, _left, _right in _IDENTITIES:
    _rule(_title, _problem, name=_name)(_identity(_left, _right))


@_rule("servers counted what agents sent", "servers did not count what agents sent")
def _books(evidence: Evidence) -> Finding:
    """Compare the counts of monitored servers. A kind of request that a server does not
    count fails no run; counts that the job requires and that could not be read do."""
    validity = evidence.validity
    most_missing = validity.books_missing_operations
    most_others = validity.books_other_operations
    has_limit = bool(most_missing) or most_others is not None
    unknown = unread(evidence.run, evidence.observer_failures, has_limit=has_limit)
    again = restarted(evidence.run)  # the rule about that says it
    unknown = [one for one in unknown if not any(uri in one for uri in again)]
    wrong, others, lines = [], 0, 0
    for uri, counted in evidence.reconciliations.items():
        lacking, strange = [], []
        for kind, line in counted.lines.items():
            lines += line.server is not None
            others += line.others
            if line.missing > most_missing:
                lacking.append(f"{line.missing:,} {kind}")
            elif most_others is not None and line.others > most_others:
                strange.append(f"{line.others:,} {kind}")
        foreign = sum(line.others for line in counted.lines.values())
        sent = sum(line.sent for line in counted.lines.values())
        if (
            most_others is None
            and foreign > validity.books_other_share * sent + _FEW_OTHERS
        ):
            strange.append(f"{foreign:,} requests")
        if lacking:
            wrong.append(f"{uri} lacks {' and '.join(lacking)}")
        if strange:
            wrong.append(f"{uri} has {' and '.join(strange)} of others")
    problem = "it is not known what servers counted" if unknown and not wrong else ""
    wrong += unknown
    allowed = f"≤ {_percent(validity.books_other_share)}"
    if most_others is not None:
        allowed = f"≤ {most_others:,}"
    found = "equal" + f", {others:,} of others" * bool(others)
    observed = _listed(wrong) or (found if lines else NOT_APPLICABLE)
    limit = f"≤ {most_missing:,} missing, {allowed} of others"
    return Finding(limit, observed, not wrong, problem)


@_rule(
    "replication was checked where the job asks for it",
    "replication could not be checked",
)
def _replication(evidence: Evidence) -> Finding:
    replication = evidence.replication
    if replication is None:
        return Finding("checked", NOT_APPLICABLE, passed=True)
    observed = replication.failure or "checked"
    return Finding("checked", observed, not replication.failure)


@_rule("no server was restarted", "a server was restarted", cause=Cause.TARGET)
def _server_restarted(evidence: Evidence) -> Finding:
    """What is watched, a server or its process, ran from first to last reading."""
    is_watched = bool(evidence.monitors or evidence.reconciliations)
    restarts = [
        f"{one.name} before {at_s:,.1f} s"
        for one in evidence.monitors
        for at_s in one.restarts_s
    ]
    # without a monitor, by the server's counts before and after the run
    restarts = restarts or restarted(evidence.run)
    observed = _listed(restarts) or ("0" if is_watched else NOT_APPLICABLE)
    return Finding("0", observed, not restarts)


@_rule(
    "operations were in a steady state where the job asks for it",
    "an operation was not in a steady state",
    "a longer warm_up",
)
def _steady(evidence: Evidence) -> Finding:
    if evidence.validity.steady != "required":
        return Finding("not required", NOT_APPLICABLE, passed=True)
    found = evidence.steady.values()
    wrong = [one.text for one in found if one.text]
    unknown = [one for one in found if one.is_steady is None]
    observed = _listed(wrong) or f"{len(found) - len(unknown)} of {len(found)} steady"
    return Finding("all", observed, not wrong and not unknown)
