# SPDX-License-Identifier: Apache-2.0
"""The loop of a gate, with runs that are made up and a clock that is set."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest

from ldapslam.base.errors import ConfigError, TargetError
from ldapslam.base.units import NS_PER_S
from ldapslam.cli.study import gate_making
from ldapslam.cli.study.gate_making import Making
from ldapslam.reports.figures import METRICS, Readings
from ldapslam.reports.rules.rules import Cause
from ldapslam.studies.gate import (
    CANNOT_TELL,
    NEW,
    NO_REGRESSION,
    OLD,
    REGRESSION,
    Gate,
    Tolerances,
    order_of,
)
from support.figures import figure

LIMIT_S = 100.0
CLOCK = "ldapslam.cli.study.gate_making.time.monotonic"
THROUGHPUT, P99 = (METRICS[name].of("search") for name in ("throughput", "p99"))


class Runs:
    """Runs of `each_s`; the generator is at fault in those whose numbers are `spoilt`.

    `verdict` and `is_gone` take the number of the run, from 1 on, and its side.
    """

    metrics: Sequence[str] = ("throughput",)
    other_cpu_share: float | None = None

    def __init__(
        self,
        each_s: float,
        *,
        spoilt: Collection[int] = (),
        verdict: Callable[[int, str], str] = lambda *_: "PASS",
        is_gone: Callable[[int, str], bool] = lambda *_: False,
    ) -> None:
        self.now_s, self._each_s, self._spoilt = 0.0, each_s, spoilt
        self._verdict, self._is_gone = verdict, is_gone
        self.values = itertools.cycle([1000.0, 1010.0, 990.0, 1005.0, 995.0])
        #: Sides of the runs, in their order.
        self.made: list[str] = []
        self.gone: list[tuple[str, str]] = []
        self.restarts = 0
        self.duration_ns = NS_PER_S

    def longer_ns(self, times: float) -> int | None:
        return math.ceil(times * self.duration_ns)

    def lengthen(self, duration_ns: int) -> None:
        self._each_s += (duration_ns - self.duration_ns) / NS_PER_S
        self.duration_ns = duration_ns

    def restart(self) -> None:
        self.restarts += 1

    def run(self, side: str) -> Any:
        self.made.append(side)
        number = len(self.made)
        if self._is_gone(number, side):
            raise TargetError("it does not answer")
        self.now_s += self._each_s
        rule = SimpleNamespace(passed=number not in self._spoilt, cause=Cause.GENERATOR)
        verdict = self._verdict(number, side)
        return SimpleNamespace(
            verdict=verdict,
            reasons=("too late",),
            side=side,
            rules=[rule],
            figures=side,
        )

    def note_gone(self, side: str, why: str) -> None:
        self.gone.append((side, why))

    def readings(self, side: Any) -> Readings:
        return {THROUGHPUT: figure(next(self.values))}


Made = tuple[Gate, Making, str]
Make = Callable[..., Made]


@pytest.fixture
def making(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Gate, Making]]:
    """A gate of these runs, and what makes them by a clock that the runs set."""

    def begin(
        runs: Runs,
        limit_s: float = LIMIT_S,
        leavable: Sequence[str] = (),
        *,
        may_end: bool = True,
        baseline: Sequence[Readings] = (),
    ) -> tuple[Gate, Making]:
        monkeypatch.setattr(CLOCK, lambda: runs.now_s)
        monkeypatch.setattr(gate_making, "readings_of", runs.readings)
        gate, given = Gate(runs.metrics, Tolerances(), baseline), runs
        return gate, Making(
            gate,
            given,  # type: ignore[arg-type]
            0.0,
            limit_s,
            may_end=may_end,
            leavable=leavable,
        )

    return begin


@pytest.fixture
def make(making: Callable[..., tuple[Gate, Making]]) -> Make:
    """Make the pairs of a gate; the gate, its making, and why that ended."""

    def pairs(*arguments: Any, **options: Any) -> Made:
        gate, begun = making(*arguments, **options)
        return gate, begun, begun.pairs(seed=1)

    return pairs


def test_it_ends_when_the_answer_is_clear(make: Make) -> None:
    runs = Runs(each_s=1.0)
    gate, _, why = make(runs)
    assert (gate.size, why) == (6, "the answer is clear")
    assert gate.answer().answer == NO_REGRESSION
    assert (runs.restarts, len(runs.made)) == (6, 12)


@pytest.mark.parametrize(
    ("each_s", "spoilt", "may_end", "size"),
    [
        (1.0, [], False, 50),  # against itself it takes all its time
        (10.0, [], True, 5),
        (20.0, [], True, 2),
        (49.0, [], True, 1),
        (30.0, range(100), True, 0),
    ],
)
def test_runs_do_not_outlast_the_time(
    make: Make, each_s: float, spoilt: Sequence[int], may_end: bool, size: int
) -> None:
    runs = Runs(each_s, spoilt=spoilt)
    gate, _, why = make(runs, may_end=may_end)
    assert (gate.size, why) == (size, "the time was over")
    assert runs.now_s <= LIMIT_S


def test_no_pair_is_begun_that_may_end_after_the_time(make: Make) -> None:
    """The longest so far took 20 s, the others 10: at 85 s none is begun."""

    class SlowThird(Runs):
        def run(self, side: str) -> Any:
            self.now_s += 10.0 * (len(self.made) == 2)
            return super().run(side)

    runs = SlowThird(each_s=5.0)
    runs.now_s = -5.0
    assert make(runs, may_end=False)[2] == "the time was over"
    assert runs.now_s == 85.0


def test_a_run_that_the_generator_spoilt_is_made_again(make: Make) -> None:
    runs = Runs(each_s=1.0, spoilt={3})
    gate, *_ = make(runs)
    assert gate.size == 6
    # with its partner, after a restart
    assert runs.made[2:4] == runs.made[4:6]
    assert (len(runs.made), runs.restarts) == (14, 7)
    assert sorted(gate.unsound.values()) == [0, 1]


def test_five_of_them_in_a_row_end_it(make: Make) -> None:
    gate, _, why = make(Runs(each_s=1.0, spoilt=range(4, 100)))
    assert why.startswith("5 times in a row a run says nothing of the server")
    assert gate.answer().answer == CANNOT_TELL


def test_a_fail_is_for_certain_also_where_the_generator_was_at_fault(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = Runs(each_s=5.0, spoilt={3}, verdict=lambda *_: "FAIL")
    gate, *_ = make(runs)
    assert gate.answer().answer == CANNOT_TELL
    assert gate.failed == gate.made
    assert sum(gate.made.values()) == len(runs.made)
    # at once, as it is known then
    assert capsys.readouterr().err.count("new: FAIL: too late. With it, no gate") == 1


def test_an_invalid_run_without_a_fault_of_the_generator_counts(make: Make) -> None:
    """Such as one that leaves a threshold uncertain."""
    gate, *_ = make(Runs(each_s=1.0, verdict=lambda *_: "INVALID"))
    assert gate.answer().answer == NO_REGRESSION


def test_a_figure_that_is_missing_ends_it_at_once(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Runs(each_s=1.0)
    missing = {THROUGHPUT: figure(None, "1,000 requests (it has 7)")}
    monkeypatch.setattr(runs, "readings", lambda _: missing)
    gate, _, why = make(runs)
    assert (gate.size, gate.answer().answer) == (1, CANNOT_TELL)
    assert why == "a figure is missing"


@pytest.mark.parametrize(
    ("each_s", "answer", "size"),
    [(1.0, REGRESSION, 6), (12.0, REGRESSION, 4), (16.0, CANNOT_TELL, 3)],
)
def test_a_new_side_that_collapses_is_a_regression_without_any_figure(
    make: Make,
    monkeypatch: pytest.MonkeyPatch,
    each_s: float,
    answer: str,
    size: int,
) -> None:
    runs = Runs(each_s, verdict=lambda _, side: "FAIL" if side == NEW else "PASS")
    missing = {THROUGHPUT: figure(None, "answers")}
    monkeypatch.setattr(runs, "readings", lambda _: missing)
    gate, *_ = make(runs)
    assert (gate.answer().answer, gate.size) == (answer, size)


def test_a_new_server_that_is_gone_is_a_regression(make: Make) -> None:
    runs = Runs(1.0, is_gone=lambda number, side: side == NEW and number > 2)
    gate, _, why = make(runs)
    assert (gate.answer().answer, why) == (REGRESSION, "the answer is clear")
    assert gate.failed == {OLD: 0, NEW: gate.size - 1}
    assert gate.size <= 8
    assert runs.gone == [(NEW, "it does not answer")] * (gate.size - 1)


def test_an_old_server_that_is_gone_ends_the_gate(make: Make) -> None:
    with pytest.raises(TargetError):
        make(Runs(1.0, is_gone=lambda number, side: side == OLD and number > 2))


class ShortRuns(Runs):
    """Of 400 requests per second, too few for a p99 in their first length."""

    metrics = ("throughput", "p99")

    def readings(self, side: Any) -> Readings:
        sample = round(400 * self.duration_ns / NS_PER_S)
        needs = f"1,000 requests (it has {sample})"
        p99 = figure(None, needs, sample)
        if sample >= 1000:
            p99 = figure(3000.0, "", sample)
        return {THROUGHPUT: figure(400.0), P99: p99}


def test_runs_that_are_too_short_for_a_percentile_are_made_longer(make: Make) -> None:
    runs = ShortRuns(each_s=2.0)
    gate, made, why = make(runs)
    assert (gate.answer().answer, why) == (NO_REGRESSION, "the answer is clear")
    assert runs.duration_ns == 3.125 * NS_PER_S
    # the first pair does not count, and the order begins again
    assert len(runs.made) == 14
    assert runs.made[2:14] == [side for pair in islice(order_of(1), 6) for side in pair]
    [caution] = made.cautions
    assert "the measure phase is 3125ms long" in caution
    assert made.each_s == pytest.approx(2 * (2.0 + 2.125))


def test_a_fail_of_the_first_runs_counts(make: Make) -> None:
    runs = ShortRuns(2.0, verdict=lambda number, _: "FAIL" if number < 3 else "PASS")
    gate, *_ = make(runs)
    assert gate.answer().answer == CANNOT_TELL
    assert gate.failed == {OLD: 1, NEW: 1}


def test_a_percentile_that_there_is_no_time_for_is_refused(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the first pair of 4 s, six pairs take 8.25 s each: 53.5 s."""
    runs = ShortRuns(each_s=2.0)
    with pytest.raises(ConfigError, match="p99 of search needs 1,000 requests"):
        make(runs, 53.0)
    assert runs.made == list(next(order_of(1)))
    gate, *_ = make(ShortRuns(each_s=2.0), 54.0)
    assert gate.answer().answer == NO_REGRESSION
    runs = ShortRuns(each_s=2.0)
    monkeypatch.setattr(runs, "longer_ns", lambda _: None)
    with pytest.raises(ConfigError):
        make(runs)


