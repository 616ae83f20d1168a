# SPDX-License-Identifier: Apache-2.0
"""A fleet over mutual TLS as its users set it up, on an address that others can reach.

All parts are `ldapslam` processes. This host needs an address that is not loopback.
"""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from ldapslam.results.digest import sha256_of
from support.command_line import Running, check_ldapslam, ldapslam
from support.fleet import job_text
from support.lab import Lab
from support.network import free_port
from support.waiting import wait_until


def own_address() -> str:
    """An address of this host that is not loopback; skips where there is none."""
    for addresses in psutil.net_if_addrs().values():
        for one in addresses:
            if one.family is socket.AF_INET:
                found = ipaddress.ip_address(one.address)
                if not found.is_loopback and not found.is_link_local:
                    return one.address
    pytest.skip("this host has no address but loopback")


class SecureFleet:
    """An authority, a coordinator with enrolment, and who connects to it."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        self.host = own_address()
        self.address = f"{self.host}:{free_port(self.host)}"
        self.enrolment = f"{self.host}:{free_port(self.host)}"
        self.pki("init")
        names = ("--name", "coordinator", "--host", self.host)
        self.pki("issue", "--role", "coordinator", *names)
        for role, name in (
            ("agent", "issued"),
            ("operator", "olga"),
            ("viewer", "victor"),
        ):
            self.pki("issue", "--role", role, "--name", name)

    def pki(self, *arguments: str) -> str:
        """What `ldapslam fleet pki` prints."""
        ended = check_ldapslam(
            "fleet",
            "pki",
            *arguments,
            cwd=self.folder,
            variables={"LDAPSLAM_PKI": "pki"},
        )
        return ended.stdout.strip()

    def start_coordinator(self, name: str = "coordinator") -> Running:
        running = self._start(
            name,
            *("coordinator", "--listen", self.address, "--pki", "pki"),
            *("--store", "results.sqlite", "--enrol-listen", self.enrolment),
        )
        running.wait_for_text("coordinator on ")
        return running

    def start_agent(self, name: str, *arguments: str | Path) -> Running:
        return self._start(
            name,
            *("agent", "--coordinator", self.address, "--no-realtime"),
            *("--spool", self.folder / f"spool-{name}", *arguments),
        )

    def _start(self, name: str, *arguments: str | Path) -> Running:
        running = Running(
            *arguments,
            cwd=self.folder,
            name=name,
            variables={"XDG_CONFIG_HOME": str(self.folder / "config")},
        )
        return self._stack.enter_context(running)

    def call(self, who: str, *arguments: str | Path) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of a command of somebody with a certificate."""
        variables = {
            "LDAPSLAM_COORDINATOR": self.address,
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "LDAPSLAM_TLS": str(self.folder / "pki" / "issued" / who),
        }
        ended = ldapslam(*arguments, cwd=self.folder, variables=variables)
        return ended.returncode, ended.stdout, ended.stderr

    def agents(self) -> dict[str, str]:
        """Name -> state, as the operator sees it."""
        code, out, err = self.call("olga", "fleet", "agents", "--json")
        assert code == 0, err
        return {agent["name"]: agent["state"] for agent in json.loads(out)}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureFleet]:
    """With one agent that was issued its certificate, and one that joined."""
    with ExitStack() as stack:
        made = SecureFleet(tmp_path_factory.mktemp("secure"), stack)
        made.start_coordinator()
        made.start_agent("issued", "--tls", made.folder / "pki/issued/issued")
        token = made.folder / "joined.join"
        text = made.pki("token", "--name", "joined", "--enrol", made.enrolment)
        token.write_text(text)
        made.start_agent("joined", "--join", token)
        wait_until(
            lambda: made.agents() == {"issued": "idle", "joined": "idle"},
            "the agents' registration",
        )
        yield made


