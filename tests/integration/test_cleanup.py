# SPDX-License-Identifier: Apache-2.0
"""What a run added is gone after it, on a real slapd, however the run ended."""

from __future__ import annotations

import json
import re
import shlex
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from support.command_line import TIMEOUT_S, Running, check_ldapslam, ldapslam
from support.lab import Lab
from support.processes import processes_below
from support.tree import Tree, tree

pytestmark = pytest.mark.usefixtures("tree_before")

JOB = """\
name: adds
targets: {{directory: "{uri}"}}
bind: {{dn: "{dn}", password: {{file: "{password_file}"}}}}
run: {{duration: {duration}, interval: 500ms}}
streams:
  - name: writers
    target: directory
    load: {{clients: 4}}
    operations:
      - weight: 4
        let: {{n: "[unique]"}}
        add:
          dn: "cn=added.[n],ou=people,dc=example,dc=com"
          entry: {{objectClass: [person], sn: added}}
      - {{weight: 1, delete: {{of: add, order: random}}}}
"""


def write_job(folder: Path, lab: Lab, duration: str) -> Path:
    path = folder / "job.yaml"
    path.write_text(lab.job(JOB, duration=duration))
    return path


def clean_up_facts(result: dict[str, Any]) -> dict[str, Any]:
    (agent,) = result["manifest"]["agents"].values()
    facts: dict[str, Any] = agent["clean_up"]
    return facts


def child_of(running: Running, title: str) -> psutil.Process:
    """Its agent or the engine's process of that."""
    [child] = processes_below(running.process.pid, title)
    return child


def wait_for_ledger(folder: Path, size: int = 1) -> Path:
    """A ledger with more than its header, of any agent below the folder."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s:
        for path in folder.glob("**/*.ledger"):
            if path.stat().st_size and path.read_bytes().count(b"cn=added") > size:
                return path
        time.sleep(0.05)
    raise AssertionError("no ledger was written")


def test_a_run_removes_what_it_added(lab: Lab, tmp_path: Path) -> None:
    """Also what it added against the expectation of the job."""
    job = write_job(tmp_path, lab, "1s")
    document = yaml.safe_load(job.read_text())
    [stream] = document["streams"]
    other = json.loads(json.dumps(stream).replace("added.", "unexpected."))
    other["operations"][0]["expect"] = ["entryAlreadyExists"]
    document["streams"].append({**other, "name": "others"})
    job.write_text(yaml.safe_dump(document))
    done = ldapslam("run", job, "--out", tmp_path / "out", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["totals"]["writers.add"]["succeeded"] > 0
    assert result["totals"]["others.add"]["failed"] > 0
    facts = clean_up_facts(result)
    assert facts["deleted"] == facts["entries"] > 0
    assert facts["left"] == facts["already_gone"] == 0
    assert not (tmp_path / "out" / "spool").exists()


@pytest.mark.parametrize("is_killed", [False, True], ids=["cancelled", "killed"])
def test_a_run_that_is_cancelled_or_loses_its_engine_removes_what_it_added(
    lab: Lab, tmp_path: Path, is_killed: bool
) -> None:
    out = tmp_path / "out"
    job = write_job(tmp_path, lab, "60s")
    with Running("run", job, "--out", out, cwd=tmp_path) as running:
        wait_for_ledger(out, size=50)
        if is_killed:
            child_of(running, "ldapslam.agent.engine.process").kill()
        else:
            running.interrupt()
        code = running.wait()
    assert code != 0 if is_killed else code == 130
    # by its agent, and by the command if the agent had not the time
    assert not list(out.glob("spool/*/ledgers/*"))


def test_a_command_in_a_hurry_says_how_to_remove_what_is_left(
    lab: Lab, tree_before: Tree, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    job = write_job(tmp_path, lab, "60s")
    with Running("run", job, "--out", out, cwd=tmp_path) as running:
        ledger = wait_for_ledger(out, size=50)
        agent = child_of(running, "ldapslam agent")
        # it cannot drain: only a second Ctrl-C ends the command
        child_of(running, "ldapslam.agent.engine.process").suspend()
        running.interrupt()
        running.wait_for_text("again to end at once")
        running.interrupt()
        agent.kill()
        assert running.wait() == 130
    assert f"`ldapslam run --cleanup {out}` removes them" in running.stderr
    assert len(tree(lab)) > len(tree_before)
    done = check_ldapslam("run", "--cleanup", out, cwd=tmp_path)
    assert re.search(r"([\d,]+) entries: ([\d,]+) deleted", done.stdout), done.stdout
    spool = ledger.parents[2]
    again = check_ldapslam("run", "--cleanup", ledger.parent.name, "--spool", spool)
    assert "no entries are left" in again.stdout


def test_entries_that_are_kept_are_told_with_the_command_that_deletes_them(
    lab: Lab, tree_before: Tree, tmp_path: Path
) -> None:
    bind = ("-D", lab.admin_dn, "-y", lab.admin_password_file, "-c", "2")
    dn = "cn=kept[100:1],ou=people,dc=example,dc=com"
    attributes = ("-a", "objectClass=person", "-a", "sn=kept", "-n", "50", "--keep")
    added = ldapslam(
        *("quick", "add", lab.supplier.uri, "-e", dn, *attributes, *bind), cwd=tmp_path
    )
    said = " ".join(added.stdout.split())
    assert "50 added entries are left" in said, added.stdout + added.stderr
    assert tree(lab) != tree_before
    (command,) = re.findall("`ldapslam (quick delete [^`]*)`", said)
    ldapslam(*shlex.split(command), *bind, cwd=tmp_path)
