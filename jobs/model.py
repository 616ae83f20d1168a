# SPDX-License-Identifier: Apache-2.0
"""The job model: what a job file says, checked and in plain units.

The docstrings and descriptions below are the documentation of the job file
(`ldapslam job describe`) and of its JSON Schema (`ldapslam job schema`). What one field
says about another is checked in references.py, on the file's raw tree, so that those
faults are found also where other fields are wrong. Read a job with load.py.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    StringConstraints,
    WithJsonSchema,
    field_validator,
)

from ldapslam.base import units
from ldapslam.base.fault import Fault, expected
from ldapslam.base.units import NS_PER_S
from ldapslam.base.uri import check_uri
from ldapslam.jobs.fields.bind import Bind, Sasl, Secret
from ldapslam.jobs.fields.connection import Connection, Tls
from ldapslam.jobs.fields.files import read_file
from ldapslam.jobs.fields.monitors import Monitor, ReplicationCheck, Verify
from ldapslam.jobs.fields.population import PopulationRecord, parse_record
from ldapslam.jobs.fields.sections import (
    Count,
    Duration,
    FileName,
    Flag,
    Kind,
    Name,
    PositiveDuration,
    Section,
    Text,
    checked,
    one_or_more,
)
from ldapslam.jobs.fields.thresholds import parse_threshold
from ldapslam.jobs.fields.validity import Validity
from ldapslam.jobs.operations.sequence import Operation, needs_connection, sessions_of
from ldapslam.jobs.rates.arrivals import DEFAULT_IN_FLIGHT, Closed, Load, Open
from ldapslam.jobs.replay.options import KINDS, Replay

#: Kind, in reports, of what a Python class records.
PYTHON_KIND = "python"
CLASS_PATTERN = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"


class Run(Section):
    """The run's time line: ramp_up, warm_up, measure (of length `duration`),
    cool_down, then the drain. The report's figures cover the measure phase. Where every
    stream has a count, the run ends with the last of them."""

    duration_ns: PositiveDuration = Field(
        alias="duration",
        default=units.DURATION_UNITS["d"],
        description="length of the measure phase; may be left out where every stream "
        "has a count",
        examples=["60s"],
    )
    ramp_up_ns: Duration = Field(
        alias="ramp_up",
        default=0,
        description="time in which clients and rates rise from zero to their full size",
    )
    warm_up_ns: Duration = Field(
        alias="warm_up",
        default=0,
        description="time under full load before the measure phase",
    )
    cool_down_ns: Duration = Field(
        alias="cool_down",
        default=0,
        description="time under full load after the measure phase",
    )
    interval_ns: Duration = Field(
        alias="interval",
        default=NS_PER_S,
        description="length of the intervals in which agents report; at least 100ms",
    )
    drain_ns: Duration = Field(
        alias="drain",
        default=10 * NS_PER_S,
        description="longest wait, after the last arrival, for requests in flight; "
        "what is then unanswered counts as unresolved",
    )

    @field_validator("interval_ns")
    @classmethod
    def _long_enough(cls, value: int) -> int:
        if value < NS_PER_S // 10:
            raise expected(
                "an interval of at least 100ms", units.format_duration(value)
            )
        return value


class Agents(Section):
    """Which agents take part. The load is the run's total, split exactly over them."""

    count: Count | None = Field(
        default=None, description="this many, whichever are free"
    )
    all: Annotated[Literal[True] | None, Kind("true")] = Field(
        default=None, description="all that are registered"
    )
    names: list[Text] | None = Field(
        default=None, min_length=1, description="these, by name"
    )
    labels: dict[Text, Text] | None = Field(
        default=None,
        min_length=1,
        description="those that carry these labels: all, or `count` of them",
    )
    hosts: Count | None = Field(
        default=None,
        description="spread `count` evenly over so many hosts at least",
    )
    wait_ns: Duration = Field(
        alias="wait",
        default=0,
        description="how long the run may wait for agents that are not there yet; 0: "
        "it is refused at once",
    )
    ready_within_ns: PositiveDuration = Field(
        alias="ready_within",
        default=120 * NS_PER_S,
        description="how long agents may take to check the servers and to connect",
    )
    quorum: Count | None = Field(
        default=None,
        description="so many agents are enough when others cannot be made ready in "
        "time: the load is then split over those that can; without it, all are needed",
    )

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
    """A class that drives the stream in place of the engine: see the types `python`,
    `wait_for_directory` and `replication_probe`, which set this."""

    class_path: Annotated[Text, StringConstraints(pattern=CLASS_PATTERN)] = Field(
        alias="class",
        description="its module and name; installed on every agent",
        examples=["'my_load.jobs:Login'"],
    )
    options: dict[str, Any] = Field(
        default_factory=dict, description="what the class is given, as it is"
    )
    operations: list[Name] = Field(
        default=["call"],
        min_length=1,
        description="names of what it records, as in reports and thresholds",
    )
    needs_target: Flag = Field(
        default=True, description="whether the servers must answer before the run"
    )
    watches: list[Name] = Field(
        default_factory=list,
        description="roles of `targets` whose servers it uses beside the target's; no "
        "connection of the stream goes there",
    )


