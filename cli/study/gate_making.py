# SPDX-License-Identifier: Apache-2.0
"""How a gate comes to its answer: which run is next, and when there are enough."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from ldapslam.base.errors import ConfigError
from ldapslam.base.units import NS_PER_S, format_duration
from ldapslam.cli.console import say
from ldapslam.cli.study.gate_runs import Runs, is_sound
from ldapslam.reports.comparing.readings import readings_of
from ldapslam.reports.comparing.sequential import FIRST_LOOK
from ldapslam.reports.model import Summary
from ldapslam.studies.baseline import Baseline
from ldapslam.studies.gate import NEW, NO_REGRESSION, OLD, Gate, order_of
from ldapslam.studies.gate_report import sentence_of

#: Pairs in a row that do not count, which end the gate.
_MOST_UNSOUND = 5
#: Differences from a baseline that an error shows.
_MOST_SHOWN = 5


class _NoMore(Exception):
    """There are no more runs; why."""


class Making:
    """Makes runs until the answer is clear, where the gate `may_end` then, or its time
    is over."""

    def __init__(
        self, gate: Gate, runs: Runs, until_s: float, *, may_end: bool
    ) -> None:
        self._gate, self._runs, self._may_end = gate, runs, may_end
        self._begun_s, self._until_s = time.monotonic(), until_s
        #: What differs from the baseline beside what is under test: fact, then, now.
        self.differences: list[tuple[str, str, str]] = []
        #: What could not be read of the servers, then or now, and why.
        self.unknown: Mapping[str, str] = {}

    def pairs(self, seed: int) -> str:
        """Runs in pairs; why they ended."""
        for order in order_of(seed):
            try:
                pair = self._sound(order)
            except _NoMore as error:
                self._gate.end()
                return str(error)
            self._gate.add(readings_of(pair[NEW]), readings_of(pair[OLD]))
            if why := self._ended():
                return why
        raise AssertionError("there is always another pair")

    def against(self, baseline: Baseline, *, although_different: bool) -> str:
        """Runs of the new side; why they ended."""
        while True:
            try:
                summary = self._sound([NEW])[NEW]
            except _NoMore as error:
                self._gate.end()
                return str(error)
            if not self._gate.size:
                self.differences = list(baseline.differences(summary))
                self.unknown = baseline.unknown(summary)
                if self.differences and not although_different:
                    raise _refusal(self.differences)
            self._gate.add(readings_of(summary))
            if why := self._ended():
                return why

    def _sound(self, order: Sequence[str]) -> Mapping[str, Summary]:
        """A run of each of these sides; all of them are made again when one says
        nothing of its server, so that both begin alike."""
        for _ in range(_MOST_UNSOUND):
            self._runs.restart()
            made = {side: self._runs.run(side) for side in order}
            unsound = {
                side: summary for side, summary in made.items() if not is_sound(summary)
            }
            for side, summary in made.items():
                self._gate.note(side, summary.verdict, is_sound=side not in unsound)
            if not unsound:
                return made
            for side, summary in unsound.items():
                say(f"{side}: made again: {'; '.join(summary.reasons)}")
            if time.monotonic() > self._until_s:
                raise _NoMore("the time was over")
        raise _NoMore(
            f"{_MOST_UNSOUND} times in a row a run says nothing of the server: the "
            "generator or the evidence was at fault"
        )

    def _ended(self) -> str:
        """Why there are no more runs; empty while there are."""
        gate, now_s = self._gate, time.monotonic()
        if gate.size == 1 and gate.absent:
            raise ConfigError(
                f"no operation of the job has the metric {gate.absent[0]!r}",
                hint="choose others with --metric",
            )
        each_s = (now_s - self._begun_s) / gate.size
        # that of the new side alone may be a regression: others will tell
        if any(one.needs and one.old is None for one in gate.answer().figures):
            gate.end()
            return "a figure is missing: make runs longer, or choose with --metric"
        more = int((self._until_s - now_s) / each_s)
        if gate.size == FIRST_LOOK - 1:
            gate.plan_for(gate.size + more)
            _say_plan(gate, each_s)
        elif gate.plan is None and more < 1:
            gate.plan_for(gate.size)
        if gate.plan is None:
            return ""
        if gate.size in gate.plan.sizes:
            say(_so_far(gate))
        if self._may_end and gate.is_clear:
            return "the answer is clear"
        if gate.size == gate.plan.sizes[-1] or more < 1:
            gate.end()
            return "the time was over" if more < 1 else "the planned runs were made"
        return ""


def _refusal(differences: Sequence[tuple[str, str, str]]) -> ConfigError:
    shown = "; ".join(
        f"{name} was {was}, is {now}" for name, was, now in differences[:_MOST_SHOWN]
    )
    more = len(differences) - _MOST_SHOWN
    return ConfigError(
        f"the baseline was made in another way: {shown}"
        + f"; and {more} more" * (more > 0),
        hint="save a new baseline, or give --although-different: the report says how",
    )


def _so_far(gate: Gate) -> str:
    """What a look has found, with the figures that are the reason."""
    answer = gate.answer()
    text = f"after {gate.size} {answer.unit}: {answer.answer}"
    if answer.answer == NO_REGRESSION:
        return text
    open_ = [one for one in answer.figures if one.answer == answer.answer]
    shown = [sentence_of(one) for one in open_[:_MOST_SHOWN]]
    more = len(open_) - len(shown)
    return "; ".join([text, *shown, *([f"and {more} more figures"] if more else [])])


def _say_plan(gate: Gate, each_s: float) -> None:
    """How long it will take, by the spread of the first pairs."""
    assert gate.plan is not None
    most = gate.plan.sizes[-1]
    needed = gate.needed()
    too_many = [
        f"{metric.words} of {title}"
        for (title, metric), size in needed.items()
        if size is None
    ]
    unit = gate.answer().unit
    takes = f"a {'pair of runs' if gate.is_paired else 'run'} takes {each_s:.1f} s"
    if too_many:
        say(
            f"{takes}: the time is for {most} {unit}, likely too few to tell of "
            f"{', '.join(too_many)}; give more --time, or a larger --tolerance"
        )
        return
    sizes = max((size or most for size in needed.values()), default=most)
    left_ns = round(each_s * max(sizes - gate.size, 0)) * NS_PER_S
    say(
        f"{takes}; if nothing differs, {sizes} {unit} should tell "
        f"({format_duration(left_ns)} more)"
    )
