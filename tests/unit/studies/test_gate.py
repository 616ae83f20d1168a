# SPDX-License-Identifier: Apache-2.0
"""The gate on made-up figures: its answers, and how they are told."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from ldapslam.base.fault import Fault
from ldapslam.reports.comparing.sequential import Plan, looks
from ldapslam.reports.figures import METRICS, THROUGHPUT, Readings
from ldapslam.reports.formats.text import render_text
from ldapslam.studies.gate import (
    ANSWERS,
    CANNOT_TELL,
    DEFAULT_METRICS,
    NEW,
    NO_REGRESSION,
    OLD,
    REGRESSION,
    Gate,
    Made,
    Tolerances,
    _end_of,
    order_of,
)
from ldapslam.studies.gate_report import (
    REHEARSED,
    GateAnswer,
    gate_document,
    gate_json,
    junit,
    markdown,
    sentence_of,
    tap,
    write_gate,
)
from support.figures import figure, table_of

SEARCH = "readers.search"
_OF_A_PIPELINE = ("gate.tap", "junit.xml")
_USUAL = {"throughput": 5000.0, "p50": 800.0, "p99": 3000.0, "errors": 0.0}

Change = Callable[[str, float], float | None]


def usual(name: str, value: float) -> float:
    return value


def slower(name: str, value: float, times: float = 1.1) -> float:
    return value / times if name == "throughput" else value * times


def without_p99(name: str, value: float) -> float | None:
    return None if name == "p99" else value


def readings(
    rng: np.random.Generator, spread: float, change: Change = usual
) -> Readings:
    """Of a run whose figures vary by this share."""
    found: Readings = {}
    for name, usual in _USUAL.items():
        value = change(name, usual * math.exp(rng.normal(0.0, spread)))
        needs = "1,000 requests (it has 7)" if value is None else ""
        found[METRICS[name].of(SEARCH)] = figure(value, needs, 10_000)
    return found


def add_pair(gate: Gate, number: int, most: int, new: Readings, old: Readings) -> None:
    """The fifth pair plans the gate for the most that there may be."""
    gate.add(new, old)
    if number == 5:
        gate.plan_for(most)


def gate_of(
    change: Change = usual,
    *,
    spread: float = 0.02,
    most: int = 24,
    tolerances: Sequence[str] = (),
) -> Gate:
    """A gate that has ended."""
    rng = np.random.default_rng(1)
    gate = Gate(DEFAULT_METRICS, Tolerances.of(tolerances))
    for number in range(1, most + 1):
        old = readings(rng, spread)
        add_pair(gate, number, most, readings(rng, spread, change), old)
        if gate.is_clear:
            break
    gate.end()
    return gate


def told(gate: Gate, job: str = "lookups") -> GateAnswer:
    sides = {OLD: "lab.settings.threads=16", NEW: "lab.settings.threads=2"}
    return GateAnswer(job, sides, gate.answer(), (), "the time was over", 1, 7.5)


def suite_of(answer: GateAnswer) -> ElementTree.Element:
    [suite] = ElementTree.fromstring(junit(answer))
    return suite


@pytest.mark.parametrize(
    ("change", "tolerances", "worse"),
    [
        (usual, [], []),
        (slower, [], ["throughput", "p50", "p99"]),
        (slower, ["25%"], []),
        (slower, ["25%", "p99=2%"], ["p99"]),
        (lambda name, value: slower(name, value, 1 / 1.5), [], []),
        # a time may be many times as long
        (lambda name, value: value * (1 + (name == "p50")), [], ["p50"]),
        (lambda name, value: value * (1 + (name == "p50")), ["p50=150%"], []),
        (lambda name, value: 0.03 if name == "errors" else value, [], ["errors"]),
        (lambda name, value: 0.03 if name == "errors" else value, ["errors=5%"], []),
    ],
)
def test_a_figure_that_is_worse_by_more_than_its_tolerance_is_a_regression(
    change: Change, tolerances: Sequence[str], worse: list[str]
) -> None:
    answer = gate_of(change, tolerances=tolerances).answer()
    assert answer.answer == (REGRESSION if worse else NO_REGRESSION)
    by_answer = {one.name.short: one.answer for one in answer.figures}
    assert [name for name in by_answer if by_answer[name] == REGRESSION] == worse
    if not worse:
        assert set(by_answer.values()) == {NO_REGRESSION}
        assert answer.pairs < 24  # it ended when that was clear


def test_a_regression_is_told_with_its_size() -> None:
    by_name = {one.name.short: one for one in gate_of(slower).answer().figures}
    for name, expected in (("throughput", 1 / 1.1), ("p99", 1.1)):
        change = by_name[name].change
        assert change is not None
        value, low, high = change
        assert low < value < high
        assert value == pytest.approx(expected, rel=0.03)


def test_a_spread_too_large_for_the_time_cannot_be_told() -> None:
    gate = gate_of(spread=0.5, most=8)
    answer = gate.answer()
    assert answer.answer == CANNOT_TELL
    one = answer.figures[0]
    assert one.answer == CANNOT_TELL
    assert one.found is not None
    assert one.found < 0.7  # of a throughput: only a large fall would have been found
    assert "would have been found" in sentence_of(one)
    assert answer.is_open


def unsteady(name: str, number: int, noise: float) -> float:
    """p99 is steady in the first pairs alone, throughput never: the gate goes on."""
    if name == "p99":
        return 2.0 * noise if number > 6 else 0.01 * noise
    return 0.3 * noise if name == "throughput" else 0.0


def gate_that(
    loss: Callable[[str, int, float], float], *, is_paired: bool = True
) -> Gate:
    """Of 14 pairs, or new runs against ten, whose figures are so much larger in the new
    side, as logarithms, by the figure's name and number and a noise of +1 and -1."""
    old = {
        METRICS[name].of(SEARCH): figure(value, sample=10_000)
        for name, value in _USUAL.items()
    }
    gate = Gate(DEFAULT_METRICS, Tolerances(), () if is_paired else [old] * 10)
    for number in range(1, 15):
        new = {}
        for name, one in old.items():
            change = math.exp(loss(name.short, number, (-1) ** number))
            new[name] = replace(one, value=(one.value or 0.0) * change)
        gate.add(new, old if is_paired else None)
        if number == 5:
            gate.plan_for(14)
    gate.end()
    return gate


