# SPDX-License-Identifier: Apache-2.0
"""Makes the plan of a run from its job: run_plan.py. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

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
from ldapslam.jobs.run_plan import PlannedOperation, PlannedStream, RunPlan

_NS_PER_S = 1e9
_COUNTER = re.compile(r"-?\d+:.*")
_PLACEHOLDER = re.compile(r"\[\[|\]\]|\[[^\]]*\]")


def run_plan(job: Job) -> RunPlan:
    """Return the plan of a run of the job."""
    # one agent has all streams, and the whole of each total
    whole = agent_plan(job, agent_index=0, agent_count=1, seed=0)
    return RunPlan(
        description=job.description,
        phases=phase_spans(job.run),
        boundaries_ns=tuple(interval_boundaries_ns(job.run)),
        streams=tuple(
            _stream(job, stream, planned)
            for stream, planned in zip(job.streams, whole.streams, strict=True)
        ),
        validity=job.validity,
        thresholds=tuple(job.thresholds),
        counted=_counted(job),
        verify=job.verify,
    )


def _counted(job: Job) -> tuple[str, ...]:
    """The servers with directory monitors."""
    return tuple(
        dict.fromkeys(
            uri
            for monitor in job.monitors
            if monitor.directory
            for uri in job.targets[monitor.directory]
        )
    )


def _stream(job: Job, stream: Stream, planned: StreamPlan) -> PlannedStream:
    requests = {request.name: request for request in stream.requests}
    compiled = {operation.name: operation for operation in planned.operations}
    #: Operation that begins a session -> how often the session sends it.
    first: dict[str, int] = {}
    for script in planned.scripts:
        numbers = [number for number, _ in script.steps]
        name = planned.operations[numbers[0]].name
        first[name] = max(first.get(name, 0), numbers.count(numbers[0]))
    connection = stream.connection
    rate_per_s, peak_rate_per_s = _rates(job, stream, planned)
    return PlannedStream(
        name=planned.name,
        target=planned.target,
        uris=tuple(job.targets[stream.target]),
        watched=_watched(planned),
        engine=planned.engine,
        is_replay=planned.replay is not None,
        identity=job.identity(stream),
        tls=job.tls_text(stream),
        identity_change=job.identity_change(stream) or "",
        model=planned.model,
        arrivals=stream.load.arrivals if stream.load.kind == "open" else None,
        rate_per_s=rate_per_s,
        peak_rate_per_s=peak_rate_per_s,
        # after the last phase nothing is due
        profile=tuple(between(planned.profile, 0, planned_end_ns(job.run))),
        clients=planned.connections if planned.model == "closed" else None,
        connections=planned.total_connections,
        think_time_ns=stream.load.think_time_ns,
        reconnect_operations=connection.reconnect_operations,
        reconnect_ns=connection.reconnect_ns,
        reconnect_wait_ns=connection.reconnect_wait_ns or 0,
        count=planned.total_operations or None,
        start_ns=planned.start_ns,
        end_ns=planned.end_ns or None,
        operations=tuple(
            PlannedOperation(
                name=name,
                kind=kind,
                **_request_fields(requests.get(name)),
                **_compiled_fields(compiled.get(name), first),
            )
            for name, kind in stream.request_names
        ),
    )


def _request_fields(request: Request | None) -> dict[str, Any]:
    """What a reason or a note of the verdict may name of a request."""
    if request is None:
        return {}
    body = request.step.body
    lets = [f"{name} = {text}" for name, text in request.step.let.items()]
    fields: dict[str, Any] = {
        "about": ", ".join(filter(None, (body.about, *lets))),
        "size_limit": getattr(body, "size_limit", 0) or 0,
    }
    if isinstance(body, Add):
        fields["cleans_up"] = body.clean_up
        fields["keeps_entries"] = not body.clean_up
        if not body.clean_up and body.dn and _is_counted(body.dn):
            # a delete of the same DN finds the entries
            fields["kept_dn"] = body.dn
    elif isinstance(body, Delete):
        fields["deletes_of"] = body.of or ""
    return fields


def _is_counted(dn: str) -> bool:
    """Return whether a DN has numbers in turn, and all else of it is the same."""
    bodies = [one[1:-1] for one in _PLACEHOLDER.findall(dn) if one not in ("[[", "]]")]
    return len(bodies) == 1 and bool(_COUNTER.fullmatch(bodies[0]))


def _compiled_fields(
    operation: OperationPlan | None, first: Mapping[str, int]
) -> dict[str, Any]:
    if operation is None:
        # of a Python class, whose facts name the other codes that it expects
        return {"success_codes": tuple(PYTHON_SUCCESS_CODES)}
    return {
        "success_codes": tuple(operation.success_codes),
        "expected_codes": tuple(operation.expected_codes),
        "is_first": operation.name in first,
        "per_session": first.get(operation.name, 1),
        "is_paged": operation.cookie_variable != NO_VARIABLE,
    }


def _watched(planned: StreamPlan) -> Mapping[str, str]:
    if not planned.watched:
        return {}
    number = planned.watched
    names, uris = planned.request_names[-number:], planned.uris[-number:]
    return dict(zip(names, uris, strict=True))


def _rates(
    job: Job, stream: Stream, planned: StreamPlan
) -> tuple[float | None, float | None]:
    """Mean and peak over the part of the measure phase in which the stream works."""
    measure = measure_span(job.run)
    start_ns = max(measure.start_ns, planned.start_ns)
    end_ns = min(measure.end_ns, planned.end_ns or measure.end_ns)
    if planned.model != "open" or planned.replay or end_ns <= start_ns:
        return None, None
    arrivals = planned_arrivals(job.run, stream, start_ns, end_ns)
    peak = planned_peak(job.run, stream, start_ns, end_ns)
    return (
        round(arrivals / (end_ns - start_ns) * _NS_PER_S, 6),
        round(peak * _NS_PER_S, 6),
    )
