# SPDX-License-Identifier: Apache-2.0
"""What built-in job types noted of a run, out of the agents' facts. Pure.

Bulk imports (lab/bulk_load/job.py) and replication probes (agent/replication/probe.py).
A note is taken for what it is only if it has all its fields: job types of users note
what they like.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
_MOST = 1e18

_POLL = "poll"
_METHODS = {
    "content_synchronization": "content synchronization",
    "persistent_search": "persistent search",
    _POLL: "reading every {poll_ms:g} ms",
}
_PROBE_TEXTS = ("stream", "operation", "server", "method")


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


def probes_of(facts: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the probes of these agents noted (agent/replication/probe.py), as
    result.json has it."""
    return [
        {name: note[name] for name in (*_PROBE_TEXTS, "poll_s")}
        for known in facts.values()
        for note in known.get("notes", {}).get("probes", ())
        if _is_probe(note)
    ]


def _is_probe(note: Mapping[str, Any]) -> bool:
    """Whether it is what it says: classes of users note what they like."""
    if not all(isinstance(note.get(name), str) for name in _PROBE_TEXTS):
        return False
    kind = float if note["method"] == _POLL else type(None)
    return note["method"] in _METHODS and isinstance(note.get("poll_s", ""), kind)


def method_text(method: str, poll_s: float | None) -> str:
    """By what a server told."""
    return _METHODS[method].format(poll_ms=(poll_s or 0) * 1000)
