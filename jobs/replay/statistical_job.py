# SPDX-License-Identifier: Apache-2.0
"""Streams that make the kind of load that a log is: operations by weight, the rate over
time, connections and how often clients reconnect.

Requests that differ only by their values are one operation; the value of objectClass
belongs to the operation. Values that vary are drawn from a file of the log's values, so
that each is used as often as in the log. What the log does not have (passwords, values
of writes) is not invented: such requests are left out, and counted by their reason.
Pure.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ldapslam.base.fault import Fault
from ldapslam.jobs.fields.texts import SELECTOR
from ldapslam.jobs.replay.log import NS_PER_S, Log, Operation
from ldapslam.jobs.replay.options import KINDS
from ldapslam.jobs.requests.dn import parse_dn
from ldapslam.jobs.requests.filter import compile_filter

#: Stands for a value in a shape; no log line has it.
PLACEHOLDER = "\0"

#: Values of these are part of the shape.
_KIND_ATTRIBUTES = frozenset(("objectclass", "objectcategory", "entrydn"))
_ITEM = re.compile(r"\(([^()=~<>:!&|]+)(~=|>=|<=|:[^()=]*:=|=)([^()]*)\)")
_RDN_VALUE = re.compile(r"(?<==)((?:[^\\,+]|\\.)*)")
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2})")
_SELECTOR = re.compile(SELECTOR, re.ASCII)

#: Steps of the rate over time, at most.
_STEPS = 200
#: A rate whose steps vary more than this many times as those of a Poisson process of
#: the same mean is one that changes.
_CHANGES = 2.0
#: Shapes beyond these are left out, and counted.
_MOST_SHAPES = 40
_MAX_WEIGHT = 1_000_000
_NO_REQUESTS = ("unbind", "abandon")
#: Attribute that modifies replace.
_MODIFIED = "description"
#: Failures of a healthy directory: no such object, invalid credentials, …
_EXPECTED = frozenset((16, 20, 32, 34, 48, 49, 50, 53, 65, 68))


@dataclass
class StatisticalLoad:
    """The streams of a job, and the files that they name."""

    streams: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    #: Requests that no stream has, by reason.
    left_out: Counter[str] = field(default_factory=Counter)


@dataclass
class _Group:
    """Requests of one shape."""

    kind: str
    #: The filter with placeholders.
    filter: str
    scope: str
    deref: str
    attributes: tuple[str, ...]
    #: The DN or base of each request.
    dns: list[str] = field(default_factory=list)
    #: Values of each placeholder.
    values: list[list[str]] = field(default_factory=list)
    results: Counter[int] = field(default_factory=Counter)


def statistical_load(
    log: Log, name: str, credentials: str | None = None
) -> StatisticalLoad:
    """Return the load of a log; Fault when nothing of it can be used. The names of its
    files begin with `name`. Without the password of the test population, binds are left
    out."""
    return _Writer(log, name, credentials).write()


def filter_shape(text: str) -> tuple[str, list[str]]:
    """Return the filter with placeholders, and the values, as the log has them."""
    values: list[str] = []

    def placeholder(match: re.Match[str]) -> str:
        attribute, comparison, value = match.groups()
        is_kind = attribute.lower() in _KIND_ATTRIBUTES
        if comparison == "=" and (value == "*" or is_kind):
            return match[0]
        pieces = value.split("*") if comparison == "=" else [value]
        values.extend(piece for piece in pieces if piece)
        held = "*".join(PLACEHOLDER if piece else "" for piece in pieces)
        return f"({attribute}{comparison}{held})"

    return _ITEM.sub(placeholder, text), values


def dn_shape(text: str) -> str:
    """Return the DN with placeholders for the values of its RDNs."""
    return _RDN_VALUE.sub(PLACEHOLDER, text)


def literal(text: str) -> str:
    """Return text that stands for itself in a pattern."""
    return text.replace("[", "[[").replace("]", "]]")


def _why_unusable(operation: Operation) -> str:
    if reason := operation.why_unusable:
        return reason
    if operation.kind in ("add", "delete", "modify_dn"):
        return f"{operation.kind}: the log does not have the entries"
    if operation.kind == "bind" and not operation.dn:
        return "anonymous binds"
    if not (operation.dn.isprintable() and operation.filter.isprintable()):
        return "lines with control characters"
    if operation.kind in ("search", "compare") and not all(
        _SELECTOR.fullmatch(name) for name in operation.attributes
    ):
        return "attributes whose names are none"
    return ""


class _Writer:
    def __init__(self, log: Log, name: str, credentials: str | None) -> None:
        self._log = log
        self._name = name
        self._credentials = credentials
        self._load = StatisticalLoad()
        self._requests = sorted(
            (one for one in log.operations() if one.kind not in _NO_REQUESTS),
            key=lambda operation: operation.time_ns,
        )
        self._groups = self._grouped()

    def write(self) -> StatisticalLoad:
        load: list[dict[str, Any]] = []
        binds: list[dict[str, Any]] = []
        for group in self._groups:
            if len(load) + len(binds) >= _MOST_SHAPES:
                self._load.left_out["rarer shapes"] += len(group.dns)
            elif operation := self._operation(group):
                (binds if group.kind == "bind" else load).append(operation)
        if not load and not binds:
            left_out = self._load.left_out.items()
            raise Fault(
                "nothing of the log can be turned into a load",
                "; ".join(f"{reason} ({count})" for reason, count in left_out),
            )
        for name, operations in (("load", load), ("binds", binds)):
            if operations:
                self._load.streams.append(self._stream(name, operations))
        return self._load

    def _grouped(self) -> list[_Group]:
        """Return the requests that can be used by shape, the most frequent first."""
        groups: dict[tuple[object, ...], _Group] = {}
        for operation in self._requests:
            if reason := _why_unusable(operation):
                self._load.left_out[reason] += 1
                continue
            kind, scope, deref = operation.kind, operation.scope, operation.deref
            matched, values = filter_shape(operation.filter)
            attributes = operation.attributes if kind != "modify" else ()
            shape = (kind, dn_shape(operation.dn), matched, scope, deref, attributes)
            group = groups.setdefault(
                shape,
                _Group(
                    *(kind, matched, scope, deref, attributes),
                    values=[[] for _ in values],
                ),
            )
            group.dns.append(operation.dn)
            for listed, value in zip(group.values, values, strict=True):
                listed.append(value)
            if operation.result is not None:
                group.results[operation.result] += 1
        return sorted(groups.values(), key=lambda group: -len(group.dns))

    def _stream(
        self, name: str, operations: Sequence[dict[str, Any]]
    ) -> dict[str, Any]:
        total = max(1, len(self._requests))
        count = sum(operation["weight"] for operation in operations)
        share = count / total
        mean_per_s = total * NS_PER_S / (self._log.duration_ns or NS_PER_S)
        load: dict[str, Any] = {"rate": _rate_text(mean_per_s * share)}
        if rates := self._rates(mean_per_s):
            file = f"{self._name}-rates.csv"
            self._load.files[file] = rates
            load["stages"] = {"file": file}
        load["arrivals"] = "poisson"
        load["connections"] = max(1, math.ceil(self._most_sessions() * share))
        stream = {"name": name, "target": "directory", "load": load}
        requests = self._requests_of_a_session()
        if requests is not None and requests < count:
            every = max(1, round(requests * share))
            stream["connection"] = {"reconnect_every": every}
        scale = max(1.0, max(one["weight"] for one in operations) / _MAX_WEIGHT)
        for operation in operations:
            operation["weight"] = max(1, round(operation["weight"] / scale))
        return {**stream, "operations": list(operations)}

    def _rates(self, mean_per_s: float) -> bytes | None:
        """Return a file of multiples of the mean rate; None where the rate does not
        change more than chance has it."""
        duration_ns = self._log.duration_ns or NS_PER_S
        step_ns = max(NS_PER_S, math.ceil(duration_ns / _STEPS / NS_PER_S) * NS_PER_S)
        counts = [0] * (duration_ns // step_ns)
        if len(counts) < 5 or len(self._requests) < 100:
            return None
        for operation in self._requests:
            step = (operation.time_ns - self._log.first_ns) // step_ns
            if step < len(counts):
                counts[step] += 1
        per_step = statistics.fmean(counts)
        # variance of the steps over that of a Poisson process
        if not per_step or statistics.pvariance(counts) / per_step < _CHANGES:
            return None
        lines = ["time,rate"]
        for number, count in enumerate(counts):
            multiple = count * NS_PER_S / step_ns / mean_per_s
            lines.append(f"{number * step_ns // NS_PER_S},{multiple:.6f}x")
        return ("\n".join(lines) + "\n").encode()

    def _most_sessions(self) -> int:
        """Return how many sessions the log has at once, at most."""
        moves: list[tuple[int, int]] = []
        for session in self._log.sessions:
            end_ns = self._log.last_ns if session.end_ns is None else session.end_ns
            moves += [(session.start_ns, -1), (end_ns, 1)]
        most = sessions = 0
        for _, move in sorted(moves):
            sessions -= move
            most = max(most, sessions)
        return most

    def _requests_of_a_session(self) -> float | None:
        """Return the mean, of sessions that began and ended in the log."""
        counts = [
            sum(one.kind not in _NO_REQUESTS for one in session.operations)
            for session in self._log.sessions
            if session.has_start and session.end_ns is not None
        ]
        return statistics.fmean(counts) if counts else None

    # -- operations; their weights are the numbers of requests

    def _operation(self, group: _Group) -> dict[str, Any] | None:
        files = dict(self._load.files)
        try:
            body = self._body(group)
        except Fault as fault:
            self._load.left_out[f"{group.kind}: {fault.reason}"] += len(group.dns)
            self._load.files = files
            return None
        operation: dict[str, Any] = {group.kind: body, "name": self._name_of(group)}
        successes = KINDS[group.kind][1]
        failures = _EXPECTED & group.results.keys() - set(successes)
        if failures:
            operation["expect"] = [*successes, *sorted(failures)]
        return {**operation, "weight": len(group.dns)}

    def _name_of(self, group: _Group) -> str:
        """Shapes of a kind are numbered from the most frequent on."""
        same = [other for other in self._groups if other.kind == group.kind]
        number = f"-{same.index(group) + 1}" * (len(same) > 1)
        return f"{group.kind}{number}"

    def _body(self, group: _Group) -> dict[str, Any]:
        if group.kind == "bind" and self._credentials is None:
            raise Fault("the log has no passwords (--credentials)")
        if group.kind == "extended":
            return {"who_am_i": True}
        dn = literal(group.dns[0])
        if len(set(group.dns)) > 1:
            dn = self._file(group, "dn", [one.encode() for one in group.dns])
        parse_dn(dn)
        if group.kind == "search":
            return self._search(group, dn)
        if group.kind == "compare":
            return {"dn": dn, "attribute": group.attributes[0], "value": "ldapslam"}
        if group.kind == "bind":
            return {"dn": dn, "password": self._credentials}
        return {"dn": dn, "replace": {_MODIFIED: "[random:20]"}}

    def _search(self, group: _Group, base: str) -> dict[str, Any]:
        patterns = self._patterns(group)
        text = re.sub(PLACEHOLDER, lambda _: next(patterns), literal(group.filter))
        compile_filter(text)
        body: dict[str, Any] = {"base": base, "scope": group.scope, "filter": text}
        if group.attributes:
            body["attributes"] = list(group.attributes)
        if group.deref != "never":
            body["deref"] = group.deref
        return body

    def _patterns(self, group: _Group) -> Iterator[str]:
        """Yield the pattern of each placeholder: a constant, or a file of values."""
        for number, values in enumerate(group.values, 1):
            if len(set(values)) == 1:
                yield literal(values[0])
            else:
                lines = [_unescaped(value) for value in values]
                yield self._file(group, f"value{number}", lines)

    def _file(self, group: _Group, content: str, lines: Sequence[bytes]) -> str:
        """Keep the lines as a file; return its pattern."""
        if any(b"\n" in line or b"\r" in line or not line for line in lines):
            raise Fault("values that cannot stand on a line of a file")
        name = f"{self._name}-{self._name_of(group)}-{content}.txt"
        self._load.files[name] = b"\n".join(lines) + b"\n"
        return f"[file:{name}]"


def _unescaped(value: str) -> bytes:
    """Return an assertion value with its escapes undone."""
    return _ESCAPE.sub(lambda match: bytes.fromhex(match[1].decode()), value.encode())


def _rate_text(per_s: float) -> str:
    text = f"{per_s:.6f}".rstrip("0").rstrip(".")
    return f"{text if float(text or 0) > 0 else '0.000001'}/s"
