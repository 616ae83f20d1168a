# SPDX-License-Identifier: Apache-2.0
"""`lab up`, `status`, `down`: labs that stay, and nothing of those that do not."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ldap
import psutil
import pytest

from ldapslam.cli.data.lab import write_job
from ldapslam.jobs.load import load_job, load_job_text
from support.command_line import COMMAND, Running, check_ldapslam, environment, ldapslam
from support.figures import value_in
from support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("slapd_installed")

EXAMPLES = Path(__file__).parents[2] / "configs" / "jobs"
_TIMEOUT_S = 60.0
_STREAMS = """
streams:
  - name: s
    target: supplier
    load: {clients: 1}
    operations: [{search: {base: "ou=people,dc=example,dc=com"}}]
"""


class Shell:
    """Commands of one user, whose labs are this test's alone."""

    def __init__(self, folder: Path) -> None:
        self.state, self.data = folder / "state", folder / "data"
        self.data.mkdir()
        self.variables = {"XDG_STATE_HOME": str(self.state)}

    def __call__(
        self, *arguments: str, expected: int = 0, cwd: Path | None = None
    ) -> Any:
        """What the command says, as JSON."""
        done = ldapslam("lab", *arguments, "--json", variables=self.variables, cwd=cwd)
        assert done.returncode == expected, done.stderr
        return json.loads(done.stdout)

    def up(self, *arguments: str, cwd: Path | None = None) -> Any:
        """Bring one up, with little in it."""
        fixed = ("--entries", "10", "--folder", str(self.data))
        return self("up", *fixed, *arguments, cwd=cwd)

    def trace(self) -> list[Path]:
        """What is left in the folders of labs and of their names."""
        names = self.state.glob("ldapslam/labs/*/[!.]*")
        return [*self.data.iterdir(), *names]


@pytest.fixture
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    shell = Shell(tmp_path_factory.mktemp("l"))
    yield shell
    for lab in shell("status"):
        shell("down", lab["name"])


def states(shell: Shell) -> list[tuple[str, bool]]:
    [status] = shell("status")
    return [(row["state"], row["in_sync"]) for row in status["states"]]


def test_a_lab_stays_and_is_shown_as_it_is_until_it_is_taken_down(
    shell: Shell,
) -> None:
    cpu = max(os.sched_getaffinity(0))
    made = shell.up("--replicas", "1", "--setting", "threads=4", "--cpus", f"{cpu}")
    pids = [server["pid"] for server in made["servers"]]
    assert [os.sched_getaffinity(pid) for pid in pids] == [{cpu}, {cpu}]
    [status] = shell("status")
    assert {**status, "states": None, "job": made["job"]} == {**made, "states": None}
    assert states(shell) == [("running", True), ("running", True)]
    refused = shell("up", expected=2)["error"]
    assert refused["message"] == "lab 'lab' is up already"
    assert "`ldapslam lab down lab`" in refused["hint"]
    unknown = shell("down", "labs", expected=2)["error"]
    assert unknown["message"] == "there is no lab 'labs'"
    assert unknown["hint"] == "did you mean 'lab'?"

    # a replica that is behind
    supplier, replica = (ldap.initialize(one["uri"]) for one in made["servers"])
    for connection in (supplier, replica):
        password = Path(made["admin_password_file"]).read_text()
        connection.simple_bind_s(made["admin_dn"], password)
    [(_, settings)] = replica.search_s("cn=config", ldap.SCOPE_BASE)
    assert settings["olcThreads"] == [b"4"]
    [(dn, _)] = replica.search_s(
        "cn=config", ldap.SCOPE_ONELEVEL, "(olcSyncrepl=*)", ["1.1"]
    )
    replica.modify_s(dn, [(ldap.MOD_DELETE, "olcSyncrepl", None)])
    person = "uid=user.1,ou=people,dc=example,dc=com"
    supplier.modify_s(person, [(ldap.MOD_REPLACE, "description", [b"new"])])
    for connection in (supplier, replica):
        connection.unbind_s()
    assert states(shell) == [("running", True), ("running", False)]
    shown = ldapslam("lab", "status", variables=shell.variables).stdout
    assert "NOT IN SYNC" in shown

    # a server that has ended; a later process that has its pid gets no signal
    os.kill(pids[1], signal.SIGKILL)
    with subprocess.Popen(["sleep", "60"]) as later:
        (Path(made["folder"]) / "replica1.pid").write_text(f"{later.pid}\n")
        assert [state for state, _ in states(shell)] == ["running", "ended"]
        assert shell("down") == {"name": "lab", "state": "down"}
        assert later.poll() is None
        later.kill()
    assert shell.trace() == []
    wait_until(lambda: not any(map(psutil.pid_exists, pids)), "the end of the servers")
    assert shell("status") == []


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """A copy of the examples, with what they name."""
    shutil.copytree(EXAMPLES.parent, tmp_path / "configs")
    return tmp_path / "configs" / EXAMPLES.name


