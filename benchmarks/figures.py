# SPDX-License-Identifier: Apache-2.0
"""Rounds of measurements and the table made of them. Pure but for the clock.

A round measures several things, one after the other; ratios are taken within a round,
and the table has medians over the rounds. Rounds in which a process waited for its CPU
are repeated, for as long as there is time; where none is undisturbed, all count.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

WAITED_SHARE_MAX = 0.05

Figures = dict[str, float]
#: By what was measured; None: it could not be, here.
Round = dict[str, Figures | None]


@dataclass(frozen=True)
class Row:
    """One line of the table; `target` None: for information."""

    what: str
    observed: float | None
    unit: str = ""
    target: float | None = None
    #: Why there is nothing observed.
    reason: str = "not granted"

    @property
    def passed(self) -> bool | None:
        if self.target is None or self.observed is None:
            return None
        return self.observed <= self.target

    def __str__(self) -> str:
        observed = self.reason if self.observed is None else f"{self.observed:,.2f}"
        verdict = {True: "ok", False: "MISSED", None: ""}[self.passed]
        target = "" if self.target is None else f"<= {self.target:g}"
        text = f"{self.what:<58} {observed:>12} {self.unit:<6} {target:<8} {verdict}"
        return text.rstrip()

    def markdown(self) -> str:
        """As a row of a table: figure, observed, target."""
        observed = self.reason if self.observed is None else f"{self.observed:,.2f}"
        target = "" if self.target is None else f"≤ {self.target:g}"
        return f"| {self.what} | {observed} {self.unit} | {target} |"


@dataclass(frozen=True)
class Rounds:
    """All rounds of a section."""

    rounds: Sequence[Round]

    @property
    def quiet(self) -> list[Round]:
        return [one for one in self.rounds if is_quiet(one)]

    def values(self, name: str, figure: str) -> list[float]:
        chosen = self.quiet or self.rounds
        return [figures[figure] for one in chosen if (figures := one.get(name))]

    def median(self, name: str, figure: str = "cpu_us_per_op") -> float | None:
        values = self.values(name, figure)
        return statistics.median(values) if values else None

    def ratio(
        self, name: str, base: str, figure: str = "cpu_us_per_op"
    ) -> float | None:
        """The median of the ratios of pairs measured in one round."""
        pairs = [
            (one_figures[figure], base_figures[figure])
            for one in self.quiet or self.rounds
            if (one_figures := one.get(name)) and (base_figures := one.get(base))
        ]
        return statistics.median(a / b for a, b in pairs) if pairs else None


def is_quiet(one: Round) -> bool:
    """Whether client and server had the CPU whenever they wanted it."""
    return all(
        figures["waited_share"] <= WAITED_SHARE_MAX
        for figures in one.values()
        if figures is not None
    )


def repeat(measure: Callable[[], Round], rounds: int, limit_s: float) -> Rounds:
    """Rounds until enough of them are undisturbed, or the time is over."""
    deadline = time.monotonic() + limit_s
    done: list[Round] = []
    while sum(map(is_quiet, done)) < rounds and (
        not done or time.monotonic() < deadline
    ):
        done.append(measure())
    return Rounds(done)
