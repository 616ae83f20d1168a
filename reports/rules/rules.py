# SPDX-License-Identifier: Apache-2.0
"""The validity rules: may the numbers be trusted? Pure.

Each rule takes the evidence and gives one line, passed or not, with its limit and what
was observed. One without anything to check (an open stream's rule in a run without open
streams) passes and says so. The limits come from the job's `validity` section.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ldapslam.jobs.fields.thresholds import samples_needed
from ldapslam.jobs.types.built_in import IMPORT_OPERATION
from ldapslam.proto.fields import OUTCOMES
from ldapslam.reports.collect.job_notes import imports_of
from ldapslam.reports.collect.timeline import NS_PER_S
from ldapslam.reports.collect.totals import (
    ANSWERED,
    CLOCK_STEP_LIMIT_NS,
    GENERATOR_LAGS,
    OperationTotals,
    WorkerTotals,
)
from ldapslam.reports.rules.evidence import Evidence
from ldapslam.reports.rules.reconciliation import restarted, unread
from ldapslam.results.histogram import Histogram

NOT_APPLICABLE = "nothing to check"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, applied."""

    #: As in the result and the guide: `sent_share`.
    name: str
    #: What must hold, and what is wrong when it does not, for people.
    title: str
    problem: str
    limit: str
    observed: str
    passed: bool


def percent(share: float) -> str:
    """Of limits and of what was observed."""
    return f"{share * 100:.5g}%"


def listed(items: Sequence[str], limit: int = 4) -> str:
    more = f" and {len(items) - limit} more" if len(items) > limit else ""
    return ", ".join(items[:limit]) + more


_NS_PER_MS = 1_000_000
#: Any of them shows that the operation was measured.
_WANTED = ("succeeded", "expected", "abandoned")
#: The first one that a stream has enough requests for is judged.
_SEND_LAG_P = (99, 95, 90, 50)


def _run_completed(evidence: Evidence) -> Rule:
    run = evidence.run
    detail = f": {run.state_detail}" if run.state_detail else ""
    return Rule(
        "run_completed",
        "the run came to its planned end",
        "the run did not come to its planned end",
        "finished",
        f"{run.state}{detail}",
        run.state == "finished",
    )


def _data_present(evidence: Evidence) -> Rule:
    operations = evidence.collected.operations
    with_data = {
        key
        for key, totals in operations.items()
        if any(totals.measured[name] for name in _WANTED)
    }
    empty = [
        ".".join(key)
        for key, totals in operations.items()
        if key not in with_data and not _needs_no_data(evidence, key[0], totals)
    ]
    return Rule(
        "data_present",
        "every operation had an expected result in the measure phase",
        "operations without a success or expected result in the measure phase",
        "1 each",
        f"0 of {listed(empty)}" if empty else f"all {len(with_data)}",
        bool(with_data) and not empty,
    )


def _needs_no_data(evidence: Evidence, stream: str, totals: OperationTotals) -> bool:
    """A log need not have every kind of operation, and a stream may end early."""
    is_replay = evidence.streams.get(stream, {}).get("is_replay")
    never_due = is_replay and not totals.whole["scheduled"]
    return never_due or evidence.was_through_before(stream)


def _agents_present(evidence: Evidence) -> Rule:
    planned = evidence.run.agents
    silent = [
        name
        for name in planned
        if not (agent := evidence.collected.agents[name]).seen
        and agent.final_index is None
    ]
    observed = f"{len(planned) - len(silent)} of {len(planned)}"
    return Rule(
        "agents_present",
        "every planned agent reported",
        "planned agents did not report",
        f"{len(planned)} agents" if len(planned) != 1 else "1 agent",
        f"{observed}, not {listed(silent)}" if silent else observed,
        bool(planned) and not silent,
    )


def _intervals_complete(evidence: Evidence) -> Rule:
    found = evidence.completeness
    observed = [
        f"{count} of {agent}{_loss(evidence, agent)}"
        for agent, count in found.missing.items()
    ]
    # of a run that was stopped, the last intervals are cut short: that is no fault
    if evidence.run.state == "finished":
        observed += [f"a part of 1 of {one.agent}" for one in found.partials]
    return Rule(
        "intervals_complete",
        "no interval is missing",
        "intervals are missing",
        "0 missing",
        listed(observed) if observed else "0",
        not observed,
    )


