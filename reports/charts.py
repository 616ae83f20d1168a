# SPDX-License-Identifier: Apache-2.0
"""The report's charts as SVG. The only module that imports matplotlib, and lazily.

Text becomes paths, so that a chart looks the same in a browser and in the PDF; ids and
clip paths are derived from a fixed salt, and no date is written: the same Summary gives
the same bytes. One panel for each operation, because a thousand reads and ten writes a
second share no scale. A gap in the data is a gap in the line with a hatched ground.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ldapslam.reports.chart_data import (
    PANELS,
    causes,
    expected_codes,
    gap_spans,
    lonely,
    middles,
    steps,
    too_few,
)
from ldapslam.reports.document import ChartPlace
from ldapslam.reports.summary import OperationSummary, Summary
from ldapslam.reports.svg import embeddable
from ldapslam.reports.timeline import Series, Timeline
from ldapslam.reports.typeset import THIN

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Colours that a page may replace for a dark ground (see html.py).
INK, MUTED, GRID, SHADE, PAPER = "#20262d", "#6b7480", "#dfe3e8", "#eef1f4", "#fdfdfd"
#: Told apart by people who do not see red and green as different.
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

_WIDTH_IN = 7.4
_PANEL_IN = 1.45
_FRAME_IN = 0.62
_AGENTS = 24

_STYLE: Any = {
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


def draw(summary: Summary, places: Sequence[ChartPlace]) -> dict[str, str]:
    """Name -> SVG of each chart that the document has a place for."""
    import matplotlib

    drawn = {}
    for place in places:
        salt = f"ldapslam.{place.name}"
        with matplotlib.rc_context({**_STYLE, "svg.hashsalt": salt}):
            figure = _DRAWINGS[place.name](summary)
            out = io.StringIO()
            figure.savefig(out, format="svg", metadata={"Date": None})
        drawn[place.name] = embeddable(
            out.getvalue(), place.name, place.title, place.description
        )
    return drawn


def _colour(summary: Summary, one: OperationSummary) -> str:
    """The same in every chart."""
    return SERIES[summary.operations.index(one) % len(SERIES)]


def _throughput(summary: Summary) -> Figure:
    shown = summary.operations[:PANELS]
    figure, panels = _panels(len(shown))
    for number, (axes, one) in enumerate(zip(panels, shown, strict=True)):
        series = summary.timeline.operations.get((one.stream, one.operation), Series())
        _over_time(axes, summary.timeline, is_first=number == 0)
        colour = _colour(summary, one)
        xs, ys = steps(summary.timeline, series.throughput_per_s)
        if all(math.isnan(y) for y in ys):
            _no_data(axes)
        axes.plot(xs, ys, color=colour, drawstyle="steps-post")
        axes.fill_between(xs, ys, step="post", color=colour, alpha=0.10, linewidth=0)
        axes.set_ylim(bottom=0)
        axes.set_title(one.title, pad=12 if number == 0 else 5)
        axes.set_ylabel("completions/s")
        axes.yaxis.set_major_formatter(_grouped)
    return _finished_over_time(figure, panels)


def _response_times(summary: Summary) -> Figure:
    shown = summary.timed[:PANELS]
    figure, panels = _panels(len(shown))
    for number, (axes, one) in enumerate(zip(panels, shown, strict=True)):
        series = summary.timeline.operations.get((one.stream, one.operation), Series())
        _over_time(axes, summary.timeline, is_first=number == 0)
        axes.set_yscale("log")
        _mark_unanswered(axes, summary.timeline, series)
        ends = []
        for name, (label, colour) in PERCENTILE_COLOURS.items():
            values = getattr(series, name)
            if all(value is None for value in values):
                continue
            times_ms = [None if value is None else value / 1000 for value in values]
            xs, ys = middles(summary.timeline, times_ms)
            width = 0.8 if label == "max" else 1.3
            axes.plot(
                xs, ys, color=colour, linewidth=width, marker=".", markevery=lonely(ys)
            )
            last = next(value for value in reversed(ys) if not math.isnan(value))
            ends.append((last, label, colour))
        if not ends:
            _no_data(axes)
        elif missing := too_few(series):
            axes.set_title(
                f"needs n in a point: {missing}",
                loc="right",
                color=MUTED,
                fontsize=6.5,
                fontweight="normal",
                pad=12 if number == 0 else 5,
            )
        _log_axis(axes.yaxis, axes)
        _label_ends(axes, ends)
        axes.set_title(one.title, pad=12 if number == 0 else 5)
        axes.set_ylabel("response time, ms")
    return _finished_over_time(figure, panels)


def _percentiles(summary: Summary) -> Figure:
    shown = summary.timed[:PANELS]
    columns = 2 if len(shown) > 1 else 1
    rows = -(-len(shown) // columns)
    figure = _figure(2.5 * rows + 0.35)
    for number, one in enumerate(shown):
        axes = figure.add_subplot(rows, columns, number + 1)
        colour = _colour(summary, one)
        for metric, label, style in (
            ("response_time", "response time", "-"),
            ("service_time", "service time", (0, (3, 1.6))),
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
        _log_axis(axes.yaxis, axes)
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
    failing = [
        (number, one)
        for number, one in enumerate(summary.operations)
        if one.error_share
    ]
    bar_in = 0.25 * len(bars) + 0.35
    panel_in = 1.5 if failing else 0.0
    figure = _figure(bar_in + panel_in + 0.35)
    ratios = [bar_in, panel_in] if failing else [bar_in]
    grid = figure.add_gridspec(len(ratios), 1, height_ratios=ratios)
    axes = figure.add_subplot(grid[0])
    axes.barh(
        range(len(bars)),
        [amount for _, amount, _ in bars],
        color=[colour for _, _, colour in bars],
        height=0.62,
    )
    axes.set_yticks(range(len(bars)), [label for label, _, _ in bars])
    axes.tick_params(axis="y", labelcolor=INK)
    axes.invert_yaxis()
    axes.set_xlim(left=0, right=max(amount for _, amount, _ in bars) * 1.12)
    for row, (_, amount, _) in enumerate(bars):
        text = f" {amount:,}".replace(",", THIN)
        axes.text(amount, row, text, va="center", color=INK, fontsize=7)
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)
    axes.set_title("requests")
    if failing:
        over_time = figure.add_subplot(grid[1])
        _over_time(over_time, summary.timeline, is_first=True)
        for number, one in failing:
            series = summary.timeline.operations.get((one.stream, one.operation))
            if series is not None:
                xs, ys = steps(summary.timeline, series.errors_per_s)
                colour = SERIES[number % len(SERIES)]
                over_time.plot(xs, ys, color=colour, drawstyle="steps-post")
        over_time.set_ylim(bottom=0)
        over_time.set_ylabel("errors/s")
        over_time.set_xlabel("time since start of the run, s")
    return figure


def _agents(summary: Summary) -> Figure:
    shown = summary.agents[:_AGENTS]
    figure = _figure(0.27 * max(len(shown), 2) + 0.7)
    left, right = figure.subplots(1, 2, sharey=True)
    rows = range(len(shown))
    rates = [agent.throughput_per_s or 0.0 for agent in shown]
    left.barh(rows, rates, color=SERIES[0], height=0.6)
    for row, rate in zip(rows, rates, strict=True):
        text = f" {rate:,.0f}".replace(",", THIN)
        left.text(rate, row, text, va="center", color=INK, fontsize=7)
    left.set_xlim(0, max([*rates, 1.0]) * 1.15)
    left.set_yticks(rows, [agent.name for agent in shown])
    left.tick_params(axis="y", labelcolor=INK)
    left.set_ylim(max(len(shown), 2) - 0.5, -0.5)
    left.set_title("throughput, completions/s")
    left.xaxis.set_visible(False)
    left.spines["bottom"].set_visible(False)
    has_times = False
    for row, agent in zip(rows, shown, strict=True):
        for name, (label, colour) in PERCENTILE_COLOURS.items():
            value_us = agent.response_times.percentiles_us.get(name.removesuffix("_us"))
            if value_us is not None:
                has_times = True
                right.plot(
                    value_us / 1000,
                    row,
                    marker="o",
                    markersize=5,
                    linestyle="none",
                    color=colour,
                    label=label if row == 0 else None,
                )
    right.set_title("response time of successes, ms")
    if has_times:
        right.set_xscale("log")
        right.margins(x=0.12)
        _log_axis(right.xaxis, right)
        right.grid(True, axis="x", which="major")
        _legend_outside(right)
    right.spines["left"].set_visible(False)
    return figure


def _workers(summary: Summary) -> Figure:
    figure, panels = _panels(1)
    axes = panels[0]
    _over_time(axes, summary.timeline, is_first=True)
    for number, (agent, series) in enumerate(summary.timeline.agents.items()):
        colour = SERIES[number % len(SERIES)]
        label = agent if number < PANELS else None
        for values, style, name in (
            (series.busy_share, "-", label),
            (series.run_queue_share, (0, (1.5, 1.5)), None),
        ):
            shares = [None if value is None else value * 100 for value in values]
            xs, ys = middles(summary.timeline, shares)
            axes.plot(xs, ys, color=colour, linestyle=style, linewidth=1.1, label=name)
    axes.axhline(
        summary.busy_share_limit * 100,
        color=ALARM,
        linewidth=0.8,
        linestyle=(0, (4, 2)),
    )
    axes.set_ylim(0, 104)
    axes.set_yticks([0, 25, 50, 75, 100])
    axes.set_ylabel("% of the interval")
    axes.set_title(
        "solid: busy, dotted: waiting for a CPU, dashed: limit of busy",
        pad=12,
        color=MUTED,
        fontsize=7.5,
        fontweight="normal",
    )
    if summary.timeline.agents:
        _legend_outside(axes)
    return _finished_over_time(figure, panels)


_DRAWINGS: Mapping[str, Callable[[Summary], Figure]] = {
    "throughput": _throughput,
    "response_times": _response_times,
    "percentiles": _percentiles,
    "errors": _errors,
    "agents": _agents,
    "workers": _workers,
}


def _figure(height_in: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(_WIDTH_IN, height_in), layout="constrained")


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    figure = _figure(_PANEL_IN * max(count, 1) + _FRAME_IN)
    axes = figure.subplots(max(count, 1), 1, sharex=True, squeeze=False)
    return figure, [row[0] for row in axes][:count]


def _over_time(axes: Axes, timeline: Timeline, *, is_first: bool) -> None:
    """The ground of a panel over time: phases shaded and named, gaps hatched."""
    end_s = max([phase.end_s for phase in timeline.phases] + timeline.end_s, default=1)
    axes.set_xlim(0, end_s)
    axes.grid(True, axis="y", which="major")
    for phase in timeline.phases:
        if phase.name != "measure":
            axes.axvspan(
                phase.start_s, phase.end_s, facecolor=SHADE, linewidth=0, zorder=0
            )
        axes.axvline(phase.start_s, color=PAPER, linewidth=1.2, zorder=0.5)
        width_in = (phase.end_s - phase.start_s) / end_s * _WIDTH_IN * 0.8
        name = phase.name.replace("_", " ")
        if is_first and width_in > 0.062 * len(name):
            axes.text(
                (phase.start_s + phase.end_s) / 2,
                1.02,
                name,
                transform=axes.get_xaxis_transform(),
                ha="center",
                va="bottom",
                color=MUTED,
                fontsize=6.5,
            )
    for start_s, stop_s in gap_spans(timeline, end_s):
        axes.axvspan(
            start_s,
            stop_s,
            facecolor="none",
            edgecolor=MUTED,
            hatch="/////",
            linewidth=0,
            alpha=0.8,
            zorder=0,
        )


def _finished_over_time(figure: Figure, panels: Sequence[Axes]) -> Figure:
    if panels:
        panels[-1].set_xlabel("time since start of the run, s")
        panels[-1].xaxis.set_major_formatter(_grouped)
    return figure


def _mark_unanswered(axes: Axes, timeline: Timeline, series: Series) -> None:
    """Triangles at the upper edge over points with requests that had no answer."""
    xs, ys = middles(timeline, series.unanswered)
    marked = [x for x, y in zip(xs, ys, strict=True) if y > 0]
    axes.plot(
        marked,
        [0.97] * len(marked),
        transform=axes.get_xaxis_transform(),
        color=ALARM,
        linestyle="none",
        marker="^",
        markersize=3.5,
    )


def _label_ends(axes: Axes, ends: Sequence[tuple[float, str, str]]) -> None:
    """Names the lines at the right edge; names that would overlap move apart."""
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


def _log_axis(axis: Any, axes: Axes) -> None:
    """Plain numbers at 1, 2, 5 when there is room for them, else at powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    decades = math.log10(high / low) if low > 0 else 1.0
    multiples = (
        (1.0, 2.0, 5.0) if decades < 1.6 else (1.0, 3.0) if decades < 2.6 else (1.0,)
    )
    axis.set_major_locator(LogLocator(subs=multiples))
    axis.set_major_formatter(FuncFormatter(_grouped))
    axis.set_minor_formatter(NullFormatter())


def _percentile_axis(axes: Axes, one: OperationSummary) -> None:
    last = 1 / (1 - one.curves["response_time"].fractions[-1])
    ticks = [(1.0, "0"), (2.0, "50"), (10.0, "90")]
    nines = 2
    while 10**nines <= last * 1.0001:
        share = 100 - 100 / 10**nines
        ticks.append((10.0**nines, f"{share:.{max(nines - 2, 0)}f}"))
        nines += 1
    axes.set_xlim(1, last)
    axes.set_xticks([at for at, _ in ticks], [label for _, label in ticks])


def _legend_outside(axes: Axes) -> None:
    axes.legend(
        frameon=False,
        fontsize=7,
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        labelcolor=INK,
        handletextpad=0.5,
    )


def _no_data(axes: Axes) -> None:
    axes.text(0.5, 0.5, "no data", transform=axes.transAxes, ha="center", color=MUTED)


def _grouped(value: float, _position: float = 0) -> str:
    text = f"{value:,.0f}" if value >= 100 else f"{value:,.6g}"
    return text.replace(",", THIN)
