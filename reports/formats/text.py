# SPDX-License-Identifier: Apache-2.0
"""The report for a terminal, a mail or a CI log: the same tables, no charts."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from ldapslam.reports.document import (
    Cell,
    ChartPlace,
    Column,
    Document,
    Listing,
    Paragraph,
    Section,
    Table,
)
from ldapslam.reports.typeset import plain

#: Width of a table: columns of texts share the rest after columns of numbers.
_WIDTH = 100
_NARROWEST_TEXT = 16
_WIDEST_WORD = 36


def render_text(document: Document) -> str:
    """The whole report."""
    lines = [headline(document)]
    lines += [document.description] * bool(document.description)
    lines += cautions(document)
    lines.append("")
    width = max(len(one.title) for one in document.glance) if document.glance else 0
    lines += [
        f"{one.title:<{width}}  "
        + ", ".join(f"{label} {_with_why(cell)}" for label, cell in one.statistics)
        for one in document.glance
    ]
    width = max(len(name) for name, _ in document.facts)
    lines.append("")
    for name, value in document.facts:
        indent = " " * (width + 2)
        line = f"{name:<{width}}  {value}"
        lines += textwrap.wrap(line, _WIDTH, subsequent_indent=indent)
    for section in document.sections:
        if section is document.appendix:
            lines += ["", "", "APPENDIX"]
        lines += _section(section)
    return plain("\n".join(lines)) + "\n"


def _with_why(cell: Cell) -> str:
    return f"{cell.text} ({cell.why})" if cell.why else cell.text


def headline(document: Document) -> str:
    """The verdict with its reasons."""
    lines = [f"{document.banner}  {document.title}".strip(), document.statement]
    lines += [f"  - {reason}" for reason in document.reasons]
    return plain("\n".join(lines))


def cautions(document: Document) -> list[str]:
    """Return the lines of the cautions."""
    return [
        line
        for one in document.cautions
        for line in textwrap.wrap(plain(f"  ! {one}"), _WIDTH, subsequent_indent="    ")
    ]


def render_table(table: Table) -> str:
    """One table, its caption above; its texts are wrapped so that terminals hold it."""
    return plain("\n".join(_table(table, _fitted(table))))


def _section(section: Section) -> list[str]:
    if all(isinstance(block, ChartPlace) for block in section.blocks):
        return []
    lines = ["", "", section.title, "=" * len(section.title)]
    for block in section.blocks:
        match block:
            case Table():
                lines += ["", render_table(block)]
            case Paragraph():
                lines += ["", *textwrap.wrap(block.text, _WIDTH)]
            case Listing():
                lines += ["", block.caption]
                lines += [f"  {line}".rstrip() for line in block.text.splitlines()]
            case ChartPlace():
                pass
    return lines


def _titles(table: Table) -> list[Cell]:
    return [
        Cell(f"{column.title} ({column.unit})" if column.unit else column.title)
        for column in table.columns
    ]


def _widths(table: Table) -> list[int]:
    """Return the widths of the columns, by their longest cells."""
    rows = (_titles(table), *table.rows)
    return [
        max(len(row[place].text) for row in rows) for place in range(len(table.columns))
    ]


def _table(table: Table, widths: Sequence[int]) -> list[str]:
    titles = _titles(table)
    lines = [table.caption, *_row(titles, table.columns, widths)]
    lines.append("  ".join("-" * width for width in widths))
    for row in table.rows:
        lines += _row(row, table.columns, widths)
    for note in table.notes:
        lines += textwrap.wrap(note, _WIDTH)
    return lines


def _fitted(table: Table) -> list[int]:
    """Widths with which the table fits: titles of numbers are wrapped, then the widest
    texts. One that has more numbers than fit is wider."""
    widths = _widths(table)
    numbers = {place for place, one in enumerate(table.columns) if one.is_number}
    least = [
        max(
            *map(len, title.text.split(" ")),
            *(len(row[place].text) for row in table.rows),
            0,
        )
        if place in numbers
        else _narrowest(row[place].text for row in table.rows)
        for place, title in enumerate(_titles(table))
    ]
    while sum(widths) + 2 * (len(widths) - 1) > _WIDTH:
        places = [place for place in range(len(widths)) if widths[place] > least[place]]
        if not places:
            break
        of_numbers = [place for place in places if place in numbers]
        widths[max(of_numbers or places, key=lambda place: widths[place])] -= 1
    return widths


def _narrowest(texts: Iterable[str]) -> int:
    """Return the least width of a column of texts: only long words are broken."""
    longest = max((len(word) for text in texts for word in text.split(" ")), default=0)
    return min(max(longest, _NARROWEST_TEXT), _WIDEST_WORD)


def _row(
    cells: Sequence[Cell], columns: Sequence[Column], widths: Sequence[int]
) -> list[str]:
    """One row; the texts of a cell that is too long go on in the next lines."""
    wrapped = [
        textwrap.wrap(cell.text, width) or [""]
        for cell, width in zip(cells, widths, strict=True)
    ]
    lines = []
    for number in range(max(len(parts) for parts in wrapped)):
        texts = [
            (f"{part:>{width}}" if column.is_number else f"{part:<{width}}")
            for parts, column, width in zip(wrapped, columns, widths, strict=True)
            for part in [parts[number] if number < len(parts) else ""]
        ]
        lines.append("  ".join(texts).rstrip())
    return lines
