# SPDX-License-Identifier: Apache-2.0
"""How a gate comes to its answer: which run is next, and when there are enough."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence

from ldapslam.base.errors import TargetError
from ldapslam.base.units import NS_PER_S, format_duration
from ldapslam.cli.console import say
from ldapslam.cli.study.gate_runs import Runs, is_sound
from ldapslam.reports.comparing.readings import Readings, readings_of
from ldapslam.reports.comparing.sequential import FIRST_LOOK
from ldapslam.reports.model import Summary
from ldapslam.studies.baseline import Baseline, refusal
from ldapslam.studies.gate import (
    CANNOT_TELL,
    NEW,
    NO_REGRESSION,
    OLD,
    Answer,
    Gate,
    order_of,
    times_longer,
)
from ldapslam.studies.gate_report import sentence_of

#: Pairs in a row that do not count, which end the gate.
_MOST_UNSOUND = 5
#: Figures that a line shows.
_MOST_SHOWN = 5
AGAINST_ITSELF = (
    "Both sides are the old one (--aa): what is called worse here is a false alarm, "
    "and what cannot be told varies too much for its tolerance."
)
#: Of a time that is proposed, beyond what was measured.
_ROOM = 1.1


class _NoMore(Exception):
    """There are no more runs; why."""


class Making:
    """Makes runs until the answer is clear, where the gate `may_end` then, or its time
    is over."""

    def __init__(
        self, gate: Gate, runs: Runs, begun_s: float, limit_s: float, *, may_end: bool
    ) -> None:
        """`begun_s`: since when the limit counts."""
        self._gate, self._runs, self._may_end = gate, runs, may_end
        self._limited_s, self._until_s = begun_s, begun_s + limit_s
        #: When the first run that counts began.
        self._begun_s = time.monotonic()
        #: What the longest pair, or run, took that was made so far, or is to take.
        self._longest_s = 0.0
        #: Sentences on how the runs were made.
        self.cautions: list[str] = []
        #: How to get an answer, where there is none; and runs that are long enough.
        self.advice = self._longer = ""
        #: What differs from the baseline beside what is under test: fact, then, now.
        self.differences: list[tuple[str, str, str]] = []
        #: What could not be read of the servers, then or now, and why.
        self.unknown: Mapping[str, str] = {}

    def pairs(self, seed: int) -> str:
        """Runs in pairs; why they ended."""
        orders = order_of(seed)
        while True:
            try:
                pair = self._sound(next(orders))
            except _NoMore as error:
                return self._end(str(error))
            readings = {
                side: readings_of(summary) if summary else {}
                for side, summary in pair.items()
            }
            if self._has_lengthened(readings.values()):
                orders = order_of(seed)
                continue
            self._gate.add(readings[NEW], readings[OLD])
            if why := self._ended():
                return why

    def _has_lengthened(self, first: Collection[Readings]) -> bool:
        """Whether all runs from now on are longer than these, the first ones, which
        have too few requests for a percentile, and there is time for that."""
        times = times_longer(first, self._gate.metrics)
        if self._gate.size or self.cautions or times <= 1:
            return False
        was_ns, longer_ns = self._runs.duration_ns, self._runs.longer_ns(times)
        if longer_ns is None:
            return False
        now_s = time.monotonic()
        more_s = len(first) * (longer_ns - was_ns) / NS_PER_S
        each_s = now_s - self._begun_s + more_s
        was, longer = format_duration(was_ns), format_duration(longer_ns)
        if FIRST_LOOK * each_s > self._until_s - now_s:
            needed_s = self._before_s + FIRST_LOOK * each_s
            self._longer = (
                "give the runs and the gate more time, as with --set "
                f"run.duration={longer} --time {_time_text(needed_s)}; or "
            )
            return False
        self._runs.lengthen(longer_ns)
        self._begun_s, self._longest_s = now_s, self._longest_s + more_s
        self.cautions.append(
            f"A percentile needs more requests than runs of {was} have: the measure "
            f"phase was made {longer} long (--set run.duration={longer}), and the "
            "figures of the first runs do not count; a FAIL of theirs does."
        )
        say(self.cautions[-1])
        return True

    def against(self, baseline: Baseline, *, although_different: bool) -> str:
        """Runs of the new side; why they ended."""
        while True:
            try:
                summary = self._sound([NEW])[NEW]
            except _NoMore as error:
                return self._end(str(error))
            if summary and not self._gate.size:
                self.differences = list(baseline.differences(summary))
                self.unknown = baseline.unknown(summary)
                if self.differences and not although_different:
                    raise refusal(self.differences)
            self._gate.add(readings_of(summary) if summary else {})
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
        # that of the new side alone may be a regression: others will tell
        missing = {
            one.metric.name
            for one in gate.answer().figures
            if one.needs and one.old is None
        }
        # runs of the new side that FAIL may be one without any figure
        if missing and gate.failed[NEW] <= gate.failed[OLD]:
            left = [f"--metric {one}" for one in gate.metrics if one not in missing]
            others = " ".join(left) or "another --metric"
            can_be_longer = gate.is_paired and self._runs.longer_ns(1.0) is not None
            longer = self._longer or "make runs longer, or " * can_be_longer
            self.advice = f"{longer}judge {others}"
            gate.end()
            return "a figure is missing"
        more = int((self._until_s - time.monotonic()) / each_s)
        if gate.size == FIRST_LOOK - 1:
            gate.plan_for(gate.size + more)
            _say_plan(gate, each_s)
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

    @property
    def _before_s(self) -> float:
        """What it took until the first run that counts."""
        return self._begun_s - self._limited_s

    @property
    def rehearsal_needs(self) -> str:
        """What a gate that has none lacks for a rehearsal of itself."""
        time_ = ""
        if self._gate.size and not any(
            one.needs for one in self._gate.answer().figures
        ):
            needed_s = self._before_s + FIRST_LOOK * self.each_s
            time_ = f": --time {_time_text(needed_s)} is enough for that"
        return (
            f"There is no rehearsal: it draws from {FIRST_LOOK} pairs of runs, which "
            f"have each figure, and this gate made {self._gate.size}{time_}."
        )

    def _end(self, why: str) -> str:
        gate = self._gate
        gate.end()
        answer = gate.answer()
        if answer.answer == CANNOT_TELL and gate.plan and gate.size > 1:
            needed = gate.would_need()
            self.advice = _advice(answer, needed, self.each_s, self._before_s)
        return why


def _advice(answer: Answer, needed: int | None, each_s: float, before_s: float) -> str:
    """How to tell of the figures that are open; `needed`: the pairs or runs that should
    tell."""
    if answer.is_select:
        return "find out what the generator or the evidence lacked: see the runs"
    if all(one.answer != CANNOT_TELL for one in answer.figures):
        return (
            "no run of the new side may FAIL: mend what they FAIL for, or the job's "
            "thresholds"
        )
    if any(one.needs for one in answer.figures):
        if answer.failed[NEW] > answer.failed[OLD]:
            return (
                "mend what runs of the new side FAIL for, or lower the load until it "
                "carries it; else six pairs tell, with more --time"
            )
        return "make runs longer, that the new side has each figure"
    if needed is None and not answer.is_paired:
        return (
            "give the baseline more runs, or longer ones; or judge less with --metric"
        )
    if needed is None:
        return (
            "runs vary too much: make them longer, on a quieter machine, or judge less "
            "with --metric"
        )
    if needed <= answer.pairs:
        return "a change is close to its tolerance: give another --tolerance"
    needed_s = before_s + needed * each_s
    return (
        f"if nothing differs, {needed} {answer.unit} should tell: --time "
        f"{_time_text(needed_s)}; longer runs, a quieter machine or a larger "
        "--tolerance take less"
    )


def _time_text(needed_s: float) -> str:
    """For --time: in steps of 10 s, above 5 min of 1 min."""
    step_s = 10 if needed_s < 300 else 60
    steps = math.ceil(needed_s * _ROOM / step_s)
    return format_duration(steps * step_s * NS_PER_S)


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


def _say_plan(gate: Gate, each_s: float) -> None:
    """How long it will take, by the spread of the first pairs."""
    assert gate.plan is not None
    most = gate.plan.sizes[-1]
    missing = {
        (one.operation, one.metric) for one in gate.answer().figures if one.needs
    }
    needed = {key: of for key, of in gate.needed().items() if key not in missing}
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