NOT_JUDGED = "p99 of search is not judged: it needs 1,000 requests in each run, and had"


def test_a_percentile_that_nobody_has_asked_for_is_left_out_and_the_report_says_so(
    make: Make,
) -> None:
    runs = ShortRuns(each_s=2.0)
    gate, made, why = make(runs, 53.0, ["p99"])
    assert (gate.answer().answer, why) == (NO_REGRESSION, "the answer is clear")
    assert [one.name.short for one in gate.answer().figures] == ["throughput"]
    # the first pair counts, as its runs are as long as the others
    assert (gate.size, len(runs.made)) == (6, 12)
    assert made.cautions == [f"{NOT_JUDGED} 400."]


def test_a_percentile_is_left_out_of_the_operations_alone_that_lack_it(
    make: Make,
) -> None:
    """Of the others runs are made long enough."""

    class RarelyModified(ShortRuns):
        def readings(self, side: Any) -> Readings:
            rare = figure(None, "1,000 requests (it has 4)", 4)
            return {**super().readings(side), METRICS["p99"].of("modify"): rare}

    runs = RarelyModified(each_s=2.0)
    gate, made, _ = make(runs, LIMIT_S, ["p99"])
    answer = gate.answer()
    assert answer.answer == NO_REGRESSION
    assert [one.name for one in answer.figures] == [THROUGHPUT, P99]
    assert runs.duration_ns == 3.125 * NS_PER_S
    assert made.cautions[0].startswith("p99 of modify is not judged")


