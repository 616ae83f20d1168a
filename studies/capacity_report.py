# SPDX-License-Identifier: Apache-2.0
"""The report of a search for capacity: its answer, then throughput and response time of
every load that was tried. Pure but for the files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ldapslam.jobs.fields.thresholds import (
    STATISTICS,
    FigureName,
    parse_name,
    parse_threshold,
)
from ldapslam.reports.document import (
    Cell,
    ChartPlace,
    Document,
    Field,
    Glance,
    Table,
    column,
    glance,
    number,
    section,
    table,
)
from ldapslam.reports.figures import (
    ERRORS,
    THROUGHPUT,
    Figure,
    Readings,
    figures_in,
    matching,
    point_of,
    readings_of,
)
from ldapslam.reports.result import facts_in
from ldapslam.reports.sections.appendix import products
from ldapslam.reports.typeset import (
    count,
    figure_cell,
    figure_columns,
    grouped,
    percent,
    seconds,
    value_text,
    verdict_cell,
)
from ldapslam.studies.capacity import FAIL, INVALID, PASS, Found, Probe
from ldapslam.studies.report import latest, until_text, write_reports

if TYPE_CHECKING:
    from ldapslam.reports.charts.charts import Line

SCHEMA = "ldapslam-capacity/1"
_CAPACITY = "capacity"
#: Ticks of the chart are this far from each other, as a share of the axis.
_TICK_GAP = 0.08
#: Ratio of the highest load to the lowest from which on the axis is logarithmic.
_LOGARITHMIC = 8
#: Maximum number of operations with a card of their figures at the capacity.
_CARDS = 3
#: Response times.
_TIMES = {one: parse_name(one) for one in STATISTICS}
#: Those in cards and table, in addition to the objectives'.
_USUAL = (_TIMES["p50"], _TIMES["p99"])


@dataclass(frozen=True)
class Tried:
    """A run of the search."""

    probe: Probe
    folder: str
    result: Mapping[str, Any]
    #: Its report is in the folder; that of a coordinator's run is made from its store.
    has_report: bool = True

    @cached_property
    def readings(self) -> Readings:
        return readings_of(figures_in(self.result))

    @property
    def operations(self) -> list[str]:
        """Titles of the operations."""
        return list(dict.fromkeys(one.title for one in self.readings))

    @property
    def throughput_per_s(self) -> float | None:
        """Throughput of all operations."""
        return self._highest("run.throughput")

    @property
    def measured_s(self) -> float:
        return self.result.get("measured_s") or 0.0

    @property
    def client_cpu(self) -> float | None:
        """Busy share of the CPUs of the agents' hosts, of the busiest."""
        return self._highest("agent(*).cpu")

    @property
    def server_cpu(self) -> float | None:
        """Busy share of the CPUs of the busiest server's host that has a monitor."""
        return self._highest("host.cpu")

    def _highest(self, name: str) -> float | None:
        found = matching(parse_name(name), figures_in(self.result))
        return max((one.value for one in found if one.value), default=None)


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
    #: Of loads: '/s' of a rate.
    unit: str = ""

    @property
    def label(self) -> str:
        """The load's name, of a field without its path."""
        return self.load.rpartition(".")[2]

    @property
    def not_held(self) -> Tried | None:
        """The run of the load above the capacity."""
        return self._last(self.found.above, self.found.above_verdict)

    @property
    def confirmed(self) -> Tried | None:
        """The run that confirmed the capacity."""
        return self._last(self.found.capacity, PASS)

    def _last(self, load: float | None, verdict: str) -> Tried | None:
        made = [
            one
            for one in self.runs
            if (one.probe.load, one.probe.verdict) == (load, verdict)
        ]
        return made[-1] if made else None

    @property
    def reasons(self) -> Sequence[str]:
        """Why the load above the capacity is not held, or not certified."""
        return list(self.not_held.result.get("reasons", ())) if self.not_held else []

    @property
    def limits(self) -> Mapping[FigureName, Sequence[float]]:
        """Statistic of the response time -> limits that objectives set for it, as they
        are shown."""
        limits: dict[FigureName, list[float]] = {}
        for one in map(parse_threshold, self.objectives):
            if one.is_of_stream and one.metric == "response_time":
                name = _TIMES[one.statistic or ""]
                limits.setdefault(name, []).append(one.limit * name.shown_in.factor)
        return limits

    @property
    def metrics(self) -> Sequence[FigureName]:
        """Those that are shown of each operation."""
        times = {*_USUAL, *self.limits}
        return [THROUGHPUT, *(one for one in _TIMES.values() if one in times), ERRORS]

    @property
    def statement(self) -> str:
        """The answer in a sentence."""
        found = self.found
        if found.above is None:
            above = "All of the range holds: raise --to to find the limit."
        elif found.verdict == INVALID:
            why = "".join(f": {one}" for one in self.reasons[:1])
            above = f"{self._at(found.above)} could not be certified{why}."
        elif self._last(found.above, PASS):
            # then only a confirmation settles it
            above = f"{self._at(found.above)} held once, its confirmation failed."
        else:
            above = f"{self._at(found.above)} is {found.above_verdict}."
        if found.capacity is None:
            return f"No capacity: {above}"
        bound = "at least up to" if found.is_lower_bound else "up to"
        held = f"{bound} {self._at(found.capacity)}, confirmed by a longer run"
        return f"Holds {held}. {above}"

    def _at(self, load: float) -> str:
        return f"{self.label}={load:.0f}{self.unit}"

    def shown(self, load: float) -> str:
        return count(round(load)) + self.unit


