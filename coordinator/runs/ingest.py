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
from ldapslam.jobs.plan import DRAIN
from ldapslam.proto import common_pb2 as pb
from ldapslam.proto.agent_pb2 import IntervalReport
from ldapslam.proto.fields import (
    METRICS,
    OPERATION_COUNTERS,
    OUTCOMES,
    SET_UP_TIMES,
    STREAM_COUNTERS,
    WORKER_COUNTERS,
)
from ldapslam.results.packed import block_of
from ldapslam.results.records import IntervalRecord
from ldapslam.transport.messages import ProtocolError

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
    _check_counters(snapshot)
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
        operations=tuple(snapshot.operations),
        streams=tuple(snapshot.streams),
        workers=tuple(snapshot.workers),
        host=snapshot.host if snapshot.HasField("host") else None,
        clock_step_ns=snapshot.clock_step_ns,
    )


def _check_counters(snapshot: pb.Snapshot) -> None:
    rows = (
        (snapshot.operations, OPERATION_COUNTERS),
        (snapshot.streams, STREAM_COUNTERS),
        (snapshot.workers, WORKER_COUNTERS),
    )
    for messages, names in rows:
        for message in messages:
            for name in names:
                _check_counter(getattr(message, name))
    for operation in snapshot.operations:
        for count in operation.result_codes.values():
            _check_counter(count)
    for worker in snapshot.workers:
        _check_key("worker", worker.worker)
        if worker.model not in ("open", "closed"):
            raise ProtocolError(f"worker of unknown model {worker.model!r}")
    host = snapshot.host
    _check_counter(host.throttled_ns)
    for share in (host.cpu_utilisation, host.steal_share):
        if not 0 <= share <= 1:  # nor is a NaN
            raise ProtocolError(f"share {share} is out of range")


def _check_counter(value: int) -> None:
    if value > _MAX_COUNTER:
        raise ProtocolError(f"counter {value} is out of range")


def _check_key(name: str, value: int) -> None:
    if value > _MAX_KEY:
        raise ProtocolError(f"{name} {value} is out of range")


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
    for row in snapshot.operations:
        keys = [(one.metric, one.outcome) for one in row.histograms]
        _check_distinct("histogram", keys)
        for metric, outcome in keys:
            if not 0 < metric <= len(METRICS) or not 0 < outcome <= len(OUTCOMES):
                raise ProtocolError("a histogram of an unknown metric or outcome")
    packed = [one.packed for row in snapshot.operations for one in row.histograms]
    set_ups = (getattr(row, name) for row in snapshot.streams for name in SET_UP_TIMES)
    packed += [one for one in set_ups if one]
    try:
        block_of(packed)
    except StoreError as error:
        raise ProtocolError(str(error)) from error
