# SPDX-License-Identifier: Apache-2.0
"""Sides of runs: every difference in how they were made, and of their figures."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from ldapslam.reports.comparing.comparison import (
    Comparison,
    Finding,
    Side,
    compare_sides,
)
from ldapslam.reports.comparing.making import NOT_ASKED, NOT_READ, differences_of
from ldapslam.reports.comparing.tables import document_of, tables_of
from ldapslam.reports.document import CAUTION, Cell
from ldapslam.reports.formats.text import render_table
from ldapslam.reports.model import Summary
from ldapslam.reports.streams import OperationSummary
from ldapslam.results.facts import Manifest
from support.figures import with_streams
from support.judged import judged
from support.store import JOB_TEXT, Scenario


@pytest.fixture(scope="module")
def summary() -> Summary:
    return judged(Scenario())


def changed(summary: Summary, run_id: str, **fields: Any) -> Summary:
    if "manifest" in fields:
        fields["manifest"] = Manifest.parsed(fields["manifest"])
    return replace(summary, run=replace(summary.run, run_id=run_id, **fields))


def of_server(cache: int, addresses: str) -> dict[str, Any]:
    uri = f"ldap://{addresses}"
    facts = {"vendor": "OpenLDAP", "settings": {"olcThreads": cache}}
    return {
        "servers": {uri: {"addresses": [addresses]}},
        "observations": {uri: {"facts": facts, "before": {"operations": {"add": 7}}}},
    }


#: Nobody asked the servers of the summary for their settings.
UNASKED = {f"server {n} · settings": [NOT_ASKED, NOT_ASKED] for n in (1, 2)}


def test_what_was_changed_is_named_with_each_runs_value(summary: Summary) -> None:
    again = changed(
        summary, "again", t0_utc="2027-01-01T00:00:00Z", submitted_by="bob@laptop"
    )
    assert differences_of([summary, again]) == UNASKED
    before = changed(summary, "before", manifest=of_server(16, "ds1"))
    after = changed(
        summary,
        "after",
        # servers are compared by their places
        manifest=of_server(32, "ds9"),
        job_text=JOB_TEXT.replace("150/s", "300/s"),
    )
    assert differences_of([before, after]) == {
        "job file · streams · 2 · load · rate": ["150/s", "300/s"],
        "server 1 · settings · olcThreads": ["16", "32"],
    }
    lacking = changed(summary, "lacking", manifest={})
    assert differences_of([summary, lacking])["ldapslam"] == ["0.1.0", None]


def test_what_could_not_be_read_is_not_called_the_same(summary: Summary) -> None:
    hidden = of_server(16, "ds1")
    facts = hidden["observations"]["ldap://ds1"]["facts"]
    facts |= {"settings": {}, "databases": [], "unreadable": ["cn=config"]}
    blind = changed(summary, "blind", manifest=hidden)
    seeing = changed(summary, "seeing", manifest=of_server(16, "ds1"))
    assert differences_of([blind, blind]) == {
        "server 1 · cn=config": [NOT_READ, NOT_READ]
    }
    hides = {"server 1 · cn=config": [NOT_READ, "was read"]}
    assert differences_of([blind, seeing]) == hides
    other = changed(summary, "other", manifest=of_server(32, "ds1"))
    assert differences_of([blind, seeing, other]) == {
        "server 1 · cn=config": [NOT_READ, "was read", "was read"],
        "server 1 · settings · olcThreads": [NOT_READ, "16", "32"],
    }
    failed = {"observations": {"ldap://ds1": {"failure": "no answer"}}}
    lost = changed(summary, "lost", manifest=failed)
    assert differences_of([lost, lost]) == {"server 1 · settings": [NOT_READ, NOT_READ]}


def scaled(summary: Summary, run_id: str, factor: float, **changes: Any) -> Summary:
    """The run with other response times, rates and total times."""

    def operation(one: OperationSummary) -> OperationSummary:
        times = one.times["response_time"]
        scaled_times = replace(
            times,
            mean_us=(times.mean_us or 0) * factor,
            percentiles_us={
                name: value and value * factor
                for name, value in times.percentiles_us.items()
            },
        )
        return replace(
            one,
            throughput_per_s=(one.throughput_per_s or 0) / factor,
            goodput_per_s=(one.goodput_per_s or 0) / factor,
            times={**one.times, "response_time": scaled_times},
        )

    streams = tuple(
        replace(
            stream,
            planned=replace(stream.planned, count=1_000),
            window=replace(stream.window, elapsed_s=10 * factor),
            operations=tuple(map(operation, stream.operations)),
        )
        for stream in summary.streams
    )
    return replace(with_streams(changed(summary, run_id), streams), **changes)


def side(name: str, summary: Summary, *factors: float, **changes: Any) -> Side:
    runs = (
        scaled(summary, f"{name}{n}", factor, **changes)
        for n, factor in enumerate(factors)
    )
    return Side(name, tuple(runs))


def found(comparison: Comparison, operation: str, metric: str) -> Finding:
    return next(
        one
        for one in comparison.findings
        if (one.name.title, one.name.short) == (operation, metric)
    )


BASE = (1.0, 1.001, 0.999)
SLOWER = (1.101, 1.1, 1.099)


@pytest.fixture(scope="module")
def slower(summary: Summary) -> Comparison:
    """Three runs against three with times longer by a tenth."""
    return compare_sides([side("A", summary, *BASE), side("B", summary, *SLOWER)])


def row_of(comparison: Comparison, operation: str, title: str) -> list[str]:
    """The texts of the row of a metric's first finding."""
    tables = tables_of(comparison)
    [rows] = [one.rows for one in tables if one.name == f"comparison-{operation}"]
    [place] = [n for n, row in enumerate(rows) if row[0].text.startswith(title)]
    return [cell.text for cell in rows[place + 1]]