@pytest.mark.parametrize("is_paired", [True, False])
def test_a_figure_is_told_as_the_look_saw_it_that_decided(is_paired: bool) -> None:
    gate = gate_that(unsteady, is_paired=is_paired)
    by_name = {one.name.short: one for one in gate.answer().figures}
    p99, throughput = by_name["p99"], by_name["throughput"]
    assert (p99.answer, p99.pairs, p99.last_pairs) == (NO_REGRESSION, 6, 14)
    assert p99.change is not None
    assert p99.last is not None
    assert 0.95 < p99.change[1] < p99.change[2] < 1.05
    assert p99.last[2] > 1.5
    assert p99.new == pytest.approx(p99.change[0] * 3000.0)
    assert (throughput.answer, throughput.pairs) == (CANNOT_TELL, 14)
    assert by_name["p50"].last is None  # the last look says the same

    answer, unit = told(gate), "pairs" if is_paired else "runs"
    said = sentence_of(p99)
    shown = re.escape(f"after 6 {unit}, tolerance 5 %; ")
    assert re.search(rf"to \+[12]\.\d\) {shown}.*after 14, which leaves it open", said)
    [row] = [one for one in markdown(answer).splitlines() if "search | p99 " in one]
    assert "| 6 |" in row
    assert f"after {unit}" in markdown(answer)
    [told_of] = [one for one in gate_json(answer)["figures"] if one["metric"] == "p99"]
    assert (told_of["pairs"], told_of["last"]["pairs"]) == (6, 14)
    assert told_of["sentence"] == said
    assert said in tap(answer)
    notes = table_of(gate_document(answer), "gate-figures").notes
    assert any("which leaves it open" in one for one in notes)


