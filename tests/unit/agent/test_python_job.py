# SPDX-License-Identifier: Apache-2.0
"""What a block of a Python class is recorded as."""

from __future__ import annotations

import contextlib

import ldap
import pytest

from ldapslam.agent.python_jobs.fork_client import ForkedSearch
from ldapslam.agent.python_jobs.job import LOST, MAX_NOTES, TIME_OUT, ClassFault, Client
from ldapslam.agent.python_jobs.recorder import Recorder
from ldapslam.directory.access import LdapAccess

NOBODY = LdapAccess(
    start_tls=False,
    ca_file=None,
    cert_file=None,
    key_file=None,
    verify=True,
    bind_dn=None,
    bind_password=None,
    mechanism=None,
    authcid=None,
    authzid=None,
    connect_timeout_ns=10**9,
)


class NoHistogram:
    def record_ns(self, value_ns: int) -> None:
        pass

    def pack(self) -> bytes:
        return b""


def client_of(recorder: Recorder) -> Client:
    client = Client(
        number=0,
        total=1,
        uri="ldap://ds1",
        uris=("ldap://ds1",),
        access=NOBODY,
        request_timeout_s=1.0,
        seed="1",
        operations={"find": 0, "search": 1},
        recorder=recorder,
        is_measured=lambda intended_ns: True,
    )
    client._in_session = True
    return client


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
    recorder = Recorder(NoHistogram, is_open=False)
    client = client_of(recorder)
    with client.operation("find"), contextlib.suppress(ldap.LDAPError):
        client._call_begins("search")
        client._call_ends(code)
        if code not in (0, 6):
            raise ldap.LDAPError({"result": code})
    counts = recorder.close_interval().operations[0, True].counts
    assert counts[counter] == counts["sent"] == 1
    assert client._is_lost is is_lost


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
    client = client_of(Recorder(NoHistogram, is_open=False))
    job.set_up(client)
    job.run(client)
    assert sent[0][-5:] == ["-b", "-n", "--", "-f/etc/passwd", "-T/tmp"]


def test_notes_are_kept_as_json_has_them() -> None:
    client = client_of(Recorder(NoHistogram, is_open=False))
    for number in range(MAX_NOTES + 5):
        client.note("steps", {"number": number, "places": ("a", "b")})
    assert len(client._notes) == MAX_NOTES
    assert client._notes[1] == ("steps", {"number": 1, "places": ["a", "b"]})


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
    client = client_of(Recorder(NoHistogram, is_open=False))
    with pytest.raises(ClassFault, match="a note"):
        client.note("steps", facts)
