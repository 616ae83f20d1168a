# SPDX-License-Identifier: Apache-2.0
"""The formats: golden files of what is text, structure of what is drawn."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from ldapslam.base.errors import ReportError
from ldapslam.jobs.fields.validity import Validity
from ldapslam.reports.charts import charts
from ldapslam.reports.charts.chart_data import (
    STRIPS,
    gap_spans,
    heat_columns,
    heat_rows,
    lonely,
    middles,
    queued,
    spans_of,
    steps,
    strips,
    too_few,
    waited,
)
from ldapslam.reports.collect.timeline import (
    Phase,
    Point,
    Series,
    Timeline,
)
from ldapslam.reports.distribution import distribution
from ldapslam.reports.document import (
    Cell,
    ChartPlace,
    Document,
    Listing,
    Paragraph,
    Section,
    Table,
    no_value,
    table,
)
from ldapslam.reports.figures import figures_of
from ldapslam.reports.formats.exports import interval_columns
from ldapslam.reports.formats.html import render_html
from ldapslam.reports.formats.pdf import render_pdf
from ldapslam.reports.formats.render import FILES, render, result_json
from ldapslam.reports.formats.text import render_text
from ldapslam.reports.model import Summary
from ldapslam.reports.rules.operation_range import Outcome
from ldapslam.reports.rules.rules import Cause
from ldapslam.reports.sections.report_document import document
from ldapslam.reports.summarise import summarise
from ldapslam.results.histogram import MAX_US, Histogram
from ldapslam.results.store import Store
from support.figures import table_of
from support.golden import Compare
from support.histograms import packed_of
from support.plans import changed_streams
from support.result_schema import result_schema, valid_result
from support.store import RUN_ID, Scenario, fill, intervals, operation_of, summary_of

SPOILT = Scenario(
    lost=frozenset({("load2", 5)}), dropped=1, failing=0.05, timed_out=1, unresolved=1
)


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open("sqlite://") as store:
        fill(store, Scenario())
        yield store


@pytest.fixture(scope="module")
def summary(store: Store) -> Summary:
    return summarise(store, RUN_ID)


@pytest.fixture(scope="module")
def spoilt() -> Summary:
    return summary_of(SPOILT)


@pytest.fixture(scope="module")
def drawn(spoilt: Summary) -> dict[str, str]:
    return charts.draw(spoilt, document(spoilt).charts())


@pytest.fixture(scope="module")
def html(spoilt: Summary, drawn: dict[str, str]) -> str:
    return render_html(document(spoilt), drawn)


def test_text_is_as_reviewed(summary: Summary, golden: Compare) -> None:
    golden("report.txt", render_text(document(summary)))


def test_text_of_an_invalid_run_is_as_reviewed(
    spoilt: Summary, golden: Compare
) -> None:
    golden("report_invalid.txt", render_text(document(spoilt)))


def test_result_is_as_reviewed(summary: Summary, golden: Compare) -> None:
    golden("result.json", result_json(summary))


def test_the_schema_is_one_and_results_follow_it(
    summary: Summary, spoilt: Summary
) -> None:
    jsonschema.Draft202012Validator.check_schema(result_schema())
    for one in (summary, spoilt):
        valid_result(one)


def test_a_run_without_any_data_has_a_result_and_charts() -> None:
    state = {"state": "failed", "t0_utc": None, "agents": ()}
    empty = summary_of(Scenario(run=state, agents=()))
    figures = valid_result(empty)["figures"].values()
    assert not any(one["value"] for one in figures)
    content = document(empty)
    drawings = charts.draw(empty, content.charts())
    assert set(drawings) == {place.name for place in content.charts()}
    assert "INVALID" in render_html(content, drawings)


class _Page(HTMLParser):
    """What a page is made of."""

    VOID = frozenset({"meta", "link", "img", "br", "hr", "input"})
    #: Elements with a text of the document.
    TEXTS = frozenset(
        {"title", "h1", "p", "li", "dt", "dd", "h2", "figcaption", "summary", "pre"}
        | {"caption", "th", "td"}
    )

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.tables = self.captions = 0
        #: (element, its class and title, its text)
        self.texts: list[tuple[str, str, str, str]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tables += tag == "table"
        self.captions += tag == "caption"
        for name, value in attrs:
            if name == "id" and value:
                self.ids.append(value)
            if name in ("src", "href", "xlink:href") and value:
                self.references.append(value)
        if tag not in self.VOID:
            self.open.append(tag)
        if tag in self.TEXTS and "svg" not in self.open:
            names = dict(attrs)
            self.texts.append(
                (tag, names.get("class") or "", names.get("title") or "", "")
            )

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.TEXTS & set(self.open) and "svg" not in self.open:
            *rest, text = self.texts[-1]
            self.texts[-1] = (rest[0], rest[1], rest[2], text + data)


def _expected_texts(content: Document) -> Iterator[tuple[str, str, str, str]]:
    yield "title", "", "", content.headline
    yield "p", "word", "", content.banner
    yield "h1", "", "", content.title
    yield "p", "", "", content.statement
    for text in (*content.reasons, *content.cautions):
        yield "li", "", "", text.replace("`", "")
    for glance in content.glance:
        yield "li", "", "", glance.title
        for label, cell in glance.statistics:
            yield "dt", "", "", label
            yield "dd", "", "", f"{cell.text} {cell.hint}".strip()
    for label, value in content.facts:
        yield "dt", "", "", label
        yield "dd", "", "", value
    first = next(one for one in content.sections if one.in_appendix)
    for section in content.sections:
        if section is first:
            yield "li", "apart", "", "Appendix"
        yield "li", "", "", section.title
    for section in content.sections:
        if section is first:
            yield "p", "appendix", "", "Appendix"
        yield "h2", "", "", section.title
        for block in section.blocks:
            if isinstance(block, ChartPlace):
                yield "figcaption", "", "", f"{block.title} {block.description}"
            elif isinstance(block, Table):
                yield "caption", "", "", block.caption
                for column in block.columns:
                    text = f"{column.title} {column.unit}".strip()
                    yield "th", "number" * column.is_number, "", text
                for row in block.rows:
                    for number, (column, cell) in enumerate(
                        zip(block.columns, row, strict=True)
                    ):
                        tones = f"{'number ' * column.is_number}{cell.tone}".strip()
                        yield "td" if number else "th", tones, cell.hint, cell.text
                for note in block.notes:
                    yield "p", "note", "", note
            elif isinstance(block, Listing):
                yield "summary", "", "", block.caption
                yield "pre", "", "", block.text
            else:
                yield "p", "prose", "", block.text


def test_html_has_everything_of_the_document_in_its_order(
    html: str, spoilt: Summary
) -> None:
    texts = [(*rest, " ".join(text.split())) for *rest, text in _Page(html).texts]
    expected = [
        (*rest, " ".join(text.split()))
        for *rest, text in _expected_texts(document(spoilt))
    ]
    assert texts[:-1] == expected
    assert texts[-1][-1].startswith("Made by ldapslam")
    assert '<header class="verdict invalid">' in html


@pytest.mark.parametrize("has_appendix", [True, False])
def test_a_document_may_be_all_appendix_or_have_no_section(
    spoilt: Summary, *, has_appendix: bool
) -> None:
    whole = document(spoilt)
    rest = (replace(one, blocks=()) for one in whole.sections if one.in_appendix)
    content = replace(whole, sections=tuple(rest) if has_appendix else ())
    assert ('class="appendix"' in render_html(content, {})) == has_appendix
    assert ("\nAPPENDIX\n" in render_text(content)) == has_appendix
    assert render_pdf(content, {}, date_utc=None).startswith(b"%PDF")


def test_html_is_well_formed_and_needs_nothing_else(html: str) -> None:
    page = _Page(html)
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    drawings = [one for one in page.references if one.startswith("data:image/png;")]
    references = [one for one in page.references if one not in drawings]
    assert all(one.startswith("#") for one in references)
    assert {one[1:] for one in references} <= set(page.ids)
    assert page.tables == page.captions > 5
    assert not re.search(r"url\((?!#)", html)


def test_a_browser_runs_the_script_of_the_report_and_no_other(html: str) -> None:
    [script] = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    assert html.count("<script") == 1
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', html)
    assert (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
        in policy
    )


def test_the_script_finds_the_values_that_are_drawn(
    drawn: dict[str, str], spoilt: Summary
) -> None:
    [text] = re.findall(r"<metadata>(.*?)</metadata>", drawn["response_times"])
    data = json.loads(unescape(text))
    [height] = map(
        float, re.findall(r'viewBox="0 0 \S+ (\S+)"', drawn["response_times"])
    )
    for panel, one in zip(data["panels"], spoilt.timed, strict=True):
        left, top, right, bottom = panel["box"]
        assert 0 < left < right < data["width"]
        assert 0 < top < bottom < height
        [p50] = [line for line in panel["lines"] if line["label"] == "p50"]
        found = [y and y * 1000 for y in p50["y"]]
        series = spoilt.timeline.operations[one.stream, one.operation]
        assert found == [us and pytest.approx(us, rel=1e-4) for us in series.p50_us]
        assert f'id="{p50["id"]}"' in drawn["response_times"]
    assert "<metadata" not in drawn["percentiles"]


def test_the_data_behind_the_charts_is_as_reviewed(
    drawn: dict[str, str], spoilt: Summary, golden: Compare
) -> None:
    found: dict[str, Any] = {}
    for name, svg in drawn.items():
        for text in re.findall(r"<metadata>(.*?)</metadata>", svg):
            data = json.loads(unescape(text))
            found[name] = [
                {
                    "unit": panel["unit"],
                    "lines": {
                        line["label"]: [*data["spans"][line["spans"]], line["y"]]
                        for line in panel["lines"]
                    },
                }
                for panel in data["panels"]
            ]
    for one in spoilt.timed:
        series = spoilt.timeline.operations[one.stream, one.operation]
        rows = heat_rows(series)
        edges, shares = heat_columns(spoilt.timeline, series, rows)
        # each column is all of its point, or nothing
        sums = np.nansum(shares, axis=0)
        assert sums[sums > 0] == pytest.approx(1)
        found[f"heat {one.title}"] = {
            "rows": rows,
            "edges": edges,
            "shares": [[_or_none(share) for share in row] for row in shares],
        }
        curve = one.curves["response_time"]
        found[f"percentiles {one.title}"] = [
            (_or_none(share), _or_none(value_us))
            for share, value_us in zip(curve.fractions, curve.values_us, strict=True)
        ]
    text = "".join(
        f"{json.dumps(name)}: {json.dumps(data)}\n" for name, data in found.items()
    )
    golden("report_charts.txt", text)


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.4g}")


def test_the_first_page_has_what_its_reader_must_know(summary: Summary) -> None:
    plan = replace(
        summary.run.plan,
        description="is it fast enough?",
        validity=Validity.model_validate({"send_lag_p99": "100ms"}),
    )
    noted = replace(summary, run=replace(summary.run, plan=plan), notes=("all is new",))
    content = document(noted)
    assert content.description == "is it fast enough?"
    assert content.cautions == (
        "Limits changed by the job: send_lag_p99 100ms (default 1ms).",
        "All is new.",
    )
    first = content.sections[0]
    assert [one.name for one in first.blocks if isinstance(one, Table)] == [
        "thresholds",
        "headline",
    ]


@pytest.mark.parametrize(("more", "is_told"), [(1, True), (0, False)])
def test_searches_that_find_nothing_are_told_from_one_percent(
    summary: Summary, more: int, is_told: bool
) -> None:
    search = operation_of(summary, "readers.search")
    empty = search.counts["succeeded"] // 100 + more
    counts = Counter({**search.counts, "empty": empty})
    found = with_search(summary, counts=counts)
    told = [one for one in document(found).cautions if "found nothing" in one]
    assert told == ["readers.search: 1.0% of the searches found nothing."] * is_told
    # the reason of the verdict says so already
    missed = tuple(
        replace(one, outcome=Outcome.MISSED) if ".empty" in one.expression else one
        for one in summary.thresholds
    )
    assert missed != summary.thresholds
    found = replace(found, thresholds=missed)
    assert not any("found nothing" in one for one in document(found).cautions)


def test_no_line_of_the_text_is_longer_than_100(spoilt: Summary) -> None:
    lines = render_text(document(spoilt)).splitlines()
    # a reason is one line
    assert [one for one in lines if len(one) > 100 and one[:4] != "  - "] == []


def test_names_and_texts_of_a_job_are_never_markup() -> None:
    nasty = "<script>alert('x')</script> & $\\frac{1}{2}$ #let"
    # a name has no slash
    run = {"job_name": nasty.replace("/", ""), "job_text": nasty}
    scenario = Scenario(agents=("<b>&$x$",), run=run)
    summary = summary_of(scenario)
    content = document(summary)
    drawings = charts.draw(summary, content.charts())
    page = render_html(content, drawings)
    assert "<script>alert" not in page
    assert "<b>" not in page
    pdf = render_pdf(content, drawings, date_utc=summary.started_utc)
    assert pdf.startswith(b"%PDF-")


def test_pdf_is_the_same_bytes_each_time(
    spoilt: Summary, drawn: dict[str, str]
) -> None:
    content = document(spoilt)
    again = charts.draw(spoilt, content.charts())
    assert again == drawn
    first, second = (
        render_pdf(content, one, date_utc=spoilt.started_utc) for one in (drawn, again)
    )
    assert first == second


def test_every_chart_has_a_title_and_a_description(
    drawn: dict[str, str], spoilt: Summary
) -> None:
    places = document(spoilt).charts()
    assert [place.name for place in places] == list(drawn)
    for place in places:
        svg = drawn[place.name]
        assert f">{place.title}</title>" in svg
        assert f'aria-labelledby="{place.name}-title {place.name}-description"' in svg
        assert "<text" not in svg, "text is drawn as paths, the same everywhere"


def test_a_run_without_errors_has_no_chart_of_errors() -> None:
    content = document(summary_of(Scenario(failing=0.0)))
    assert "errors" not in {place.name for place in content.charts()}
    assert "Every request of the measure phase succeeded." in render_text(content)


def _timeline() -> Timeline:
    """Four points; the second is a gap, and a second is missing before the last."""
    return Timeline(
        phases=(),
        intervals_per_point=1,
        points=[Point(start_s, start_s + 1) for start_s in (0.0, 1.0, 2.0, 4.0)],
        gaps=[(1.0, 2.0), (3.0, 4.0)],
    )


def test_a_gap_breaks_the_line_and_is_never_bridged() -> None:
    timeline = _timeline()
    values = [10.0, None, 30.0, 40.0]
    for line, is_steps in ((middles, False), (steps, True)):
        xs, ys = line(timeline, values)
        starts_s, ends_s, found = spans_of(timeline, xs, ys, is_steps=is_steps)
        known = {
            (start_s, end_s): y
            for start_s, end_s, y in zip(starts_s, ends_s, found, strict=True)
            if not math.isnan(y)
        }
        assert known == {(0.0, 1.0): 10.0, (2.0, 3.0): 30.0, (4.0, 5.0): 40.0}
        # a line without a value between them would join 30 and 40
        between = xs.index(3.0, xs.index(2.0) + 1 if is_steps else 0)
        assert any(math.isnan(y) for y in ys[between : between + 2])


def test_of_many_agents_those_that_differ_most_are_shown() -> None:
    timeline = Timeline((Phase("measure", 1.0, 4.0),), 1)
    timeline.start_s, timeline.end_s = [0.0, 1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0]
    every = {
        f"load{number:02}": Series(
            throughput_per_s=[9.0 * number, 100.0, 100.0 + number / 10, None],
            p90_us=[None, 300.0, 300.0 + number / 10, None],
            p99_us=[None, 500.0, 500.0 + number, None],
        )
        for number in range(20)
    }
    every["load03"].throughput_per_s[1:] = [60.0, 60.0, 60.0]
    every["load12"].p99_us[1:] = [900.0, 900.0, 900.0]
    shown, usual = strips(timeline, every)
    assert len(shown) == STRIPS
    assert list(shown) == sorted(shown)
    assert {"load03", "load12"} < set(shown)
    assert not {"load09", "load10"} & set(shown), "they are the median"
    assert usual.throughput_per_s[1] == 100.0
    assert usual.p99_us[0] is None
    assert list(strips(timeline, {"a": every["load01"]})[0]) == ["a"]


def test_agents_and_servers_have_strips_where_there_are_several() -> None:
    summary = summary_of(Scenario(agents=("load1",)))
    names = [place.name for place in document(summary).charts()]
    assert not [name for name in names if name.endswith("strips")]
    one = Series(throughput_per_s=[5.0] * 11, p90_us=[700.0] * 11, p99_us=[None] * 11)
    timeline = deepcopy(summary.timeline)
    gap: Any = [None] * 4 + [700.0] * 7
    timeline.servers = {"ldap://a": one, "ldap://b": replace(one, p90_us=gap)}
    several = replace(summary, timeline=timeline)
    content = document(several)
    [place] = (one for one in content.charts() if one.name == "server_strips")
    drawing = charts.draw(several, [place])["server_strips"]
    [text] = re.findall(r"<metadata>(.*?)</metadata>", drawing)
    panels = json.loads(unescape(text))["panels"]
    assert [one["unit"] for one in panels] == ["throughput (/s)", "p90 (ms)"] * 2, (
        "no point has enough requests for a p99"
    )
    labels = [[line["label"] for line in one["lines"]] for one in panels]
    assert labels[0] == labels[1] == ["median of all", "ldap://a"]
    assert labels[2] == labels[3] == ["median of all", "ldap://b"]
    gaps = [[line["y"].count(None) for line in one["lines"]] for one in panels]
    assert gaps[1] == [0, 0]
    assert gaps[3][0] == gaps[3][1] > 0, "a gap has no line, the median's neither"
    first, second, third, _ = (one["box"] for one in panels)
    assert first[1] == second[1] < third[1]
    assert first[0] == third[0] < second[0]


def test_samples_reach_half_way_to_their_neighbours() -> None:
    nan = float("nan")
    starts_s, ends_s, values = spans_of(
        _timeline(), [1.0, 2.0, 4.0], [10.0, 20.0, nan], is_steps=False
    )
    assert starts_s == [0.5, 1.5, 3.0]
    assert ends_s == [1.5, 3.0, 5.0]
    assert values[:2] == [10.0, 20.0]
    one = spans_of(_timeline(), [3.0], [5.0], is_steps=False)
    assert one == ([2.5], [3.5], [5.0])
    assert spans_of(_timeline(), [], [], is_steps=False) == ([], [], [])


def test_a_gap_of_a_second_in_a_day_can_be_seen() -> None:
    day_s = 86_400.0
    timeline = _timeline()
    assert gap_spans(timeline, 5.0) == [(1.0, 2.0), (3.0, 4.0)]
    timeline.gaps = [(100.0, 101.0), (5000.0, 5001.0), (5100.0, 5101.0)]
    (first, second) = gap_spans(timeline, day_s)
    assert first == (100.0, 100.0 + day_s / 300)
    assert second == (5000.0, 5100.0 + day_s / 300), "too near to be told apart"


def test_a_value_without_neighbours_gets_a_marker() -> None:
    nan = float("nan")
    assert lonely([1.0, nan, 2.0, 3.0, nan, 4.0]) == [0, 5]
    # a gap has no sample, a point of a phase without load an empty one
    assert too_few(Series(sample=[100, None, 0])) == "p99 ≥ 1\u202f000"
    assert too_few(Series(sample=[1000, None])) == ""


@pytest.mark.parametrize(
    ("in_flight", "backlog", "is_shown"),
    [
        ([8, None, 8, 8], [0, None, 0, 0], False),
        ([3, None, 8, 8], [9, None, 0, 0], False),
        ([8, None, 8, 7], [0, None, 0, 0], True),
        ([8, None, 8, 8], [0, None, 1, 0], True),
    ],
    ids=["always the same", "in warm-up only", "in flight", "backlog"],
)
def test_queues_are_drawn_where_they_change(
    in_flight: list[Any], backlog: list[Any], *, is_shown: bool
) -> None:
    timeline = _timeline()
    timeline.phases = Phase("warm_up", 0, 1), Phase("measure", 1, 5)
    gauges = Series(in_flight=in_flight, backlog=backlog)
    timeline.streams["writers"] = gauges
    assert queued(timeline) == ["writers"] * is_shown


@pytest.mark.parametrize(
    ("response_us", "service_us", "lag_us", "is_shown"),
    [
        (1000, 950, 20, False),
        (None, None, 900, False),
        (1000, None, 20, False),
        (1000, 800, 20, True),
        (1000, 950, 120, True),
    ],
)
def test_waits_are_drawn_where_requests_waited(
    summary: Summary,
    response_us: float | None,
    service_us: float | None,
    lag_us: float,
    *,
    is_shown: bool,
) -> None:
    timeline = _timeline()
    timeline.operations["writers", "modify"] = Series(
        p99_us=[None, response_us],
        service_p99_us=[None, service_us],
        send_lag_p99_us=[None, lag_us],
    )
    found = waited(replace(summary, timeline=timeline))
    assert [one.title for one in found] == ["writers.modify"] * is_shown


def test_a_run_that_queued_has_charts_of_it(summary: Summary) -> None:
    timeline = deepcopy(summary.timeline)
    timeline.streams["writers"].backlog[-3] = 7.0
    series = timeline.operations["writers", "modify"]
    series.p99_us[4], series.send_lag_p99_us[4] = 900.0, 800.0
    for one in (summary, changed := replace(summary, timeline=timeline)):
        places = document(one).charts()
        names = {"queues", "waits"} & {place.name for place in places}
        assert names == ({"queues", "waits"} if one is changed else set())
        wanted = [place for place in places if place.name in names]
        assert charts.draw(one, wanted).keys() == names


def _column(summary: Summary, name: str, title: str) -> list[Cell]:
    shown = table_of(document(summary), name)
    place = [column.title for column in shown.columns].index(title)
    return [row[place] for row in shown.rows]


def with_search(summary: Summary, **changes: Any) -> Summary:
    """The run with other figures of the readers' search."""
    readers, writers = summary.streams
    (search,) = readers.operations
    readers = replace(readers, operations=(replace(search, **changes),))
    streams = readers, writers
    figures = figures_of(streams, summary.agents, ())
    return replace(summary, streams=streams, figures=figures)


