# SPDX-License-Identifier: Apache-2.0
"""The job model: what a job file says, checked and in plain units.

The docstrings and descriptions below are the documentation of the job file
(`ldapslam describe`) and of its JSON Schema (`ldapslam describe --schema job`). The
methods marked with @checked find what is wrong between fields. Read a job with load.py.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    StringConstraints,
)

from ldapslam.base import units
from ldapslam.base.fault import Fault, got, one_of, unknown
from ldapslam.base.names import checked_name
from ldapslam.base.units import NS_PER_S
from ldapslam.base.uri import check_uri
from ldapslam.jobs.fields.connection import Bind, Connection, Tls
from ldapslam.jobs.fields.context import Reading
from ldapslam.jobs.fields.monitors import Monitor, Verify
from ldapslam.jobs.fields.population import PopulationRecord, parse_record
from ldapslam.jobs.fields.sections import (
    KEY,
    Count,
    Duration,
    FileName,
    Flag,
    Found,
    Interval,
    Kind,
    Name,
    Place,
    PositiveDuration,
    Section,
    Text,
    checked,
    field_text,
    one_or_more,
    one_or_more_schema,
)
from ldapslam.jobs.fields.thresholds import (
    MONITORS,
    PYTHON_KIND,
    FigureName,
    Threshold,
    parse_threshold,
)
from ldapslam.jobs.fields.validity import Validity
from ldapslam.jobs.operations.sequence import (
    Operation,
    Request,
    check_length,
    check_names,
    check_others,
    identity_change,
    needs_connection,
    placed,
    sessions_of,
)
from ldapslam.jobs.rates.arrivals import DEFAULT_IN_FLIGHT, Load
from ldapslam.jobs.replay.options import KINDS, Trace

MAX_INTERVALS = 200_000
#: Fields of a stream that define its requests; `load.trace` takes their place.
_WAYS = ("operations", "python")
#: Result codes that count as success of what a Python class records: compareFalse and
#: compareTrue are answers (RFC 4511 4.10).
PYTHON_SUCCESS_CODES = (0, 5, 6)
CLASS_PATTERN = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"


class Run(Section):
    """The run's time line: ramp_up, warm_up, measure (of length `duration`),
    cool_down, then the drain. The report covers the measure phase. Where every
    stream has a count, the run ends with the last of them."""

    duration_ns: PositiveDuration = Field(
        default=units.DURATION_UNITS["d"], examples=["60s"]
    )
    """length of the measure phase; may be left out where every stream has a count"""
    ramp_up_ns: Duration = 0
    """time in which clients and rates rise from zero to their full size"""
    warm_up_ns: Duration = 0
    """time under full load before the measure phase"""
    cool_down_ns: Duration = 0
    """time under full load after the measure phase"""
    interval_ns: Interval = NS_PER_S
    """length of the intervals in which agents report; at least 100ms"""
    drain_ns: Duration = 10 * NS_PER_S
    """longest wait, after the load, for requests in flight and arrivals that were due;
    what is then unanswered counts as unresolved, what was not sent as dropped"""


AgentName = Annotated[Text, AfterValidator(checked_name)]


class Agents(Section):
    """Which agents take part. The load is the run's total, split exactly over them."""

    count: Count | None = None
    """this many, whichever are free"""
    all: Annotated[Literal[True] | None, Kind("true")] = None
    """all that are registered"""
    names: list[AgentName] | None = Field(default=None, min_length=1)
    """these, by name"""
    labels: dict[Text, Text] | None = Field(default=None, min_length=1)
    """those that carry these labels: all, or `count` of them"""
    hosts: Count | None = None
    """spread `count` evenly over at least this many hosts"""
    wait_ns: Duration = 0
    """how long the run may wait for agents that are not there yet; 0: it is refused at
    once"""
    ready_within_ns: PositiveDuration = 120 * NS_PER_S
    """how long agents may take to check the servers and to connect"""
    quorum: Count | None = None
    """this many agents are enough when others do not get ready in time: the load is
    then split over those that can; without it, all are needed"""

    @checked
    def _check_choice(self) -> None:
        ways = ("count", "all", "names", "labels")
        given = [way for way in ways if getattr(self, way) is not None]
        if len(given) != 1 and given != ["count", "labels"]:
            raise Fault(
                f"expected one of {', '.join(ways)}, or count with labels; "
                f"got {' and '.join(given) or 'none'}",
                "keep one" if given else "add count: N",
            )
        if self.hosts is not None and (self.count or 0) < self.hosts:
            raise Fault(
                f"{self.hosts} hosts need as many agents",
                f"add `count: {self.hosts}`, or more",
            )


