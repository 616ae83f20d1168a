# SPDX-License-Identifier: Apache-2.0
"""What was measured of a run's streams, operations, servers and agents.

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

from ldapslam.jobs.fields.thresholds import KINDS_WITHOUT_RESPONSE, OUTAGE_STATISTICS
from ldapslam.jobs.run_plan import PlannedStream
from ldapslam.reports.collect.clocks import Clock
from ldapslam.reports.collect.totals import AgentTotals
from ldapslam.reports.distribution import Curve, Distribution
from ldapslam.reports.uncertainty import Estimate
from ldapslam.results.facts import AgentFacts


@dataclass(frozen=True, slots=True)
class Window:
    """One stream's part of the measure phase."""

    #: Length of it; None when the stream was not at work in the measure phase.
    measure_s: float | None
    #: From the stream's start to its last response, whatever the phase; None without
    #: one, and of a stream that did not reach its count.
    elapsed_s: float | None


@dataclass(frozen=True, slots=True)
class Outage:
    """When a stream could not work, in the measure phase."""

    #: What is certain, and what is possible.
    longest_s: tuple[float, float] = (0.0, 0.0)
    total_s: tuple[float, float] = (0.0, 0.0)
    #: As a share of the time that the stream was at work.
    share: tuple[float, float] = (0.0, 0.0)
    #: How long the generator stood still in one that is possible.
    stalled_s: float = 0.0
    #: For each of OUTAGE_STATISTICS, the server that it is of, and the longest outage
    #: there that is certain, for people; both may be empty.
    worst: tuple[tuple[str, str], ...] = (("", ""),) * len(OUTAGE_STATISTICS)
    #: When each that is certain began, in s since T0, and what it was, for people.
    events: tuple[tuple[float, str], ...] = ()

    @property
    def text(self) -> str:
        """The longest that are certain, for people; empty without one."""
        texts = (f"{server} {text}".lstrip() for server, text in self.worst if text)
        return "; ".join(dict.fromkeys(texts))


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
    planned: PlannedStream
    window: Window
    connections: Mapping[str, int]
    #: Cause (base/causes.py) -> attempts to connect that failed.
    failure_causes: Mapping[str, int]
    #: The same of connections that were lost.
    loss_causes: Mapping[str, int]
    outage: Outage
    #: Share of the arrivals that waited for a connection when the measure phase ended;
    #: None of a closed stream.
    unsent: float | None
    #: Lags of the generator as a share of the time of the clients; None of an open
    #: stream.
    loop_share: float | None
    #: Name in SET_UP_TIMES -> statistics of the whole run.
    set_up: Mapping[str, Distribution]
    operations: tuple[OperationSummary, ...]

    @property
    def name(self) -> str:
        return self.planned.name


@dataclass(frozen=True, slots=True)
class AgentSummary:
    name: str
    response_times: Distribution
    #: Metric of agents (jobs/fields/thresholds.py) -> value, in its unit.
    values: Mapping[str, float | None]
    #: What else was counted.
    totals: AgentTotals
    #: What the agent reports about itself and its targets.
    facts: AgentFacts
    #: Its clock over the run; None: it was not sampled.
    clock: Clock | None
