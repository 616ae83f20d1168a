# SPDX-License-Identifier: Apache-2.0
"""The report's charts as SVG. The only module that imports matplotlib, and lazily.

Text becomes paths, so that a chart looks the same in a browser and in the PDF; ids and
clip paths are derived from a fixed salt, and no date is written: the same Summary gives
the same bytes. One panel for each operation, because a thousand reads and ten writes a
second share no scale. A gap in the data is a gap in the line with a hatched ground.
"""

from __future__ import annotations

import importlib
import io
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

import numpy as np

from ldapslam.reports.charts.chart_data import (
    PANELS,
    Panel,
    causes,
    end_of,
    event_marks,
    expected_codes,
    gap_spans,
    heat_columns,
    heat_rows,
    lonely,
    middles,
    monitor_number,
    panels_of,
    queued,
    series_of,
    size_of,
    spans_of,
    steps,
    strip_percentile,
    strips,
    too_few,
    waited,
)
from ldapslam.reports.collect.telemetry import MonitorSummary
from ldapslam.reports.collect.timeline import (
    HEAT_EDGES_US,
    Series,
    Timeline,
    Values,
)
from ldapslam.reports.document import BAD, GOOD, ChartPlace
from ldapslam.reports.document import MUTED as TONE_MUTED
from ldapslam.reports.figures import METRICS, THROUGHPUT, Point, metric_of
from ldapslam.reports.model import Summary
from ldapslam.reports.streams import OperationSummary
from ldapslam.reports.typeset import THIN

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text


#: Colours that a page may replace for a dark ground (see html.py).
INK, MUTED, GRID, SHADE, PAPER = "#20262d", "#6b7480", "#dfe3e8", "#eef1f4", "#fdfdfd"
#: Distinct also for people who do not see red and green as different.
SERIES = (
    "#2f6db3",
    "#d5781e",
    "#2c8f6c",
    "#8557b3",
    "#c14a4a",
    "#218f9c",
    "#8f6b35",
    "#b85a92",
)
ALARM = "#c0392b"
PERCENTILE_COLOURS = {
    "p50_us": ("p50", "#6fa3d8"),
    "p90_us": ("p90", "#2f6db3"),
    "p99_us": ("p99", "#d5781e"),
    "max_us": ("max", "#98a1ab"),
}

WIDTH_IN = 7.4

STYLE: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.labelsize": 7.5,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 8.5,
    "axes.titleweight": "bold",
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "font.family": "DejaVu Sans",
    "font.size": 7.5,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "hatch.color": MUTED,
    "hatch.linewidth": 0.4,
    "lines.linewidth": 1.3,
    "lines.solid_capstyle": "round",
    "path.simplify": True,
    "svg.fonttype": "path",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": GRID,
    "xtick.labelcolor": MUTED,
    "xtick.labelsize": 7,
    "xtick.major.size": 3,
    "xtick.minor.size": 0,
    "ytick.color": GRID,
    "ytick.labelcolor": MUTED,
    "ytick.labelsize": 7,
    "ytick.major.size": 0,
    "ytick.minor.size": 0,
}


#: The time axis of a longer run has hours.
_MOST_SECONDS = 7200
_HOURS = (0.25, 0.5, 1, 2, 3, 4, 6, 12, 24, 48)
#: On it, at most.
_TICKS = 13


def _ground(axes: Any, summary: Summary, number: int, *, has_names: bool) -> None:
    """Draw the ground of the panel of this number: phases shaded, gaps hatched, events
    marked, with or without their names."""
    axes.set_gid(f"{_TIME}{number}")
    timeline = summary.timeline
    end_s = end_of(timeline)
    above = axes.get_xaxis_transform()
    axes.set_xlim(0, end_s)
    axes.grid(True, axis="y", which="major")
    for phase in timeline.phases:
        if phase.name != "measure":
            axes.axvspan(
                phase.start_s, phase.end_s, facecolor=SHADE, linewidth=0, zorder=0
            )
        axes.axvline(phase.start_s, color=PAPER, linewidth=1.2, zorder=0.5)
        width_in = (phase.end_s - phase.start_s) / end_s * WIDTH_IN * 0.8
        name = phase.name.replace("_", " ")
        if has_names and width_in > 0.062 * len(name):
            middle_s = (phase.start_s + phase.end_s) / 2
            place = {"ha": "center", "va": "bottom", "transform": above, "gid": _MOVING}
            axes.text(middle_s, 1.02, name, color=MUTED, fontsize=6.5, **place)
    for start_s, stop_s in gap_spans(timeline, end_s):
        axes.axvspan(
            start_s,
            stop_s,
            # in a narrow one no hatch would be seen
            facecolor=MUTED if stop_s - start_s < end_s / 100 else "none",
            edgecolor=MUTED,
            hatch="/////",
            linewidth=0,
            alpha=0.8,
            zorder=0,
        )
    for numbers, at_s in event_marks(summary):
        axes.axvline(at_s, color=ALARM, linewidth=0.7, linestyle=(0, (1, 2)))
        if has_names:
            place = {"ha": "left", "va": "top", "transform": above, "gid": _MOVING}
            axes.text(at_s, 0.97, f" {numbers}", color=ALARM, fontsize=6, **place)


