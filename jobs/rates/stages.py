# SPDX-License-Identifier: Apache-2.0
"""The `stages` of an open load: how its rate changes over the measure phase."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    Discriminator,
    Field,
    PlainSerializer,
    PlainValidator,
    PrivateAttr,
    Tag,
    WithJsonSchema,
)

from ldapslam.base.fault import Fault
from ldapslam.base.units import Rate
from ldapslam.jobs.fields.context import Reading
from ldapslam.jobs.fields.sections import (
    UNION_TAG,
    FileName,
    Kind,
    Place,
    PositiveDuration,
    Section,
    checked,
    known,
)
from ldapslam.jobs.rates.profile import Segment, hold, ramp, sine
from ldapslam.jobs.rates.rate_file import (
    RateTable,
    StageRate,
    format_stage_rate,
    parse_rate_file,
    parse_stage_rate,
)

_RATE_PATTERN = r"^\d+(?:\.\d+)?(?:[kM]?/(?:s|m|h)|x)$"

StageRateField = Annotated[
    StageRate,
    PlainValidator(parse_stage_rate),
    PlainSerializer(format_stage_rate, return_type=str),
    WithJsonSchema({"type": "string", "pattern": _RATE_PATTERN}),
    Kind("rate or multiple", format_stage_rate),
]


class Sine(Section):
    """A rate that swings about its mean, from the mean upwards first."""

    mean: StageRateField = Field(examples=["300/s"])
    """its mean"""
    amplitude: StageRateField = Field(examples=["200/s"])
    """how far above and below the mean it goes; at most the mean"""
    period_ns: PositiveDuration = Field(examples=["60s"])
    """length of one swing"""

    @checked
    def _never_below_zero(self) -> None:
        mean, amplitude = self.mean, self.amplitude
        if mean.is_relative == amplitude.is_relative and amplitude.value > mean.value:
            raise Fault(
                f"the amplitude {format_stage_rate(amplitude)} is above the mean "
                f"{format_stage_rate(mean)}",
                "a rate cannot be negative",
            )
        if mean.is_relative != amplitude.is_relative:
            raise Fault(
                "mean and amplitude are of two kinds", "write both as rates or as x"
            )


class Stage(Section):
    """A stretch of time: a rate that holds, a ramp from the rate before, or a sine."""

    exactly_one: ClassVar[tuple[str, ...]] = ("rate", "ramp_to", "sine")

    rate: StageRateField | None = None
    """a rate that holds; 0.75x is of the load's `rate`"""
    ramp_to: StageRateField | None = None
    """a rate that is reached in a straight line from the one before; from zero in the
    first stage"""
    sine: Sine | None = None
    """a rate that swings"""
    duration_ns: PositiveDuration = Field(alias="for", examples=["60s"])
    """how long the stage is"""

    def rates(self) -> Iterator[tuple[Place, StageRate]]:
        """The rates that are right, and where they are."""
        for place in (("rate",), ("ramp_to",), ("sine", "mean"), ("sine", "amplitude")):
            if (rate := known(self, *place)) is not None:
                yield place, rate

    def segment(self, before: float, base: Rate | None) -> Segment:
        """The stage after one that ended at the rate `before`, per ns."""
        if self.rate is not None:
            return hold(self.rate.per_ns(base), self.duration_ns)
        if self.ramp_to is not None:
            return ramp(before, self.ramp_to.per_ns(base), self.duration_ns)
        if self.sine is None:
            raise ValueError("a stage without a rate")
        return sine(
            self.sine.mean.per_ns(base),
            self.sine.amplitude.per_ns(base),
            self.sine.period_ns,
            self.duration_ns,
        )


class RateFile(Section):
    """Rates from a file: CSV of time and rate, with a header or without, or the
    variable-rate data of UnboundID's searchrate."""

    file: FileName = Field(examples=["rates.csv"])
    """its path, relative to the job file"""
    shape: Literal["step", "ramp"] = "step"
    """step: each rate holds until the next; ramp: straight lines between the rates of a
    CSV file"""

    _table: RateTable | None = PrivateAttr(default=None)

    @checked
    def _read(self, reading: Reading) -> None:
        text = reading.text_of(self.file)
        if text is None:
            return
        table = parse_rate_file(text, self.file)
        if table.repeats and self.shape == "ramp":
            raise Fault(
                f"{self.file!r} repeats, so it cannot be a ramp",
                "leave `shape` out: searchrate's rates are steps",
            )
        self._table = table

    @property
    def table(self) -> RateTable | None:
        """What the file says; None where files are not looked into."""
        return self._table


def _form(value: Any) -> str:
    is_file = isinstance(value, (dict, RateFile))
    return f"{UNION_TAG}file]" if is_file else f"{UNION_TAG}list]"


#: Chosen by form, so that the faults are those of the form that is meant.
Stages = Annotated[
    Annotated[list[Stage], Field(min_length=1), Tag(f"{UNION_TAG}list]")]
    | Annotated[RateFile, Tag(f"{UNION_TAG}file]")],
    Discriminator(_form),
]


def segments(
    stages: Iterable[Stage] | RateFile, base: Rate | None, *, until_ns: int
) -> list[Segment]:
    """The stages as pieces of a profile, from their beginning; at least one. What
    repeats does so until it is `until_ns` long."""
    if isinstance(stages, RateFile):
        return _of_table(stages, base, until_ns)
    pieces: list[Segment] = []
    before = 0.0
    for stage in stages:
        pieces.append(stage.segment(before, base))
        before = pieces[-1].rate_at(pieces[-1].duration_ns)
    return pieces


def _of_table(file: RateFile, base: Rate | None, until_ns: int) -> list[Segment]:
    if file.table is None:
        raise ValueError(f"the file {file.file!r} was not read")
    steps = file.table.steps
    rates = [step.rate.per_ns(base) for step in steps]
    pieces = [
        ramp(rate, after, step.duration_ns)
        if file.shape == "ramp"
        else hold(rate, step.duration_ns)
        for step, rate, after in zip(steps, rates, [*rates[1:], rates[-1]], strict=True)
        if step.duration_ns
    ]
    if not steps[-1].duration_ns:
        pieces.append(hold(rates[-1], 1))
    if not file.table.repeats:
        return pieces
    period_ns = sum(piece.duration_ns for piece in pieces)
    return pieces * max(1, -(-until_ns // period_ns))