def _loss(evidence: Evidence, agent: str) -> str:
    """Which intervals a lost agent did not deliver, and why."""
    loss = evidence.losses.get(agent)
    if loss is None:
        return ""
    gaps = [gap for gap in evidence.completeness.gaps if gap.agent == agent]
    numbers = listed([gap.numbers for gap in gaps])
    return f" ({numbers}; lost at {loss.at_s:+.1f} s: {loss.reason})"


def _counts_reached(evidence: Evidence) -> Rule:
    """Nothing else may have ended a stream before the run was over."""
    counts = {name: one.get("count") for name, one in evidence.streams.items()}
    counted = {name: count for name, count in counts.items() if count}
    short = {
        name: f"{evidence.sessions_of(name):,} of {count:,} of {name}"
        for name, count in counted.items()
        if evidence.is_short(name)
    }
    is_early = any(evidence.ended_early(name) for name in short)
    found = listed(list(short.values())) + ("" if is_early else " at the run's end")
    return Rule(
        "counts_reached",
        "streams that ended before the run had reached their count",
        "a stream ended before the run, and before it had reached its count",
        "all begun",
        found if short else "all" if counted else NOT_APPLICABLE,
        not is_early,
    )


def _sent_share(evidence: Evidence) -> Rule:
    limit = evidence.validity.sent_share
    shares = {
        stream: (counts["sent"] + counts["substituted"]) / counts["scheduled"]
        for stream, counts in _by_stream(_sent_in_open_loops(evidence)).items()
        if counts["scheduled"]
    }
    lowest, observed = _extreme(shares, min, percent)
    low = [stream for stream, share in shares.items() if share < limit]
    if down := [text for stream in low if (text := _down_text(evidence, stream))]:
        observed += f"; connections were down for {listed(down)}"
    return Rule(
        "sent_share",
        "open streams sent what was scheduled",
        "an open stream did not send what was scheduled",
        f"≥ {percent(limit)}",
        observed,
        lowest is None or lowest >= limit,
    )


def _dropped_arrivals(evidence: Evidence) -> Rule:
    allowed = evidence.validity.allow_dropped
    dropped = {
        stream: counts["dropped"]
        for stream, counts in _by_stream(evidence.operations_of("open")).items()
    }
    total = sum(dropped.values())
    where = [f"{count:,} of {stream}" for stream, count in dropped.items() if count]
    return Rule(
        "dropped_arrivals",
        "no arrival was dropped",
        "arrivals were dropped",
        "allowed" if allowed else "0",
        listed(where) if where else "0" if dropped else NOT_APPLICABLE,
        allowed or total == 0,
    )


def _send_lag(evidence: Evidence) -> Rule:
    """Judges the p99, or the highest percentile below that the requests suffice for; a
    few single ones are `generator_stalled`'s. Not a probe's marks: what they are for is
    timed from when they were sent.

    The response time is that of all responses: requests without an answer would excuse
    any lag.
    """
    validity = evidence.validity
    worst: tuple[float, str] | None = None
    passed = True
    for stream, operations in _grouped(evidence.operations_of("open")).items():
        p = _supported(_union(operations, "send_lag"))
        if p is None or evidence.streams[stream].get("watched"):
            continue
        lag_ns = _percentile_ns(operations, "send_lag", p)
        response_ns = _percentile_ns(operations, "response_time", p)
        if lag_ns is None or response_ns is None:
            continue
        limit_ns = max(validity.send_lag_p99_ns, validity.send_lag_share * response_ns)
        passed &= lag_ns <= limit_ns
        of = stream if p == _SEND_LAG_P[0] else f"{stream} (p{p})"
        line = f"{_ms(lag_ns)} of {of}, limit {_ms(limit_ns)}"
        worst = max(worst or (0.0, ""), (lag_ns / limit_ns, line))
    share = percent(validity.send_lag_share)
    return Rule(
        "send_lag",
        "open streams sent on time (send lag p99)",
        "an open stream sent too late (send lag p99)",
        f"≤ {_ms(validity.send_lag_p99_ns)} or {share} of response time p99",
        worst[1] if worst else NOT_APPLICABLE,
        passed,
    )


