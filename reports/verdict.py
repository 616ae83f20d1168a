# SPDX-License-Identifier: Apache-2.0
"""Can the numbers be certified, and are they good enough? Pure.

Every rule is checked in every run and gives a line, passed or not, with its limit and
what was observed. A run that breaks a rule is INVALID, whatever its thresholds say;
one that misses a threshold is FAIL; the rest is PASS. A rule without anything to check
(an open stream's rule in a run without open streams) passes and says so.

The limits come from the job's `validity` section.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ldapslam.jobs.validity import Validity
from ldapslam.reports.collect import Collected, OperationTotals, WorkerTotals
from ldapslam.reports.results.histogram import Histogram
from ldapslam.reports.results.records import RunRecord
from ldapslam.reports.timeline import NS_PER_S, Plan

PASS, FAIL, INVALID = "PASS", "FAIL", "INVALID"

_NOT_APPLICABLE = "nothing to check"
_NS_PER_MS = 1_000_000
#: The wall clock may be slewed, by 500 ppm at most; more than this is a step.
_CLOCK_STEP_LIMIT_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, applied."""

    #: As in the result and the guide: `sent_share`.
    name: str
    #: What must hold, for people.
    title: str
    limit: str
    observed: str
    passed: bool


@dataclass(frozen=True, slots=True)
class Gap:
    """Intervals that an agent owed and the store does not have."""

    agent: str
    first_index: int
    last_index: int
    start_s: float
    end_s: float

    @property
    def count(self) -> int:
        return self.last_index - self.first_index + 1


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the rules look at."""

    run: RunRecord
    plan: Plan
    validity: Validity
    collected: Collected
    #: Agent -> its facts.
    facts: Mapping[str, Mapping[str, Any]]

    def operations_of(self, model: str) -> dict[tuple[str, str], OperationTotals]:
        streams = {
            stream["name"]
            for stream in self.run.plan.get("streams", ())
            if stream.get("model") == model
        }
        return {
            key: totals
            for key, totals in self.collected.operations.items()
            if key[0] in streams
        }


def judge(evidence: Evidence) -> tuple[tuple[Rule, ...], tuple[Gap, ...]]:
    """All rules in the order of the report, and the gaps in the data."""
    gaps = find_gaps(evidence)
    return tuple(
        [
            *(check(evidence) for check in _RUN_RULES),
            _intervals_complete(gaps),
            *(check(evidence) for check in _FIGURE_RULES),
        ]
    ), gaps


def conclude(
    rules: Sequence[Rule], thresholds: Sequence[tuple[str, str, bool]]
) -> tuple[str, tuple[str, ...]]:
    """The verdict and its reasons; thresholds are (expression, value, passed)."""
    broken = [f"{rule.title}: {rule.observed}" for rule in rules if not rule.passed]
    missed = [
        f"threshold missed: {expression}, was {value}"
        for expression, value, passed in thresholds
        if not passed
    ]
    verdict = INVALID if broken else FAIL if missed else PASS
    return verdict, tuple(broken + missed)


def find_gaps(evidence: Evidence) -> tuple[Gap, ...]:
    """Runs of missing intervals of each planned agent, the drain included.

    A run that was ended early owes the intervals up to the last that any agent sent.
    """
    planned = evidence.plan.intervals
    agents = evidence.collected.agents
    owed = len(planned)
    if evidence.run.state != "finished":
        last = max((max(one.seen) for one in agents.values() if one.seen), default=-1)
        owed = min(owed, last + 1)
    gaps = []
    for name in evidence.run.agents:
        seen = agents[name].seen
        first = None
        for index in range(owed + 1):
            if index < owed and index not in seen:
                first = index if first is None else first
            elif first is not None:
                start_s = planned[first].start_ns / NS_PER_S
                end_s = planned[index - 1].end_ns / NS_PER_S
                gaps.append(Gap(name, first, index - 1, start_s, end_s))
                first = None
        if seen and not agents[name].sent_final:
            end_s = planned[-1].end_ns / NS_PER_S if planned else 0.0
            gaps.append(Gap(name, len(planned), len(planned), end_s, end_s))
    return tuple(gaps)


def missing_by_agent(gaps: Sequence[Gap]) -> Counter[str]:
    missing: Counter[str] = Counter()
    for gap in gaps:
        missing[gap.agent] += gap.count
    return missing


def notes(evidence: Evidence) -> tuple[str, ...]:
    """What a reader should know of how the figures came about."""
    lines = []
    per_point = evidence.plan.intervals_per_point
    if per_point > 1:
        lines.append(
            f"charts show {per_point} intervals merged into one point; tables are exact"
        )
    for agent, facts in sorted(evidence.facts.items()):
        if facts.get("kernel_stamps") is False:
            lines.append(
                f"agent {agent}: no kernel receive stamps, receive lag is part of "
                "the response time"
            )
        if facts.get("realtime") is False and evidence.operations_of("open"):
            lines.append(
                f"agent {agent}: no real-time priority, send lag depends on what "
                "else runs there"
            )
        if facts.get("shares_host_with_target"):
            lines.append(
                f"agent {agent} runs on a target's host: these are figures of the pair"
            )
    for name, totals in evidence.collected.streams.items():
        lines += [
            f"stream {name}: {totals.counters[counter]:,} {words}"
            for counter, words in _CONNECTION_NOTES.items()
            if totals.counters[counter]
        ]
    return tuple(lines)


_CONNECTION_NOTES = {
    "connect_failures": "connection attempts failed",
    "disconnects": "connections were lost",
    "protocol_errors": "protocol errors in responses",
    "late_responses": "responses came after their request had timed out",
    "unexpected_messages": "messages nobody had asked for",
    "stamps_missing": "responses without a kernel receive stamp",
}


# The rules. Each takes the evidence and gives its line.


def _run_completed(evidence: Evidence) -> Rule:
    run = evidence.run
    detail = f": {run.state_detail}" if run.state_detail else ""
    return Rule(
        "run_completed",
        "the run came to its planned end",
        "finished",
        f"{run.state}{detail}",
        run.state == "finished",
    )


def _data_present(evidence: Evidence) -> Rule:
    empty = [
        ".".join(key)
        for key, totals in evidence.collected.operations.items()
        if not totals.measured["succeeded"]
    ]
    found = len(evidence.collected.operations) - len(empty)
    return Rule(
        "data_present",
        "every operation has successes in the measure phase",
        "1 each",
        f"none of {_listed(empty)}" if empty else f"all {found}",
        found > 0 and not empty,
    )


def _agents_present(evidence: Evidence) -> Rule:
    planned = evidence.run.agents
    silent = [name for name in planned if not evidence.collected.agents[name].seen]
    observed = f"{len(planned) - len(silent)} of {len(planned)}"
    return Rule(
        "agents_present",
        "every planned agent reported",
        f"{len(planned)} agents" if len(planned) != 1 else "1 agent",
        f"{observed}, not {_listed(silent)}" if silent else observed,
        bool(planned) and not silent,
    )


def _intervals_complete(gaps: Sequence[Gap]) -> Rule:
    missing = missing_by_agent(gaps)
    observed = [f"{count} of {agent}" for agent, count in missing.items()]
    return Rule(
        "intervals_complete",
        "no interval is missing",
        "0 missing",
        _listed(observed) if observed else "0",
        not gaps,
    )


def _sent_share(evidence: Evidence) -> Rule:
    limit = evidence.validity.sent_share
    shares = {
        stream: counts["sent"] / counts["scheduled"]
        for stream, counts in _by_stream(evidence.operations_of("open")).items()
        if counts["scheduled"]
    }
    lowest, observed = _extreme(shares, min, lambda share: f"{share:.2%}")
    return Rule(
        "sent_share",
        "open streams sent what was scheduled",
        f"≥ {_percent(limit)}",
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
        "allowed" if allowed else "0",
        _listed(where) if where else "0" if dropped else _NOT_APPLICABLE,
        allowed or total == 0,
    )


def _send_lag(evidence: Evidence) -> Rule:
    """Judges the nearest-rank p99 whatever the sample: of a few, the largest."""
    validity = evidence.validity
    worst: tuple[float, str] | None = None
    passed = True
    for stream, operations in _grouped(evidence.operations_of("open")).items():
        lag_ns = _union(operations, "send_lag").percentile(99)
        response_ns = _union(operations, "response_time").percentile(99)
        if lag_ns is None or response_ns is None:
            continue
        limit_ns = max(validity.send_lag_p99_ns, validity.send_lag_share * response_ns)
        passed &= lag_ns <= limit_ns
        line = f"{_ms(lag_ns)} of {stream}, limit {_ms(limit_ns)}"
        worst = max(worst or (0.0, ""), (lag_ns / limit_ns, line))
    share = _percent(validity.send_lag_share)
    return Rule(
        "send_lag",
        "open streams sent on time (send lag p99)",
        f"≤ {_ms(validity.send_lag_p99_ns)} or {share} of response time p99",
        worst[1] if worst else _NOT_APPLICABLE,
        passed,
    )


def _generator_saturated(evidence: Evidence) -> Rule:
    validity = evidence.validity
    shares = {
        f"{agent} {model} worker {number}": _saturated_share(totals)
        for agent, seen in evidence.collected.agents.items()
        for (model, number), totals in seen.workers.items()
        if totals.intervals
    }
    highest, observed = _extreme(shares, max, lambda share: f"{share:.1%}")
    return Rule(
        "generator_saturated",
        "workers were not saturated",
        f"busy > {_percent(validity.busy_share)} or waiting for a CPU > "
        f"{_percent(validity.run_queue_share)} in ≤ "
        f"{_percent(validity.saturated_intervals)} of intervals",
        observed,
        highest is None or highest <= validity.saturated_intervals,
    )


def _clock_offset(evidence: Evidence) -> Rule:
    limit_ns = min(
        evidence.validity.clock_offset_ns, evidence.plan.interval_s * NS_PER_S / 100
    )
    bounds = {
        agent: float(facts["clock_offset_bound_us"]) * 1000
        for agent, facts in evidence.facts.items()
        if facts.get("clock_offset_bound_us") is not None
    }
    unknown = [name for name in evidence.run.agents if name not in bounds]
    highest, observed = _extreme(bounds, max, lambda bound_ns: f"±{_ms(bound_ns)}")
    return Rule(
        "clock_offset",
        "agents' clock offsets are known",
        f"within ±{_ms(limit_ns)}",
        f"unknown of {_listed(unknown)}" if unknown else observed,
        not unknown and (highest is None or highest <= limit_ns),
    )


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
        f"≤ {_ms(_CLOCK_STEP_LIMIT_NS)}",
        observed,
        highest is None or highest <= _CLOCK_STEP_LIMIT_NS,
    )


def _histogram_overflow(evidence: Evidence) -> Rule:
    over = {
        ".".join(key): totals.overflow
        for key, totals in evidence.collected.operations.items()
        if totals.overflow
    }
    observed = [f"{count:,} of {name}" for name, count in over.items()]
    return Rule(
        "histogram_overflow",
        "no duration was above one hour",
        "0",
        _listed(observed) if observed else "0",
        not over,
    )


def _identity(
    name: str, title: str, left: Sequence[str], right: Sequence[str]
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
        return Rule(name, title, formula, _listed(wrong) or "equal", not wrong)

    return check


_RUN_RULES = (_run_completed, _agents_present)
_FIGURE_RULES = (
    _data_present,
    _sent_share,
    _dropped_arrivals,
    _send_lag,
    _generator_saturated,
    _clock_offset,
    _clock_step,
    _histogram_overflow,
    _identity(
        "arrivals_balance",
        "every scheduled arrival is accounted for",
        ("scheduled",),
        ("sent", "dropped"),
    ),
    _identity(
        "requests_balance",
        "every sent request is accounted for",
        ("sent",),
        ("completed", "timed_out", "unresolved"),
    ),
    _identity(
        "responses_balance",
        "every response is a success or a failure",
        ("completed",),
        ("succeeded", "failed"),
    ),
)


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
    union = Histogram()
    for totals in operations:
        for outcome in ("succeeded", "failed"):
            if (metric, outcome) in totals.histograms:
                union.add(totals.histograms[metric, outcome])
    return union


def _saturated_share(worker: WorkerTotals) -> float:
    return worker.saturated_intervals / worker.intervals


def _extreme(
    values: Mapping[str, float],
    choose: Callable[..., str],
    show: Callable[[float], str],
) -> tuple[float | None, str]:
    """The worst value, and it with its owner as text."""
    if not values:
        return None, _NOT_APPLICABLE
    name = choose(values, key=values.__getitem__)
    return values[name], f"{show(values[name])} ({name})"


def _listed(items: Sequence[str], limit: int = 4) -> str:
    more = f" and {len(items) - limit} more" if len(items) > limit else ""
    return ", ".join(items[:limit]) + more


def _percent(share: float) -> str:
    return f"{share * 100:.4g} %"


def _ms(value_ns: float) -> str:
    return f"{value_ns / _NS_PER_MS:,.3f} ms"
