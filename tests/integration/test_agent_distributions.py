# SPDX-License-Identifier: Apache-2.0
"""agent/distributions.txt lists what an agent imports, no more and no less.

A bundle or an image for hosts that only generate load is made of the list.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from importlib.metadata import Distribution
from importlib.resources import files
from pathlib import Path

from packaging.utils import canonicalize_name

from ldapslam.cli.serve.installed_wheels import closure
from support.command_line import COMMAND, TIMEOUT_S, Running, environment, ldapslam
from support.lab import Lab
from support.network import free_port

#: Python asks it first for each module, in the agent and in its child processes.
SITECUSTOMIZE = """\
import os, sys

class Recorder:
    def find_spec(name, path=None, target=None):
        with open(os.environ["IMPORTED_MODULES"], "a") as file:
            file.write(name + "\\n")

sys.meta_path.insert(0, Recorder)
"""
JOB = """\
name: imports
targets: {{directory: "{uri}"}}
bind: {{dn: "{dn}", password: {{file: "{password_file}"}}}}
agents: {{count: 1, wait: 60s}}
run: {{duration: 1s, interval: 500ms}}
monitors: [{{host: directory}}, {{directory: directory}}]
streams:
  - name: engine
    target: directory
    load: {{clients: 2, think_time: 5ms}}
    operations: [{{search: {{base: "{people}", filter: "(uid=user.[0-999])"}}}}]
  - name: python
    target: directory
    load: {{clients: 2, think_time: 5ms}}
    type: burst
    options: {{base: "{people}", filter: "(uid=user.[0-999])"}}
"""


def listed() -> set[str]:
    text = files("ldapslam.agent").joinpath("distributions.txt").read_text()
    return {line for line in text.splitlines() if not line.startswith("#")}


def modules_of(distribution: Distribution) -> Iterator[str]:
    for file in distribution.files or ():
        if file.suffix in (".py", ".so"):
            module = (*file.parent.parts, file.name.partition(".")[0])
            yield ".".join(module).removesuffix(".__init__")


def test_the_list_has_what_an_agent_imports(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(SITECUSTOMIZE)
    imported = tmp_path / "imported"
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    job = tmp_path / "job.yaml"
    job.write_text(lab.job(JOB))
    address = f"127.0.0.1:{free_port()}"
    coordinator = ("--listen", address, "--store", "results.sqlite")
    with Running("coordinator", *coordinator, cwd=tmp_path, name="here") as running:
        running.wait_for_text("coordinator on ")
        agent = subprocess.Popen(
            [
                *(*COMMAND, "agent", "--coordinator", address),
                *("--spool", "spool", "--no-realtime"),
                *("--allow-secret", f"file:{lab.admin_password_file}"),
            ],
            cwd=tmp_path,
            env=environment({"PYTHONPATH": path, "IMPORTED_MODULES": str(imported)}),
        )
        try:
            ended = ldapslam(
                *("submit", job, "--coordinator", address, "--wait", "--json"),
                cwd=tmp_path,
            )
            # what is imported is tested, not whether this machine is fit to measure
            assert ended.returncode in (0, 3), ended.stderr
        finally:
            agent.terminate()
            agent.wait(TIMEOUT_S)
    totals = json.loads(ended.stdout)["totals"]
    assert totals["engine.search"]["succeeded"] > 0
    assert totals["python.search"]["succeeded"] > 0

    names = set(imported.read_text().split())
    distributions = {
        canonicalize_name(distribution.name)
        for distribution in closure("ldapslam")
        if not names.isdisjoint(modules_of(distribution))
    }
    assert distributions - {"ldapslam"} == listed()
