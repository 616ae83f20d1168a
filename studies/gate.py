# SPDX-License-Identifier: Apache-2.0
"""The gate: is the new side worse than the old side by more than a tolerance? Pure.

Runs of both sides alternate, in pairs; each pair gives the loss of every figure, and so
what the host did to both runs is not in it. With a baseline the old side is runs that
were made before. The runs are looked at as they come (reports/comparing/sequential.py),
and the gate ends when the answer is clear, or its time is over:

- a *regression*: a figure is worse, by Holm over all figures, and by more than its
  tolerance; or more runs of the new side FAIL;
- *no regression*: the 95 % interval of every figure's loss lies below its tolerance,
  and no run of the new side FAILs;
- else the gate *cannot tell*, and says which loss it would have found. So it does where
  an error ended it, or too many runs were left out.

Losses are on the scale on which they add up: of a time ln(new / old), of a rate ln(old
/ new), of a share of errors new - old.
"""

from __future__ import annotations

import math
import random
from collections.abc import (
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from scipy import special

from ldapslam.base.arrays import Floats
from ldapslam.base.fault import Fault
from ldapslam.base.units import parse_ratio
from ldapslam.jobs.fields.thresholds import PERCENTILES, FigureName, samples_needed
from ldapslam.reports.comparing.change import (
    difference_of_estimates,
)
from ldapslam.reports.comparing.sequential import (
    FIRST_LOOK,
    Looked,
    Means,
    Plan,
    look,
    looks,
    smallest_found,
)
from ldapslam.reports.figures import Figure, Readings, metric_of
from ldapslam.reports.uncertainty import Estimate, share_interval

OLD, NEW = "old", "new"
REGRESSION, NO_REGRESSION = "regression", "no regression"
CANNOT_TELL = "cannot tell"
ANSWERS = (REGRESSION, NO_REGRESSION, CANNOT_TELL)

#: What is judged when nothing is chosen.
DEFAULT_METRICS = ("throughput", "p50", "p99", "errors")
#: Default metrics that are left out for operations with too few requests and no time
#: for more.
LEAVABLE_METRICS = ("p99",)
#: As a share of a side's runs: more that are left out make the rest a selection.
_MOST_UNSOUND = 1 / 3
#: Runs differ: beyond what percentiles need.
_ROOM = 1.25
#: Tolerated change in the CPU share of other processes of a host.
_OTHER_CPU_SHARE = 0.05
#: Largest logarithm of a number that a float holds.
_MOST_LOGARITHM = 700.0
#: What is counted, of a gate that is paired or not.
_UNITS = {True: "pairs", False: "runs"}
#: Of shares of requests; those of times and rates are the user's.
_TOLERANCE_OF_SHARES = 0.01


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
            value = parse_ratio(share.strip(), is_share=False)
            metric = metric_of(name.strip()) if equals else None
            if not 0 < value < _most_tolerated(metric):
                raise _intolerable(text, metric)
            if metric:
                of_metric[metric.name] = value
            else:
                general = value
        return cls(general, of_metric)

    def of_figure(self, name: FigureName) -> float:
        default = self.general if name.is_ratio else _TOLERANCE_OF_SHARES
        return self.of_metric.get(name.short, default)

    def bound(self, name: FigureName) -> float:
        """The largest loss that is tolerated, on its scale."""
        share = self.of_figure(name)
        return _shifted(name, share) if name.is_ratio else share


def _most_tolerated(metric: FigureName | None) -> float:
    """A time may be many times as long; a rate falls, a share of errors rises, by no
    more than all of it. None: all of them."""
    is_time = metric is not None and metric.is_ratio and not metric.is_rate
    return math.inf if is_time else 1.0


def _intolerable(text: str, metric: FigureName | None) -> Fault:
    if _most_tolerated(metric) > 1:
        return Fault(f"expected more than 0%, got {text!r}")
    of_time = "" if metric else "; of a time it may be more, as in p99=150%"
    return Fault(
        f"expected more than 0% and less than 100%, got {text!r}",
        f"no rate falls and no share of errors rises by more than 100%{of_time}",
    )


def times_longer(
    readings: Readings, metrics: Collection[str]
) -> dict[FigureName, float]:
    """Percentiles among the metrics for which a run with these readings is too short ->
    the factor by which it has to be longer to have the requests."""
    factors = dict[FigureName, float]()
    for name, reading in readings.items():
        p = PERCENTILES.get(name.statistic or "")
        if name.short in metrics and p is not None and reading.sample:
            times = _ROOM * samples_needed(p) / reading.sample
            if times > 1:
                factors[name] = times
    return factors


def order_of(seed: int) -> Iterator[tuple[str, str]]:
    """Yield the order of the sides in each pair: of two successive pairs, one has the
    old side first, the other the new side, at random."""
    rng = random.Random(seed)
    while True:
        pair = [(OLD, NEW), (NEW, OLD)]
        rng.shuffle(pair)
        yield from pair


@dataclass(frozen=True, slots=True)
class JudgedFigure:
    """A figure of an operation, at the look that decided it, else at the last look."""

    name: FigureName
    tolerance: float
    #: How many pairs that look was at, and what they are; 0 before the first.
    pairs: int
    unit: str
    #: Geometric means (arithmetic for errors) of both sides, in units of
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
    #: The same change by the last look, where that would not have decided so; with its
    #: pairs.
    last: tuple[float, float, float] | None = None
    last_pairs: int = 0


@dataclass(frozen=True, slots=True)
class OtherHost:
    """What else the host did was not what it did in the runs of the baseline. Shares of
    its CPU time."""

    #: On average.
    now: float
    #: The least and the most.
    then: tuple[float, float]

    @property
    def hides(self) -> str:
        """What may come from that: a busier host is a regression, a quieter one hides
        one."""
        return REGRESSION if self.now > self.then[1] else NO_REGRESSION


@dataclass(frozen=True, slots=True)
class Answer:
    """What the gate has found."""

    #: Of runs; with a baseline, new runs.
    pairs: int
    figures: tuple[JudgedFigure, ...]
    is_paired: bool = True
    #: Side -> number of its runs, of failed runs, and of discarded runs.
    runs: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, int] = field(default_factory=dict)
    unsound: Mapping[str, int] = field(default_factory=dict)
    #: What the runs that FAIL say.
    of_failed: str = CANNOT_TELL
    #: The error that ended the gate; empty when none did.
    problem: str = ""
    #: Where it keeps figures from being told.
    host: OtherHost | None = None

    @property
    def sample(self) -> str:
        """What is counted."""
        return "Pairs of runs" if self.is_paired else "New runs"

    @property
    def unit(self) -> str:
        """The same, in a word."""
        return _UNITS[self.is_paired]

    @property
    def is_biased(self) -> bool:
        """Whether too many runs were discarded for the rest to be representative."""
        return any(
            count > _MOST_UNSOUND * self.runs[side]
            for side, count in self.unsound.items()
        )

    @property
    def is_open(self) -> bool:
        """Whether more runs may tell: only the spread of a figure is in the way."""
        is_told = self.is_biased or self.host or self.problem
        return (
            not is_told
            and self.answer == CANNOT_TELL
            and any(one.answer == CANNOT_TELL and one.change for one in self.figures)
        )

    @property
    def answer(self) -> str:
        figures = () if self.is_biased else self.figures
        found = joint_answer([self.of_failed, *(one.answer for one in figures)])
        is_whole = bool(figures) and not self.problem
        return found if is_whole or found == REGRESSION else CANNOT_TELL


