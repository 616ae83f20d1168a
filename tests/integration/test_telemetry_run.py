# SPDX-License-Identifier: Apache-2.0
"""A run with monitors, from the job file to the report."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from support.command_line import ldapslam
from support.lab import Lab

JOB = """\
name: watched
targets: {{directory: {uri}}}
bind: {{dn: "{bind_dn}", password: {{file: {password_file}}}}}
run: {{duration: 3s, warm_up: 1s, interval: 500ms}}
streams:
  - name: comparers
    target: directory
    load: {{rate: 200/s, arrivals: constant, connections: 2}}
    operations:
      - compare: {{dn: "uid=user.1,{people_dn}", attribute: uid, value: user.1}}
monitors:
  - {{directory: directory, every: 250ms}}
  - {{host: directory, processes: [slapd]}}
  - {{entry: "cn=Max,cn=Threads,cn=Monitor", target: directory,
     attributes: [monitoredInfo]}}
"""


@pytest.mark.long
def test_report_has_what_the_server_did_meanwhile(lab: Lab, tmp_path: Path) -> None:
    uri = lab.supplier.uri
    job = tmp_path / "job.yaml"
    job.write_text(
        JOB.format(
            uri=uri,
            bind_dn=lab.admin_dn,
            password_file=lab.admin_password_file,
            people_dn=lab.people_dn,
        )
    )
    done = ldapslam("run", job, "--out", tmp_path / "out")
    out = tmp_path / "out"
    assert (out / "result.json").exists(), done.stderr
    monitors = json.loads((out / "result.json").read_text())["monitors"]
    server = monitors[f"directory {uri}"]
    assert server["facts"]["server"] == "slapd"
    assert server["failed"] == 0
    # every 250 ms for 4 s, and until the load is known to be over
    assert server["readings"] >= 12
    compares = server["metrics"]["compare_initiated"]
    assert compares["mean"] == pytest.approx(200, rel=0.1)
    assert compares["increase"] <= 4 * 200
    threads = monitors[f"cn=Max,cn=Threads,cn=Monitor of directory {uri}"]
    assert threads["metrics"]["monitoredInfo"]["min"] > 1
    # of all slapds of the host, the one that serves the role
    (name,) = [name for name in monitors if name.startswith("slapd(")]
    assert f"({lab.supplier.pid})" in name
    process = monitors[name]
    assert 0 < process["metrics"]["cpu_user"]["increase"] < 4
    assert process["restarts_s"] == []
    with (out / "monitors.csv").open() as text:
        names = {row["monitor"] for row in csv.DictReader(text)}
    assert names == monitors.keys()
    assert "Servers and hosts" in (out / "report.txt").read_text()
