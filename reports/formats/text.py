# SPDX-License-Identifier: Apache-2.0
"""The report for a terminal, a mail or a CI log: the same tables, no charts."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

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

_WIDTH = 100
_WIDEST_CELL = 60
#: Of a table for a terminal: its columns of texts share what those of numbers leave.
_WIDEST_TABLE = 112
_NARROWEST_TEXT = 16


def render_text(document: Document) -> str:
    """The whole report."""
    lines = [headline(document), ""]
    width = max(len(one.title) for one in document.glance) if document.glance else 0
    lines += [
        f"{one.title:<{width}}  "
        + ", ".join(f"{label} {value}" for label, value in one.statistics)
        for one in document.glance
    ]
    width = max(len(name) for name, _ in document.facts)
    lines += ["", *(f"{name:<{width}}  {value}" for name, value in document.facts)]
    for section in document.sections:
        lines += _section(section)
    return plain("\n".join(lines)) + "\n"


def headline(document: Document) -> str:
    """The verdict with its reasons: what a run prints when it ends."""
    lines = [f"{document.verdict}  {document.title}", document.statement]
    lines += [f"  - {reason}" for reason in document.reasons]
    return plain("\n".join(lines))


def render_table(table: Table) -> str:
    """One table, its caption above; its texts are wrapped so that terminals hold it."""
    widths = _fitted(_widths(table), table.columns)
    return plain("\n".join(_table(table, widths)))


def _section(section: Section) -> list[str]:
    if all(isinstance(block, ChartPlace) for block in section.blocks):
        return []
    lines = ["", "", section.title, "=" * len(section.title)]
    for block in section.blocks:
        match block:
            case Table():
                widths = [min(width, _WIDEST_CELL) for width in _widths(block)]
                lines += ["", *_table(block, widths)]
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
    """Of the columns, by their longest cells."""
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


def _fitted(widths: list[int], columns: Sequence[Column]) -> list[int]:
    """Widths with which the table fits, its widest texts wrapped."""
    texts = [place for place, one in enumerate(columns) if not one.is_number]
    while texts and sum(widths) + 2 * (len(widths) - 1) > _WIDEST_TABLE:
        widest = max(texts, key=lambda place: widths[place])
        if widths[widest] <= _NARROWEST_TEXT:
            break
        widths[widest] -= 1
    return widths


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
