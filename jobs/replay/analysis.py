# SPDX-License-Identifier: Apache-2.0
"""What kind of load a log is: its operations by shape, its rate, its connections.

Everything that a statistical job is made of (statistical_job.py), with the counts that
are its evidence. Pure.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ldapslam.jobs.replay.log import NS_PER_S, START_TLS, Log, Operation
from ldapslam.jobs.replay.requests import WHO_AM_I
from ldapslam.jobs.replay.shapes import Hole, dn_shape, filter_shape
from ldapslam.jobs.requests.filter import ATTRIBUTE

_ATTRIBUTE = re.compile(rf"@?{ATTRIBUTE}|\*|\+|1\.1", re.ASCII)

#: Steps of the rate over time, at most.
_STEPS = 200
#: A rate whose steps vary more than this many times as those of a Poisson process of
#: the same mean is one that changes.
_CHANGES = 2.0


@dataclass
class Group:
    """Requests of one shape."""

    kind: str
    #: With holes: the DN or base, and a search's filter.
    dn: str
    filter: str
    scope: str
    deref: str
    attributes: tuple[str, ...]
    count: int = 0
    #: Whole DNs, as they came.
    dns: list[str] = field(default_factory=list)
    dn_holes: list[Hole] = field(default_factory=list)
    filter_holes: list[Hole] = field(default_factory=list)
    results: Counter[int] = field(default_factory=Counter)
    entries: int = 0


@dataclass
class Rate:
    """Requests per second over the log."""

    mean_per_s: float
    #: Of equal steps; empty where the rate does not change more than chance has it.
    steps_per_s: list[float] = field(default_factory=list)
    step_ns: int = 0
    #: Variance of the steps over that of a Poisson process.
    dispersion: float = 1.0


@dataclass
class Connections:
    """How the log's clients use connections."""

    sessions: int
    #: Of those that began and ended in the log.
    requests_each: float | None
    most_at_once: int
    mean_at_once: float


@dataclass
class Analysis:
    """All of it; `groups` are in the order of their counts."""

    log: Log
    groups: list[Group]
    #: Requests by kind, also those that no group has.
    kinds: Counter[str]
    #: Requests that no group has, by why.
    left_out: Counter[str]
    rate: Rate
    connections: Connections
    #: Attributes that modifies and compares were of.
    attributes: dict[str, Counter[str]]


def analyse(log: Log) -> Analysis:
    """What a log has."""
    groups: dict[tuple[object, ...], Group] = {}
    kinds: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    attributes: dict[str, Counter[str]] = {"modify": Counter(), "compare": Counter()}
    for operation in _by_time(log):
        if operation.kind in ("unbind", "abandon"):
            continue
        kinds[operation.kind] += 1
        reason = _unusable(operation)
        if reason:
            left_out[reason] += 1
            continue
        if operation.kind in attributes:
            attributes[operation.kind].update(operation.attributes)
        _add(groups, operation)
    return Analysis(
        log,
        sorted(groups.values(), key=lambda group: -group.count),
        kinds,
        left_out,
        _rate(log, sum(kinds.values())),
        _connections(log),
        attributes,
    )


def _by_time(log: Log) -> Iterable[Operation]:
    return sorted(log.operations(), key=lambda operation: operation.time_ns)


def _unusable(operation: Operation) -> str:
    if operation.problem:
        return operation.problem
    if operation.is_persistent:
        return "persistent searches"
    if operation.kind == "bind" and operation.method != "simple":
        return f"{operation.method} binds"
    if operation.kind == "bind" and not operation.dn:
        return "anonymous binds"
    if operation.kind == "extended" and operation.oid == START_TLS:
        return "StartTLS, which is the set-up's"
    if operation.kind == "extended" and operation.oid != WHO_AM_I:
        return f"extended operations {operation.oid}"
    if "\ufffd" in operation.dn or "\ufffd" in operation.filter:
        return "lines that are not UTF-8"
    if not (operation.dn.isprintable() and operation.filter.isprintable()):
        return "lines with control characters"
    if operation.kind in ("search", "compare") and not all(
        _ATTRIBUTE.fullmatch(name) for name in operation.attributes
    ):
        return "attributes whose names are none"
    return ""


def _add(groups: dict[tuple[object, ...], Group], operation: Operation) -> None:
    dn, dn_values = dn_shape(operation.dn)
    matched, filter_values = filter_shape(operation.filter)
    kept = operation.attributes if operation.kind != "modify" else ()
    key = (operation.kind, dn, matched, operation.scope, operation.deref, kept)
    group = groups.get(key)
    if group is None:
        group = groups[key] = Group(
            operation.kind, dn, matched, operation.scope, operation.deref, kept
        )
        group.dn_holes = [Hole() for _ in dn_values]
        group.filter_holes = [Hole() for _ in filter_values]
    group.count += 1
    group.entries += operation.entries
    if operation.result is not None:
        group.results[operation.result] += 1
    group.dns.append(operation.dn)
    for hole, value in zip(group.dn_holes, dn_values, strict=True):
        hole.add(value)
    for hole, value in zip(group.filter_holes, filter_values, strict=True):
        hole.add(value)


def _rate(log: Log, total: int) -> Rate:
    duration_ns = log.duration_ns or NS_PER_S
    mean = total * NS_PER_S / duration_ns
    step_ns = max(NS_PER_S, math.ceil(duration_ns / _STEPS / NS_PER_S) * NS_PER_S)
    count = duration_ns // step_ns
    if count < 5 or total < 100:
        return Rate(mean)
    counts = [0] * count
    for operation in log.operations():
        step = (operation.time_ns - log.first_ns) // step_ns
        if step < count and operation.kind not in ("unbind", "abandon"):
            counts[step] += 1
    per_step = statistics.fmean(counts)
    dispersion = statistics.pvariance(counts) / per_step if per_step else 1.0
    if dispersion < _CHANGES:
        return Rate(mean, dispersion=dispersion)
    steps = [number * NS_PER_S / step_ns for number in counts]
    return Rate(mean, steps, step_ns, dispersion)


def _connections(log: Log) -> Connections:
    moves: list[tuple[int, int]] = []
    whole: list[int] = []
    for session in log.sessions:
        end_ns = log.last_ns if session.end_ns is None else session.end_ns
        moves += [(session.start_ns, 1), (end_ns, -1)]
        if session.has_start and session.end_ns is not None:
            whole.append(_requests(session.operations))
    most = at_once = 0
    area = 0
    before_ns = log.first_ns
    for time_ns, change in sorted(moves, key=lambda move: (move[0], -move[1])):
        area += at_once * (time_ns - before_ns)
        before_ns = time_ns
        at_once += change
        most = max(most, at_once)
    return Connections(
        len(log.sessions),
        statistics.fmean(whole) if whole else None,
        most,
        area / max(log.duration_ns, 1),
    )


def _requests(operations: Sequence[Operation]) -> int:
    return sum(one.kind not in ("unbind", "abandon") for one in operations)
