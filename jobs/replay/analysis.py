# SPDX-License-Identifier: Apache-2.0
"""What kind of load a log is: its operations by shape, its rate, its connections.

Everything that a statistical job is made of (statistical_job.py), with the counts that
are its evidence. Pure.

A filter's shape is the filter with a placeholder for each assertion value, a DN's the
same with its RDN values; values that say what kind of entry is meant
(objectClass=person) belong to the shape. The values of a placeholder are then a
constant, a range of numbers within a text, or a list, which becomes a feed.
"""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ldapslam.jobs.operations.extended import WHO_AM_I
from ldapslam.jobs.replay.log import NS_PER_S, START_TLS, Log, Operation
from ldapslam.jobs.requests.filter import ATTRIBUTE

#: Stands for a value in a shape; no log line has it.
HOLE = "\0"

#: Values of these are part of the shape.
_KINDS = frozenset(("objectclass", "objectcategory", "entrydn"))
_ITEM = re.compile(r"\(([^()=~<>:!&|]+)(~=|>=|<=|:[^()=]*:=|=)([^()]*)\)")
_RDN_VALUE = re.compile(r"(?<==)((?:[^\\,+]|\\.)*)")
_NUMBERED = re.compile(r"(\D*?)(\d{1,15})(\D*)", re.DOTALL)
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2})")

#: Fewer distinct values than this are a feed rather than a range.
_LEAST_OF_A_RANGE = 8
#: A range of which less was seen than this is not one of keys.
_LEAST_DENSITY = 1e-5
#: The busiest hundredth of the keys gets more than this: how often each came matters.
_SKEWED = 0.2
_SEQUENTIAL = 0.8


@dataclass(frozen=True)
class Finding:
    """What stands in a hole: a pattern or a constant; or a feed, if it has lines."""

    pattern: str
    evidence: str = ""
    feed: tuple[str, ...] = ()


def filter_shape(text: str) -> tuple[str, list[str]]:
    """The filter with holes, and the values, as the log has them."""
    values: list[str] = []

    def hole(match: re.Match[str]) -> str:
        attribute, comparison, value = match.groups()
        if comparison == "=" and (value == "*" or attribute.lower() in _KINDS):
            return match[0]
        pieces = value.split("*") if comparison == "=" else [value]
        values.extend(piece for piece in pieces if piece)
        held = "*".join(HOLE if piece else "" for piece in pieces)
        return f"({attribute}{comparison}{held})"

    return _ITEM.sub(hole, text), values


def dn_shape(text: str) -> tuple[str, list[str]]:
    """The DN with holes, and the values of its RDNs."""
    values: list[str] = []

    def hole(match: re.Match[str]) -> str:
        values.append(match[0])
        return HOLE

    return _RDN_VALUE.sub(hole, text), values


def find(values: Sequence[str]) -> Finding:
    """What the values of a placeholder, in the order in which they came, are like."""
    counts = Counter(values)
    if len(counts) == 1:
        return Finding(literal(values[0]))
    seen = f"{len(counts):,} distinct in {len(values):,}"
    if numbered := _range(values, counts):
        return numbered
    return Finding("", seen, tuple(values))


def _range(values: Sequence[str], counts: Counter[str]) -> Finding | None:
    """Values that are one text but for a number in it."""
    if len(counts) < _LEAST_OF_A_RANGE:
        return None
    parts = {value: _NUMBERED.fullmatch(value) for value in counts}
    matches = [match for match in parts.values() if match is not None]
    if len(matches) < len(counts):
        return None
    around = {(match[1], match[3]) for match in matches}
    if len(around) > 1:
        return None
    digits = [match[2] for match in matches]
    padded = any(text.startswith("0") and len(text) > 1 for text in digits)
    if padded and len({len(text) for text in digits}) > 1:
        return None
    numbers = [int(text) for text in digits]
    lo, hi = min(numbers), max(numbers)
    if len(counts) / (hi - lo + 1) < _LEAST_DENSITY:
        return None
    busiest = counts.most_common(max(1, len(counts) // 100))
    share = sum(count for _, count in busiest) / len(values)
    if len(counts) >= 100 and share > _SKEWED:
        return None
    in_turn = _in_turn([int(match[2]) for v in values if (match := parts[v])])
    width = f"%{'0' * len(digits[0])}" if padded else ""
    before, after = around.pop()
    pattern = f"[{lo}{':' if in_turn else '-'}{hi}{width}]"
    how = "in turn" if in_turn else "at random"
    return Finding(
        f"{literal(before)}{pattern}{literal(after)}",
        f"{len(counts):,} distinct in {len(values):,}, {lo} to {hi} {how}",
    )


def _in_turn(numbers: Sequence[int]) -> bool:
    steps = sum(b == a + 1 for a, b in itertools.pairwise(numbers))
    return len(numbers) > 1 and steps / (len(numbers) - 1) > _SEQUENTIAL


def literal(text: str) -> str:
    """Text that stands for itself in a pattern."""
    return text.replace("[", "[[").replace("]", "]]")


def fill(shape: str, patterns: Sequence[str]) -> str:
    """A shape with its holes filled."""
    pieces = [literal(piece) for piece in shape.split(HOLE)]
    filled = pieces[0]
    for pattern, piece in zip(patterns, pieces[1:], strict=True):
        filled += pattern + piece
    return filled


def feed_of_filter(values: Sequence[str]) -> bytes | None:
    """A feed's lines: assertion values with their escapes undone; None where a value
    cannot stand on a line."""
    lines = [
        _ESCAPE.sub(lambda match: bytes.fromhex(match[1].decode()), value.encode())
        for value in values
    ]
    if any(b"\n" in line or b"\r" in line or not line for line in lines):
        return None
    return b"\n".join(lines) + b"\n"


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
    dn_values: list[list[str]] = field(default_factory=list)
    filter_values: list[list[str]] = field(default_factory=list)
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
        group.dn_values = [[] for _ in dn_values]
        group.filter_values = [[] for _ in filter_values]
    group.count += 1
    group.entries += operation.entries
    if operation.result is not None:
        group.results[operation.result] += 1
    group.dns.append(operation.dn)
    for values, value in zip(
        (*group.dn_values, *group.filter_values),
        (*dn_values, *filter_values),
        strict=True,
    ):
        values.append(value)


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
