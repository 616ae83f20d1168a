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
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from pydantic import BaseModel

from ldapslam import __version__
from ldapslam.base.errors import AgentVersionMismatch, ConfigError
from ldapslam.base.time_zone import parse_utc
from ldapslam.base.uri import server_of
from ldapslam.coordinator.fleet.selection import Selection
from ldapslam.coordinator.runs.run import RunLimits
from ldapslam.jobs.doubts import counter_of
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.model import PYTHON_SUCCESS_CODES, Job, Stream
from ldapslam.jobs.operations.add import Add
from ldapslam.jobs.operations.body import NO_VARIABLE, OperationPlan
from ldapslam.jobs.operations.entries import Delete
from ldapslam.jobs.operations.sequence import Request
from ldapslam.jobs.plan import (
    StreamPlan,
    agent_plan,
    interval_boundaries_ns,
    measure_span,
    phase_spans,
    planned_arrivals,
    planned_end_ns,
    planned_peak,
)
from ldapslam.jobs.rates.profile import between
from ldapslam.proto.common_pb2 import RunAssignment
from ldapslam.proto.operator_pb2 import RunCondition, SubmitJobRequest
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
            "ldapslam": __version__,
            "job_file": request.job_file,
            "overrides": list(request.overrides),
            "files": {
                name: hashlib.sha256(request.files[name]).hexdigest()
                for name in job.named_files()
            },
            **({"lab": dict(request.lab)} if request.lab else {}),
            "coordinator": {
                "host_name": socket.gethostname(),
                "python": platform.python_version(),
            },
        },
    )


_NS_PER_S = 1e9


def report_plan(job: Job) -> dict[str, Any]:
    # one agent has all streams, and the whole of each total
    whole = agent_plan(job, agent_index=0, agent_count=1, seed=0)
    return {
        "description": job.description,
        "phases": [asdict(span) for span in phase_spans(job.run)],
        "boundaries_ns": list(interval_boundaries_ns(job.run)),
        "streams": [
            _stream(job, stream, planned)
            for stream, planned in zip(job.streams, whole.streams, strict=True)
        ],
        "validity": _document(job.validity),
        "thresholds": list(job.thresholds),
        **_counted(job),
        **({"verify": _document(job.verify)} if job.verify else {}),
    }


def _counted(job: Job) -> dict[str, Any]:
    """Servers whose own counts are reconciled: those with directory monitors."""
    uris = [
        uri
        for monitor in job.monitors
        if monitor.directory
        for uri in job.targets[monitor.directory]
    ]
    return {"counted": list(dict.fromkeys(uris))} if uris else {}


def _document(section: BaseModel) -> dict[str, Any]:
    return section.model_dump(mode="json", by_alias=True)


def _stream(job: Job, stream: Stream, planned: StreamPlan) -> dict[str, Any]:
    change = job.identity_change(stream)
    requests = {request.name: request for request in stream.requests}
    compiled = {operation.name: operation for operation in planned.operations}
    #: Operation that begins a session -> its number in one.
    first: dict[str, int] = {}
    for script in planned.scripts:
        numbers = [number for number, _ in script.steps]
        name = planned.operations[numbers[0]].name
        first[name] = max(first.get(name, 0), numbers.count(numbers[0]))
    return {
        "name": planned.name,
        "target": planned.target,
        "uris": list(job.targets[stream.target]),
        **_watched(planned),
        "engine": planned.engine,
        # a replay may not send every operation
        "is_replay": planned.replay is not None,
        "identity": job.identity(stream),
        "tls": job.tls_text(stream),
        **({"identity_change": change} if change else {}),
        "model": planned.model,
        "arrivals": stream.load.arrivals if stream.load.kind == "open" else None,
        **_rates(job, stream, planned),
        # after the last phase nothing is due
        "profile": [
            list(segment)
            for segment in between(planned.profile, 0, planned_end_ns(job.run))
        ],
        "clients": planned.connections if planned.model == "closed" else None,
        "connections": planned.total_connections,
        **_pauses(stream),
        "count": planned.total_operations or None,
        "start_ns": planned.start_ns,
        "end_ns": planned.end_ns or None,
        "operations": [
            {
                "name": name,
                "kind": kind,
                **_asked(requests.get(name)),
                **_operation(compiled.get(name), first),
            }
            for name, kind in stream.request_names
        ],
    }


def _pauses(stream: Stream) -> dict[str, int]:
    """What a client does besides its requests, where it does."""
    connection = stream.connection
    found = {
        "think_time_ns": stream.load.think_time_ns,
        "reconnect_operations": connection.reconnect_operations,
        "reconnect_ns": connection.reconnect_ns,
    }
    return {name: value for name, value in found.items() if value}


def _asked(request: Request | None) -> dict[str, Any]:
    """What a reason or a note of the verdict may name of a request."""
    if request is None:
        return {"about": ""}
    body = request.step.body
    lets = [f"{name} = {text}" for name, text in request.step.let.items()]
    asked: dict[str, Any] = {"about": ", ".join(filter(None, (body.about, *lets)))}
    if size_limit := getattr(body, "size_limit", 0):
        asked["size_limit"] = size_limit
    if isinstance(body, Add) and not body.clean_up:
        # deletes of the same DN find the entries, or there is none to name
        asked["kept_dn"] = body.dn if body.dn and counter_of(body.dn) else ""
    elif isinstance(body, Add):
        asked["cleans_up"] = True
    elif isinstance(body, Delete) and body.of:
        asked["deletes_of"] = body.of
    return asked


def _watched(planned: StreamPlan) -> dict[str, Any]:
    """Operation -> server, for a class that watches other servers than its target."""
    if not planned.watched:
        return {}
    number = planned.watched
    names, uris = planned.request_names[-number:], planned.uris[-number:]
    return {"watched": dict(zip(names, uris, strict=True))}


def _rates(job: Job, stream: Stream, planned: StreamPlan) -> dict[str, float | None]:
    """Mean over the part of the measure phase in which the stream works."""
    measure = measure_span(job.run)
    start_ns = max(measure.start_ns, planned.start_ns)
    end_ns = min(measure.end_ns, planned.end_ns or measure.end_ns)
    if planned.model != "open" or planned.replay or end_ns <= start_ns:
        return {"rate_per_s": None, "peak_rate_per_s": None}
    arrivals = planned_arrivals(job.run, stream, start_ns, end_ns)
    mean = arrivals / (end_ns - start_ns) * _NS_PER_S
    peak = planned_peak(job.run, stream, start_ns, end_ns)
    return {
        "rate_per_s": round(mean, 6),
        "peak_rate_per_s": round(peak * _NS_PER_S, 6),
    }


def _operation(
    operation: OperationPlan | None, first: Mapping[str, int]
) -> dict[str, Any]:
    if operation is None:
        # of a class, whose facts say what else it expected
        return {"success_codes": list(PYTHON_SUCCESS_CODES)}
    return {
        "success_codes": list(operation.success_codes),
        "expected_codes": list(operation.expected_codes),
        "is_first": operation.name in first,
        "per_session": first.get(operation.name, 1),
        "is_paged": operation.cookie_variable != NO_VARIABLE,
    }
