# SPDX-License-Identifier: Apache-2.0
"""What one field of a job says about another.

These checks read the raw tree, not the model: a model exists only when every field is
right, and all faults of a file are to be reported at once. So everything here takes any
data and is silent about what the model's own checks find.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ldapslam.base import units
from ldapslam.base.fault import Fault, did_you_mean, got, one_of
from ldapslam.jobs.fields.sections import Section, field_of, fields_of, sections_in
from ldapslam.jobs.fields.thresholds import parse_threshold
from ldapslam.jobs.model import Job, Run, Stream
from ldapslam.jobs.rates.arrivals import Open
from ldapslam.jobs.reading.stream_references import (
    check_stream,
    items,
    mapping,
    request_names,
)
from ldapslam.jobs.reading.tree import Finding, Path, Tree

MAX_INTERVALS = 200_000

_T = TypeVar("_T")

#: Keys of a stream of which exactly one says what it sends.
_WAYS = ("operations", "python", "replay")


def check_references(tree: Tree) -> Iterator[Finding]:
    """The faults between fields of a job's expanded tree."""
    data = tree.data
    yield from check_choices(Job, data, ())
    yield from _streams(tree)
    yield from _monitored_roles(mapping(data))
    yield from _population_roles(mapping(data))
    yield from _idle_agents(mapping(data))
    yield from _start_tls(data)
    yield from _time_line(mapping(data))
    yield from _thresholds(tree)


def _streams_of(data: Any) -> list[dict[str, Any]]:
    return [mapping(stream) for stream in items(mapping(data).get("streams"))]


def check_choices(section: type[Section], data: Any, path: Path) -> Iterator[Finding]:
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
        for inner, in_list in sections_in(info.annotation) if info else ():
            if in_list:
                for index, item in enumerate(items(value)):
                    yield from check_choices(inner, item, (*path, key, index))
            else:
                yield from check_choices(inner, value, (*path, key))


def _streams(tree: Tree) -> Iterator[Finding]:
    data = tree.data
    targets = mapping(mapping(data).get("targets"))
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
        yield from _role(role, targets, (*path, "target"))
        yield from _watched_roles(stream, targets, path)
        yield from check_stream(stream, path)
        if path not in tree.unknown:
            yield from _what_is_sent(stream, path)


def _role(role: Any, targets: dict[str, Any], path: Path) -> Iterator[Finding]:
    if isinstance(role, str) and targets and role not in targets:
        hint = did_you_mean(role, targets, "roles")
        yield Finding(path, Fault(f"unknown target role {got(role)}", hint))


def _watched_roles(
    stream: dict[str, Any], targets: dict[str, Any], path: Path
) -> Iterator[Finding]:
    """Each server is one of the target's, or watched once."""
    roles = [stream.get("target")]
    for index, role in enumerate(items(mapping(stream.get("python")).get("watches"))):
        where: Path = (*path, "python", "watches", index)
        yield from _role(role, targets, where)
        if role in roles:
            fault = Fault(f"the role {got(role)} is there twice", "name each once")
            yield Finding(where, fault)
        roles.append(role)


def _population_roles(job: dict[str, Any]) -> Iterator[Finding]:
    """Servers are looked at as a stream comes to them."""
    used = [stream.get("target") for stream in _streams_of(job)]
    targets = mapping(job.get("targets"))
    for index, role in enumerate(items(mapping(job.get("population")).get("targets"))):
        where: Path = ("population", "targets", index)
        yield from _role(role, targets, where)
        if role in targets and role not in used:
            fault = Fault(f"no stream has the target {got(role)}", "leave it out")
            yield Finding(where, fault)


def _monitored_roles(job: dict[str, Any]) -> Iterator[Finding]:
    for index, monitor in enumerate(items(job.get("monitors"))):
        for key in ("directory", "host", "target"):
            role = mapping(monitor).get(key)
            targets = mapping(job.get("targets"))
            yield from _role(role, targets, ("monitors", index, key))


def _what_is_sent(stream: dict[str, Any], path: Path) -> Iterator[Finding]:
    given = [key for key in _WAYS if stream.get(key) is not None]
    if not given:
        info = field_of(Stream, "operations")
        hint = info.description if info else None
        fault = Fault("the key 'operations' is missing", f"operations: {hint}")
        yield Finding(path, fault, at_key=True)
    elif len(given) > 1:
        fault = Fault(f"a stream has one of {one_of(_WAYS)}, got both", "keep one")
        yield Finding((*path, given[1]), fault, at_key=True)
    yield from _replay_or_not(stream, path)