def test_a_last_look_wholly_beyond_the_tolerance_takes_a_pass_back() -> None:
    """Even where Holm over all figures does not call it a regression."""

    def later_slow(name: str, number: int, noise: float) -> float:
        if name == "p99":
            return 0.6 + 0.28 * noise if number > 6 else 0.01 * noise
        return unsteady(name, number, noise)

    found = {one.name.short: one for one in gate_that(later_slow).answer().figures}
    p99 = found["p99"]
    assert p99.change is not None
    assert p99.change[1] > 1.05
    assert (p99.answer, p99.pairs, p99.last) == (CANNOT_TELL, 14, None)


def test_a_figure_that_is_missing_never_passes() -> None:
    answer = gate_of(without_p99).answer()
    assert answer.answer == CANNOT_TELL
    [missing] = [one for one in answer.figures if one.needs]
    assert sentence_of(missing) == (
        "p99 of readers.search: n/a; needs 1,000 requests (it has 7)"
    )


@pytest.mark.parametrize(
    ("old", "new", "answer"),
    [
        (0, 0, NO_REGRESSION),
        (0, 1, CANNOT_TELL),
        (6, 6, CANNOT_TELL),
        (1, 0, NO_REGRESSION),
        (0, 6, REGRESSION),
    ],
)
def test_a_gate_passes_only_when_the_new_sides_runs_do(
    old: int, new: int, answer: str
) -> None:
    rng = np.random.default_rng(1)
    gate = Gate(DEFAULT_METRICS, Tolerances())
    for number in range(1, 7):
        for side, fails in ((OLD, old), (NEW, new)):
            gate.note(side, "FAIL" if number <= fails else "PASS", is_sound=True)
        add_pair(gate, number, 6, readings(rng, 0.001), readings(rng, 0.001))
    assert gate.answer().answer == answer
    shown = gate_document(told(gate))
    said = " ".join((*shown.reasons, *shown.cautions))
    assert ("side FAIL" in said) == bool(old or new)
    assert ("not ok 5" in tap(told(gate))) == (answer != NO_REGRESSION)


@pytest.mark.parametrize(
    ("tolerance", "answer"), [("0.1%", NO_REGRESSION), ("0.005%", CANNOT_TELL)]
)
def test_runs_without_an_error_say_only_as_much_as_their_requests(
    tolerance: str, answer: str
) -> None:
    """60,000 requests on each side: a true share below 0.01 % is not known."""
    gate = gate_of(tolerances=[f"errors={tolerance}"], most=6, spread=0.001)
    by_name = {one.name.short: one.answer for one in gate.answer().figures}
    assert by_name.pop("errors") == answer
    assert set(by_name.values()) == {NO_REGRESSION}


def test_what_is_left_of_many_runs_is_a_selection_and_never_passes() -> None:
    gate = gate_of()
    count = gate.size
    for verdict in ("PASS", "INVALID"):
        assert gate.answer().answer == NO_REGRESSION
        for _ in range(count):
            gate.note(NEW, verdict, is_sound=verdict == "PASS")
    answer = told(gate)
    [why] = answer.reasons
    assert why.startswith(f"{count} of {2 * count} runs of the new side were left out")
    assert "left out" in answer.statement
    assert not answer.cautions
    _is_an_error_of_its_own(answer, why)


def _is_an_error_of_its_own(answer: GateAnswer, why: str) -> None:
    """Of the gate, beside cases that all pass."""
    assert (answer.answer.answer, answer.verdict) == (CANNOT_TELL, "INVALID")
    suite = suite_of(answer)
    assert (suite.get("errors"), suite.get("failures")) == ("1", "0")
    [case] = [one for one in suite.iter("testcase") if len(one)]
    assert case.get("name") == "gate"
    assert case[0].get("message") == why
    assert f"not ok 1 - cannot tell: {why}" in tap(answer)
    assert tap(answer).count("not ok") == 1


