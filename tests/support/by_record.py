# SPDX-License-Identifier: Apache-2.0
"""What a report adds up, record by record and as plainly as it can be said.

Slow, and the oracle for reports/collect/collect.py, which does it by columns: all that
it collects must be equal to this, not nearly so.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Any

from ldapslam.jobs.fields.validity import Validity
from ldapslam.proto.fields import (
    CONNECTION_COUNTERS,
    EARLIEST_TIMES,
    LATEST_TIMES,
    OPERATION_COUNTERS,
    SET_UP_TIMES,
    SLOTS,
    STREAM_TIMES,
)
from ldapslam.results.histogram import Histogram
from support.histograms import packed_sums
from support.intervals import Interval
from support.rows import OperationRow

Key = tuple[str, str]
Figures = dict[str, float | None]


@dataclass
class ByRecord:
    """Sums of everything, under the keys of what they are of."""

    whole: defaultdict[Key, Counter[str]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    measured: defaultdict[Key, Counter[str]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    codes: defaultdict[Key, Counter[int]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    #: LDAP result code -> diagnostic messages, in their order.
    messages: defaultdict[Key, dict[int, dict[str, None]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    in_measure: Counter[tuple[Key, str]] = field(default_factory=Counter)
    of_agents: Counter[tuple[str, str]] = field(default_factory=Counter)
    histograms: defaultdict[tuple[Any, ...], Histogram] = field(
        default_factory=lambda: defaultdict(Histogram)
    )
    overflow: Counter[Key] = field(default_factory=Counter)
    connections: Counter[tuple[str, str]] = field(default_factory=Counter)
    last_done_ns: dict[str, int] = field(default_factory=dict)
    #: Stream -> server and interval of the measure phase -> STREAM_TIMES.
    responses: defaultdict[str, dict[tuple[str, int], tuple[int, ...]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    workers: Counter[tuple[str, str, int, str]] = field(default_factory=Counter)
    highest: dict[tuple[str, str, int, str], float] = field(default_factory=dict)
    disturbed: Counter[tuple[str, str]] = field(default_factory=Counter)
    seen: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))


def _any_of(bits: Sequence[int], default: int) -> int:
    return reduce(or_, bits, default)


def by_record(
    records: Iterable[Interval],
    wanted: Mapping[Key, str],
    validity: Validity,
    *,
    fragment_ns: float,
) -> ByRecord:
    """`wanted`: operation -> the outcome whose response times are shown."""
    sums = ByRecord()
    for record in records:
        if not record.final:
            sums.seen[record.agent].add(record.index)
        for operation in record.operations:
            _add_operation(sums, record, operation, wanted)
        for stream in record.streams:
            for name in CONNECTION_COUNTERS:
                sums.connections[stream.stream, name] += getattr(stream, name)
            for name in SET_UP_TIMES:
                if packed := getattr(stream, name):
                    sums.histograms["set-up", stream.stream, name].add(
                        Histogram.merge([packed])
                    )
            if record.phase == "measure":
                own = tuple(getattr(stream, name) for name in STREAM_TIMES)
                of_stream = sums.responses[stream.stream]
                at = stream.server, record.index
                both = zip(own, of_stream.get(at, own), strict=True)
                choices: list[Callable[..., int]] = [
                    *[max] * len(LATEST_TIMES),
                    *[min] * len(EARLIEST_TIMES),
                    *[_any_of] * len(SLOTS),
                ]
                of_stream[at] = tuple(
                    which(list(filter(None, times)), default=0)
                    for which, times in zip(choices, both, strict=True)
                )
            if stream.last_done_ns:
                known_ns = sums.last_done_ns.get(stream.stream, 0)
                sums.last_done_ns[stream.stream] = max(known_ns, stream.last_done_ns)
        if record.phase == "measure":
            _add_disturbances(sums, record, validity, fragment_ns)
        for worker in record.workers if record.phase == "measure" else ():
            key = record.agent, worker.model, worker.worker
            shares = {
                "busy": worker.busy_ns / worker.wall_ns if worker.wall_ns else 0.0,
                "queue": worker.run_queue_ns / worker.wall_ns if worker.wall_ns else 0,
            }
            sums.workers[*key, "wall"] += worker.wall_ns
            sums.workers[*key, "cpu"] += worker.cpu_ns
            for name, share in shares.items():
                if worker.wall_ns >= fragment_ns:
                    known = sums.highest.get((*key, name), 0.0)
                    sums.highest[*key, name] = max(known, share)
    return sums


def _add_disturbances(
    sums: ByRecord, record: Interval, validity: Validity, fragment_ns: float
) -> None:
    lags_ns = [
        packed_sums(packed).max_ns
        for operation in record.operations
        if operation.measured
        for (metric, _), packed in operation.histograms.items()
        if metric in ("send_lag", "receive_lag")
    ]
    busy = [
        (one.busy_ns / one.wall_ns, one.run_queue_ns / one.wall_ns)
        for one in record.workers
        if one.wall_ns >= fragment_ns
    ]
    length_ns = record.end_ns - record.start_ns
    host = record.host
    is_so = {
        "stood still": max(lags_ns, default=0) > validity.stall_ns
        or (host is not None and host.hiccup_max_ns > validity.stall_ns),
        "a worker was busy throughout": any(a > validity.busy_share for a, _ in busy),
        "waited for a CPU": any(b > validity.run_queue_share for _, b in busy),
        "CPU time was stolen": host is not None
        and host.HasField("steal_share")
        and host.steal_share > validity.run_queue_share,
        "was throttled": host is not None
        and host.throttled_ns / length_ns > validity.run_queue_share,
    }
    sums.disturbed[record.agent, "wall"] += length_ns
    for name, yes in {**is_so, "disturbed": any(is_so.values())}.items():
        sums.disturbed[record.agent, name] += length_ns * yes
    if any(is_so.values()):
        for one in record.operations:
            for name in ("completed", "dropped", "timed_out", "unresolved"):
                if one.measured:
                    of = f"{one.stream}.{one.operation}"
                    sums.disturbed[of, name] += getattr(one, name)


def _add_operation(
    sums: ByRecord,
    record: Interval,
    operation: OperationRow,
    wanted: Mapping[Key, str],
) -> None:
    key = operation.stream, operation.operation
    for name in OPERATION_COUNTERS:
        number = getattr(operation, name)
        sums.whole[key][name] += number
        if operation.measured:
            sums.measured[key][name] += number
            sums.of_agents[record.agent, name] += number
    if record.phase == "measure":
        sums.in_measure[key, "completed"] += operation.completed
        sums.in_measure[key, "succeeded"] += operation.succeeded
        sums.of_agents[record.agent, "completed in measure"] += operation.completed
    for one, packed in operation.histograms.items():
        if not operation.measured:
            sums.overflow[key] += packed_sums(packed).overflow
            continue
        sums.histograms[key, one].add(Histogram.merge([packed]))
        if one == ("response_time", wanted.get(key, "succeeded")):
            sums.histograms["agent", record.agent, key].add(Histogram.merge([packed]))
    if operation.measured:
        sums.codes[key].update(operation.result_codes)
        for code, text in operation.diagnostic_messages.items():
            sums.messages[key].setdefault(code, {})[text] = None


def point_of(
    records: Sequence[Interval], key: Key, outcome: str
) -> tuple[Figures, list[Figures]]:
    """An operation's figures of a point of complete intervals, and of each interval."""
    numbers = sorted({record.index for record in records})
    groups = [
        [record for record in records if record.index == number] for number in numbers
    ]
    lengths_ns = [length_ns_of(group) for group in groups]
    singles = [
        _figures(group, key, outcome, length_ns / 1e9)
        for group, length_ns in zip(groups, lengths_ns, strict=True)
    ]
    return _figures(records, key, outcome, sum(lengths_ns) / 1e9), singles