@pytest.mark.parametrize(
    ("sample", "is_left_out"), [(999, True), (1000, False), (1249, False)]
)
def test_a_percentile_that_requests_without_an_answer_keep_away_is_not_left_out(
    make: Make, monkeypatch: pytest.MonkeyPatch, sample: int, is_left_out: bool
) -> None:
    """It has its requests: that it is missing is what the servers did."""
    runs = ShortRuns(each_s=2.0)
    silent = figure(None, "an answer to each request", sample)
    found = {THROUGHPUT: figure(400.0), P99: silent}
    monkeypatch.setattr(runs, "readings", lambda _: found)
    monkeypatch.setattr(runs, "longer_ns", lambda _: None)
    gate, made, _ = make(runs, LIMIT_S, ["p99"])
    assert (gate.answer().answer == NO_REGRESSION) is is_left_out
    assert made.cautions == is_left_out * [f"{NOT_JUDGED} 999."]


def test_a_percentile_that_the_new_side_alone_lacks_is_not_left_out(
    make: Make,
) -> None:
    class OldHasIt(ShortRuns):
        def readings(self, side: Any) -> Readings:
            found = super().readings(side)
            if side == OLD:
                found[P99] = figure(3000.0, "", 2000)
            return found

    gate, *_ = make(OldHasIt(each_s=2.0), 53.0, ["p99"])
    assert gate.answer().answer == CANNOT_TELL


