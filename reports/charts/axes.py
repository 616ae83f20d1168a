# SPDX-License-Identifier: Apache-2.0
"""What all charts have in common: colours, sizes, ground, marks, legends.

Axes are matplotlib's; this module only calls what it is given and imports none of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ldapslam.reports.charts.chart_data import (
    end_of,
    event_marks,
    gap_spans,
    middles,
    steps,
)
from ldapslam.reports.collect.timeline import Series, Timeline
from ldapslam.reports.model import Summary
from ldapslam.reports.typeset import THIN

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


def over_time(axes: Any, summary: Summary, *, is_first: bool) -> None:
    """The ground of a panel over time: phases shaded and named, gaps hatched, events
    marked."""
    timeline = summary.timeline
    end_s = end_of(timeline)
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
        if is_first:
            axes.text(
                at_s,
                0.97,
                f" {numbers}",
                transform=axes.get_xaxis_transform(),
                ha="left",
                va="top",
                color=ALARM,
                fontsize=6,
            )


def time_axis(axes: Any, end_s: float) -> None:
    """Label and ticks of an axis of the run's time: hours where it took hours."""
    if end_s <= _MOST_SECONDS:
        axes.set_xlabel("time since start of the run, s")
        axes.xaxis.set_major_formatter(grouped_number)
        return
    hours = end_s / 3600
    step = next((one for one in _HOURS if hours / one <= _TICKS), hours)
    places = [number * step for number in range(int(hours / step + 1e-9) + 1)]
    axes.set_xticks([hour * 3600 for hour in places], [f"{at:g}" for at in places])
    axes.set_xlabel("time since start of the run, h")


def draw_band(
    axes: Any,
    timeline: Timeline,
    series: Series,
    name: str,
    colour: str,
    divisor: float = 1,
) -> bool:
    """From the lowest to the highest interval of each point; False without any."""
    envelope = series.envelopes.get(name)
    if envelope is None:
        return False
    xs, low = steps(timeline, envelope.low)
    _, high = steps(timeline, envelope.high)
    axes.fill_between(
        xs,
        [value / divisor for value in low],
        [value / divisor for value in high],
        color=colour,
        alpha=0.22,
        linewidth=0,
    )
    return True


def mark_unanswered(axes: Any, timeline: Timeline, series: Series) -> None:
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


def label_ends(axes: Any, ends: Sequence[tuple[float, str, str]]) -> None:
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


def legend_outside(axes: Any) -> None:
    axes.legend(
        frameon=False,
        fontsize=7,
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        labelcolor=INK,
        handletextpad=0.5,
    )


def no_data(axes: Any) -> None:
    axes.text(0.5, 0.5, "no data", transform=axes.transAxes, ha="center", color=MUTED)


def grouped_number(value: float, _position: float = 0) -> str:
    text = f"{value:,.0f}" if value >= 100 else f"{value:,.6g}"
    return text.replace(",", THIN)
