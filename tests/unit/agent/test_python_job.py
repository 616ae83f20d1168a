# SPDX-License-Identifier: Apache-2.0
"""Records of the blocks of a Python class, and other counts of its process."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from random import Random
from types import SimpleNamespace

import ldap
import pytest

from ldapslam.agent.lease import Lease
from ldapslam.agent.python_jobs.client import ClientProcess
from ldapslam.agent.python_jobs.fork_client import ForkedSearch
from ldapslam.agent.python_jobs.job import (
    LOST,
    MAX_NOTES,
    REQUEST_KINDS,
    TIME_OUT,
    ClassFault,
    PythonJob,
    RunStopped,
)
from ldapslam.base.errors import LdapSlamError
from ldapslam.jobs.rates.profile import FOREVER_NS, hold
from support.python_client import Busy, client_of
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


# Counts of the process of a Python client that are not requests.


MS = 1_000_000
S = 1_000 * MS
T0 = 50 * S


@pytest.mark.parametrize(
    ("pause_ms", "backlog_ms", "lag_ms"),
    [
        # the second could be sent after 12 ms, and was after 32; the third: 24 and 64
        (0, [0, 2, 4], [0, 20, 40]),
        # 17 and 37; 34 and 74
        (5, [0, 7, 14], [0, 20, 40]),
    ],
)
def test_what_a_class_takes_itself_is_send_lag_of_the_next_arrivals(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pause_ms: int,
    backlog_ms: list[int],
    lag_ms: list[int],
) -> None:
    now_ns = T0

    def pass_by(duration_ns: float) -> None:
        nonlocal now_ns
        now_ns += round(duration_ns)

    # arrivals after 0, 10 and 20 ms
    profile = [hold(100 / S, FOREVER_NS)]
    recorder = new_recorder(profile=profile, max_backlog=10, total_operations=3)
    recorder.set_span(T0, T0 + 10 * S, False)
    monkeypatch.setattr(time, "monotonic_ns", lambda: now_ns)
    client = client_of(recorder)
    monkeypatch.setattr(client, "wait", lambda duration_s: pass_by(duration_s * 1e9))
    process = object.__new__(ClientProcess)
    process._recorder, process._client = recorder, client
    process._lease = Lease(tmp_path)
    process._lease.extend(1 << 62)
    process._pid, process._sessions = os.getpid(), 0
    monkeypatch.setattr(process, "_make_usable", lambda: 0)
    process._run_open(Busy({"pass_by": pass_by, "pause_s": pause_ms / 1e3}))
    found = closed(recorder).histograms()
    for name, expected in (("backlog_wait", backlog_ms), ("send_lag", lag_ms)):
        histogram = found[name, "succeeded"]
        assert histogram.total == len(expected)
        assert histogram.mean() == pytest.approx(sum(expected) * MS / len(expected))
        assert histogram.max_ns == max(expected) * MS


def test_an_outage_is_counted_as_it_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = 1_000 * MS
    counted_ms: list[float] = []
    recorder = new_recorder()
    process = object.__new__(ClientProcess)
    process._recorder = recorder

    def wait_until(due_ns: int) -> None:
        nonlocal now_ns
        counted_ms.append(closed(recorder).stream["down_ns"] / MS)
        now_ns = due_ns

    monkeypatch.setattr(time, "monotonic_ns", lambda: now_ns)
    monkeypatch.setattr(process, "_wait_until", wait_until)
    # an attempt failed after 30 ms, the next one comes 250 ms later and takes 10 ms
    until_ns = process._tally("down_ns", 970 * MS, wait_s=0.25)
    now_ns += 10 * MS
    process._tally("down_ns", until_ns, wait_s=0.0)
    counted_ms.append(closed(recorder).stream["down_ns"] / MS)
    assert counted_ms == [30, 100, 100, 60]


def test_arrivals_of_the_load_are_sent_after_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    profile = (hold(100 / 10**9, FOREVER_NS),)
    recorder = new_recorder(profile=profile, max_backlog=10, grace_ns=1_000 * MS)
    recorder.set_span(1_000 * MS, 1_035 * MS, False)
    sent_ms: list[float] = []
    process = object.__new__(ClientProcess)
    process._recorder = recorder
    monkeypatch.setattr(process, "_client", client_of(recorder), raising=False)
    monkeypatch.setattr(process, "_make_usable", lambda: 0)
    monkeypatch.setattr(process, "_session", lambda job, due: sent_ms.append(due / MS))
    monkeypatch.setattr(time, "monotonic_ns", lambda: 1_500 * MS)
    process._run_open(PythonJob({}))
    assert sent_ms == [1_000, 1_010, 1_020, 1_030]


@pytest.mark.parametrize(("failures", "wait_ms"), [(0, 0), (2, 0), (2, 100)])
@pytest.mark.parametrize("is_lost", [True, False])
def test_a_client_is_free_when_its_next_connection_is_made(
    monkeypatch: pytest.MonkeyPatch, *, is_lost: bool, failures: int, wait_ms: int
) -> None:
    now_ns = 1_000 * MS
    process = object.__new__(ClientProcess)
    client = SimpleNamespace(_connection=object(), _is_lost=is_lost, random=Random(1))
    policy = SimpleNamespace(
        reconnect_operations=1, reconnect_ns=0, reconnect_wait_ns=wait_ms * MS
    )
    waits_ms: list[float] = []

    def tally(counter: str, since_ns: int, wait_s: float) -> int:
        nonlocal now_ns
        waits_ms.append(wait_s * 1e3)
        now_ns += round(wait_s * S)
        return now_ns

    def connect() -> None:
        nonlocal now_ns, failures
        now_ns += 10 * MS
        failures -= 1
        if failures >= 0:
            raise LdapSlamError("refused")
        client._connection, process._connected_ns = object(), now_ns

    for name, value in {
        "_client": client,
        "_plan": SimpleNamespace(connection=policy),
        "_class": PythonJob,
        "_recorder": new_recorder(),
        "_sessions": 1,
        "_connected_ns": 0,
        "_connect": connect,
        "_disconnect": lambda: setattr(client, "_connection", None),
        "_tally": tally,
    }.items():
        monkeypatch.setattr(process, name, value, raising=False)
    monkeypatch.setattr(time, "monotonic_ns", lambda: now_ns)
    attempts = failures + 1
    assert process._make_usable() == now_ns >= (1_000 + attempts * 10) * MS
    failed_ms = list(filter(None, waits_ms))
    assert len(failed_ms) == attempts - 1
    for doublings, waited_ms in enumerate(failed_ms):
        least_ms, most_ms = (wait_ms / 2, wait_ms * 1.5) if wait_ms else (50, 75)
        assert least_ms <= waited_ms / 2 ** (doublings * (wait_ms > 0)) <= most_ms
