# SPDX-License-Identifier: Apache-2.0
"""The loop of a gate, with runs that are made up and a clock that is set."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest

from ldapslam.base.errors import ConfigError, TargetError
from ldapslam.base.units import NS_PER_S
from ldapslam.cli.study import gate_making
from ldapslam.cli.study.gate_making import Making
from ldapslam.reports.comparing.readings import METRICS, Reading
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

LIMIT_S = 100.0
CLOCK = "ldapslam.cli.study.gate_making.time.monotonic"


class Runs:
    """Each takes so long; in these, by their number, the generator is at fault."""

    verdict = "PASS"

    def __init__(self, each_s: float, spoilt: frozenset[int] = frozenset()) -> None:
        self.now_s, self._each_s, self._spoilt = 0.0, each_s, spoilt
        self.made: list[str] = []
        self.restarts = 0
        self.duration_ns = NS_PER_S
        self.other_cpu_share: float | None = None

    def longer_ns(self, times: float) -> int | None:
        return math.ceil(times * self.duration_ns)

    def lengthen(self, duration_ns: int) -> None:
        self._each_s += (duration_ns - self.duration_ns) / NS_PER_S
        self.duration_ns = duration_ns

    def restart(self) -> None:
        self.restarts += 1

    def run(self, side: str) -> Any:
        self.now_s += self._each_s
        self.made.append(side)
        rule = SimpleNamespace(
            passed=len(self.made) not in self._spoilt, cause=Cause.GENERATOR
        )
        return SimpleNamespace(
            verdict=self.verdict, reasons=("too late",), side=side, rules=[rule]
        )


@pytest.fixture(autouse=True)
def made_up_throughput(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [1000.0, 1010.0, 990.0, 1005.0, 995.0]
    place = iter(range(10_000))

    def readings(_: Any) -> Any:
        value = found[next(place) % len(found)]
        return {("search", METRICS["throughput"]): Reading(value, None, 0, "")}

    monkeypatch.setattr(gate_making, "readings_of", readings)


def made(
    monkeypatch: pytest.MonkeyPatch, runs: Runs, *, may_end: bool = True
) -> tuple[Gate, str]:
    monkeypatch.setattr(CLOCK, lambda: runs.now_s)
    gate = Gate(("throughput",), Tolerances())
    making = Making(gate, runs, 0.0, LIMIT_S, may_end=may_end)  # type: ignore[arg-type]
    return gate, making.pairs(seed=1)


def test_it_ends_when_the_answer_is_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs(each_s=1.0)
    gate, why = made(monkeypatch, runs)
    assert (gate.size, why) == (6, "the answer is clear")
    assert gate.answer().answer == NO_REGRESSION
    assert runs.restarts == 6
    assert len(runs.made) == 12


def test_against_itself_it_takes_all_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs(each_s=1.0)
    gate, why = made(monkeypatch, runs, may_end=False)
    assert (gate.size, why) == (50, "the time was over")
    assert runs.now_s <= LIMIT_S


@pytest.mark.parametrize("each_s", [10.0, 20.0, 49.0])
def test_runs_that_take_longer_than_planned_do_not_outlast_the_time(
    monkeypatch: pytest.MonkeyPatch, each_s: float
) -> None:
    runs = Runs(each_s)
    gate, why = made(monkeypatch, runs)
    assert why == "the time was over"
    assert runs.now_s <= LIMIT_S
    assert gate.size == LIMIT_S // (2 * each_s)


def test_a_run_that_the_generator_spoilt_is_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = Runs(each_s=1.0, spoilt=frozenset({3}))
    gate, _ = made(monkeypatch, runs)
    assert gate.size == 6
    # with its partner, after a restart
    assert runs.made[2:4] == runs.made[4:6]
    assert (len(runs.made), runs.restarts) == (14, 7)
    assert gate.unsound == {OLD: 0, NEW: 1} or gate.unsound == {OLD: 1, NEW: 0}


def test_five_of_them_in_a_row_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs(each_s=1.0, spoilt=frozenset(range(4, 100)))
    gate, why = made(monkeypatch, runs)
    assert why.startswith("5 times in a row a run says nothing of the server")
    assert gate.answer().answer == CANNOT_TELL


def test_a_fail_is_for_certain_also_where_the_generator_was_at_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = Runs(each_s=1.0, spoilt=frozenset({3}))
    runs.verdict = "FAIL"
    gate, _ = made(monkeypatch, runs)
    assert gate.failed == gate.made
    assert sum(gate.made.values()) == len(runs.made)


def test_unsound_runs_do_not_outlast_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs(each_s=30.0, spoilt=frozenset(range(100)))
    _, why = made(monkeypatch, runs)
    assert why == "the time was over"
    assert len(runs.made) == 2


def test_no_pair_is_begun_that_may_end_after_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The longest so far took 20 s, the others 10: at 85 s none is begun."""
    runs = Runs(each_s=5.0)

    def run(side: str) -> Any:
        if len(runs.made) == 2:
            runs.now_s += 10.0
        return Runs.run(runs, side)

    monkeypatch.setattr(runs, "run", run)
    runs.now_s = -5.0
    _, why = made(monkeypatch, runs, may_end=False)
    assert (why, runs.now_s) == ("the time was over", 85.0)


