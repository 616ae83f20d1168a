# SPDX-License-Identifier: Apache-2.0
"""What the charts look like: colours, sizes, matplotlib's settings. Pure data."""

from __future__ import annotations

from typing import Any

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
