# SPDX-License-Identifier: Apache-2.0
"""The report as PDF, by typst: the same Document and the same charts as the HTML.

The template reads the document as JSON data, so nothing of a job is ever markup.
Reproducible: the fonts of the charts, no network, and the run's start as the date.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from itertools import groupby
from pathlib import Path

import typst

from ldapslam.base.errors import ReportError
from ldapslam.reports.charts.charts import fonts
from ldapslam.reports.document import Block, Document, Table

_TEMPLATE = Path(__file__).parents[1] / "templates" / "report.typ"
#: A column of texts longer than this shares the width that is left.
_WIDE_TEXT = 24
#: A table that has no more stands on one page.
_WHOLE_ROWS = 26
_END_ROWS = 4


def render_pdf(
    document: Document, charts: Mapping[str, str], *, date_utc: str | None
) -> bytes:
    """`charts`: name -> SVG; `date_utc` becomes the document's date: with that of its
    runs, a report that is made again is the same file."""
    with tempfile.TemporaryDirectory(prefix="ldapslam-") as name:
        folder = Path(name)
        (folder / "report.typ").write_text(_TEMPLATE.read_text("utf-8"), "utf-8")
        data = {**_data(document), "date": date_utc and _date(date_utc)}
        (folder / "document.json").write_text(json.dumps(data), "utf-8")
        for chart, svg in charts.items():
            (folder / f"{chart}.svg").write_text(svg, "utf-8")
        try:
            pdf: bytes = typst.compile(
                str(folder / "report.typ"),
                root=str(folder),
                format="pdf",
                font_paths=[str(fonts())],
                ignore_system_fonts=True,
            )
        except typst.TypstError as error:
            raise ReportError(f"the PDF could not be made: {error}") from error
    return pdf


def _date(at_utc: str) -> dict[str, int]:
    at = datetime.fromisoformat(at_utc)
    names = ("year", "month", "day", "hour", "minute", "second")
    return {name: getattr(at, name) for name in names}


def _data(document: Document) -> dict[str, object]:
    sections = [
        {
            "title": section.title,
            "blocks": [_block(block) for block in section.blocks],
            "in_appendix": section.in_appendix,
        }
        for section in document.sections
    ]
    return {
        **asdict(document),
        "headline": document.headline,
        "banner": document.banner,
        "sections": sections,
    }


def _block(block: Block) -> dict[str, object]:
    data = {"kind": block.kind, **asdict(block)}
    if isinstance(block, Table):
        data["name"] = block.name.partition("-")[0]
        data["kept"] = kept_together([row[0].text for row in block.rows])
        for place, column in enumerate(data["columns"]):
            column["is_wide"] = _is_wide(block, place)
    return data


def kept_together(heads: Sequence[str]) -> list[int]:
    """How many rows stand on one page each time, by the first cells of all rows: those
    of one server, or whatever they are about; a table that is not long; and of a long
    one the rows at either end."""
    of_one = [len(list(rows)) for _, rows in groupby(heads)]
    if all(number == 1 for number in of_one):
        of_one = [len(heads)] if heads else []
    kept: list[int] = []
    for number in of_one:
        if number <= _WHOLE_ROWS:
            kept.append(number)
        else:
            kept += [_END_ROWS, *[1] * (number - 2 * _END_ROWS), _END_ROWS]
    return kept


def _is_wide(table: Table, place: int) -> bool:
    if table.columns[place].is_number:
        return False
    return any(len(row[place].text) > _WIDE_TEXT for row in table.rows)
