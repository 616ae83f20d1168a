# SPDX-License-Identifier: Apache-2.0
"""Imports that a run timed, with the notes of agents about each."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from ldapslam.reports.collect.job_notes import Import, imports_of
from ldapslam.reports.document import NOTHING, Blocks, Table, column, number, table
from ldapslam.reports.model import Summary
from ldapslam.reports.typeset import count, decimal
from ldapslam.results.facts import Said

_MADE_BY = (
    "server",
    "backend",
    "method",
    "quick",
    "settings",
    "entries",
    "file_system",
)
_MIB = 1 << 20
#: One thread sends the adds: above this share of it, it may be what is waited for.
_BUSY_SHARE = 0.7


def of_stream(summary: Summary, stream: str) -> list[Import]:
    """The imports of one stream, of all agents."""
    return [one for one in imports_of(summary.facts) if one.stream == stream]


def glance(summary: Summary, stream: str) -> tuple[tuple[str, str], ...]:
    """A stream's imports in a few statistics; nothing where it has none."""
    found = of_stream(summary, stream)
    if not found:
        return ()
    seconds = median(one.seconds for one in found)
    return (
        ("imports", count(len(found))),
        ("entries", count(found[0].entries)),
        ("time" if len(found) == 1 else "median", f"{decimal(seconds, 3)} s"),
        ("entries", f"{decimal(found[0].entries / max(seconds, 1e-9), 0)}/s"),
    )


def compared(summaries: Sequence[Summary]) -> Table:
    """Return a table of the imports of several runs."""
    rows = [
        (stream, summary.run.run_id, found, [one.seconds for one in found])
        for summary in summaries
        for stream in dict.fromkeys(one.stream for one in summary.operations)
        if (found := of_stream(summary, stream))
    ]
    return table(
        "imports",
        "Imports",
        rows,
        column("Stream", lambda row: row[0]),
        column("Run", lambda row: row[1]),
        column("by", lambda row: row[2][0].method),
        number("imports", lambda row: count(len(row[2]))),
        number("median (s)", lambda row: decimal(median(row[3]), 3)),
        number(
            "range (s)",
            lambda row: f"{decimal(min(row[3]), 3)} – {decimal(max(row[3]), 3)}",
        ),
        number(
            "entries (/s)",
            lambda row: decimal(row[2][0].entries / max(median(row[3]), 1e-9)),
        ),
        number(
            "until on disk (s)",
            lambda row: decimal(
                median(one.seconds + one.flush_seconds for one in row[2]), 3
            ),
        ),
        number(
            "peak memory (MiB)",
            lambda row: _mib(max(one.peak_memory_bytes or 0 for one in row[2]) or None),
        ),
    )


def made_by(summary: Summary) -> dict[str, Said]:
    """Return stream -> method, server and place of its last import."""
    return {
        one.stream: {name: note[name] for name in _MADE_BY if name in note}
        for one in imports_of(summary.facts)
        for note in [one.document()]
    }


def imports(summary: Summary) -> Blocks:
    """Tables of all imports and what they took."""
    found = imports_of(summary.facts)
    return _times(found), _costs(found)


def _times(found: Sequence[Import]) -> Table:
    return table(
        "imports",
        "Imports, in the order of each agent",
        enumerate(found, 1),
        column("No.", lambda row: str(row[0])),
        column("Stream", lambda row: row[1].stream),
        column("Agent", lambda row: row[1].agent),
        column("Server", lambda row: f"{row[1].server}, {row[1].backend}"),
        column("by", _method),
        number("entries", lambda row: count(row[1].entries)),
        number("time (s)", lambda row: decimal(row[1].seconds, 3)),
        number(
            "entries (/s)",
            lambda row: decimal(row[1].entries_per_s),
        ),
        number(
            "until on disk (s)",
            lambda row: decimal(row[1].seconds + row[1].flush_seconds, 3),
        ),
        column("in", lambda row: f"{row[1].place} ({row[1].file_system or NOTHING})"),
        notes=(
            "Time: of the program, of the task (in steps of 50 ms), or from the first "
            "connection to the last response. Until on disk: that time, and what it "
            "took then to have all files of the server written (fsync).",
            *_busy_clients(found),
        ),
    )


def _method(row: tuple[int, Import]) -> str:
    return row[1].method + " -q" * bool(row[1].quick)


def _busy_clients(found: Sequence[Import]) -> list[str]:
    notes = []
    for place, one in enumerate(found, 1):
        share = (one.client_cpu_s or 0.0) / max(one.seconds, 1e-9)
        if share > _BUSY_SHARE:
            notes.append(
                f"No. {place}: the client that sent the adds was busy {share:.0%} of "
                "the time; it may be what limited them."
            )
    return notes


def _costs(found: Sequence[Import]) -> Table:
    return table(
        "import-costs",
        "What the imports took: of the program, or of the server meanwhile",
        enumerate(found, 1),
        column("No.", lambda row: str(row[0])),
        number("CPU user (s)", lambda row: decimal(row[1].cpu_user_s, 3)),
        number("CPU system (s)", lambda row: decimal(row[1].cpu_system_s, 3)),
        number("peak memory (MiB)", lambda row: _mib(row[1].peak_memory_bytes)),
        number("read (MiB)", lambda row: _mib(row[1].read_bytes)),
        number("written (MiB)", lambda row: _mib(row[1].written_bytes)),
        number("LDIF (MiB)", lambda row: _mib(row[1].ldif_bytes)),
        number("server's files (MiB)", lambda row: _mib(row[1].database_bytes)),
        column("Settings", lambda row: _settings(row[1].settings)),
        notes=("Read and written: from and to disks, as the kernel counts it.",),
    )


def _mib(size: float | None) -> str:
    return decimal(None if size is None else size / _MIB)


def _settings(settings: Said) -> str:
    return "; ".join(
        f"{name} {one}"
        for name, given in settings.items()
        for one in (given if isinstance(given, list) else [given])
    )