def test_an_example_is_tried_on_a_lab(shell: Shell, examples: Path) -> None:
    """StartTLS, binds, several replicas and the number of people are the lab's; also
    the bind that a monitor has of its own."""
    monitor = (
        'monitors: [{directory: supplier, bind: {dn: "cn=x,dc=example,dc=com", '
        "password: {env: LDAP_PASSWORD}}}]\n"
    )
    with (examples / "mixed.yaml").open("a") as example:
        example.write(monitor)
    options = ("--replicas", "2", "--name", "try")
    made = shell.up(*options, "--job", str(examples / "mixed.yaml"))
    job = load_job(path := examples / "mixed-try.yaml")
    uris = {server["name"]: server["uri"] for server in made["servers"]}
    assert job.targets == {
        "supplier": [uris["supplier"]],
        "replica": [uris["replica1"], uris["replica2"]],
    }
    run = "run={duration: 2s, ramp_up: 0s, warm_up: 0s, cool_down: 0s, interval: 1s}"
    done = ldapslam(
        *("run", path, "--agents", "1", "--set", run, "--set", "agents={count: 1}"),
        cwd=examples,
        variables=shell.variables,
    )
    [result] = examples.glob("ldapslam-runs/*/result.json")
    found = json.loads(result.read_text())
    assert found["manifest"]["job"] == "mixed-try", done.stdout + done.stderr
    lookup = found["streams"]["readers"]["lookup"]
    assert lookup["entries_returned"] == lookup["succeeded"] > 0
    assert found["streams"]["writers"]["modify"]["succeeded"] > 0
    [server] = found["monitors"]
    monitor = f"directory({server.split()[-1]})"
    assert value_in(found, f"{monitor}.failed_readings") == 0
    assert value_in(found, f"{monitor}.search_completed.increase")


@pytest.mark.parametrize("example", sorted(one.name for one in EXAMPLES.glob("*.yaml")))
def test_every_example_can_be_tried_on_a_lab(example: str, examples: Path) -> None:
    (examples / "ca.pem").write_text("a certificate\n")
    names = ("supplier", "replica1", "replica2")
    description = {
        "name": "lab",
        "tls": False,
        "entries": 10,
        "servers": [
            {"role": name.rstrip("12"), "name": name, "uri": f"ldap://{name}"}
            for name in names
        ],
        "admin_dn": "cn=admin",
        "admin_password_file": "/password",
        "ca_file": str(examples / "ca.pem"),
    }
    job = load_job(write_job(examples / example, description))
    uris = {uri for uris in job.targets.values() for uri in uris}
    assert uris <= {f"ldap://{name}" for name in names}
    binds = [job.bind, *(one.bind for one in job.streams)]
    binds += [one.bind for one in job.monitors]
    passwords = [one.password.file for one in binds if one and one.password]
    assert set(passwords) <= {"/password"}
    assert {one.dn for one in binds if one} <= {"cn=admin", None}


