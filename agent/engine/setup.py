# SPDX-License-Identifier: Apache-2.0
"""Hands an agent's plan to the engines: the native one, and Python's.

The native engine reads streams by the names of their fields (csrc/python/settings.c);
secrets are resolved here. Every agent makes the whole trace of a replay and keeps its
own connections; a trace may hold passwords, so it is a private file in the run's
folder.
"""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ldapslam.agent.admission.limits import AgentLimits
from ldapslam.agent.lease import Lease
from ldapslam.jobs.plan import AgentPlan, ReplayPlan, StreamPlan
from ldapslam.jobs.replay.read import prepare, read_logs
from ldapslam.jobs.replay.trace import Identity, Schedule, write_trace
from ldapslam.proto.common_pb2 import Names, Snapshot, StreamNames
from ldapslam.proto.fields import LAYOUT, PACKED, TABLES

if TYPE_CHECKING:
    from ldapslam.agent._engine import Engine


def add_streams(
    engine: Engine, plan: AgentPlan, *, ledger_folder: Path | None = None
) -> None:
    """Give the engine its streams; added entries are noted in `ledger_folder`."""
    folder = str(ledger_folder) if ledger_folder else None
    for stream in (one for one in plan.streams if one.engine == "native"):
        engine.add_stream(
            replace(
                stream,
                connection=stream.connection.resolved(),
                ledger_folder=folder if stream.ledgers else None,
            )
        )


def with_traces(plan: AgentPlan, folder: Path) -> tuple[AgentPlan, dict[str, Any]]:
    """The plan with its replays' traces in `folder`, and what each sends."""
    facts: dict[str, Any] = {}
    streams: list[StreamPlan] = []
    for number, stream in enumerate(plan.streams):
        if stream.replay is not None:
            made = _schedule(stream, stream.replay, plan.seed)
            facts[stream.name] = made.facts()
            stream = _with_trace(stream, made, folder / f"replay-{number}.trace")
        streams.append(stream)
    return replace(plan, streams=tuple(streams)), facts


def _schedule(stream: StreamPlan, planned: ReplayPlan, seed: int) -> Schedule:
    bind = stream.connection.bind
    return prepare(
        stream.name,
        planned.trace,
        read_logs(planned.logs),
        planned.pace,
        connections=stream.total_connections,
        seed=seed,
        identity=Identity(bind.dn or "", bind.secret),
    )


def _with_trace(stream: StreamPlan, made: Schedule, path: Path) -> StreamPlan:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as trace:
        write_trace(
            made,
            trace,
            first_connection=stream.first_connection,
            stride=stream.connection_stride,
        )
    # what the log's own server answered is no failure of this one
    operations = tuple(
        replace(one, expected_codes=tuple(sorted(made.codes.get(one.kind, ()))))
        for one in stream.operations
    )
    return replace(stream, trace=str(path), operations=operations)


def native_first(plan: AgentPlan) -> AgentPlan:
    """The plan with its streams in the order in which its engine numbers them."""
    streams = sorted(plan.streams, key=lambda stream: stream.engine != "native")
    return replace(plan, streams=tuple(streams))


def packed_names(plan: AgentPlan) -> bytes:
    """The names that an interval's rows have numbers of."""
    return Names(
        streams=[
            StreamNames(
                stream=stream.name,
                operations=stream.request_names,
                # rows of Python classes have no server
                servers=stream.uris
                if stream.engine == "native" and len(stream.uris) > 1
                else (),
            )
            for stream in plan.streams
        ]
    ).SerializeToString()


def snapshot_message(snapshot: dict[str, Any], names: bytes, **fields: Any) -> Snapshot:
    """What an engine measured, with the names that its rows have numbers of."""
    return Snapshot(**snapshot, layout=LAYOUT, names=names, **fields)


