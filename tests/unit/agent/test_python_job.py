# SPDX-License-Identifier: Apache-2.0
"""What a block of a Python class is recorded as."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import ldap
import pytest

from ldapslam.agent.python_jobs.fork_client import ForkedSearch
from ldapslam.agent.python_jobs.job import (
    LOST,
    MAX_NOTES,
    REQUEST_KINDS,
    TIME_OUT,
    ClassFault,
    RunStopped,
)
from support.python_client import client_of
from support.shared_recorder import closed, new_recorder


@pytest.mark.parametrize(
    ("code", "counter", "is_lost"),
    [
        (0, "succeeded", False),
        (6, "succeeded", False),
        # what the class has caught it has dealt with
        (49, "succeeded", False),
        (TIME_OUT, "timed_out", True),
        (LOST, "unresolved", True),
    ],
)
def test_a_class_that_catches_what_happened_cannot_make_an_answer_of_silence(
    code: int, counter: str, is_lost: bool
) -> None:
    recorder = new_recorder()
    client = client_of(recorder)
    with client.operation("find"), contextlib.suppress(ldap.LDAPError):
        client._call_begins("search")
        client._call_ends(code)
        if code not in (0, 6):
            raise ldap.LDAPError({"result": code})
    counts = closed(recorder).counts()
    assert counts[counter] == counts["sent"] == 1
    assert client._is_lost is is_lost


@pytest.mark.parametrize(
    ("messages", "empty"),
    [([], 1), ([(None, ["ldap://ds2"])], 1), ([("cn=a", {})], 0)],
    ids=["nothing", "reference", "entry"],
)
def test_a_search_that_finds_no_entry_is_empty(
    messages: list[tuple[str | None, object]], empty: int
) -> None:
    recorder = new_recorder()
    client = client_of(recorder)
    with client.operation("find"):
        client._received(ldap.RES_SEARCH_RESULT, messages)
    with client.operation("search") as operation:
        operation.add(entries=sum(dn is not None for dn, _ in messages))
    interval = closed(recorder)
    assert interval.row(0)["empty"] == interval.row(1)["empty"] == empty


def test_the_end_of_a_search_that_came_entry_by_entry_is_not_empty() -> None:
    recorder = new_recorder()
    client = client_of(recorder)
    with client.operation("find"):
        client._received(ldap.RES_SEARCH_ENTRY, [("cn=a", {})])
        client._received(ldap.RES_SEARCH_RESULT, [])
    with client.operation("search") as operation:
        operation.add(requests=["search"])
    interval = closed(recorder)
    assert interval.counts(0)["entries"] == 1
    assert interval.row(0)["empty"] == interval.row(1)["empty"] == 0


def test_the_codes_that_a_class_expected_are_kept() -> None:
    client = client_of(new_recorder())
    for code, expect in ((32, [32]), (32, [32]), (49, [32]), (0, [0]), (6, [6])):
        with client.operation("search", expect=expect) as operation:
            operation.result_code = code
    assert client._expected == {(1, 32)}


@pytest.mark.parametrize(
    ("status", "counter"),
    [(0, "connects"), (32, "connects"), (255, "connect_failures")],
)
def test_each_programs_connection_is_counted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, status: int, counter: str
) -> None:
    program = tmp_path / "ldapsearch"
    program.write_text(f"#!/bin/sh\nexit {status}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    recorder = new_recorder()
    client = client_of(recorder)
    client._stopping.set()
    job = ForkedSearch({"base": "dc=example"})
    job.set_up(client)
    with contextlib.suppress(RunStopped):
        job.run(client)
    stream = closed(recorder).stream
    counted = {name: stream[name] for name in ("connects", "connect_failures")}
    assert counted == {"connects": 0, "connect_failures": 0, counter: 1}


def test_what_a_job_says_is_no_option_of_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[list[str]] = []
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    options = {"base": "-n", "filter": "-f/etc/passwd", "attributes": ["-T/tmp"]}
    job = ForkedSearch(options)
    monkeypatch.setattr(
        job, "_search", lambda client, operation, command: sent.append(command)
    )
    client = client_of(new_recorder())
    job.set_up(client)
    job.run(client)
    assert sent[0][-5:] == ["-b", "-n", "--", "-f/etc/passwd", "-T/tmp"]


def test_notes_are_kept_as_json_has_them() -> None:
    notes: list[tuple[str, object]] = []
    client = client_of(new_recorder(), notes)
    for number in range(MAX_NOTES + 5):
        client.note("steps", {"number": number, "places": ("a", "b")})
    assert len(notes) == MAX_NOTES
    assert notes[1] == ("steps", {"number": 1, "places": ["a", "b"]})


@pytest.mark.parametrize(
    "facts",
    [
        {"x": "y" * 5_000},
        {"x": [[[[[1]]]]]},
        {"x": float("nan")},
        {"x": "\ud800"},
        {"x": object()},
    ],
    ids=["long", "deep", "nan", "surrogate", "object"],
)
def test_what_is_no_note_is_the_class_s_fault(facts: dict[str, object]) -> None:
    client = client_of(new_recorder())
    with pytest.raises(ClassFault, match="a note"):
        client.note("steps", facts)


def test_requests_are_counted_by_kind_and_server() -> None:
    client = client_of(new_recorder())
    client.count_request("search")
    client.count_request("search", "ldap://ds1")
    assert client._counters[2 + REQUEST_KINDS.index("search")] == sum(client._counters)
    assert sum(client._counters) == 2
    for kind, uri in (("find", None), ("search", "ldap://ds2")):
        with pytest.raises(ClassFault, match="there is no request"):
            client.count_request(kind, uri)
