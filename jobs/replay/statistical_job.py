# SPDX-License-Identifier: Apache-2.0
"""A job file that makes the kind of load that a log is, with its evidence in comments.

What the log does not have (passwords, values of writes) is not invented: an operation
that lacks it is left out, and a comment says how many there were.

A filter's shape is the filter with a placeholder for each assertion value, a DN's the
same with its RDN values; values that say what kind of entry is meant
(objectClass=person) belong to the shape. The values of a placeholder are then a
constant, a range of numbers within a text, or a list, which becomes a feed. Pure.
"""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ldapslam.base.fault import Fault
from ldapslam.base.yaml_text import comment_lines, tree_lines
from ldapslam.jobs.fields.texts import SELECTOR
from ldapslam.jobs.operations.connection import WHO_AM_I
from ldapslam.jobs.replay.log import NS_PER_S, START_TLS, Log, Operation
from ldapslam.jobs.replay.options import KINDS
from ldapslam.jobs.requests.dn import parse_dn
from ldapslam.jobs.requests.filter import compile_filter

#: Stands for a value in a shape; no log line has it.
PLACEHOLDER = "\0"

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
    """The pattern or constant of a placeholder; a feed if it has lines."""

    pattern: str
    evidence: str = ""
    feed: tuple[str, ...] = ()


def filter_shape(text: str) -> tuple[str, list[str]]:
    """The filter with placeholders, and the values, as the log has them."""
    values: list[str] = []

    def placeholder(match: re.Match[str]) -> str:
        attribute, comparison, value = match.groups()
        if comparison == "=" and (value == "*" or attribute.lower() in _KINDS):
            return match[0]
        pieces = value.split("*") if comparison == "=" else [value]
        values.extend(piece for piece in pieces if piece)
        held = "*".join(PLACEHOLDER if piece else "" for piece in pieces)
        return f"({attribute}{comparison}{held})"

    return _ITEM.sub(placeholder, text), values


def dn_shape(text: str) -> tuple[str, list[str]]:
    """The DN with placeholders, and the values of its RDNs."""
    return _RDN_VALUE.sub(PLACEHOLDER, text), _RDN_VALUE.findall(text)


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
    """A shape with its placeholders filled."""
    remaining = iter(patterns)
    return re.sub(PLACEHOLDER, lambda _: next(remaining), literal(shape))


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


_SELECTOR = re.compile(SELECTOR, re.ASCII)

#: Steps of the rate over time, at most.
_STEPS = 200
#: A rate whose steps vary more than this many times as those of a Poisson process of
#: the same mean is one that changes.
_CHANGES = 2.0


@dataclass
class Group:
    """Requests of one shape."""

    kind: str
    #: With placeholders: the DN or base, and a search's filter.
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
    for operation in sorted(log.operations(), key=lambda one: one.time_ns):
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
        _SELECTOR.fullmatch(name) for name in operation.attributes
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
    # variance of the steps over that of a Poisson process
    dispersion = statistics.pvariance(counts) / per_step if per_step else 1.0
    if dispersion < _CHANGES:
        return Rate(mean)
    return Rate(mean, [number * NS_PER_S / step_ns for number in counts], step_ns)


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


#: Shapes beyond these are left out, and counted.
_MOST_SHAPES = 40
_MAX_WEIGHT = 1_000_000
_MEASURE_AT_LEAST_S = 10
_LONGEST_S = 365 * 86_400
_MOST_INTERVALS = 86_400


@dataclass(frozen=True)
class Wishes:
    """What the caller adds to the log."""

    name: str
    uris: tuple[str, ...]
    #: Password of the test population; None: binds are left out.
    credentials: str | None = None
    #: Attribute that modifies replace.
    attribute: str = "description"


@dataclass
class StatisticalJob:
    """The job file and the files that it names."""

    text: str
    files: dict[str, bytes] = field(default_factory=dict)


@dataclass
class _Operation:
    comments: list[str]
    tree: dict[str, Any]
    count: int


def statistical_job(analysis: Analysis, wishes: Wishes) -> StatisticalJob:
    """The job; its files are named after it."""
    return _Writer(analysis, wishes).write()


