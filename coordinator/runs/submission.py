# SPDX-License-Identifier: Apache-2.0
"""Makes a run of a submitted job: record, limits, the agents' assignment. Pure.

The job is loaded as agents will load it, to find its faults before the start. Its files
travel with it, secrets as references. Reports never read job files: the record's plan
has what they need.
"""

from __future__ import annotations

import hashlib
import platform
import re
import secrets
import socket
from dataclasses import dataclass, replace
from datetime import datetime

from ldapslam import __version__
from ldapslam.base.errors import AgentVersionMismatch, ConfigError
from ldapslam.base.time_zone import parse_utc
from ldapslam.base.uri import server_of
from ldapslam.coordinator.fleet.selection import Selection
from ldapslam.coordinator.runs.run import RunLimits
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.model import Job
from ldapslam.jobs.plan import (
    phase_spans,
)
from ldapslam.jobs.planning import run_plan
from ldapslam.proto.common_pb2 import RunAssignment
from ldapslam.proto.operator_pb2 import RunCondition, SubmitJobRequest
from ldapslam.results.facts import Manifest
from ldapslam.results.records import RunRecord, utc_text
from ldapslam.transport.messages import (
    PROTOCOL_VERSION,
    ProtocolError,
    describe_version,
)

_SEED_BITS = 64
#: Characters of an agent's, schedule's or window's name.


@dataclass(frozen=True, slots=True)
class Submission:
    """A run that may be queued."""

    job: Job
    record: RunRecord
    #: Without index and count.
    assignment: RunAssignment
    selection: Selection
    limits: RunLimits
    #: Its servers (`server_of`), for one run at a time unless both share.
    targets: frozenset[str]
    is_sharing: bool
    #: As sent, for the next coordinator.
    request: SubmitJobRequest
    #: 0: not at all.
    wait_for_agents_ns: int

    @property
    def run_id(self) -> str:
        return self.record.run_id

    @property
    def lease_ns(self) -> int:
        """How long agents keep up the load without hearing of the coordinator."""
        return self.assignment.coordinator_timeout_ns


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


def new_run_id(now_utc: datetime) -> str:
    return f"{now_utc:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def reload_submission(request: SubmitJobRequest, record: RunRecord) -> Submission:
    """The run that another coordinator made of the request."""
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
            coordinator_timeout_ns=job.coordinator_timeout_ns,
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
    theirs, ours = (protocol_version, build), (PROTOCOL_VERSION, __version__)
    if theirs != ours:
        raise AgentVersionMismatch(
            who,
            describe_version(*theirs),
            describe_version(*ours),
            hint=_upgrade_hint(theirs, ours),
        )


def _upgrade_hint(theirs: tuple[int, str], ours: tuple[int, str]) -> str:
    """Which side to upgrade: the coordinator goes first."""
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
    """The agents that a job asks for; each has a connection of some stream."""
    agents = job.agents
    return Selection(
        count=agents.count,
        names=tuple(dict.fromkeys(agents.names or ())),
        labels=dict(agents.labels or {}),
        most=max(stream.load.total_connections for stream in job.streams),
        hosts=agents.hosts or 1,
    )


#: Longest comparison of entries after replicas became equal.
COMPARE_NS = 3600 * 1_000_000_000


def limits_of(job: Job) -> RunLimits:
    return RunLimits(
        planned_ns=phase_spans(job.run)[-1].end_ns,
        grace_ns=job.run.drain_ns,
        stop_on_loss=job.on_agent_loss == "stop",
        prepare_ns=job.agents.ready_within_ns,
        quorum=job.agents.quorum,
        monitored=bool(job.monitors or job.verify),
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
    manifest = Manifest(
        ldapslam=__version__,
        job_file=request.job_file,
        overrides=tuple(request.overrides),
        files={
            name: hashlib.sha256(request.files[name]).hexdigest()
            for name in job.named_files()
        },
        coordinator={
            "host_name": socket.gethostname(),
            "python": platform.python_version(),
        },
    )
    if request.lab:
        manifest = manifest.updated(Manifest(lab=request.lab))
    return RunRecord(
        run_id=run_id,
        job_name=job.name,
        job_text=request.job_text.decode(),
        job_hash=job.canonical_hash(),
        seed=seed,
        submitted_utc=utc_text(now_utc),
        submitted_by=request.submitted_by,
        priority=request.priority,
        plan=run_plan(job),
        manifest=manifest,
    )
