# SPDX-License-Identifier: Apache-2.0
"""The values the store takes and gives: a run, and what one agent saw in one interval.

Frozen, plain data; what was measured in an interval is the agent's own message
(proto/common.proto), packed. Times relative to T0 (the planned start of the run, the
same instant on every agent) are `_ns` integers; times of day are `_utc` texts in ISO
8601 with the suffix Z (see `utc_text`), so that they sort, survive JSON and mean the
same in every database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, NamedTuple, NotRequired, TypedDict

from ldapslam.jobs.run_plan import RunPlan
from ldapslam.results.facts import AgentFacts, Manifest, MonitorFacts

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

#: States in which a run has ended and nothing more will be added to it.
FINAL_STATES = frozenset({"finished", "failed", "cancelled", "aborted"})


def utc_text(moment: datetime) -> str:
    """An aware time of day as the store keeps it: `2026-03-01T12:00:00.000000Z`."""
    text = moment.astimezone(UTC).isoformat(timespec="microseconds")
    return text.removesuffix("+00:00") + "Z"


@dataclass(frozen=True, slots=True)
class IntervalRecord:
    """One agent's report of one interval; (agent, attempt, sequence) is its key.

    What stands beside the packed snapshot is a copy of what is in it.
    """

    agent: str
    #: Of the run: each time it begins, it has another number.
    attempt: int
    #: Counts the agent's reports within the attempt, from 0.
    sequence: int
    #: Number of the interval in the plan; the drain follows the last planned one.
    index: int
    final: bool
    #: Since T0.
    end_ns: int
    #: The snapshot as the agent sent it (results/packing.py).
    packed: bytes


class Taken(NamedTuple):
    """What became of a report."""

    #: False: the store has it already, or refuses it.
    is_new: bool
    #: Why it is refused, or empty.
    refusal: str = ""


class DigestedPart(TypedDict):
    """A part of a run as results/digest.py counts it."""

    rows: int
    sha256: str
    columns: list[str]


class DigestDocument(TypedDict):
    """What a verdict is bound to (reports/digest.py)."""

    #: The run was judged before.
    first: NotRequired[Digest]
    schema: str
    run_id: str
    verdict: str
    reasons: list[str]
    judged_utc: str
    ldapslam: str
    parts: dict[str, DigestedPart]


class Digest(TypedDict):
    """The document with its SHA-256. In a store, somebody may have written another:
    reports/digest.py checks it."""

    document: DigestDocument
    sha256: str
    #: As transport/pki/signature.py makes it.
    signature: Mapping[str, str] | None


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
    plan: RunPlan = field(default_factory=RunPlan)
    manifest: Manifest = field(default_factory=Manifest)
    state: str = "queued"
    state_detail: str = ""
    #: Planned start; None until the fleet was ready.
    t0_utc: str | None = None
    started_utc: str | None = None
    finished_utc: str | None = None
    #: PASS, FAIL or INVALID; None until the run was judged.
    verdict: str | None = None
    #: With the verdict.
    digest: Digest | None = None
    #: Additions to the store since the run's end that the verdict is not of.
    unjudged: int = 0
    priority: int = 0
    #: Of a run that a schedule made.
    schedule_id: str | None = None

    @property
    def planned_ns(self) -> int:
        """When the last phase of the plan is over, since T0."""
        return self.plan.end_ns


@dataclass(frozen=True, slots=True)
class SubmissionRecord:
    """What a run was made of, until it has ended."""

    #: The serialised request.
    request: bytes
    #: The run that it waits for.
    after_run: str | None = None


class Part(NamedTuple):
    """An agent's part of a run."""

    attempt: int
    epoch: int
    is_sealed: bool = False
    #: What reports may still take.
    room_bytes: int = 0

    def refusal(
        self, attempt: int, size_bytes: int, *, is_monitoring: bool = False
    ) -> str:
        """Why a new report is not taken; empty when it is. `is_monitoring`: it is of a
        monitor, which goes on after the agent's load."""
        if attempt != self.attempt:
            return "it is of another attempt of the run"
        if self.is_sealed and not is_monitoring:
            return "the agent's part has ended"
        if size_bytes > self.room_bytes:
            return "the agent has reported more than the run's plan can need"
        return ""


#: The part of an agent that was given none; it takes no report.
NO_PART = Part(attempt=0, epoch=0, is_sealed=True)


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run that has not ended, as the store knows it."""

    record: RunRecord
    #: None: an older ldapslam began the run.
    submission: SubmissionRecord | None
    agents: Mapping[str, AgentFacts]
    #: Agent -> its part, where it has one.
    parts: Mapping[str, Part] = field(default_factory=dict)


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


class Metric(NamedTuple):
    """A statistic of a monitor."""

    name: str
    #: '1', 'bytes', 's', …; of a counter, what it counts.
    unit: str
    #: A counter only rises while what it belongs to keeps running.
    kind: Literal["gauge", "counter"]


#: Name of the metric, in seconds since 1970, that says since when a server or process
#: has been running: a change of it is a restart.
STARTED = "started"


@dataclass(frozen=True, slots=True)
class MonitorDescription:
    """A monitor of one agent, as it was when it began."""

    #: Unique in the run.
    name: str
    metrics: Sequence[Metric]
    facts: MonitorFacts = field(default_factory=MonitorFacts)


@dataclass(frozen=True, slots=True)
class MonitorSample:
    """One reading; (monitor, at_ns) is its key."""

    monitor: str
    at_ns: int
    #: From the first request to the last value.
    took_ns: int
    #: In the order of the metrics; empty when nothing could be read.
    values: Sequence[float] = ()
    #: Why, then; None otherwise.
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class MonitorSeries:
    """All readings of a monitor, in the order of time."""

    agent: str
    description: MonitorDescription
    at_ns: npt.NDArray[np.int64]
    took_ns: npt.NDArray[np.int64]
    #: One row for each reading, one column for each metric.
    values: npt.NDArray[np.float64]
    #: Reading -> why there is none.
    failures: Mapping[int, str]
