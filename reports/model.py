# SPDX-License-Identifier: Apache-2.0
"""Every statistic of a run's report, computed once; all formats show this Summary.

Statistics cover the measure phase: percentiles the requests with an intended start in
it, throughput the completions that happened in it. Response time, service time and
backlog wait are those of successes, with the other outcomes apart; send lag and receive
lag, the generator's own, are those of all requests. Requests without an answer rank
above every response time and service time. A statistic is None without enough data, and
where it depends on requests without an answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ldapslam.jobs.fields.thresholds import KINDS_WITHOUT_RESPONSE
from ldapslam.reports.collect.clocks import Clock
from ldapslam.reports.collect.completeness import Completeness
from ldapslam.reports.collect.telemetry import MonitorSummary
from ldapslam.reports.collect.timeline import Timeline
from ldapslam.reports.collect.totals import AgentTotals
from ldapslam.reports.distribution import Curve, Distribution
from ldapslam.reports.rules.criteria import ThresholdResult
from ldapslam.reports.rules.evidence import Outage, Window
from ldapslam.reports.rules.operation_range import Outcome
from ldapslam.reports.rules.reconciliation import Reconciliation, SentRequests
from ldapslam.reports.rules.rules import Cause, Rule
from ldapslam.reports.rules.trends import Trend
from ldapslam.reports.uncertainty import Estimate
from ldapslam.results.facts import AgentFacts, ReplicationFacts
from ldapslam.results.records import EventRecord, RunRecord


@dataclass(frozen=True, slots=True)
class ServerSummary:
    """What one server of several was sent of an operation."""

    uri: str
    #: As in OperationSummary; scheduled and dropped are of no server.
    counts: Mapping[str, int]
    throughput_per_s: float | None
    error_share: float | None
    #: Response time and service time.
    times: Mapping[str, Distribution]


@dataclass(frozen=True, slots=True)
class OperationSummary:
    stream: str
    operation: str
    kind: str
    #: 'succeeded', or 'expected' where the job expects no success: what `times` and
    #: `curves` are of.
    times_of: str
    #: The result codes that count as succeeded, and as expected; None: not known, as of
    #: a Python class that expects a code of some of an operation's requests.
    success_codes: frozenset[int]
    expected_codes: frozenset[int] | None
    #: Counters of the measure phase, by their names in the result.
    counts: Mapping[str, int]
    #: Counters of the whole run.
    totals: Mapping[str, int]
    throughput_per_s: float | None
    goodput_per_s: float | None
    #: Unexpectedly failed, timed out and unresolved requests as a share of those sent.
    error_share: float | None
    #: LDAP result code -> responses.
    result_codes: Mapping[int, int]
    #: LDAP result code of failures -> what the servers said, the first ones of those
    #: that differ.
    diagnostic_messages: Mapping[int, Sequence[str]]
    #: Metric -> statistics; see the module for which outcomes.
    times: Mapping[str, Distribution]
    #: Outcome other than success, when there are any -> response time and service
    #: time; of requests without an answer up to when they were given up.
    outcome_times: Mapping[str, Mapping[str, Distribution]]
    #: Metric -> curve; of response time and service time.
    curves: Mapping[str, Curve]
    #: In the job's order; empty where the stream has one server.
    servers: tuple[ServerSummary, ...]
    #: 'throughput', 'goodput', 'mean' (of response time, in us) or 'errors' -> its 95 %
    #: confidence interval by batches (reports/uncertainty.py), where it has one.
    by_batches: Mapping[str, Estimate]
    #: Batches with requests of this operation.
    batches: int

    @property
    def title(self) -> str:
        return f"{self.stream}.{self.operation}"

    @property
    def has_responses(self) -> bool:
        """False: no response is due, so there are no times."""
        return self.kind not in KINDS_WITHOUT_RESPONSE

    def outcome_of(self, code: int) -> str:
        """'succeeded', 'expected' or 'failed', of a response with this result code;
        empty where that is not known."""
        if code in self.success_codes:
            return "succeeded"
        if self.expected_codes is None:
            return ""
        return "expected" if code in self.expected_codes else "failed"


@dataclass(frozen=True, slots=True)
class StreamSummary:
    name: str
    target: str
    #: 'open' or 'closed'.
    model: str
    #: Arrivals per s of an open stream, on average and at most; clients of a closed
    #: one.
    rate_per_s: float | None
    peak_rate_per_s: float | None
    clients: int | None
    #: Sessions after which it ends; None: with the run.
    count: int | None
    #: 'native', or 'python': without kernel receive stamps.
    engine: str
    window: Window
    connections: Mapping[str, int]
    outage: Outage
    #: Share of the arrivals that waited for a connection when the measure phase ended;
    #: None of a closed stream.
    unsent: float | None
    #: Name in SET_UP_TIMES -> statistics of the whole run.
    set_up: Mapping[str, Distribution]
    operations: tuple[OperationSummary, ...]


@dataclass(frozen=True, slots=True)
class AgentSummary:
    name: str
    throughput_per_s: float | None
    response_times: Distribution
    cpu_us_per_op: float | None
    cpu_utilisation: float | None
    #: As a share of the workers' time in the measure phase; and in the worst interval.
    busy_share: float | None
    highest_busy_share: float | None
    highest_run_queue_share: float | None
    missing_intervals: int
    #: What else was counted.
    totals: AgentTotals
    #: What the agent reports about itself and its targets.
    facts: AgentFacts


@dataclass(frozen=True, slots=True)
class Summary:
    run: RunRecord
    verdict: str
    #: Why the verdict is not PASS; empty when it is.
    reasons: tuple[str, ...]
    rules: tuple[Rule, ...]
    thresholds: tuple[ThresholdResult, ...]
    #: Parts of the stored run that are not what was judged (run.digest).
    altered: tuple[str, ...]
    #: Worth knowing, without an effect on the verdict.
    notes: tuple[str, ...]
    #: Length of the measure phase as it was run; None without any interval of it.
    measure_s: float | None
    interval_s: float
    #: Ends of the planned intervals.
    boundaries_ns: Sequence[int]
    #: Above it an interval of a worker counts as saturated.
    busy_share_limit: float
    streams: tuple[StreamSummary, ...]
    agents: tuple[AgentSummary, ...]
    sent_requests: SentRequests
    #: The same with the servers' counts; of runs that watched their servers.
    reconciliations: Mapping[str, Reconciliation]
    #: What was found after the load; None when the job did not ask.
    replication: ReplicationFacts | None
    timeline: Timeline
    completeness: Completeness
    #: Agent -> its clock over the run, if it was sampled.
    clocks: Mapping[str, Clock]
    clock_deviation_limit_ns: float
    monitors: tuple[MonitorSummary, ...]
    #: Empty without a long measure phase.
    trends: tuple[Trend, ...]
    events: tuple[EventRecord, ...]

    @property
    def is_judged(self) -> bool:
        """Whether it is what its verdict was given for: no other run is a result."""
        return self.run.digest is not None and not self.altered

    @property
    def uncertain(self) -> tuple[str, ...]:
        """The thresholds for which alone it is INVALID: it was too short for them."""
        faults = [one for one in self.rules if not one.passed]
        is_sound = all(one.cause is Cause.TARGET for one in faults)
        if self.verdict != "INVALID" or self.altered or not is_sound:
            return ()
        return tuple(
            one.expression
            for one in self.thresholds
            if one.outcome is Outcome.UNCERTAIN
        )

    @property
    def operations(self) -> tuple[OperationSummary, ...]:
        return tuple(one for stream in self.streams for one in stream.operations)

    @property
    def facts(self) -> dict[str, AgentFacts]:
        """Agent -> what it reports about itself and its targets."""
        return {agent.name: agent.facts for agent in self.agents}

    @property
    def timed(self) -> tuple[OperationSummary, ...]:
        """The operations that have response times."""
        return tuple(one for one in self.operations if one.has_responses)

    @property
    def started_utc(self) -> str:
        """T0, or what comes nearest to it when the run did not get so far."""
        return self.run.t0_utc or self.run.started_utc or self.run.submitted_utc

    def since_start_s(self, at_utc: str) -> float | None:
        """A time of day as s since T0; None when there was no T0."""
        if self.run.t0_utc is None:
            return None
        t0 = datetime.fromisoformat(self.run.t0_utc)
        return (datetime.fromisoformat(at_utc) - t0).total_seconds()