def joint_answer(answers: Collection[str]) -> str:
    """Of several: one regression is one; all have to pass."""
    if REGRESSION in answers:
        return REGRESSION
    return NO_REGRESSION if set(answers) == {NO_REGRESSION} else CANNOT_TELL


@dataclass(frozen=True, slots=True)
class _Look:
    """A look that was taken."""

    looked: Looked
    #: As it was then, and the look's number in it.
    plan: Plan
    place: int

    @property
    def size(self) -> int:
        return self.plan.sizes[self.place]


@dataclass(frozen=True, slots=True)
class Made:
    """A run that was made."""

    side: str
    run_id: str
    verdict: str
    reasons: Sequence[str]
    #: Whether its figures count: they are the server's.
    is_sound: bool
    ended_utc: str = ""
    #: It was too short, and showed how long the others have to be.
    is_pilot: bool = False
    #: Thresholds that it is not certain of, where it is INVALID for these alone: its
    #: figures count.
    uncertain: Sequence[str] = ()
    readings: Readings = field(default_factory=dict)
    #: Share of other processes than the gate and its labs in the CPU time of the
    #: gate's host; None if unknown.
    other_cpu_share: float | None = None


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What gates find of a change of this size."""

    #: The new side is worse by this share.
    change: float
    #: Answer -> share of the gates.
    answers: Mapping[str, float]
    #: Median of the pairs that they made.
    pairs: float
    #: Figure -> the share of the gates that call it a regression.
    found_by: Mapping[FigureName, float]


class Gate:
    """The runs so far, and what they say."""

    def __init__(
        self,
        metrics: Sequence[str],
        tolerances: Tolerances,
        baseline: Sequence[Readings] = (),
        days: Sequence[str] = (),
        other_cpu_shares: Sequence[float | None] = (),
        failed: int = 0,
    ) -> None:
        """`baseline`: the valid runs of the old side, at least two, with their days and
        the CPU shares of other processes; `failed`: the number of its failed runs.
        Without a baseline, runs are in pairs."""
        self.metrics, self._tolerances = metrics, tolerances
        #: CPU shares of other processes in the baseline's runs, and in the new runs.
        self._other_then = other_cpu_shares
        self._other_now = list[float | None]()
        self.is_paired, self._days = not baseline, days
        self._old, self._new = list(baseline), list[Readings]()
        #: Side -> number of its runs, of failed runs, and of discarded runs.
        self.made = {OLD: len(baseline) + failed, NEW: 0}
        self.failed = {OLD: failed, NEW: 0}
        self.unsound = {OLD: 0, NEW: 0}
        #: Set by `plan_for`.
        self.plan: Plan | None = None
        self._names: list[FigureName] = []
        #: Figures that are not judged.
        self._left_out: set[FigureName] = set()
        #: Figure -> the first look that found it within its tolerance.
        self._within: dict[FigureName, _Look] = {}
        self._last: _Look | None = None
        self._of_failed = CANNOT_TELL
        self._problem = ""

    def note(self, side: str, verdict: str, *, is_sound: bool) -> None:
        """A run was made, whether its figures count or not: a FAIL is for certain."""
        self.made[side] += 1
        self.failed[side] += verdict == "FAIL"
        self.unsound[side] += not is_sound

    @property
    def size(self) -> int:
        """Pairs so far; with a baseline, runs."""
        return len(self._new)

    def leave_out(self, names: Iterable[FigureName]) -> None:
        """Do not judge these figures; before the first run."""
        self._left_out.update(names)

    def add(
        self,
        new: Readings,
        old: Readings | None = None,
        *,
        other_cpu_share: float | None = None,
    ) -> None:
        """One more run of the new side, with the old one of its pair. A look that is
        due is taken."""
        if old is not None:
            self._old.append(old)
        self._new.append(new)
        self._other_now.append(other_cpu_share)
        seen = dict.fromkeys((*self._names, *(self._old[-1]), *new))
        self._names = [
            one
            for one in seen
            if one.short in self.metrics and one not in self._left_out
        ]
        if self.plan and self.size in self.plan.sizes:
            self._look(self.plan)

    def plan_for(self, most: int) -> None:
        """There will be up to `most` pairs or runs, at least FIRST_LOOK; to be called
        between the first of them and that look."""
        # the runs that FAIL are one more figure
        self.plan = Plan.of(looks(max(most, FIRST_LOOK)), len(self._names) + 1)

    def end(self, problem: str = "") -> None:
        """End the gate, because of an error or not, with a look at the last runs unless
        they had one."""
        self._problem = problem
        if self.plan and 2 <= self.size < self.plan.sizes[-1]:
            self.plan = self.plan.ended_at(self.size)
            self._look(self.plan)

    @property
    def is_clear(self) -> bool:
        """Whether more runs would not change the answer."""
        return self.answer().answer != CANNOT_TELL

    def _look(self, plan: Plan) -> None:
        """What a look has found to be within its tolerance stays so, until the interval
        lies beyond it."""
        means = (
            Means.of_pairs(self._losses())
            if self.is_paired
            else Means.of_sides(
                self._scaled(self._old), self._scaled(self._new), self._days
            )
        )
        plan = self.plan = plan.for_tests(len(self._names) + 1)
        place = plan.sizes.index(self.size)
        looked = look(means, self._bounds(), plan, place)
        last = self._last = _Look(looked, plan, place)
        is_within = looked.is_within & self._have_small_shares(plan, place)
        for at in np.flatnonzero(is_within):
            self._within.setdefault(self._names[at], last)
        self._of_failed = self._judged_failed(plan.level_of_events(place))

    def _have_small_shares(self, plan: Plan, place: int) -> npt.NDArray[np.bool_]:
        """Return whether each figure is no share, or is within its tolerance
        by the requests of all runs: without any error the spread between runs is 0,
        which is no evidence. By Wilson's intervals and Newcombe's difference
        (change.py)."""
        found = np.full(len(self._names), True)
        z = -float(special.ndtri(plan.levels[0][place]))
        for at, name in enumerate(self._names):
            if name.is_ratio:
                continue
            old, new = (_share_of(runs, name, z) for runs in (self._old, self._new))
            most = difference_of_estimates(old, new, math.inf).high
            found[at] = most < self._tolerances.bound(name)
        return found

    def _judged_failed(self, level: float) -> str:
        """A gate passes when the new side's runs do. That it has more that FAIL is a
        regression, by Barnard's exact test: six against none are."""
        if not self.failed[NEW]:
            return NO_REGRESSION
        from scipy import stats  # slow to load

        sides = (NEW, OLD)
        table = [
            [self.failed[one] for one in sides],
            [self.made[one] - self.failed[one] for one in sides],
        ]
        p = float(stats.barnard_exact(table, alternative="greater").pvalue)
        return REGRESSION if p <= level else CANNOT_TELL

    def _bounds(self) -> Floats:
        return np.array(list(map(self._tolerances.bound, self._names)))

    def _losses(self) -> Floats:
        """Return the losses of the pairs; shape (pairs, figures)."""
        return self._scaled(self._new) - self._scaled(self._old)

    def _scaled(self, runs: Sequence[Readings]) -> Floats:
        """Values of runs on the scale of losses; shape (runs, figures)."""
        rows = [[_scaled(one, run.get(one)) for one in self._names] for run in runs]
        return np.array(rows, np.float64).reshape(len(rows), len(self._names))

    def answer(self) -> Answer:
        """By the last look."""
        figures = [self._figure(*one) for one in enumerate(self._names)]
        of_failed, host = self._of_failed, self._host()
        hides = host.hides if host else ""
        hidden = [one for one in figures if one.answer == hides]
        for one in hidden:
            untold = replace(one, answer=CANNOT_TELL, found=None)
            figures[figures.index(one)] = untold
        is_failed_hidden = of_failed == REGRESSION == hides
        return Answer(
            self.size,
            tuple(figures),
            self.is_paired,
            dict(self.made),
            dict(self.failed),
            dict(self.unsound),
            CANNOT_TELL if is_failed_hidden else of_failed,
            self._problem,
            host if hidden or is_failed_hidden else None,
        )

    def _host(self) -> OtherHost | None:
        """Return the load of a host that was busier or quieter than in any run of the
        baseline, else None."""
        then = [one for one in self._other_then if one is not None]
        now = [one for one in self._other_now if one is not None]
        if not now or len(then) < len(self._old):
            return None
        mean, least, most = math.fsum(now) / len(now), min(then), max(then)
        if least - _OTHER_CPU_SHARE <= mean <= most + _OTHER_CPU_SHARE:
            return None
        return OtherHost(mean, (least, most))

    def _figure(self, place: int, name: FigureName) -> JudgedFigure:
        last, first = self._last, self._within.get(name)
        needs = self._needs(place, name)
        answer, decided = CANNOT_TELL, last
        if last is not None and not needs:
            if last.looked.is_worse[place]:
                answer = REGRESSION
            elif first is not None and not last.looked.is_beyond[place]:
                answer, decided = NO_REGRESSION, first
        # means are of the runs that the change is of
        size = self.size if decided is None else decided.size
        sides = self._old if not self.is_paired else self._old[:size], self._new[:size]
        old, new = (
            mean_of_runs(name, [_value(run.get(name)) for run in side])
            for side in sides
        )
        change = found = None
        if decided is not None and not needs:
            change = _interval(name, decided.looked, place)
            found = self._found(name, decided, place)
        figure = JudgedFigure(
            name,
            self._tolerances.of_figure(name),
            size if change is not None else 0,
            _UNITS[self.is_paired],
            old,
            new,
            change,
            answer,
            found,
            needs,
        )
        if last is None or decided is last or last.looked.is_within[place] or needs:
            return figure
        at_last = _interval(name, last.looked, place)
        return replace(figure, last=at_last, last_pairs=last.size)

    def _needs(self, place: int, name: FigureName) -> str:
        """Why a figure has no change; empty where it has one."""
        for run in (*self._old, *self._new):
            one = run.get(name)
            if one is None or one.value is None:
                return one.needs if one else "this figure in every run"
        is_zero = np.isnan(self._scaled((*self._old, *self._new))[:, place])
        return "values above 0 in every run" if is_zero.any() else ""

    def _found(self, name: FigureName, of: _Look, place: int) -> float:
        _, error, freedom = (float(one[place]) for one in of.looked.means)
        bound = self._tolerances.bound(name)
        least = smallest_found(error, freedom, bound, of.plan, of.place)
        return _change(name, least)

    def rehearse(
        self,
        changes: Sequence[float],
        *,
        held: Collection[str] = (),
        gates: int = 1000,
        seed: int = 0,
    ) -> tuple[Rehearsed, ...]:
        """Return what gates like this would find, if the new side were worse by each of
        these shares in all times and rates; where both sides are the same. Pairs are
        drawn with replacement, with their sides swapped at random. `held`: operations
        at the rate of a schedule, which is what does not fall."""
        plan, rng = self.plan, np.random.default_rng(seed)
        losses, bounds = self._losses(), self._bounds()
        if plan is None or len(losses) < FIRST_LOOK or np.isnan(losses).any():
            return ()
        found = []
        for share in changes:
            added = np.array(
                [
                    0.0 if one.title in held and one.is_rate else _shifted(one, share)
                    for one in self._names
                ]
            )
            ends = []
            for _ in range(gates):
                drawn = rng.integers(len(losses), size=plan.sizes[-1])
                swapped = rng.choice((-1.0, 1.0), size=(len(drawn), 1))
                ends.append(_end_of(losses[drawn] * swapped + added, bounds, plan))
            answers = [answer for answer, *_ in ends]
            pairs = float(np.median([size for _, size, _ in ends]))
            shares = [answers.count(one) / gates for one in ANSWERS]
            worse = np.mean([of for *_, of in ends], axis=0).tolist()
            found.append(
                Rehearsed(
                    share,
                    dict(zip(ANSWERS, shares, strict=True)),
                    pairs,
                    dict(zip(self._names, worse, strict=True)),
                )
            )
        return tuple(found)