class Stream(Section):
    """One kind of load against one target role. Streams run side by side. What it sends
    are its `operations`, or what a `type` makes of `options`."""

    name: Name = Field(
        description="its name in reports and thresholds; unique", examples=["readers"]
    )
    target: Name = Field(
        description="a role of `targets`; connections are spread over its servers in "
        "turn",
        examples=["replica"],
    )
    load: Load = Field(
        description="how requests arrive", examples=["{closed: {clients: 16}}"]
    )
    type: Name = Field(
        default="mix",
        exclude=True,
        description="how the stream says what it sends: mix, by `operations`; another "
        "job type, by its `options` (`ldapslam job types`)",
    )
    options: dict[str, Any] | None = Field(
        default=None, exclude=True, description="what the stream's type asks for"
    )
    operations: list[Operation] = Field(
        default_factory=list,
        min_length=1,
        description="what is sent, one mapping each, chosen by weight; of type mix",
        examples=["[{search: {base: 'dc=example,dc=com'}}]"],
    )
    python: PythonStream | None = Field(
        default=None, description="instead of `operations`: a Python class"
    )
    replay: Replay | None = Field(
        default=None, description="instead of `operations`: a directory's log"
    )
    count: Annotated[Count, Field(le=1 << 53)] | None = Field(
        default=None,
        description="end the stream after this many operations, or sequences, in "
        "total over all agents and phases; without it, with the run",
    )
    start_after_ns: Duration = Field(
        alias="start_after",
        default=0,
        description="when the stream starts, after the run's start",
    )
    stop_after_ns: PositiveDuration | None = Field(
        alias="stop_after",
        default=None,
        description="when the stream stops, after the run's start; without it, with "
        "the run",
    )
    bind: Bind | None = Field(default=None, description="instead of the job's")
    tls: Tls | None = Field(default=None, description="instead of the job's")
    connection: Connection = Field(
        default=Connection(), description="how its connections are made"
    )
    request_timeout_ns: PositiveDuration = Field(
        alias="request_timeout",
        default=30 * NS_PER_S,
        description="longest wait for a response, from when the request was sent; then "
        "it counts as timed out",
    )

    @property
    def request_names(self) -> list[tuple[str, str]]:
        """Name and kind of everything that the stream sends, as reports have it, in the
        order of the engine's numbers."""
        if self.python is not None:
            return [(name, PYTHON_KIND) for name in self.python.operations]
        if self.replay is not None:
            return [(kind, kind) for kind in KINDS]
        names = {
            request.name: request.kind
            for session in sessions_of(self.operations)
            for request in session.requests
        }
        return list(names.items())

    @property
    def in_flight(self) -> int:
        """Most sessions in flight on one connection."""
        if self.load.open is None:
            return 1
        if self.load.open.in_flight is not None:
            return self.load.open.in_flight
        return 1 if self.needs_connections else DEFAULT_IN_FLIGHT

    @property
    def needs_connections(self) -> bool:
        """Whether a session needs its connection for itself."""
        return (
            self.python is not None
            or self.connection.per_operation
            or any(needs_connection(operation) for operation in self.operations)
        )


def _distinct(uris: list[str]) -> list[str]:
    seen: set[str] = set()
    for uri in uris:
        if uri in seen:
            raise Fault(f"{uri!r} is given twice", "name each server once")
        seen.add(uri)
    return uris


Uris = Annotated[
    list[Annotated[Text, AfterValidator(check_uri), Kind("URI")]],
    Field(min_length=1),
    BeforeValidator(one_or_more),
    AfterValidator(_distinct),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {"type": "array", "items": {"type": "string"}, "minItems": 1},
            ]
        }
    ),
    Kind("URI or list of URIs"),
]


