# SPDX-License-Identifier: Apache-2.0
"""Runs `_engine` for tests: short runs, all snapshots read, counters summed."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ldapslam.agent import _engine
from ldapslam.agent.lease import Lease
from ldapslam.jobs.connection_settings import (
    BindSettings,
    ConnectionSettings,
    TlsSettings,
)
from ldapslam.jobs.operations.body import OperationPlan
from ldapslam.jobs.plan import AgentPlan, StreamPlan
from ldapslam.jobs.requests.scope import Let
from ldapslam.jobs.requests.template import Template
from ldapslam.jobs.scripts import ScriptPlan
from ldapslam.proto.fields import OPERATION_COUNTERS
from ldapslam.results.histogram import Histogram
from support.rows import with_rows

MS = 1_000_000
S = 1_000_000_000

RESPONSE_TIME, SERVICE_TIME, SEND_LAG, RECEIVE_LAG, BACKLOG_WAIT, SEQUENCE_TIME = range(
    6
)
SUCCEEDED, FAILED, EXPECTED, TIMED_OUT, UNRESOLVED = range(5)
UNIFORM, SEQUENCE, STRING = range(3)
VARIABLE, MESSAGE_ID = 11, 13
#: Of a rate profile's segments; the first goes on for ever.
FOR_EVER_NS = 1 << 62

#: A hole's source, as add_operation takes it.
Source = tuple[int, int, int, int, int, bytes, float, float]
#: Long enough for a slow machine, short enough to end a test that hangs.
_SNAPSHOT_TIMEOUT_NS = 30 * S
_START_AHEAD_NS = 30 * MS


def literal(data: bytes) -> bytes:
    return b"\x01" + len(data).to_bytes(4, "little") + data


def value(index: int) -> bytes:
    return b"\x02" + index.to_bytes(2, "little")


def nested(tag: int, *parts: bytes) -> bytes:
    return b"\x03" + bytes([tag]) + b"".join(parts) + b"\x04"


def source(kind: int, lo: int = 0, hi: int = 0, data: bytes = b"") -> Source:
    return (kind, lo, hi, 1, 0, data, 0.0, 0.0)


def uniform(lo: int, hi: int) -> Source:
    return source(UNIFORM, lo, hi)


def variable(number: int) -> Source:
    """The session's variable, which a capture or a `let` has set."""
    return source(VARIABLE, number)


_ANY_OF_1000 = uniform(0, 999)


def search(value_source: Source = _ANY_OF_1000, **changes: Any) -> dict[str, Any]:
    """(uid=<value>) below dc=example,dc=com, as add_operation takes it."""
    program = nested(
        0x63,
        literal(b"\x04\x11dc=example,dc=com\x0a\x01\x02\x0a\x01\x00"),
        literal(b"\x02\x01\x00\x02\x01\x00\x01\x01\x00"),
        nested(0xA3, literal(b"\x04\x03uid"), nested(0x04, value(0))),
        literal(b"\x30\x00"),
    )
    return {
        "name": "search",
        "response_tag": 0x65,
        "program": program,
        "values": [value_source],
        **changes,
    }


def searched_value(content: bytes) -> int:
    """The number that a request made by `search` asked for."""
    assertion = content.partition(b"\x04\x03uid\x04")[2]
    return int(assertion[1 : 1 + assertion[0]])


def modify() -> dict[str, Any]:
    """Replaces one description by eight random letters."""
    change = nested(
        0x30,
        literal(b"\x04\x0bdescription"),
        nested(0x31, nested(0x04, value(0))),
    )
    program = nested(
        0x66,
        literal(b"\x04\x05uid=a"),
        nested(0x30, nested(0x30, literal(b"\x0a\x01\x02"), change)),
    )
    return {
        "name": "modify",
        "response_tag": 0x67,
        "program": program,
        "values": [source(STRING, 8, data=b"abc")],
    }


