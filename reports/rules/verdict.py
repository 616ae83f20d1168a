# SPDX-License-Identifier: Apache-2.0
"""Can the numbers be certified, and are they good enough? Pure.

Every rule and threshold is checked in every run. Where the evidence does not add up,
the run is INVALID. Else it is FAIL when the target is at fault for certain: a threshold
is missed over its whole range, a server was restarted, or servers differ. Else it is
INVALID when the generator is at fault, or a threshold is uncertain. The rest is PASS.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence

from ldapslam.base.causes import FAILURE_CAUSES, LOSS_CAUSES, causes_text
from ldapslam.reports.collect.totals import unanswered
from ldapslam.reports.document import format_figure
from ldapslam.reports.rules.busy_hosts import busy_hosts
from ldapslam.reports.rules.criteria import ThresholdResult
from ldapslam.reports.rules.evidence import Evidence
from ldapslam.reports.rules.operation_range import Outcome
from ldapslam.reports.rules.rules import RULES, Cause, Rule
from ldapslam.results.facts import AgentFacts, CleanUp
from ldapslam.results.histogram import Histogram

PASS, FAIL, INVALID = "PASS", "FAIL", "INVALID"
_VERDICTS = {Cause.EVIDENCE: INVALID, Cause.TARGET: FAIL, Cause.GENERATOR: INVALID}

#: Fact of an agent, its value, and what that means for the statistics.
_AGENT_NOTES = (
    (
        "shares_host_with_target",
        True,
        "agent and server share a host: the results are those of both together",
    ),
    (
        "kernel_stamps",
        False,
        "without kernel timestamps, receive lag is part of the response time",
    ),
    (
        "realtime",
        False,
        "without real-time priority, send lag depends on what else runs on the host",
    ),
)
#: Medians differ where their intervals lie apart by this factor.
_DISAGREEMENT = 1.25
#: Successive requests are alike: this many may be worth one.
_ALIKE = 10
#: A directory does some things less often.
_SHORT_S = 5.0

_CONNECTION_NOTES = {
    "connect_failures": "connection attempts failed",
    "disconnects": "connections were lost",
    "protocol_errors": "protocol errors in responses",
    "late_responses": "messages came for requests that had timed out or were abandoned",
    "unexpected_messages": "unsolicited messages: they belong to no request",
    "notices": "unsolicited notifications (RFC 4511, 4.4)",
    "stamps_missing": "responses without a kernel timestamp",
}
_CAUSES = {"connect_failures": FAILURE_CAUSES, "disconnects": LOSS_CAUSES}

_OPERATION_NOTES = {
    "expected": "ended with a result code other than success that the job expects; "
    "they are no errors, and have times of their own",
    "substituted": "fallback adds: the run had no entry left to work on, so one was "
    "added, or the session ended",
    "captures_missing": "succeeded without the value that their session needs: they "
    "count as failed, and the session ended",
}


def judge(evidence: Evidence) -> tuple[Rule, ...]:
    """All rules in the order of the report."""
    return tuple(check(evidence) for check in RULES)


def blamed(rules: Sequence[Rule]) -> frozenset[str]:
    """The rules about the generator that fail."""
    return frozenset(
        rule.name for rule in rules if not rule.passed and rule.cause is Cause.GENERATOR
    )


def conclude(
    rules: Sequence[Rule],
    thresholds: Sequence[ThresholdResult],
    failures: Sequence[str] = (),
    *,
    is_aborted: bool = False,
) -> tuple[str, tuple[str, ...]]:
    """Return the verdict and its reasons, the deciding reasons first; `failures` are
    faults found by the verification after the load. `is_aborted`: a threshold ended the
    run."""
    reasons: dict[str, list[str]] = {cause: [] for cause in Cause}
    for rule in rules:
        if not rule.passed:
            reasons[rule.cause].append(_reason(rule))
    for one in thresholds:
        if one.outcome is Outcome.MISSED:
            reasons[Cause.TARGET].append(one.reason)
        elif one.outcome is Outcome.UNCERTAIN:
            reasons[Cause.GENERATOR].append(one.reason)
    reasons[Cause.TARGET] += failures
    if is_aborted and all(one.passed for one in thresholds):
        reasons[Cause.EVIDENCE].append(
            "a threshold ended the run that holds for what was stored of it"
        )
    order = (Cause.EVIDENCE, Cause.TARGET, Cause.GENERATOR)
    deciding = next((cause for cause in order if reasons[cause]), None)
    verdict = PASS if deciding is None else _VERDICTS[deciding]
    return verdict, tuple(reason for cause in order for reason in reasons[cause])


def _reason(rule: Rule) -> str:
    reason = f"{rule.problem}: {rule.observed}"
    if rule.remedy:
        reason += f" (limit {rule.limit}; {rule.remedy})"
    return reason


def notes(evidence: Evidence) -> tuple[str, ...]:
    """Return what a reader should know about how the statistics were measured."""
    return tuple(line for find in _NOTES for line in find(evidence))


def _notes_of_the_run(evidence: Evidence) -> Iterator[str]:
    per_point = evidence.plan.intervals_per_point
    if per_point > 1:
        yield (
            f"charts show {per_point} intervals merged into one point; tables are exact"
        )
    run = evidence.run
    if evidence.completeness.is_live:
        yield f"the run is not over ({run.state}): the report shows what had arrived"
    if adopted := run.manifest.adopted:
        times = "once" if len(adopted) == 1 else f"{len(adopted)} times"
        yield (
            f"the coordinator was restarted {times} during the run and resumed it; see "
            "the events"
        )
    for agent, clock in evidence.clocks.items():
        if clock.steps:
            yield (
                f"agent {agent}: steps of its monotonic clock against the "
                f"coordinator's: {clock.step_count}, the first by "
                f"{clock.steps[0].ns / 1e6:,.3f} ms at {clock.steps[0].at_s:,.1f} s"
            )


def _notes_of_agents(evidence: Evidence) -> Iterator[str]:
    has_schedule = any(one.model != "closed" for one in evidence.streams.values())
    for fact, value, text in _AGENT_NOTES:
        if fact == "realtime" and not has_schedule:
            continue  # closed loops have it only until T0
        named = [
            agent
            for agent, facts in sorted(evidence.facts.items())
            if getattr(facts, fact) is value
        ]
        if named:
            yield f"agent{'s' * (len(named) > 1)} {', '.join(named)}: {text}"


def _notes_of_unanswered(evidence: Evidence) -> Iterator[str]:
    for key, operation in evidence.collected.operations.items():
        if number := unanswered(operation.measured):
            title = ".".join(key)
            yield (
                f"{number:,} request{'s' * (number > 1)} of {title} had no answer "
                "(timed out, or lost with the connection), which ranks above every "
                "response time"
            )


def _notes_of_counts(evidence: Evidence) -> Iterator[str]:
    for name, planned in evidence.streams.items():
        if evidence.was_through_before(name):
            yield (
                f"stream {name} ended before the measure phase: it has no statistics "
                "there"
            )
        elif 0 < (length_s := evidence.window_of(name).measure_s or 0) < _SHORT_S:
            more = "larger count" if planned.count else "longer duration"
            yield (
                f"stream {name} was measured for {format_figure(length_s)} s: what the "
                f"directory does less often is not in its figures; use a {more}"
            )
    for name in filter(evidence.may_be_short, evidence.streams):
        how = "did not reach" if evidence.is_short(name) else "may not have reached"
        yield f"stream {name} {how} its count: its total time is not known"


def _notes_of_sessions(evidence: Evidence) -> Iterator[str]:
    """Yield notes on streams that do more than send one request after another."""
    for name, stream in evidence.streams.items():
        if stream.engine == "python":
            watched = "; a change that a replica reports itself has its timestamp"
            yield (
                f"stream {name} is driven by Python: its requests have no kernel "
                "timestamp, so receive lag is part of their response time"
                f"{watched * bool(stream.watched)}"
            )
    for name, stream in evidence.streams.items():
        if change := stream.identity_change:
            yield f"stream {name}: {change}"
    paged = evidence.paged_operations
    for key, operation in evidence.collected.operations.items():
        title, counts = ".".join(key), operation.measured
        for counter, words in _OPERATION_NOTES.items():
            if counts[counter]:
                yield f"{title}: {counts[counter]:,} {words}"
        if key in paged:
            yield f"{title}: each page is a request with times of its own"


def _notes_of_replays(evidence: Evidence) -> Iterator[str]:
    """Yield the requests of logs that were not sent. Every agent reads all logs."""
    facts = next(iter(evidence.facts.values()), AgentFacts())
    for name, replay in facts.replays.items():
        for one in replay.skipped:
            yield (
                f"stream {name}: of its log, {one.count:,} {one.operation} requests "
                f"were not replayed: {one.reason}"
            )


def _notes_of_reconciliation(evidence: Evidence) -> Iterator[str]:
    """Yield the servers without a comparison of counts, and foreign requests."""
    for uri, found in evidence.reconciliations.items():
        if found.unknown:
            yield (
                f"the requests to {uri} are not compared with what it counted: "
                f"{found.unknown}"
            )
        others = {kind: one.others for kind, one in found.lines.items() if one.others}
        if others:
            listed = ", ".join(f"{number:,} {kind}" for kind, number in others.items())
            yield (
                f"{uri} had requests that the run did not send: {listed}; other "
                "clients' or replication's"
            )


def _notes_of_clean_up(evidence: Evidence) -> Iterator[str]:
    """Yield the agents that left entries in the directory."""
    for agent, facts in sorted(evidence.facts.items()):
        done = facts.clean_up or CleanUp()
        if not done.has_left_entries:
            continue
        reasons = (entry.reason for entry in done.left_entries)
        left, why = done.left, done.error or next(reasons, "")
        details = "; ".join(filter(None, (f"{left:,}" if left else "", why)))
        yield (
            "entries that the run had added are still in the directory"
            f"{f' ({details})' * bool(details)}: `ldapslam run --cleanup "
            f"{evidence.run.run_id}` on the host of agent {agent} removes them"
        )


def _notes_of_lost_agents(evidence: Evidence) -> Iterator[str]:
    """Entries of agents that were lost before they could remove them."""
    done = {agent: facts.clean_up for agent, facts in evidence.facts.items()}
    lost = [agent for agent in evidence.losses if not done.get(agent)]
    # what the others had left at the end of the load, they removed
    left = -sum(one.entries or 0 for one in done.values() if one)
    has_added = False
    for name, stream in evidence.streams.items():
        for operation in stream.operations:
            totals = evidence.collected.operations.get((name, operation.name))
            if totals is None:
                continue
            if operation.cleans_up:
                has_added = True
                left += totals.whole["sent"] - totals.whole["failed"]
            elif stream.operation(operation.deletes_of).cleans_up:
                left -= totals.whole["succeeded"]
    if lost and has_added:
        yield (
            f"at most {max(0, left):,} entries of {', '.join(lost)} are left in the "
            "directory, and what was added after the last report: the agent removes "
            f"them when it prepares its next run there, or `ldapslam run --cleanup "
            f"{evidence.run.run_id}` on its host does"
        )


def _notes_of_kept_entries(evidence: Evidence) -> Iterator[str]:
    """Entries that the job keeps in the directory on purpose."""
    for name, stream in evidence.streams.items():
        most = "up to " * any(one.kind == "delete" for one in stream.operations)
        for operation in stream.operations:
            totals = evidence.collected.operations.get((name, operation.name))
            added = totals.whole["succeeded"] if totals else 0
            if not operation.keeps_entries or not added:
                continue
            text = (
                f"{name}.{operation.name}: {most}{added:,} added entries are left in "
                "the directory (--keep, `clean_up: false`)"
            )
            if operation.kept_dn:
                dn = shlex.quote(operation.kept_dn)
                text += (
                    f"; `ldapslam quick delete {stream.uris[0]} -e {dn} -n {added}` "
                    "deletes them, with the bind of this run"
                )
            yield text


def _notes_of_steady(evidence: Evidence) -> Iterator[str]:
    for one in evidence.steady.values():
        if one.text:
            yield f"not in a steady state: {one.text}"


def _notes_of_disagreement(evidence: Evidence) -> Iterator[str]:
    """Yield the operations with different medians at agents, or at servers: a
    percentile over all of them is over two kinds of requests."""
    for key, operation in evidence.collected.operations.items():
        name = ".".join(key)
        agents = {
            agent: totals.response_times[key]
            for agent, totals in sorted(evidence.collected.agents.items())
            if key in totals.response_times
        }
        servers = {
            uri: totals.times["service_time"]
            for uri, totals in sorted(operation.servers.items())
        }
        if found := _disagreement(agents):
            yield (
                f"agents disagree on {name}: its response time p50 is {found}; their "
                "hosts, or their ways to the servers, differ"
            )
        if found := _disagreement(servers):
            yield f"servers disagree on {name}: its service time p50 is {found}"


def _disagreement(times: Mapping[str, Histogram]) -> str:
    """Return the shortest and the longest median, if they are far apart; else an empty
    text."""
    intervals = {
        name: interval
        for name, one in times.items()
        # of a copy: a histogram keeps its ranks, which take more memory than itself
        if (interval := Histogram.union([one]).ci95(50, one.sample // _ALIKE))
    }
    most_ns = {name: one.high_ns or math.inf for name, one in intervals.items()}
    shortest = min(most_ns, key=most_ns.__getitem__, default="")
    longest = max(intervals, key=lambda name: intervals[name].low_ns, default="")
    if not most_ns or intervals[longest].low_ns <= _DISAGREEMENT * most_ns[shortest]:
        return ""
    return (
        f"at most {most_ns[shortest] / 1e6:,.3f} ms at {shortest} and at least "
        f"{intervals[longest].low_ns / 1e6:,.3f} ms at {longest}"
    )


def _notes_of_connections(evidence: Evidence) -> Iterator[str]:
    for name, stream in evidence.collected.streams.items():
        for counter, words in _CONNECTION_NOTES.items():
            if number := stream.counters.get(counter, 0):
                requests = stream.counters["lost_requests"]
                if counter == "disconnects" and requests:
                    words += f", after {requests / number:,.0f} requests on average"
                causes = causes_text(stream.counters, _CAUSES.get(counter, {}))
                words += f" ({causes})" * bool(causes)
                yield f"stream {name}: {number:,} {words}"


#: In the order of the report.
_NOTES: tuple[Callable[[Evidence], Iterator[str]], ...] = (
    _notes_of_the_run,
    _notes_of_agents,
    busy_hosts,
    _notes_of_unanswered,
    _notes_of_counts,
    _notes_of_sessions,
    _notes_of_replays,
    _notes_of_reconciliation,
    _notes_of_clean_up,
    _notes_of_lost_agents,
    _notes_of_kept_entries,
    _notes_of_steady,
    _notes_of_disagreement,
    _notes_of_connections,
)