def time_axis(axes: Any, end_s: float) -> None:
    """Label and ticks of an axis of the run's time: hours where it took hours."""
    if end_s <= _MOST_SECONDS:
        # no 2.5
        axes.locator_params(axis="x", steps=[1, 2, 5, 10])
        axes.set_xlabel("time since start of the run, s")
        axes.xaxis.set_major_formatter(grouped_number)
        return
    hours = end_s / 3600
    step = next((one for one in _HOURS if hours / one <= _TICKS), hours)
    places = [number * step for number in range(int(hours / step + 1e-9) + 1)]
    axes.set_xticks([hour * 3600 for hour in places], [f"{at:g}" for at in places])
    axes.set_xlabel("time since start of the run, h")


@dataclass(frozen=True, slots=True)
class Curve:
    """A line over the run's time; NaN breaks it."""

    label: str
    colour: str
    xs: Sequence[float]
    ys: Sequence[float]
    #: Lower and upper edge of a band: the lowest and highest interval of each point.
    band: tuple[Sequence[float], Sequence[float]] | None = None
    is_steps: bool = False
    style: Any = "-"
    width: float = 1.3


@dataclass(frozen=True, slots=True)
class TimePanel:
    """What a panel over the run's time shows."""

    title: str
    unit: str
    curves: Sequence[Curve]
    is_logarithmic: bool = False
    #: Whether the curves are named: at their ends where the panel is logarithmic, else
    #: in a legend.
    has_names: bool = True
    #: Times of triangles at the upper edge, and of vertical lines.
    marks_s: Sequence[float] = ()
    lines_s: Sequence[float] = ()
    limit: float | None = None
    #: At the right of the title.
    note: str = ""


def _curve(
    timeline: Timeline,
    series: Any,
    name: str,
    label: str,
    colour: str,
    scale: float = 1,
    *,
    is_steps: bool = False,
    **look: Any,
) -> Curve:
    """The list `name` of a series as a curve, multiplied by `scale`, with the band of
    its envelope."""
    line = steps if is_steps else middles

    def scaled(values: Values) -> list[float]:
        return [y * scale for y in line(timeline, values)[1]]

    values: Values = getattr(series, name)
    envelope = series.envelopes.get(name)
    band = (scaled(envelope.low), scaled(envelope.high)) if envelope else None
    xs, _ = line(timeline, values)
    return Curve(label, colour, xs, scaled(values), band, is_steps, **look)


def _draw_panel(axes: Any, panel: TimePanel) -> None:
    if panel.is_logarithmic:
        axes.set_yscale("log")
    ends = []
    for curve in panel.curves:
        known = [y for y in curve.ys if not math.isnan(y)]
        if not known:
            continue
        colour = curve.colour
        if curve.band:
            axes.fill_between(
                curve.xs, *curve.band, color=colour, alpha=0.22, linewidth=0
            )
        shape: dict[str, Any] = {"marker": ".", "markevery": lonely(curve.ys)}
        if curve.is_steps:
            shape = {"drawstyle": "steps-post"}
        axes.plot(
            curve.xs,
            curve.ys,
            color=colour,
            label=curve.label,
            linestyle=curve.style,
            linewidth=curve.width,
            **shape,
        )
        ends.append((known[-1], curve.label, colour))
    axes.plot(
        panel.marks_s,
        [0.97] * len(panel.marks_s),
        transform=axes.get_xaxis_transform(),
        color=ALARM,
        linestyle="none",
        marker="^",
        markersize=3.5,
    )
    for at_s in panel.lines_s:
        axes.axvline(at_s, color=ALARM, linewidth=1.0, linestyle=_DASHED)
    if panel.limit is not None:
        axes.axhline(panel.limit, color=ALARM, linewidth=0.8, linestyle=_DASHED)
    if not ends:
        _no_data(axes)
    if panel.is_logarithmic:
        _log_axis(axes)
    else:
        # a steady line would lie on the edge of its own range
        axes.set_ylim(0, 1.1 * max(axes.dataLim.y1, 0) or None)
        axes.yaxis.set_major_formatter(grouped_number)
    if panel.has_names and panel.is_logarithmic:
        label_ends(axes, ends)
    elif panel.has_names and ends:
        legend_outside(axes)
    axes.set_ylabel(panel.unit)


def label_ends(axes: Any, ends: Sequence[tuple[float, str, str]]) -> None:
    """Name the lines at the right edge; overlapping names move apart."""
    low, high = (math.log10(value) for value in axes.get_ylim())
    least = 0.105  # of the panel's height, one line of text
    place = -1.0
    for value, label, colour in sorted(ends):
        wanted = (math.log10(value) - low) / (high - low)
        place = max(wanted, place + least)
        axes.text(
            1.008,
            place,
            label,
            transform=axes.transAxes,
            va="center",
            color=colour,
            fontsize=7,
            fontweight="bold",
        )