def add(**changes: Any) -> dict[str, Any]:
    """Adds the DN in variable 0, which it draws."""
    return {
        "name": "add",
        "response_tag": 0x69,
        "program": nested(0x68, nested(0x04, value(0)), literal(b"\x30\x00")),
        "values": [variable(0)],
        "lets": [(0, literal(b"cn=") + value(0), [uniform(0, 10**9)])],
        **changes,
    }


def delete(**changes: Any) -> dict[str, Any]:
    """Deletes the DN in variable 0."""
    return {
        "name": "delete",
        "response_tag": 0x6B,
        "program": nested(0x4A, value(0)),
        "values": [variable(0)],
        **changes,
    }


def paged_search(cookie: int) -> dict[str, Any]:
    """`search` with pages of ten; its cookie is in the variable of this number."""
    paged = search(cookie_variable=cookie)
    oid = b"\x04\x161.2.840.113556.1.4.319"
    size_and_cookie = nested(0x30, literal(b"\x02\x01\x0a"), nested(0x04, value(1)))
    control = nested(0x30, literal(oid), nested(0x04, size_and_cookie))
    paged["program"] += nested(0xA0, control)
    paged["values"] = [*paged["values"], variable(cookie)]
    return paged


def sasl_bind(mechanism: str = "PLAIN", first: int = 0) -> dict[str, Any]:
    """User, password and credentials, with their tag and length, are three variables,
    from `first` on."""
    name = mechanism.encode()
    return {
        "name": "bind",
        "response_tag": 0x61,
        "program": nested(
            0x60,
            literal(b"\x02\x01\x03\x04\x00"),
            nested(
                0xA3,
                literal(b"\x04" + bytes([len(name)]) + name),
                value(0),
            ),
        ),
        "values": [variable(first + 2)],
        "lets": [
            (first, literal(b"user"), []),
            (first + 1, literal(b"pencil"), []),
        ],
        "sasl": (mechanism, first, first + 1, -1, first + 2),
    }


#: What of a stream's settings lies deeper in its plan, by the name that tests use.
_TLS = ("start_tls", "ca_file", "verify", "cert_file", "key_file")
_BIND = {
    "bind_dn": "dn",
    "bind_password": "password",
    **{name: name for name in ("mechanism", "authcid", "authzid", "realm")},
}
ADMIN = {"bind_dn": "cn=admin", "bind_password": b"secret"}
_CONNECTION = (
    "connect_timeout_ns",
    "reconnect_operations",
    "reconnect_ns",
    "reconnect_wait_ns",
    "connect_spacing_ns",
)


def stream(uri: str, **changes: Any) -> dict[str, Any]:
    """A closed stream of four clients, unless changed, for `stream_plan`."""
    settings: dict[str, Any] = {
        "name": "load",
        "uris": [uri],
        "connect_timeout_ns": 5 * S,
        "request_timeout_ns": 10 * S,
        "model": "closed",
        "connections": 4,
        "first_connection": 0,
        "connection_stride": 1,
        "in_flight": 1,
        "think_time_ns": 0,
        "max_backlog": 0,
        "operations": [search()],
    }
    settings |= changes
    last = settings["first_connection"]
    last += (settings["connections"] - 1) * settings["connection_stride"]
    return {"total_connections": last + 1, **settings}


