# SPDX-License-Identifier: Apache-2.0
"""How a stream's requests arrive: the `load` section of the job file."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from ldapslam.base.fault import Fault, expected, got
from ldapslam.base.units import NS_PER_S
from ldapslam.jobs.fields.sections import (
    KEY,
    Count,
    CountOrDuration,
    CountOrDurationField,
    Duration,
    Found,
    Kind,
    RateField,
    Section,
    checked,
    is_given,
)
from ldapslam.jobs.rates.profile import Segment, hold, peak_rate
from ldapslam.jobs.rates.rate_file import format_stage_rate
from ldapslam.jobs.rates.stages import RateFile, Stages, segments

MAX_CLIENTS = 1_000_000
#: Most requests in flight on one connection, where a stream's operations allow more
#: than one.
DEFAULT_IN_FLIGHT = 16


class Closed(Section):
    """Closed loop: each virtual client, with a connection of its own, sends its next
    request after its last one completed."""

    clients: Annotated[Count, Field(le=MAX_CLIENTS)] = Field(examples=[16])
    """virtual clients, in total over all agents"""
    think_time_ns: Duration = 0
    """pause of a client between a completion and its next request"""


class Open(Section):
    """Open loop: arrivals follow a schedule whatever the server does. An arrival that
    finds no free connection waits; its response time counts from when it was due."""

    rate: RateField | None = Field(default=None, examples=["500/s"])
    """arrivals, in total over all agents; with `stages`, what their multiples such as
    0.75x are of"""
    stages: Stages | None = Field(
        default=None, examples=["[{rate: 100/s, for: 60s}, {ramp_to: 500/s, for: 60s}]"]
    )
    """the rate over the measure phase: a list of stages, or a file. ramp_up rises to
    their first rate and warm_up holds it; after them the last rate holds"""
    arrivals: Literal["constant", "poisson", "uniform"] = "constant"
    """constant: equal distances; poisson: exponential distances, as of many independent
    users; uniform: each at random within its equal distance"""
    connections: Annotated[Count, Field(le=MAX_CLIENTS)] = 4
    """connections, in total over all agents"""
    in_flight: Annotated[Count, Field(le=1024)] | None = None
    """most requests, or sessions, in flight on one connection; 16 if left out, or 1
    where the stream's operations need a connection of their own"""
    max_backlog: CountOrDurationField = CountOrDuration(duration_ns=10 * NS_PER_S)
    """most arrivals that may wait, in total over all agents: a count, or the arrivals
    of a duration at the highest rate; arrivals beyond it are dropped, and counted"""

    @checked
    def _rates_go_together(self) -> Iterator[Found]:
        """Multiples are of a rate that is given, and a rate has multiples."""
        has_rate = is_given(self, "rate")
        if self.stages is None and not has_rate:
            reason = "expected a rate, stages or both, got neither"
            yield (), Fault(reason, "add rate, such as 500/s")
        if isinstance(self.stages, RateFile):
            table = self.stages.table
            if table is not None and table.is_relative and not has_rate:
                reason = f"the rates of {self.stages.file!r} are multiples of `rate`"
                hint = "add rate, such as 500/s"
                yield (), Fault(f"{reason}, which is not given", hint)
        elif self.stages:
            multiples = [
                ((index, *place), rate)
                for index, stage in enumerate(self.stages)
                for place, rate in stage.rates()
                if rate.is_relative
            ]
            for place, rate in multiples if not has_rate else ():
                reason = f"{got(format_stage_rate(rate))} is a multiple of the load's"
                hint = "add rate beside stages, such as 500/s"
                fault = Fault(f"{reason} `rate`, which is not given", hint)
                yield ("stages", *place), fault
            if has_rate and not multiples:
                reason = "no stage is a multiple of `rate`"
                yield ("rate", KEY), Fault(reason, "leave it out, or write 0.5x, 1x")

    @property
    def is_known(self) -> bool:
        """Whether the rate is; not where the file of its stages was not read."""
        return not isinstance(self.stages, RateFile) or self.stages.table is not None

    def segments(self, until_ns: int) -> list[Segment]:
        """The rate from the beginning of the stages on; at least one segment, whose
        last rate holds. What repeats does so until it is `until_ns` long."""
        if self.stages is not None:
            return segments(self.stages, self.rate, until_ns=until_ns)
        if self.rate is None:
            raise ValueError("an open load without a rate")
        return [hold(self.rate.events / self.rate.per_ns, 1)]

    def max_backlog_arrivals(self, until_ns: int) -> int:
        """In arrivals; `until_ns` as that of segments."""
        if self.max_backlog.count is not None:
            return self.max_backlog.count
        wait_ns = self.max_backlog.duration_ns or 0
        if self.stages is None and self.rate is not None:
            return max(1, self.rate.arrivals(wait_ns))
        return max(1, math.ceil(peak_rate(self.segments(until_ns)) * wait_ns))


AS_FAST_AS_POSSIBLE = "max"
_SPEED = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)x", re.ASCII)


def _checked_speed(value: object) -> str:
    match = _SPEED.fullmatch(value) if isinstance(value, str) else None
    if value != AS_FAST_AS_POSSIBLE and (match is None or float(match[1]) == 0):
        raise expected(
            "a speed such as '1x' or '10x'", value, "as fast as possible is 'max'"
        )
    return str(value)


class Replayed(Section):
    """As in the log of a directory, of a stream of the type `replay`: each request is
    due at its time, on the connection it came on. One that finds that busy waits; its
    response time counts from when it was due."""

    connections: Annotated[Count, Field(le=MAX_CLIENTS)] = Field(examples=[16])
    """connections, in total over all agents: as many as the log's that are open at one
    time, which `ldapslam replay run --print-job` counts"""
    speed: Annotated[str, BeforeValidator(_checked_speed), Kind("speed")] = "1x"
    """how many times as fast as the log: 1x, 10x, 0.5x; max: each connection sends its
    next request when the last one is answered"""

    @property
    def factor(self) -> float | None:
        """None: as fast as possible."""
        match = _SPEED.fullmatch(self.speed)
        return float(match[1]) if match else None


class Load(Section):
    """How a stream's requests arrive: in a closed or in an open loop."""

    exactly_one: ClassVar[tuple[str, ...]] = ("closed", "open", "replay")

    closed: Closed | None = None
    """a number of clients"""
    open: Open | None = None
    """a rate"""
    replay: Replayed | None = None
    """as in a log; for streams of the type `replay`"""

    @property
    def is_open(self) -> bool:
        """Whether requests are due at times that do not depend on the server."""
        if self.replay is not None:
            return self.replay.factor is not None
        return self.open is not None

    @property
    def connections(self) -> int:
        """In total over all agents; a closed loop's client has one each."""
        if self.closed:
            return self.closed.clients
        if self.replay:
            return self.replay.connections
        return self.open.connections if self.open else 0
