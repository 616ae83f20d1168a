# SPDX-License-Identifier: Apache-2.0
"""Settings of real servers: read, changed by studies, and put back as they were."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess

import ldap
import pytest

from ldapslam.directory.control_connection import ControlConnection
from ldapslam.directory.counts import ServerKind, detect, read_counts
from ldapslam.directory.facts import server_facts
from support.command_line import Running, ldapslam
from support.lab import Lab
from support.labs import ds389_trio_is_long
from support.replication import access_of
from support.waiting import wait_until

JOB = """
vars: {uri: null, duration: 60s}
name: lookups
targets: {directory: "${uri}"}
run: {duration: "${duration}", interval: 250ms}
streams:
  - name: readers
    target: directory
    load: {clients: 1, think_time: 5ms}
    operations:
      - search: {base: "ou=people,dc=example,dc=com", filter: "(uid=user.[0-99])"}
"""
STUDY = """
name: idle
job: job.yaml
bind: {dn: "%s", password: {file: %s}}
tls: {ca_file: %s}
axes:
  idle:
    setting: {target: directory, entry: cn=config, attribute: %s}
    values: [1111]
"""
ATTRIBUTES = {"slapd": "olcIdleTimeout", "389ds": "nsslapd-idletimeout"}


class Studies:
    """Studies that set the supplier's idle time to 1111 s, by their folders."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.attribute = ATTRIBUTES[lab.kind]
        self.cwd = folder
        (folder / "job.yaml").write_text(JOB)
        names = lab.admin_dn, lab.admin_password_file, lab.ca_file, self.attribute
        (folder / "study.yaml").write_text(STUDY % names)
        self.variables = {"XDG_STATE_HOME": str(folder / "state")}

    def _words(self, out: str, uri: str, more: Sequence[str]) -> Sequence[str]:
        return "study", "study.yaml", "--var", f"uri={uri}", "--out", out, *more

    def run(
        self, out: str, *more: str, uri: str | None = None
    ) -> CompletedProcess[str]:
        words = self._words(out, uri or self.lab.supplier.uri, more)
        return ldapslam(*words, cwd=self.cwd, variables=self.variables)

    def running(self, out: str) -> Running:
        words = self._words(out, self.lab.supplier.uri, ())
        return Running(*words, cwd=self.cwd, variables=self.variables)

    def wait_for_load(self, out: str) -> None:
        log = self.cwd / out / "runs" / "001-1-1.log"
        wait_until(lambda: log.exists() and "is running" in log.read_text(), "load")

    def idle_s(self) -> list[bytes]:
        found = self.lab.search(
            self.lab.supplier, "cn=config", ldap.SCOPE_BASE, [self.attribute]
        )
        [attributes] = found.values()
        return list(attributes.get(self.attribute, []))

    def assert_refused(self, done: CompletedProcess[str], by: str) -> None:
        """A study, by that of another folder."""
        assert done.returncode == 2, done.stderr
        said = f"the study in {self.cwd / by} has changed {self.attribute} of"
        assert said in done.stderr
        remedy = f"ldapslam study {self.cwd / 'study.yaml'} --out {self.cwd / by}"
        assert f"{remedy} --restore" in done.stderr
        assert self.idle_s() == [b"1111"]


@pytest.fixture
def studies(trio: Lab, tmp_path: Path) -> Studies:
    return Studies(trio, tmp_path)


@ds389_trio_is_long
def test_a_study_puts_back_what_it_and_no_other_one_has_changed(
    studies: Studies,
) -> None:
    before = studies.idle_s()
    with studies.running("first") as study:
        studies.wait_for_load("first")
        studies.assert_refused(studies.run("second"), by="first")
        # others change other servers
        replica = studies.lab.replicas[0].uri
        short = "--var", "duration=1s"
        free = studies.run("third", *short, uri=replica)
        assert free.returncode != 2, free.stderr
        os.kill(study.process.pid, signal.SIGINT)
        assert study.process.wait(60) == 130
    assert studies.idle_s() == before
    with studies.running("killed") as study:
        studies.wait_for_load("killed")
        study.process.kill()
        study.process.wait(60)
    # the server by another address
    other = studies.run("fourth", uri=studies.lab.supplier.ldaps_uri)
    studies.assert_refused(other, by="killed")
    nothing = studies.run("second", "--restore")
    assert "nothing to put back" in nothing.stderr
    assert studies.idle_s() == [b"1111"]
    done = studies.run("killed", "--restore")
    assert studies.attribute in done.stderr
    assert done.returncode == 0
    assert studies.idle_s() == before
    assert "nothing to put back" in studies.run("killed", "--restore").stderr


# The settings of servers, and who may read their counters.


def test_a_user_without_rights_reads_no_counters(slapd_trio: Lab) -> None:
    uri = slapd_trio.supplier.uri
    with ControlConnection(uri, ldap.initialize(uri), Counter()) as anonymous:
        kind = detect(anonymous)
        operations = read_counts(anonymous, kind).operations
    assert kind is ServerKind.SLAPD
    assert set(operations.values()) == {None}


def test_settings_are_read_and_no_secret_is_among_them(trio: Lab) -> None:
    control: Counter[str] = Counter()
    access = access_of(trio)
    for server in trio.servers:
        with ControlConnection.open(server.uri, access, control) as connection:
            kind = detect(connection)
            facts = server_facts(connection, kind)
        text = json.dumps(facts)
        assert access.bind.secret
        assert access.bind.secret.decode() not in text
        assert facts["kind"] == str(kind)
        assert facts["version"]
        assert facts["vendor"]
        assert facts["unreadable"] == []
        (database,) = facts["databases"]
        assert facts["backends"]
        # the lab's servers need not wait for the disk, and say so
        assert facts["durability"]
        if kind is ServerKind.SLAPD:
            assert database["olcSuffix"] == "dc=example,dc=com"
            assert "uid" in json.dumps(database["olcDbIndex"])
            assert facts["version"].startswith("OpenLDAP: slapd")
        else:
            assert database["nsslapd-suffix"] == "dc=example,dc=com"
            assert any(one.startswith("uid ") for one in database["indexes"])
            assert facts["settings"]["nsslapd-threadnumber"]