def planned(summary: Summary, **streams: dict[str, Any]) -> Document:
    """The report of the run with other plans of its streams."""
    plan = changed_streams(summary.run.plan, **streams)
    return document(replace(summary, run=replace(summary.run, plan=plan)))


def test_the_time_in_which_a_threshold_was_missed_stands_beside_it(
    summary: Summary,
) -> None:
    p99, errors, *_ = (one.expression for one in summary.thresholds)
    titles = [one.title for one in table_of(document(summary), "thresholds").columns]
    assert "Time missed" not in titles
    states = {p99: {("a", "b"): bytearray((0, 1, 1, 2, 1))}}
    missed = replace(summary, timeline=replace(summary.timeline, states=states))
    names = [one.text for one in _column(missed, "thresholds", "Threshold")]
    times = dict(zip(names, _column(missed, "thresholds", "Time missed"), strict=True))
    assert times[p99] == Cell("25.0", hint="1 of 4 intervals")
    assert times[errors] == Cell("–", "muted", "it is not about intervals")


@pytest.mark.parametrize(("known", "text"), [(5, "20.0"), (4, "n/a")])
def test_the_time_missed_is_not_told_of_few_of_the_intervals(
    summary: Summary, known: int, text: str
) -> None:
    p99 = summary.thresholds[0].expression
    states = {p99: {("a", "b"): bytearray((2, *[1] * (known - 1), 0, 0, 0, 0, 0))}}
    timeline = replace(summary.timeline, states=states)
    one = replace(summary, timeline=timeline, measure_s=10.0, interval_s=1.0)
    times = [cell.text for cell in _column(one, "thresholds", "Time missed")]
    assert text in times


