# SPDX-License-Identifier: Apache-2.0
"""The highest load that holds an objective: bracketing, bisection, confirmation. Pure.

A load holds when the verdict of its run is PASS. The search multiplies the load until a
run does not hold, narrows the gap between what holds and what does not down to the
precision, and confirms the highest load that held by a longer run. An overloaded run
says where to look next: what it achieved is close to the capacity. Otherwise the gap is
bisected on the logarithm.

A confirmation that fails makes its load one that does not hold: a capacity is never one
whose confirming run failed. An INVALID run is tried again, and after `patience` of them
its load counts as not held: no higher one could be certified.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

PASS, FAIL, INVALID = "PASS", "FAIL", "INVALID"

_GROWTH = 4.0
#: A run that achieved less than this share of its load was overloaded.
_OVERLOADED = 0.98
#: Guesses by what overloaded runs achieved; then only bisection, which always ends.
_MOST_GUESSES = 3


@dataclass(frozen=True)
class Range:
    """Where to search; loads are multiples of `step`."""

    lowest: float
    highest: float
    #: Largest gap between what holds and what does not, as a share of what holds.
    precision: float = 0.03
    #: Loads are multiples of this: 1 for clients.
    step: float = 1.0
    #: INVALID runs of a load until it counts as not held.
    patience: int = 2

    def rounded(self, load: float) -> float:
        """The nearest load of the range."""
        return min(max(round(load / self.step) * self.step, self.lowest), self.highest)


@dataclass(frozen=True)
class Probe:
    """A run that was made, or that is wanted."""

    load: float
    is_confirmation: bool = False
    #: Of a run that was made.
    verdict: str = ""
    #: The load that it achieved, where loads are rates.
    achieved: float | None = None


@dataclass(frozen=True)
class Found:
    """The answer of a search that is over."""

    #: The highest load that held, confirmed; None: not even the lowest did.
    capacity: float | None
    #: The lowest load that did not hold, and its verdict; None: all of the range held.
    above: float | None
    above_verdict: str = ""


@dataclass
class _Evidence:
    held: set[float] = field(default_factory=set)
    #: Load -> the run that showed that it does not hold.
    not_held: dict[float, Probe] = field(default_factory=dict)
    confirmed: set[float] = field(default_factory=set)
    guesses: int = 0


def next_probe(limits: Range, made: Sequence[Probe]) -> Probe | Found:
    """The run that the search wants next, or its answer."""
    known = _evidence(limits, made)
    if made and made[-1].verdict == INVALID and made[-1].load not in known.not_held:
        return Probe(made[-1].load, made[-1].is_confirmation)
    high = min(known.not_held, default=None)
    low = max((one for one in known.held if high is None or one < high), default=None)
    if low is None:
        if high is None or high > limits.lowest:
            return Probe(limits.lowest)
        return Found(None, high, known.not_held[high].verdict)
    if high is None:
        wanted = limits.rounded(low * _GROWTH)
    else:
        wanted = _between(limits, low, high, known)
    if wanted != low:
        return Probe(wanted)
    if low not in known.confirmed:
        return Probe(low, is_confirmation=True)
    verdict = "" if high is None else known.not_held[high].verdict
    return Found(low, high, verdict)


def _between(limits: Range, low: float, high: float, known: _Evidence) -> float:
    """A load between what holds and what does not; `low` when they are close enough."""
    if high - low <= max(limits.precision * low, limits.step) * (1 + 1e-9):
        return low
    achieved = known.not_held[high].achieved
    near = low * (1 + 0.1 * limits.precision)  # as good as tried
    middle = limits.rounded(math.sqrt(low * high))
    if achieved is not None and achieved < _OVERLOADED * high:
        guesses = [
            limits.rounded(achieved * (1 + sign * 0.45 * limits.precision))
            for sign in (-1, 1)
        ]
        if known.guesses < _MOST_GUESSES:
            for guess in guesses:
                if near < guess < high:
                    return guess
        if guesses[-1] <= near:  # short of the limit by little, then by more and more
            beyond = sum(guesses[0] < one <= low for one in known.held)
            step = 2 * limits.precision * 2 ** (beyond - 1)
            wanted = limits.rounded(low * (1 + step))
            if low < wanted < middle:
                return wanted
    return middle if low < middle < high else limits.rounded(low + limits.step)


def _evidence(limits: Range, made: Sequence[Probe]) -> _Evidence:
    known = _Evidence()
    invalid: dict[float, int] = {}
    for one in made:
        if one.verdict == PASS:
            known.held.add(one.load)
            if one.is_confirmation:
                known.confirmed.add(one.load)
            continue
        if one.verdict != FAIL:
            invalid[one.load] = invalid.get(one.load, 0) + 1
            if invalid[one.load] < limits.patience:
                continue
        known.guesses += not one.is_confirmation
        known.not_held[one.load] = one
    return known