@pytest.mark.parametrize("has_figures", [True, False])
def test_a_gate_that_an_error_ended_never_passes(has_figures: bool) -> None:
    """Also one of a server that was never there."""
    gate = gate_of() if has_figures else Gate(("p50",), Tolerances())
    gate.end("server 'ldap://new' does not answer")
    answer = replace(told(gate), advice="start it")
    assert answer.reasons == ("server 'ldap://new' does not answer",)
    assert answer.explanation[-1] == "hint: start it"
    _is_an_error_of_its_own(
        answer, "server 'ldap://new' does not answer; hint: start it"
    )


def test_an_error_takes_no_regression_back() -> None:
    gate = gate_of(slower)
    gate.end("server 'ldap://new' does not answer")
    answer = told(gate)
    assert answer.answer.answer == REGRESSION
    first, *others = answer.reasons
    assert first == "server 'ldap://new' does not answer"
    assert any(one.startswith("p50 of readers.search") for one in others)
    assert f"not ok 1 - cannot tell: {first}" in tap(answer)
    assert '<failure message="p50' in junit(answer)


def test_an_operation_that_appears_later_is_a_figure_that_is_missing() -> None:
    rng = np.random.default_rng(1)
    gate = Gate(("throughput",), Tolerances())
    for number in range(1, 7):
        new = readings(rng, 0.001)
        if number == 6:
            new[THROUGHPUT.of("late.add")] = figure(1.0)
        add_pair(gate, number, 6, new, readings(rng, 0.001))
    assert gate.answer().answer == CANNOT_TELL
    assert [one.needs for one in gate.answer().figures if one.name.title == "late.add"]


def test_a_gate_without_figures_never_passes() -> None:
    gate = Gate(DEFAULT_METRICS, Tolerances())
    for _ in range(6):
        gate.add({}, {})
    gate.plan_for(6)
    gate.end()
    assert gate.answer().answer == CANNOT_TELL
    assert told(gate).verdict == "INVALID"
    assert told(gate).reasons == ("no pair of runs has a figure to compare",)
    assert "not ok 1 - cannot tell: no pair of runs" in tap(told(gate))
    assert 'tests="2" failures="0" errors="2"' in junit(told(gate))


def test_a_host_that_drifts_slowly_raises_no_more_false_alarms() -> None:
    """Its speed is correlated by 0.8 from pair to pair, and five times as large as what
    else differs."""
    rng, pairs, gates = np.random.default_rng(3), 12, 1000
    plan, bounds = Plan.of(looks(pairs), 2), np.array([0.05])
    step, regressions = math.sqrt(0.8), 0
    for seed in range(gates):
        drift, speeds = rng.normal(), []
        for _ in range(2 * pairs):
            drift = step * drift + math.sqrt(1 - step**2) * rng.normal()
            speeds.append(0.5 * drift + 0.1 * rng.normal())
        losses = [
            (second - first) * (1 if side == OLD else -1)
            for first, second, (side, _) in zip(
                speeds[::2], speeds[1::2], order_of(seed), strict=False
            )
        ]
        end, *_ = _end_of(np.array(losses)[:, np.newaxis], bounds, plan)
        regressions += end == REGRESSION
    # as of independent pairs, with t's excess (test_sequential.py)
    assert regressions / gates <= 0.025 * 1.35


def test_each_side_is_first_in_one_of_two_pairs() -> None:
    orders = list(islice(order_of(3), 400))
    for pair in zip(orders[::2], orders[1::2], strict=True):
        assert set(pair) == {(OLD, NEW), (NEW, OLD)}
    assert 60 < sum(first == (OLD, NEW) for first in orders[::2]) < 140
    assert orders == list(islice(order_of(3), 400))
    assert orders != list(islice(order_of(4), 400))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("5", "percentage"),
        ("0%", "more than 0%"),
        ("100%", "less than 100%"),
        ("150%", "less than 100%"),
        ("throughput=150%", "less than 100%"),
        ("errors=150%", "less than 100%"),
        ("p99=0%", "more than 0%, got"),
        ("p98=5%", "unknown statistic 'p98'"),
        ("p99=", "percentage"),
    ],
)
def test_a_wrong_tolerance_is_refused(text: str, says: str) -> None:
    with pytest.raises(Fault, match=re.escape(says)):
        Tolerances.of([text])