def legend_outside(axes: Any) -> None:
    axes.legend(
        frameon=False,
        fontsize=7,
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        labelcolor=INK,
        handletextpad=0.5,
    )


def _no_data(axes: Any) -> None:
    axes.text(0.5, 0.5, "no data", transform=axes.transAxes, ha="center", color=MUTED)


def grouped_number(value: float, _position: float = 0) -> str:
    text = f"{value:,.0f}" if value >= 100 else f"{value:,.6g}"
    return text.replace(",", THIN)


_PANEL_IN = 1.45
#: Two of these still fit the first page.
_LOW_PANEL_IN = 0.98
_SMALL_PANEL_IN = 0.88
_DASHED = (0, (3, 1.6))
#: Lines differ by more than their colour.
_MARKERS = "os^vDPX*"
_FRAME_IN = 0.62
_SCALES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def draw(summary: Summary, places: Sequence[ChartPlace]) -> dict[str, str]:
    """Name -> SVG of each chart that the document has a place for."""

    def figure(name: str) -> Figure:
        if (number := monitor_number(name)) is None:
            return _DRAWINGS[name](summary)
        return _monitor(summary, summary.monitors[number])

    return {
        one.name: svg_of(one, partial(figure, one.name), summary.timeline)
        for one in places
    }


def svg_of(
    place: ChartPlace,
    draw_figure: Callable[[], Figure],
    timeline: Timeline | None = None,
) -> str:
    """The figure, drawn in the reports' style, as SVG for this place; `timeline` is
    that of its panels over the run's time."""
    _load_what_is_drawn()
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    with matplotlib.rc_context({**STYLE, "svg.hashsalt": f"ldapslam.{place.name}"}):
        out = io.StringIO()
        figure = draw_figure()
        for axes in _over_time_of(figure):
            for number, line in enumerate(axes.lines):
                line.set_gid(f"{axes.get_gid()}-{number}")
            for number, text in enumerate(_moving_of(axes)):
                text.set_gid(f"{axes.get_gid()}-{_MOVING}-{number}")
        # not savefig: that draws once more, only to lay out the figure
        canvas: Any = FigureCanvasSVG(figure)
        none = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        canvas.print_svg(out, metadata=none)
        data = _readable(figure, place.name, timeline) if timeline else {}
    return embeddable(out.getvalue(), place, data)


def _load_what_is_drawn() -> None:
    """Load matplotlib without the manual of its classes, which it would write each
    time, and without axes in three dimensions: a third of its time to load."""
    artist: Any = importlib.import_module("matplotlib.artist")
    artist.kwdoc = lambda _: ""
    # Artist writes the manual of its subclasses' `set` if it has this
    vars(artist.Artist.set).pop("_autogenerated_signature", None)
    no_axes: Any = SimpleNamespace(Axes3D=None)
    sys.modules.setdefault("mpl_toolkits.mplot3d", no_axes)


#: Of axes over the run's time, before their number.
_TIME = "over-time-"


def _readable(figure: Figure, name: str, timeline: Timeline) -> dict[str, Any]:
    """The panels over time, for the report's script: {width, unit_s, spans, panels:
    [{id, box, x, unit, texts, lines: [{id, label, colour, spans, y}]}]}. Lengths in pt,
    box as left, top, right, bottom; x: the ends of the axis in s, unit_s: what it
    counts in; texts: [id, place in s]; a line's spans: the place in `spans` of where
    its values begin and end. Empty without any panel."""
    width, height = (72 * inches for inches in figure.get_size_inches())
    every: dict[tuple[tuple[float, ...], tuple[float, ...]], int] = {}
    panels = []
    for axes in _over_time_of(figure):
        box = axes.get_position()
        lines = []
        for line in axes.lines:
            if str(line.get_label()).startswith("_"):
                continue
            drawn: Any = line.get_data()
            is_steps = line.get_drawstyle() == "steps-post"
            starts, ends, values = spans_of(timeline, *drawn, is_steps=is_steps)
            spans = _shortened(starts, 7), _shortened(ends, 7)
            lines.append(
                {
                    "id": f"{name}-{line.get_gid()}",
                    "label": str(line.get_label()),
                    "colour": line.get_color(),
                    "spans": every.setdefault(spans, len(every)),
                    "y": [None if math.isnan(y) else y for y in _shortened(values)],
                }
            )
        panels.append(
            {
                "id": f"{name}-{axes.get_gid()}",
                "box": _shortened(
                    (
                        *(box.x0 * width, (1 - box.y1) * height),
                        *(box.x1 * width, (1 - box.y0) * height),
                    )
                ),
                "x": axes.get_xlim(),
                "unit": axes.get_ylabel(),
                "texts": [
                    (f"{name}-{text.get_gid()}", text.get_position()[0])
                    for text in _moving_of(axes)
                ],
                "lines": lines,
            }
        )
    if not panels:
        return {}
    unit_s = 3600 if end_of(timeline) > _MOST_SECONDS else 1
    return {"width": width, "unit_s": unit_s, "spans": [*every], "panels": panels}