def test_operations_without_any_success_say_so(summary: Summary) -> None:
    times = operation_of(summary, "readers.search").times
    nothing = {**times, "response_time": distribution(Histogram())}
    one = with_search(summary, times=nothing, outcome_times={})
    assert ("p99", no_value("successful requests")) in document(one).glance[
        0
    ].statistics
    assert _column(one, "headline", "p50")[0].text == "n/a"
    known = {"expected": {"response_time": times["response_time"]}}
    one = with_search(summary, times=nothing, outcome_times=known)
    before = dict(document(summary).glance[0].statistics)
    after = dict(document(one).glance[0].statistics)
    assert after["p99 of expected results"] == before["p99"]
    assert "no success came: its times are those of the expected results" in (
        render_text(document(one))
    )
    p50s = [_column(each, "headline", "p50")[0].text for each in (one, summary)]
    assert p50s[0] == p50s[1]


@pytest.mark.parametrize(
    ("cause", "is_told"), [(Cause.GENERATOR, True), (Cause.EVIDENCE, False)]
)
def test_an_invalid_run_says_where_only_the_generator_is_at_fault(
    summary: Summary, cause: Cause, *, is_told: bool
) -> None:
    first, second, *rest = (replace(one, passed=True) for one in summary.rules)
    first = replace(first, passed=False, cause=Cause.GENERATOR)
    second = replace(second, passed=False, cause=cause)
    rules = (first, second, *rest)
    one = replace(summary, verdict="INVALID", rules=rules)
    assert ("run again on another host" in document(one).statement) is is_told