def write_capacity(answer: CapacityAnswer, folder: Path) -> list[Path]:
    """Write capacity.html, .pdf, .txt and .json; their paths."""
    content = capacity_document(answer)
    ended_utc = latest(
        one.result.get("manifest", {}).get("finished_utc") for one in answer.runs
    )
    draw, found = partial(_chart, answer), capacity_json(answer)
    return write_reports(folder, _CAPACITY, content, draw, found, ended_utc)


def capacity_document(answer: CapacityAnswer) -> Document:
    """The search as a document: its answer first."""
    found = answer.found
    capacity = "none" if found.capacity is None else answer.shown(found.capacity)
    is_invalid = found.verdict == INVALID
    held = "holds at least" if found.is_lower_bound else "capacity"
    not_held = "not certified" if is_invalid else "does not hold"
    above = "" if found.above is None else answer.shown(found.above)
    if found.above is None:
        highest = max((one.probe.load for one in answer.runs), default=0)
        not_held, above = "highest load tried", answer.shown(highest)
    return Document(
        title=f"capacity of {answer.job}",
        verdict=found.verdict,
        statement=answer.statement,
        # the statement has the first one of a load that was not certified
        reasons=tuple(
            f"{answer.label}={found.above:.0f}{answer.unit}: {one}"
            for one in answer.reasons[is_invalid:]
        ),
        cautions=_cautions(answer),
        glance=(
            glance(answer.label, (held, capacity), (not_held, above)),
            *_at_capacity(answer),
        ),
        facts=_facts(answer),
        sections=tuple(section("runs", "Runs", _curve(answer), _table(answer))),
    )


def _cautions(answer: CapacityAnswer) -> tuple[str, ...]:
    """What has to be known with the run that the answer rests on."""
    deciding = answer.confirmed or answer.not_held
    notes = deciding.result.get("notes", ()) if deciding else ()
    return tuple(f"{text[:1].upper()}{text[1:]}." for text in map(grouped, notes))


def _at_capacity(answer: CapacityAnswer) -> Iterator[Glance]:
    """The operations of the run that confirmed it."""
    if (run := answer.confirmed) is None:
        return
    for title in run.operations[:_CARDS]:
        figures = [(one, run.readings.get(one.of(title))) for one in answer.metrics]
        cells = (
            (name.words, figure_cell(name, one, has_unit=True)) for name, one in figures
        )
        yield glance(f"{title} at the capacity", *cells)


def _facts(answer: CapacityAnswer) -> tuple[tuple[str, str], ...]:
    last = answer.runs[-1].result if answer.runs else {}
    manifest = last.get("manifest", {})
    system = products(*facts_in(manifest))
    length = seconds(sum(one.measured_s for one in answer.runs))
    until = until_text(manifest.get("finished_utc"))
    return (
        ("Job", answer.job),
        ("Load", answer.load),
        ("Objective", " and ".join(answer.objectives) or "the job's thresholds"),
        *_between(answer),
        *_limited_by(answer),
        *[("System", system)] * bool(system),
        ("Runs", f"{len(answer.runs)}, {length} measured{until}"),
    )


def _limited_by(answer: CapacityAnswer) -> Iterator[tuple[str, str]]:
    """Why the load above the capacity is not held, and what was busy then."""
    if (one := answer.not_held) is None:
        return
    shares = (("clients", one.client_cpu), ("servers", one.server_cpu))
    known = [f"{side} {percent(cpu, 0)}%" for side, cpu in shares if cpu is not None]
    cpu = f"; CPU busy there: {', '.join(known)}" * bool(known)
    yield "Limited by", f"{_why(one)}{cpu}"


def _between(answer: CapacityAnswer) -> Iterator[tuple[str, str]]:
    """The interval of the capacity, and of the p99 there."""
    found, confirmed = answer.found, answer.confirmed
    if found.capacity is None or confirmed is None:
        return
    low = f"{count(round(found.capacity))} held for {seconds(confirmed.measured_s)}"
    high = "nothing above it was tried"
    if found.above is not None:
        # where it was not certified, the directory may hold more
        outcome = "was not certified" if found.is_lower_bound else "did not hold"
        high = f"{count(round(found.above))} {outcome}"
    yield "Capacity", f"{low}; {high}"
    known = (
        f"{one.title} {value_text(one, one.interval.low)} to "
        f"{value_text(one, one.interval.high, has_unit=True)}"
        for one in confirmed.readings.values()
        if one.short == "p99" and one.interval
    )
    if text := ", ".join(known):
        yield "p99 there", f"{text} (95% interval)"


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
                "figures": {
                    figure.name: figure.value
                    for figure in one.readings.values()
                    if figure.short in [metric.name for metric in answer.metrics]
                },
                "client_cpu_share": one.client_cpu,
                "server_cpu_share": one.server_cpu,
                "folder": f"runs/{one.folder}",
            }
            for one in answer.runs
        ],
    }


