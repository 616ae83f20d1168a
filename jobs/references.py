# SPDX-License-Identifier: Apache-2.0
"""What one field of a job says about another.

These checks read the raw tree, not the model: a model exists only when every field is
right, and all faults of a file are to be reported at once. So everything here takes any
data and is silent about what the model's own checks find.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ldapslam.jobs import units
from ldapslam.jobs.arrivals import Open
from ldapslam.jobs.fault import Fault, did_you_mean, got, one_of
from ldapslam.jobs.model import Job
from ldapslam.jobs.operations import OPERATIONS
from ldapslam.jobs.sections import (
    Section,
    field_of,
    fields_of,
    is_sequence,
    section_in,
)
from ldapslam.jobs.thresholds import parse_threshold
from ldapslam.jobs.tree import Finding, Path

MAX_INTERVALS = 200_000

_T = TypeVar("_T")


def check_references(data: Any) -> Iterator[Finding]:
    """The faults between fields of a job's raw tree."""
    yield from _choices(Job, data, ())
    yield from _streams(data)
    yield from _idle_agents(_mapping(data))
    yield from _start_tls(data)
    yield from _intervals(_mapping(_mapping(data).get("run")))
    yield from _thresholds(data)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _streams_of(data: Any) -> list[dict[str, Any]]:
    return [_mapping(stream) for stream in _items(_mapping(data).get("streams"))]


def _choices(section: type[Section], data: Any, path: Path) -> Iterator[Finding]:
    """Sections that want exactly one, or at least one, of several keys."""
    if not isinstance(data, dict):
        return
    given = [key for key in section.exactly_one if data.get(key) is not None]
    known = {key for key, _ in fields_of(section)}
    if section.exactly_one and len(given) != 1:
        reason = (
            f"expected exactly one of {', '.join(section.exactly_one)}, "
            f"got {' and '.join(given) or 'none'}"
        )
        # Without any, an unknown key is likely the one that is meant.
        if given:
            yield Finding(path, Fault(reason, "keep one"))
        elif known.issuperset(data):
            yield Finding(path, Fault(reason, f"add {one_of(section.exactly_one)}"))
    if section.at_least_one and known.issuperset(data):
        if not any(data.get(key) for key in section.at_least_one):
            hint = f"give {one_of(section.at_least_one)}"
            fault = Fault("expected at least one change, got none", hint)
            yield Finding(path, fault)
    for key, value in data.items():
        info = field_of(section, key)
        inner = section_in(info.annotation) if info else None
        if info is None or inner is None:
            continue
        if is_sequence(info.annotation):
            for index, item in enumerate(_items(value)):
                yield from _choices(inner, item, (*path, key, index))
        else:
            yield from _choices(inner, value, (*path, key))


def _streams(data: Any) -> Iterator[Finding]:
    targets = _mapping(_mapping(data).get("targets"))
    names: dict[str, int] = {}
    for index, stream in enumerate(_streams_of(data)):
        path: Path = ("streams", index)
        name, role = stream.get("name"), stream.get("target")
        if isinstance(name, str):
            if name in names:
                reason = f"the name {name!r} is taken by streams[{names[name]}]"
                yield Finding(
                    (*path, "name"), Fault(reason, "give each stream its own")
                )
            names.setdefault(name, index)
        if isinstance(role, str) and targets and role not in targets:
            hint = did_you_mean(role, targets, "roles")
            fault = Fault(f"unknown target role {got(role)}", hint)
            yield Finding((*path, "target"), fault)
        yield from _operation_names(stream, path)


def _operation_names(stream: dict[str, Any], path: Path) -> Iterator[Finding]:
    names: dict[str, int] = {}
    for index, operation in enumerate(_items(stream.get("operations"))):
        name = _operation_name(_mapping(operation))
        if name in names:
            reason = f"the name {name!r} is taken by operations[{names[name]}]"
            yield Finding(
                (*path, "operations", index),
                Fault(reason, "give each operation of the stream its own `name`"),
            )
        elif name:
            names[name] = index


def _operation_name(operation: dict[str, Any]) -> str | None:
    name = operation.get("name")
    if isinstance(name, str):
        return name
    return next((kind for kind in OPERATIONS if kind in operation), None)