def text_of(comparison: Comparison) -> str:
    return "\n".join(render_table(one) for one in tables_of(comparison))


def test_repeats_that_differ_are_told(slower: Comparison) -> None:
    p50 = found(slower, "readers.search", "p50")
    assert p50.verdict == "higher"
    assert p50.sample == "runs"
    assert p50.change is not None
    assert p50.change.value == pytest.approx(1.1)
    assert p50.adjusted_p is not None
    assert p50.change.p < p50.adjusted_p < 0.05
    assert row_of(slower, "readers.search", "p50")[3:] == [
        *("+10.00 % (+9.76 to +10.24)", "<0.001", "higher", ""),
    ]
    assert found(slower, "readers", "elapsed").verdict == "higher"
    assert found(slower, "readers.search", "throughput").verdict == "lower"
    errors = found(slower, "readers.search", "errors")
    assert (errors.verdict, errors.change) == ("no difference seen", None)


def test_a_large_rise_is_told_by_how_many_times(summary: Summary) -> None:
    new = side("B", summary, 808.0, 800.0, 792.0)
    comparison = compare_sides([side("A", summary, *BASE), new])
    change = row_of(comparison, "readers.search", "p50")[3]
    assert change == "× 800 (781 to 820)"


def test_a_rate_that_both_sides_held_is_the_same_and_no_test(summary: Summary) -> None:
    """Without a spread, the smallest change would be significant."""
    new = side("B", summary, 1.00001, 1.00001001)
    comparison = compare_sides([side("A", summary, 1.0, 1.00000001), new])
    throughput = found(comparison, "readers.search", "throughput")
    assert (throughput.verdict, throughput.change) == ("no difference seen", None)
    assert comparison.tests < len(comparison.findings)


def test_goodput_is_compared_where_it_is_not_throughput(
    summary: Summary, slower: Comparison
) -> None:
    """Only the writers' modifies fail at times."""
    have = {one.name.title for one in slower.findings if one.name.short == "goodput"}
    assert have == {"writers.modify"}
    base, new = side("A", summary, *BASE), side("B", summary, 1.1, 1.101)
    search = replace(new.runs[1].streams[0].operations[0], goodput_per_s=1.0)
    failing = replace(new.runs[1].streams[0], operations=(search,))
    last = with_streams(new.runs[1], (failing, *new.runs[1].streams[1:]))
    comparison = compare_sides([base, Side("B", (new.runs[0], last))])
    assert found(comparison, "readers.search", "goodput").old.value is not None


def test_repeats_without_a_difference_say_what_would_have_been_seen(
    summary: Summary,
) -> None:
    new = side("B", summary, 1.002, 1.0, 0.9985)
    comparison = compare_sides([side("A", summary, *BASE), new])
    mean = found(comparison, "readers.search", "mean")
    assert mean.verdict == "no difference seen"
    assert mean.detectable is not None
    assert 0.003 < mean.detectable < 0.02
    *_, finding, detectable = row_of(comparison, "readers.search", "mean")
    assert finding == "no difference seen"
    assert detectable.endswith(" %")


