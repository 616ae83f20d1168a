# SPDX-License-Identifier: Apache-2.0
"""What the reports need to know of a job, as plain data in the run's record. Pure.

Reports never read job files: what an operation counts as success, which of a session's
requests is its first, when a stream starts and ends is written down here, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ldapslam.jobs.model import Job, Stream
from ldapslam.jobs.operations.body import NO_VARIABLE, OperationPlan
from ldapslam.jobs.plan import (
    StreamPlan,
    agent_plan,
    interval_boundaries_ns,
    measure_span,
    phase_spans,
    planned_arrivals,
)
from ldapslam.jobs.rates.profile import peak_rate

_NS_PER_S = 1e9


def report_plan(job: Job) -> dict[str, Any]:
    """The `plan` of a RunRecord."""
    # one agent drives every stream, and its share of a total is all of it
    whole = agent_plan(job, agent_index=0, agent_count=1, seed=0)
    return {
        "phases": [
            {"name": span.name, "start_ns": span.start_ns, "end_ns": span.end_ns}
            for span in phase_spans(job.run)
        ],
        "boundaries_ns": list(interval_boundaries_ns(job.run)),
        "streams": [
            _stream(job, stream, planned)
            for stream, planned in zip(job.streams, whole.streams, strict=True)
        ],
        "validity": job.validity.model_dump(mode="json", by_alias=True),
        "thresholds": list(job.thresholds),
        **_counted(job),
        **_verify(job),
    }


def _counted(job: Job) -> dict[str, Any]:
    """The servers whose own counts belong into the books, as the job has monitors."""
    uris = [
        uri
        for monitor in job.monitors
        if monitor.directory
        for uri in job.targets[monitor.directory]
    ]
    return {"counted": list(dict.fromkeys(uris))} if uris else {}


def _verify(job: Job) -> dict[str, Any]:
    if job.verify is None:
        return {}
    return {"verify": job.verify.model_dump(mode="json", by_alias=True)}


def _stream(job: Job, stream: Stream, planned: StreamPlan) -> dict[str, Any]:
    compiled = {operation.name: operation for operation in planned.operations}
    #: Operation that begins a session -> how often it is sent in one.
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
        # what a replay sends is its log's: perhaps not every operation
        "is_replay": planned.replay is not None,
        "model": planned.model,
        **_rates(job, stream, planned),
        "clients": planned.connections if planned.model == "closed" else None,
        "connections": planned.total_connections,
        "count": planned.total_operations or None,
        "start_ns": planned.start_ns,
        "end_ns": planned.end_ns or None,
        "operations": [
            {"name": name, "kind": kind, **_operation(compiled.get(name), first)}
            for name, kind in stream.request_names
        ],
    }


def _watched(planned: StreamPlan) -> dict[str, Any]:
    """Operation -> server, of a class that watches others than its target."""
    if not planned.watched:
        return {}
    number = planned.watched
    names, uris = planned.request_names[-number:], planned.uris[-number:]
    return {"watched": dict(zip(names, uris, strict=True))}


def _rates(job: Job, stream: Stream, planned: StreamPlan) -> dict[str, float | None]:
    """Mean over the part of the measure phase in which the stream is at work."""
    measure = measure_span(job.run)
    start_ns = max(measure.start_ns, planned.start_ns)
    end_ns = min(measure.end_ns, planned.end_ns or measure.end_ns)
    if planned.model != "open" or planned.replay or end_ns <= start_ns:
        return {"rate_per_s": None, "peak_rate_per_s": None}
    arrivals = planned_arrivals(job.run, stream, start_ns, end_ns)
    mean = arrivals / (end_ns - start_ns) * _NS_PER_S
    return {
        "rate_per_s": round(mean, 6),
        "peak_rate_per_s": round(peak_rate(planned.profile) * _NS_PER_S, 6),
    }


def _operation(
    operation: OperationPlan | None, first: Mapping[str, int]
) -> dict[str, Any]:
    if operation is None:
        return {}  # of a stream that the engine does not drive
    return {
        "success_codes": list(operation.success_codes),
        "expected_codes": list(operation.expected_codes),
        "is_first": operation.name in first,
        "per_session": first.get(operation.name, 1),
        "is_paged": operation.cookie_variable != NO_VARIABLE,
    }
