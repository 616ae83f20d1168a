# SPDX-License-Identifier: Apache-2.0
"""What one field of a stream says about another, on the raw tree: see references.py.

Everything here takes any data and is silent about what the model's own checks find.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ldapslam.base.fault import Fault, did_you_mean, got
from ldapslam.jobs.operations import OPERATIONS
from ldapslam.jobs.operations.controls import misplaced_controls
from ldapslam.jobs.operations.sequence import (
    CONNECTION_KINDS,
    MAX_REPEAT,
    abandoned_name,
    request_name,
)
from ldapslam.jobs.reading.named_files import AnyName
from ldapslam.jobs.reading.overrides import path_text
from ldapslam.jobs.reading.tree import Finding, Path
from ldapslam.jobs.replay.options import KINDS
from ldapslam.jobs.requests.pattern import parse_pattern

#: Steps of all sequences of a stream, those that are repeated as often as they are; the
#: engine's (agent/csrc/stream.c).
MAX_STEPS = 65_535
MAX_OPERATIONS = 1_024
#: Operations that take an entry out of a ledger with `of`.
_ENTRY_KINDS = ("delete", "modify", "compare", "modify_dn")
_STEP_KEYS = ("expect", "controls", "let", "capture")


@dataclass(frozen=True)
class RawRequest:
    """An operation of a stream, or a step of a sequence, as the raw tree has it."""

    path: Path
    name: str
    kind: str
    fields: dict[str, Any]
    is_step: bool

    @property
    def body(self) -> dict[str, Any]:
        return mapping(self.fields.get(self.kind))


def mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def requests_of(stream: dict[str, Any], path: Path) -> Iterator[RawRequest]:
    """The operations of a stream whose kind is known, and the steps of sequences."""
    for index, operation in enumerate(map(mapping, items(stream.get("operations")))):
        where: Path = (*path, "operations", index)
        if "sequence" not in operation:
            yield from _request(operation, where)
            continue
        given = operation.get("name")
        prefix = given if isinstance(given, str) else None
        for number, step in enumerate(map(mapping, items(operation["sequence"]))):
            yield from _request(step, (*where, "sequence", number), prefix, True)


def _request(
    fields: dict[str, Any],
    path: Path,
    prefix: str | None = None,
    is_step: bool = False,
) -> Iterator[RawRequest]:
    kind = next((kind for kind in OPERATIONS if kind in fields), None)
    given = fields.get("name")
    if kind is None or not (given is None or isinstance(given, str)):
        return
    yield RawRequest(path, request_name(given, kind, prefix), kind, fields, is_step)


def request_names(stream: dict[str, Any]) -> set[str]:
    """What reports call the operations of a stream."""
    if stream.get("replay") is not None:
        return set(KINDS)
    python = mapping(stream.get("python"))
    names = {name for name in items(python.get("operations")) if isinstance(name, str)}
    for request in requests_of(stream, ()):
        names.add(request.name)
        of = request.body.get("of")
        if request.kind == "abandon" and isinstance(of, str):
            names.add(abandoned_name(request.name, of))
    return names


def check_stream(stream: dict[str, Any], path: Path) -> Iterator[Finding]:
    """The faults within one stream; that it sends nothing is not one of them."""
    requests = list(requests_of(stream, path))
    yield from _names(requests, path)
    yield from _others(requests)
    for request in requests:
        yield from _variables(request)
        for index, fault in misplaced_controls(request.kind, request.fields):
            yield Finding((*request.path, "controls", index), fault)
    yield from _sequences(stream, path)
    yield from _length(requests, path)
    yield from _in_flight(stream, requests, path)
    yield from _connection(stream, path)
    yield from _rates(stream, path)


def _names(requests: list[RawRequest], path: Path) -> Iterator[Finding]:
    taken: dict[str, Path] = {}
    for request in requests:
        of = request.body.get("of")
        names = [request.name]
        if request.kind == "abandon" and isinstance(of, str):
            names.append(abandoned_name(request.name, of))
        for name in names:
            if name in taken:
                other = path_text(taken[name][len(path) :])
                yield Finding(
                    request.path,
                    Fault(
                        f"the name {name!r} is taken by {other}",
                        "give each operation of the stream its own `name`",
                    ),
                )
            taken.setdefault(name, request.path)


def _others(requests: list[RawRequest]) -> Iterator[Finding]:
    """Operations that name another one of their stream."""
    adds = [request.name for request in requests if request.kind == "add"]
    filled = _filled(requests)
    plain = {request.name: request for request in requests if not request.is_step}
    for request in requests:
        of = request.body.get("of")
        if not isinstance(of, str):
            continue
        where = (*request.path, request.kind, "of")
        if request.kind in _ENTRY_KINDS and of not in adds:
            hint = "give it an add operation"
            if adds:
                hint = did_you_mean(of, adds, "add operations")
            fault = Fault(f"the stream has no add operation {of!r}", hint)
            yield Finding(where, fault)
        elif request.kind in _ENTRY_KINDS and of not in filled:
            fault = Fault(
                f"{of!r} comes after a step that takes an entry: there would be none",
                "put the add before it, or outside the sequence",
            )
            yield Finding(where, fault)
        elif request.kind == "abandon":
            other = plain.get(of)
            if other is None:
                known = [
                    name for name, one in plain.items() if one.kind not in _UNABANDONED
                ]
                hint = "give it a search operation of that name, outside sequences"
                if known:
                    hint = did_you_mean(of, known, "operations")
                fault = Fault(f"the stream has no operation {of!r}", hint)
                yield Finding(where, fault)
            elif other.kind in _UNABANDONED or "page_size" in other.body:
                what = "a paged search" if "page_size" in other.body else other.kind
                fault = Fault(
                    f"{what} cannot be abandoned", "name a search (RFC 4511 4.11)"
                )
                yield Finding(where, fault)


def _filled(requests: list[RawRequest]) -> set[str]:
    """Adds that a session comes to without an entry: they are what begins."""
    taking: set[Path] = set()
    names: set[str] = set()
    for request in requests:
        session = request.path[:-2] if request.is_step else request.path
        if request.kind in _ENTRY_KINDS and isinstance(request.body.get("of"), str):
            taking.add(session)
        elif request.kind == "add" and session not in taking:
            names.add(request.name)
    return names


#: Operations that cannot be abandoned, or of which one would not know the outcome.
_UNABANDONED = ("bind", "unbind", "abandon", "add", "delete", "modify_dn")


def _variables(request: RawRequest) -> Iterator[Finding]:
    """Texts that use one that is made later, and captures of what has no entry."""
    lets = mapping(request.fields.get("let"))
    for index, (name, text) in enumerate(lets.items()):
        later = list(lets)[index:]
        for used in later:
            if isinstance(text, str) and f"[{used}]" in text and _is_used(text, used):
                yield Finding(
                    (*request.path, "let", name),
                    Fault(
                        f"[{used}] is not made yet",
                        f"write {used} above {name}"
                        if used != name
                        else "a text cannot have itself in it",
                    ),
                )
                break
    if request.fields.get("capture") and request.kind != "search":
        fault = Fault(
            f"{request.kind} returns no entry to capture from", "capture of a search"
        )
        yield Finding((*request.path, "capture"), fault, at_key=True)


def _is_used(text: str, name: str) -> bool:
    """Whether the text has [name] as a pattern: [[name]] is a text in brackets."""
    try:
        parse_pattern(text, AnyName())
    except Fault:
        return False  # of another kind, which the model finds
    try:
        parse_pattern(text, AnyName(but=name))
    except Fault:
        return True
    return False


def _length(requests: list[RawRequest], path: Path) -> Iterator[Finding]:
    operations = steps = 0
    for request in requests:
        operations += 2 if request.kind == "abandon" else 1
        repeat = request.fields.get("repeat", 1)
        if isinstance(repeat, int) and repeat <= MAX_REPEAT:
            steps += max(repeat, 1) * (2 if request.kind == "abandon" else 1)
    if operations > MAX_OPERATIONS:
        fault = Fault(
            f"expected at most {MAX_OPERATIONS} operations in a stream, "
            f"got {operations}",
            "take more streams",
        )
        yield Finding((*path, "operations"), fault)
    if steps > MAX_STEPS:
        fault = Fault(
            f"expected at most {MAX_STEPS} steps in a stream, got {steps}",
            "repeat steps less often, or take more streams",
        )
        yield Finding((*path, "operations"), fault)


def _sequences(stream: dict[str, Any], path: Path) -> Iterator[Finding]:
    for index, operation in enumerate(map(mapping, items(stream.get("operations")))):
        steps = [mapping(step) for step in items(operation.get("sequence"))]
        if "sequence" not in operation:
            continue
        where: Path = (*path, "operations", index)
        for key in _STEP_KEYS:
            if operation.get(key):
                fault = Fault(f"a sequence has no {key!r}", "write it at its steps")
                yield Finding((*where, key), fault, at_key=True)
        yield from _steps(steps, (*where, "sequence"))


def _steps(steps: list[dict[str, Any]], path: Path) -> Iterator[Finding]:
    for index, step in enumerate(steps):
        is_last = index == len(steps) - 1
        if "think" in step:
            beside = [key for key in (*_STEP_KEYS, "name") if step.get(key)]
            beside += ["repeat"] if step.get("repeat", 1) != 1 else []
            if beside:
                fault = Fault(f"a pause has no {beside[0]!r}", "leave it out")
                yield Finding((*path, index, beside[0]), fault, at_key=True)
            if index == 0 or is_last:
                edge = "begins" if index == 0 else "ends"
                fault = Fault(
                    f"a sequence {edge} with an operation, got a pause",
                    "the pause between sessions is load.closed.think_time",
                )
                yield Finding((*path, index), fault)
        if "unbind" in step and not is_last:
            fault = Fault(
                "nothing can follow an unbind in its sequence", "make it the last step"
            )
            yield Finding((*path, index + 1), fault)
        if "unbind" in step and step.get("repeat", 1) != 1:
            fault = Fault("an unbind cannot be repeated", "leave it out")
            yield Finding((*path, index, "repeat"), fault, at_key=True)


def _in_flight(
    stream: dict[str, Any], requests: list[RawRequest], path: Path
) -> Iterator[Finding]:
    """More requests on a connection than a session can share it with."""
    opened = mapping(mapping(stream.get("load")).get("open"))
    given = opened.get("in_flight")
    if not isinstance(given, int) or given <= 1:
        return
    reason = None
    if mapping(stream.get("connection")).get("per_operation") is True:
        reason = "connection.per_operation"
    if stream.get("python") is not None:
        reason = "a Python class"
    for request in requests:
        if request.is_step:
            reason = "a sequence"
        elif request.kind in CONNECTION_KINDS:
            reason = f"the operation {request.name!r}"
        elif request.fields.get("capture"):
            reason = f"the capture of {request.name!r}"
        elif request.body.get("page_size") is not None:
            reason = f"the pages of {request.name!r}"
    if reason:
        yield Finding(
            (*path, "load", "open", "in_flight"),
            Fault(
                f"expected 1, as {reason} needs a connection for itself, got {given}",
                "leave in_flight out, and take more connections",
            ),
        )


def _connection(stream: dict[str, Any], path: Path) -> Iterator[Finding]:
    connection = mapping(stream.get("connection"))
    if connection.get("per_operation") is not True:
        return
    if connection.get("reconnect_every") is not None:
        fault = Fault("a connection per operation is made anew anyway", "keep one")
        yield Finding((*path, "connection", "reconnect_every"), fault, at_key=True)
    if any("sequence" in mapping(one) for one in items(stream.get("operations"))):
        yield Finding(
            (*path, "connection", "per_operation"),
            Fault(
                "a sequence is a session on one connection, not one per operation",
                "end the sequence with {unbind: {}} for a connection each",
            ),
            at_key=True,
        )


def _rates(stream: dict[str, Any], path: Path) -> Iterator[Finding]:
    """Multiples of a rate that is not given, and one that nothing is a multiple of."""
    opened = mapping(stream.get("load")).get("open")
    if not isinstance(opened, dict):
        return
    where: Path = (*path, "load", "open")
    stages, has_rate = opened.get("stages"), opened.get("rate") is not None
    if stages is None and not has_rate:
        fault = Fault(
            "expected a rate, stages or both, got neither", "add rate, such as 500/s"
        )
        yield Finding(where, fault)
    relative = list(_relative(stages))
    if not has_rate:
        for below, text in relative:
            fault = Fault(
                f"{got(text)} is a multiple of the load's `rate`, which is not given",
                "add rate beside stages, such as 500/s",
            )
            yield Finding((*where, "stages", *below), fault)
    elif isinstance(stages, list) and stages and not relative:
        fault = Fault(
            "no stage is a multiple of `rate`", "leave it out, or write 0.5x, 1x"
        )
        yield Finding((*where, "rate"), fault, at_key=True)


def _relative(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """The rates of stages that are multiples, and where they are."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _relative(item, (*path, index))
    elif isinstance(value, dict):
        for key in ("rate", "ramp_to", "mean", "amplitude"):
            text = value.get(key)
            if isinstance(text, str) and text.strip().lower().endswith("x"):
                yield (*path, key), text
        yield from _relative(value.get("sine"), (*path, "sine"))
