# SPDX-License-Identifier: Apache-2.0
"""Imports in reports: what agents noted, and nothing that is none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ldapslam.reports.collect.job_notes import imports_of
from ldapslam.reports.document import Table, section
from ldapslam.reports.rules.rules import _histogram_overflow
from ldapslam.reports.sections.bulk_imports import imports
from ldapslam.results.facts import AgentFacts

NOTE: dict[str, Any] = {
    "stream": "load",
    "server": "slapd 2.5",
    "backend": "mdb",
    "method": "slapadd",
    "quick": True,
    "settings": {"index": ["cn eq", "sn sub"], "threads": "4"},
    "entries": 1000,
    "ldif_bytes": 1 << 20,
    "seconds": 2.0,
    "flush_seconds": 0.5,
    "database_bytes": 3 << 20,
    "place": "/mnt/xfs",
    "file_system": "xfs",
    "cpu_user_s": 1.5,
    "peak_memory_bytes": 50 << 20,
}


def facts(*notes: Any) -> dict[str, AgentFacts]:
    return {"a1": AgentFacts.parsed({"notes": {"imports": notes}})}


def test_a_table_shows_rate_time_to_disk_and_settings() -> None:
    summary: Any = SimpleNamespace(facts=facts(NOTE))
    times, costs = imports(summary)
    assert isinstance(times, Table)
    assert isinstance(costs, Table)
    assert [cell.text for cell in times.rows[0]] == [
        *("1", "load", "a1", "slapd 2.5, mdb", "slapadd -q", "1\u202f000"),
        *("2.000", "500.0", "2.500", "/mnt/xfs (xfs)"),
    ]
    assert [cell.text for cell in costs.rows[0]] == [
        *("1", "1.500", "–", "50.0", "–", "–", "1.0", "3.0"),
        "index cn eq; index sn sub; threads 4",
    ]


def test_a_client_that_was_busy_is_told_of() -> None:
    busy, idle = {**NOTE, "client_cpu_s": 1.9}, {**NOTE, "client_cpu_s": 0.9}
    summary: Any = SimpleNamespace(facts=facts(idle, busy))
    times, _ = imports(summary)
    assert isinstance(times, Table)
    (_, note) = times.notes
    assert note.startswith("No. 2: the client that sent the adds was busy 95%")


def test_a_run_without_imports_has_no_section() -> None:
    summary: Any = SimpleNamespace(facts={"a1": AgentFacts()})
    assert section("imports", "Imports", *imports(summary)) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"entries": "many"},
        {"entries": 10**400},
        {"server": 5},
        {"settings": []},
        {"cpu_user_s": True},
        {"client_cpu_s": "much"},
    ],
)
def test_a_note_of_another_kind_is_left_out(changed: dict[str, Any]) -> None:
    # the note does not name the agent of an import
    notes = facts({**NOTE, **changed}, {**NOTE, "agent": 7})
    (found,) = imports_of(notes)
    assert found.document() == {**NOTE, "agent": "a1"}


@pytest.mark.parametrize(
    "operation", [("load", "import"), ("load", "login"), ("other", "import")]
)
def test_an_import_of_hours_is_no_overflow(operation: tuple[str, str]) -> None:
    totals = SimpleNamespace(overflow=1)
    collected = SimpleNamespace(operations={operation: totals})
    evidence: Any = SimpleNamespace(facts=facts(NOTE), collected=collected)
    assert _histogram_overflow(evidence).passed == (operation == ("load", "import"))
