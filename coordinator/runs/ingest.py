# SPDX-License-Identifier: Apache-2.0
"""Checks agents' reports and makes the store's records of them. Pure,
but for a count of what was too much.

An agent's report may be damaged or made up. What would break a report later, or is not
in the run's plan, is refused here (ProtocolError), so that the store can be read again.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from google.protobuf.message import DecodeError
from pydantic import ValidationError

from ldapslam.base.errors import ConfigError, FleetError, StoreError, TargetError
from ldapslam.coordinator.bounds import Bound, note_exceeded, within_bounds
from ldapslam.coordinator.runs import run as machine
from ldapslam.jobs.plan import DRAIN
from ldapslam.jobs.run_plan import PlannedStream, RunPlan
from ldapslam.proto import common_pb2 as pb
from ldapslam.proto import monitor_pb2
from ldapslam.proto.agent_pb2 import IntervalReport
from ldapslam.proto.fields import (
    HISTOGRAMS,
    LAYOUT,
    OTHER_CODES,
    SET_UP_TIMES,
    SLOTS,
    TABLES,
)
from ldapslam.results.facts import (
    Facts,
    Manifest,
    MonitorFacts,
    Observation,
    Observed,
    ObserverCost,
    ReportedFacts,
)
from ldapslam.results.histogram import check_packed
from ldapslam.results.packing import unpack
from ldapslam.results.records import (
    IntervalRecord,
    Metric,
    MonitorDescription,
    MonitorSample,
)
from ldapslam.results.tables import ROW_BYTES, rows_of
from ldapslam.transport.messages import ProtocolError, decode_facts, error_of

#: The store's integers are signed: 64 bits for times, 32 for keys.
_MAX_NS = (1 << 63) - 1
_MAX_KEY = (1 << 31) - 1
#: An operation's histograms of an interval, and a second's readings of monitors, take
#: less.
_ROW_BYTES = 1 << 16
_LEAST_ROOM_BYTES = 1 << 26
_MOST_WORKERS = 4096
#: The engine counts 129 of them.
_MOST_RESULT_CODES = 256
#: The engine keeps 200 bytes of each of four.
_MOST_DIAGNOSTIC_MESSAGES = 16
_LONGEST_DIAGNOSTIC_MESSAGE = 1_000


def _most(table: str, column: str) -> int:
    """Return the highest number of a column: sums over the rows of a window, and over
    all agents, fit 64 bits. The times of connections are added without a limit."""
    if table == "workers":
        return 1 << 53
    if column in ("result_code", *SLOTS):  # OTHER_CODES is negative
        return (1 << 64) - 1
    return 1 << 62 if column.endswith("_ns") else 1 << 40


_MOST = [
    np.array([_most(table, column) for column in columns], np.uint64)
    for table, columns in TABLES.items()
]


def interval_record(
    report: IntervalReport, plan: RunPlan
) -> tuple[IntervalRecord, pb.Snapshot]:
    """The record of one report, and what it says; `plan` is of its run's record."""
    try:
        snapshot = unpack(report.packed)
        size_bytes = snapshot.ByteSize()
        # the store keeps it as it came
        if within_bounds(snapshot).ByteSize() < size_bytes:
            raise ProtocolError("the interval has fields of another version")
        names = within_bounds(pb.Names.FromString(snapshot.names)).streams
        _check_snapshot(snapshot, names, plan)
        _check_rows(snapshot, names)
    except (DecodeError, StoreError, ValueError) as error:
        raise ProtocolError(str(error)) from error
    _check_key("sequence", report.sequence)
    record = IntervalRecord(
        agent=report.agent,
        attempt=report.attempt,
        sequence=report.sequence,
        index=snapshot.index,
        final=snapshot.final,
        end_ns=snapshot.end_ns,
        packed=report.packed,
    )
    return record, snapshot


def room_bytes(plan: RunPlan) -> int:
    """The most bytes that the reports of one agent's part of a run may take."""
    seconds = plan.end_ns // 1_000_000_000
    steps = len(plan.boundaries_ns) + seconds
    return _LEAST_ROOM_BYTES + steps * (_operation_rows(plan) + 1) * _ROW_BYTES


def _operation_rows(plan: RunPlan) -> int:
    # outside the measure phase, and in it
    return 2 * sum(
        len(stream.operations) * (1 + len(_servers(stream))) for stream in plan.streams
    )


def _servers(stream: PlannedStream) -> Sequence[str]:
    """Those that have rows of their own."""
    return stream.uris if len(stream.uris) > 1 else ()