def _over_time_of(figure: Figure) -> list[Axes]:
    return [one for one in figure.axes if str(one.get_gid()).startswith(_TIME)]


#: Mark of the texts that stand at a time.
_MOVING = "at"


def _moving_of(axes: Axes) -> list[Text]:
    return [one for one in axes.texts if one.get_gid()]


def _shortened(values: Any, digits: int = 5) -> tuple[float, ...]:
    return tuple(float(f"{value:.{digits}g}") for value in values)


@dataclass(frozen=True)
class Line:
    """Values with their intervals, at places on the axis."""

    label: str
    points: Sequence[Point]
    is_joined: bool = True
    #: Whether a cross is on each point; empty: on none.
    crossed: Sequence[bool] = ()


#: A panel is logarithmic if its highest value is more than this times its lowest.
_MANY_TIMES = 40


def draw_lines(
    place: ChartPlace,
    panels: Mapping[str, Sequence[Line]],
    ticks: Mapping[float, str],
    axis: str,
    *,
    is_logarithmic: bool = False,
    band: tuple[float, float] | None = None,
    limits: Mapping[str, Sequence[float]] | None = None,
) -> str:
    """SVG of a panel for each title that has lines, one below the other, over one
    axis. `band`: the part of the axis that is shaded. `limits`: title -> values that a
    dashed line marks."""
    panels = {title: lines for title, lines in panels.items() if lines}

    def figure() -> Figure:
        figure = new_figure(1.6 * len(panels) + 0.5)
        grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False)
        for (title, lines), (axes,) in zip(panels.items(), grid, strict=True):
            for number, line in enumerate(lines):
                _draw_line(axes, line, number)
            for limit in (limits or {}).get(title, ()):
                axes.axhline(limit, color=ALARM, linestyle=_DASHED, linewidth=0.9)
            if band is not None:
                axes.axvspan(*band, color=SHADE, linewidth=1.2, zorder=0)
            axes.set_title(title)
            if axes.dataLim.y1 > _MANY_TIMES * axes.dataLim.minposy:
                axes.set_yscale("log")
                _log_axis(axes)
            else:
                # the highest mark is not cut
                axes.set_ylim(0, 1.06 * axes.dataLim.y1 or None)
                axes.yaxis.set_major_formatter(grouped_number)
            if is_logarithmic:
                axes.set_xscale("log")
            axes.grid(axis="y")
            if len(lines) > 1:
                legend_outside(axes)
        axes.set_xticks([*ticks], [*ticks.values()])
        axes.set_xticks([], minor=True)
        axes.set_xlabel(axis)
        return figure

    return svg_of(place, figure)


def _draw_line(axes: Axes, line: Line, number: int) -> None:
    # an end that is None is NaN, and drawn at the value
    xs, ys, lows, highs = np.array(line.points, np.float64).T
    axes.errorbar(
        xs,
        ys,
        yerr=np.nan_to_num([ys - lows, highs - ys]),
        linestyle="-" if line.is_joined else "none",
        marker=_MARKERS[number % len(_MARKERS)],
        markersize=3.5,
        capsize=2.5,
        color=SERIES[number % len(SERIES)],
        label=line.label,
    )
    marked = np.array(line.crossed or [False] * len(xs), np.bool_)
    look: Any = {"linestyle": "none", "marker": "x", "markersize": 7, "color": ALARM}
    axes.plot(xs[marked], ys[marked], **look)


@dataclass(frozen=True, slots=True)
class Span:
    """A value with its interval, and the limit that it is not to be above."""

    label: str
    value: float
    low: float
    high: float
    limit: float
    #: GOOD, BAD, or MUTED.
    tone: str


_TONES = {GOOD: SERIES[0], BAD: ALARM, TONE_MUTED: MUTED}


#: Beyond this many per cent an axis of changes is logarithmic, linear up to
#: _LINEAR_PERCENT, and named by how many times as much it is.
_LARGE_PERCENT, _LINEAR_PERCENT = 50.0, 10.0


def change_ticks(lowest: float, largest: float) -> dict[float, str]:
    """Return the ticks of an axis of changes in per cent that is logarithmic beyond
    _LINEAR_PERCENT."""
    ticks = {one: f"{one:g}" for one in (-100.0, -10.0, 0.0, 10.0, 100.0)}
    for exponent in range(1, 10):
        times, percent = f"× {10**exponent:,}".replace(",", THIN), 1e2 * 10**exponent
        if percent / 10 < largest:
            ticks[percent - 100] = times
        if percent / 10 < -lowest:
            ticks[100 - percent] = f"better {times}"
    return ticks


