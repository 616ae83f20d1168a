# SPDX-License-Identifier: Apache-2.0
"""Every statistic of a run's report, computed once; all formats show this Summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ldapslam.reports.collect.clocks import Clock
from ldapslam.reports.collect.completeness import Completeness
from ldapslam.reports.collect.telemetry import MonitorSummary
from ldapslam.reports.collect.timeline import Timeline
from ldapslam.reports.figures import Figure
from ldapslam.reports.rules.criteria import ThresholdResult
from ldapslam.reports.rules.operation_range import Outcome
from ldapslam.reports.rules.reconciliation import Reconciliation, SentRequests
from ldapslam.reports.rules.rules import Cause, Rule
from ldapslam.reports.rules.trends import Trend
from ldapslam.reports.streams import AgentSummary, OperationSummary, StreamSummary
from ldapslam.results.facts import AgentFacts, ReplicationFacts
from ldapslam.results.records import EventRecord, RunRecord


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
    #: All that have a name, in the order of the report.
    figures: tuple[Figure, ...]
    streams: tuple[StreamSummary, ...]
    agents: tuple[AgentSummary, ...]
    sent_requests: SentRequests
    #: The same with the servers' counts; of runs that watched their servers.
    reconciliations: Mapping[str, Reconciliation]
    #: What was found after the load; None when the job did not ask.
    replication: ReplicationFacts | None
    timeline: Timeline
    completeness: Completeness
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
    def clocks(self) -> dict[str, Clock]:
        """Agent -> its clock over the run, if it was sampled."""
        return {one.name: one.clock for one in self.agents if one.clock is not None}

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