class PythonStream(Section):
    """A class of yours that drives the stream in place of the engine, run by virtual
    clients that are processes with a python-ldap connection each: for what the engine
    does not do. Its times are taken as the engine's are; it costs the client far more
    CPU time."""

    class_path: Annotated[Text, StringConstraints(pattern=CLASS_PATTERN)] = Field(
        alias="class", examples=["'my_load.jobs:Login'"]
    )
    """its module and name; installed on every agent"""
    operations: list[Name] = Field(min_length=1, examples=["[login]"])
    """names of what the class records, as in reports and thresholds"""
    options: dict[str, Any] = Field(default_factory=dict)
    """what the class is given, as it is"""
    needs_target: Flag = True
    """whether the servers must answer before the run"""
    watches: list[Name] = Field(default_factory=list)
    """roles of `targets` whose servers it uses beside the target's; no connection of
    the stream goes there"""


class Stream(Section):
    """One kind of load against one target role. Streams run side by side. It sends
    its `operations`, or what a `type` makes of `options`."""

    name: Name = Field(examples=["readers"])
    """its name in reports and thresholds; unique"""
    target: Name = Field(examples=["replica"])
    """a role of `targets`, which may be left out where there is one only; connections
    are spread over its servers in turn"""
    load: Load = Field(examples=["{clients: 16}"])
    """how requests arrive"""
    type: Name | None = Field(default=None, examples=["auth"], exclude=True)
    """instead of `operations`: the job type that writes the stream by its `options`
    (`ldapslam describe types`)"""
    options: dict[str, Any] | None = Field(default=None, exclude=True)
    """what the stream's type asks for"""
    operations: list[Operation] = Field(
        default_factory=list,
        min_length=1,
        examples=["[{search: {base: 'dc=example,dc=com'}}]"],
    )
    """what is sent, one mapping each, chosen by weight"""
    python: PythonStream | None = None
    """instead of `operations`: a Python class"""
    count: Annotated[Count, Field(le=1 << 53)] | None = None
    """end the stream after this many operations, or sequences, in total over all agents
    and phases; without it, with the run"""
    start_after_ns: Duration = 0
    """when the stream starts, after the run's start"""
    stop_after_ns: PositiveDuration | None = None
    """when the stream stops, after the run's start; without it, with the run"""
    bind: Bind | None = None
    """instead of the job's"""
    tls: Tls | None = None
    """instead of the job's"""
    connection: Connection = Connection()
    """how its connections are made"""
    request_timeout_ns: PositiveDuration = 30 * NS_PER_S
    """longest wait for a response, from when the request was sent; then it counts as
    timed out"""

    @property
    def trace(self) -> Trace | None:
        """The log that the stream sends in place of operations."""
        return self.load.trace

    @property
    def requests(self) -> Iterator[Request]:
        """Those of all sessions, in their order."""
        for session in sessions_of(self.operations):
            yield from session.requests

    @property
    def request_names(self) -> list[tuple[str, str]]:
        """Name and kind of each request, in the order of the engine's numbers."""
        if self.python is not None:
            return [(name, PYTHON_KIND) for name in self.python.operations]
        if self.trace is not None:
            return [(kind, kind) for kind in KINDS]
        names = {request.name: request.kind for request in self.requests}
        return list(names.items())

    @property
    def watched(self) -> Sequence[str]:
        """Roles of the servers that a Python class uses beside the target's."""
        return self.python.watches if self.python else ()

    @property
    def in_flight(self) -> int:
        """Most sessions in flight on one connection."""
        if self.load.kind != "open":
            return 1
        if self.load.in_flight is not None:
            return self.load.in_flight
        return 1 if self.needs_connections else DEFAULT_IN_FLIGHT

    @property
    def needs_connections(self) -> str | None:
        """Why a session needs its connection for itself, if it does."""
        if reason := needs_connection(self.operations):
            return reason
        if self.python is not None:
            return "a Python class"
        return "connection.per_operation" if self.connection.per_operation else None

    @checked
    def _sends_one_kind(self) -> Iterator[Found]:
        given = [way for way in _WAYS if getattr(self, way)]
        if self.load.trace is not None:
            given.append("load.trace")
        if not given:
            hint = field_text(type(self), "operations")
            yield (KEY,), Fault("the key 'operations' is missing", hint)
        elif len(given) > 1:
            ways = one_of([*_WAYS, "load.trace"])
            fault = Fault(f"a stream has one of {ways}, got two", "keep one")
            yield (*given[1].split("."), KEY), fault

    @checked
    def _trace_has_an_end(self) -> Iterator[Found]:
        if self.trace is not None and self.count is not None:
            yield ("count", KEY), Fault("a trace ends with its log", "remove the count")

    @checked
    def _operations_go_together(self) -> Iterator[Found]:
        for check in (check_names, check_others, check_length):
            yield from check(self.operations)

    @checked
    def _connections_are_shared(self) -> Iterator[Found]:
        """No more requests on a connection than sessions can share it."""
        given = self.load.in_flight or 1
        if given > 1 and (why := self.needs_connections):
            yield (
                ("load", "in_flight"),
                Fault(
                    f"expected 1, as {why} needs a connection for itself, got {given}",
                    "leave in_flight out, and take more connections",
                ),
            )

    @checked
    def _connection_per_operation(self) -> Iterator[Found]:
        if not self.connection.per_operation:
            return
        if self.connection.reconnect_every is not None:
            reason = "a connection per operation is new anyway"
            yield ("connection", "reconnect_every", KEY), Fault(reason, "keep one")
        if any(one.is_step for one in placed(self.operations)):
            reason = "a sequence is a session on one connection, not one per operation"
            hint = "end the sequence with {unbind: {}} for a connection each"
            yield ("connection", "per_operation", KEY), Fault(reason, hint)

    @checked
    def _stops_after_its_start(self) -> Iterator[Found]:
        start_ns, stop_ns = self.start_after_ns, self.stop_after_ns
        if "start_after_ns" in self.model_fields_set and stop_ns is not None:
            if stop_ns <= start_ns:
                stop = got(units.format_duration(stop_ns))
                reason = f"expected a time after start_after, got {stop}"
                yield ("stop_after",), Fault(reason, "both count from the run's start")


