# SPDX-License-Identifier: Apache-2.0
"""The report of a search for capacity: its answer, then throughput and response time of
every load that was tried. Pure but for the files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ldapslam.reports.document import (
    MUTED,
    Cell,
    ChartPlace,
    Document,
    Glance,
    Section,
    Table,
    column,
    number,
    table,
)
from ldapslam.reports.typeset import NOT_AVAILABLE, count
from ldapslam.studies.answer import operations_of
from ldapslam.studies.capacity import INVALID, Found, Probe
from ldapslam.studies.figures import Figure
from ldapslam.studies.report import figure_text, latest, verdict_cell, write_reports

if TYPE_CHECKING:
    from ldapslam.reports.charts.charts import Line

SCHEMA = "ldapslam-capacity/1"
_CAPACITY = "capacity"
#: Ticks of the chart are that far from each other, as a share of the axis.
_TICK_GAP = 0.08
_PANELS = {
    "throughput (/s)": ("throughput_per_s", 1.0),
    "response time p99 (ms)": ("response_time_p99_us", 1e-3),
}


@dataclass(frozen=True)
class Tried:
    """A run of the search."""

    probe: Probe
    folder: str
    result: Mapping[str, Any]

    @property
    def operations(self) -> Mapping[str, Mapping[str, float | None]]:
        return operations_of(self.result)

    @property
    def throughput_per_s(self) -> float | None:
        """Of all operations."""
        return Figure.of("throughput").read(self.result) if self.result else None


@dataclass(frozen=True)
class CapacityAnswer:
    """What a search has found, and how."""

    job: str
    #: The variable or field that is the load.
    load: str
    objectives: Sequence[str]
    found: Found
    #: In the order in which they were made.
    runs: Sequence[Tried]

    @property
    def reasons(self) -> Sequence[str]:
        """Why the load above the capacity is not held, or not certified."""
        made = [
            one.result.get("reasons", ())
            for one in self.runs
            if one.probe.load == self.found.above
            and one.probe.verdict == self.found.above_verdict
        ]
        return list((made or [()])[-1])

    @property
    def statement(self) -> str:
        """The answer in a sentence."""
        found = self.found
        if found.above is None:
            above = "All of the range holds: raise --to to find the limit."
        elif found.verdict == INVALID:
            why = "".join(f": {one}" for one in self.reasons[:1])
            above = f"{self._at(found.above)} could not be certified{why}."
        else:
            above = f"{self._at(found.above)} is {found.above_verdict}."
        if found.capacity is None:
            return f"No capacity: {above}"
        bound = "at least up to" if found.is_lower_bound else "up to"
        held = f"{bound} {self._at(found.capacity)}, confirmed by a longer run"
        return f"Holds {held}. {above}"

    def _at(self, load: float) -> str:
        return f"{self.load}={load:.0f}"


def write_capacity(answer: CapacityAnswer, folder: Path) -> list[Path]:
    """Write capacity.html, .pdf, .txt and .json; their paths."""
    content = capacity_document(answer)
    drawn = {place.name: _chart(answer, place) for place in content.charts()}
    ended_utc = latest(
        one.result.get("manifest", {}).get("finished_utc") for one in answer.runs
    )
    found = capacity_json(answer)
    return write_reports(folder, _CAPACITY, content, drawn, found, ended_utc)


def capacity_document(answer: CapacityAnswer) -> Document:
    """The search as a document: its answer first."""
    found = answer.found
    capacity = "none" if found.capacity is None else count(round(found.capacity))
    above = "not found" if found.above is None else count(round(found.above))
    is_invalid = found.verdict == INVALID
    held = "holds at least" if found.is_lower_bound else "capacity"
    not_held = "not certified" if is_invalid else "does not hold"
    place = ChartPlace(
        "capacity-curve",
        "Throughput and response time by load",
        "The runs of the search that are not INVALID, and those that were to confirm a "
        "load.",
    )
    return Document(
        title=f"capacity of {answer.job}",
        verdict=found.verdict,
        statement=answer.statement,
        # the statement has the first one of a load that was not certified
        reasons=tuple(
            f"{answer.load}={found.above:.0f}: {one}"
            for one in answer.reasons[is_invalid:]
        ),
        glance=(Glance(answer.load, ((held, capacity), (not_held, above))),),
        facts=(
            ("Job", answer.job),
            ("Load", answer.load),
            ("Objective", " and ".join(answer.objectives) or "the job's thresholds"),
            ("Runs", str(len(answer.runs))),
        ),
        sections=(
            Section("runs", "Runs", (_table(answer), *[place] * _is_drawn(answer))),
        ),
    )


def _is_drawn(answer: CapacityAnswer) -> bool:
    return any(
        one.probe.verdict != INVALID and metrics.get("throughput_per_s") is not None
        for one in answer.runs
        for metrics in one.operations.values()
    )


def capacity_json(answer: CapacityAnswer) -> dict[str, Any]:
    """The content of capacity.json."""
    found = answer.found
    return {
        "schema": SCHEMA,
        "load": answer.load,
        "objectives": list(answer.objectives),
        "verdict": found.verdict,
        "statement": answer.statement,
        "capacity": found.capacity,
        "is_lower_bound": found.is_lower_bound,
        "above": found.above,
        "above_verdict": found.above_verdict or None,
        "above_reasons": list(answer.reasons),
        "runs": [
            {
                "load": one.probe.load,
                "confirms": one.probe.is_confirmation,
                "verdict": one.probe.verdict,
                "throughput_per_s": one.throughput_per_s,
                "folder": f"runs/{one.folder}",
            }
            for one in answer.runs
        ],
    }


def _table(answer: CapacityAnswer) -> Table:
    made = sorted(answer.runs, key=lambda one: one.probe.load)
    rows = [(one, title) for one in made for title in (one.operations or [""])]

    def cell(row: tuple[Tried, str], metric: str, scale: float) -> Cell:
        value = row[0].operations.get(row[1], {}).get(metric)
        if value is None:
            return Cell(NOT_AVAILABLE, MUTED)
        return Cell(figure_text(value * scale))

    return table(
        "capacity-runs",
        "Runs by their load",
        rows,
        column(answer.load, lambda row: count(round(row[0].probe.load))),
        column("Run", lambda row: _kind(row[0].probe)),
        column("Verdict", lambda row: verdict_cell(row[0].probe.verdict)),
        column("Operation", lambda row: row[1]),
        number("throughput (/s)", lambda row: cell(row, "throughput_per_s", 1.0)),
        number("p50 (ms)", lambda row: cell(row, "response_time_p50_us", 1e-3)),
        number("p99 (ms)", lambda row: cell(row, "response_time_p99_us", 1e-3)),
        number("errors (%)", lambda row: cell(row, "error_share", 100.0)),
        column("Folder", lambda row: f"runs/{row[0].folder}"),
    )


def _kind(probe: Probe) -> str:
    return "confirmation" if probe.is_confirmation else "search"


def _chart(answer: CapacityAnswer, place: ChartPlace) -> str:
    from ldapslam.reports.charts.charts import draw_lines

    panels = {
        title: _lines(answer, metric, scale)
        for title, (metric, scale) in _PANELS.items()
    }
    loads = sorted({one.probe.load for one in answer.runs})
    ticks: dict[float, str] = {}
    for load in loads:
        if not ticks or load - max(ticks) >= _TICK_GAP * loads[-1]:
            ticks[load] = count(round(load))
    return draw_lines(place, panels, ticks, answer.load)


def _lines(answer: CapacityAnswer, metric: str, scale: float) -> list[Line]:
    """One for each operation over the runs of the search, and the confirmations."""
    from ldapslam.reports.charts.charts import Line

    runs = sorted(answer.runs, key=lambda one: one.probe.load)
    valid = [one for one in runs if one.probe.verdict != INVALID]
    searched = [one for one in valid if not one.probe.is_confirmation]
    confirmed = [one for one in valid if one.probe.is_confirmation]
    lines = []
    for title in dict.fromkeys(title for one in runs for title in one.operations):
        for label, some, is_joined in (
            (title, searched, True),
            (f"{title}, confirming", confirmed, False),
        ):
            marks = [
                (one.probe.load, value * scale, None, None)
                for one in some
                if (value := one.operations.get(title, {}).get(metric)) is not None
            ]
            if marks:
                lines.append(Line(label, marks, is_joined))
    return lines
