# SPDX-License-Identifier: Apache-2.0
"""The gate: is the new side worse than the old one by more than a tolerance? Pure.

Runs of both sides alternate, in pairs; each pair gives the loss of every figure, and so
what the host did to both runs is not in it. The pairs are looked at as they come
(reports/comparing/sequential.py), and the gate ends when the answer is clear, or its
time is over:

- a *regression*: a figure is worse, by Holm over all figures, and by more than its
  tolerance;
- *no regression*: the 95 % interval of every figure's loss lies below its tolerance;
- else the gate *cannot tell*, and says which loss it would have found.

Losses are on the scale on which they add up: of a time ln(new / old), of a rate ln(old
/ new), of a share of errors new - old.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ldapslam.base.fault import Fault, unknown
from ldapslam.base.units import parse_ratio
from ldapslam.reports.comparing.readings import METRICS, Metric, Readings
from ldapslam.reports.comparing.sequential import (
    FIRST_LOOK,
    Looked,
    Plan,
    look,
    looks,
    needed_size,
    smallest_found,
)

FloatArray = npt.NDArray[np.float64]

OLD, NEW = "old", "new"
REGRESSION, NO_REGRESSION = "regression", "no regression"
CANNOT_TELL = "cannot tell"
ANSWERS = (REGRESSION, NO_REGRESSION, CANNOT_TELL)

#: What is judged when nothing is chosen.
DEFAULT_METRICS = ("throughput", "p50", "p99", "errors")
_RATES = ("throughput", "goodput")
_ERRORS = "errors"
#: Of shares of requests; those of times and rates are the user's.
_TOLERANCE_OF_ERRORS = 0.01

#: Title of an operation and metric.
Key = tuple[str, Metric]


@dataclass(frozen=True)
class Tolerances:
    """How much worse the new side may be."""

    #: Of times and rates, as a share of the old side's.
    general: float = 0.05
    #: Metric -> its own; of errors the difference of the shares.
    of_metric: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, texts: Sequence[str]) -> Tolerances:
        """From `5%` and `p99=10%`; Fault."""
        general, of_metric = cls.general, {}
        for text in texts:
            name, equals, share = text.rpartition("=")
            value = float(parse_ratio(share.strip()))
            if not 0 < value < 1:
                raise Fault(f"expected more than 0% and less than 100%, got {text!r}")
            if equals:
                of_metric[known_metric(name.strip())] = value
            else:
                general = value
        return cls(general, of_metric)

    def of_key(self, metric: Metric) -> float:
        default = _TOLERANCE_OF_ERRORS if metric.name == _ERRORS else self.general
        return self.of_metric.get(metric.name, default)

    def bound(self, metric: Metric) -> float:
        """The largest loss that is tolerated, on its scale."""
        share = self.of_key(metric)
        return _shifted(metric, share) if metric.is_ratio else share


def known_metric(name: str) -> str:
    """A metric's name; Fault when there is none of this name."""
    if name not in METRICS:
        raise unknown("metric", name, METRICS)
    return name


