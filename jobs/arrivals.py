# SPDX-License-Identifier: Apache-2.0
"""How a stream's requests arrive: the `load` section of the job file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema

from ldapslam.jobs import units
from ldapslam.jobs.fault import expected
from ldapslam.jobs.sections import Count, Duration, Kind, RateField, Section
from ldapslam.jobs.units import NS_PER_S

MAX_CLIENTS = 1_000_000


class Closed(Section):
    """Closed loop: each virtual client, with a connection of its own, sends its next
    request after its last one completed."""

    clients: Annotated[Count, Field(le=MAX_CLIENTS)] = Field(
        description="virtual clients, in total over all agents", examples=[16]
    )
    think_time_ns: Duration = Field(
        alias="think_time",
        default=0,
        description="pause of a client between a completion and its next request",
    )


@dataclass(frozen=True)
class Backlog:
    """The parsed form of `max_backlog`: one of the two."""

    arrivals: int | None = None
    duration_ns: int | None = None


def _parse_backlog(value: Any) -> Backlog:
    if isinstance(value, Backlog):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 1:
            raise expected("a count above zero, or a duration", value)
        return Backlog(arrivals=value)
    if not isinstance(value, str):
        raise expected("a count of arrivals, or a duration such as '10s'", value)
    duration_ns = units.parse_duration(value)
    if duration_ns == 0:
        raise expected("a duration above zero, or a count", value)
    return Backlog(duration_ns=duration_ns)


def _format_backlog(backlog: Backlog) -> int | str:
    if backlog.arrivals is not None:
        return backlog.arrivals
    return units.format_duration(backlog.duration_ns or 0)


class Open(Section):
    """Open loop: arrivals follow a schedule whatever the server does. An arrival that
    finds no free connection waits; its response time counts from when it was due."""

    rate: RateField = Field(
        description="arrivals, in total over all agents", examples=["500/s"]
    )
    arrivals: Literal["constant", "poisson"] = Field(
        default="constant",
        description="constant: equal distances; poisson: exponential distances, as of "
        "many independent users",
    )
    connections: Annotated[Count, Field(le=MAX_CLIENTS)] = Field(
        default=4, description="connections, in total over all agents"
    )
    in_flight: Annotated[Count, Field(le=1024)] = Field(
        default=16, description="most requests in flight on one connection"
    )
    max_backlog: Annotated[
        Backlog,
        PlainValidator(_parse_backlog),
        PlainSerializer(_format_backlog),
        WithJsonSchema(
            {
                "anyOf": [
                    {"type": "integer", "minimum": 1},
                    {"type": "string", "pattern": units.DURATION_PATTERN},
                ]
            }
        ),
        Kind("count or duration", _format_backlog),
    ] = Field(
        default=Backlog(duration_ns=10 * NS_PER_S),
        description="most arrivals that may wait, in total over all agents: a count, "
        "or the arrivals of a duration; arrivals beyond it are dropped, and counted",
    )

    @property
    def max_backlog_arrivals(self) -> int:
        if self.max_backlog.arrivals is not None:
            return self.max_backlog.arrivals
        return max(1, self.rate.arrivals(self.max_backlog.duration_ns or 0))


class Load(Section):
    """How a stream's requests arrive: in a closed or in an open loop."""

    exactly_one: ClassVar[tuple[str, ...]] = ("closed", "open")

    closed: Closed | None = Field(default=None, description="a number of clients")
    open: Open | None = Field(default=None, description="a rate")

    @property
    def connections(self) -> int:
        """In total over all agents; a closed loop's client has one each."""
        if self.closed:
            return self.closed.clients
        return self.open.connections if self.open else 0
