# SPDX-License-Identifier: Apache-2.0
"""Which figures of a monitor share a panel of its chart, and how it is drawn.

Pure, but for the drawing, which calls the axes that it is given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ldapslam.reports.charts.axes import ALARM, SERIES, grouped_number, legend_outside
from ldapslam.reports.collect.telemetry import MetricSummary, MonitorSummary

#: Lines of a panel, at most: those with the highest means.
_LINES = 8
_PANELS = 8
#: Longer ones would take the room of the lines.
_LABEL_CHARACTERS = 28

#: Title and the metrics' names, without what is in brackets; a `*` stands for any
#: beginning. A metric is in the first panel that names it.
_PANEL_METRICS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("CPU, cores", ("cpu_user", "cpu_nice", "cpu_system", "cpu_iowait", "cpu_steal")),
    ("operations begun", ("*_initiated",)),
    (
        "operations",
        (
            *("search", "compare", "bind", "add", "modify", "delete", "modify_dn"),
            *("extended", "abandon", "unbind"),
        ),
    ),
    ("results", ("results",)),
    (
        "threads and queues",
        (
            *("threads_active", "threads_pending", "threads", "work_queue"),
            *("read_waiters", "write_waiters"),
        ),
    ),
    ("connections", ("connections", "open_files")),
    ("bytes sent and received", ("bytes_sent", "bytes_received")),
    ("age of the newest change", ("newest_change_age",)),
    ("changes sent to replicas", ("changes_sent",)),
    ("cache hits", ("*_cache_hits",)),
    ("cache tries", ("*_cache_tries",)),
    ("filters without an index", ("not_indexed",)),
    ("pages", ("mdb_pages_used", "mdb_pages_free", "bdb_dirty_pages")),
    ("memory", ("memory_resident", "memory_used", "memory_available", "swap_used")),
    ("disk", ("disk_read", "disk_written")),
    ("network", ("network_sent", "network_received")),
)
_CHART = "monitor-"
_SCALES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    unit: str
    #: Label and figure of each line.
    lines: tuple[tuple[str, MetricSummary], ...]


def chart_name(number: int) -> str:
    """Name of the chart of the summary's monitor of this number."""
    return f"{_CHART}{number}"


def monitor_number(name: str) -> int | None:
    """The reverse; None where it is another chart's name."""
    return int(name.removeprefix(_CHART)) if name.startswith(_CHART) else None


def panels_of(one: MonitorSummary) -> tuple[Panel, ...]:
    """Of the figures that are not zero all through. A monitor whose figures are none
    that are known here, an entry's, has a panel for each unit."""
    moving = [each for each in one.metrics if not each.is_idle]
    panels = []
    placed: set[str] = set()
    for title, names in _PANEL_METRICS:
        chosen = [
            each
            for each in moving
            if each.metric.name not in placed and _is_one_of(each.metric.name, names)
        ]
        placed |= {each.metric.name for each in chosen}
        panels += _by_unit(title, chosen)
    if not panels:
        panels = _by_unit("", moving)
    return tuple(panels[:_PANELS])


def _is_one_of(name: str, patterns: Sequence[str]) -> bool:
    plain = name.partition("[")[0]
    return any(
        plain.endswith(pattern[1:]) if pattern.startswith("*") else plain == pattern
        for pattern in patterns
    )


def _by_unit(title: str, chosen: Sequence[MetricSummary]) -> list[Panel]:
    panels = []
    for unit in dict.fromkeys(each.unit for each in chosen):
        of_unit = [each for each in chosen if each.unit == unit]
        of_unit.sort(key=lambda each: -_size(each))
        shown = of_unit[:_LINES]
        subjects = {_subject(each) for each in shown}
        words = [title or "figures"]
        if title == "" and unit:
            words.append(unit)
        # what all are about stands above, not beside each
        common = subjects.pop() if len(subjects) == 1 else None
        if common:
            words.append(common)
        lines = tuple((_label(each, common), each) for each in shown)
        panels.append(Panel(", ".join(words), unit, lines))
    return panels


def _subject(each: MetricSummary) -> str:
    """What is in brackets: a suffix, a disk, an agreement."""
    return each.metric.name.partition("[")[2].removesuffix("]")


def _size(each: MetricSummary) -> float:
    return max(abs(value) for value in each.points.values if value is not None)


def _label(each: MetricSummary, common: str | None) -> str:
    """Without what the panel's title says already."""
    name = each.metric.name.partition("[")[0] if common else each.metric.name
    for ending in ("_initiated", "_cache_hits", "_cache_tries"):
        name = name.replace(ending, "")
    if len(name) > _LABEL_CHARACTERS:
        name = f"{name[: _LABEL_CHARACTERS - 1]}…"
    return name.replace("_", " ")


def draw_panel(axes: Any, panel: Panel, restarts_s: Sequence[float]) -> None:
    """The lines of a panel, and its restarts, on axes that have the run's time."""
    largest = max(_size(each) for _, each in panel.lines)
    scale, prefix = 1.0, ""
    if panel.unit.startswith("bytes"):
        scale, prefix = next(one for one in _SCALES if largest >= one[0] or one[0] == 1)
    for number, (label, each) in enumerate(panel.lines):
        ys = [
            math.nan if value is None else value / scale for value in each.points.values
        ]
        axes.plot(
            each.points.at_s,
            ys,
            color=SERIES[number % len(SERIES)],
            linewidth=1.1,
            label=label,
            marker="." if len(ys) < 3 else None,
        )
    for at_s in restarts_s:
        axes.axvline(at_s, color=ALARM, linewidth=1.0, linestyle=(0, (4, 2)))
    axes.set_ylim(bottom=0)
    unit = panel.unit.replace("bytes", "B") if prefix else panel.unit
    axes.set_ylabel(f"{prefix}{unit}" if unit != "s/s" else "cores")
    axes.yaxis.set_major_formatter(grouped_number)
    legend_outside(axes)