def order_of(seed: int) -> Iterator[tuple[str, str]]:
    """Which side is first in each pair: one of two neighbours has the old side first,
    the other the new one; which of them is drawn."""
    rng = random.Random(seed)
    while True:
        pair = [(OLD, NEW), (NEW, OLD)]
        rng.shuffle(pair)
        yield from pair


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of an operation at the end, or at a look."""

    operation: str
    metric: Metric
    tolerance: float
    #: Geometric means (of errors, arithmetic ones) of both sides, in units of
    #: result.json; None where it is missing in a run.
    old: float | None
    new: float | None
    #: new / old, of errors new - old; with its interval. None as above.
    change: tuple[float, float, float] | None
    #: REGRESSION, NO_REGRESSION or CANNOT_TELL.
    answer: str
    #: The change of the size that would have been found in 80 % of gates; towards what
    #: is worse. None where it is not known.
    found: float | None
    #: Why there is no value; empty where there is.
    needs: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the gate has found."""

    pairs: int
    figures: tuple[Figure, ...]

    @property
    def answer(self) -> str:
        answers = {one.answer for one in self.figures}
        if REGRESSION in answers:
            return REGRESSION
        return NO_REGRESSION if answers == {NO_REGRESSION} else CANNOT_TELL


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What gates find of a change of this size."""

    #: The new side is worse by this share.
    change: float
    #: Answer -> share of the gates.
    answers: Mapping[str, float]
    #: Median of the pairs that they made.
    pairs: float


class Gate:
    """The pairs so far, and what they say."""

    def __init__(self, metrics: Sequence[str], tolerances: Tolerances) -> None:
        self._metrics, self._tolerances = metrics, tolerances
        #: Of each pair: the old run's readings and the new one's.
        self.pairs: list[tuple[Readings, Readings]] = []
        #: Set by `plan_for`.
        self.plan: Plan | None = None
        self._keys: list[Key] = []
        self._is_within: npt.NDArray[np.bool_] = np.zeros(0, bool)
        self._looked: Looked | None = None

    def add(self, old: Readings, new: Readings) -> None:
        """One more pair. A look that is due is taken."""
        self.pairs.append((old, new))
        if len(self.pairs) == 1:
            keys = dict.fromkeys((*old, *new))
            self._keys = [one for one in keys if one[1].name in self._metrics]
            self._is_within = np.zeros(len(self._keys), bool)
        if self.plan and len(self.pairs) in self.plan.sizes:
            self._look(self.plan)

    def plan_for(self, most: int) -> None:
        """Pairs will be up to `most`, at least FIRST_LOOK."""
        self.plan = Plan.of(looks(max(most, FIRST_LOOK)), max(len(self._keys), 1))

    def end(self) -> None:
        """There will be no more pairs: the look at the last ones, unless it was."""
        if self.plan and 2 <= len(self.pairs) < self.plan.sizes[-1]:
            self.plan = self.plan.ended_at(len(self.pairs))
            self._look(self.plan)

    @property
    def is_clear(self) -> bool:
        """Whether more pairs would not change the answer."""
        return self.answer().answer != CANNOT_TELL

    def _look(self, plan: Plan) -> None:
        """What a look has found to be within its tolerance stays so."""
        place = plan.sizes.index(len(self.pairs))
        self._looked = look(self._losses(), self._bounds(), plan, place)
        self._is_within |= self._looked.is_within

    def _bounds(self) -> FloatArray:
        return np.array([self._tolerances.bound(metric) for _, metric in self._keys])

    def _losses(self) -> FloatArray:
        """Shape (pairs, keys)."""
        rows = [
            [_loss(key[1], _value(old, key), _value(new, key)) for key in self._keys]
            for old, new in self.pairs
        ]
        return np.array(rows, np.float64).reshape(len(rows), len(self._keys))

    def spreads(self) -> Mapping[Key, float]:
        """Standard deviation of each figure's losses."""
        found = self._losses().std(axis=0, ddof=1).tolist()
        return dict(zip(self._keys, found, strict=True))

    def needed(self) -> Mapping[Key, int | None]:
        """The pairs after which the gate can tell in 80 % of cases that there is no
        regression, by the spread so far; None: more than there will be."""
        assert self.plan is not None
        return {
            key: needed_size(spread, self._tolerances.bound(key[1]), self.plan)
            for key, spread in self.spreads().items()
        }

    def answer(self) -> Answer:
        """By the last look."""
        figures = [self._figure(place, key) for place, key in enumerate(self._keys)]
        return Answer(len(self.pairs), tuple(figures))

    def _figure(self, place: int, key: Key) -> Figure:
        operation, metric = key
        sides = [[side.get(key) for side in pair] for pair in self.pairs]
        values = [
            _mean(metric, [_value(p[n], key) for p in self.pairs]) for n in (0, 1)
        ]
        needs = next(
            (
                one.needs if one else "this figure in every run"
                for pair in sides
                for one in pair
                if one is None or one.value is None
            ),
            "" if None not in values else "values above 0 in every run",
        )
        answer, change, found = CANNOT_TELL, None, None
        looked = self._looked
        if looked is not None and not needs:
            if looked.is_worse[place]:
                answer = REGRESSION
            elif self._is_within[place]:
                answer = NO_REGRESSION
            mean, reach = float(looked.mean[place]), float(looked.reach[place])
            ends = [_change(metric, one) for one in (mean, mean - reach, mean + reach)]
            change = ends[0], min(ends[1:]), max(ends[1:])
            spread = float(looked.error[place]) * math.sqrt(len(self.pairs))
            bound = self._tolerances.bound(metric)
            assert self.plan is not None
            found = _change(metric, smallest_found(spread, bound, self.plan))
        old, new = values
        tolerance = self._tolerances.of_key(metric)
        return Figure(
            operation, metric, tolerance, old, new, change, answer, found, needs
        )

    def rehearse(
        self, changes: Sequence[float], *, gates: int = 1000, seed: int = 0
    ) -> tuple[Rehearsed, ...]:
        """What gates like this one would find, if the new side were worse by each of
        these shares in all times and rates; where both sides are the same. Pairs are
        drawn with replacement, with their sides swapped at random."""
        losses, bounds = self._losses(), self._bounds()
        plan, rng = self.plan, np.random.default_rng(seed)
        if plan is None or len(losses) < FIRST_LOOK or np.isnan(losses).any():
            return ()
        found = []
        for share in changes:
            added = np.array([_shifted(metric, share) for _, metric in self._keys])
            ends = []
            for _ in range(gates):
                drawn = rng.integers(len(losses), size=plan.sizes[-1])
                swapped = rng.choice((-1.0, 1.0), size=(len(drawn), 1))
                ends.append(_end_of(losses[drawn] * swapped + added, bounds, plan))
            answers = [answer for answer, _ in ends]
            pairs = float(np.median([size for _, size in ends]))
            shares = [answers.count(one) / gates for one in ANSWERS]
            found.append(
                Rehearsed(share, dict(zip(ANSWERS, shares, strict=True)), pairs)
            )
        return tuple(found)


