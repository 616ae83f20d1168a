# SPDX-License-Identifier: Apache-2.0
"""How a gate comes to its answer: which run is next, and when there are enough."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence

from ldapslam.base.errors import TargetError
from ldapslam.base.units import NS_PER_S, format_duration
from ldapslam.cli.console import say
from ldapslam.cli.study.gate_length import PAIRS, time_text
from ldapslam.cli.study.gate_runs import Runs, is_sound
from ldapslam.jobs.fields.thresholds import PERCENTILES, samples_needed
from ldapslam.reports.comparing.readings import Reading, Readings, readings_of
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
    Key,
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
        self._leavable, self._is_lengthened = leavable, False
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
            if self._has_lengthened(readings):
                orders = order_of(seed)
                continue
            self._gate.add(readings[NEW], readings[OLD])
            if why := self._ended():
                return why

    def _has_lengthened(self, first: Mapping[str, Readings]) -> bool:
        """Whether all runs from now on are longer than these, the first ones, which
        have too few requests for a percentile, and there is time for that. A percentile
        that there is no time for is left out, where it may be."""
        gate, runs = self._gate, self._runs
        if gate.size or self._is_lengthened:
            return False
        enough_ns = []
        for key, times in times_longer(first.values(), gate.metrics).items():
            longer_ns = runs.longer_ns(times)
            left_s = self._until_s - time.monotonic()
            if longer_ns is not None and self._takes_s(FIRST_LOOK, longer_ns) <= left_s:
                enough_ns.append(longer_ns)
            else:
                self._cannot_have(key, first[OLD].get(key), longer_ns)
        if not enough_ns:
            return False
        longest_ns = max(enough_ns)
        was, longer = map(format_duration, (runs.duration_ns, longest_ns))
        self._longest_s += 2 * (longest_ns - runs.duration_ns) / NS_PER_S
        runs.lengthen(longest_ns)
        self._begun_s, self._is_lengthened = time.monotonic(), True
        self._caution(
            f"A percentile needs more requests than runs of {was} have: the measure "
            f"phase was made {longer} long (--set run.duration={longer}), and the "
            "figures of the first runs do not count; a FAIL of theirs does."
        )
        return True

    def _takes_s(self, pairs: int, duration_ns: int) -> float:
        """What pairs take, of runs so long, by the pair that was made."""
        more_s = 2 * (duration_ns - self._runs.duration_ns) / NS_PER_S
        return pairs * (time.monotonic() - self._begun_s + more_s)

    def _cannot_have(
        self, key: Key, old: Reading | None, longer_ns: int | None
    ) -> None:
        """Leave a percentile out that would need runs so long, where it may be and the
        old side has too few requests for it; and say how to have it. One that is
        missing for another reason, as without answers, is not left out."""
        title, metric = key
        least = samples_needed(PERCENTILES[metric.name])
        enough = ""
        if longer_ns is not None:
            needed = time_text(self._before_s + self._takes_s(PAIRS, longer_ns))
            longer = format_duration(longer_ns)
            enough = f"--set run.duration={longer} --time {needed}"
            self._longer = f"give the runs and the gate more time: {enough}; or "
        if metric.name in self._leavable and old is not None and old.sample < least:
            self._gate.leave_out([key])
            self._caution(
                f"{metric.words} of {title} is not judged: it needs {least:,} requests "
                f"in each run, and had {old.sample:,}."
                + f" To have it: {enough}."
                * bool(enough)
            )

    def _caution(self, text: str) -> None:
        self.cautions.append(text)
        say(text)

    def against(self, baseline: Baseline, *, although_different: bool) -> str:
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
                if self.differences and not although_different:
                    raise refusal(self.differences)
            self._gate.add(
                readings_of(summary) if summary else {},
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
        enough = ""
        if self._gate.size and not any(
            one.needs for one in self._gate.answer().figures
        ):
            enough = f": {self._enough(FIRST_LOOK)} is enough for that"
        return (
            f"There is no rehearsal: it draws from {FIRST_LOOK} pairs of runs, which "
            f"have each figure, and this gate made {self._gate.size}{enough}."
        )

    def _enough(self, pairs: int | None) -> str:
        """The options of a gate that makes so many."""
        needed = time_text(self._before_s + (pairs or 0) * self.each_s)
        return " ".join(filter(None, (self._runs.length_option, f"--time {needed}")))

    def _end(self, why: str) -> str:
        gate = self._gate
        gate.end()
        answer = gate.answer()
        if answer.answer == CANNOT_TELL and gate.plan and gate.size > 1:
            needed = gate.would_need()
            self.advice = _advice(answer, needed, self._enough(needed))
        return why


def _advice(answer: Answer, needed: int | None, enough: str) -> str:
    """How to tell of the figures that are open; `needed`: the pairs or runs that should
    tell, and `enough` the options that make them."""
    if answer.is_select:
        return "find out what the generator or the evidence lacked: see the runs"
    if answer.host is not None:
        return (
            "run the gate when this host does as much else as it did for the baseline, "
            "or load the old server too: --old in the place of --baseline"
        )
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
    return (
        f"if nothing differs, {needed} {answer.unit} should tell: {enough}; longer "
        "runs, a quieter machine or a larger --tolerance take less"
    )


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