def draw_spans(place: ChartPlace, spans: Sequence[Span], axis: str) -> str:
    """Return the SVG of a row for each span in per cent, from top to bottom."""
    ends = [end for one in spans for end in (one.low, one.high) if math.isfinite(end)]
    lowest, largest = min(0.0, *ends), max(0.0, *ends)

    def figure() -> Figure:
        figure = new_figure(0.26 * len(spans) + 0.6)
        axes = figure.subplots()
        rows = range(len(spans))
        for row, one in zip(rows, spans, strict=True):
            axes.errorbar(
                one.value,
                row,
                xerr=[[one.value - one.low], [one.high - one.value]],
                marker="o",
                markersize=4,
                capsize=2.5,
                color=_TONES[one.tone],
            )
            axes.plot([one.limit] * 2, [row - 0.4, row + 0.4], color=ALARM)
        axes.axvline(0, color=MUTED, linewidth=0.8)
        if max(-lowest, largest) > _LARGE_PERCENT:
            axes.set_xscale("symlog", linthresh=_LINEAR_PERCENT)
            ticks = change_ticks(lowest, largest)
            axes.set_xticks([*ticks], [*ticks.values()])
            axes.set_xticks([], minor=True)
            axes.set_xlim(
                2 * min(lowest, -_LINEAR_PERCENT), 2 * max(largest, _LINEAR_PERCENT)
            )
        axes.set_yticks([*rows], [one.label for one in spans])
        axes.set_ylim(len(spans) - 0.5, -0.5)
        axes.grid(axis="x")
        axes.set_xlabel(axis)
        return figure

    return svg_of(place, figure)


def _colour(summary: Summary, one: OperationSummary) -> str:
    """The same in every chart."""
    return SERIES[summary.operations.index(one) % len(SERIES)]


def _throughput(summary: Summary) -> Figure:
    def panel(one: OperationSummary) -> TimePanel:
        curve = partial(_curve, summary.timeline, series_of(summary, one))
        # seen where the line of completions, which lies on it, is not
        due = curve(
            "offered_per_s", "due", INK, is_steps=True, style=_DASHED, width=0.9
        )
        colour = _colour(summary, one)
        completed = curve("throughput_per_s", "completed", colour, is_steps=True)
        curves = (due, completed)
        return TimePanel(one.title, THROUGHPUT.heading, curves, has_names=False)

    return _over_time(summary, map(panel, summary.operations), _LOW_PANEL_IN)


def _queues(summary: Summary) -> Figure:
    def panel(name: str) -> TimePanel:
        curve = partial(_curve, summary.timeline, summary.timeline.streams[name])
        curves = (
            curve("in_flight", "in flight", SERIES[0]),
            curve("backlog", "backlog", SERIES[1]),
        )
        return TimePanel(name, "requests", curves)

    return _over_time(summary, map(panel, queued(summary.timeline)), _SMALL_PANEL_IN)


def _response_times(summary: Summary) -> Figure:
    def panel(one: OperationSummary) -> TimePanel:
        series = series_of(summary, one)
        xs, ys = middles(summary.timeline, series.unanswered)
        few = too_few(series)
        return TimePanel(
            one.title,
            "response time, ms",
            [
                _curve(
                    *(summary.timeline, series, name, label, colour, 1e-3),
                    width=0.8 if label == "max" else 1.3,
                )
                for name, (label, colour) in PERCENTILE_COLOURS.items()
            ],
            is_logarithmic=True,
            marks_s=[x for x, y in zip(xs, ys, strict=True) if y > 0],
            note=f"needs n in a point: {few}" if few else "",
        )

    return _over_time(summary, map(panel, summary.timed))


def _waits(summary: Summary) -> Figure:
    def panel(one: OperationSummary) -> TimePanel:
        curve = partial(_curve, summary.timeline, series_of(summary, one))
        curves = (
            curve("p99_us", "response", PERCENTILE_COLOURS["p99_us"][1], 1e-3),
            curve("service_p99_us", "service", SERIES[0], 1e-3, style=_DASHED),
            curve("send_lag_p99_us", "send lag", ALARM, 1e-3),
        )
        return TimePanel(one.title, METRICS["p99"].heading, curves, is_logarithmic=True)

    return _over_time(summary, map(panel, waited(summary)))


def _workers(summary: Summary) -> Figure:
    curves = []
    for number, (agent, series) in enumerate(summary.timeline.agents.items()):
        look = (SERIES[number % len(SERIES)], 100)
        # more names would be longer than the panel
        label = agent if number < PANELS else "_"
        curve = partial(_curve, summary.timeline, series)
        curves += [
            curve("busy_share", label, *look, width=1.1),
            curve("run_queue_share", "_", *look, style=(0, (1.5, 1.5)), width=1.1),
        ]
    limit = summary.busy_share_limit * 100
    panel = TimePanel("", "% of the interval", curves, limit=limit)
    return _over_time(summary, [panel])


def _monitor(summary: Summary, monitor: MonitorSummary) -> Figure:
    def panel(one: Panel) -> TimePanel:
        scale, unit = 1.0, "cores" if one.unit == "s/s" else one.unit
        if one.unit.startswith("bytes"):
            largest = max(size_of(each) for _, each in one.lines)
            scale, prefix = next(
                known for known in _SCALES if largest >= known[0] or known[0] == 1
            )
            unit = prefix + (unit.replace("bytes", "B") if prefix else unit)
        curves = [
            Curve(
                label,
                SERIES[number % len(SERIES)],
                each.points.at_s,
                [math.nan if y is None else y / scale for y in each.points.values],
                width=1.1,
            )
            for number, (label, each) in enumerate(one.lines)
        ]
        return TimePanel(one.title, unit, curves, lines_s=monitor.restarts_s)

    return _over_time(summary, map(panel, panels_of(monitor)), _SMALL_PANEL_IN)


