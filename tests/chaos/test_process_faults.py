# SPDX-License-Identifier: Apache-2.0
"""Processes that are killed, stopped, terminated or started twice, at full load.

For each: what was promised happens, within its deadline, and the books balance.
tests/integration/test_fleet.py and test_fleet_restart.py lose engines and agents in
more ways, with fake engines; test_random_faults.py checks the books of that.
"""

from __future__ import annotations

import signal
import time
from contextlib import closing

import pytest

from ldapslam.reports.model import Summary
from ldapslam.reports.summarise import summarise
from support.books import check_books, check_ended, missing
from support.chaos_fleet import AGENTS, ChaosFleet
from support.fleet import FINAL, job_text
from support.intervals import stored_intervals
from support.lab import Lab
from support.postgresql import postgresql, stopped

pytestmark = [pytest.mark.long, pytest.mark.chaos]

#: What is promised, beyond which a busy machine gets so much.
_SLACK_S = 1.0
_GRACE_S = 4.0


@pytest.fixture
def fleet(chaos: ChaosFleet) -> ChaosFleet:
    """Agents a and b, idle."""
    chaos.begin(*AGENTS)
    return chaos


def summary_of(fleet: ChaosFleet, run_id: str) -> Summary:
    with fleet.opened_store() as store:
        return summarise(store, run_id)


def broken_rules(fleet: ChaosFleet, run_id: str) -> set[str]:
    """But those that a busy machine breaks."""
    rules = summary_of(fleet, run_id).rules
    machine = {"send_lag", "generator_disturbed", "loop_share", "clock_offset"}
    return {rule.name for rule in rules if not rule.passed} - machine


def test_an_agent_that_is_killed_is_lost_with_what_it_had_begun(
    fleet: ChaosFleet,
) -> None:
    run_id = fleet.submit_load(duration="30s")
    fleet.wait_for_load(run_id)
    time.sleep(1.0)
    # what it measures from now on is not delivered before it is killed
    fleet.relays["a"].cut()
    time.sleep(2.0)
    kept = fleet.undelivered("a")
    assert kept >= 8
    killed_s = time.monotonic()
    fleet.kill("a")
    fleet.relays["a"].reset()
    fleet.wait_until(lambda: "agent_lost" in fleet.events(run_id), "the loss", 6.0)
    assert time.monotonic() - killed_s < 5.0 + _SLACK_S
    status = fleet.wait_for(run_id, *FINAL)
    assert "agent 'a' was lost" in status.state_detail
    # its successor on the same spool delivers what it kept
    books = check_ended(fleet, run_id, "a", state="failed")
    assert not books.is_complete("a")
    assert books.is_complete("b")
    assert len(books.stored["a"]) >= kept
    assert books.arrived_s["a"][-1] - killed_s < _SLACK_S
    assert summary_of(fleet, run_id).verdict == "INVALID"


def test_a_run_goes_on_when_its_coordinator_is_killed_and_restarted(
    fleet: ChaosFleet,
) -> None:
    run_id = fleet.submit_load(duration="12s")
    queued = fleet.submit_load(duration="1s")
    fleet.wait_for_load(run_id)
    fleet.kill("coordinator")
    time.sleep(3.0)
    fleet.start_coordinator()
    assert fleet.run(queued).state == "queued"
    books = check_ended(fleet, run_id)
    assert "coordinator_restarted" in fleet.events(run_id)
    assert len(books.run.manifest.adopted) == 1
    assert broken_rules(fleet, run_id) == set()
    check_ended(fleet, queued)


def test_a_postgresql_that_is_away_while_a_run_ends_costs_nothing() -> None:
    """For longer than the coordinator waits for agents that do not end."""
    with postgresql() as url, closing(ChaosFleet(url)) as fleet:
        fleet.begin(*AGENTS)
        run_id = fleet.submit_load(duration="5s")
        fleet.wait_for_load(run_id)
        time.sleep(2.0)
        with stopped(url):
            time.sleep(65.0)
        books = check_ended(fleet, run_id)
        assert all(books.is_complete(agent) for agent in AGENTS)
        assert "store_away" in fleet.events(run_id)
        assert broken_rules(fleet, run_id) == set()


