# SPDX-License-Identifier: Apache-2.0
"""The values the store takes and gives: a run, and what one agent saw in one interval.

Frozen, plain data without behaviour beyond naming. Times relative to T0 (the planned
start of the run, the same instant on every agent) are `_ns` integers; times of day are
`_utc` texts in ISO 8601 with the suffix Z (see `utc_text`), so that they sort, survive
JSON and mean the same in every database. Histograms are the engine's packed bytes
(`histogram.py` describes the format).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

#: Histograms of an operation, in the engine's numbering.
METRICS = (
    "response_time",
    "service_time",
    "send_lag",
    "receive_lag",
    "backlog_wait",
)
#: Outcomes of a request, in the engine's numbering. `expected` is a result code other
#: than success that the job allows; the last two had no response, and their times go up
#: to when they were given up.
OUTCOMES = ("succeeded", "failed", "expected", "timed_out", "unresolved")
#: Of a connection's set-up: all of it, and its steps.
SET_UP_TIMES = ("connect_time", "tcp_time", "tls_time", "bind_time")

#: States in which a run has ended and nothing more will be added to it.
FINAL_STATES = frozenset({"finished", "failed", "cancelled"})


def utc_text(moment: datetime) -> str:
    """An aware time of day as the store keeps it: `2026-03-01T12:00:00.000000Z`."""
    text = moment.astimezone(UTC).isoformat(timespec="microseconds")
    return text.removesuffix("+00:00") + "Z"


@dataclass(frozen=True, slots=True)
class OperationInterval:
    """What one operation of one stream did on one agent in one interval."""

    stream: str
    operation: str
    #: True: requests whose intended time lies in the measure phase.
    measured: bool
    scheduled: int = 0
    sent: int = 0
    completed: int = 0
    succeeded: int = 0
    failed: int = 0
    dropped: int = 0
    unresolved: int = 0
    timed_out: int = 0
    entries: int = 0
    references: int = 0
    #: Completed with a result code that the job expects, other than success.
    expected: int = 0
    #: Sent and given up on purpose.
    abandoned: int = 0
    #: Of `scheduled`: another operation was sent in this one's place.
    substituted: int = 0
    #: Of `failed`: a success that lacked a value the session needs.
    captures_missing: int = 0
    #: Requests written; more than `sent` where one operation takes several.
    requests: int = 0
    #: LDAP result code -> responses.
    result_codes: Mapping[int, int] = field(default_factory=dict)
    #: (metric, outcome) -> packed histogram; an empty histogram may be left out.
    histograms: Mapping[tuple[str, str], bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StreamInterval:
    """The connections of one stream on one agent in one interval."""

    stream: str
    connects: int = 0
    connect_failures: int = 0
    disconnects: int = 0
    #: Sum over the connections: lost, or not made, and not yet set up again.
    down_ns: int = 0
    protocol_errors: int = 0
    late_responses: int = 0
    unexpected_messages: int = 0
    #: Unsolicited notifications.
    notices: int = 0
    stamps_missing: int = 0
    #: Gauges at the interval's end.
    in_flight: int = 0
    backlog: int = 0
    #: Requests of set-up and close, beside those of operations.
    binds: int = 0
    extended: int = 0
    unbinds: int = 0
    #: When the last response was processed; None without one.
    last_done_ns: int | None = None
    #: Packed histogram of the whole set-up, or None when nothing connected.
    connect_time: bytes | None = None
    #: Of its steps; None where the step is not taken.
    tcp_time: bytes | None = None
    tls_time: bytes | None = None
    bind_time: bytes | None = None


@dataclass(frozen=True, slots=True)
class WorkerInterval:
    """How one engine thread spent one interval."""

    worker: int
    #: 'open' or 'closed'.
    model: str
    wall_ns: int
    #: Outside of waiting for events; spinning before a deadline is not in it.
    busy_ns: int
    spin_ns: int = 0
    cpu_ns: int = 0
    #: Runnable, but not running.
    run_queue_ns: int = 0
    loops: int = 0


@dataclass(frozen=True, slots=True)
class HostInterval:
    """The agent's host in one interval; a figure it does not have is None."""

    #: Share of all cores' time that was not idle, 0 to 1.
    cpu_utilisation: float | None = None
    #: Share of all cores' time that the hypervisor took, 0 to 1.
    steal_share: float | None = None
    #: Time the cgroup was throttled.
    throttled_ns: int | None = None


@dataclass(frozen=True, slots=True)
class IntervalRecord:
    """One agent's report of one interval; (agent, epoch, sequence) is its key."""

    agent: str
    #: Counts the agent's registrations: a restarted agent has a new epoch.
    epoch: int
    #: Counts the agent's reports within the epoch and run.
    sequence: int
    #: Number of the interval in the plan; the drain follows the last planned one.
    index: int
    #: Phase the interval lies in: intervals never span two.
    phase: str
    start_ns: int
    end_ns: int
    final: bool = False
    operations: tuple[OperationInterval, ...] = ()
    streams: tuple[StreamInterval, ...] = ()
    workers: tuple[WorkerInterval, ...] = ()
    host: HostInterval | None = None
    #: Step of the wall clock against the monotonic clock within the interval.
    clock_step_ns: int = 0


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One execution of a job."""

    run_id: str
    job_name: str
    job_text: str
    job_hash: str
    seed: int
    submitted_utc: str
    submitted_by: str
    #: Names of the agents the run was planned on.
    agents: tuple[str, ...] = ()
    #: phases: [{name, start_ns, end_ns}], boundaries_ns, validity, thresholds, streams:
    #: [{name, target, uris, engine, model, rate_per_s, peak_rate_per_s, clients,
    #: connections, count, start_ns, end_ns, operations: [{name, kind, success_codes,
    #: expected_codes, is_first, per_session, is_paged}]}]. What older runs lack has its
    #: default.
    plan: Mapping[str, Any] = field(default_factory=dict)
    #: Facts that make the run repeatable: versions, hosts, servers, files.
    manifest: Mapping[str, Any] = field(default_factory=dict)
    state: str = "queued"
    state_detail: str = ""
    #: Planned start; None until the fleet was ready.
    t0_utc: str | None = None
    started_utc: str | None = None
    finished_utc: str | None = None
    #: PASS, FAIL or INVALID; None until the run was judged.
    verdict: str | None = None
    priority: int = 0
    #: Of a run that a schedule made.
    schedule_id: str | None = None

    @property
    def planned_ns(self) -> int:
        """When the last phase of the plan is over, since T0."""
        phases = self.plan.get("phases")
        return int(phases[-1]["end_ns"]) if phases else 0


@dataclass(frozen=True, slots=True)
class SubmissionRecord:
    """What a run was made of, until it has ended."""

    #: The serialised request.
    request: bytes
    not_before_utc: str | None = None
    after_run: str | None = None
    #: any, pass or fail.
    after_if: str = "any"


@dataclass(frozen=True, slots=True)
class EventRecord:
    """Something worth a line in the run's log: a lost agent, a cancel, a clock step."""

    at_utc: str
    kind: str
    text: str


#: The fields of a ClockSample.
ClockRow = tuple[str, int, int, int]


class ClockSample(NamedTuple):
    """An exchange with an agent's monotonic clock."""

    agent: str
    #: Since T0, in the coordinator's clock.
    at_ns: int
    #: Agent's clock minus the coordinator's, known to ± bound_ns.
    offset_ns: int
    bound_ns: int
