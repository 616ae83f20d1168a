# SPDX-License-Identifier: Apache-2.0
"""Runs against a supplier and two replicas: books that balance, replication verified
after the load and probed during it; and a replica that is broken makes the run FAIL."""

from __future__ import annotations

from pathlib import Path

import ldap
import pytest

from ldapslam.base.errors import ExitCode
from ldapslam.directory.counts import KINDS
from support.busy_host import VALIDITY
from support.command_line import ldapslam
from support.figures import requests_in, value_in
from support.lab import Lab
from support.labs import ds389_trio_is_long
from support.replication import mend_entry, silent, supplier_of
from support.submitting import SubmittingFleet

PEOPLE = "ou=people,dc=example,dc=com"
JOB = (
    VALIDITY
    + f"""\
name: verified
targets:
  supplier: "{{supplier}}"
  replica: {{replicas}}
bind: {{{{dn: "{{dn}}", password: {{{{file: "{{password_file}}"}}}}}}}}
run: {{{{duration: 2s, interval: 500ms}}}}
monitors: [{{{{directory: supplier}}}}, {{{{directory: replica}}}}]
verify: {{{{replication: {{{{within: 20s}}}}}}}}
streams:
  - name: readers
    target: replica
    load: {{{{clients: 2, think_time: 5ms}}}}
    operations:
      - search: {{{{base: "{PEOPLE}", filter: "(uid=user.[0-999])"}}}}
  - name: writers
    target: supplier
    load: {{{{rate: 60/s, connections: 2}}}}
    operations:
      - modify:
          dn: "uid=user.[0-499],{PEOPLE}"
          replace: {{{{description: "[random:20]"}}}}
      - add:
          dn: "uid=verified.[unique],{PEOPLE}"
          entry: {{{{objectClass: [person, uidObject], cn: c, sn: c}}}}
      - delete: {{{{of: add}}}}
"""
)
PROBE = """\
  - name: probe
    target: supplier
    type: replication_probe
    options: {replicas: replica, dn: "cn=probe,dc=example,dc=com"}
"""


def job_file(lab: Lab, folder: Path, more: str = "") -> Path:
    job = folder / "verified.yaml"
    job.write_text(lab.job(JOB) + more)
    return job


@ds389_trio_is_long
def others_of(line: dict[str, float | None]) -> float:
    """The requests that a server counted and the run did not send."""
    sent, counted = line["sent"], line["counted"]
    assert sent is not None
    assert counted is not None
    return counted - sent


def test_the_books_balance_and_what_was_written_is_on_every_replica(
    trio: Lab, submitting_fleet: SubmittingFleet, tmp_path: Path
) -> None:
    trio.wait_in_sync(60)
    job = job_file(trio, tmp_path, more=PROBE)
    code, result = submitting_fleet.submit(job)
    assert (code, result["verdict"]) == (ExitCode.PASS, "PASS"), result["reasons"]

    books, replicas = requests_in(result), [one.uri for one in trio.replicas]
    assert books.keys() == {"replica", trio.supplier.uri, *replicas}
    for account, book in books.items():
        for kind, line in book.items():
            assert kind in KINDS
            is_replica = trio.kind == "389ds" and account != trio.supplier.uri
            if line["counted"] is None:
                assert trio.kind == "389ds"
                assert kind in ("abandon", "extended", "unbind")
            elif is_replica and kind == "bind":
                assert others_of(line) >= 0  # the supplier's
            elif is_replica and kind == "search":
                # with each of its binds it asks what the replica can
                assert 0 <= others_of(line) <= 2 * others_of(book["bind"])
            else:
                assert others_of(line) == 0, (account, kind, line)
    assert (books["replica"]["search"]["sent"] or 0) > 100
    assert (books[trio.supplier.uri]["add"]["counted"] or 0) > 10

    replication = result["replication"]
    assert replication["converged"]
    assert replication["servers"][0] == trio.supplier.uri
    entries = replication["content"]["entries"]
    assert len(entries) == 3
    assert len(set(entries.values())) == 1
    assert replication["content"]["differences"] == []

    probe = result["streams"]["probe"]
    assert probe.keys() == {"write", "propagation-replica-1", "propagation-replica-2"}
    for name, operation in probe.items():
        assert operation["succeeded"] == operation["sent"] > 5, name
        median_us = value_in(result, f"probe.{name}.response_time.p50")
        assert median_us is None or median_us > 0
    methods = {"slapd": "content_synchronization", "389ds": "persistent_search"}
    assert [(one["server"], one["method"]) for one in result["probes"]] == [
        (one.uri, methods[trio.kind]) for one in trio.replicas
    ]

    # the manifest has the servers as they are
    facts = result["manifest"]["observations"][trio.supplier.uri]["facts"]
    assert facts["version"]
    assert facts["databases"]


def test_entries_that_differ_make_the_run_fail_and_are_named(
    slapd_trio: Lab, submitting_fleet: SubmittingFleet, tmp_path: Path
) -> None:
    """Of people whom the run leaves alone."""
    replica = slapd_trio.replicas[1]
    lost, changed = f"uid=user.900,{PEOPLE}", f"uid=user.901,{PEOPLE}"
    slapd_trio.wait_in_sync(60)
    slapd_trio.break_entry(replica, lost)
    slapd_trio.break_entry(replica, changed, "mail")
    slapd_trio.wait_in_sync(60)
    try:
        code, result = submitting_fleet.submit(job_file(slapd_trio, tmp_path))
    finally:
        mend_entry(slapd_trio, lost)
        mend_entry(slapd_trio, changed)
        slapd_trio.wait_in_sync(60)
    assert (code, result["verdict"]) == (ExitCode.FAIL, "FAIL"), result["reasons"]
    (reason,) = result["reasons"]
    assert f"2 entries differ from {slapd_trio.supplier.uri} after the load" in reason
    assert f"{replica.uri} lacks '{lost}', has another mail in '{changed}'" in reason


def test_a_replica_that_gets_nothing_makes_the_run_fail(
    slapd_trio: Lab, submitting_fleet: SubmittingFleet, tmp_path: Path
) -> None:
    paused = slapd_trio.replicas[0]
    slapd_trio.wait_in_sync(60)
    slapd_trio.pause_replication(paused)
    try:
        job = job_file(slapd_trio, tmp_path)
        code, result = submitting_fleet.submit(job, "verify.replication.within=1s")
    finally:
        slapd_trio.resume_replication(paused)
        slapd_trio.wait_in_sync(60)
    assert (code, result["verdict"]) == (ExitCode.FAIL, "FAIL"), result["reasons"]
    assert not result["replication"]["converged"]
    assert any(paused.uri in reason for reason in result["reasons"])


def test_a_probe_says_before_the_load_that_a_replica_tells_nothing(
    slapd_trio: Lab, tmp_path: Path
) -> None:
    job = job_file(slapd_trio, tmp_path, more=PROBE)
    with silent(slapd_trio, slapd_trio.replicas[0]):
        ended = ldapslam("run", job, cwd=tmp_path)
    assert ended.returncode == ExitCode.TARGET, ended.stderr
    assert f"{slapd_trio.replicas[0].uri} does not tell of changes" in ended.stderr
    assert "set `poll`" in ended.stderr
    # and leaves nothing behind
    with supplier_of(slapd_trio) as connection:
        with pytest.raises(ldap.NO_SUCH_OBJECT):
            connection.search_s("cn=probe,dc=example,dc=com", ldap.SCOPE_BASE)
