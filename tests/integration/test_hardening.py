# SPDX-License-Identifier: Apache-2.0
"""What the shipped units forbid is not needed: a fleet under the same restrictions.

Of those that a process can put on itself: no new privileges, no capability, no memory
that is written and executed, no files for others. The rest is systemd's to enforce
(tests/unit/test_deploy.py).
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from support.fake_ldap import FakeLdap, Peer, Request, answer, result
from support.fleet import FleetOfProcesses, job_text
from support.intervals import stored_intervals

PATIENCE_S = 90.0
_PR_SET_MDWE, _REFUSE_EXEC_GAIN = 65, 1
_RESTRICT = f"""
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def prctl(*arguments):
    if libc.prctl(*arguments) != 0:
        sys.exit(f"prctl{{arguments}}: {{os.strerror(ctypes.get_errno())}}")
for capability in range(64):
    libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
prctl({_PR_SET_MDWE}, {_REFUSE_EXEC_GAIN}, 0, 0, 0)
os.umask(0o077)
os.execv(sys.argv[1], sys.argv[1:])
"""


def _refuses_executable_memory() -> bool:
    """Whether this kernel knows the restriction; asked about, not set."""
    get_mdwe = 66
    return bool(ctypes.CDLL(None).prctl(get_mdwe, 0, 0, 0, 0) >= 0)


def directory(peer: Peer, request: Request) -> bool:
    """Has every entry but those that the class looks for in vain."""
    if b"ou=nowhere" in request.content:
        return peer.send(result(request, 32))
    return answer(peer, request)


@pytest.mark.long
@pytest.mark.skipif(
    not _refuses_executable_memory(), reason="the kernel has no PR_SET_MDWE"
)
def test_a_fleet_works_under_the_restrictions_of_its_units(
    fleet: FleetOfProcesses,
) -> None:
    for key in ("coordinator", "a"):
        fleet.prefixes[key] = [sys.executable, "-c", _RESTRICT]
    with FakeLdap(directory) as server:
        fleet.start_coordinator()
        fleet.start_agent("a")
        fleet.wait_for_agents("a", timeout_s=PATIENCE_S)
        text: dict[str, Any] = json.loads(job_text(server.uri, duration="3s"))
        text["streams"].append(
            {
                "name": "class",
                "target": "replica",
                "load": {"clients": 1, "think_time": "10ms"},
                "python": {
                    "class": "support.python_jobs:Lookups",
                    "operations": ["find", "miss"],
                    "options": {"base": "dc=example,dc=com"},
                },
            }
        )
        text["streams"].append(
            {
                "name": "paced",
                "target": "replica",
                "load": {"rate": "50/s", "connections": 1},
                "operations": [
                    {"compare": {"dn": "dc=a", "attribute": "o", "value": "x"}}
                ],
            }
        )
        run_id = fleet.submit(json.dumps(text))
        fleet.wait_for(run_id, "running", timeout_s=PATIENCE_S)
        (engine,) = fleet.engine_pids("a")
        status = Path(f"/proc/{engine}/status").read_text()
        fleet.wait_for(run_id, "finished", timeout_s=PATIENCE_S)
    assert "NoNewPrivs:\t1" in status
    assert "CapBnd:\t0000000000000000" in status
    with fleet.opened_store() as store:
        measured = {
            row.stream
            for record in stored_intervals(store, run_id)
            for row in record.operations
            if row.completed
        }
    assert measured == {"readers", "class", "paced"}
