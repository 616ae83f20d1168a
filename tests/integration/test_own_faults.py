# SPDX-License-Identifier: Apache-2.0
"""Connections that the generator's host does not allow: no verdict on the directory.

In a network namespace of the test's own, with a directory and an agent."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from support.network import need

_NEW_HOST = ("unshare", "--net", "sh", "-c")
#: Its arguments: a command that brings the fault, job file, folder.
_RUN = """
import subprocess, sys, threading, time
from ldapslam.agent._engine import Responder
responder = Responder(delays=[(1, 0)])
responder.start()
port = responder.uri.rpartition(":")[2]
with open(sys.argv[2], "r+") as job:
    text = job.read().replace("PORT", port)
    job.seek(0)
    job.write(text)
def bring_fault():
    while responder.counts()["search"] < 100:
        time.sleep(0.05)
    subprocess.run(["sh", "-c", sys.argv[1]])
fault = threading.Thread(target=bring_fault, daemon=True)
fault.start()
command = ["-P", "-m", "ldapslam.cli.main", "run", sys.argv[2], "-o", sys.argv[3]]
status = subprocess.run([sys.executable, *command]).returncode
sys.exit(status)
"""
_FEW_PORTS = "echo 30000 30099 > /proc/sys/net/ipv4/ip_local_port_range"
# after thousands of connections, for which few attempts count
_NO_PORTS = "sleep 2; echo 30000 30001 > /proc/sys/net/ipv4/ip_local_port_range"


@pytest.mark.parametrize(
    ("before", "during", "load", "cause"),
    [
        ("", _NO_PORTS, {"clients": 8}, "no_port"),
        (_FEW_PORTS, "", {"rate": "200/s", "connections": 8}, "no_port"),
        ("", "ip addr flush dev lo", {"clients": 2}, "no_route"),
    ],
    ids=["no port, closed", "no port, open", "no route"],
)
def test_a_host_that_cannot_connect_judges_no_directory(
    tmp_path: Path, before: str, during: str, load: dict[str, object], cause: str
) -> None:
    need(*_NEW_HOST, "ip link set lo up")
    job = {
        "name": "own-fault",
        "targets": {"directory": "ldap://127.0.0.1:PORT"},
        "run": {"duration": "5s"},
        "streams": [
            {
                "name": "s",
                "load": load,
                "connection": {"per_operation": True},
                "request_timeout": "500ms",
                "operations": [{"search": {"base": "dc=example,dc=com"}}],
            }
        ],
    }
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    prepare = f'ip link set lo up; {before or ":"}; exec "$@"'
    command = [sys.executable, "-c", _RUN, during or ":"]
    command += [str(tmp_path / "job.yaml"), str(tmp_path / "out")]
    done = subprocess.run(
        [*_NEW_HOST, prepare, "sh", *command],
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 3, done.stdout + done.stderr
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["verdict"] == "INVALID"
    assert result["connections"]["s"]["failure_causes"][cause] > 0
    assert result["figures"]["s.*.outage.longest"]["value"] == 0
    assert any("could not make connections" in one for one in result["reasons"])