def test_the_hint_of_a_tolerance_of_all_metrics_names_one_of_times() -> None:
    with pytest.raises(Fault) as fault:
        Tolerances.of(["150%"])
    assert "p99=150%" in (fault.value.hint or "")


@pytest.mark.parametrize("operations", [1, 10])
def test_six_runs_that_fail_against_none_are_a_regression_however_long_the_gate(
    operations: int,
) -> None:
    """As of a directory without entries: its searches are fast, and find nothing."""
    rng = np.random.default_rng(1)
    gate = Gate(DEFAULT_METRICS, Tolerances())
    for number in range(1, 7):
        for side in (OLD, NEW):
            verdict = "FAIL" if side == NEW else "PASS"
            gate.note(side, verdict, is_sound=True)
        sides = [
            {
                name.of(f"op-{place}"): one
                for place in range(operations)
                for name, one in readings(rng, 0.02).items()
            }
            for _ in (NEW, OLD)
        ]
        add_pair(gate, number, 150, *sides)
    assert gate.answer().answer == REGRESSION


def made_pair(number: int, *, is_sound: bool = True) -> list[Made]:
    """The runs of a gate's pair, as they were made."""
    return [
        Made(
            *(side, f"run-{number}-{side}", "PASS", (), is_sound),
            readings={THROUGHPUT.of(SEARCH): figure(per_s)},
        )
        for side, per_s in ((NEW, 1000.0), (OLD, 2000.0))
    ]


def test_the_report_says_what_was_asked_and_has_each_runs_figures() -> None:
    gate = gate_of(slower)
    runs = [*made_pair(1), *made_pair(2, is_sound=False), *made_pair(3)]
    load = "lookups (500/s open loop on server)"
    about = {
        side: {"Load": load, "server": f"slapd 2.6.{place}", "Host": "loader"}
        for place, side in enumerate((OLD, NEW), 7)
    }
    answer = replace(
        told(gate),
        runs=tuple(runs),
        about=about,
        begun_utc="2026-11-26T10:00:00Z",
        took_s=61.0,
    )
    document = gate_document(answer)
    facts = dict(document.facts)
    assert facts["Load"] == load
    assert facts["Old"] == "lab.settings.threads=16; slapd 2.6.7"
    assert facts["New"] == "lab.settings.threads=2; slapd 2.6.8"
    assert facts["Host"] == "loader"
    assert facts["Began"] == "2026-11-26 10:00 UTC, took 61 s"
    table = table_of(document, "gate-runs")
    rows = [[cell.text for cell in row] for row in table.rows]
    assert [row[0] for row in rows] == ["1", "1", "–", "–", "2", "2"]
    assert rows[0][1:3] == ["new", "1\u202f000"]
    assert rows[1][1:3] == ["old", "2\u202f000"]
    assert load in markdown(answer)
    assert "run-3-old" in markdown(answer)
    found = gate_json(answer)["runs"]
    assert [one["pair"] for one in found] == [1, 1, None, None, 2, 2]
    assert found[0]["figures"] == {SEARCH: {"throughput": 1000.0}}
    # what differs between the sides is told of each
    about[NEW]["Load"] = "lookups (4 clients closed loop on server)"
    facts = dict(gate_document(answer).facts)
    assert facts["Load, old"] == load
    assert "closed loop" in facts["Load, new"]


def test_runs_too_short_for_a_threshold_are_told_once_as_what_they_are() -> None:
    gate = gate_of()
    runs = [
        replace(
            one,
            verdict="INVALID",
            reasons=(f"not certain: p99 < 100ms, was {number}ms",),
            uncertain=("p99 < 100ms",),
        )
        for number in range(1, 5)
        for one in made_pair(number)
    ]
    answer = replace(told(gate), runs=runs)
    found = markdown(answer)
    assert "INVALID" not in found
    assert found.count("| counts |") == 8
    said = "counts, 8 runs: not certain of p99 < 100ms, which a longer run is"
    assert found.replace("&lt;", "<").count(said) == found.count("p99 &lt; 100ms") == 1
    assert gate_json(answer)["runs"][0]["verdict"] == "INVALID"
    # another reason is told with its values
    others = [replace(one, uncertain=()) for one in runs]
    assert "| INVALID |" in markdown(replace(answer, runs=others))


