# SPDX-License-Identifier: Apache-2.0
"""A few requests of each operation of a job, sent by the engine, and what they met.

It is the engine of a run, with the job's connections, identities, patterns and
templates (jobs/sampling.py); so what it meets is what the run will meet.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from ldapslam.agent.engine.process import typed_error
from ldapslam.agent.engine.setup import add_streams, snapshot_message
from ldapslam.jobs.operations.body import OperationPlan
from ldapslam.jobs.plan import AgentPlan, StreamPlan
from ldapslam.jobs.scripts import ScriptPlan
from ldapslam.proto.common_pb2 import Names, StreamNames
from ldapslam.proto.fields import OPERATION_COUNTERS, OUTCOMES
from ldapslam.results.histogram import Histogram
from ldapslam.results.window import OperationRows, window_of

_START_LEAD_NS = 10_000_000
#: The engine sees at each look whether all is sent.
_LOOK_NS = 10_000_000
_INVALID_CREDENTIALS = 49


@dataclass
class Met:
    """What the samples of one operation met on one server."""

    stream: str
    operation: str
    kind: str
    server: str
    is_rehearsal: bool = False
    #: Counters of the engine.
    counts: Counter[str] = field(default_factory=Counter)
    #: Result code -> responses; and those of them that are no success.
    codes: Counter[int] = field(default_factory=Counter)
    unexpected: Counter[int] = field(default_factory=Counter)
    #: Result code of failures -> the first diagnostic message.
    messages: dict[int, str] = field(default_factory=dict)
    times: Histogram = field(default_factory=Histogram)

    @property
    def entries_per_search(self) -> float | None:
        completed = self.counts["completed"]
        if self.kind != "search" or not completed:
            return None
        return self.counts["entries"] / completed

    @property
    def median_us(self) -> float | None:
        return _us(self.times.percentile(50))

    @property
    def max_us(self) -> float | None:
        return _us(self.times.percentile(100))

    def document(self) -> dict[str, Any]:
        return {
            "stream": self.stream,
            "operation": self.operation,
            "server": self.server,
            "rehearsal": self.is_rehearsal,
            **{
                name: self.counts[name]
                for name in (
                    "sent",
                    "succeeded",
                    "expected",
                    "failed",
                    "timed_out",
                    "unresolved",
                    "entries",
                    "empty",
                )
            },
            "result_codes": {str(code): n for code, n in sorted(self.codes.items())},
            "diagnostic_messages": {str(code): t for code, t in self.messages.items()},
            "service_time_us": {"p50": self.median_us, "max": self.max_us},
        }


def _us(time_ns: float | None) -> float | None:
    return None if time_ns is None else time_ns / 1e3


def sample(plan: AgentPlan) -> list[Met]:
    """Send the requests of a plan of jobs/sampling.py; return what each operation met,
    in the order of the operations, and of the servers for each. TargetError: no
    connection.

    Binds go one after the other, and the first that is refused is the last of its kind
    of session, on all servers: enough wrong passwords lock an account.
    """
    first = plan.streams[0]
    met = {
        (number, uri): Met(
            first.name, operation.name, operation.kind, uri, operation.is_rehearsal
        )
        for number, operation in enumerate(first.operations)
        for uri in dict.fromkeys(uri for part in plan.streams for uri in part.uris)
    }
    for uri, number, rows in _rows(plan):
        _add(met[number, uri], first.operations[number], rows)
    return list(met.values())


#: Server, number of an operation, and what the engine counted of it there.
_Counted = tuple[str, int, OperationRows]


def _rows(plan: AgentPlan) -> Iterator[_Counted]:
    """Yield what the engine counted."""
    plain = tuple(one for one in plan.streams if not _binds(one))
    if plain:
        yield from _send(replace(plan, streams=plain))
    refused: set[tuple[ScriptPlan, ...]] = set()
    for part in (one for one in plan.streams if _binds(one)):
        for number in range(part.total_operations):
            if part.scripts in refused:
                break
            streams = (replace(part, total_operations=1),)
            rows = _send(replace(plan, streams=streams, seed=plan.seed + number))
            yield from rows
            if any(_INVALID_CREDENTIALS in one.result_codes for _, _, one in rows):
                refused.add(part.scripts)


def _binds(part: StreamPlan) -> bool:
    steps = (part.operations[step] for one in part.scripts for step, _ in one.steps)
    return any(one.kind == "bind" for one in steps)


def _send(plan: AgentPlan) -> list[_Counted]:
    from ldapslam.agent._engine import Engine

    rows: list[_Counted] = []
    names = Names(
        streams=[
            # each has one server
            StreamNames(
                stream=one.uris[0], operations=map(str, range(len(one.operations)))
            )
            for one in plan.streams
        ]
    ).SerializeToString()
    index, is_final = 0, False
    with closing(Engine(plan, workers=1, realtime=False)) as engine:
        add_streams(engine, plan)
        try:
            engine.prepare()
        except Exception as error:
            raise typed_error(error, plan) from error
        engine.start(time.monotonic_ns() + _START_LEAD_NS)
        while not is_final:
            if (snapshot := engine.snapshot(index, _LOOK_NS)) is not None:
                window = window_of((index,), [snapshot_message(snapshot, names)])
                rows += (
                    (uri, int(number), one)
                    for (uri, number, _), one in window.operations.items()
                )
                index, is_final = index + 1, snapshot["final"]
    return rows


def _add(met: Met, operation: OperationPlan, rows: OperationRows) -> None:
    met.counts.update({name: rows.count(name) for name in OPERATION_COUNTERS})
    met.codes.update(rows.result_codes)
    for code, (text, *_) in rows.diagnostic_messages.items():
        met.messages.setdefault(code, text)
    expected = (*operation.success_codes, *operation.expected_codes)
    for code, responses in rows.result_codes.items():
        if code not in expected:
            met.unexpected[code] += responses
    for outcome in OUTCOMES:
        rows.add_times(met.times, "service_time", outcome)