def _generator_stalled(evidence: Evidence) -> Rule:
    """Percentiles forgive a generator that stood still for a moment; maxima do not."""
    limit_ns = evidence.validity.stall_ns
    delays_ns = {
        ".".join(key): max(
            float(_union([totals], lag).max_ns) for lag in GENERATOR_LAGS
        )
        for key, totals in evidence.collected.operations.items()
    }
    longest_ns, observed = _extreme(delays_ns, max, _ms)
    return Rule(
        "generator_stalled",
        "the generator never stood still",
        "the generator stood still",
        f"≤ {_ms(limit_ns)} of send lag and of receive lag",
        observed,
        longest_ns is None or longest_ns <= limit_ns,
    )


def _supported(lags: Histogram) -> int | None:
    return next((p for p in _SEND_LAG_P if lags.sample >= samples_needed(p)), None)


def _percentile_ns(
    operations: Sequence[OperationTotals], metric: str, p: float
) -> float | None:
    """Where it lies above the range of the histogram, the largest value."""
    union = _union(operations, metric)
    if not union.sample:
        return None
    value_ns = union.percentile(p)
    return float(union.max_ns) if value_ns is None else value_ns


def _generator_saturated(evidence: Evidence) -> Rule:
    validity = evidence.validity
    workers = {
        f"{agent} {model} worker {number}": totals
        for agent, seen in evidence.collected.agents.items()
        for (model, number), totals in seen.workers.items()
        if totals.wall_ns
    }
    shares = {name: _saturated_share(totals) for name, totals in workers.items()}
    highest, observed = _extreme(shares, max, lambda share: f"{share:.1%} of intervals")
    if highest:
        # more workers and agents help the one, a host without other work the other
        worst = workers[max(shares, key=shares.__getitem__)]
        observed += (
            f": up to {worst.highest_busy_share:.0%} busy, "
            f"{worst.highest_run_queue_share:.0%} waiting for a CPU"
        )
    return Rule(
        "generator_saturated",
        "workers were not saturated",
        "a worker was saturated",
        f"busy > {percent(validity.busy_share)} or waiting for a CPU > "
        f"{percent(validity.run_queue_share)} in ≤ "
        f"{percent(validity.saturated_intervals)} of intervals",
        observed,
        highest is None or highest <= validity.saturated_intervals,
    )


def _clock_offset(evidence: Evidence) -> Rule:
    """At the start, how well offsets were known; later, how far the clocks went."""
    limit_ns = min(
        evidence.validity.clock_offset_ns, evidence.plan.interval_s * NS_PER_S / 100
    )
    bounds = {
        agent: (facts["clock_offset_bound_us"] + _drift_us(evidence, agent)) * 1e3
        for agent, facts in evidence.facts.items()
        if facts.get("clock_offset_bound_us") is not None
    }
    unknown = [name for name in evidence.run.agents if name not in bounds]
    highest, observed = _extreme(bounds, max, lambda bound_ns: f"±{_ms(bound_ns)}")
    passed = not unknown and (highest is None or highest <= limit_ns)
    limit = f"within ±{_ms(limit_ns)}"
    if unknown:
        observed = f"unknown of {listed(unknown)}"
    if evidence.clocks:
        furthest_ns = evidence.clock_deviation_limit_ns
        deviations = {
            agent: clock.largest.at_most_ns for agent, clock in evidence.clocks.items()
        }
        largest, later = _extreme(deviations, max, _ms)
        limit += f" at the start, {_ms(furthest_ns)} apart later"
        observed += f" at the start, {later} later"
        passed &= largest is None or largest <= furthest_ns
    return Rule(
        "clock_offset",
        "agents' clock offsets are known",
        "an agent's clock offset is not known well enough"
        if not evidence.clocks
        else "an agent's clock was not known well enough, or went too far",
        limit,
        observed,
        passed,
    )


def _drift_us(evidence: Evidence, agent: str) -> float:
    """Of runs whose clocks were looked at twice, at the start and the end."""
    if agent in evidence.clocks:
        return 0.0
    return float(evidence.facts[agent].get("clock_drift_us", 0))