#: Shares of a point's requests, from the rarest that has a colour of its own.
_RAREST = 1e-4


def _heat(summary: Summary) -> Figure:
    from matplotlib.colors import LinearSegmentedColormap, LogNorm, to_rgba

    shown = summary.timed[:PANELS]
    figure, panels = _time_axes(summary, [one.title for one in shown])
    # by its opacity, so that it does for either ground and in grey
    shades = [to_rgba(SERIES[0], opacity) for opacity in (0.06, 1.0)]
    colours = LinearSegmentedColormap.from_list("heat", shades)
    drawn = None
    for axes, one in zip(panels, shown, strict=True):
        series = series_of(summary, one)
        rows = heat_rows(series)
        axes.set_ylabel("response time, ms")
        if rows[0] == rows[1]:
            _no_data(axes)
            continue
        edges, shares = heat_columns(summary.timeline, series, rows)
        levels = HEAT_EDGES_US[rows[0] : rows[1] + 1] / 1000
        drawn = axes.pcolormesh(
            edges,
            levels,
            shares,
            cmap=colours,
            norm=LogNorm(_RAREST, 1, clip=True),
            rasterized=True,
        )
        axes.set_yscale("log")
        axes.set_ylim(levels[0], levels[-1])
        _log_axis(axes)
    _place(figure, panels, _DIGIT_IN * len("0.01%"))
    if drawn is not None:
        bar = figure.colorbar(drawn, ax=panels, fraction=0.03, pad=0.015, aspect=30)
        bar.outline.set_visible(False)
        bar.set_ticks([1, 0.1, 0.01, 0.001, _RAREST])
        bar.set_ticklabels(["100%", "10%", "1%", "0.1%", "0.01%"])
        bar.ax.minorticks_off()
    return figure


def _percentiles(summary: Summary) -> Figure:
    shown = summary.timed[:PANELS]
    columns = 2 if len(shown) > 1 else 1
    rows = -(-len(shown) // columns)
    figure = new_figure(2.5 * rows + 0.35)
    for number, one in enumerate(shown):
        axes = figure.add_subplot(rows, columns, number + 1)
        colour = _colour(summary, one)
        for metric, label, style in (
            ("response_time", "response time", "-"),
            ("service_time", "service time", _DASHED),
        ):
            curve = one.curves[metric]
            if curve.fractions:
                xs = [1 / (1 - fraction) for fraction in curve.fractions]
                ys = [value_us / 1000 for value_us in curve.values_us]
                axes.plot(xs, ys, color=colour, linestyle=style, label=label)
        axes.set_title(one.title)
        if not one.curves["response_time"].fractions:
            _no_data(axes)
            continue
        axes.set_xscale("log")
        axes.set_yscale("log")
        _percentile_axis(axes, one)
        _log_axis(axes)
        axes.grid(True, which="major")
        axes.set_xlabel("percentile")
        axes.set_ylabel("ms")
        axes.legend(frameon=False, fontsize=7, loc="upper left", labelcolor=MUTED)
    return figure


def _errors(summary: Summary) -> Figure:
    bars = [
        (f"{one.title}  {cause}", amount, SERIES[number % len(SERIES)])
        for number, one in enumerate(summary.operations)
        for cause, amount in causes(one)
    ]
    bars += [
        (f"{one.title}  {code}", amount, MUTED)
        for one in summary.operations
        for code, amount in expected_codes(one)
    ]
    failing = [one for one in summary.operations if one.error_share]
    bar_in = 0.25 * len(bars) + 0.35
    panel_in = 1.5 if failing else 0.0
    figure = new_figure(bar_in + panel_in + 0.35)
    ratios = [bar_in, panel_in] if failing else [bar_in]
    grid = figure.add_gridspec(len(ratios), 1, height_ratios=ratios)
    axes = figure.add_subplot(grid[0])
    labels, amounts, colours = zip(*bars, strict=True)
    axes.barh(range(len(bars)), amounts, color=colours, height=0.62)
    axes.set_yticks(range(len(bars)), labels)
    axes.tick_params(axis="y", labelcolor=INK)
    axes.set_xlim(0, max(amounts) * 1.15)
    for row, amount in enumerate(amounts):
        text = f" {amount:,.0f}".replace(",", THIN)
        axes.text(amount, row, text, va="center", color=INK, fontsize=7)
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)
    axes.invert_yaxis()
    axes.set_title("requests")
    if failing:
        below = figure.add_subplot(grid[1])
        _ground(below, summary, 0, has_names=True)
        curves = [
            _curve(
                *(summary.timeline, series_of(summary, one)),
                *("errors_per_s", one.title, _colour(summary, one)),
                is_steps=True,
            )
            for one in failing
        ]
        _draw_panel(below, TimePanel("", "errors/s", curves, has_names=False))
        time_axis(below, end_of(summary.timeline))
    return figure


