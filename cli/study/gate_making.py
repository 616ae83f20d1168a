# SPDX-License-Identifier: Apache-2.0
"""How a gate comes to its answer: which run is next, and when there are enough."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence

from ldapslam.base.errors import ConfigError, TargetError
from ldapslam.base.units import NS_PER_S, format_duration
from ldapslam.cli.console import say
from ldapslam.cli.study.gate_runs import Runs, is_sound
from ldapslam.jobs.fields.thresholds import PERCENTILES, samples_needed
from ldapslam.reports.comparing.sequential import FIRST_LOOK
from ldapslam.reports.figures import Readings, readings_of
from ldapslam.reports.model import Summary
from ldapslam.studies.baseline import Baseline, refusal
from ldapslam.studies.gate import (
    CANNOT_TELL,
    NEW,
    NO_REGRESSION,
    OLD,
    Gate,
    order_of,
    times_longer,
)
from ldapslam.studies.gate_report import sentence_of

#: Pairs in a row that do not count, which end the gate.
_MOST_UNSOUND = 5
#: Figures that a line shows.
_MOST_SHOWN = 5
NO_REHEARSAL = (
    f"There is no rehearsal: it draws from {FIRST_LOOK} pairs of runs or more, which "
    "have each figure."
)
AGAINST_ITSELF = (
    "Both sides are the old one (--aa): what is called worse here is a false alarm, "
    "and what cannot be told varies too much for its tolerance."
)


class _NoMore(Exception):
    """There are no more runs; why."""


class Making:
    """Makes runs until the answer is clear, where the gate `may_end` then, or its time
    is over."""

    def __init__(
        self,
        gate: Gate,
        runs: Runs,
        begun_s: float,
        limit_s: float,
        *,
        may_end: bool,
        leavable: Collection[str] = (),
    ) -> None:
        """`begun_s`: since when the limit counts. `leavable`: metrics that nobody has
        asked for."""
        self._gate, self._runs, self._may_end = gate, runs, may_end
        self._leavable, self._until_s = leavable, begun_s + limit_s
        #: When the first run that counts began.
        self._begun_s = time.monotonic()
        #: What the longest pair, or run, took that was made so far, or is to take.
        self._longest_s = 0.0
        #: Sentences on how the runs were made.
        self.cautions: list[str] = []
        #: What differs from the baseline beside what is under test: fact, then, now.
        self.differences: list[tuple[str, str, str]] = []
        #: What could not be read of the servers, then or now, and why.
        self.unknown: Mapping[str, str] = {}

    def pairs(self, seed: int) -> str:
        """Runs in pairs; why they ended."""
        orders, is_first = order_of(seed), True
        while True:
            try:
                pair = self._sound(next(orders))
            except _NoMore as error:
                return self._end(str(error))
            readings = {
                side: readings_of(summary.figures) if summary else {}
                for side, summary in pair.items()
            }
            is_repeated = is_first and self._lengthen_runs(readings[OLD])
            is_first = False
            if is_repeated:
                orders = order_of(seed)
                continue
            self._gate.add(readings[NEW], readings[OLD])
            if why := self._ended():
                return why

    def _lengthen_runs(self, readings: Readings) -> bool:
        """Make later runs longer if percentiles need more requests than the old side's
        first run has; return whether they are longer. Without the time for the fewest
        such pairs, leave a default percentile out and raise ConfigError for another."""
        gate, runs = self._gate, self._runs
        was = format_duration(runs.duration_ns)
        lengths_ns = []
        for name, times in times_longer(readings, gate.metrics).items():
            longer_ns = runs.longer_ns(times)
            if longer_ns is not None and self._has_time_for(longer_ns):
                lengths_ns.append(longer_ns)
                continue
            least = samples_needed(PERCENTILES[name.statistic or ""])
            sample, what = readings[name].sample, f"{name.words} of {name.title}"
            if sample >= least:
                continue
            if name.short not in self._leavable:
                raise ConfigError(
                    f"{what} needs {least:,} requests in each run, "
                    f"and runs of {was} have {sample:,}",
                    hint="give it longer runs and more --time, or judge others with "
                    "--metric",
                )
            gate.leave_out([name])
            self._caution(
                f"{what} is not judged: it needs {least:,} requests "
                f"in each run, and had {sample:,}."
            )
        if not lengths_ns:
            return False
        self._longest_s = self._pair_s(max(lengths_ns))
        runs.lengthen(max(lengths_ns))
        self._begun_s = time.monotonic()
        self._caution(
            f"Runs of {was} have too few requests for a percentile: the measure phase "
            f"is {format_duration(runs.duration_ns)} long. The first pair does not "
            "count, except for its FAILs."
        )
        return True

    def _has_time_for(self, duration_ns: int) -> bool:
        """Whether the least number of pairs, of runs of this length, fit."""
        left_s = self._until_s - time.monotonic()
        return FIRST_LOOK * self._pair_s(duration_ns) <= left_s

    def _pair_s(self, duration_ns: int) -> float:
        """What a pair of runs of this length takes."""
        return self._longest_s + 2 * (duration_ns - self._runs.duration_ns) / NS_PER_S

    def _caution(self, text: str) -> None:
        self.cautions.append(text)
        say(text)

    def against(self, baseline: Baseline, *, allow_differences: bool) -> str:
        """Runs of the new side; why they ended."""
        is_compared = False
        while True:
            try:
                summary = self._sound([NEW])[NEW]
            except _NoMore as error:
                return self._end(str(error))
            if summary and not is_compared:
                is_compared = True
                self.differences = list(baseline.differences(summary))
                self.unknown = baseline.unknown(summary)
                if self.differences and not allow_differences:
                    raise refusal(self.differences)
            self._gate.add(
                readings_of(summary.figures) if summary else {},
                other_cpu_share=self._runs.other_cpu_share if summary else None,
            )
            if why := self._ended():
                return why

    def _sound(self, order: Sequence[str]) -> Mapping[str, Summary | None]:
        """A run of each of these sides; all of them are made again when one says
        nothing of its server, so that both begin alike. None: that of a server which is
        gone."""
        for _ in range(_MOST_UNSOUND):
            if not self._has_time:
                raise _NoMore("the time was over")
            begun_s = time.monotonic()
            self._runs.restart()
            made = {side: self._run(side) for side in order}
            self._longest_s = max(self._longest_s, time.monotonic() - begun_s)
            unsound = {
                side: summary
                for side, summary in made.items()
                if summary and not is_sound(summary)
            }
            for side, summary in made.items():
                verdict = summary.verdict if summary else "FAIL"
                self._gate.note(side, verdict, is_sound=side not in unsound)
            new = made[NEW]
            if new and new.verdict == "FAIL" and self._gate.failed[NEW] == 1:
                say(f"{NEW}: FAIL: {'; '.join(new.reasons)}. With it, no gate passes")
            if not unsound:
                return made
            for side, summary in unsound.items():
                say(f"{side}: made again: {'; '.join(summary.reasons)}")
        raise _NoMore(
            f"{_MOST_UNSOUND} times in a row a run says nothing of the server: the "
            "generator or the evidence was at fault"
        )

    def _run(self, side: str) -> Summary | None:
        """None where the new side's server, which was loaded before, cannot be used any
        more: that is a run that FAILs."""
        try:
            return self._runs.run(side)
        except TargetError as error:
            if side == OLD or not self._gate.made[NEW]:
                raise
            self._runs.note_gone(side, str(error))
            say(f"{side}: FAIL: {error}")
            return None

    @property
    def _has_time(self) -> bool:
        """Whether one more pair, or run, ends before the time does."""
        return time.monotonic() + self._longest_s <= self._until_s

    def _ended(self) -> str:
        """Why there are no more runs; empty while there are."""
        gate, each_s = self._gate, self.each_s
        # without the new side's alone others will tell, or its runs that FAIL
        is_missing = any(one.needs and one.old is None for one in gate.answer().figures)
        if is_missing and gate.failed[NEW] <= gate.failed[OLD]:
            gate.end()
            return "a figure is missing"
        more = int((self._until_s - time.monotonic()) / each_s)
        if gate.size == FIRST_LOOK - 1:
            gate.plan_for(gate.size + more)
        elif gate.plan is None and not self._has_time:
            gate.plan_for(gate.size)
        if gate.plan is None:
            return ""
        if gate.size in gate.plan.sizes:
            say(_so_far(gate))
        if self._may_end and gate.is_clear:
            return "the answer is clear"
        if not self._has_time:
            return self._end("the time was over")
        if gate.size == gate.plan.sizes[-1]:
            return self._end("the planned runs were made")
        return ""

    @property
    def each_s(self) -> float:
        """What a pair took; with a baseline, a run."""
        return (time.monotonic() - self._begun_s) / max(self._gate.size, 1)

    def _end(self, why: str) -> str:
        self._gate.end()
        return why


def _so_far(gate: Gate) -> str:
    """What a look has found, with the figures that are the reason."""
    answer = gate.answer()
    is_open = answer.answer == CANNOT_TELL
    found = "not clear yet" if is_open else answer.answer
    text = f"after {gate.size} {answer.unit}: {found}"
    if answer.answer == NO_REGRESSION:
        return text
    open_ = [one for one in answer.figures if one.answer == answer.answer]
    shown = [sentence_of(one) for one in open_[:_MOST_SHOWN]]
    more = len(open_) - len(shown)
    return "; ".join([text, *shown, *([f"and {more} more figures"] if more else [])])