class _Writer:
    def __init__(self, analysis: Analysis, wishes: Wishes) -> None:
        self._analysis = analysis
        self._wishes = wishes
        self._files: dict[str, bytes] = {}
        self._left_out: Counter[str] = Counter(analysis.left_out)
        self._total = max(1, sum(analysis.kinds.values()))

    def write(self) -> StatisticalJob:
        operations: list[_Operation] = []
        binds: list[_Operation] = []
        for group in self._analysis.groups:
            if len(operations) + len(binds) >= _MOST_SHAPES:
                self._left_out["rarer shapes"] += group.count
                continue
            made = self._operation(group)
            if made is not None:
                (binds if group.kind == "bind" else operations).append(made)
        if not operations and not binds:
            raise Fault(
                "nothing of the log can be turned into a load",
                "; ".join(f"{why} ({n})" for why, n in self._left_out.items()),
            )
        lines = [*self._head(), *self._sections(), "streams:"]
        for name, listed in (("load", operations), ("binds", binds)):
            if listed:
                lines += self._stream(name, listed)
        return StatisticalJob("\n".join(lines) + "\n", self._files)

    # -- comments and sections

    def _head(self) -> Iterator[str]:
        analysis, log = self._analysis, self._analysis.log
        seconds = log.duration_ns / NS_PER_S
        yield from comment_lines(
            f"Made from a log of {log.lines:,} lines: {self._total:,} requests in "
            f"{seconds:,.1f} s, on {analysis.connections.sessions:,} connections."
        )
        shares = ", ".join(
            f"{kind} {count:,} ({self._share(count)})"
            for kind, count in analysis.kinds.most_common()
        )
        yield from comment_lines(f"Requests: {shares}.")
        for reason, count in log.unusable.most_common():
            yield from comment_lines(f"Not used: {count:,} {reason}.")
        for reason, count in self._left_out.most_common():
            yield from comment_lines(
                f"Left out: {count:,} requests ({self._share(count)}): {reason}."
            )
        if log.is_coarse:
            yield from comment_lines(
                "The log's times are whole seconds: arrivals within one are not known."
            )

    def _sections(self) -> Iterator[str]:
        seconds = round(self._analysis.log.duration_ns / NS_PER_S)
        seconds = max(_MEASURE_AT_LEAST_S, seconds)
        uris = list(self._wishes.uris)
        yield from tree_lines({"name": self._wishes.name})
        yield from tree_lines({"targets": {"directory": uris}})
        yield from comment_lines(
            "Connections are anonymous: the log has no passwords. For an identity:"
        )
        yield '# bind: {dn: "cn=loader,dc=example,dc=com", password: {env: PASSWORD}}'
        yield from tree_lines({"run": run_section(seconds)})

    def _stream(self, name: str, operations: Sequence[_Operation]) -> Iterator[str]:
        rate, connections = self._analysis.rate, self._analysis.connections
        count = sum(operation.count for operation in operations)
        share = count / self._total
        load: dict[str, Any] = {"rate": _rate_text(rate.mean_per_s * share)}
        yield f"  - name: {name}"
        yield "    target: directory"
        yield from comment_lines(
            f"{count:,} of {self._total:,} requests; {rate.mean_per_s:,.2f}/s in all; "
            f"up to {connections.most_at_once} connections at once, "
            f"{connections.mean_at_once:,.1f} on average",
            4,
        )
        if rate.steps_per_s:
            file = f"{self._wishes.name}-rates.csv"
            self._files[file] = self._rates()
            load["stages"] = {"file": file}
            yield from comment_lines(
                f"the rate changes ({min(rate.steps_per_s):,.1f} to "
                f"{max(rate.steps_per_s):,.1f}/s): the file has multiples of `rate`",
                4,
            )
        load["arrivals"] = "poisson"
        most = connections.most_at_once
        load["connections"] = max(1, math.ceil(most * share))
        yield from tree_lines({"load": load}, 4)
        each = connections.requests_each
        if each is not None and each < count:
            yield from comment_lines(
                f"connections that began and ended in the log had {each:,.1f} requests "
                "each",
                4,
            )
            every = max(1, round(each * share))
            yield from tree_lines({"connection": {"reconnect_every": every}}, 4)
        yield "    operations:"
        largest = max(operation.count for operation in operations)
        scale = max(1.0, largest / _MAX_WEIGHT)
        for operation in operations:
            for comment in operation.comments:
                yield from comment_lines(comment, 6)
            tree = {**operation.tree, "weight": max(1, round(operation.count / scale))}
            first, *rest = list(tree_lines(tree, 8))
            yield f"      - {first.lstrip()}"
            yield from rest

    def _rates(self) -> bytes:
        rate = self._analysis.rate
        lines = ["time,rate"]
        for number, per_s in enumerate(rate.steps_per_s):
            multiple = per_s / rate.mean_per_s if rate.mean_per_s else 0
            lines.append(f"{number * rate.step_ns // NS_PER_S},{multiple:.6f}x")
        return ("\n".join(lines) + "\n").encode()

    def _share(self, count: int) -> str:
        return f"{count / self._total:.1%}"

    # -- operations

    def _operation(self, group: Group) -> _Operation | None:
        comments = [f"{group.count:,} requests ({self._share(group.count)})"]
        number = len(self._files)
        try:
            body = self._body(group, comments)
        except Fault as fault:
            self._left_out[f"{group.kind}: {fault.reason}"] += group.count
            for name in list(self._files)[number:]:
                del self._files[name]
            return None
        tree: dict[str, Any] = {group.kind: body, "name": self._name(group)}
        failures = {
            code: n
            for code, n in group.results.items()
            if code in _EXPECTED and code not in KINDS[group.kind][1]
        }
        if failures:
            tree["expect"] = [*KINDS[group.kind][1], *sorted(failures)]
            counts = ", ".join(f"{code}: {n:,}" for code, n in failures.items())
            comments.append(f"result codes other than success: {counts}")
        return _Operation(comments, tree, group.count)

    def _name(self, group: Group) -> str:
        """Shapes of a kind are numbered from the commonest on."""
        same = [one for one in self._analysis.groups if one.kind == group.kind]
        return f"{group.kind}-{same.index(group) + 1}" if len(same) > 1 else group.kind

    def _body(self, group: Group, comments: list[str]) -> dict[str, Any]:
        if group.kind in ("add", "delete", "modify_dn"):
            raise Fault("the log does not have the entries")
        if group.kind == "bind" and self._wishes.credentials is None:
            raise Fault("the log has no passwords (--credentials)")
        dn = self._dn(group, comments)
        if group.kind == "search":
            return self._search(group, dn, comments)
        if group.kind == "compare":
            comments.append("the log has no values: compared with a text of our own")
            return {"dn": dn, "attribute": group.attributes[0], "value": "ldapslam"}
        if group.kind == "bind":
            return {"dn": dn, "password": self._wishes.credentials}
        if group.kind == "extended":
            return {"who_am_i": True}
        logged = self._analysis.attributes["modify"].most_common(5)
        if logged:
            names = ", ".join(f"{name} {count:,}" for name, count in logged)
            comments.append(
                f"attributes of all modifies: {names}; values are not known"
            )
        return {"dn": dn, "replace": {self._wishes.attribute: "[random:20]"}}

    def _search(self, group: Group, base: str, comments: list[str]) -> dict[str, Any]:
        patterns: list[str] = []
        for number, values in enumerate(group.filter_values, 1):
            found = find(values)
            if found.feed:
                feed = feed_of_filter(found.feed)
                if feed is None:
                    raise Fault("values that cannot stand on a line of a file")
                found = Finding(self._feed(group, f"value{number}", feed), "")
                comments.append(f"{len(set(values)):,} values of filters in a feed")
            elif found.evidence:
                comments.append(f"{found.pattern}: {found.evidence}")
            patterns.append(found.pattern)
        matched = fill(group.filter, patterns)
        compile_filter(matched)
        if group.count:
            comments.append(f"{group.entries / group.count:.2f} entries each")
        body: dict[str, Any] = {"base": base, "scope": group.scope, "filter": matched}
        if group.attributes:
            body["attributes"] = list(group.attributes)
        if group.deref != "never":
            body["deref"] = group.deref
        return body

    def _dn(self, group: Group, comments: list[str]) -> str:
        found = [find(values) for values in group.dn_values]
        varying = [one for one in found if one.evidence]
        if not varying:
            text = literal(group.dns[0])
        elif len(varying) == 1 and not varying[0].feed:
            text = fill(group.dn, [one.pattern for one in found])
            comments.append(f"{varying[0].pattern}: {varying[0].evidence}")
        else:
            # values that go together: whole DNs
            lines = ("\n".join(group.dns) + "\n").encode()
            text = self._feed(group, "dn", lines)
            comments.append(f"{len(set(group.dns)):,} different DNs in a feed")
        parse_dn(text)
        return text

    def _feed(self, group: Group, what: str, lines: bytes) -> str:
        name = f"{self._wishes.name}-{self._name(group)}-{what}.txt"
        self._files[name] = lines
        return f"[file:{name}]"


def run_section(seconds: int) -> dict[str, str]:
    """A measurement of that length, with intervals of a bearable number."""
    seconds = min(seconds, _LONGEST_S)
    section = {"duration": f"{seconds}s"}
    if seconds > _MOST_INTERVALS:
        section["interval"] = f"{-(-seconds // _MOST_INTERVALS)}s"
    return section


#: Failures of a healthy directory: no such object, invalid credentials, …
_EXPECTED = frozenset((16, 20, 32, 34, 48, 49, 50, 53, 65, 68))


def _rate_text(per_s: float) -> str:
    text = f"{per_s:.6f}".rstrip("0").rstrip(".")
    return f"{text if float(text or 0) > 0 else '0.000001'}/s"