def test_a_run_without_a_fault_of_the_generator_counts_whatever_its_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = Runs(each_s=1.0)
    runs.verdict = "INVALID"  # a threshold is uncertain
    gate, _ = made(monkeypatch, runs)
    assert gate.answer().answer == NO_REGRESSION
    runs = Runs(each_s=1.0)
    runs.verdict = "FAIL"
    gate, why = made(monkeypatch, runs)
    assert (gate.answer().answer, why) == (CANNOT_TELL, "the time was over")
    assert set(gate.failed.values()) == {50}
    # at once, as it is known then
    assert capsys.readouterr().err.count("new: FAIL: too late. With it, no gate") == 1


def test_a_figure_that_is_missing_ends_it_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needs = "1,000 requests (it has 7)"
    readings: Any = {("search", METRICS["throughput"]): Reading(None, None, 0, needs)}
    monkeypatch.setattr(gate_making, "readings_of", lambda _: readings)
    gate, why = made(monkeypatch, Runs(each_s=1.0))
    assert (gate.size, gate.answer().answer) == (1, CANNOT_TELL)
    assert why == "a figure is missing"


class CollapsedRuns(Runs):
    """The new side FAILs."""

    def run(self, side: str) -> Any:
        found = super().run(side)
        found.verdict = "FAIL" if side == NEW else "PASS"
        return found


@pytest.mark.parametrize(
    ("each_s", "answer", "size"),
    [(1.0, REGRESSION, 6), (12.0, REGRESSION, 4), (16.0, CANNOT_TELL, 3)],
)
def test_a_new_side_that_collapses_is_a_regression_without_any_figure(
    monkeypatch: pytest.MonkeyPatch, each_s: float, answer: str, size: int
) -> None:
    readings: Any = {("search", METRICS["p50"]): Reading(None, None, 0, "answers")}
    monkeypatch.setattr(gate_making, "readings_of", lambda _: readings)
    runs = CollapsedRuns(each_s)
    monkeypatch.setattr(CLOCK, lambda: runs.now_s)
    gate = Gate(["p50"], Tolerances())
    making = Making(gate, runs, 0.0, LIMIT_S, may_end=True)  # type: ignore[arg-type]
    making.pairs(1)
    assert gate.answer().answer == answer
    assert gate.size == size


class GoneRuns(Runs):
    """From the second pair on, the server of this side cannot be used."""

    gone = NEW

    def __init__(self, each_s: float) -> None:
        super().__init__(each_s)
        self.noted: list[tuple[str, str]] = []

    def run(self, side: str) -> Any:
        if side == self.gone and len(self.made) >= 2:
            raise TargetError("it does not answer")
        return super().run(side)

    def note_gone(self, side: str, why: str) -> None:
        self.noted.append((side, why))


