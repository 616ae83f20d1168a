# SPDX-License-Identifier: Apache-2.0
"""How a stream's requests arrive: the `load` section of the job file, and the `stages`
of an open loop, which change its rate over the measure phase.

A file of rates is CSV of two columns, the time since the stages begin and the rate,
with a header or without. A bare number is seconds, or arrivals per second; a rate such
as 0.75x is a multiple of the load's `rate`:

    time,rate
    0,100
    10s,500/s
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import (
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    PlainValidator,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    Tag,
    WithJsonSchema,
    model_serializer,
)

from ldapslam.base.errors import ConfigError
from ldapslam.base.fault import Fault, expected, got, one_of
from ldapslam.base.units import (
    NS_PER_S,
    Rate,
    format_duration,
    format_rate,
    parse_duration,
    parse_rate,
)
from ldapslam.jobs.fields.connection import MAX_CONNECTIONS
from ldapslam.jobs.fields.context import Reading
from ldapslam.jobs.fields.sections import (
    KEY,
    UNION_TAG,
    Count,
    CountOrDuration,
    CountOrDurationField,
    Duration,
    FileName,
    Found,
    Kind,
    PositiveDuration,
    RateField,
    Section,
    checked,
)
from ldapslam.jobs.rates.profile import Segment, hold, peak_rate, ramp
from ldapslam.jobs.replay.options import Trace

MAX_ROWS = 100_000
_MAX_MULTIPLE = 1_000_000

_NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,9})?", re.ASCII)
_MULTIPLE = re.compile(r"(\d{1,7}(?:\.\d{1,9})?)\s*[xX]", re.ASCII)
_ZERO = re.compile(r"0(?:\.0*)?/[smh]", re.ASCII)


@dataclass(frozen=True)
class StageRate:
    """A rate of a stage: arrivals per ns, a multiple of `rate`, or zero."""

    value: Fraction
    is_relative: bool = False

    def per_ns(self, base: Rate | None) -> float:
        """Arrivals per ns; a relative rate needs the base."""
        if not self.is_relative:
            return float(self.value)
        if base is None:
            raise ValueError("a relative rate without a base")
        return float(self.value * Fraction(base.events, base.per_ns))


def parse_stage_rate(value: Any) -> StageRate:
    """The rate of a text such as '500/s', '0/s' or '0.75x'."""
    if isinstance(value, str):
        text = value.strip()
        if match := _MULTIPLE.fullmatch(text):
            if Fraction(match[1]) > _MAX_MULTIPLE:
                raise expected(f"a multiple of at most {_MAX_MULTIPLE}x", value)
            return StageRate(Fraction(match[1]), is_relative=True)
        if _ZERO.fullmatch(text):
            return StageRate(Fraction(0))
    rate = parse_rate(value)
    return StageRate(Fraction(rate.events, rate.per_ns))


def format_stage_rate(rate: StageRate) -> str:
    """A text that parse_stage_rate turns into the same rate."""
    if rate.is_relative:
        scaled = rate.value * 10**9
        text = f"{int(scaled) // 10**9}.{int(scaled) % 10**9:09d}"
        return f"{text.rstrip('0').rstrip('.')}x"
    if not rate.value:
        return "0/s"
    return format_rate(Rate(rate.value.numerator, rate.value.denominator))


class RateRow(NamedTuple):
    """A row of a file of rates: the rate holds until the next row's time."""

    at_ns: int
    rate: StageRate


def parse_rate_file(text: str, name: str) -> tuple[RateRow, ...]:
    """Return the rows of a file's text, at least one; `name` is for the faults."""
    rows: list[RateRow] = []
    is_first = True
    for number, line in _contents(text.splitlines()):
        cells = [cell.strip().strip('"') for cell in line.split(",")]
        was_first, is_first = is_first, False
        if was_first and not cells[0][:1].isdigit():
            continue  # the header
        with _line(name, number):
            if len(cells) != 2:
                raise Fault(f"expected a time and a rate, got {got(line)}")
            rows.append(RateRow(_time(cells[0]), _rate(cells[1])))
            if len(rows) > MAX_ROWS:
                raise Fault(f"expected at most {MAX_ROWS} rates, got more")
            if len(rows) > 1 and rows[-2].at_ns >= rows[-1].at_ns:
                raise Fault(
                    f"expected times that rise, got {got(cells[0])} after a later one"
                )
    if not rows:
        raise Fault(f"{name!r}: expected rows of time and rate, got none")
    if rows[0].at_ns:
        raise Fault(
            f"{name!r}: expected the first time to be 0, "
            f"got {format_duration(rows[0].at_ns)}",
            "times count from the beginning of the stages",
        )
    return tuple(rows)