def _clock_step(evidence: Evidence) -> Rule:
    steps = {
        agent: float(abs(totals.clock_step_ns))
        for agent, totals in evidence.collected.agents.items()
        if totals.seen
    }
    highest, observed = _extreme(steps, max, _ms)
    return Rule(
        "clock_step",
        "no wall clock was stepped within an interval",
        "a wall clock was stepped within an interval",
        f"≤ {_ms(CLOCK_STEP_LIMIT_NS)}",
        observed,
        highest is None or highest <= CLOCK_STEP_LIMIT_NS,
    )


def _histogram_overflow(evidence: Evidence) -> Rule:
    # whose times are kept one by one as well
    imports = {(one["stream"], IMPORT_OPERATION) for one in imports_of(evidence.facts)}
    over = {
        ".".join(key): totals.overflow
        for key, totals in evidence.collected.operations.items()
        if totals.overflow and key not in imports
    }
    observed = [f"{count:,} of {name}" for name, count in over.items()]
    return Rule(
        "histogram_overflow",
        "no duration was above one hour",
        "durations were above one hour",
        "0",
        listed(observed) if observed else "0",
        not over,
    )


def _identity(
    name: str, title: str, problem: str, left: Sequence[str], right: Sequence[str]
) -> Callable[[Evidence], Rule]:
    """A rule that two sums of counters are equal in each operation of the whole run."""

    def check(evidence: Evidence) -> Rule:
        wrong = []
        for key, totals in evidence.collected.operations.items():
            counts = totals.whole
            sums = [sum(counts[one] for one in side) for side in (left, right)]
            if sums[0] != sums[1]:
                wrong.append(f"{sums[0]:,} ≠ {sums[1]:,} of {'.'.join(key)}")
        formula = " = ".join(
            " + ".join(one.replace("_", " ") for one in side) for side in (left, right)
        )
        return Rule(name, title, problem, formula, listed(wrong) or "equal", not wrong)

    return check


def _sent_in_open_loops(
    evidence: Evidence,
) -> dict[tuple[str, str], OperationTotals]:
    """Without what a probe observes: nobody sends that, it would dilute the rest."""
    return {
        (stream, operation): totals
        for (stream, operation), totals in evidence.operations_of("open").items()
        if operation not in evidence.streams[stream].get("watched", {})
    }


def _by_stream(
    operations: Mapping[tuple[str, str], OperationTotals],
) -> dict[str, Counter[str]]:
    """Stream -> counters of the measure phase."""
    streams: dict[str, Counter[str]] = {}
    for (stream, _), totals in operations.items():
        streams.setdefault(stream, Counter()).update(totals.measured)
    return streams


def _grouped(
    operations: Mapping[tuple[str, str], OperationTotals],
) -> dict[str, list[OperationTotals]]:
    streams: dict[str, list[OperationTotals]] = {}
    for (stream, _), totals in operations.items():
        streams.setdefault(stream, []).append(totals)
    return streams


def _union(operations: Sequence[OperationTotals], metric: str) -> Histogram:
    """Over all outcomes; those without a response have no times that count here."""
    union = Histogram()
    for totals in operations:
        for outcome in OUTCOMES if metric in GENERATOR_LAGS else ANSWERED:
            if (metric, outcome) in totals.histograms:
                union.add(totals.histograms[metric, outcome])
    return union


def _saturated_share(worker: WorkerTotals) -> float:
    return worker.saturated_ns / worker.wall_ns


def _extreme(
    values: Mapping[str, float],
    choose: Callable[..., str],
    show: Callable[[float], str],
) -> tuple[float | None, str]:
    """The worst value, and it with its owner as text."""
    if not values:
        return None, NOT_APPLICABLE
    name = choose(values, key=values.__getitem__)
    return values[name], f"{show(values[name])} ({name})"


def _ms(value_ns: float) -> str:
    return f"{value_ns / _NS_PER_MS:,.3f} ms"


def _clients_connected(evidence: Evidence) -> Rule:
    """Of closed streams."""
    limit = evidence.validity.disconnected
    shares = {
        name: share
        for name, stream in evidence.streams.items()
        if stream.get("model") == "closed"
        and (share := evidence.down_share(name)) is not None
    }
    observed = percent(max(shares.values())) if shares else NOT_APPLICABLE
    if down := [name for name, share in shares.items() if share > limit]:
        observed = listed([_down_text(evidence, name) for name in down])
    return Rule(
        "clients_connected",
        "clients of closed loops had their connections",
        "clients of closed loops had no connection, and sent nothing",
        f"≤ {percent(limit)}",
        observed,
        not down,
    )