class Population(Section):
    """What the servers hold, by a record of it: entries that the record names are read
    before the run, which is refused where they are missing or others."""

    file: FileName = Field(
        description="the record, as `ldapslam data fingerprint --save` writes it",
        examples=["people.population"],
    )
    targets: list[Name] | None = Field(
        default=None,
        min_length=1,
        description="roles of `targets` whose servers must hold it; without it, all "
        "that streams use",
        examples=["[replica]"],
    )

    #: None where the files of the job are not looked into.
    _record: PopulationRecord | None = PrivateAttr(default=None)

    @field_validator("file")
    @classmethod
    def _is_record(cls, value: str) -> str:
        if (text := read_file(value)) is not None:
            parse_record(text, value)
        return value

    @checked
    def _read(self) -> None:
        if (text := read_file(self.file)) is not None:
            self._record = parse_record(text, self.file)

    @property
    def record(self) -> PopulationRecord | None:
        return self._record


def _checked_threshold(text: str) -> str:
    parse_threshold(text)
    return text


class Job(Section):
    """A job file: what load to put on which directories, for how long, and what must
    hold. Durations, rates and percentages carry their unit (250ms, 500/s, 98%)."""

    name: Name = Field(
        alias="job", description="the job's name", examples=["directory-mix"]
    )
    description: Text = Field(default="", description="one line for the report")
    targets: dict[Name, Uris] = Field(
        min_length=1,
        description="role of each group of servers, such as supplier or replica, and "
        "their URIs (ldap://, ldaps://, ldapi://)",
        examples=["{supplier: 'ldap://ds1.example.com'}"],
    )
    bind: Bind | None = Field(default=None, description="whom connections bind as")
    tls: Tls = Field(default=Tls(), description="TLS to the targets")
    run: Run = Field(description="the time line", examples=["{duration: 60s}"])
    agents: Agents = Field(
        default=Agents(all=True), description="which agents take part; without it, all"
    )
    streams: list[Stream] = Field(
        min_length=1,
        description="the kinds of load, which run side by side",
        examples=["[{name: readers, …}]"],
    )
    population: Population | None = Field(
        default=None, description="what the servers must hold before the run"
    )
    monitors: list[Monitor] = Field(
        default_factory=list,
        description="what is read of servers and hosts all through the run, one "
        "mapping each",
        examples=["[{directory: replica}, {host: replica, processes: [slapd]}]"],
    )
    verify: Verify | None = Field(
        default=None, description="what must be right on the servers after the load"
    )
    thresholds: list[
        Annotated[Text, AfterValidator(_checked_threshold), Kind("threshold")]
    ] = Field(
        default_factory=list,
        description="what must hold for the verdict PASS, such as "
        "'readers.search.response_time.p99 < 5ms'",
    )
    validity: Validity = Field(
        default=Validity(), description="limits beyond which the run is INVALID"
    )
    seed: Annotated[int, Field(ge=0, lt=1 << 64)] | None = Field(
        default=None,
        description="seed of every random draw; without it, one is chosen and recorded",
    )
    on_agent_loss: Literal["stop", "continue"] = Field(
        default="stop",
        description="what happens when an agent is lost; the run is INVALID either way",
    )
    orphan_grace_ns: Duration = Field(
        alias="orphan_grace",
        default=60 * NS_PER_S,
        description="how long agents keep up the load without their coordinator",
    )
    share_target: Flag = Field(
        default=False,
        description="whether other runs that say the same may load these servers "
        "meanwhile",
    )

    #: The files that the job names; set by load.py, not part of the model.
    _files: dict[str, Path] = PrivateAttr(default_factory=dict)
    _named_files: tuple[str, ...] = PrivateAttr(default=())

    @property
    def files(self) -> dict[str, Path]:
        """Files that agents need, by name as the job has it; not secrets."""
        return dict(self._files)

    def set_files(self, named: Iterable[str], files: dict[str, Path]) -> None:
        """For load.py."""
        self._named_files = tuple(dict.fromkeys(named))
        self._files = files

    def named_files(self) -> tuple[str, ...]:
        """Names of the files that agents need, as written, each once; not secrets."""
        return self._named_files

    def canonical_text(self) -> str:
        """The job with overrides and defaults filled in, as JSON, which is a job file
        too: it loads as an equal job."""
        content = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        for stream in content["streams"]:
            if not stream["operations"]:  # it says otherwise what it sends
                del stream["operations"]
        return json.dumps(content, ensure_ascii=False, indent=2) + "\n"

    def canonical_hash(self) -> str:
        """SHA-256 of the canonical text, in hex: equal jobs have equal hashes."""
        return hashlib.sha256(self.canonical_text().encode()).hexdigest()


__all__ = [
    "Agents",
    "Bind",
    "Closed",
    "Connection",
    "Job",
    "Load",
    "Monitor",
    "Open",
    "Operation",
    "Population",
    "PythonStream",
    "ReplicationCheck",
    "Run",
    "Sasl",
    "Secret",
    "Stream",
    "Tls",
    "Validity",
    "Verify",
]