def test_a_rehearsal_says_which_figures_would_show_a_change() -> None:
    """Throughput is steady, p50 and p99 are not: they would not show 10 % alone."""
    rng = np.random.default_rng(1)
    gate = Gate(("throughput", "p99"), Tolerances())
    for number in range(1, 7):
        pair = []
        for _ in (NEW, OLD):
            found = readings(rng, 0.5)
            steady = readings(rng, 0.001)
            key = THROUGHPUT.of(SEARCH)
            pair.append({**found, key: steady[key]})
        add_pair(gate, number, 6, *pair)
    of_ten = {one.change: one for one in gate.rehearse([0.0, 0.1], gates=100)}[0.1]
    by_name = {name.short: share for name, share in of_ten.found_by.items()}
    assert by_name["throughput"] > 0.9
    assert by_name["p99"] < 0.1
    # of an open loop it does not fall
    [of_open] = gate.rehearse([0.1], held={SEARCH}, gates=100)
    assert max(of_open.found_by.values()) < 0.1
    answer = replace(told(gate), rehearsed=(of_ten,))
    assert "throughput of readers.search" in render_text(gate_document(answer))


def test_a_rehearsal_finds_more_of_what_is_larger() -> None:
    gate = gate_of(spread=0.04)
    found = gate.rehearse(REHEARSED, gates=200)
    regressions = [one.answers[REGRESSION] for one in found]
    assert regressions == sorted(regressions)
    assert regressions[0] < 0.03
    assert regressions[-1] == 1.0
    assert found[0].answers[NO_REGRESSION] > 0.5
    assert all(sum(one.answers.values()) == pytest.approx(1) for one in found)
    assert all(set(one.answers) == set(ANSWERS) for one in found)
    assert found[-1].pairs == 6


@pytest.mark.parametrize(
    ("gate", "kind", "metrics"),
    [
        (gate_of(slower), "failure", ["throughput", "p50", "p99"]),
        (gate_of(spread=0.5, most=8), "error", ["throughput", "p50", "p99"]),
    ],
    ids=["regression", "cannot tell"],
)
def test_a_pipeline_has_a_case_for_each_figure_and_one_for_the_runs(
    gate: Gate, kind: str, metrics: list[str]
) -> None:
    suite = suite_of(told(gate))
    cases = {case.get("name"): case.find(kind) for case in suite.iter("testcase")}
    assert list(cases) == [*DEFAULT_METRICS, "runs"]
    assert [name for name, found in cases.items() if found is not None] == metrics
    found = cases["p50"]
    assert found is not None
    assert re.match(r"p50 of readers.search: [+-]\d", found.get("message") or "")
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors")}
    assert counts == {"tests": "5", "failures": "0", "errors": "0"} | {f"{kind}s": "3"}
    lines = tap(told(gate)).splitlines()
    assert lines[:2] == ["TAP version 13", "1..5"]
    tests = [line.startswith("not ok") for line in lines[2:] if line[0] != "#"]
    assert tests == [name in metrics for name in cases]


def test_a_change_that_no_number_holds_is_null_in_json() -> None:
    """`Infinity` is no JSON: jq and others refuse the whole document."""
    gate = Gate(("p50",), Tolerances())
    for times in ((1e-15, 1e15), (1e15, 1e-15)):
        gate.add(*({METRICS["p50"].of(SEARCH): figure(t)} for t in times))
        gate.plan_for(2)
    gate.end()
    answer = GateAnswer("lookups", {"new": ""}, gate.answer(), (), "", 1, 3.0)
    document = json.dumps(gate_json(answer), allow_nan=False)
    [told_of] = json.loads(document)["figures"]
    assert told_of["would_have_been_found"] is None
    assert told_of["ratio"] == pytest.approx(1.0)
    assert told_of["ci95"] == [pytest.approx(0.0), None]