def _strips(summary: Summary, members: Mapping[str, Series]) -> Figure:
    """A row for each: throughput and a percentile, on the same scales as the others."""
    timeline = summary.timeline
    shown, usual = strips(timeline, members)
    percentile = strip_percentile(members)
    figure = new_figure(0.66 * len(shown) + _FRAME_IN)
    grid = figure.subplots(len(shown), 2, sharex=True, sharey="col", squeeze=False)
    rate = ("throughput_per_s", THROUGHPUT.heading, 1.0)
    time = (f"{percentile}_us", metric_of(percentile).heading, 1e-3)
    for row, (name, series) in enumerate(shown.items()):
        for column, (key, unit, scale) in enumerate((rate, time)):
            axes = grid[row][column]
            _ground(axes, summary, 2 * row + column, has_names=False)
            is_rate = key == rate[0]
            look: Any = {"scale": scale, "is_steps": is_rate}
            # its gap is one of both lines
            both = zip(getattr(series, key), getattr(usual, key), strict=True)
            middle: Any = {key: [None if a is None else b for a, b in both]}
            curves = (
                _curve(
                    *(timeline, Series(**middle), key, "median of all", MUTED),
                    **look,
                    width=0.8,
                ),
                _curve(timeline, series, key, name, SERIES[column], **look),
            )
            panel = TimePanel(
                *("", unit, curves), is_logarithmic=not is_rate, has_names=False
            )
            _draw_panel(axes, panel)
            axes.yaxis.label.set_visible(False)
    # above the names, which may be long
    above: Any = {"xycoords": "axes fraction", "textcoords": "offset points"}
    titles = (f"throughput, {rate[1]}", time[1])
    for axes, title in zip(grid[0], titles, strict=True):
        axes.annotate(title, (1, 1), (0, 16), ha="right", color=MUTED, **above)
    for axes, (name, _) in zip(grid[:, 0], shown.items(), strict=True):
        axes.set_title(name)
    # axes in a column share their scale
    left, right = grid[0]
    left.set_ylim(0, 1.1 * max(axes.dataLim.y1 for axes in grid[:, 0]) or None)
    left.locator_params(axis="y", nbins=3)
    low, high = _round_limits(right.get_ylim())
    right.set_ylim(low, high)
    right.set_yticks([low, high])
    right.yaxis.set_major_formatter(grouped_number)
    for axes in grid[-1]:
        time_axis(axes, end_of(timeline))
    return figure


def _round_limits(limits: tuple[float, float]) -> tuple[float, float]:
    """1, 2 or 5 times a power of ten, next to the limits on either side."""
    steps = [
        step * 10.0**power
        for power in range(
            math.floor(math.log10(limits[0])), math.ceil(math.log10(limits[1])) + 1
        )
        for step in (1, 2, 5)
    ]
    return (
        max(step for step in steps if step <= limits[0]),
        min(step for step in steps if step >= limits[1]),
    )


_DRAWINGS: Mapping[str, Callable[[Summary], Figure]] = {
    "throughput": _throughput,
    "queues": _queues,
    "response_times": _response_times,
    "heat": _heat,
    "waits": _waits,
    "percentiles": _percentiles,
    "errors": _errors,
    "agent_strips": lambda summary: _strips(summary, summary.timeline.agents),
    "server_strips": lambda summary: _strips(summary, summary.timeline.servers),
    "workers": _workers,
}


def fonts() -> Path:
    """The folder of the charts' fonts, for the page in print to have the same face."""
    from matplotlib import get_data_path

    return Path(get_data_path()) / "fonts" / "ttf"


def new_figure(height_in: float, layout: Any = "constrained") -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH_IN, height_in), layout=layout)


def _over_time(
    summary: Summary, panels: Iterable[TimePanel], panel_in: float = _PANEL_IN
) -> Figure:
    """A figure of panels over the run's time, one below the other."""
    shown = list(islice(panels, PANELS))
    names = [
        [curve.label for curve in one.curves if not curve.label.startswith("_")]
        for one in shown
        if one.has_names
    ]
    panel_in = max([panel_in, *(_LEGEND_ROW_IN * len(one) for one in names)])
    figure, grid = _time_axes(summary, [one.title for one in shown], panel_in)
    look: Any = {"color": MUTED, "fontsize": 6.5, "fontweight": "normal"}
    for number, (axes, panel) in enumerate(zip(grid, shown, strict=True)):
        _draw_panel(axes, panel)
        axes.set_title(panel.note, loc="right", pad=_title_pad(number), **look)
    letters = max((len(name) for one in names for name in one), default=0)
    line_in = 0 if any(one.is_logarithmic for one in shown) else _LEGEND_LINE_IN
    _place(figure, grid, _LETTER_IN * letters + line_in if letters else 0)
    return figure


