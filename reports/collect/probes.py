# SPDX-License-Identifier: Apache-2.0
"""How the servers that a replication probe watched told it of changes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_POLL = "poll"
_METHODS = {
    "content_synchronization": "content synchronization",
    "persistent_search": "persistent search",
    _POLL: "reading every {poll_ms:g} ms",
}
_TEXTS = ("stream", "operation", "server", "method")


def probes_of(facts: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the probes of these agents noted (agent/replication/probe.py), as
    result.json has it."""
    return [
        {name: note[name] for name in (*_TEXTS, "poll_s")}
        for known in facts.values()
        for note in known.get("notes", {}).get("probes", ())
        if _is_probe(note)
    ]


def _is_probe(note: Mapping[str, Any]) -> bool:
    """Whether it is what it says: classes of users note what they like."""
    if not all(isinstance(note.get(name), str) for name in _TEXTS):
        return False
    kind = float if note["method"] == _POLL else type(None)
    return note["method"] in _METHODS and isinstance(note.get("poll_s", ""), kind)


def method_text(method: str, poll_s: float | None) -> str:
    """By what a server told."""
    return _METHODS[method].format(poll_ms=(poll_s or 0) * 1000)