def _check_snapshot(
    snapshot: pb.Snapshot, names: Sequence[pb.StreamNames], plan: RunPlan
) -> None:
    """Before anything looks at each row."""
    if (
        len(snapshot.operations) > _operation_rows(plan) * ROW_BYTES["operations"]
        or len(snapshot.streams) > _operation_rows(plan) * ROW_BYTES["streams"]
        or len(snapshot.workers) > _MOST_WORKERS * ROW_BYTES["workers"]
        or len(names) > len(plan.streams)
    ):
        note_exceeded(Bound.REPORT_ROWS)
        raise ProtocolError("the interval has more than the plan")
    if snapshot.layout != LAYOUT:
        raise ProtocolError("the interval has the columns of another version")
    # the drain is one more
    if snapshot.index > len(plan.boundaries_ns):
        raise ProtocolError(f"the plan has no interval {snapshot.index}")
    if not 0 <= snapshot.end_ns - snapshot.start_ns <= _MAX_NS:
        raise ProtocolError("the interval ends before it begins")
    if snapshot.phase not in {DRAIN, *(phase.name for phase in plan.phases)}:
        raise ProtocolError(f"the plan has no phase {snapshot.phase!r}")
    _check_distinct("stream", (one.stream for one in names))
    for one in names:
        stream = plan.by_stream.get(one.stream)
        if stream is None:
            raise ProtocolError(f"the plan has no stream {one.stream!r}")
        _check_names(one.stream, "operation", one.operations, stream.by_operation)
        _check_names(one.stream, "server", one.servers, _servers(stream))
    host = snapshot.host
    for value_ns in (host.throttled_ns, host.hiccup_max_ns, host.stalled_ns):
        if value_ns > _MAX_NS:
            raise ProtocolError(f"time {value_ns} is out of range")
    for share in (host.cpu_utilisation, host.steal_share):
        if not 0 <= share <= 1:  # nor is a NaN
            raise ProtocolError(f"share {share} is out of range")


def _check_names(
    stream: str, kind: str, names: Sequence[str], planned: Collection[str]
) -> None:
    _check_distinct(kind, names)
    if not set(names).issubset(planned):
        raise ProtocolError(f"stream {stream!r} has names of no {kind} of the plan")


def _check_rows(snapshot: pb.Snapshot, names: Sequence[pb.StreamNames]) -> None:
    """Nothing is out of range, refers to what is not there, or is there twice."""
    tables = [rows_of(getattr(snapshot, name), name) for name in TABLES]
    for rows, most in zip(tables, _MOST, strict=True):
        if (rows.view(np.uint64) > most).any():
            raise ProtocolError("a number of a row is out of range")
    operations, responses, streams, workers = tables
    completed, succeeded, expected, failed, empty = (
        operations[:, TABLES["operations"].index(name)]
        for name in ("completed", "succeeded", "expected", "failed", "empty")
    )
    is_more = (succeeded + expected + failed > completed) | (empty > succeeded)
    if is_more.any():
        raise ProtocolError("a row has more responses of a kind than responses")
    sizes = [(len(one.operations), 1 + len(one.servers)) for one in names]
    _check_operations(snapshot, sizes, operations[:, :5].tolist(), responses.tolist())
    places = streams[:, :2].tolist()
    _check_distinct("stream", map(tuple, places))
    if any(at >= len(sizes) or server >= sizes[at][1] for at, server in places):
        raise ProtocolError("a row of a stream or server without a name")
    kinds = workers[:, :2].tolist()
    _check_distinct("worker", map(tuple, kinds))
    if any(number > _MAX_KEY or is_open > 1 for number, is_open in kinds):
        raise ProtocolError("a worker is out of range")
    check_packed(snapshot.histograms, operations[:, -len(HISTOGRAMS) :])
    check_packed(snapshot.set_ups, streams[:, -len(SET_UP_TIMES) :])


def _check_operations(
    snapshot: pb.Snapshot,
    sizes: Sequence[tuple[int, int]],
    rows: Sequence[list[int]],
    responses: Sequence[list[int]],
) -> None:
    _check_distinct("operation", (tuple(row[:4]) for row in rows))
    start = 0
    for stream, operation, server, measured, count in rows:
        if (
            stream >= len(sizes)
            or operation >= sizes[stream][0]
            or server >= sizes[stream][1]
        ):
            raise ProtocolError("a row of an operation or server without a name")
        if measured > 1:
            raise ProtocolError("a row that is neither measured nor not")
        if count > _MOST_RESULT_CODES:
            note_exceeded(Bound.REPORT_ROWS)
            raise ProtocolError(f"{count} result codes")
        of_row = responses[start : start + count]
        _check_distinct("result code", (code for code, _, _ in of_row))
        if sum(length > 0 for *_, length in of_row) > _MOST_DIAGNOSTIC_MESSAGES:
            raise ProtocolError("an operation has too many diagnostic messages")
        start += count
    lengths = [length for *_, length in responses]
    if start != len(responses) or sum(lengths) != len(snapshot.messages):
        raise ProtocolError("responses or their messages do not add up")
    if max(lengths, default=0) > _LONGEST_DIAGNOSTIC_MESSAGE:
        raise ProtocolError("a diagnostic message is too long")
    if not all(OTHER_CODES <= code <= _MAX_KEY for code, _, _ in responses):
        raise ProtocolError("a result code is out of range")