def length_ns_of(records: Sequence[Interval]) -> int:
    """Of one interval: the mean of the agents that go on after it."""
    if whole := [one for one in records if not one.final]:
        return sum(one.end_ns - one.start_ns for one in whole) // len(whole)
    return max(one.end_ns for one in records) - min(one.start_ns for one in records)


def _figures(
    records: Iterable[Interval], key: Key, outcome: str, length_s: float
) -> Figures:
    times, service, lag = Histogram(), Histogram(), Histogram()
    scheduled, completed, errors = 0, 0, 0
    for record in records:
        for operation in record.operations:
            if (operation.stream, operation.operation) != key:
                continue
            lost = operation.timed_out + operation.unresolved
            scheduled += operation.scheduled
            completed += operation.completed
            errors += operation.failed + lost + operation.dropped
            times.unanswered += lost
            service.unanswered += lost
            for (metric, of), packed in operation.histograms.items():
                if metric == "send_lag":
                    lag.add(Histogram.merge([packed]))
                elif (metric, of) == ("response_time", outcome):
                    times.add(Histogram.merge([packed]))
                elif (metric, of) == ("service_time", outcome):
                    service.add(Histogram.merge([packed]))
    percentiles = {
        f"p{p}_us": None if (value := times.reliable_percentile(p)) is None else value
        for p in (50, 90, 99)
    }
    highest = times.percentile(100)
    p99s = {"service_p99_us": service, "send_lag_p99_us": lag}
    for name, histogram in p99s.items():
        value = histogram.reliable_percentile(99)
        percentiles[name] = None if value is None else value
    return {
        "offered_per_s": scheduled / length_s,
        "throughput_per_s": completed / length_s,
        "errors_per_s": errors / length_s,
        **{name: value and value / 1000 for name, value in percentiles.items()},
        "max_us": None if highest is None else highest / 1000,
        "sample": times.sample,
        "unanswered": times.unanswered,
    }