def stream_plan(settings: dict[str, Any]) -> StreamPlan:
    """As the engine takes it.

    Each operation is a script of its own with its `weight`, 1 where it has none, unless
    `scripts` are given as pairs of a weight and steps.
    """
    given = dict(settings)
    connection: dict[str, Any] = {
        name: given.pop(name) for name in _CONNECTION if name in given
    }
    tls = {name: given.pop(name) for name in _TLS if name in given}
    bind = {to: given.pop(name) for name, to in _BIND.items() if name in given}
    addresses = given.pop("addresses", ())
    operations = [dict(operation) for operation in given.pop("operations")]
    alone = [
        (operation.pop("weight", 1), [(number, 0)])
        for number, operation in enumerate(operations)
    ]
    scripts = given.pop("scripts", None)
    defaults: dict[str, Any] = {
        "target": "",
        "profile": (),
        "arrivals": "constant",
        "total_operations": 0,
        "start_ns": 0,
        "end_ns": 0,
        "variables": 0,
        "ledgers": 0,
        "clean_up": (),
    }
    return StreamPlan(
        **{**defaults, **given},
        connection=ConnectionSettings(
            TlsSettings(**tls),
            BindSettings(**bind),
            addresses=dict(zip(given["uris"], addresses, strict=False)),
            **connection,
        ),
        operations=tuple(operation_plan(operation) for operation in operations),
        scripts=tuple(
            ScriptPlan(weight, tuple(steps))
            for weight, steps in (alone if scripts is None else scripts)
        ),
    )


def operation_plan(settings: dict[str, Any]) -> OperationPlan:
    """As the engine takes it; `program` and `values` are its template's."""
    given = dict(settings)
    template = Template(given.pop("program"), given.pop("values"))
    lets = [
        Let(variable, Template(program, values))
        for variable, program, values in given.pop("lets", ())
    ]
    return OperationPlan(kind="", template=template, lets=tuple(lets), **given)


def steady(rate_per_s: float) -> tuple[int, float, float]:
    """The segment of a profile that holds one rate for ever."""
    return (FOR_EVER_NS, rate_per_s / S, rate_per_s / S)


#: After a profile's last segment, which is longer than the run: a rate that an agent
#: needs all its workers for, so that they carry the stream from the beginning.
BUSY_LATER = (S, 0.01, 0.01)


def open_stream(uri: str, rate_per_s: int, **changes: Any) -> dict[str, Any]:
    """Constant arrivals over four connections with four requests in flight each."""
    settings: dict[str, Any] = {
        "model": "open",
        "in_flight": 4,
        "profile": [steady(rate_per_s)],
        "max_backlog": 10 * rate_per_s,
    }
    return stream(uri, **{**settings, **changes})


@dataclass(frozen=True)
class Result:
    """Everything that an engine said of a run."""

    snapshots: list[dict[str, Any]]
    facts: dict[str, Any]

    def rows(
        self,
        stream: int = 0,
        operation: int = 0,
        measured: bool | None = None,
        server: int | None = None,
    ) -> list[dict[str, Any]]:
        return [
            row
            for snapshot in self.snapshots
            for row in snapshot["operations"]
            if (row["stream"], row["operation"]) == (stream, operation)
            and measured in (None, row["measured"])
            and server in (None, row["server"])
        ]

    def count(self, counter: str, **which: Any) -> int:
        return sum(row[counter] for row in self.rows(**which))

    def messages(self, **which: Any) -> set[tuple[int, str]]:
        found = (row["diagnostic_messages"] for row in self.rows(**which))
        return {one for messages in found for one in messages.items()}

    def result_codes(self, **which: Any) -> dict[int, int]:
        codes: dict[int, int] = {}
        for row in self.rows(**which):
            for code, count in row["result_codes"].items():
                codes[code] = codes.get(code, 0) + count
        return codes

    def stream_count(self, counter: str, stream: int = 0) -> int:
        return sum(
            row[counter]
            for snapshot in self.snapshots
            for row in snapshot["streams"]
            if row["stream"] == stream
        )

    def histogram(
        self, metric: int, outcome: int = SUCCEEDED, **which: Any
    ) -> Histogram:
        return Histogram.merge(
            packed
            for row in self.rows(**which)
            for row_metric, row_outcome, packed in row["histograms"]
            if (row_metric, row_outcome) == (metric, outcome)
        )

    def assert_balanced(self) -> None:
        """The identities that hold for every operation over a whole run."""
        keys = {
            (row["stream"], row["operation"])
            for snapshot in self.snapshots
            for row in snapshot["operations"]
        }
        for stream, operation in keys:
            n = {
                name: self.count(name, stream=stream, operation=operation)
                for name in OPERATION_COUNTERS
            }
            assert n["scheduled"] == n["sent"] + n["dropped"] + n["substituted"], n
            ended = n["completed"] + n["timed_out"] + n["unresolved"] + n["abandoned"]
            assert n["sent"] == ended, n
            assert n["completed"] == n["succeeded"] + n["expected"] + n["failed"], n
            assert n["requests"] >= n["sent"], n