def _distinct(uris: list[str]) -> list[str]:
    for number, uri in enumerate(uris):
        if uri in uris[:number]:
            raise Fault(f"{uri!r} is given twice", "name each server once")
    return uris


Uris = Annotated[
    list[Annotated[Text, AfterValidator(check_uri), Kind("URI")]],
    Field(min_length=1),
    BeforeValidator(one_or_more),
    AfterValidator(_distinct),
    one_or_more_schema({"type": "string"}, minItems=1),
    Kind("URI or list of URIs"),
]


class Population(Section):
    """What the servers hold, by a record of it: entries that the record names are read
    before the run, which is refused where they are missing or others."""

    file: FileName = Field(examples=["people.population"])
    """the record, as `ldapslam data verify --save` writes it"""
    targets: list[Name] | None = Field(
        default=None, min_length=1, examples=["[replica]"]
    )
    """roles of `targets` whose servers must hold it; without it, all that streams
    use"""

    #: None where the files of the job are not looked into.
    _record: PopulationRecord | None = PrivateAttr(default=None)

    @checked
    def _read(self, reading: Reading) -> Iterator[Found]:
        try:
            if (text := reading.text_of(self.file)) is not None:
                self._record = parse_record(text, self.file)
        except Fault as fault:
            yield ("file",), fault

    @property
    def record(self) -> PopulationRecord | None:
        return self._record


def _checked_threshold(text: str) -> str:
    parse_threshold(text)
    return text


def _unknown_name(
    name: FigureName, names: Mapping[str, Collection[str]], where: str
) -> Fault | None:
    """That a job has no such stream or operation; `names`: stream -> operations."""
    stream, operation = name.subject, name.part
    if stream not in ("*", *names):
        return unknown("stream", stream, names, where=where)
    operations = set(names.get(stream, set().union(*names.values())))
    if not operations or operation in ("*", *operations):
        return None
    if operation in names:
        meant = FigureName(operation, "*", name.metric, name.statistic).name
        hint = f"{operation!r} is a stream: write {meant}"
        return Fault(f"unknown operation {operation!r}{where}", hint)
    return unknown("operation", operation, operations, where=where)