def test_what_stands_in_backticks_is_code_and_nothing_of_it_is_markup(
    summary: Summary,
) -> None:
    text = "try `-e <dn>` or `x`"
    blocks = Paragraph(text), table("t", "T", [], notes=[text])
    said = replace(
        document(summary),
        statement=text,
        reasons=(text,),
        cautions=(text,),
        sections=(Section("s", "S", blocks),),
    )
    page = render_html(said, {})
    assert page.count("try <code>-e &lt;dn&gt;</code> or <code>x</code>") == 5
    assert "`" not in page.partition("<script>")[0]
    assert render_pdf(said, {}, date_utc=None).startswith(b"%PDF-")


@pytest.mark.parametrize("number", [99_999, 100_000])
def test_p99_99_is_shown_of_operations_with_enough_requests(
    summary: Summary, number: int
) -> None:
    times = distribution(Histogram.merge([packed_of([1_000_000] * number)]), ())
    known = operation_of(summary, "readers.search").times
    often = with_search(summary, times={**known, "response_time": times})
    tables = {
        one.caption: [column.title for column in one.columns]
        for section in document(often).sections
        for one in section.blocks
        if isinstance(one, Table)
    }
    assert ("p99.99" in tables["readers.search"]) is (number == 100_000)
    assert "p99.99" not in tables["writers.modify"]