def test_a_state_folder_that_is_not_this_users_alone_is_refused(shell: Shell) -> None:
    assert shell("status") == []
    [folder] = (shell.state / "ldapslam" / "labs").iterdir()
    folder.chmod(0o755)
    error = shell("status", expected=2)["error"]
    assert "is not this user's alone" in error["message"]
    assert f"chmod 700 {folder}" in error["hint"]
    folder.chmod(0o700)
    shell.variables["XDG_STATE_HOME"] = "/dev/null/x"
    error = shell("up", expected=2)["error"]
    assert "/dev/null/x/ldapslam/labs" in error["message"]
    shell.variables["XDG_STATE_HOME"] = str(shell.state)


def test_a_lab_that_cannot_start_leaves_its_name_free(shell: Shell) -> None:
    error = shell("up", "--setting", "threads=many", expected=6)["error"]
    assert "ended with" in error["message"]
    assert shell.trace() == []


def test_a_lab_holds_no_descriptor_of_its_caller(shell: Shell, tmp_path: Path) -> None:
    arguments = ("lab", "up", "--ldaps", "--entries", "10", "--folder", str(shell.data))
    lock = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    # it ends with the last who holds one of its outputs
    done = subprocess.run(
        [*COMMAND, *arguments],
        env=environment(shell.variables),
        check=True,
        capture_output=True,
        text=True,
        pass_fds=(lock,),
        timeout=_TIMEOUT_S,
    )
    os.close(lock)
    with (tmp_path / "lock").open() as again:
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert "ldapslam lab down" in done.stdout + done.stderr
    # what it says is the beginning of a job
    head, _, snippet = done.stdout.partition("\n\n")
    assert "lab 'lab': slapd (mdb), 10 people" in head
    text = f"name: own\n{snippet}\nrun: {{duration: 1s}}{_STREAMS}"
    (uris,) = load_job_text(text, file="job", base=None).targets.values()
    assert [uri.partition(":")[0] for uri in uris] == ["ldaps"]
    (tmp_path / "own.yaml").write_text(text)
    checked = check_ldapslam("check", tmp_path / "own.yaml")
    assert f"{uris[0]}: ready" in checked.stdout
    [status] = shell("status")
    assert [row["state"] for row in status["states"]] == ["running"]


@pytest.mark.parametrize("has_watcher", [True, False])
def test_nothing_is_left_of_an_up_that_was_killed(
    shell: Shell, tmp_path: Path, has_watcher: bool
) -> None:
    arguments = ("lab", "up", "--entries", "100000", "--folder", shell.data)
    with Running(*arguments, cwd=tmp_path, variables=shell.variables) as running:
        pid_files = shell.data.glob
        wait_until(
            lambda: any(one.read_text() for one in pid_files("*/*slapadd.pid")),
            "slapadd",
        )
        running.process.send_signal(signal.SIGSTOP)
        [starting] = shell("status")
        assert starting["process"] == running.process.pid
        refused = shell("down", expected=2)["error"]
        assert "is being brought up" in refused["message"]
        [pid_file] = pid_files("*/*slapadd.pid")
        slapadd = psutil.Process(int(pid_file.read_text()))
        children = psutil.Process(running.process.pid).children()
        [watcher] = [child for child in children if child != slapadd]
        if not has_watcher:
            watcher.kill()
        running.process.kill()
        running.process.wait()
    if has_watcher:
        wait_until(lambda: not any(shell.data.iterdir()), "an empty folder")
        assert shell("status") == []
    else:
        assert slapadd.is_running()
        assert (
            "is incomplete"
            in ldapslam("lab", "status", variables=shell.variables).stdout
        )
        shell("down")
    assert shell.trace() == []
    wait_until(lambda: not slapadd.is_running(), "the end of slapadd")