def _end_of(
    losses: Floats, bounds: Floats, plan: Plan
) -> tuple[str, int, npt.NDArray[np.bool_]]:
    """The answer of a gate with these losses, the pairs that it made, and the figures
    that are worse."""
    is_within = np.zeros(len(bounds), bool)
    for place, size in enumerate(plan.sizes):
        looked = look(Means.of_pairs(losses[:size]), bounds, plan, place)
        is_within |= looked.is_within
        if looked.is_worse.any():
            return REGRESSION, size, looked.is_worse
        if is_within.all() and not looked.is_beyond.any():
            return NO_REGRESSION, size, looked.is_worse
    return CANNOT_TELL, plan.sizes[-1], looked.is_worse


def _shifted(name: FigureName, share: float) -> float:
    """The loss of a side that is worse by this share."""
    if not name.is_ratio:
        return 0.0
    return -math.log1p(-share) if name.is_rate else math.log1p(share)


def _share_of(runs: Sequence[Readings], name: FigureName, z: float) -> Estimate:
    """A share of all requests of these runs, with Wilson's interval."""
    readings = [one for run in runs if (one := run.get(name))]
    size = sum(one.sample for one in readings)
    counted = sum((one.value or 0.0) * one.sample for one in readings)
    return share_interval(counted / size if size else 0.0, size, z)


