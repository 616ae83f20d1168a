# SPDX-License-Identifier: Apache-2.0
"""A job file that makes the kind of load that a log is, with its evidence in comments.

What the log does not have (passwords, values of writes) is not invented: an operation
that lacks it is left out, and a comment says how many there were.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ldapslam.base.fault import Fault
from ldapslam.base.yaml_text import comment_lines, tree_lines
from ldapslam.jobs.replay.analysis import (
    Analysis,
    Finding,
    Group,
    feed_of_filter,
    fill,
    find,
    literal,
)
from ldapslam.jobs.replay.log import NS_PER_S
from ldapslam.jobs.replay.options import KINDS
from ldapslam.jobs.requests.dn import parse_dn
from ldapslam.jobs.requests.filter import compile_filter

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
        streams = [("load", operations), ("binds", binds)]
        kept = [(name, listed) for name, listed in streams if listed]
        lines = [*self._head(), *self._sections()]
        lines.append("streams:")
        if not kept:
            raise Fault(
                "nothing of the log can be turned into a load",
                "; ".join(f"{why} ({n})" for why, n in self._left_out.items()),
            )
        for name, operations_of in kept:
            lines += self._stream(name, operations_of)
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
        yield from tree_lines({"job": self._wishes.name})
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
        open_load: dict[str, Any] = {"rate": _rate_text(rate.mean_per_s * share)}
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
            open_load["stages"] = {"file": file}
            yield from comment_lines(
                f"the rate changes ({min(rate.steps_per_s):,.1f} to "
                f"{max(rate.steps_per_s):,.1f}/s): the file has multiples of `rate`",
                4,
            )
        open_load["arrivals"] = "poisson"
        most = connections.most_at_once
        open_load["connections"] = max(1, math.ceil(most * share))
        yield from tree_lines({"load": {"open": open_load}}, 4)
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
        if group.kind in ("add", "delete", "modify_dn"):
            self._left_out[f"{group.kind}s: the log does not have the entries"] += (
                group.count
            )
            return None
        if group.kind == "bind" and self._wishes.credentials is None:
            self._left_out["binds: the log has no passwords (--credentials)"] += (
                group.count
            )
            return None
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