@pytest.mark.parametrize(
    ("throughput", "goodput", "shown"),
    [
        (1000.0, 999.5, ("throughput", "1\u202f000/s")),
        (1000.0, 998.0, ("goodput", "998/s")),
        (0.2712, 0.2, ("goodput", "0.2/s")),
        (0.2712, 0.2712, ("throughput", "0.271/s")),
        (12.0, None, ("throughput", "12/s")),
        (None, None, ("throughput", "n/a")),
    ],
)
def test_the_headline_is_goodput_where_it_is_another_figure(
    summary: Summary,
    throughput: float | None,
    goodput: float | None,
    shown: tuple[str, str],
) -> None:
    one = with_search(summary, throughput_per_s=throughput, goodput_per_s=goodput)
    name, cell = document(one).glance[0].statistics[0]
    assert (name, cell.text) == shown


@pytest.mark.parametrize(
    ("streams", "told"),
    [
        ({"writers": {"connections": 16}}, "(150/s open loop on supplier, 16 conn"),
        ({"readers": {"think_time_ns": 5_000_000}}, "on replica, think time 5ms)"),
        *(
            ({"readers": reconnects}, f"a new connection {told})")
            for reconnects, told in (
                ({"reconnect_operations": 1}, "for each request"),
                ({"reconnect_operations": 9000}, "for every 9,000 requests"),
                ({"reconnect_ns": 10**10}, "every 10s"),
            )
        ),
    ],
)
def test_the_load_has_the_connections_the_pauses_and_the_reconnects_of_clients(
    summary: Summary, streams: dict[str, dict[str, int]], told: str
) -> None:
    load = dict(planned(summary, **streams).facts)["Load"]
    assert told in load.replace("\u202f", ",")


