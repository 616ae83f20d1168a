# SPDX-License-Identifier: Apache-2.0
"""The books: what the agents counted is what the server counted, exactly.

100,000 entries, 16 closed-loop clients, 20 s; the server's counts are cn=monitor's,
before and after. The tool's own searches (preflight) are in the run's manifest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.command_line import ldapslam
from support.lab import Lab
from support.submitting import AGENTS, SubmittingFleet

ENTRIES = 100_000
CLIENTS = 16
pytestmark = pytest.mark.long

JOB = f"""\
name: counts
targets: {{{{directory: "{{uri}}"}}}}
bind: {{{{dn: "{{dn}}", password: {{{{file: "{{password_file}}"}}}}}}}}
run: {{{{duration: 20s, interval: 1s}}}}
streams:
  - name: readers
    target: directory
    load: {{{{clients: {CLIENTS}}}}}
    operations:
      - search:
          base: ou=people,dc=example,dc=com
          filter: (uid=user.[0-{ENTRIES - 1}])
          attributes: [cn, mail]
"""


@pytest.fixture(scope="module")
def large_lab(slapd_installed: None) -> Iterator[Lab]:
    with Lab(entries=ENTRIES) as lab:
        yield lab


@pytest.fixture
def job(large_lab: Lab, tmp_path: Path) -> Path:
    path = tmp_path / "counts.yaml"
    path.write_text(
        JOB.format(
            uri=large_lab.supplier.uri,
            dn=large_lab.admin_dn,
            password_file=large_lab.admin_password_file,
        )
    )
    return path


def control_operations(result: dict[str, Any], uri: str, operation: str) -> int:
    """What the agents' preflights asked of one server."""
    return sum(
        facts["control_operations"][uri].get(operation, 0)
        for facts in result["manifest"]["agents"].values()
    )


def check_books(lab: Lab, before: dict[str, int], result: dict[str, Any]) -> None:
    after = lab.monitor_counts(lab.supplier)
    uri = lab.supplier.uri
    searches = result["totals"]["readers.search"]
    assert searches["sent"] == searches["completed"] == searches["succeeded"] > 1_000
    assert searches["timed_out"] == searches["unresolved"] == searches["dropped"] == 0
    assert after["search"] - before["search"] == searches["sent"] + control_operations(
        result, uri, "search"
    )
    assert after["bind"] - before["bind"] == CLIENTS + control_operations(
        result, uri, "bind"
    )
    search = result["streams"]["readers"]["search"]
    assert search["entries_returned"] == search["succeeded"]


def test_a_local_run_counts_what_the_server_counts(large_lab: Lab, job: Path) -> None:
    before = large_lab.monitor_counts(large_lab.supplier)
    ended = ldapslam("run", job, "--json", cwd=job.parent)
    assert ended.stdout, ended.stderr
    check_books(large_lab, before, json.loads(ended.stdout))


def test_a_fleet_counts_what_the_server_counts(
    large_lab: Lab, job: Path, submitting_fleet: SubmittingFleet
) -> None:
    before = large_lab.monitor_counts(large_lab.supplier)
    _, result = submitting_fleet.submit(job)
    assert len(result["agents"]) == AGENTS
    check_books(large_lab, before, result)
