# SPDX-License-Identifier: Apache-2.0
"""Checks agents' reports and makes the store's records of them. Pure,
but for a count of what was too much.

An agent's report may be damaged or made up. What would break a report later, or is not
in the run's plan, is refused here (ProtocolError), so that the store can be read again.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TypeVar

from google.protobuf.unknown_fields import UnknownFieldSet
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
    METRICS,
    OPERATION_COUNTERS,
    OUTCOMES,
    SET_UP_TIMES,
    STREAM_COUNTERS,
    WORKER_COUNTERS,
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
from ldapslam.results.histogram import block_of
from ldapslam.results.packing import unpack
from ldapslam.results.records import (
    IntervalRecord,
    Metric,
    MonitorDescription,
    MonitorSample,
)
from ldapslam.transport.messages import ProtocolError, decode_facts, error_of

#: The store's integers are signed: 64 bits for counters, 32 for keys.
_MAX_COUNTER = (1 << 63) - 1
_MAX_KEY = (1 << 31) - 1
#: An operation's histograms of an interval, and a second's readings of monitors, take
#: less.
_ROW_BYTES = 1 << 16
_LEAST_ROOM_BYTES = 1 << 26
_HISTOGRAMS = frozenset(
    itertools.product(range(1, len(METRICS) + 1), range(1, len(OUTCOMES) + 1))
)
#: All of a message's counters at once, which is quicker.
_OPERATION_COUNTS = attrgetter(*OPERATION_COUNTERS)
_STREAM_COUNTS = attrgetter(*STREAM_COUNTERS)
_WORKER_COUNTS = attrgetter(*WORKER_COUNTERS)


def interval_record(
    report: IntervalReport, plan: RunPlan
) -> tuple[IntervalRecord, pb.Snapshot]:
    """The record of one report, and what it says; `plan` is of its run's record."""
    try:
        snapshot = unpack(report.packed)
    except StoreError as error:
        raise ProtocolError(str(error)) from error
    _check_amounts(snapshot, plan)
    within_bounds(snapshot)
    _check_key("sequence", report.sequence)
    # the drain is one more
    if snapshot.index > len(plan.boundaries_ns):
        raise ProtocolError(f"the plan has no interval {snapshot.index}")
    if not 0 <= snapshot.end_ns - snapshot.start_ns <= _MAX_COUNTER:
        raise ProtocolError("the interval ends before it begins")
    _check_names(snapshot, plan)
    _check_distinct(
        "operation",
        ((r.stream, r.operation, r.server, r.measured) for r in snapshot.operations),
    )
    _check_distinct("stream", (row.stream for row in snapshot.streams))
    _check_distinct("worker", ((row.model, row.worker) for row in snapshot.workers))
    _check_counters(snapshot)
    _check_histograms(snapshot)
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


def _check_amounts(snapshot: pb.Snapshot, plan: RunPlan) -> None:
    """Before anything looks at each of them."""
    if (
        len(snapshot.operations) > _operation_rows(plan)
        or len(snapshot.streams) > len(plan.streams)
        or len(UnknownFieldSet(snapshot))
    ):
        note_exceeded(Bound.REPORT_ROWS)
        raise ProtocolError("the interval has more than the plan")


def _servers(stream: PlannedStream) -> Sequence[str]:
    """Those that have rows of their own."""
    return stream.uris if len(stream.uris) > 1 else ()


def _check_counters(snapshot: pb.Snapshot) -> None:
    rows = (
        (snapshot.operations, _OPERATION_COUNTS),
        (snapshot.streams, _STREAM_COUNTS),
        (snapshot.workers, _WORKER_COUNTS),
    )
    for messages, counts_of in rows:
        for message in messages:
            _check_counter(max(counts_of(message)))
    for operation in snapshot.operations:
        for count in operation.result_codes.values():
            _check_counter(count)
    for worker in snapshot.workers:
        _check_key("worker", worker.worker)
        if worker.model not in ("open", "closed"):
            raise ProtocolError(f"worker of unknown model {worker.model!r}")
    host = snapshot.host
    for value_ns in (host.throttled_ns, host.hiccup_max_ns, host.stalled_ns):
        _check_counter(value_ns)
    for share in (host.cpu_utilisation, host.steal_share):
        if not 0 <= share <= 1:  # nor is a NaN
            raise ProtocolError(f"share {share} is out of range")


def _check_counter(value: int) -> None:
    if value > _MAX_COUNTER:
        raise ProtocolError(f"counter {value} is out of range")


def _check_key(name: str, value: int) -> None:
    if value > _MAX_KEY:
        raise ProtocolError(f"{name} {value} is out of range")


def _check_names(snapshot: pb.Snapshot, plan: RunPlan) -> None:
    if snapshot.phase not in {DRAIN, *(phase.name for phase in plan.phases)}:
        raise ProtocolError(f"the plan has no phase {snapshot.phase!r}")
    known = {stream.name: set(stream.by_operation) for stream in plan.streams}
    servers = {stream.name: {"", *_servers(stream)} for stream in plan.streams}
    for row in snapshot.operations:
        if row.operation not in known.get(row.stream, ()):
            name = f"{row.stream}.{row.operation}"
            raise ProtocolError(f"the plan has no operation {name!r}")
        if row.server not in servers[row.stream]:
            raise ProtocolError(f"stream {row.stream} has no server {row.server!r}")
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
    """All histograms at once, which is quicker."""
    packed = []
    for row in snapshot.operations:
        histograms = list(row.histograms)
        keys = [(one.metric, one.outcome) for one in histograms]
        _check_distinct("histogram", keys)
        if not _HISTOGRAMS.issuperset(keys):
            raise ProtocolError("a histogram of an unknown metric or outcome")
        packed += [one.packed for one in histograms]
    set_ups = (getattr(row, name) for row in snapshot.streams for name in SET_UP_TIMES)
    packed += [one for one in set_ups if one]
    try:
        block_of(packed)
    except StoreError as error:
        raise ProtocolError(str(error)) from error


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