def test_what_thresholds_name_is_in_the_first_tables() -> None:
    thresholds = (
        "readers.search.p99.99 < 1s",
        "*.*.response_time.p90 < 9s",
        "*.modify.mean < 1s",
    )
    found = document(summary_of(Scenario(thresholds=thresholds)))
    headline = table_of(found, "headline")
    titles = [one.title for one in headline.columns]
    assert titles[-8:] == [
        *("mean", "p50", "p90", "p95"),
        *("p99", "p99.9", "p99.99", "max"),
    ]
    assert "needs 100\u202f000 values (p99.99)" in " ".join(headline.notes)
    search, modify = (dict(one.statistics) for one in found.glance)
    assert list(search)[1:5] == ["p50", "p90", "p99.99", "entries per search"]
    assert [name for name in modify if name in titles[-8:]] == [*("mean", "p50", "p90")]


@pytest.mark.parametrize(
    ("done", "told"),
    [
        ({"entries": 3, "deleted": 3, "left": 0, "error": None}, True),
        ({"entries": 0, "left": 0, "error": None}, False),
        ({"entries": 3, "left": 1, "error": None}, False),
        ({"error": "the server is away"}, False),
    ],
)
def test_the_first_page_says_what_the_clean_up_has_left(
    done: dict[str, Any], told: bool
) -> None:
    scenario = Scenario(agents=("load1",), facts={"clean_up": done})
    found = document(summary_of(scenario))
    said = dict(found.facts).get("Clean-up")
    assert said == ("removed 3 entries, 0 left" if told else None)
    cautions = [one for one in found.cautions if "still in the directory" in one]
    assert bool(cautions) is bool(done.get("left") or done["error"])


