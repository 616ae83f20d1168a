# SPDX-License-Identifier: Apache-2.0
"""Reports of agents, checked, as the records of the store. Pure.

An agent is a peer like any other: what it sends may be damaged or made up. Whatever
would later break a report, or is no part of the run's plan, is refused here with
ProtocolError, so that the store holds only what can be read again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from ldapslam.base.errors import StoreError
from ldapslam.jobs.phases import DRAIN
from ldapslam.proto import common_pb2 as pb
from ldapslam.proto.agent_pb2 import IntervalReport
from ldapslam.results.packed import block_of
from ldapslam.results.records import (
    SET_UP_TIMES,
    HostInterval,
    IntervalRecord,
    OperationInterval,
    StreamInterval,
    WorkerInterval,
)
from ldapslam.transport.messages import (
    METRICS,
    OPERATION_COUNTERS,
    OUTCOMES,
    STREAM_COUNTERS,
    ProtocolError,
)

#: The store's integers are signed: 64 bits for counters, 32 for keys.
_MAX_COUNTER = (1 << 63) - 1
_MAX_KEY = (1 << 31) - 1


def interval_record(report: IntervalReport, plan: Mapping[str, Any]) -> IntervalRecord:
    """The record of one report; `plan` is that of its run's record."""
    snapshot = report.snapshot
    _check_key("epoch", report.epoch)
    _check_key("sequence", report.sequence)
    # the drain follows the planned ones
    if snapshot.index > len(plan["boundaries_ns"]):
        raise ProtocolError(f"the plan has no interval {snapshot.index}")
    if not 0 <= snapshot.end_ns - snapshot.start_ns <= _MAX_COUNTER:
        raise ProtocolError("the interval ends before it begins")
    _check_names(snapshot, plan)
    _check_distinct(
        "operation", ((r.stream, r.operation, r.measured) for r in snapshot.operations)
    )
    _check_distinct("stream", (row.stream for row in snapshot.streams))
    _check_distinct("worker", ((row.model, row.worker) for row in snapshot.workers))
    _check_histograms(snapshot)
    return IntervalRecord(
        agent=report.agent,
        epoch=report.epoch,
        sequence=report.sequence,
        index=snapshot.index,
        phase=snapshot.phase,
        start_ns=snapshot.start_ns,
        end_ns=snapshot.end_ns,
        final=snapshot.final,
        operations=tuple(_operation(row) for row in snapshot.operations),
        streams=tuple(_stream(row) for row in snapshot.streams),
        workers=tuple(_worker(row) for row in snapshot.workers),
        host=_host(snapshot.host) if snapshot.HasField("host") else None,
        clock_step_ns=snapshot.clock_step_ns,
    )


def _operation(row: pb.OperationInterval) -> OperationInterval:
    histograms: dict[tuple[str, str], bytes] = {}
    for histogram in row.histograms:
        metric = METRICS.get(histogram.metric)
        outcome = OUTCOMES.get(histogram.outcome)
        if metric is None or outcome is None:
            raise ProtocolError("a histogram of an unknown metric or outcome")
        if (metric, outcome) in histograms:
            raise ProtocolError(f"two histograms of {metric}, {outcome}")
        histograms[metric, outcome] = histogram.packed
    return OperationInterval(
        stream=row.stream,
        operation=row.operation,
        measured=row.measured,
        **{name: _counter(getattr(row, name)) for name in OPERATION_COUNTERS},
        result_codes={
            code: _counter(count) for code, count in sorted(row.result_codes.items())
        },
        histograms=histograms,
    )


def _stream(row: pb.StreamInterval) -> StreamInterval:
    values: dict[str, Any] = {
        name: _counter(getattr(row, name)) for name in STREAM_COUNTERS
    }
    for name in SET_UP_TIMES:
        packed = getattr(row, name)
        values[name] = packed or None
    if row.HasField("last_done_ns"):
        values["last_done_ns"] = row.last_done_ns
    return StreamInterval(stream=row.stream, **values)


def _worker(row: pb.WorkerInterval) -> WorkerInterval:
    if row.model not in ("open", "closed"):
        raise ProtocolError(f"worker of unknown model {row.model!r}")
    return WorkerInterval(
        worker=_check_key("worker", row.worker),
        model=row.model,
        wall_ns=_counter(row.wall_ns),
        busy_ns=_counter(row.busy_ns),
        spin_ns=_counter(row.spin_ns),
        cpu_ns=_counter(row.cpu_ns),
        run_queue_ns=_counter(row.run_queue_ns),
        loops=_counter(row.loops),
    )


def _host(host: pb.HostInterval) -> HostInterval:
    has = host.HasField
    return HostInterval(
        cpu_utilisation=(
            _share(host.cpu_utilisation) if has("cpu_utilisation") else None
        ),
        steal_share=_share(host.steal_share) if has("steal_share") else None,
        throttled_ns=_counter(host.throttled_ns) if has("throttled_ns") else None,
    )


def _share(value: float) -> float:
    if not 0 <= value <= 1:  # nor is a NaN
        raise ProtocolError(f"share {value} is out of range")
    return value


def _counter(value: int) -> int:
    if value > _MAX_COUNTER:
        raise ProtocolError(f"counter {value} is out of range")
    return value


def _check_key(name: str, value: int) -> int:
    if value > _MAX_KEY:
        raise ProtocolError(f"{name} {value} is out of range")
    return value


def _check_names(snapshot: pb.Snapshot, plan: Mapping[str, Any]) -> None:
    if snapshot.phase not in {DRAIN, *(phase["name"] for phase in plan["phases"])}:
        raise ProtocolError(f"the plan has no phase {snapshot.phase!r}")
    known = {
        stream["name"]: {operation["name"] for operation in stream["operations"]}
        for stream in plan["streams"]
    }
    for row in snapshot.operations:
        if row.operation not in known.get(row.stream, ()):
            name = f"{row.stream}.{row.operation}"
            raise ProtocolError(f"the plan has no operation {name!r}")
    for stream in snapshot.streams:
        if stream.stream not in known:
            raise ProtocolError(f"the plan has no stream {stream.stream!r}")


def _check_distinct(what: str, keys: Iterable[Hashable]) -> None:
    seen = set()
    for key in keys:
        if key in seen:
            raise ProtocolError(f"two rows of {what} {key}")
        seen.add(key)


def _check_histograms(snapshot: pb.Snapshot) -> None:
    """All of a report at once, which is quicker than one by one."""
    packed = [one.packed for row in snapshot.operations for one in row.histograms]
    set_ups = (getattr(row, name) for row in snapshot.streams for name in SET_UP_TIMES)
    packed += [one for one in set_ups if one]
    try:
        block_of(packed)
    except StoreError as error:
        raise ProtocolError(str(error)) from error