def _idle_agents(job: dict[str, Any]) -> Iterator[Finding]:
    """More agents than any stream has connections to give them."""
    agents = _mapping(job.get("agents"))
    names, count = agents.get("names"), agents.get("count")
    wanted = len(names) if isinstance(names, list) else count
    connections = [_connections(stream) for stream in _streams_of(job)]
    if not isinstance(wanted, int) or not connections or None in connections:
        return
    most = max(number for number in connections if number is not None)
    if 0 < most < wanted:
        yield Finding(
            ("agents", "names" if isinstance(names, list) else "count"),
            Fault(
                f"expected at most {most}, the clients or connections of the largest "
                f"stream, got {wanted}",
                "an agent without any has nothing to do: take fewer agents, or add "
                "clients or connections",
            ),
        )


def _connections(stream: dict[str, Any]) -> int | None:
    load = _mapping(stream.get("load"))
    closed, opened = load.get("closed"), load.get("open")
    if isinstance(closed, dict):
        number = closed.get("clients")
    else:
        default = Open.model_fields["connections"].default
        number = _mapping(opened).get("connections", default)
    return number if isinstance(number, int) else None


def _start_tls(data: Any) -> Iterator[Finding]:
    """StartTLS where a stream's connections cannot have it."""
    job = _mapping(data)
    targets = _mapping(job.get("targets"))
    seen: set[Path] = set()
    for index, stream in enumerate(_streams_of(data)):
        own = stream.get("tls")
        path: Path = ("tls",) if own is None else ("streams", index, "tls")
        tls = _mapping(job.get("tls") if own is None else own)
        role = stream.get("target")
        uris = targets.get(role) if isinstance(role, str) else None
        for uri in [uris] if isinstance(uris, str) else _items(uris):
            scheme = uri.partition(":")[0] if isinstance(uri, str) else ""
            if tls.get("start_tls") is not True or path in seen:
                continue
            if scheme in ("ldaps", "ldapi"):
                seen.add(path)
                reason = f"StartTLS is for ldap://, got the target {uri!r}"
                hint = "leave start_tls out: ldaps:// is TLS already, ldapi:// is local"
                yield Finding((*path, "start_tls"), Fault(reason, hint))


def _intervals(run: dict[str, Any]) -> Iterator[Finding]:
    def length(key: str, default: int = 0) -> int | None:
        return _parsed(units.parse_duration, run[key]) if key in run else default

    interval_ns = length("interval", units.NS_PER_S)
    duration_ns = length("duration")
    if not interval_ns or not duration_ns:
        return
    if duration_ns < interval_ns:
        yield Finding(
            ("run", "duration"),
            Fault(
                f"expected at least one interval of "
                f"{units.format_duration(interval_ns)}, got {got(run['duration'])}",
                "measure longer, or make `run.interval` shorter",
            ),
        )
    phases = [length(key) for key in ("ramp_up", "warm_up", "cool_down")]
    intervals = (duration_ns + sum(phase or 0 for phase in phases)) // interval_ns
    if intervals > MAX_INTERVALS:
        yield Finding(
            ("run", "interval"),
            Fault(
                f"expected at most {MAX_INTERVALS} intervals, got {intervals}",
                "make `run.interval` longer",
            ),
        )


def _thresholds(data: Any) -> Iterator[Finding]:
    """Thresholds that name a stream or an operation that is not there."""
    operations = {
        stream["name"]: {
            name
            for operation in _items(stream.get("operations"))
            if (name := _operation_name(_mapping(operation)))
        }
        for stream in _streams_of(data)
        if isinstance(stream.get("name"), str)
    }
    if not operations:
        return
    for index, text in enumerate(_items(_mapping(data).get("thresholds"))):
        threshold = _parsed(parse_threshold, text) if isinstance(text, str) else None
        if threshold is None:
            continue
        stream, operation = threshold.stream, threshold.operation
        fault = None
        if stream not in ("*", *operations):
            hint = did_you_mean(stream, operations, "streams")
            fault = Fault(f"unknown stream {stream!r} in {got(text)}", hint)
        else:
            known = set().union(
                *(names for name, names in operations.items() if stream in ("*", name))
            )
            if known and operation not in ("*", *known):
                hint = did_you_mean(operation, known, "operations")
                fault = Fault(f"unknown operation {operation!r} in {got(text)}", hint)
        if fault:
            yield Finding(("thresholds", index), fault)


def _parsed(parse: Callable[[Any], _T], value: Any) -> _T | None:
    try:
        return parse(value)
    except Fault:
        return None