def test_a_new_server_that_is_gone_is_a_regression(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = GoneRuns(each_s=1.0)
    gate, why = made(monkeypatch, runs)
    assert (gate.answer().answer, why) == (REGRESSION, "the answer is clear")
    assert gate.failed == {OLD: 0, NEW: gate.size - 1}
    assert gate.size <= 8
    assert runs.noted == [(NEW, "it does not answer")] * (gate.size - 1)


def test_an_old_server_that_is_gone_ends_the_gate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = GoneRuns(each_s=1.0)
    runs.gone = OLD
    with pytest.raises(TargetError):
        made(monkeypatch, runs)


class ShortRuns(Runs):
    """Of 400 requests per second, too few for a p99 in their first length."""

    def readings(self, _: Any) -> Any:
        sample = round(400 * self.duration_ns / NS_PER_S)
        needs = f"1,000 requests (it has {sample})"
        p99 = Reading(None, None, 0, needs, sample)
        if sample >= 1000:
            p99 = Reading(3000.0, None, 0, "", sample)
        return {
            ("search", METRICS["throughput"]): Reading(400.0, None, 0, ""),
            ("search", METRICS["p99"]): p99,
        }


def made_of_short(
    monkeypatch: pytest.MonkeyPatch,
    runs: ShortRuns,
    limit_s: float,
    leavable: Sequence[str] = (),
) -> tuple[Gate, Making, str]:
    monkeypatch.setattr(CLOCK, lambda: runs.now_s)
    monkeypatch.setattr(gate_making, "readings_of", runs.readings)
    gate = Gate(("throughput", "p99"), Tolerances())
    given: Any = runs
    making = Making(gate, given, 0.0, limit_s, may_end=True, leavable=leavable)
    return gate, making, making.pairs(seed=1)


def test_runs_that_are_too_short_for_a_percentile_are_made_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = ShortRuns(each_s=2.0)
    gate, making, why = made_of_short(monkeypatch, runs, LIMIT_S)
    assert why == "the answer is clear"
    assert gate.answer().answer == NO_REGRESSION
    assert runs.duration_ns == 3.125 * NS_PER_S
    # the first pair does not count, and the order begins again
    assert len(runs.made) == 14
    assert runs.made[2:14] == [side for pair in islice(order_of(1), 6) for side in pair]
    assert making.cautions == [
        "Runs of 1s have too few requests for a percentile: the measure phase is "
        "3125ms long. The first pair does not count, except for its FAILs."
    ]
    assert making.each_s == pytest.approx(2 * (2.0 + 2.125))


def test_a_fail_of_the_first_runs_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = ShortRuns(each_s=2.0)

    def run(side: str) -> Any:
        runs.verdict = "FAIL" if len(runs.made) < 2 else "PASS"
        return Runs.run(runs, side)

    monkeypatch.setattr(runs, "run", run)
    gate, *_ = made_of_short(monkeypatch, runs, LIMIT_S)
    assert gate.answer().answer == CANNOT_TELL
    assert gate.failed == {OLD: 1, NEW: 1}


def test_a_percentile_that_there_is_no_time_for_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After the first pair of 4 s, six pairs take 8.25 s each: 53.5 s."""
    runs = ShortRuns(each_s=2.0)
    with pytest.raises(ConfigError) as error:
        made_of_short(monkeypatch, runs, 53.0)
    assert str(error.value) == (
        "p99 of search needs 1,000 requests in each run, and runs of 1s have 400"
    )
    assert runs.made == list(next(order_of(1)))
    gate, *_ = made_of_short(monkeypatch, ShortRuns(each_s=2.0), 54.0)
    assert gate.answer().answer == NO_REGRESSION
    runs = ShortRuns(each_s=2.0)
    monkeypatch.setattr(runs, "longer_ns", lambda _: None)
    with pytest.raises(ConfigError):
        made_of_short(monkeypatch, runs, LIMIT_S)


def test_a_percentile_that_nobody_has_asked_for_is_left_out_and_the_report_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = ShortRuns(each_s=2.0)
    gate, making, why = made_of_short(monkeypatch, runs, 53.0, ["p99"])
    assert (gate.answer().answer, why) == (NO_REGRESSION, "the answer is clear")
    assert [one.metric.name for one in gate.answer().figures] == ["throughput"]
    # the first pair counts, as its runs are as long as the others
    assert (gate.size, len(runs.made)) == (6, 12)
    assert making.cautions == [
        "p99 of search is not judged: it needs 1,000 requests in each run, and had 400."
    ]


def test_a_percentile_is_left_out_of_the_operations_alone_that_lack_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the others runs are made long enough."""
    runs = ShortRuns(each_s=2.0)

    def readings(summary: Any) -> Any:
        rare = Reading(None, None, 0, "1,000 requests (it has 4)", 4)
        return {**ShortRuns.readings(runs, summary), ("modify", METRICS["p99"]): rare}

    monkeypatch.setattr(runs, "readings", readings)
    gate, making, _ = made_of_short(monkeypatch, runs, LIMIT_S, ["p99"])
    answer = gate.answer()
    assert answer.answer == NO_REGRESSION
    assert [(one.operation, one.metric.name) for one in answer.figures] == [
        ("search", "throughput"),
        ("search", "p99"),
    ]
    assert runs.duration_ns == 3.125 * NS_PER_S
    assert making.cautions[0].startswith("p99 of modify is not judged")


@pytest.mark.parametrize(
    ("sample", "is_left_out"), [(999, True), (1000, False), (1249, False)]
)
def test_a_percentile_that_requests_without_an_answer_keep_away_is_not_left_out(
    monkeypatch: pytest.MonkeyPatch, sample: int, is_left_out: bool
) -> None:
    """It has its requests: that it is missing is what the servers did."""
    runs = ShortRuns(each_s=2.0)
    silent = Reading(None, None, 0, "an answer to each request", sample)
    throughput = Reading(400.0, None, 0, "")
    found = {
        ("search", METRICS["throughput"]): throughput,
        ("search", METRICS["p99"]): silent,
    }
    monkeypatch.setattr(runs, "readings", lambda _: found)
    monkeypatch.setattr(runs, "longer_ns", lambda _: None)
    gate, making, why = made_of_short(monkeypatch, runs, LIMIT_S, ["p99"])
    assert (why == "the answer is clear") is is_left_out
    assert (gate.answer().answer == NO_REGRESSION) is is_left_out
    assert making.cautions == is_left_out * [
        "p99 of search is not judged: it needs 1,000 requests in each run, and had 999."
    ]


def test_a_percentile_that_the_new_side_alone_lacks_is_not_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = ShortRuns(each_s=2.0)

    def readings(summary: Any) -> Any:
        found = ShortRuns.readings(runs, summary)
        if summary.side == OLD:
            found["search", METRICS["p99"]] = Reading(3000.0, None, 0, "", 2000)
        return found

    monkeypatch.setattr(runs, "readings", readings)
    gate, *_ = made_of_short(monkeypatch, runs, 53.0, ["p99"])
    assert gate.answer().answer == CANNOT_TELL


def test_a_run_that_has_too_few_requests_later_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = ShortRuns(each_s=2.0)
    runs.duration_ns = 4 * NS_PER_S

    def run(side: str) -> Any:
        if len(runs.made) == 4:
            runs.duration_ns = NS_PER_S
        return Runs.run(runs, side)

    monkeypatch.setattr(runs, "run", run)
    gate, _, why = made_of_short(monkeypatch, runs, LIMIT_S)
    assert (gate.size, why) == (3, "a figure is missing")


def test_runs_that_are_long_enough_stay_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = ShortRuns(each_s=2.0)
    runs.duration_ns = 3 * NS_PER_S + NS_PER_S // 8
    _, making, _ = made_of_short(monkeypatch, runs, LIMIT_S)
    assert (len(runs.made), making.cautions) == (12, [])


class _Baseline:
    def differences(self, summary: Any) -> Iterator[tuple[str, str, str]]:
        assert summary.side == NEW
        yield "server 1 · threads", "16", "4"

    def unknown(self, summary: Any) -> dict[str, str]:
        return {"server 1 · indexes": "could not be read"}


def test_a_baseline_of_another_making_is_refused_after_one_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = Runs(each_s=1.0)
    monkeypatch.setattr(CLOCK, lambda: runs.now_s)
    old: Any = {("search", METRICS["throughput"]): Reading(1000.0, None, 0, "")}
    gate = Gate(("throughput",), Tolerances(), [old] * 5)
    making = Making(gate, runs, 0.0, LIMIT_S, may_end=True)  # type: ignore[arg-type]
    baseline: Any = _Baseline()
    with pytest.raises(ConfigError, match="threads: 16 then, 4 now"):
        making.against(baseline, allow_differences=False)
    assert runs.made == [NEW]
    assert making.against(baseline, allow_differences=True) == "the answer is clear"
    assert making.differences == [("server 1 · threads", "16", "4")]
    assert making.unknown == {"server 1 · indexes": "could not be read"}
    said = capsys.readouterr().err
    assert "after 6 runs: no regression" in said


def test_a_baseline_is_compared_with_the_first_run_that_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first one was spoilt, then the server was away."""

    class Away(Runs):
        def run(self, side: str) -> Any:
            if len(self.made) == 1:
                self.made.append(side)
                raise TargetError("it is away")
            return super().run(side)

        def note_gone(self, side: str, why: str) -> None:
            """It is in `made`."""

    runs = Away(each_s=1.0, spoilt=frozenset({1}))
    monkeypatch.setattr(CLOCK, lambda: runs.now_s)
    old: Any = {("search", METRICS["throughput"]): Reading(1000.0, None, 0, "")}
    gate = Gate(("throughput",), Tolerances(), [old] * 5)
    making = Making(gate, runs, 0.0, LIMIT_S, may_end=True)  # type: ignore[arg-type]
    baseline: Any = _Baseline()
    with pytest.raises(ConfigError, match="threads: 16 then, 4 now"):
        making.against(baseline, allow_differences=False)
    assert len(runs.made) == 3


def test_a_look_says_what_is_open(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    values = itertools.cycle([1000.0, 3000.0, 2000.0])

    def noisy(_: Any) -> Any:
        return {("search", METRICS["throughput"]): Reading(next(values), None, 0, "")}

    monkeypatch.setattr(gate_making, "readings_of", noisy)
    gate, _ = made(monkeypatch, Runs(each_s=5.0))
    said = capsys.readouterr().err
    assert "after 6 pairs: not clear yet; throughput of search: " in said
    assert gate.answer().is_open
