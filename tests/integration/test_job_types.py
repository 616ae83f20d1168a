# SPDX-License-Identifier: Apache-2.0
"""Job types and sessions on a real slapd: what was sent is what the server counted."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from support.busy_host import VALIDITY
from support.command_line import ldapslam
from support.lab import Lab

JOB = (
    VALIDITY
    + """\
name: types
targets: {{directory: "{uri}"}}
bind: {{dn: "{dn}", password: {{file: "{password_file}"}}}}
run: {{duration: 2s, ramp_up: 500ms, interval: 500ms}}
streams:
  - name: logins
    target: directory
    load: {{clients: 2, think_time: 5ms}}
    type: auth
    options:
      base: &people ou=people,dc=example,dc=com
      filter: (uid=[file:users.txt])
      password: "{person_password}"
      unbind: true
  - name: burst
    target: directory
    load: {{clients: 2, think_time: 5ms}}
    type: burst
    options: {{base: *people, filter: "(uid=user.[0-999])"}}
  - name: prime
    target: directory
    load: {{clients: 5}}
    type: prime
    options: {{base: *people, filter: "(uid=user.[0:1000))"}}
  - name: changes
    target: directory
    load: {{rate: 50/s, stages: {{file: rates.csv, shape: ramp}}}}
    type: search_modify
    options:
      base: *people
      filter: (uid=user.[0-999])
      replace: {{description: "[random:8]"}}
      modifies: 2
"""
)
#: The area below a line from 0 to 2 x 50/s in 2 s, and nothing in the ramp-up.
CHANGES = 100


def totals(result: dict[str, Any], figure: str) -> dict[str, int]:
    return {name: figures[figure] for name, figures in result["totals"].items()}


def test_every_type_sends_what_it_says(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "users.txt").write_text("".join(f"user.{n}\n" for n in range(1000)))
    (tmp_path / "rates.csv").write_text("time,rate\n0,0x\n2,2x\n")
    job = tmp_path / "types.yaml"
    job.write_text(lab.job(JOB, person_password="password"))
    before = lab.monitor_counts(lab.supplier)
    ended = ldapslam("run", job, "--agents", "2", "--json", cwd=tmp_path)
    after = lab.monitor_counts(lab.supplier)
    assert ended.stdout, ended.stderr
    result = json.loads(ended.stdout)
    assert not sum(totals(result, "failed").values())

    sent = totals(result, "sent")
    assert sent["prime.search"] == 1000
    assert sent["changes.search"] == CHANGES
    assert sent["changes.modify"] == 2 * CHANGES
    assert sent["logins.search"] == sent["logins.bind"] == sent["logins.unbind"] > 10
    assert sent["burst.search"] > 10

    by_kind: Counter[str] = Counter()
    for name, count in sent.items():
        by_kind[name.partition(".")[2]] += count
    for facts in result["manifest"]["agents"].values():
        by_kind.update(facts["control_operations"][lab.supplier.uri])
    for kind in ("search", "modify"):
        assert after[kind] - before[kind] == by_kind[kind]
