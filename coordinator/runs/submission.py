# SPDX-License-Identifier: Apache-2.0
"""From a submitted job to the run's record, its limits and what agents are told. Pure.

The job is loaded here as the agents will load it, so that all its faults are found
before anything starts. Files travel with it; secrets do not, they are references.
"""

from __future__ import annotations

import hashlib
import platform
import re
import secrets
import socket
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from ldapslam.base.errors import AgentVersionMismatch, ConfigError
from ldapslam.base.time_zone import parse_utc
from ldapslam.base.uri import server_of
from ldapslam.coordinator.fleet.selection import Selection
from ldapslam.coordinator.runs.report_plan import report_plan
from ldapslam.coordinator.runs.run import RunLimits
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.model import Job
from ldapslam.jobs.plan import phase_spans
from ldapslam.proto.common_pb2 import RunAssignment
from ldapslam.proto.operator_pb2 import RunCondition, SubmitJobRequest
from ldapslam.results.records import RunRecord, utc_text
from ldapslam.transport.messages import (
    PROTOCOL_VERSION,
    ProtocolError,
    build_version,
    describe_version,
)

_SEED_BITS = 64
#: Characters of a name: of an agent, a schedule, a window.
MAX_NAME = 64


@dataclass(frozen=True, slots=True)
class Submission:
    """A run that may be queued."""

    job: Job
    record: RunRecord
    #: What every agent gets; index and count are filled in for each.
    assignment: RunAssignment
    selection: Selection
    limits: RunLimits
    #: Its servers (`server_of`): no two runs at a time, unless both share them.
    targets: frozenset[str]
    is_sharing: bool
    #: As it was sent, for a coordinator after this one.
    request: SubmitJobRequest
    #: How long the run may wait for agents that are not there; 0: not at all.
    wait_for_agents_ns: int

    @property
    def run_id(self) -> str:
        return self.record.run_id

    @property
    def lease_ns(self) -> int:
        """How long agents keep up the load without being heard."""
        return self.assignment.orphan_grace_ns


def load_submission(
    request: SubmitJobRequest,
    now_utc: datetime,
    *,
    run_id: str | None = None,
    schedule_id: str | None = None,
) -> Submission:
    """The run of a request; JobErrors with all faults of the job."""
    check_version("the command line", request.protocol_version, request.build)
    if request.not_before_utc:
        parse_utc(request.not_before_utc)
    if request.after_if not in RunCondition.values():
        raise ConfigError("the condition on the run before is not known")
    job = _load_job(request)
    run_id = run_id or new_run_id(now_utc)
    seed = secrets.randbits(_SEED_BITS) if job.seed is None else job.seed
    record = _record(job, request, run_id, seed, now_utc)
    return _submission(job, request, replace(record, schedule_id=schedule_id))


def check_channels(names: Iterable[str], known: Collection[str]) -> None:
    """ConfigError when the operator of the coordinator has not named a channel."""
    for name in names:
        if name not in known:
            raise ConfigError(
                f"the coordinator has no notification channel {name[:MAX_NAME]!r}",
                hint="its operator names them with --notify; there are "
                f"{', '.join(sorted(known)) or 'none'}",
            )


def is_usable(name: str) -> bool:
    """A name that can be seen, on one line, and is not too long for a table."""
    return bool(name.strip()) and len(name) <= MAX_NAME and name.isprintable()


def new_run_id(now_utc: datetime) -> str:
    return f"{now_utc:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def reload_submission(request: SubmitJobRequest, record: RunRecord) -> Submission:
    """The run of `record`, which another coordinator made of the request."""
    return _submission(_load_job(request), request, record)


def _load_job(request: SubmitJobRequest) -> Job:
    job = load_job_text(
        request.job_text,
        file=request.job_file,
        base=None,
        overrides=list(request.overrides),
        files=request.files,
    )
    missing = [name for name in job.named_files() if name not in request.files]
    if missing:
        raise ProtocolError(f"the job's file {missing[0]!r} was not sent along")
    return job