def _check_key(name: str, value: int) -> None:
    if value > _MAX_KEY:
        raise ProtocolError(f"{name} {value} is out of range")


def _check_distinct(kind: str, keys: Iterable[Hashable]) -> None:
    known = list(keys)
    if len(set(known)) < len(known):
        raise ProtocolError(f"two of one {kind}")


F = TypeVar("F", bound=Facts)


def reported_facts(text: str) -> ReportedFacts:
    """The facts of a report; ProtocolError when a report could not be made of them."""
    return _facts(text, ReportedFacts)


def _facts(text: str, kind: type[F]) -> F:
    try:
        return kind.parsed(decode_facts(text))
    except ValidationError as error:
        # a peer may cause any number of errors: do not list them
        where = error.errors(include_url=False, include_input=False)[0]["loc"]
        raise ProtocolError(f"fact {where[:3]} is not of its type") from None


#: Monitors read before T0, while the agents prepare.
_BEFORE_T0_NS = 3_600_000_000_000
#: Not allowed, or not available.
_REFUSALS = (ConfigError, FleetError, TargetError)


@dataclass(frozen=True, slots=True)
class MonitorNews:
    """One report of a monitor."""

    event: machine.MonitorPrepared | machine.MonitorProgressed | machine.MonitorEnded
    monitors: Sequence[MonitorDescription] = ()
    samples: Sequence[MonitorSample] = ()
    facts: Observed = field(default_factory=Observed)


def monitor_news(report: monitor_pb2.MonitorReport, until_ns: int) -> MonitorNews:
    """The news of a report; ProtocolError when it cannot be stored. `until_ns`: when
    the run ended, or now, since T0."""
    agent, event = report.agent, report.event
    match event.WhichOneof("kind"):
        case "ready":
            ready = event.ready
            return MonitorNews(
                machine.MonitorPrepared(agent),
                monitors=[_description(one) for one in ready.monitors],
                facts=_facts(ready.facts_json, Observed),
            )
        case "samples":
            progress = machine.MonitorProgressed(agent)
            return MonitorNews(progress, samples=_samples(event.samples, until_ns))
        case "finished":
            facts = _facts(event.finished.facts_json, Observed)
            return MonitorNews(machine.MonitorEnded(agent), facts=facts)
        case "failed":
            error = error_of(event.failed)
            refusal = error if isinstance(error, _REFUSALS) else None
            reason = str(error) or "it failed"
            return MonitorNews(machine.MonitorEnded(agent, reason, refusal))
        case _:
            raise ProtocolError("a monitor report without content")


def with_report(known: Observed, news: Observed) -> Manifest:
    """Return the facts of a manifest that a report of a monitor changes."""
    changes = Manifest()
    if news.observations:
        observations = dict(known.observations)
        for uri, read in news.observations.items():
            observations[uri] = observations.get(uri, Observation()).updated(read)
        changes = changes.updated(Observed(observations=observations))
    if news.replication is not None:
        changes = changes.updated(Observed(replication=news.replication))
    if news.observer_cost is not None:
        cpu_s = news.observer_cost.cpu_s
        if known.observer_cost is not None:
            cpu_s += known.observer_cost.cpu_s
        cost = ObserverCost(cpu_s=cpu_s)
        changes = changes.updated(Observed(observer_cost=cost))
    return changes


def _description(message: monitor_pb2.MonitorDescription) -> MonitorDescription:
    metrics = [
        Metric(
            _name(one.name),
            one.unit,
            "counter" if one.is_counter else "gauge",
        )
        for one in message.metrics
    ]
    if len({one.name for one in metrics}) < len(metrics):
        raise ProtocolError("a monitor with two metrics of one name")
    return MonitorDescription(
        _name(message.name),
        metrics,
        _facts(message.facts_json, MonitorFacts),
    )


def _name(text: str) -> str:
    if not text:
        raise ProtocolError("a monitor or metric without a name")
    return text


def _samples(message: monitor_pb2.MonitorSamples, until_ns: int) -> list[MonitorSample]:
    samples = []
    for one in message.samples:
        if one.took_ns < 0:
            raise ProtocolError("a sample that took less than no time")
        if not -_BEFORE_T0_NS <= one.at_ns <= until_ns:
            continue  # of no time of the run
        failure = one.failure or None
        # what is beyond all numbers is as good as missing
        values = tuple(v if math.isfinite(v) else math.nan for v in one.values)
        samples.append(
            MonitorSample(_name(one.monitor), one.at_ns, one.took_ns, values, failure)
        )
    return samples