def test_a_coordinator_that_is_away_beyond_the_grace_finds_what_was_measured(
    fleet: ChaosFleet,
) -> None:
    run_id = fleet.submit_load(duration="60s", coordinator_timeout=f"{_GRACE_S:g}s")
    fleet.wait_for_load(run_id)
    killed_s = time.monotonic()
    fleet.kill("coordinator")
    fleet.wait_until(
        lambda: not any(fleet.engine(agent) for agent in AGENTS), "their engines' end"
    )
    assert time.monotonic() - killed_s < _GRACE_S + 2.0 + _SLACK_S
    fleet.start_coordinator()
    books = check_ended(fleet, run_id, state="failed")
    assert all(books.is_complete(agent) for agent in AGENTS)
    for agent in AGENTS:
        last_s = books.arrived_s[agent][-1] - killed_s
        assert _GRACE_S - 1.0 - _SLACK_S < last_s < _GRACE_S + _SLACK_S


def test_a_coordinator_that_stands_still_for_a_while_loses_nobody(
    fleet: ChaosFleet,
) -> None:
    run_id = fleet.submit_load(duration="10s")
    fleet.wait_for_load(run_id)
    fleet.send_signal("coordinator", signal.SIGSTOP)
    time.sleep(6.0)
    fleet.send_signal("coordinator", signal.SIGCONT)
    check_ended(fleet, run_id)


def test_sigterm_has_a_coordinator_cancel_and_drain(fleet: ChaosFleet) -> None:
    run_id = fleet.submit_load(duration="30s")
    fleet.wait_for_load(run_id)
    assert fleet.end("coordinator") == 0
    fleet.start_coordinator()
    books = check_ended(fleet, run_id, state="cancelled")
    assert all(books.is_complete(agent) for agent in AGENTS)


def test_slapd_has_counted_what_is_in_the_store(fleet: ChaosFleet, lab: Lab) -> None:
    """Another server's books, that of cn=monitor, over a cut link and a restart."""
    uri = lab.supplier.uri
    before = lab.monitor_counts(lab.supplier)
    run_id = fleet.submit(job_text(uri, duration="12s", clients=7))
    fleet.wait_for_load(run_id)
    fleet.relays["a"].cut()
    time.sleep(2.0)
    fleet.kill("coordinator")
    fleet.start_coordinator()
    fleet.relays["a"].mend()
    status = fleet.wait_for(run_id, *FINAL)
    assert status.state == "finished", status.state_detail
    fleet.heal(*AGENTS)
    after = lab.monitor_counts(lab.supplier)
    with fleet.opened_store() as store:
        sent = sum(
            row.sent
            for one in stored_intervals(store, run_id)
            for row in one.operations
        )
        control = store.run(run_id).manifest.control_operations[uri]["search"]
    assert sent > 1_000
    assert after["search"] - before["search"] == sent + control


def test_a_directory_that_is_killed_and_restarted_costs_errors_only(
    fleet: ChaosFleet,
) -> None:
    run_id = fleet.submit_load(duration="10s")
    fleet.wait_for_load(run_id)
    fleet.directory.kill()
    time.sleep(2.0)
    fleet.directory.start()
    started_s = time.monotonic()
    status = fleet.wait_for(run_id, *FINAL, timeout_s=30.0)
    assert status.state == "finished", status.state_detail
    fleet.heal(*AGENTS)
    # requests that were under way may have arrived or not: only the server knows
    books = check_books(fleet, run_id, has_lost_requests=True)
    assert missing(books) == set()
    # the connections came back
    for agent in AGENTS:
        again_s = min(t for t in books.arrived_s[agent] if t > started_s)
        assert again_s - started_s < 3.0
    rows = [
        row
        for records in books.stored.values()
        for record in records.values()
        for row in record.streams
    ]
    assert sum(row.disconnects for row in rows) > 0
    assert sum(row.connects for row in rows) > 6
