# SPDX-License-Identifier: Apache-2.0
"""Imports that a run timed: what agents noted of each beside its time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from ldapslam.reports.document import Block, Cell, Column, Table
from ldapslam.reports.typeset import NOTHING, count, decimal

if TYPE_CHECKING:
    from ldapslam.reports.summary import Summary

#: As lab/bulk_load/job.py notes them; those of _USAGE may be missing.
_TEXTS = ("stream", "server", "backend", "method", "place", "file_system")
_NUMBERS = ("entries", "ldif_bytes", "seconds", "flush_seconds", "database_bytes")
_USAGE = (
    "cpu_user_s",
    "cpu_system_s",
    "peak_memory_bytes",
    "read_bytes",
    "written_bytes",
)
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
_MOST = 1e18
#: One thread sends the adds: above this share of it, it may be what is waited for.
_BUSY_SHARE = 0.7


def imports_of(facts: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The notes of all imports of these agents, as result.json has them."""
    return [
        {**note, "agent": agent}
        for agent, known in facts.items()
        for note in known.get("notes", {}).get("imports", ())
        if _is_import(note)
    ]


def _is_import(note: Mapping[str, Any]) -> bool:
    """Whether it is what it says: classes of users note what they like."""
    return (
        all(isinstance(note.get(name), str) for name in _TEXTS)
        and all(_is_number(note.get(name)) for name in _NUMBERS)
        and all(_is_number(note.get(name, 0)) for name in _USAGE)
        and isinstance(note.get("quick"), bool | None)
        and (note.get("client_cpu_s") is None or _is_number(note["client_cpu_s"]))
        and isinstance(note.get("settings"), dict)
    )


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value < _MOST


def _of_run(summary: Summary) -> list[dict[str, Any]]:
    return imports_of({agent.name: agent.facts for agent in summary.agents})


def of_stream(summary: Summary, stream: str) -> list[dict[str, Any]]:
    """The imports of one stream, of all agents."""
    return [one for one in _of_run(summary) if one["stream"] == stream]


def glance(summary: Summary, stream: str) -> tuple[tuple[str, str], ...]:
    """A stream's imports in a few figures; nothing where it has none."""
    found = of_stream(summary, stream)
    if not found:
        return ()
    seconds = median(one["seconds"] for one in found)
    return (
        ("imports", count(len(found))),
        ("entries", count(int(found[0]["entries"]))),
        ("time" if len(found) == 1 else "median", f"{decimal(seconds, 3)} s"),
        ("entries", f"{decimal(found[0]['entries'] / max(seconds, 1e-9), 0)}/s"),
    )


def compared(summaries: Sequence[Summary]) -> list[Table]:
    """The imports of several runs beside each other; nothing where there are none."""
    rows = []
    for summary in summaries:
        for stream in dict.fromkeys(one.stream for one in summary.operations):
            found = of_stream(summary, stream)
            if not found:
                continue
            seconds = [one["seconds"] for one in found]
            middle = median(seconds)
            flushed = median(one["seconds"] + one["flush_seconds"] for one in found)
            peaks = [one.get("peak_memory_bytes") or 0 for one in found]
            rows.append(
                (
                    Cell(stream),
                    Cell(summary.run.run_id),
                    Cell(found[0]["method"]),
                    Cell(count(len(found))),
                    Cell(decimal(middle, 3)),
                    Cell(f"{decimal(min(seconds), 3)} – {decimal(max(seconds), 3)}"),
                    Cell(decimal(found[0]["entries"] / max(middle, 1e-9))),
                    Cell(decimal(flushed, 3)),
                    Cell(_mib(max(peaks) or None)),
                )
            )
    if not rows:
        return []
    columns = (
        Column("Stream"),
        Column("Run"),
        Column("by"),
        Column("imports", "", True),
        Column("median", "s", True),
        Column("range", "s", True),
        Column("entries", "/s", True),
        Column("until on disk", "s", True),
        Column("peak memory", "MiB", True),
    )
    return [Table("imports", "Imports", columns, tuple(rows))]


def made_by(summary: Summary) -> dict[str, Any]:
    """Stream -> what its imports were made by and in, of the last one."""
    return {
        one["stream"]: {name: one[name] for name in _MADE_BY if name in one}
        for one in _of_run(summary)
    }


def imports(summary: Summary) -> tuple[Block, ...]:
    """A table of all imports and what they took; nothing where there were none."""
    found = _of_run(summary)
    if not found:
        return ()
    return (_times(found), _costs(found))


def _times(found: Sequence[Mapping[str, Any]]) -> Table:
    return Table(
        "imports",
        "Imports, in the order of each agent",
        (
            Column("No."),
            Column("Stream"),
            Column("Agent"),
            Column("Server"),
            Column("by"),
            Column("entries", "", True),
            Column("time", "s", True),
            Column("entries", "/s", True),
            Column("until on disk", "s", True),
            Column("in"),
        ),
        tuple(
            (
                Cell(str(number)),
                Cell(one["stream"]),
                Cell(one["agent"]),
                Cell(f"{one['server']}, {one['backend']}"),
                Cell(one["method"] + (" -q" if one.get("quick") else "")),
                Cell(count(int(one["entries"]))),
                Cell(decimal(one["seconds"], 3)),
                Cell(decimal(one["entries"] / max(one["seconds"], 1e-9))),
                Cell(decimal(one["seconds"] + one["flush_seconds"], 3)),
                Cell(f"{one['place']} ({one['file_system'] or NOTHING})"),
            )
            for number, one in enumerate(found, 1)
        ),
        (
            "Time: of the program, of the task (in steps of 50 ms), or from the first "
            "connection to the last response. Until on disk: that time, and what it "
            "took then to have all files of the server written (fsync).",
            *_busy_clients(found),
        ),
    )


def _busy_clients(found: Sequence[Mapping[str, Any]]) -> list[str]:
    notes = []
    for number, one in enumerate(found, 1):
        share = (one.get("client_cpu_s") or 0.0) / max(one["seconds"], 1e-9)
        if share > _BUSY_SHARE:
            notes.append(
                f"No. {number}: the client that sent the adds was busy {share:.0%} of "
                "the time; it may be what limited them."
            )
    return notes


def _costs(found: Sequence[Mapping[str, Any]]) -> Table:
    return Table(
        "import-costs",
        "What the imports took: of the program, or of the server meanwhile",
        (
            Column("No."),
            Column("CPU user", "s", True),
            Column("CPU system", "s", True),
            Column("peak memory", "MiB", True),
            Column("read", "MiB", True),
            Column("written", "MiB", True),
            Column("LDIF", "MiB", True),
            Column("server's files", "MiB", True),
            Column("Settings"),
        ),
        tuple(
            (
                Cell(str(number)),
                *(Cell(decimal(one.get(name), 3)) for name in _USAGE[:2]),
                *(Cell(_mib(one.get(name))) for name in _USAGE[2:]),
                Cell(_mib(one["ldif_bytes"])),
                Cell(_mib(one["database_bytes"])),
                Cell(_settings(one["settings"])),
            )
            for number, one in enumerate(found, 1)
        ),
        ("Read and written: from and to disks, as the kernel counts it.",),
    )


def _mib(size: float | None) -> str:
    return decimal(None if size is None else size / _MIB)


def _settings(settings: Mapping[str, Any]) -> str:
    return "; ".join(
        f"{name} {one}"
        for name, given in settings.items()
        for one in (given if isinstance(given, list) else [given])
    )