def _submission(job: Job, request: SubmitJobRequest, record: RunRecord) -> Submission:
    return Submission(
        job=job,
        record=record,
        assignment=RunAssignment(
            run_id=record.run_id,
            job_file=request.job_file,
            job_text=request.job_text,
            overrides=request.overrides,
            files={name: request.files[name] for name in job.named_files()},
            seed=record.seed,
            orphan_grace_ns=job.orphan_grace_ns,
        ),
        selection=selection_of(job),
        limits=limits_of(job),
        targets=frozenset(
            server_of(uri)
            for stream in job.streams
            for uri in job.targets[stream.target]
        ),
        is_sharing=job.share_target,
        request=request,
        wait_for_agents_ns=max(request.wait_for_agents_ns, job.agents.wait_ns),
    )


def check_version(who: str, protocol_version: int, build: str) -> None:
    """Both sides must be the same ldapslam: AgentVersionMismatch names both."""
    ours = build_version()
    if (protocol_version, build) != (PROTOCOL_VERSION, ours):
        raise AgentVersionMismatch(
            who,
            describe_version(protocol_version, build),
            describe_version(PROTOCOL_VERSION, ours),
            hint=_upgrade_hint((protocol_version, build), (PROTOCOL_VERSION, ours)),
        )


def _upgrade_hint(theirs: tuple[int, str], ours: tuple[int, str]) -> str:
    """Which side is to follow: in an upgrade the coordinator goes first."""
    order = [
        (protocol, [int(number) for number in re.findall(r"\d+", build)])
        for protocol, build in (theirs, ours)
    ]
    if order[0] < order[1]:
        return (
            f"install ldapslam {ours[1]} there: the coordinator has it already, and "
            "goes first"
        )
    if order[0] > order[1]:
        return (
            f"upgrade the coordinator to ldapslam {theirs[1]} first, then the others; "
            f"until then install {ours[1]} there"
        )
    return "install the same ldapslam on both"


def selection_of(job: Job) -> Selection:
    """The fleet's notion of a job's `agents`: each has a connection of some stream."""
    agents = job.agents
    return Selection(
        count=agents.count,
        names=tuple(dict.fromkeys(agents.names or ())),
        labels=dict(agents.labels or {}),
        most=max(stream.load.connections for stream in job.streams),
        hosts=agents.hosts or 1,
    )


#: Longest that entries of servers are compared, after they had to be equal.
COMPARE_NS = 3600 * 1_000_000_000


def limits_of(job: Job) -> RunLimits:
    """The times that decide the run's transitions."""
    return RunLimits(
        planned_ns=phase_spans(job.run)[-1].end_ns,
        grace_ns=job.run.drain_ns,
        stop_on_loss=job.on_agent_loss == "stop",
        prepare_ns=job.agents.ready_within_ns,
        quorum=job.agents.quorum,
        observed=bool(job.monitors or job.verify),
        verify_ns=_verify_ns(job),
    )


def _verify_ns(job: Job) -> int:
    """Until replicas are equal, and then as long again to compare what they have."""
    if job.verify is None:
        return 0
    check = job.verify.replication
    return check.within_ns + (COMPARE_NS if check.content else 0)


def _record(
    job: Job, request: SubmitJobRequest, run_id: str, seed: int, now_utc: datetime
) -> RunRecord:
    return RunRecord(
        run_id=run_id,
        job_name=job.name,
        job_text=request.job_text.decode(),
        job_hash=job.canonical_hash(),
        seed=seed,
        submitted_utc=utc_text(now_utc),
        submitted_by=request.submitted_by,
        priority=request.priority,
        plan=report_plan(job),
        manifest={
            "ldapslam": build_version(),
            "job_file": request.job_file,
            "overrides": list(request.overrides),
            "files": {
                name: hashlib.sha256(request.files[name]).hexdigest()
                for name in job.named_files()
            },
            **({"notify": list(request.notify)} if request.notify else {}),
            "coordinator": {
                "host_name": socket.gethostname(),
                "python": platform.python_version(),
            },
        },
    )