def _down_text(evidence: Evidence, stream: str) -> str:
    """For how long the stream's connections were down; empty: they never were."""
    share = evidence.down_share(stream)
    from_ns = evidence.totals_of(stream).down_from_ns
    if not share or from_ns is None:
        return ""
    since = f"first at {from_ns / NS_PER_S:+.1f} s"
    return f"{percent(share)} of the time of {stream}, {since}"


def _server_restarted(evidence: Evidence) -> Rule:
    """What is watched, a server or its process, ran from first to last reading."""
    is_watched = bool(evidence.monitors or evidence.reconciliations)
    restarts = [
        f"{one.name} before {at_s:,.1f} s"
        for one in evidence.monitors
        for at_s in one.restarts_s
    ]
    # without a monitor, by what it counted before and after the run
    restarts = restarts or restarted(evidence.run)
    return Rule(
        "server_restarted",
        "no server was restarted",
        "a server was restarted",
        "0",
        listed(restarts) if restarts else "0" if is_watched else NOT_APPLICABLE,
        not restarts,
    )


def _books_balance(evidence: Evidence) -> Rule:
    """Of the servers that were watched. A kind of request that a server does not count
    is not held against a run; counts that the job asks for and that nobody could read
    are."""
    validity = evidence.validity
    most_missing = validity.books_missing_operations
    most_others = validity.books_other_operations
    has_limit = bool(most_missing) or most_others is not None
    unknown = unread(evidence.run, evidence.observer_failures, has_limit=has_limit)
    wrong, others, lines = [], 0, 0
    for account, book in evidence.reconciliations.items():
        lacking, strange = [], []
        for kind, line in book.lines.items():
            lines += line.server is not None
            others += line.others
            if line.missing > most_missing:
                lacking.append(f"{line.missing:,} {kind}")
            elif most_others is not None and line.others > most_others:
                strange.append(f"{line.others:,} {kind}")
        if lacking:
            wrong.append(f"{account} lacks {' and '.join(lacking)}")
        if strange:
            wrong.append(f"{account} has {' and '.join(strange)} of others")
    problem = "servers did not count what agents sent"
    if unknown and not wrong:
        problem = "it is not known what servers counted"
    wrong += unknown
    allowed = "any number" if most_others is None else f"≤ {most_others:,}"
    found = f"balanced, {others:,} of others" if others else "balanced"
    return Rule(
        "books",
        "servers counted what agents sent",
        problem,
        f"≤ {most_missing:,} missing, {allowed} of others",
        listed(wrong) if wrong else found if lines else NOT_APPLICABLE,
        not wrong,
    )


def _replication_checked(evidence: Evidence) -> Rule:
    replication = evidence.replication
    found = NOT_APPLICABLE
    if replication is not None:
        found = replication.unchecked or "checked"
    return Rule(
        "replication",
        "replication was checked where the job asks for it",
        "replication could not be checked",
        "checked",
        found,
        replication is None or replication.is_checked,
    )


#: In the order of the report.
RULES: tuple[Callable[[Evidence], Rule], ...] = (
    _run_completed,
    _agents_present,
    _intervals_complete,
    _data_present,
    _counts_reached,
    _clients_connected,
    _sent_share,
    _dropped_arrivals,
    _send_lag,
    _generator_stalled,
    _generator_saturated,
    _clock_offset,
    _clock_step,
    _histogram_overflow,
    _identity(
        "arrivals_balance",
        "every scheduled arrival is accounted for",
        "arrivals are not accounted for",
        ("scheduled",),
        ("sent", "dropped", "substituted"),
    ),
    _identity(
        "requests_balance",
        "every sent request is accounted for",
        "requests are not accounted for",
        ("sent",),
        ("completed", "timed_out", "unresolved", "abandoned"),
    ),
    _identity(
        "responses_balance",
        "every response is a success, expected or a failure",
        "responses are not accounted for",
        ("completed",),
        ("succeeded", "expected", "failed"),
    ),
    _books_balance,
    _replication_checked,
    _server_restarted,
)