@contextmanager
def _line(name: str, number: int) -> Iterator[None]:
    """Faults of a line of the file say which it is."""
    try:
        yield
    except Fault as fault:
        raise Fault(f"{name!r} line {number}: {fault.reason}", fault.hint) from None


def _time(cell: str) -> int:
    return parse_duration(f"{cell}s" if _NUMBER.fullmatch(cell) else cell)


def _rate(cell: str) -> StageRate:
    return parse_stage_rate(f"{cell}/s" if _NUMBER.fullmatch(cell) else cell)


def _contents(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Number and text of the lines that say something."""
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if text:
            yield number, text


_RATE_PATTERN = r"^\d+(?:\.\d+)?(?:[kM]?/(?:s|m|h)|x)$"

StageRateField = Annotated[
    StageRate,
    PlainValidator(parse_stage_rate),
    PlainSerializer(format_stage_rate, return_type=str),
    WithJsonSchema({"type": "string", "pattern": _RATE_PATTERN}),
    Kind("rate or multiple", format_stage_rate),
]


class Stage(Section):
    """A stretch of time: a rate that holds, or a ramp from the rate before."""

    exactly_one: ClassVar[tuple[str, ...]] = ("rate", "ramp_to")

    rate: StageRateField | None = None
    """a rate that holds; 0.75x is of the load's `rate`"""
    ramp_to: StageRateField | None = None
    """a rate that is reached in a straight line from the one before; from zero in the
    first stage"""
    duration_ns: PositiveDuration = Field(alias="for", examples=["60s"])
    """how long the stage is"""

    def rates(self) -> Iterator[tuple[str, StageRate]]:
        """The rate, and its key."""
        if self.rate is not None:
            yield "rate", self.rate
        if self.ramp_to is not None:
            yield "ramp_to", self.ramp_to

    def segment(self, before: float, base: Rate | None) -> Segment:
        """The stage after one that ended at the rate `before`, per ns."""
        if self.rate is not None:
            return hold(self.rate.per_ns(base), self.duration_ns)
        assert self.ramp_to is not None, "a stage has one of them"
        return ramp(before, self.ramp_to.per_ns(base), self.duration_ns)


class RateFile(Section):
    """Rates from a file: CSV of time and rate, with a header or without. The last rate
    holds."""

    file: FileName = Field(examples=["rates.csv"])
    """its path, relative to the job file"""
    shape: Literal["step", "ramp"] = "step"
    """step: each rate holds until the next; ramp: straight lines between the rates"""

    #: Empty where files are not looked into.
    _rows: tuple[RateRow, ...] = PrivateAttr(default=())

    @checked
    def _read(self, reading: Reading) -> None:
        text = reading.text_of(self.file)
        if text is not None:
            self._rows = parse_rate_file(text, self.file)

    @property
    def is_known(self) -> bool:
        """Whether the file was read."""
        return bool(self._rows)

    @property
    def is_relative(self) -> bool:
        return any(row.rate.is_relative for row in self._rows)

    def segments(self, base: Rate | None) -> list[Segment]:
        """Return the rows as pieces of a profile; the last row is its end."""
        if not self._rows:
            raise ValueError(f"the file {self.file!r} was not read")
        rates = [row.rate.per_ns(base) for row in self._rows]
        lengths_ns = (
            after.at_ns - row.at_ns for row, after in itertools.pairwise(self._rows)
        )
        pieces = [
            ramp(rate, after, length_ns)
            if self.shape == "ramp"
            else hold(rate, length_ns)
            for (rate, after), length_ns in zip(
                itertools.pairwise(rates), lengths_ns, strict=True
            )
        ]
        return [*pieces, hold(rates[-1], 1)]


def _form(value: Any) -> str:
    is_file = isinstance(value, (dict, RateFile))
    return f"{UNION_TAG}file]" if is_file else f"{UNION_TAG}list]"


#: Chosen by form, so that the faults are those of the form that is meant.
Stages = Annotated[
    Annotated[list[Stage], Field(min_length=1), Tag(f"{UNION_TAG}list]")]
    | Annotated[RateFile, Tag(f"{UNION_TAG}file]")],
    Discriminator(_form),
]


#: Most requests in flight on one connection, where a stream's operations allow more
#: than one.
DEFAULT_IN_FLIGHT = 16


LoadKind = Literal["closed", "open", "trace"]


@dataclass(frozen=True)
class _KindOfLoad:
    """The keys of one kind of load."""

    noun: str
    #: Keys of which each tells the kind.
    telling: tuple[str, ...]
    others: tuple[str, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        return self.telling + self.others


_KINDS: dict[LoadKind, _KindOfLoad] = {
    "closed": _KindOfLoad("a closed loop", ("clients",), ("think_time",)),
    "open": _KindOfLoad(
        "an open loop",
        ("rate", "stages"),
        ("arrivals", "connections", "in_flight", "max_backlog"),
    ),
    "trace": _KindOfLoad("a trace", ("trace",), ()),
}


class Load(Section):
    """How a stream's requests arrive. `clients` is a closed loop: each virtual client,
    with a connection of its own, sends its next request after the last response.
    `rate`, `stages` or both are an open loop: arrivals follow a schedule whatever the
    server does; an arrival that finds no free connection waits, and its response time
    counts from when it was due. `trace` sends the requests of a directory's log, each
    at its time, in place of operations."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {
                    "anyOf": [{"required": [key]} for key in kind.telling],
                    "propertyNames": {"enum": list(kind.keys)},
                }
                for kind in _KINDS.values()
            ]
        }
    )

    clients: Annotated[Count, Field(le=MAX_CONNECTIONS)] | None = Field(
        default=None, examples=[16]
    )
    """virtual clients, in total over all agents"""
    think_time_ns: Duration = 0
    """pause of a client between a completion and its next request"""
    rate: RateField | None = Field(default=None, examples=["500/s"])
    """arrivals, in total over all agents; with `stages`, what their multiples such as
    0.75x are of"""
    stages: Stages | None = Field(
        default=None, examples=["[{rate: 100/s, for: 60s}, {ramp_to: 500/s, for: 60s}]"]
    )
    """the rate over the measure phase: a list of stages, or a file. ramp_up rises to
    their first rate and warm_up holds it; after them the last rate holds"""
    arrivals: Literal["constant", "poisson", "uniform"] = "constant"
    """spacing of an open loop's arrivals; constant: equal distances; poisson:
    exponential distances, as of many independent users; uniform: each at random within
    its equal distance"""
    connections: Annotated[Count, Field(le=MAX_CONNECTIONS)] = 4
    """connections of an open loop, in total over all agents"""
    in_flight: Annotated[Count, Field(le=1024)] | None = None
    """most requests, or sessions, of an open loop in flight on one connection; 16 if
    left out, or 1 where the stream's operations need a connection of their own"""
    max_backlog: CountOrDurationField = CountOrDuration(duration_ns=10 * NS_PER_S)
    """most arrivals of an open loop that may wait, in total over all agents: a count,
    or the arrivals of a duration at the highest rate; arrivals beyond it are dropped,
    and counted"""
    trace: Trace | None = None
    """the requests of a directory's log, at its times"""

    #: Connections that the log of the trace needs; 0 where it was not read.
    _needed: int = PrivateAttr(default=0)

    def _choices(self) -> Iterator[Found]:
        """Yield faults of keys that do not belong to one kind of load."""
        yield from super()._choices()
        given = [
            name.removesuffix("_ns")
            for name in type(self).model_fields
            if name in self.model_fields_set and getattr(self, name) is not None
        ]
        kinds = [
            (key, kind)
            for kind in _KINDS.values()
            if (key := next(filter(given.__contains__, kind.telling), None))
        ]
        if len(kinds) > 1:
            nouns = " and ".join(f"{key} ({kind.noun})" for key, kind in kinds)
            reason = f"expected a load of one kind, got {nouns}"
            yield (), Fault(reason, f"keep one of {one_of([key for key, _ in kinds])}")
        elif kinds:
            ((telling, kind),) = kinds
            for key in given:
                if key not in kind.keys:
                    other = next(
                        other for other in _KINDS.values() if key in other.keys
                    )
                    hint = (
                        f"{kind.noun} has {', '.join(kind.keys)}; for {other.noun} "
                        f"write {one_of(other.telling)} in place of {telling}"
                    )
                    yield (key, KEY), Fault(f"{kind.noun} has no {key!r}", hint)
        else:
            reason = "expected clients, rate, stages or trace, got none of them"
            hint = "add clients: 16 for a closed loop, or rate: 500/s for an open one"
            yield (), Fault(reason, hint)

    @checked
    def _rates_go_together(self) -> Iterator[Found]:
        """Multiples are of a rate that is given, and a rate has multiples."""
        has_rate = self.rate is not None
        if isinstance(self.stages, RateFile):
            if self.stages.is_relative and not has_rate:
                reason = f"the rates of {self.stages.file!r} are multiples of `rate`"
                hint = "add rate, such as 500/s"
                yield (), Fault(f"{reason}, which is not given", hint)
        elif self.stages:
            multiples = [
                ((index, key), rate)
                for index, stage in enumerate(self.stages)
                for key, rate in stage.rates()
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

    @checked
    def _count_connections(self, reading: Reading) -> Iterator[Found]:
        """Count the connections of a trace where the job does not give their number."""
        if (trace := self.trace) is None or trace.connections is not None:
            return
        paths = [path for name in trace.logs if (path := reading.named.get(name))]
        if len(paths) < len(trace.logs):
            return
        # late: most jobs have no log
        from ldapslam.jobs.replay.read import connections_needed

        try:
            self._needed = connections_needed(trace, paths)
        except ConfigError as error:
            yield ("trace", "logs"), Fault(str(error), error.hint)
        if self._needed > MAX_CONNECTIONS:
            reason = (
                f"at speed {trace.speed} the log needs {self._needed:,} connections, "
                f"and a stream has at most {MAX_CONNECTIONS:,}"
            )
            yield ("trace", "speed"), Fault(reason, "take a lower speed")

    @property
    def is_known(self) -> bool:
        """Whether the rate is; not where the file of its stages was not read."""
        return not isinstance(self.stages, RateFile) or self.stages.is_known

    def segments(self) -> list[Segment]:
        """Return the rate from the beginning of the stages on, in at least one segment;
        the last rate holds."""
        if isinstance(self.stages, RateFile):
            return self.stages.segments(self.rate)
        if self.stages is None:
            if self.rate is None:
                raise ValueError("an open load without a rate")
            return [hold(self.rate.events / self.rate.per_ns, 1)]
        pieces: list[Segment] = []
        before = 0.0
        for stage in self.stages:
            pieces.append(stage.segment(before, self.rate))
            before = pieces[-1].rate_at(pieces[-1].duration_ns)
        return pieces

    @property
    def stages_ns(self) -> int | None:
        """Length of the stages; None without stages, and of a file: its last rate has
        no end."""
        if self.stages is None or isinstance(self.stages, RateFile):
            return None
        return sum(stage.duration_ns for stage in self.stages)

    @property
    def max_backlog_arrivals(self) -> int:
        """`max_backlog`, in arrivals."""
        if self.max_backlog.count is not None:
            return self.max_backlog.count
        wait_ns = self.max_backlog.duration_ns or 0
        if self.stages is None and self.rate is not None:
            return max(1, self.rate.arrivals(wait_ns))
        return max(1, math.ceil(peak_rate(self.segments()) * wait_ns))

    @model_serializer(mode="wrap")
    def _keys_of_its_kind(
        self, serialize: SerializerFunctionWrapHandler
    ) -> dict[str, Any]:
        keys = _KINDS[self.kind].keys
        content: dict[str, Any] = serialize(self)
        return {
            name: value
            for name, value in content.items()
            if name.removesuffix("_ns") in keys
        }

    @property
    def kind(self) -> LoadKind:
        """Closed or open loop, or trace."""
        if self.clients is not None:
            return "closed"
        return "open" if self.trace is None else "trace"

    @property
    def is_scheduled(self) -> bool:
        """Whether requests are due at times that do not depend on the server."""
        return self.kind == "open" or bool(self.trace and self.trace.factor)

    @property
    def total_connections(self) -> int:
        """Connections over all agents; a closed loop's client has one each."""
        if self.trace is not None:
            return self.trace.connections or max(1, self._needed)
        return self.clients or self.connections
