# SPDX-License-Identifier: Apache-2.0
"""Writes a run's reports into a folder, in the formats asked for.

The charts are drawn once for HTML and PDF, which are written last and at the same time.
A file is written under another name and renamed, so that a reader never sees half of
it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TextIO

from ldapslam.base.errors import ReportError
from ldapslam.base.files import part_of
from ldapslam.reports.document import Document
from ldapslam.reports.formats.exports import write_hlog, write_intervals, write_monitors
from ldapslam.reports.formats.text import render_text
from ldapslam.reports.model import Summary
from ldapslam.reports.result import result_of
from ldapslam.reports.sections.report_document import document
from ldapslam.results.columns import windows
from ldapslam.results.monitor_rows import monitor_series
from ldapslam.results.store import Store

#: Format -> file name, in the order in which they are named.
FILES = {
    "html": "report.html",
    "pdf": "report.pdf",
    "text": "report.txt",
    "json": "result.json",
    "csv": "intervals.csv",
    "hlog": "histograms.hlog",
}

#: The formats with charts.
_DRAWN = ("html", "pdf")

#: Beside intervals.csv, of a run with monitors.
MONITORS_FILE = "monitors.csv"


def render(
    summary: Summary,
    out: Path,
    formats: Iterable[str] = tuple(FILES),
    *,
    store: Store,
) -> list[Path]:
    """The files written; `store` is where the summary came from. `csv` is two files
    where the run had monitors."""
    wanted = set(formats)
    if unknown := wanted - FILES.keys():
        raise ReportError(
            f"unknown report format {min(unknown)!r}", hint=f"known: {', '.join(FILES)}"
        )
    files = {name: out / file for name, file in FILES.items() if name in wanted}
    if "csv" in wanted and summary.monitors:
        files["monitors"] = out / MONITORS_FILE
    out.mkdir(parents=True, exist_ok=True)
    content = document(summary)

    @cache
    def draw() -> dict[str, str]:
        from ldapslam.reports.charts import charts

        return charts.draw(summary, content.charts())

    writers = _writers(summary, store, content, draw)

    failures: dict[Path, Exception] = {}

    def write(name: str) -> None:
        unfinished = part_of(files[name])
        try:
            writers[name](unfinished)
            os.replace(unfinished, files[name])
        except Exception as error:  # the others are written all the same
            failures[files[name]] = error
        finally:
            unfinished.unlink(missing_ok=True)

    for name in files.keys() - _DRAWN:
        write(name)
    if drawn := files.keys() & _DRAWN:
        with suppress(Exception):  # the formats that need charts fail by it
            draw()  # once, before two threads need the charts
        with ThreadPoolExecutor() as threads:
            list(threads.map(write, drawn))
    if failures:
        path, error = next(iter(failures.items()))
        written = sorted(path.name for path in files.values() - failures.keys())
        raise ReportError(
            f"{path} cannot be written: {error or type(error).__name__}",
            hint=f"written are: {', '.join(written) or 'none'}",
        ) from error
    return list(files.values())


def result_json(summary: Summary) -> str:
    """The text of result.json."""
    content = result_of(summary)
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _writers(
    summary: Summary,
    store: Store,
    content: Document,
    draw: Callable[[], dict[str, str]],
) -> dict[str, Callable[[Path], object]]:
    run_id = summary.run.run_id

    def html(path: Path) -> None:
        from ldapslam.reports.formats.html import render_html

        path.write_text(render_html(content, draw()), "utf-8")

    def pdf(path: Path) -> None:
        from ldapslam.reports.formats.pdf import render_pdf

        started_utc = summary.started_utc
        path.write_bytes(render_pdf(content, draw(), date_utc=started_utc))

    return {
        "html": html,
        "pdf": pdf,
        "text": lambda path: path.write_text(render_text(content), "utf-8"),
        "json": lambda path: path.write_text(result_json(summary), "utf-8"),
        "csv": _streamed(lambda out: write_intervals(windows(store, run_id), out)),
        "hlog": _streamed(
            lambda out: write_hlog(
                windows(store, run_id), out, started_utc=summary.started_utc
            )
        ),
        "monitors": _streamed(
            lambda out: write_monitors(monitor_series(store, run_id), out)
        ),
    }


def _streamed(write: Callable[[TextIO], None]) -> Callable[[Path], None]:
    def to_file(path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as out:
            write(out)

    return to_file
