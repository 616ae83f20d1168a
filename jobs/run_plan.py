# SPDX-License-Identifier: Apache-2.0
"""The plan of a run: what its job asks for, as the coordinator and reports read it.

Made once, at submission, from the job that the agents plan their parts of, and stored
with the run: nothing behind it reads job files. Times are nanoseconds since T0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from ldapslam.base.errors import StoreRefused
from ldapslam.jobs.fields.monitors import Verify
from ldapslam.jobs.fields.validity import Validity
from ldapslam.jobs.rates.profile import Segment, arrivals_by

#: Of each class here: a stored document has no other keys.
_STRICT = ConfigDict(extra="forbid")


@dataclass(frozen=True)
class PhaseSpan:
    """One phase: from start_ns up to, not including, end_ns."""

    __pydantic_config__ = _STRICT

    name: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True, kw_only=True)
class PlannedOperation:
    """An operation of a stream."""

    __pydantic_config__ = _STRICT

    name: str
    #: search, add, …; of a Python class, the name that it gives.
    kind: str = ""
    #: What it asks for, in few words.
    about: str = ""
    #: Result codes of a success; empty: the job expects none.
    success_codes: tuple[int, ...] = (0,)
    #: Further result codes that are no errors.
    expected_codes: tuple[int, ...] = ()
    #: Of a search; 0: none.
    size_limit: int = 0
    #: Does an add leave its entries?
    keeps_entries: bool = False
    #: DN pattern of the entries that an add leaves; empty: they cannot be named.
    kept_dn: str = ""
    #: Are the entries of an add removed at the end?
    cleans_up: bool = False
    #: The add whose entries it deletes.
    deletes_of: str = ""
    #: Does it begin a session?
    is_first: bool = True
    #: How often a session that it begins sends it.
    per_session: int = 1
    #: Does it ask for further pages of its result?
    is_paged: bool = False

    @property
    def accepted_codes(self) -> frozenset[int]:
        """Result codes that are no errors."""
        return frozenset((*self.success_codes, *self.expected_codes))

    @property
    def shown_outcome(self) -> Literal["succeeded", "expected"]:
        """The outcome whose response times are shown: successes, unless the job expects
        none."""
        return "succeeded" if self.success_codes else "expected"


@dataclass(frozen=True, kw_only=True)
class PlannedStream:
    """A stream on all agents together."""

    __pydantic_config__ = _STRICT

    name: str
    #: Role of its servers.
    target: str = ""
    uris: tuple[str, ...] = ()
    #: Operation -> server, for a Python class that watches other servers.
    watched: Mapping[str, str] = field(default_factory=dict)
    engine: str = "native"
    #: May a stream send fewer operations than it names, because its log has no others?
    is_replay: bool = False
    #: Who it binds as, for people.
    identity: str = ""
    #: How its connections are protected, for people.
    tls: str = ""
    #: Which of its operations change a connection's identity; empty: none.
    identity_change: str = ""
    #: open or closed.
    model: str = ""
    #: Arrival process of an open loop.
    arrivals: str | None = None
    #: Mean and peak over its part of the measure phase; None: no rate is planned.
    rate_per_s: float | None = None
    peak_rate_per_s: float | None = None
    #: Arrival rate over time; empty: no rate is planned.
    profile: tuple[Segment, ...] = ()
    #: Of a closed loop.
    clients: int | None = None
    connections: int = 0
    think_time_ns: int = 0
    #: A new connection after this many operations, or this time; 0: never.
    reconnect_operations: int = 0
    reconnect_ns: int = 0
    #: Clients that back off wait so long, and longer; 0: one tries for all.
    reconnect_wait_ns: int = 0
    #: It ends after this many sessions.
    count: int | None = None
    start_ns: int = 0
    #: It ends then, before the run does.
    end_ns: int | None = None
    operations: tuple[PlannedOperation, ...] = ()

    @cached_property
    def by_operation(self) -> Mapping[str, PlannedOperation]:
        return {operation.name: operation for operation in self.operations}

    def operation(self, name: str) -> PlannedOperation:
        """Return the operation; one with all defaults where none has the name."""
        return self.by_operation.get(name) or PlannedOperation(name=name)

    def is_at_work(self, start_ns: int, end_ns: int) -> bool:
        """Is it to be at work in all of this time?"""
        is_over = self.end_ns and end_ns > self.end_ns
        return self.start_ns <= start_ns and not is_over

    def arrivals_due(self, start_ns: int, end_ns: int) -> float | None:
        """Return the sessions that are due between two times, as expected; None where
        no rate is planned."""
        if not self.profile:
            return None
        most = self.count or math.inf
        by_start, by_end = (
            arrivals_by(self.profile, at_ns) for at_ns in (start_ns, end_ns)
        )
        return min(by_end, most) - min(by_start, most)


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """The plan of a run."""

    __pydantic_config__ = _STRICT

    #: Rises with each change of these classes.
    version: Literal[1] = 1
    description: str = ""
    phases: tuple[PhaseSpan, ...] = ()
    #: Planned ends of the intervals; the drain follows the last.
    boundaries_ns: tuple[int, ...] = ()
    streams: tuple[PlannedStream, ...] = ()
    validity: Validity = field(default_factory=Validity)
    thresholds: tuple[str, ...] = ()
    #: URIs of servers whose own counters are compared with the requests sent.
    counted: tuple[str, ...] = ()
    verify: Verify | None = None

    @cached_property
    def by_stream(self) -> Mapping[str, PlannedStream]:
        return {stream.name: stream for stream in self.streams}

    @property
    def end_ns(self) -> int:
        """End of the last phase; 0 without one."""
        return self.phases[-1].end_ns if self.phases else 0

    def stream(self, name: str) -> PlannedStream:
        """Return the stream; one with all defaults where none has the name."""
        return self.by_stream.get(name) or PlannedStream(name=name)

    def phase(self, name: str) -> PhaseSpan | None:
        return next((phase for phase in self.phases if phase.name == name), None)


_DOCUMENT = TypeAdapter(RunPlan)


def plan_document(plan: RunPlan) -> dict[str, Any]:
    """Return the plan as JSON values; `plan_of` reads them."""
    document: dict[str, Any] = _DOCUMENT.dump_python(plan, mode="json", by_alias=True)
    return document


def plan_of(document: Any) -> RunPlan:
    """Return the plan of a document; raise StoreRefused where it is none."""
    try:
        return _DOCUMENT.validate_python(document)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise StoreRefused(
            f"a run's plan is not one of this ldapslam: {place}: {first['msg']}"
        ) from error