def test_no_text_of_several_lines_is_a_line_of_tap() -> None:
    """Such as what a server's program says when it ends."""
    gate = Gate(DEFAULT_METRICS, Tolerances())
    gate.end("it said\nok 9 - all is well")
    answer = GateAnswer("lookups", {"new": ""}, gate.answer(), (), "", 1, 3.0)
    begins = ("TAP version", "1..1", "#", "not ok 1 ")
    assert all(one.startswith(begins) for one in tap(answer).splitlines())


@pytest.mark.parametrize(
    ("change", "spread", "banner", "verdict"),
    [
        (usual, 0.02, "NO REGRESSION", "PASS"),
        (slower, 0.02, "REGRESSION", "FAIL"),
        (usual, 0.5, "CANNOT TELL", "INVALID"),
    ],
)
def test_the_answer_has_the_same_words_everywhere(
    change: Change, spread: float, banner: str, verdict: str, tmp_path: Path
) -> None:
    gate = gate_of(change, spread=spread, most=8)
    advice = "more --time" if banner == "CANNOT TELL" else ""
    answer = replace(told(gate), advice=advice, notes=("Runs are long.",))
    files = {path.name for path in write_gate(answer, tmp_path)}
    texts = {one: (tmp_path / one).read_text() for one in files - {"gate.pdf"}}
    assert files - texts.keys() == {"gate.pdf"}
    found = json.loads(texts.pop("gate.json"))
    assert found == json.loads(json.dumps(gate_json(answer)))
    assert (found["verdict"], found["advice"]) == (verdict, advice)
    assert found["answer"] == banner.lower()
    assert f">{banner.lower()}<" in texts.pop("badge.svg")
    assert texts["gate.txt"].startswith(f"{banner}  gate of lookups\n")
    assert texts["gate.md"].startswith(f"## gate of lookups: {banner}\n")
    assert f'<p class="word">{banner}</p>' in texts["gate.html"]
    assert f'<header class="verdict {verdict.lower()}">' in texts["gate.html"]
    assert texts["gate.md"].count("| readers.search |") == 4
    assert texts.keys() == {*("gate.txt", "gate.md", "gate.html"), *_OF_A_PIPELINE}
    for text in texts.values():
        assert answer.statement in text
        assert "Runs are long." in text
        assert ("to tell: more --time" in text) == bool(advice)
        assert "INVALID" not in text


def test_before_the_first_look_the_reasons_are_what_ended_it() -> None:
    answer = told(gate_of(without_p99, most=1))
    assert answer.reasons == (
        "p99 of readers.search: n/a; needs 1,000 requests (it has 7)",
    )
    # each case says why it is no pass
    assert tap(answer).count("too few pairs of runs") == 4
    assert told(gate_of(most=1)).reasons == ("too few pairs of runs",)


def test_names_of_a_job_are_data_in_every_output() -> None:
    answer = told(gate_of(), job="<b>|`x`\x1b[31m # [a](b)")
    text = markdown(answer)
    assert "<b>" not in text
    assert "\x1b" not in text
    assert r"\`x\`" in text
    assert r"\[a\](b)" in text
    suite = suite_of(answer)
    assert suite.get("name") == r"gate of <b>|`x`\u001b[31m # [a](b)"


def test_days_of_a_baseline_that_differ_make_its_intervals_wider() -> None:
    def one(value: float) -> Readings:
        return {METRICS["p50"].of(SEARCH): figure(value, sample=10_000)}

    old = [one(100.0 * factor) for factor in (0.9, 0.91, 1.0, 1.01, 1.1, 1.11)]
    days = [f"2026-11-0{1 + place // 2}" for place in range(6)]
    widths = []
    for known in ((), days):
        gate = Gate(("p50",), Tolerances(0.3), old, known)
        for number in range(1, 7):
            gate.add(one(100.0 + number % 2))
            if number == 5:
                gate.plan_for(24)
        [told_of] = gate.answer().figures
        assert told_of.change is not None
        widths.append(told_of.change[2] - told_of.change[1])
    assert widths[1] > 1.5 * widths[0]