class Job(Section):
    """A job file: what load to put on which directories, for how long, and what must
    hold. Durations, rates and percentages carry their unit (250ms, 500/s, 98%)."""

    name: Name = Field(examples=["directory-mix"])
    """the job's name"""
    description: Text = ""
    """one line for the report"""
    targets: dict[Name, Uris] = Field(
        min_length=1, examples=["{supplier: 'ldap://ds1.example.com'}"]
    )
    """role of each group of servers, such as supplier or replica, and their URIs
    (ldap://, ldaps://, ldapi://)"""
    bind: Bind | None = None
    """the identity that connections bind as"""
    tls: Tls = Tls()
    """TLS to the targets"""
    run: Run = Field(examples=["{duration: 60s}"])
    """the time line"""
    agents: Agents = Agents(all=True)
    """which agents take part; without it, all"""
    streams: list[Stream] = Field(min_length=1, examples=["[{name: readers, …}]"])
    """the kinds of load, which run side by side"""
    population: Population | None = None
    """what the servers must hold before the run"""
    monitors: list[Monitor] = Field(
        default_factory=list,
        examples=["[{directory: replica}, {host: replica, processes: [slapd]}]"],
    )
    """what is read of servers and hosts all through the run, one mapping each"""
    verify: Verify | None = None
    """what must be right on the servers after the load"""
    thresholds: list[
        Annotated[Text, AfterValidator(_checked_threshold), Kind("threshold")]
    ] = Field(default_factory=list)
    """what must hold for the verdict PASS, such as 'readers.search.response_time.p99 <
    5ms'"""
    validity: Validity = Validity()
    """limits beyond which the run is INVALID"""
    seed: Annotated[int, Field(ge=0, lt=1 << 64)] | None = None
    """seed of every random draw; without it, one is chosen and recorded"""
    on_agent_loss: Literal["stop", "continue"] = "stop"
    """what happens when an agent is lost; the run is INVALID either way"""
    coordinator_timeout_ns: Duration = 60 * NS_PER_S
    """how long agents keep up the load without their coordinator"""
    share_target: Flag = False
    """whether other runs that say the same may load these servers meanwhile"""

    #: The files that the job names; set by load.py, not part of the model.
    _named: dict[str, Path | None] = PrivateAttr(default_factory=dict)

    @property
    def files(self) -> dict[str, Path]:
        """Files that agents need, by name as the job has it; not secrets."""
        return {name: path for name, path in self._named.items() if path is not None}

    def set_files(self, named: dict[str, Path | None]) -> None:
        """For load.py."""
        self._named = named

    def named_files(self) -> tuple[str, ...]:
        """Names of the files that agents need, as written, each once; not secrets."""
        return tuple(self._named)

    @checked
    def _stream_names_are_unique(self) -> Iterator[Found]:
        names: dict[str, int] = {}
        for index, stream in enumerate(self.streams):
            first = names.setdefault(stream.name, index)
            if first != index:
                reason = f"the name {stream.name!r} is taken by streams[{first}]"
                fault = Fault(reason, "give each stream its own")
                yield ("streams", index, "name"), fault

    @checked
    def _roles_are_there(self) -> Iterator[Found]:
        for place, role in self._roles():
            if role not in self.targets:
                yield place, unknown("target role", role, self.targets, "roles")

    def _roles(self) -> Iterator[tuple[Place, str]]:
        """Every role that the job names, and where."""
        for index, stream in enumerate(self.streams):
            place: Place = ("streams", index)
            yield (*place, "target"), stream.target
            for n, role in enumerate(stream.watched):
                yield (*place, "python", "watches", n), role
        for n, role in enumerate(self._population_targets):
            yield ("population", "targets", n), role
        for index, monitor in enumerate(self.monitors):
            for key in ("directory", "host", "target"):
                if role := getattr(monitor, key):
                    yield ("monitors", index, key), role

    @property
    def _population_targets(self) -> Sequence[str]:
        return (self.population and self.population.targets) or ()

    @checked
    def _roles_are_named_once(self) -> Iterator[Found]:
        """Each server is one of a stream's target, or watched once."""
        for index, stream in enumerate(self.streams):
            roles = [stream.target]
            for n, role in enumerate(stream.watched):
                if role in roles:
                    reason = f"the role {got(role)} is there twice"
                    place = ("streams", index, "python", "watches", n)
                    yield place, Fault(reason, "name each once")
                roles.append(role)

    @checked
    def _population_is_of_streams(self) -> Iterator[Found]:
        """Servers are looked at as a stream comes to them."""
        used = [stream.target for stream in self.streams]
        for index, role in enumerate(self._population_targets):
            if role in self.targets and role not in used:
                fault = Fault(f"no stream has the target {got(role)}", "leave it out")
                yield ("population", "targets", index), fault

    @checked
    def _agents_have_connections(self) -> Iterator[Found]:
        """No more agents than the largest stream has connections to give them."""
        names = self.agents.names
        wanted = len(names) if names else self.agents.count
        most = max(stream.load.total_connections for stream in self.streams)
        if wanted is not None and most < wanted:
            yield (
                ("agents", "names" if names else "count"),
                Fault(
                    f"expected at most {most}, the clients or connections of the "
                    f"largest stream, got {wanted}",
                    "an agent without any has nothing to do: take fewer agents, or add "
                    "clients or connections",
                ),
            )

    @checked
    def _start_tls_is_of_ldap(self) -> Iterator[Found]:
        found: dict[Place, str] = {}
        for index, stream in enumerate(self.streams):
            place: Place = ("streams", index, "tls") if stream.tls else ("tls",)
            uris = self.targets.get(stream.target, ())
            others = [one for one in uris if one.startswith(("ldaps:", "ldapi:"))]
            if others and (stream.tls or self.tls).start_tls:
                found.setdefault((*place, "start_tls"), others[0])
        for place, uri in found.items():
            reason = f"StartTLS is for ldap://, got the target {uri!r}"
            hint = "leave start_tls out: ldaps:// is TLS already, ldapi:// is local"
            yield place, Fault(reason, hint)

    @checked
    def _run_has_a_length(self) -> Iterator[Found]:
        run = self.run
        counted = [stream.count is not None for stream in self.streams]
        if "duration_ns" not in run.model_fields_set:
            if all(counted):
                return
            stages = (stream.load.stages_ns for stream in self.streams)
            longest_ns = max(filter(None, stages), default=0)
            hint = "duration: length of the measure phase, such as 60s"
            if longest_ns:
                length = units.format_duration(longest_ns)
                hint = f"duration: {length}, as long as the stages"
            if any(counted):
                hint += "; it may be left out where every stream has a count"
            yield ("run", KEY), Fault("the key 'duration' is missing", hint)
        elif run.duration_ns < run.interval_ns:
            reason = (
                f"expected at least one interval of "
                f"{units.format_duration(run.interval_ns)}, "
                f"got {got(units.format_duration(run.duration_ns))}"
            )
            hint = "measure longer, or make `run.interval` shorter"
            yield ("run", "duration"), Fault(reason, hint)

    @checked
    def _times_are_within_the_run(self) -> Iterator[Found]:
        run = self.run
        end_ns = run.ramp_up_ns + run.warm_up_ns + run.duration_ns + run.cool_down_ns
        if end_ns // run.interval_ns > MAX_INTERVALS:
            intervals = end_ns // run.interval_ns
            reason = f"expected at most {MAX_INTERVALS} intervals, got {intervals}"
            yield ("run", "interval"), Fault(reason, "make `run.interval` longer")
        for index, stream in enumerate(self.streams):
            for key in ("start_after", "stop_after"):
                time_ns = getattr(stream, f"{key}_ns") or 0
                if time_ns > end_ns - (key == "start_after"):
                    reason = (
                        "expected a time before the run's end, "
                        f"{units.format_duration(end_ns)} after its start, "
                        f"got {got(units.format_duration(time_ns))}"
                    )
                    hint = (
                        "it counts from the run's start, ramp_up and warm_up included"
                    )
                    yield ("streams", index, key), Fault(reason, hint)

    @checked
    def _thresholds_are_of_operations(self) -> Iterator[Found]:
        for index, text in enumerate(self.thresholds):
            if fault := self._fault_of(parse_threshold(text)):
                yield ("thresholds", index), fault

    def _fault_of(self, threshold: Threshold) -> Fault | None:
        where = f" in {got(threshold.expression)}"
        if fault := self.missing_figure(threshold, where):
            return fault
        what, field = "an interval", "`run.interval`"
        least_ns = self.run.interval_ns
        if threshold.kind in MONITORS:
            # a reading that misses it lies between two that may meet it
            what, field = "the time between three readings", "its monitor's `every`"
            watching = self._monitors_of(threshold)
            least_ns = 2 * max(one.every_ns or least_ns for one in watching)
        if 0 < threshold.hold_ns < least_ns:
            return Fault(
                f"the time after `for` is shorter than {what}{where}",
                f"make it {units.format_duration(least_ns)} at least, or {field} "
                "shorter",
            )
        return None

    def missing_figure(self, name: FigureName, where: str) -> Fault | None:
        """Return why no run of the job has figures of this name; None: one may have."""
        kind, subject = name.kind, name.subject
        match kind:
            case "stream":
                names = {one.name: dict(one.request_names) for one in self.streams}
                return _unknown_name(name, names, where)
            case "directory" | "entry" | "host" | "process" | "server" if not all(
                self._roles_of(one) for one in subject.split(" + ")
            ):
                return unknown("role", subject, self.targets, where=where)
            case "server":
                is_read = any(one.directory for one in self.monitors)
                if not is_read and name.metric != "sent":
                    return Fault(
                        f"nothing reads what servers count{where}",
                        "add {directory: ROLE} to `monitors`",
                    )
            case "replication":
                if not (self.verify and self.verify.replication):
                    return Fault(
                        f"replication is not checked{where}",
                        "add `verify: {replication: {within: 60s}}`",
                    )
        if kind in MONITORS and not self._monitors_of(name):
            extra = ", processes: [slapd]" if kind == "process" else ""
            key = "host" if kind == "process" else kind
            role = "ROLE" if subject == "*" else subject
            return Fault(
                f"nothing reads the {kind} of {subject!r}{where}",
                f"add {{{key}: {role}{extra}}} to `monitors`",
            )
        return None

    def _roles_of(self, server: str) -> list[str]:
        """Return the roles that have this name, or a server of this URI; '*': all."""
        targets = self.targets.items()
        return [role for role, uris in targets if server in ("*", role, *uris)]

    def _monitors_of(self, name: FigureName) -> list[Monitor]:
        """Return the monitors that read figures of this name."""
        kind = "host" if name.kind == "process" else name.kind
        roles = self._roles_of(name.subject)
        return [
            one
            for one in self.monitors
            if one.kind == kind
            and (name.subject == "*" or one.role in roles)
            and (name.kind != "process" or one.processes)
        ]

    def identity(self, stream: Stream) -> str:
        """Who a stream's connections are bound as."""
        bind = stream.bind or self.bind
        return bind.identity if bind else "anonymous"

    def tls_text(self, stream: Stream) -> str:
        """How a stream's connections are protected."""
        tls, uris = stream.tls or self.tls, self.targets[stream.target]
        schemes = {uri.partition(":")[0] for uri in uris}
        if schemes == {"ldapi"}:
            return "Unix socket"
        if not tls.start_tls and "ldaps" not in schemes:
            return "no TLS"
        checked = "" if tls.verify else ", certificates not checked"
        return f"{'StartTLS' if tls.start_tls else 'TLS'}{checked}"

    def identity_change(self, stream: Stream) -> str:
        """Requests that a stream sends as another identity than its own, in words;
        empty without."""
        bind = stream.bind or self.bind
        found = identity_change(stream.operations, bind.dn if bind else "")
        if found is None or stream.connection.reconnect_operations == 1:
            return ""
        return (
            f"{found[1]!r} runs as the user whose {found[0]!r} was before it on its "
            "connection, not as the stream's own identity"
        )

    def canonical_text(self) -> str:
        """The job with overrides and defaults, as JSON; it loads as an equal job."""
        content = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        for stream in content["streams"]:
            if not stream["operations"]:  # it says otherwise what it sends
                del stream["operations"]
        return json.dumps(content, ensure_ascii=False, indent=2) + "\n"

    def canonical_hash(self) -> str:
        """SHA-256 of the canonical text, in hex: equal jobs have equal hashes."""
        return hashlib.sha256(self.canonical_text().encode()).hexdigest()
