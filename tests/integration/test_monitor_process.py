# SPDX-License-Identifier: Apache-2.0
"""Observers of real agents: they see a run from before its load to after it, and what
becomes of them then is never the end of the run."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator

import pytest

from ldapslam.results.monitor_rows import monitor_series
from ldapslam.results.records import MonitorSeries
from support.fleet import FINAL, FleetOfProcesses, job_text
from support.processes import processes_below

HOST = [{"host": "replica", "every": "100ms"}]


@pytest.fixture
def fleet(lasting_fleet: FleetOfProcesses) -> FleetOfProcesses:
    return lasting_fleet


def monitor_pids(fleet: FleetOfProcesses) -> list[int]:
    """Processes of the agents that observe."""
    agents = (fleet.processes[name].pid for name in ("a", "b"))
    return [
        process.pid
        for agent in agents
        for process in processes_below(agent, "ldapslam.agent.monitoring.process")
    ]


def wait_for_one_monitor(fleet: FleetOfProcesses) -> None:
    fleet.wait_until(
        lambda: len(monitor_pids(fleet)) == 1,
        "the end of the monitor process that has nothing to see",
    )


def series_of(fleet: FleetOfProcesses, run_id: str) -> list[MonitorSeries]:
    with fleet.opened_store() as store:
        return list(monitor_series(store, run_id))


def test_one_agent_of_a_host_samples_it_while_there_is_load(
    fleet: FleetOfProcesses,
) -> None:
    run_id = fleet.submit(job_text(duration="2s", monitors=HOST))
    fleet.wait_for_load(run_id)
    wait_for_one_monitor(fleet)
    assert fleet.wait_for(run_id, *FINAL).state == "finished", fleet.logs()
    (series,) = series_of(fleet, run_id)
    # from T0 on, ten a second; a busy machine may miss some
    assert series.at_ns[0] < 100_000_000
    assert 10 <= len(series.at_ns) <= 40
    assert not series.failures
    # none is left
    assert monitor_pids(fleet) == []
    with fleet.opened_store() as store:
        cost = store.run(run_id).manifest.observer_cost
    assert cost is not None
    assert cost.cpu_s > 0


def test_a_run_goes_on_without_a_monitor_that_was_killed(
    fleet: FleetOfProcesses,
) -> None:
    run_id = fleet.submit(job_text(duration="2s", monitors=HOST))
    fleet.wait_for_load(run_id)
    wait_for_one_monitor(fleet)
    [pid] = monitor_pids(fleet)
    os.kill(pid, signal.SIGKILL)
    assert fleet.wait_for(run_id, *FINAL).state == "finished", fleet.logs()
    assert fleet.reported(run_id) == {name: list(range(11)) for name in "ab"}
    assert fleet.events(run_id).count("observer_failed") == 1


def test_a_run_whose_log_may_not_be_read_is_refused_before_its_load(
    fleet: FleetOfProcesses,
) -> None:
    monitors = [
        {"log": "/var/log/slapd.log", "format": "openldap", "target": "replica"}
    ]
    run_id = fleet.submit(job_text(duration="60s", monitors=monitors))
    run = fleet.wait_for(run_id, *FINAL)
    assert run.state == "failed", fleet.logs()
    assert "may not read the log" in run.state_detail
    assert fleet.reported(run_id) == {}


def test_a_monitor_outlives_its_coordinator(fleet: FleetOfProcesses) -> None:
    run_id = fleet.submit(job_text(duration="3s", monitors=HOST))
    fleet.wait_for_load(run_id)
    fleet.end("coordinator", signal.SIGKILL)
    fleet.start_coordinator()
    assert fleet.wait_for(run_id, *FINAL).state == "finished", fleet.logs()
    assert "observer_failed" not in fleet.events(run_id)
    (series,) = series_of(fleet, run_id)
    assert series.at_ns[-1] > 2_000_000_000
    assert len(set(series.at_ns)) == len(series.at_ns)


@pytest.fixture
def silent_uri() -> Iterator[str]:
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"ldap://127.0.0.1:{server.getsockname()[1]}"


def test_a_run_that_is_cancelled_while_servers_are_looked_at_gives_its_agents_back(
    fleet: FleetOfProcesses, silent_uri: str
) -> None:
    monitors = [{"directory": "replica"}]
    run_id = fleet.submit(job_text(silent_uri, monitors=monitors))
    fleet.wait_until(lambda: bool(monitor_pids(fleet)), "a monitor process")
    assert fleet.run(run_id).state == "preparing"
    with fleet.client() as client:
        client.cancel(run_id)
    assert fleet.wait_for(run_id, *FINAL).state == "cancelled", fleet.logs()
    fleet.wait_until(lambda: monitor_pids(fleet) == [], "its end")
    after = fleet.submit(job_text(duration="200ms"))
    assert fleet.wait_for(after, *FINAL).state == "finished", fleet.logs()