def _value(reading: Figure | None) -> float | None:
    return None if reading is None else reading.value


def _scaled(name: FigureName, reading: Figure | None) -> float:
    """On the scale of losses; NaN where it is missing."""
    value = _value(reading)
    if value is None or (name.is_ratio and value <= 0):
        return math.nan
    if not name.is_ratio:
        return value
    return -math.log(value) if name.is_rate else math.log(value)


def _interval(
    name: FigureName, looked: Looked, place: int
) -> tuple[float, float, float]:
    """A figure's change at a look, with its interval."""
    mean, reach = float(looked.means.mean[place]), float(looked.reach[place])
    value, *ends = (_change(name, one) for one in (mean, mean - reach, mean + reach))
    return value, min(ends), max(ends)


def _change(name: FigureName, loss: float) -> float:
    """new / old, or new - old, of a loss."""
    if not name.is_ratio:
        return loss
    logarithm = -loss if name.is_rate else loss
    return math.exp(logarithm) if logarithm < _MOST_LOGARITHM else math.inf


def mean_of_runs(name: FigureName, values: Sequence[float | None]) -> float | None:
    """Geometric, of errors arithmetic; None when it is missing in a run, or 0 where
    changes are ratios."""
    known = [one for one in values if one is not None]
    if len(known) < len(values):
        return None
    if not name.is_ratio:
        return math.fsum(known) / len(known)
    if min(known) <= 0:
        return None
    return math.exp(math.fsum(map(math.log, known)) / len(known))