def test_a_run_that_has_too_few_requests_later_ends_it(make: Make) -> None:
    class ShortFifth(ShortRuns):
        def run(self, side: str) -> Any:
            self.duration_ns = NS_PER_S * (1 if len(self.made) >= 4 else 4)
            return super().run(side)

    gate, _, why = make(ShortFifth(each_s=2.0))
    assert (gate.size, why) == (3, "a figure is missing")


def test_runs_that_are_long_enough_stay_as_they_are(make: Make) -> None:
    runs = ShortRuns(each_s=2.0)
    runs.duration_ns = 3 * NS_PER_S + NS_PER_S // 8
    _, made, _ = make(runs)
    assert (len(runs.made), made.cautions) == (12, [])


class _Baseline:
    def differences(self, summary: Any) -> Iterator[tuple[str, str, str]]:
        assert summary.side == NEW
        yield "server 1 · threads", "16", "4"

    def unknown(self, summary: Any) -> dict[str, str]:
        return {"server 1 · indexes": "could not be read"}


@pytest.mark.parametrize(
    ("spoilt", "gone", "count"),
    [
        ([], 0, 1),
        # the first one was spoilt, then the server was away
        ([1], 2, 3),
    ],
)
def test_a_baseline_of_another_making_is_refused_after_the_first_run_that_there_is(
    making: Callable[..., tuple[Gate, Making]],
    spoilt: Sequence[int],
    gone: int,
    count: int,
) -> None:
    runs = Runs(1.0, spoilt=spoilt, is_gone=lambda number, _: number == gone)
    old = {THROUGHPUT: figure(1000.0)}
    gate, begun = making(runs, baseline=[old] * 5)
    baseline: Any = _Baseline()
    with pytest.raises(ConfigError, match="threads: 16 then, 4 now"):
        begun.against(baseline, allow_differences=False)
    assert runs.made == [NEW] * count
    if count == 1:
        assert begun.against(baseline, allow_differences=True) == "the answer is clear"
        assert begun.differences == [("server 1 · threads", "16", "4")]
        assert begun.unknown == {"server 1 · indexes": "could not be read"}
        assert (gate.size, gate.answer().answer) == (6, NO_REGRESSION)


def test_a_look_says_what_is_open(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = Runs(each_s=5.0)
    runs.values = itertools.cycle([1000.0, 3000.0, 2000.0])
    gate, *_ = make(runs)
    said = capsys.readouterr().err
    assert "after 6 pairs: not clear yet; throughput of search: " in said
    assert gate.answer().is_open
