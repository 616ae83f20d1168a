# SPDX-License-Identifier: Apache-2.0
"""Runs that nobody watches: a restart or a loss in one night leaves the next one whole,
with real engines and monitors against a real slapd."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from ldapslam.cli.client import job_request
from ldapslam.reports.summarise import summarise
from support.busy_host import LIMITS
from support.fleet import FINAL, FleetOfProcesses
from support.lab import Lab
from support.tree import tree


def night(lab: Lab, *, duration: str = "2s", number: str = "[unique]") -> str:
    """The job of each night: it needs two agents, and waits for them."""
    add = {
        "dn": f"cn=night.{number},{lab.people_dn}",
        "entry": {"objectClass": "person", "sn": "night"},
    }
    stream = {
        "name": "writers",
        "target": "server",
        "load": {"rate": "40/s", "connections": 4},
        "operations": [
            {"weight": 3, "add": add},
            {"weight": 1, "delete": {"of": "add"}},
        ],
    }
    password = {"file": str(lab.admin_password_file)}
    job: dict[str, Any] = {
        "name": "night",
        "targets": {"server": lab.supplier.uri},
        "bind": {"dn": lab.admin_dn, "password": password},
        "run": {"duration": duration, "interval": "500ms", "drain": "2s"},
        "agents": {"count": 2, "wait": "60s"},
        "monitors": [{"directory": "server"}],
        "validity": LIMITS,
        "thresholds": ["*.*.errors < 0.1%"],
        "streams": [stream],
    }
    return json.dumps(job)


def submit(fleet: FleetOfProcesses, text: str) -> str:
    with fleet.client() as client:
        return client.submit(job_request(text.encode(), job_file="night.json"))


def assert_is_good(fleet: FleetOfProcesses, run_id: str) -> None:
    """The run has passed, with its monitors and the server's own counts, and nothing of
    it goes on."""
    status = fleet.wait_for(run_id, *FINAL, timeout_s=60)
    fleet.wait_until(lambda: bool(fleet.run(run_id).verdict), "a verdict")
    with fleet.opened_store() as store:
        reasons = summarise(store, run_id).reasons
    assert (status.state, fleet.run(run_id).verdict) == ("finished", "PASS"), reasons
    assert "observer_failed" not in [event.kind for event in status.events]
    fleet.wait_until(
        lambda: not any(map(fleet.engine_pids, status.agents)), "no process of it"
    )


@pytest.mark.long
def test_a_coordinator_that_is_away_at_the_runs_time_spoils_no_night(
    fleet: FleetOfProcesses, lab: Lab
) -> None:
    fleet.start_coordinator(judge=True)
    run_id = submit(fleet, night(lab))
    fleet.end("coordinator", signal.SIGKILL)
    fleet.start_coordinator(judge=True)
    fleet.start_agent("b")
    fleet.wait_for_agents("b")
    fleet.start_agent("a")  # the run's first agent is the last that comes
    assert_is_good(fleet, run_id)
    assert_is_good(fleet, submit(fleet, night(lab)))


@pytest.mark.long
def test_an_agent_that_is_started_again_while_a_run_waits_spoils_no_night(
    fleet: FleetOfProcesses, lab: Lab
) -> None:
    fleet.start_coordinator(judge=True)
    for name in "ab":
        fleet.start_agent(name)
    fleet.wait_for_agents("a", "b")
    fleet.end("a", signal.SIGKILL)
    fleet.wait_until(lambda: fleet.agents()["a"].state == "lost", "the loss")
    run_id = submit(fleet, night(lab))
    fleet.start_agent("a")
    assert_is_good(fleet, run_id)
    assert_is_good(fleet, submit(fleet, night(lab)))


@pytest.mark.parametrize(
    "number", ["[unique]", pytest.param("[0:99999]", marks=pytest.mark.long)]
)
def test_what_a_killed_agent_left_spoils_no_night(
    fleet: FleetOfProcesses, lab: Lab, number: str
) -> None:
    before = tree(lab)
    fleet.start_coordinator(judge=True)
    for name in "ab":
        fleet.start_agent(name)
    fleet.wait_for_agents("a", "b")
    lost = submit(fleet, night(lab, duration="30s", number=number))
    fleet.wait_for_load(lost)
    fleet.end("b", signal.SIGKILL)
    assert fleet.wait_for(lost, *FINAL, timeout_s=60).state == "failed"
    left = tree(lab).keys() - before.keys()
    assert left
    with fleet.opened_store() as store:
        notes = summarise(store, lost).notes
    assert any("entries of b are left" in note for note in notes), notes

    fleet.start_agent("b")
    assert_is_good(fleet, submit(fleet, night(lab, number=number)))
    assert tree(lab) == before
