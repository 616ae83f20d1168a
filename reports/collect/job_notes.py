# SPDX-License-Identifier: Apache-2.0
"""What built-in job types noted of a run, out of the agents' facts. Pure.

Bulk imports (lab/bulk_load/job.py) and replication probes (agent/replication/probe.py).
A note is taken for what it is only if it has all its fields: job types of users note
what they like.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TypeVar

from pydantic import ConfigDict, ValidationError

from ldapslam.results.facts import AgentFacts, Amount, Count, Facts, Said

N = TypeVar("N", bound="Note")


class Note(Facts):
    """A note of a built-in job type; what else a user's note has is left out."""

    model_config = ConfigDict(extra="ignore")

    stream: str


class Import(Note):
    """As lab/bulk_load/job.py notes it."""

    agent: str
    server: str
    backend: str
    method: str
    quick: bool | None = None
    settings: Said
    entries: Count
    ldif_bytes: Count
    seconds: Amount
    flush_seconds: Amount
    database_bytes: Count
    place: str
    file_system: str
    cpu_user_s: Amount | None = None
    cpu_system_s: Amount | None = None
    peak_memory_bytes: Count | None = None
    read_bytes: Count | None = None
    written_bytes: Count | None = None
    client_cpu_s: Amount | None = None

    @property
    def entries_per_s(self) -> float:
        return self.entries / max(self.seconds, 1e-9)


class Probe(Note):
    """As agent/replication/probe.py notes it."""

    operation: str
    server: str
    method: str
    poll_s: float | None

    @property
    def is_known(self) -> bool:
        """Has it a method that this ldapslam knows, with its time?"""
        has_time = self.poll_s is not None
        return self.method in _METHODS and has_time == (self.method == _POLL)


_POLL = "poll"
_METHODS = {
    "content_synchronization": "content synchronization",
    "persistent_search": "persistent search",
    _POLL: "reading every {poll_ms:g} ms",
}


def imports_of(facts: Mapping[str, AgentFacts]) -> list[Import]:
    """The notes of all imports of these agents."""
    return list(_notes(facts, "imports", Import))


def probes_of(facts: Mapping[str, AgentFacts]) -> list[Probe]:
    """What the probes of these agents noted."""
    return [note for note in _notes(facts, "probes", Probe) if note.is_known]


def _notes(facts: Mapping[str, AgentFacts], kind: str, shape: type[N]) -> Iterator[N]:
    for agent, known in facts.items():
        for note in known.notes.get(kind, ()):
            # classes of users note what they like
            with contextlib.suppress(ValidationError):
                yield shape.parsed({**note, "agent": agent})


def method_text(method: str, poll_s: float | None) -> str:
    """By what a server told."""
    return _METHODS[method].format(poll_ms=(poll_s or 0) * 1000)