#: Room at the edges of a figure, below and above its panels, and between two panels.
_EDGE_IN, _BELOW_IN, _ABOVE_IN, _BETWEEN_IN = 0.12, 0.4, 0.3, 0.28
#: Room for the unit of a panel, a row of its legend, and the line before a name.
_UNIT_IN, _LEGEND_ROW_IN, _LEGEND_LINE_IN = 0.27, 0.15, 0.25
_DIGIT_IN, _LETTER_IN = 0.062, 0.068


def _place(figure: Figure, panels: Sequence[Axes], names_in: float) -> None:
    """Give panels over time, one below the other, their places, with room for names at
    the right. matplotlib's own layout measures all that is drawn, twice: a third of the
    time to draw."""
    width_in, height_in = figure.get_size_inches()
    labels = [grouped_number(y) for one in panels for y in one.get_yticks()]
    digits = max(map(len, labels), default=0)
    row_in = (height_in - _BELOW_IN - _ABOVE_IN + _BETWEEN_IN) / max(len(panels), 1)
    figure.subplots_adjust(
        left=(_UNIT_IN + _DIGIT_IN * digits) / width_in,
        right=1 - (_EDGE_IN + names_in) / width_in,
        bottom=_BELOW_IN / height_in,
        top=1 - _ABOVE_IN / height_in,
        hspace=_BETWEEN_IN / (row_in - _BETWEEN_IN),
    )


def _title_pad(number: int) -> int:
    """Return the distance of a title: names of phases stand over the first panel."""
    return 5 if number else 12


def _time_axes(
    summary: Summary, titles: Sequence[str], panel_in: float = _PANEL_IN
) -> tuple[Figure, list[Axes]]:
    """A panel over the run's time for each title, with its ground drawn."""
    rows = max(len(titles), 1)
    figure = new_figure(panel_in * rows + _FRAME_IN, layout=None)
    grid = figure.subplots(rows, 1, sharex=True, squeeze=False)
    panels = [row[0] for row in grid][: len(titles)]
    for number, (axes, title) in enumerate(zip(panels, titles, strict=True)):
        _ground(axes, summary, number, has_names=not number)
        axes.set_title(title, pad=_title_pad(number))
    if panels:
        time_axis(panels[-1], end_of(summary.timeline))
    return figure, panels


def _log_axis(axes: Axes) -> None:
    """Plain numbers at 1, 2, 5 when there is room for them, else at powers of ten."""
    from matplotlib.ticker import LogLocator, NullLocator

    low, high = axes.get_ylim()
    decades = math.log10(high / low) if low > 0 else 1.0
    multiples = (
        (1.0, 2.0, 5.0) if decades < 1.6 else (1.0, 3.0) if decades < 2.6 else (1.0,)
    )
    axes.yaxis.set_major_locator(LogLocator(subs=multiples))
    axes.yaxis.set_major_formatter(grouped_number)
    axes.yaxis.set_minor_locator(NullLocator())


def _percentile_axis(axes: Axes, one: OperationSummary) -> None:
    last = 1 / (1 - one.curves["response_time"].fractions[-1])
    ticks = [(1.0, "0"), (2.0, "50"), (10.0, "90")]
    nines = 2
    while 10**nines <= last * 1.0001:
        share = 100 - 100 / 10**nines
        # long labels need the room of two
        is_named = nines <= 4 or nines % 2 == 0
        label = f"{share:.{max(nines - 2, 0)}f}" if is_named else ""
        ticks.append((10.0**nines, label))
        nines += 1
    axes.set_xlim(1, last)
    axes.set_xticks([at for at, _ in ticks], [label for _, label in ticks])
    axes.set_xticks([], minor=True)


_COMMENT = re.compile(r"<!--.*?-->\s*", re.DOTALL)
_ID = re.compile(r'\bid="([^"]+)"')
_HREF = re.compile(r'xlink:href="#([^"]+)"')
_URL = re.compile(r"url\(#([^)]+)\)")
_PATH = re.compile(r'\bd="[^"]*"')
_DIGITS = re.compile(r"(\.\d\d)\d+")
_SIZE = re.compile(r'\s(?:width|height)="[\d.]+pt"')


def embeddable(svg: str, place: ChartPlace, data: Mapping[str, Any]) -> str:
    """The drawing as a part of a page: ids of its own, a title, and `data` as JSON in
    its metadata."""
    name = place.name
    opening, _, content = svg[svg.index("<svg") :].partition(">")
    content = _COMMENT.sub("", content)
    content = _PATH.sub(lambda match: _DIGITS.sub(r"\1", match[0]), content)
    content = _ID.sub(rf'id="{name}-\1"', content)
    content = _HREF.sub(rf'xlink:href="#{name}-\1"', content)
    content = _URL.sub(rf"url(#{name}-\1)", content)
    head = (
        f'{_SIZE.sub("", opening)} role="img" '
        f'aria-labelledby="{name}-title {name}-description">\n'
        f'<title id="{name}-title">{escape(place.title)}</title>\n'
        f'<desc id="{name}-description">{escape(place.description)}</desc>\n'
    )
    if data:
        text = json.dumps(data, separators=(",", ":"), allow_nan=False)
        head += f"<metadata>{escape(text)}</metadata>\n"
    return head + content.strip() + "\n"
