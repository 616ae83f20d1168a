# SPDX-License-Identifier: Apache-2.0
"""Settings of real servers that studies change: always put back as they were."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess

import ldap
import pytest

from support.command_line import Running, ldapslam
from support.lab import Lab
from support.labs import ds389_trio_is_long
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