def _replay_or_not(stream: dict[str, Any], path: Path) -> Iterator[Finding]:
    """A replay's load is the log's, and no other stream's."""
    load = stream.get("load")
    if not isinstance(load, dict) or not load:
        return
    if "replay" in load and stream.get("replay") is None:
        fault = Fault(
            "this load is for streams of the type 'replay'", "write closed or open"
        )
        yield Finding((*path, "load", "replay"), fault, at_key=True)
    elif "replay" not in load and stream.get("replay") is not None:
        fault = Fault(
            "a replay's requests come as in its log",
            "write load: {replay: {connections: 16, speed: 1x}}",
        )
        yield Finding((*path, "load"), fault, at_key=True)
    if stream.get("replay") is not None and stream.get("count") is not None:
        fault = Fault("a replay ends with its log", "remove the count")
        yield Finding((*path, "count"), fault, at_key=True)


def _idle_agents(job: dict[str, Any]) -> Iterator[Finding]:
    """More agents than any stream has connections to give them."""
    agents = mapping(job.get("agents"))
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
    load = mapping(stream.get("load"))
    closed, opened, replay = (load.get(key) for key in ("closed", "open", "replay"))
    if isinstance(closed, dict):
        number = closed.get("clients")
    elif isinstance(replay, dict):
        number = replay.get("connections")
    else:
        default = Open.model_fields["connections"].default
        number = mapping(opened).get("connections", default)
    return number if isinstance(number, int) else None


def _start_tls(data: Any) -> Iterator[Finding]:
    """StartTLS where a stream's connections cannot have it."""
    job = mapping(data)
    targets = mapping(job.get("targets"))
    seen: set[Path] = set()
    for index, stream in enumerate(_streams_of(data)):
        own = stream.get("tls")
        path: Path = ("tls",) if own is None else ("streams", index, "tls")
        tls = mapping(job.get("tls") if own is None else own)
        role = stream.get("target")
        uris = targets.get(role) if isinstance(role, str) else None
        for uri in [uris] if isinstance(uris, str) else items(uris):
            scheme = uri.partition(":")[0] if isinstance(uri, str) else ""
            if tls.get("start_tls") is not True or path in seen:
                continue
            if scheme in ("ldaps", "ldapi"):
                seen.add(path)
                reason = f"StartTLS is for ldap://, got the target {uri!r}"
                hint = "leave start_tls out: ldaps:// is TLS already, ldapi:// is local"
                yield Finding((*path, "start_tls"), Fault(reason, hint))


def _time_line(job: dict[str, Any]) -> Iterator[Finding]:
    run = mapping(job.get("run"))

    def length(key: str, default: int = 0) -> int | None:
        return _parsed(units.parse_duration, run[key]) if key in run else default

    streams = _streams_of(job)
    is_counted = bool(streams) and all(stream.get("count") for stream in streams)
    if isinstance(job.get("run"), dict) and "duration" not in run and not is_counted:
        hint = "duration: length of the measure phase, such as 60s"
        if any(stream.get("count") for stream in streams):
            hint += "; it may be left out where every stream has a count"
        fault = Fault("the key 'duration' is missing", hint)
        yield Finding(("run",), fault, at_key=True)
    default_ns = Run.model_fields["duration_ns"].default if is_counted else 0
    interval_ns = length("interval", units.NS_PER_S)
    duration_ns = length("duration", default_ns)
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
    end_ns = duration_ns + sum(phase or 0 for phase in phases)
    intervals = end_ns // interval_ns
    if intervals > MAX_INTERVALS:
        yield Finding(
            ("run", "interval"),
            Fault(
                f"expected at most {MAX_INTERVALS} intervals, got {intervals}",
                "make `run.interval` longer",
            ),
        )
    for index, stream in enumerate(streams):
        yield from _stream_times(stream, ("streams", index), end_ns)


def _stream_times(stream: dict[str, Any], path: Path, end_ns: int) -> Iterator[Finding]:
    def time(key: str) -> int | None:
        return _parsed(units.parse_duration, stream[key]) if key in stream else None

    start_ns, stop_ns = time("start_after"), time("stop_after")
    end = f"the run's end, {units.format_duration(end_ns)} after its start"
    for key, time_ns in (("start_after", start_ns), ("stop_after", stop_ns)):
        if time_ns is not None and time_ns > end_ns - (key == "start_after"):
            fault = Fault(
                f"expected a time before {end}, got {got(stream[key])}",
                "it counts from the run's start, ramp_up and warm_up included",
            )
            yield Finding((*path, key), fault)
    if start_ns is not None and stop_ns is not None and stop_ns <= start_ns:
        fault = Fault(
            f"expected a time after start_after, got {got(stream['stop_after'])}",
            "both count from the run's start",
        )
        yield Finding((*path, "stop_after"), fault)


def _thresholds(tree: Tree) -> Iterator[Finding]:
    """Thresholds that name a stream or an operation that is not there."""
    if tree.unknown:
        return
    data = tree.data
    operations = {
        stream["name"]: request_names(stream)
        for stream in _streams_of(data)
        if isinstance(stream.get("name"), str)
    }
    if not operations:
        return
    for index, text in enumerate(items(mapping(data).get("thresholds"))):
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