def test_a_job_runs_over_mutual_tls(fleet: SecureFleet, lab: Lab) -> None:
    job = fleet.folder / "job.yaml"
    agents = {"names": ["joined", "issued"]}
    job.write_text(job_text(lab.supplier.uri, agents=agents))
    code, out, err = fleet.call("olga", "submit", job, "--wait", "--json")
    # the wire is tested, not whether this machine is fit to measure
    assert code in (0, 3), err
    result = json.loads(out)
    assert set(result["manifest"]["agents"]) == {"issued", "joined"}
    assert result["totals"]["readers.search"]["succeeded"] > 0
    code, out, _ = fleet.call("victor", "show", "latest", "--json")
    assert code == 0
    run = json.loads(out)
    assert (run["submitted_by"], run["state"]) == ("olga", "finished")


def test_a_run_is_signed_by_its_coordinator(fleet: SecureFleet) -> None:
    """The test before this one made it."""
    code, out, err = fleet.call("victor", "results", "verify", "latest")
    assert code == 0, err
    assert "signed   by coordinator coordinator" in out
    options = ("--out", "signed", "--format", "json,text")
    code, _, err = fleet.call("victor", "report", "latest", *options)
    assert code == 0, err
    text = " ".join((fleet.folder / "signed" / "report.txt").read_text().split())
    assert "signed by coordinator" in text

    def verified(*options: str | Path) -> tuple[int, str, str]:
        """Offline, and without a certificate of one's own."""
        ended = ldapslam("results", "verify", "signed", *options, cwd=fleet.folder)
        return ended.returncode, ended.stdout, ended.stderr

    authority = fleet.folder / "pki" / "ca.pem"
    code, out, err = verified("--ca", authority)
    assert (code, "signed   by coordinator coordinator" in out) == (0, True), err
    code, out, _ = verified()
    assert (code, "give --ca to know" in out) == (0, True)
    fleet.pki("init", "--pki", "other")
    code, _, err = verified("--ca", fleet.folder / "other" / "ca.pem")
    assert (code, "is of another authority" in err) == (3, True), err
    path = fleet.folder / "signed" / "result.json"
    result = json.loads(path.read_text())
    result["digest"]["document"]["reasons"] = ["none"]
    result["digest"]["sha256"] = sha256_of(result["digest"]["document"])
    path.write_text(json.dumps(result))
    code, _, err = verified("--ca", authority)
    assert (code, "not one of this content" in err) == (3, True), err


def test_an_agent_that_joined_needs_no_token_any_more(fleet: SecureFleet) -> None:
    spool = fleet.folder / "spool-again"
    token = fleet.folder / "again.join"
    token.write_text(fleet.pki("token", "--name", "again", "--enrol", fleet.enrolment))
    agent = fleet.start_agent("again", "--join", token)
    wait_until(lambda: fleet.agents().get("again") == "idle", "joining")
    agent.process.terminate()
    assert agent.wait() == 0
    identity = spool.with_name("spool-again.tls")
    assert {path.stat().st_mode & 0o777 for path in identity.iterdir()} == {0o600}
    token.unlink()
    agent = fleet.start_agent("again", "--name", "again")
    wait_until(lambda: fleet.agents().get("again") == "idle", "coming back")
    os.kill(agent.process.pid, signal.SIGTERM)
    assert agent.wait() == 0


def test_who_is_revoked_is_out_within_seconds(fleet: SecureFleet) -> None:
    issued = fleet.pki("issue", "--role", "agent", "--name", "gone")
    mine = fleet.folder / "gone"  # on its own host
    shutil.copytree(fleet.folder / issued, mine)
    agent = fleet.start_agent("gone", "--tls", mine)
    wait_until(lambda: fleet.agents().get("gone") == "idle", "registration")
    fleet.pki("revoke", "gone")
    agent.wait_for_text("the certificate of agent 'gone' was revoked")
    wait_until(lambda: fleet.agents()["gone"] == "lost", "its loss")
    assert agent.wait() == 5
    assert fleet.agents()["issued"] == "idle"
    code, out, _ = fleet.call("victor", "fleet", "audit", "--json")
    assert code == 0
    actions = {(entry["action"], entry["who"]) for entry in json.loads(out)}
    assert {("enrol", "joined"), ("refuse", "gone")} <= actions