def test_what_is_the_same_of_all_streams_is_told_once_and_long_lists_are_cut(
    summary: Summary,
) -> None:
    many = [
        {"name": f"o{number}", "kind": "search", "about": f"{number}" * 200}
        for number in range(6)
    ]
    same = {"identity": "anonymous", "tls": "no TLS"}
    one = planned(summary, readers={"operations": many}, writers=same)
    facts = dict(one.facts)
    assert facts["Connections"] == "anonymous, no TLS"
    assert "readers.o4: 444" in facts["Requests"]
    assert facts["Requests"].endswith("4…; and 2 more: see the job file")


def test_an_unknown_format_is_refused_before_anything_is_written(
    summary: Summary, store: Store, tmp_path: Path
) -> None:
    with pytest.raises(ReportError, match="'docx'") as refused:
        render(summary, tmp_path / "out", ["text", "docx"], store=store)
    assert "html, pdf" in str(refused.value.hint)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("html", "html.render_html"),
        ("pdf", "pdf.render_pdf"),
        ("text", "render.render_text"),
        ("hlog", "render.write_hlog"),
    ],
)
def test_a_format_that_fails_does_not_stop_the_others(
    summary: Summary,
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    place: str,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("not a character")

    monkeypatch.setattr(f"ldapslam.reports.formats.{place}", fail)
    with pytest.raises(ReportError, match=f"{FILES[name]} cannot be written: not a"):
        render(summary, tmp_path, [name, "csv", "json"], store=store)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {FILES["csv"], FILES["json"]}


def test_csv_has_each_interval_of_each_agent_and_operation(
    summary: Summary, store: Store, tmp_path: Path
) -> None:
    (path,) = render(summary, tmp_path, ["csv"], store=store)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == interval_columns()
    expected = [
        (record.agent, str(record.index), one.operation, str(one.completed))
        for record in intervals(Scenario())
        for one in record.operations
    ]
    assert expected == [
        (row["agent"], row["index"], row["operation"], row["completed"]) for row in rows
    ]
    measured = sum(int(row["completed"]) for row in rows if row["measured"] == "1")
    assert measured == sum(one.counts["completed"] for one in summary.operations)


def test_csv_has_no_maximum_where_a_request_had_no_answer(tmp_path: Path) -> None:
    with Store.open("sqlite://") as store:
        summary = summarise(store, fill(store, Scenario(timed_out=1)))
        (path,) = render(summary, tmp_path, ["csv"], store=store)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        assert bool(row["response_time.max"]) == (row["timed_out"] == "0")
        assert bool(row["service_time.max"]) == (row["timed_out"] == "0")
        assert row["send_lag.max"]


def test_hdrhistogram_reads_the_log_and_its_sum_is_the_run(
    summary: Summary, store: Store, tmp_path: Path
) -> None:
    (path,) = render(summary, tmp_path, ["hlog"], store=store)
    reader = HistogramLogReader(str(path), HdrHistogram(1, MAX_US, 3))
    counts: dict[str, int] = {}
    while (histogram := reader.get_next_interval_histogram()) is not None:
        tag = histogram.get_tag()
        counts[tag] = counts.get(tag, 0) + histogram.get_total_count()
    reader.input_file.close()
    assert counts == {
        f"{one.title}.{metric}": one.totals["succeeded"]
        for one in summary.operations
        for metric in ("response_time", "service_time")
    }


def test_an_axis_of_large_changes_has_a_tick_for_each_ten_times() -> None:
    ticks = charts.change_ticks(0.0, 79_900.0)
    assert ticks[0.0] == "0"
    assert ticks[900.0] == "× 10"
    assert ticks[99_900.0] == "× 1\u202f000"
    assert max(ticks) == 99_900.0
    assert charts.change_ticks(-79_900.0, 0.0)[-900.0] == "better × 10"


def test_only_an_axis_of_large_changes_is_logarithmic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A change of 5 % is no line beside one of 79,900 % otherwise."""
    asked: list[float] = []

    def ticks(_: float, largest: float) -> dict[float, str]:
        asked.append(largest)
        return {0.0: "0"}

    monkeypatch.setattr(charts, "change_ticks", ticks)
    place = ChartPlace("spans", "Changes", "each")
    small = charts.Span("small", 5.0, 2.0, 8.0, 5.0, "good")
    large = charts.Span("large", 79_900.0, 70_000.0, math.inf, 5.0, "bad")
    charts.draw_spans(place, [small], "worse by")
    charts.draw_spans(place, [small, large], "worse by")
    assert asked == [70_000.0]