def new_engine(
    streams: Sequence[dict[str, Any]],
    *,
    duration_ns: int = 300 * MS,
    interval_ns: int = 100 * MS,
    measure_ns: tuple[int, int] | None = None,
    lease: Path | None = None,
    **changes: Any,
) -> _engine.Engine:
    """An engine with its streams, not yet prepared; its lease is in that folder."""
    boundaries = [*range(interval_ns, duration_ns, interval_ns), duration_ns]
    start_ns, end_ns = measure_ns or (0, duration_ns)
    options: dict[str, Any] = {
        name: changes.pop(name)
        for name in ("workers", "realtime", "spin_ns", "max_pdu_bytes")
        if name in changes
    }
    if lease is not None:
        options["lease"] = Lease(lease).memory
    run: dict[str, Any] = {
        "agent_index": 0,
        "agent_count": 1,
        "seed": 1,
        "boundaries_ns": boundaries,
        "phases": (),
        "measure_start_ns": start_ns,
        "measure_end_ns": end_ns,
        "ramp_up_ns": 0,
        "grace_ns": 5 * S,
        "streams": (),
        **changes,
    }
    plan = AgentPlan(**run)
    engine = _engine.Engine(plan, **{"workers": 1, "realtime": False, **options})
    for settings in streams:
        engine.add_stream(stream_plan(settings))
    return engine


def collect(engine: _engine.Engine) -> Result:
    """Reads every snapshot of a started engine, and closes it; its counts balance."""
    snapshots: list[dict[str, Any]] = []
    while not snapshots or not snapshots[-1]["final"]:
        snapshot = engine.snapshot(len(snapshots), _SNAPSHOT_TIMEOUT_NS)
        assert snapshot is not None, f"interval {len(snapshots)} was never closed"
        snapshots.append(with_rows(snapshot))
    result = Result(snapshots, engine.facts())
    engine.close()
    result.assert_balanced()
    return result


def start(engine: _engine.Engine) -> int:
    """Prepares and starts; T0 in ns of CLOCK_MONOTONIC."""
    engine.prepare()
    t0_ns = time.monotonic_ns() + _START_AHEAD_NS
    engine.start(t0_ns)
    return t0_ns


def run(
    *streams: dict[str, Any],
    during: Callable[[_engine.Engine, int], None] | None = None,
    **settings: Any,
) -> Result:
    """A whole run; `during` is called with the engine and T0 while it goes on."""
    engine = new_engine(streams, **settings)
    t0_ns = start(engine)
    if during is None:
        return collect(engine)
    with ThreadPoolExecutor(1) as executor:
        result = executor.submit(collect, engine)
        during(engine, t0_ns)
        return result.result()


@contextlib.contextmanager
def in_process(
    *streams: dict[str, Any], **settings: Any
) -> Iterator[tuple[int, Future[Result]]]:
    """`run` in a process of its own: its pid, and the result to come."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as executor:
        pid = executor.submit(os.getpid).result()
        yield pid, executor.submit(run, *streams, **settings)


def connect_error(uri: str, **changes: Any) -> _engine.ConnectError:
    """Return why `prepare` fails for a stream."""
    engine = new_engine([stream(uri, **changes)])
    with pytest.raises(_engine.ConnectError) as caught:
        engine.prepare()
    engine.close()
    return caught.value


def start_responder(**settings: Any) -> _engine.Responder:
    server = _engine.Responder(**settings)
    server.start()
    return server


def sleep_until(mono_ns: int) -> None:
    time.sleep(max(0, mono_ns - time.monotonic_ns()) / S)
