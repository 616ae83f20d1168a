# SPDX-License-Identifier: Apache-2.0
"""Figures of what monitors read: rates, restarts, what is missing, what is shown."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from ldapslam.reports.charts import charts
from ldapslam.reports.charts.chart_data import chart_name, monitor_number, panels_of
from ldapslam.reports.collect.telemetry import MetricSummary, MonitorSummary, telemetry
from ldapslam.reports.collect.timeline import DISPLAY_POINTS, NS_PER_S
from ldapslam.reports.formats.exports import MONITOR_COLUMNS, write_monitors
from ldapslam.reports.formats.render import MONITORS_FILE, render
from ldapslam.reports.formats.text import render_text
from ldapslam.reports.model import Summary
from ldapslam.reports.result import result_of
from ldapslam.reports.sections.report_document import document
from ldapslam.reports.summarise import summarise
from ldapslam.results.monitor_rows import (
    add_monitor_samples,
    describe_monitors,
    monitor_series,
)
from ldapslam.results.records import (
    STARTED,
    Metric,
    MonitorDescription,
    MonitorSample,
    MonitorSeries,
)
from ldapslam.results.store import Store
from support.figures import value_in, value_of
from support.monitors import (
    CORES,
    MODIFIES_PER_S,
    PROCESS,
    RESIDENT_BYTES,
    SEARCHES_PER_S,
    SERVER,
    add_monitors,
)
from support.result_schema import valid_result
from support.store import RUN_ID, SMALL, Scenario, fill, intervals, rule_of, summary_of

COUNTER = Metric("operations", "operations", "counter")
GAUGE = Metric("connections", "1", "gauge")
BEGAN = Metric(STARTED, "s since 1970", "gauge")


def monitor(
    metrics: tuple[Metric, ...],
    rows: Sequence[tuple[float, ...]],
    *,
    at_s: list[float] | None = None,
    took_s: Sequence[float] = (),
    measure_s: tuple[float, float] = (0.0, 1e9),
) -> MonitorSummary:
    """A monitor that read these rows, one a second; an empty row is a failure."""
    times_s = at_s if at_s is not None else [float(n) for n in range(len(rows))]
    missing = (math.nan,) * len(metrics)
    series = MonitorSeries(
        "load1",
        MonitorDescription("m", metrics),
        (np.array(times_s) * NS_PER_S).astype(np.int64),
        (np.array(took_s or [0.001] * len(rows)) * NS_PER_S).astype(np.int64),
        np.array([row or missing for row in rows], float).reshape(-1, len(metrics)),
        {n: "no answer" for n, row in enumerate(rows) if not row},
    )
    (found,) = telemetry([series], measure_s)
    return found


def only(found: MonitorSummary) -> MetricSummary:
    (metric,) = found.metrics
    return metric


# Figures.


def test_counter_is_a_rate_by_the_times_that_it_was_really_read() -> None:
    # 0 to 100 in 1 s, then to 400 in 1.5 s
    found = only(monitor((COUNTER,), [(0,), (100,), (400,)], at_s=[0.0, 1.0, 2.5]))
    assert found.points.values == (100.0, 200.0)
    assert (found.lowest, found.highest) == (100.0, 200.0)
    assert found.mean == pytest.approx(400 / 2.5)
    assert found.increase == 400
    assert found.unit == "operations/s"


def test_counter_was_read_in_the_middle_of_its_reading() -> None:
    # 100 a second; the second reading was asked for at 1 s and took until 2 s
    found = only(monitor((COUNTER,), [(0,), (150,), (200,)], took_s=[0.0, 1.0, 0.0]))
    assert found.points.values == (100.0, 100.0)
    assert found.mean == 100


def test_figures_are_of_the_measure_phase_and_its_two_ends() -> None:
    rows = [(0.0,), (100.0,), (200.0,), (300.0,), (1000.0,)]
    # readings come a moment after the interval's end
    at_s = [0.001, 1.002, 2.001, 3.003, 4.001]
    found = only(monitor((COUNTER,), rows, at_s=at_s, measure_s=(1.0, 3.0)))
    assert found.mean == pytest.approx(200 / (3.003 - 1.002))
    assert found.highest == pytest.approx(100 / 0.999, rel=1e-3)
    assert found.increase == 1000
    rows = [(2.0,), (6.0,), (7.0,), (1.0,), (0.0,)]
    found = only(monitor((GAUGE,), rows, at_s=at_s, measure_s=(1.0, 3.0)))
    assert (found.lowest, found.mean, found.highest) == (6, 6.5, 7)
    assert found.increase is None
    found = only(monitor((GAUGE,), rows, measure_s=(math.nan, math.nan)))
    assert (found.lowest, found.mean, found.highest) == (None, None, None)
    assert found.points.values == (2, 6, 7, 1, 0)


def test_figures_end_with_the_load_where_that_was_before_the_plan() -> None:
    # the measure phase is from 3 s to 9 s; the load ends after 7 s
    scenario = Scenario(run={"state": "stopped"})

    def add(store: Store) -> None:
        describe_monitors(store, RUN_ID, "load1", [MonitorDescription("m", (GAUGE,))])
        readings = [
            MonitorSample("m", at_s * NS_PER_S, 1_000, (6.0 if at_s < 7 else 1.0,))
            for at_s in range(9)
        ]
        add_monitor_samples(store, RUN_ID, "load1", readings)

    early = [one for one in intervals(scenario) if one.index < 7]
    summary = summary_of(scenario, early, add=add)
    assert only(summary.monitors[0]).lowest == 6


def test_failed_reading_breaks_the_line_and_is_counted() -> None:
    found = monitor((COUNTER,), [(0,), (10,), (), (30,), (40,)])
    assert only(found).points.values == (10, None, None, 10)
    assert (found.readings, found.failed) == (5, 1)
    assert found.failures == ("no answer",)
    assert only(found).missing_share == 0.2
    assert only(found).mean == 10


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0, 10, math.nan, 100), 100),
        ((math.nan, 10, math.nan, math.nan, 15, math.nan), 5),
        ((10, math.nan, 4, 9), 5),
        ((math.nan, 10, math.nan), None),
    ],
)
def test_increase_is_there_across_readings_that_failed(
    values: tuple[float, ...], expected: float | None
) -> None:
    assert only(monitor((COUNTER,), [(one,) for one in values])).increase == expected


def test_value_that_is_never_there_is_missing_not_zero() -> None:
    found = monitor((COUNTER, GAUGE), [(0, math.nan), (10, math.nan)])
    gauge = found.metrics[1]
    assert gauge.missing_share == 1
    assert (gauge.lowest, gauge.mean, gauge.highest) == (None, None, None)
    assert gauge.points.values == (None, None)
    found = monitor((COUNTER, GAUGE), [])
    assert (found.readings, found.took_mean_s) == (0, None)
    assert all(metric.missing_share == 1 for metric in found.metrics)


def test_many_readings_are_averaged_into_points() -> None:
    rows = [(float(n % 2),) for n in range(4 * DISPLAY_POINTS)]
    found = only(monitor((GAUGE,), rows))
    assert len(found.points.values) == DISPLAY_POINTS
    assert set(found.points.values) == {0.5}
    assert (found.lowest, found.highest) == (0, 1)


@pytest.mark.parametrize("metric", [GAUGE, COUNTER])
def test_figures_that_no_double_holds_are_missing(metric: Metric) -> None:
    rows = [(-1e308,), (1e308,), (1e308,), (-1e308,), (1e308,), (math.inf,)]
    for wanted in (rows, rows[1:3], [(0.0,), *rows[1:2], (0.0,), *rows[1:2]]):
        found = monitor((metric,), wanted * (2 * DISPLAY_POINTS))
        of = only(found)
        values = (of.lowest, of.mean, of.highest, of.increase)
        json.dumps(values, allow_nan=False)
        json.dumps(only(found).points.values, allow_nan=False)


# Restarts.


@pytest.mark.parametrize(
    ("rows", "restarts_s", "values", "increase"),
    [
        # 20 to 30 is of two servers
        ([(7, 10), (7, 20), (9, 30), (9, 40)], (2.0,), (10, None, 10), 20),
        ([(7, 10), (7, 20), (), (9, 50), (9, 60)], (3.0,), (10, None, None, 10), 20),
        # where nobody says when it began, lower counts are a restart
        ([(math.nan, 9), (math.nan, 3)], (1.0,), (None,), None),
        # a counter that goes back by itself is none
        ([(7, 10), (7, 20), (7, 15), (7, 25)], (), (10, None, 10), 20),
    ],
)
def test_restart_is_a_change_of_when_the_server_began(
    rows: list[tuple[float, ...]],
    restarts_s: tuple[float, ...],
    values: tuple[float | None, ...],
    increase: float | None,
) -> None:
    found = monitor((BEGAN, COUNTER), rows)
    assert found.restarts_s == restarts_s
    assert only(found).points.values == values
    assert only(found).increase == increase


def test_gauge_that_falls_is_no_restart() -> None:
    assert monitor((GAUGE,), [(10,), (3,)]).restarts_s == ()
    assert monitor((COUNTER,), [(10,), (20,), (3,)]).restarts_s == (2.0,)


# A run with monitors.


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open("sqlite://") as store:
        fill(store, Scenario())
        add_monitors(store, RUN_ID, 11, failing_s=frozenset({5}))
        yield store


@pytest.fixture(scope="module")
def summary(store: Store) -> Summary:
    return summarise(store, RUN_ID)


def test_result_has_every_monitor_by_its_schema(summary: Summary) -> None:
    result = valid_result(summary)
    server, process = result["monitors"][SERVER], result["monitors"][PROCESS]
    assert server["facts"]["server"] == "slapd"
    at = "directory(ldap://ds1.example.com)"
    assert value_of(result, f"{at}.readings") == 12
    assert value_of(result, f"{at}.failed_readings") == 1
    searches = f"{at}.search_initiated"
    assert value_of(result, f"{searches}.mean") == pytest.approx(SEARCHES_PER_S)
    # eleven seconds, with those beside the reading that failed
    assert value_of(result, f"{searches}.increase") == 11 * SEARCHES_PER_S
    assert value_of(result, f"{at}.modify_initiated.max") == MODIFIES_PER_S
    assert value_in(result, f"{at}.not_indexed[dc=example,dc=com].mean") is None
    assert server["metrics"]["not_indexed[dc=example,dc=com]"]["missing_share"] == 1
    at = "process(ldap://ds1.example.com)"
    assert value_of(result, f"{at}.cpu_user.mean") == pytest.approx(CORES)
    assert value_of(result, f"{at}.memory_resident.max") == RESIDENT_BYTES
    assert STARTED not in process["metrics"]
    # what was missing is not judged
    assert rule_of(summary, "server_restarted")[0]
    assert summary.verdict == "PASS"


def test_two_agents_monitors_of_one_name_are_both_in_the_result() -> None:
    def add(store: Store) -> None:
        for agent in ("load1", "load2"):
            add_monitors(store, RUN_ID, 3, agent=agent)

    monitors = result_of(summary_of(Scenario(**SMALL), add=add))["monitors"]
    assert sorted(monitors) == sorted(
        f"{name} ({agent})"
        for name in (SERVER, PROCESS)
        for agent in ("load1", "load2")
    )


def test_restarted_server_makes_the_run_fail() -> None:
    summary = summary_of(
        Scenario(), add=lambda store: add_monitors(store, RUN_ID, 11, restart_s=4)
    )
    assert summary.verdict == "FAIL"
    assert summary.reasons == (
        "a server was restarted: slapd(411) on ds1 before 4.0 s, "
        "supplier ldap://ds1.example.com before 5.0 s",
    )
    text = render_text(document(summary))
    assert f"{SERVER} was restarted before 5.0 s" in text
    # events have T0, 2 s after midday, as their origin
    restarts = [one for one in summary.events if one.kind == "server_restarted"]
    assert [(one.at_utc, one.text) for one in restarts] == [
        ("2026-03-01T12:00:06.000000Z", f"{PROCESS} was restarted"),
        ("2026-03-01T12:00:07.000000Z", f"{SERVER} was restarted"),
    ]


def test_report_has_a_section_only_with_monitors(summary: Summary) -> None:
    (section,) = [one for one in document(summary).sections if one.name == "monitors"]
    text = render_text(document(summary))
    assert "Zero all through: abandon_initiated." in text
    assert "Missing, not available here: not_indexed[dc=example,dc=com]." in text
    assert section.title in text
    names = [one.name for one in document(summary_of(Scenario(**SMALL))).sections]
    assert "monitors" not in names


def test_chart_has_a_panel_for_each_group_of_figures(summary: Summary) -> None:
    process, server = summary.monitors
    assert [panel.title for panel in panels_of(process)] == ["CPU, cores", "memory"]
    assert [panel.title for panel in panels_of(server)] == [
        "operations begun",
        "connections",
        "bytes sent and received",
    ]
    (begun, *_) = panels_of(server)
    # the highest first; what is zero all through is not drawn
    assert [label for label, _ in begun.lines] == ["search", "modify"]


def test_charts_of_monitors_are_drawn(summary: Summary) -> None:
    places = [
        place
        for place in document(summary).charts()
        if monitor_number(place.name) is not None
    ]
    assert list(charts.draw(summary, places)) == [chart_name(0), chart_name(1)]


def test_statistics_of_an_unknown_entry_have_panels_by_unit() -> None:
    found = monitor(
        (Metric("olmBytes", "1", "counter"), Metric("olmLevel", "1", "gauge")),
        [(0, 5), (10, 6)],
    )
    assert [(one.title, one.unit) for one in panels_of(found)] == [
        ("statistics, /s", "/s"),
        ("statistics", ""),
    ]
    # what all lines of a panel are about is told once
    metrics = [
        Metric(name, "pages", "gauge")
        for name in ("mdb_pages_used[dc=x]", "mdb_pages_free[dc=x]")
    ]
    metrics += [Metric(f"disk_read[{disk}]", "bytes", "counter") for disk in ("a", "b")]
    found = monitor(tuple(metrics), [(9, 5, 0, 0), (9, 5, 20, 10)])
    assert [
        (panel.title, [label for label, _ in panel.lines]) for panel in panels_of(found)
    ] == [
        ("pages, dc=x", ["mdb pages used", "mdb pages free"]),
        ("disk", ["disk read[a]", "disk read[b]"]),
    ]


def test_csv_has_every_value_as_it_was_read(store: Store) -> None:
    out = io.StringIO()
    write_monitors(monitor_series(store, RUN_ID), out)
    rows = list(csv.DictReader(io.StringIO(out.getvalue())))
    assert tuple(rows[0]) == MONITOR_COLUMNS
    of_search = [row for row in rows if row["metric"] == "search_initiated"]
    assert [row["value"] for row in of_search][:2] == ["1000", "1100"]
    assert of_search[0]["at_s"] == "0.000000"
    missing = [row for row in rows if row["metric"].startswith("not_indexed")]
    assert {row["value"] for row in missing} == {""}
    (failed,) = [row for row in rows if row["failure"]]
    assert (failed["monitor"], failed["at_s"], failed["metric"]) == (
        SERVER,
        "5.000000",
        "",
    )


def test_csv_is_among_the_files_of_a_run_with_monitors(
    summary: Summary, store: Store, tmp_path: Path
) -> None:
    paths = render(summary, tmp_path, ["csv"], store=store)
    assert [path.name for path in paths] == ["intervals.csv", MONITORS_FILE]