def _table(answer: CapacityAnswer) -> Table:
    made = sorted(answer.runs, key=lambda one: one.probe.load)
    rows = [(one, title) for one in made for title in (one.operations or [""])]
    has_several = any(len(one.operations) > 1 for one in made)
    has_servers = any(one.server_cpu is not None for one in made)

    def read(row: tuple[Tried, str], metric: FigureName) -> Figure | None:
        return row[0].readings.get(metric.of(row[1]))

    operation: Field[tuple[Tried, str]] = column("Operation", lambda row: row[1])
    servers: Field[tuple[Tried, str]]
    servers = number("server CPU (%)", lambda row: percent(row[0].server_cpu, 0))
    return table(
        "capacity-runs",
        "Runs by their load",
        rows,
        column(answer.label, lambda row: answer.shown(row[0].probe.load)),
        column("Run", lambda row: _kind(row[0].probe)),
        column("Verdict", lambda row: verdict_cell(row[0].probe.verdict)),
        *[operation] * has_several,
        *figure_columns(answer.metrics, read),
        number("client CPU (%)", lambda row: percent(row[0].client_cpu, 0)),
        *[servers] * has_servers,
        column("Why not", lambda row: _why(row[0])),
        column("Folder", _folder),
        notes=("CPU: busy share of the busiest host's CPUs. Folders are in runs/.",),
    )


def _folder(row: tuple[Tried, str]) -> Cell:
    one = row[0]
    if one.has_report:
        return Cell(one.folder, link=f"runs/{one.folder}/report.html")
    return Cell(f"{one.folder}: ldapslam report {one.result.get('run_id', '')}")


def _why(one: Tried) -> str:
    """The first reason, without its range and remedy."""
    first = next(iter(one.result.get("reasons", ())), "")
    return grouped(first.partition(" (")[0].partition(", may be")[0])


def _kind(probe: Probe) -> str:
    return "confirmation" if probe.is_confirmation else "search"


def _curve(answer: CapacityAnswer) -> ChartPlace | None:
    """None where no run is valid."""
    if not any(_lines(answer, metric) for metric in _panels(answer)):
        return None
    marked = ""
    if answer.found.capacity is not None:
        marked = " Shaded: from the capacity to the load above it."
    limits = " Dashed red: the objective." if answer.limits else ""
    return ChartPlace(
        "capacity-curve",
        "Throughput and response time by load",
        "Of the runs that are not INVALID, with their 95% intervals. Crosses: "
        f"runs that missed the objective.{marked}{limits}",
    )


def _panels(answer: CapacityAnswer) -> list[FigureName]:
    """The throughput, and the response times of objectives or the p99."""
    shown = [one for one in answer.metrics if one in answer.limits]
    return [THROUGHPUT, *(shown or [_TIMES["p99"]])]


def _chart(answer: CapacityAnswer, place: ChartPlace) -> str:
    from ldapslam.reports.charts.charts import draw_lines

    loads = sorted({one.probe.load for one in answer.runs})
    is_log = loads[-1] >= _LOGARITHMIC * loads[0]

    def place_of(load: float) -> float:
        return math.log(load / loads[0]) if is_log else load - loads[0]

    ticks: dict[float, str] = {}
    for load in loads:
        gap = place_of(load) - place_of(max(ticks, default=loads[0]))
        if not ticks or gap >= _TICK_GAP * place_of(loads[-1]):
            ticks[load] = count(round(load))
    found = answer.found
    band = None
    if found.capacity is not None:
        band = found.capacity, found.above or found.capacity
    return draw_lines(
        place,
        {one.heading: _lines(answer, one) for one in _panels(answer)},
        ticks,
        answer.label + f" ({answer.unit})" * bool(answer.unit),
        is_logarithmic=is_log,
        band=band,
        limits={one.heading: limits for one, limits in answer.limits.items()},
    )


def _lines(answer: CapacityAnswer, metric: FigureName) -> list[Line]:
    """Return two lines of a figure for each operation: over the runs of the search, and
    over the confirmations."""
    from ldapslam.reports.charts.charts import Line

    runs = sorted(answer.runs, key=lambda one: one.probe.load)
    valid = [one for one in runs if one.probe.verdict != INVALID]
    lines = []
    for title in dict.fromkeys(title for one in runs for title in one.operations):
        for label, is_joined, is_confirmation in (
            (title, True, False),
            (f"{title}, confirming", False, True),
        ):
            shown = [
                (one, figure)
                for one in valid
                if one.probe.is_confirmation == is_confirmation
                and (figure := one.readings.get(metric.of(title)))
                and figure.value is not None
            ]
            if shown:
                marks = [
                    point_of(metric, run.probe.load, one.value or 0.0, one.interval)
                    for run, one in shown
                ]
                failed = [run.probe.verdict == FAIL for run, _ in shown]
                lines.append(Line(label, marks, is_joined, failed))
    return lines