def _end_of(losses: FloatArray, bounds: FloatArray, plan: Plan) -> tuple[str, int]:
    """The answer of a gate with these losses, and the pairs that it made."""
    is_within = np.zeros(len(bounds), bool)
    for place, size in enumerate(plan.sizes):
        looked = look(losses[:size], bounds, plan, place)
        is_within |= looked.is_within
        if looked.is_worse.any():
            return REGRESSION, size
        if is_within.all():
            return NO_REGRESSION, size
    return CANNOT_TELL, plan.sizes[-1]


def _shifted(metric: Metric, share: float) -> float:
    """The loss of a side that is worse by this share."""
    if not metric.is_ratio:
        return 0.0
    return -math.log1p(-share) if metric.name in _RATES else math.log1p(share)


def _value(readings: Readings, key: Key) -> float | None:
    found = readings.get(key)
    return None if found is None else found.value


def _loss(metric: Metric, old: float | None, new: float | None) -> float:
    """NaN where it is missing."""
    if old is None or new is None:
        return math.nan
    if not metric.is_ratio:
        return new - old
    if min(old, new) <= 0:
        return math.nan
    return math.log(old / new if metric.name in _RATES else new / old)


def _change(metric: Metric, loss: float) -> float:
    """new / old, or new - old, of a loss."""
    if not metric.is_ratio:
        return loss
    return math.exp(-loss if metric.name in _RATES else loss)


def _mean(metric: Metric, values: Sequence[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    if len(known) < len(values):
        return None
    if not metric.is_ratio:
        return math.fsum(known) / len(known)
    if min(known) <= 0:
        return None
    return math.exp(math.fsum(map(math.log, known)) / len(known))
