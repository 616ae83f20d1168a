# SPDX-License-Identifier: Apache-2.0
"""The report as a document: headings, tables and charts, before any format.

HTML, PDF and text render the same Document, so that a statistic cannot differ between
them. Pure; charts are only named here, `charts` draws them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

#: What a cell means beyond its text; colour is never the only sign of it.
GOOD, CAUTION, BAD, MUTED = "good", "caution", "bad", "muted"


NOT_AVAILABLE = "n/a"
NOTHING = "–"


def format_figure(value: float, limit: float = math.nan) -> str:
    """Return a measured value for people, rounded alike in all outputs: to four digits,
    three below 1, or more until it is on its own side of the limit."""
    # what arithmetic leaves behind the twelfth digit is no part of the value
    value, limit = (float(f"{one:.12g}") for one in (value, limit))
    digits = 0
    if value and math.isfinite(value):
        first = math.floor(math.log10(abs(value)))
        digits = max(0, (2 if first < 0 else 3) - first)
    # of a limit of nan, neither is true of any number
    side = value < limit, value > limit
    while ((shown := round(value, digits)) < limit, shown > limit) != side:
        digits += 1
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if digits else text


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    unit: str = ""
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    #: '', or one of GOOD, CAUTION, BAD, MUTED.
    tone: str = ""
    #: More, where a format has room for it.
    hint: str = ""
    #: A file in the report's folder, for HTML.
    link: str = ""

    @property
    def why(self) -> str:
        """Why there is no value, in short; empty where there is one."""
        return self.hint.partition(" (")[0] if self.text == NOT_AVAILABLE else ""


def no_value(needs: str) -> Cell:
    """Return the cell of a value that is missing until a run has what it needs; a dash
    where no run has it."""
    if not needs:
        return Cell(NOTHING, MUTED)
    return Cell(NOT_AVAILABLE, MUTED, f"needs {needs}")


@dataclass(frozen=True, slots=True)
class Table:
    """The first cell of a row is its heading."""

    kind: ClassVar = "table"

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    #: Below the table.
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChartPlace:
    """Where the chart of this name goes; the text is for those who do not see it."""

    kind: ClassVar = "chart"

    name: str
    title: str
    description: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    kind: ClassVar = "paragraph"

    text: str


@dataclass(frozen=True, slots=True)
class Listing:
    """Text with its line breaks: a job file."""

    kind: ClassVar = "listing"

    caption: str
    text: str


Row = TypeVar("Row")
#: A column, and the cell that it makes of a row.
Field = tuple[Column, Callable[[Row], Cell | str]]


def column(title: str, of: Callable[[Row], Cell | str]) -> Field[Row]:
    """A column of texts; a title such as `Time (ms)` ends in the unit."""
    name, _, unit = title.removesuffix(")").partition(" (")
    return Column(name, unit), of


def number(title: str, of: Callable[[Row], Cell | str]) -> Field[Row]:
    """A column of numbers."""
    made, _ = column(title, of)
    return replace(made, is_number=True), of


def table(
    name: str,
    caption: str,
    rows: Iterable[Row],
    *fields: Field[Row],
    notes: Iterable[str] = (),
    limit: int | None = None,
) -> Table:
    """A table of one row for each of `rows`, up to the limit: result.json has all."""
    every = list(rows)
    more = len(every) - len(every[:limit])
    left_out = [f"and {more:,} more: result.json has all of them"] * (more > 0)
    columns = tuple(made for made, _ in fields)
    cells = [tuple(cell_of(of(row)) for _, of in fields) for row in every[:limit]]
    return table_of_cells(name, caption, columns, cells, (*left_out, *notes))


def table_of_cells(
    name: str,
    caption: str,
    columns: tuple[Column, ...],
    rows: Sequence[tuple[Cell, ...]],
    notes: Iterable[str] = (),
) -> Table:
    """A table; its notes begin with why cells have no value."""
    why: dict[str, dict[str, None]] = {}
    for place, made in enumerate(columns):
        for reason in (row[place].why for row in rows if row[place].why):
            why.setdefault(reason, {})[made.title] = None
    reasons = "; ".join(f"{text} ({', '.join(titles)})" for text, titles in why.items())
    missing = [f"{NOT_AVAILABLE}: {reasons}."] * bool(reasons)
    return Table(name, caption, columns, tuple(rows), (*missing, *notes))


def cell_of(found: Cell | str) -> Cell:
    return Cell(found) if isinstance(found, str) else found


Block = Table | ChartPlace | Paragraph | Listing
#: None: nothing to show.
Blocks = Iterable[Block | None]


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    title: str
    blocks: tuple[Block, ...]
    #: Not what the reader asks first; those of the appendix come last.
    in_appendix: bool = False


def section(
    name: str, title: str, *blocks: Block | None, in_appendix: bool = False
) -> list[Section]:
    """A section of what there is: without None, and tables that have no rows; none at
    all without any block."""
    there = tuple(
        one for one in blocks if one and (not isinstance(one, Table) or one.rows)
    )
    return [Section(name, title, there, in_appendix)] * bool(there)


@dataclass(frozen=True, slots=True)
class Glance:
    """One operation in three statistics."""

    title: str
    #: (label, value with its unit)
    statistics: tuple[tuple[str, Cell], ...]


def glance(title: str, *statistics: tuple[str, Cell | str]) -> Glance:
    """Return a card of the first page."""
    return Glance(title, tuple((label, cell_of(value)) for label, value in statistics))


@dataclass(frozen=True, slots=True)
class Document:
    title: str
    #: Empty where nothing is judged.
    verdict: str
    #: One sentence: what the verdict rests on.
    statement: str
    reasons: tuple[str, ...]
    #: The few statistics to read first.
    glance: tuple[Glance, ...]
    #: (name, value) of the run.
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    #: What it is about, in the words of its author.
    description: str = ""
    #: Whole sentences that a reader of the verdict has to know, apart from the reasons.
    cautions: tuple[str, ...] = ()
    #: What the verdict is called here, where that is not its own word.
    answer: str = ""

    @property
    def banner(self) -> str:
        return self.answer or self.verdict

    @property
    def headline(self) -> str:
        """For the title of a window."""
        return " · ".join(filter(None, (self.banner, self.title)))

    @property
    def appendix(self) -> Section | None:
        """Its first section."""
        return next((one for one in self.sections if one.in_appendix), None)

    def charts(self) -> tuple[ChartPlace, ...]:
        return tuple(
            block
            for section in self.sections
            for block in section.blocks
            if isinstance(block, ChartPlace)
        )


def with_texts(document: Document, change: Callable[[str], str]) -> Document:
    """The document with its texts changed, but for headings and listings."""

    def block(one: Block) -> Block:
        if isinstance(one, Paragraph):
            return Paragraph(change(one.text))
        if not isinstance(one, Table):
            return one
        rows = tuple(
            tuple(replace(cell, text=change(cell.text)) for cell in row)
            for row in one.rows
        )
        return replace(one, rows=rows, notes=tuple(map(change, one.notes)))

    return replace(
        document,
        statement=change(document.statement),
        reasons=tuple(map(change, document.reasons)),
        cautions=tuple(map(change, document.cautions)),
        facts=tuple((name, change(value)) for name, value in document.facts),
        sections=tuple(
            replace(one, blocks=tuple(map(block, one.blocks)))
            for one in document.sections
        ),
    )