@pytest.mark.parametrize("runs", [1, 3])
def test_that_all_requests_fail_is_found_and_leaves_no_times(runs: int) -> None:
    def failing(name: str, share: float) -> Side:
        one = judged(Scenario(failing=share, modifies_per_s=400, thresholds=()))
        return Side(name, tuple(changed(one, f"{name}{n}") for n in range(runs)))

    sides = [failing("A", 0.0), failing("B", 1.0)]
    comparison = compare_sides(sides, include_invalid=True)
    row = row_of(comparison, "writers.modify", "errors")
    assert row[3].startswith("+100.00 points (")
    assert row[5] == "higher"
    needs = {
        one.name.short: one.needs
        for one in comparison.findings
        if one.name.title == "writers.modify" and one.needs
    }
    assert needs == {
        "goodput": "values above 0 in every run",
        **dict.fromkeys(("mean", "p50", "p95", "p99"), "successful requests"),
    }


def test_single_runs_are_compared_by_batches(summary: Summary) -> None:
    comparison = compare_sides([side("A", summary, 1.0), side("B", summary, 1.0)])
    mean = found(comparison, "writers.modify", "mean")
    assert (mean.sample, mean.verdict) == ("batches", "no difference seen")
    elapsed = found(comparison, "readers", "elapsed")
    assert elapsed.verdict == "cannot tell"
    assert (elapsed.needs or "").startswith("repeated runs")
    assert "does not see what varies from run to run" in text_of(comparison)
    comparison = compare_sides([side("A", summary, 1.0), side("B", summary, 2.0)])
    assert found(comparison, "writers.modify", "mean").verdict == "higher"


def test_an_invalid_run_is_left_out_unless_it_is_asked_for(summary: Summary) -> None:
    base, new = side("A", summary, *BASE), side("B", summary, 1.1, 1.11, 1.09)
    bad = replace(new.runs[2], verdict="INVALID")
    sides = [base, Side("B", (*new.runs[:2], bad))]
    left = compare_sides(sides)
    assert (left.excluded, left.without_runs) == (("B2",), ())
    assert len(found(left, "readers.search", "p50").new.of_runs) == 2
    assert tables_of(left)[0].rows[-1][3] == Cell("INVALID, left out", CAUTION)
    every = compare_sides(sides, include_invalid=True)
    assert every.excluded == ()
    assert len(found(every, "readers.search", "p50").new.of_runs) == 3


def test_a_side_without_a_valid_run_is_told(summary: Summary) -> None:
    sides = [
        side("A", summary, *BASE),
        side("B", summary, 1.1, 1.11, verdict="INVALID"),
    ]
    comparison = compare_sides(sides)
    assert comparison.without_runs == ("B",)
    assert {one.verdict for one in comparison.findings} == {"cannot tell"}
    assert "B has no valid run" in render_table(tables_of(comparison)[0])


def test_repeats_that_were_made_otherwise_are_told(summary: Summary) -> None:
    base = side("A", summary, *BASE)
    other = JOB_TEXT.replace("150/s", "300/s")
    odd = replace(
        base.runs[1], run=replace(base.runs[1].run, run_id="odd", job_text=other)
    )
    sides = [Side("A", (base.runs[0], odd)), side("B", summary, 1.0, 1.1)]
    comparison = compare_sides(sides)
    text = render_table(tables_of(comparison)[1])
    assert "The runs of A differ in how they were made" in text
    assert re.search(r"rate +150/s +A1, B\n +300/s +A2\n", text)
    assert document_of(comparison)["differing_repeats"] == ["A"]


def test_eighteen_runs_fit_a_terminal(summary: Summary) -> None:
    sides = [side(chr(65 + n), summary, 1 + n / 100) for n in range(18)]
    sides.append(Side("Z", (changed(summary, "z", manifest={"job_file": "3" * 70}),)))
    text = text_of(compare_sides(sides))
    assert max(map(len, text.splitlines())) <= 115


def test_the_document_is_json_and_names_its_method(summary: Summary) -> None:
    sides = [side("A", summary, *BASE), side("B", summary, 1.1, 1.101, 1.102)]
    whole = json.loads(json.dumps(document_of(compare_sides(sides)), allow_nan=False))
    assert [one["name"] for one in whole["sides"]] == ["A", "B"]
    assert whole["method"]["adjustment"] == "Holm"
    assert "Welch" in whole["method"]["runs"]
    p99 = next(one for one in whole["findings"] if one["metric"] == "p99")
    assert p99["verdict"] == "higher"
    low, high = p99["ratio"]["ci95"]
    assert low < p99["ratio"]["value"] < high
    assert p99["old"]["runs"] == pytest.approx(
        [p99["old"]["runs"][0] * factor for factor in BASE]
    )