class Part(Protocol):
    """What an engine is to whoever drives a run."""

    def prepare(self) -> None: ...
    def start(self, t0_mono_ns: int) -> None: ...
    def snapshot(self, index: int, timeout_ns: int) -> dict[str, Any] | None: ...
    def stop(self) -> None: ...
    def facts(self) -> dict[str, Any]: ...
    def close(self) -> None: ...


def compose(
    plan: AgentPlan,
    new_native: Callable[[], Engine],
    limits: AgentLimits,
    ledger_folder: Path | None,
    lease: Lease,
) -> Part:
    """The engine of a plan, with its streams; a Composite with Python streams."""
    kinds = {stream.engine for stream in plan.streams}
    has_python = "python" in kinds
    native = None
    if "native" in kinds or not has_python:
        native = new_native()
        add_streams(native, plan, ledger_folder=ledger_folder)
    if native is not None and not has_python:
        return native
    # late: most runs have no Python streams
    from ldapslam.agent.python_jobs.streams import PythonStreams

    return Composite(native, PythonStreams(plan, limits, lease))


class Composite:
    """The engines of a plan in the order of `native_first`."""

    def __init__(self, native: Part | None, python: Part) -> None:
        # classes first: their imports fail sooner than connections
        self._parts: dict[str, Part] = {"python": python}
        if native is not None:
            self._parts["native"] = native
        self._taken: dict[str, dict[str, Any]] = {}
        self._ended: set[str] = set()
        #: Python's workers have the numbers after the native ones.
        self._native_workers = 0

    def prepare(self) -> None:
        for part in self._parts.values():
            part.prepare()

    def start(self, t0_mono_ns: int) -> None:
        for part in self._parts.values():
            part.start(t0_mono_ns)

    def stop(self) -> None:
        for part in self._parts.values():
            part.stop()

    def snapshot(self, index: int, timeout_ns: int) -> dict[str, Any] | None:
        deadline_ns = time.monotonic_ns() + timeout_ns
        for name, part in self._parts.items():
            if name in self._taken or name in self._ended:
                continue
            left_ns = max(0, deadline_ns - time.monotonic_ns())
            snapshot = part.snapshot(index, left_ns)
            if snapshot is None:
                return None
            self._taken[name] = snapshot
            if snapshot["final"]:
                self._ended.add(name)
        taken, self._taken = self._taken, {}
        self._number_workers(taken.get("native"), taken.get("python"))
        return _merged(
            list(taken.values()), is_final=len(self._ended) == len(self._parts)
        )

    def _number_workers(
        self, native: dict[str, Any] | None, python: dict[str, Any] | None
    ) -> None:
        """Number Python's workers after the native workers."""
        columns = len(TABLES["workers"])
        if native is not None:
            numbers = array("q", native["workers"])[::columns]
            self._native_workers = max(self._native_workers - 1, *numbers, -1) + 1
        if python is not None:
            cells = array("q", python["workers"])
            moved = (number + self._native_workers for number in cells[::columns])
            cells[::columns] = array("q", moved)
            python["workers"] = cells.tobytes()

    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        for each in (part.facts() for part in self._parts.values()):
            if facts:
                each["workers"] += facts["workers"]
                each["connections"] += facts["connections"]
                errors_ns = (each["start_error_ns"], facts["start_error_ns"])
                each["start_error_ns"] = None if None in errors_ns else max(errors_ns)
            facts.update(each)
        return facts

    def close(self) -> None:
        for part in self._parts.values():
            part.close()


def _merged(parts: Sequence[dict[str, Any]], *, is_final: bool) -> dict[str, Any]:
    return {
        "index": parts[0]["index"],
        # each begins where its last one ended, and so do both together
        "start_ns": max(part["start_ns"] for part in parts),
        "end_ns": max(part["end_ns"] for part in parts),
        "final": is_final,
        "clock_step_ns": max(part["clock_step_ns"] for part in parts),
        **{name: b"".join(part[name] for part in parts) for name in PACKED},
    }
