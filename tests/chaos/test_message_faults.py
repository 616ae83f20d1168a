# SPDX-License-Identifier: Apache-2.0
"""Messages that are late, doubled, out of order, unanswered, or get through one way."""

from __future__ import annotations

import time

import pytest

from ldapslam.reports.summarise import summarise
from support.books import check_ended
from support.chaos_fleet import AGENTS, ChaosFleet
from support.relay import Relay
from support.report_relay import FAULTS

pytestmark = [pytest.mark.long, pytest.mark.chaos]


@pytest.fixture
def fleet(chaos: ChaosFleet) -> ChaosFleet:
    """Agents a and b, idle."""
    chaos.begin(*AGENTS)
    chaos.wait_until(
        lambda: all(
            0 < agent.clock_offset_bound_ns < 5_000_000
            for agent in chaos.agents().values()
        ),
        "clocks that are known",
    )
    return chaos


def clock_bound_ms(fleet: ChaosFleet, run_id: str) -> float:
    """The worst at the start; beyond 5 ms the report does not accept it."""
    with fleet.opened_store() as store:
        agents = store.agents(run_id)
        summary = summarise(store, run_id)
    for facts in agents.values():
        # one clock in truth: the estimate is wrong by what it admits, at most
        assert abs(facts.clock_offset_us or 0) <= (facts.clock_offset_bound_us or 0)
    bound_ms = max(one.clock_offset_bound_us or 0 for one in agents.values()) / 1000
    (rule,) = (rule for rule in summary.rules if rule.name == "clock_offset")
    assert bound_ms <= 5 or not rule.passed
    return float(bound_ms)


def test_messages_that_come_to_take_200_ms_cost_nothing(fleet: ChaosFleet) -> None:
    """Not even the clocks: what is known of them of before still holds."""
    for relay in fleet.relays.values():
        relay.delay_s = 0.2
    run_id = fleet.submit_load(duration="5s")
    check_ended(fleet, run_id)
    assert clock_bound_ms(fleet, run_id) < 100


def test_over_a_slow_link_it_is_admitted_how_badly_clocks_are_known(
    chaos: ChaosFleet,
) -> None:
    """Each way takes 200 ms from the beginning: the run is as planned, its intervals
    are complete, but that the agents began together cannot be told."""
    chaos.directory.start()
    chaos.start_coordinator()
    for name in AGENTS:
        chaos.relays[name] = Relay(chaos.address)
        chaos.relays[name].delay_s = 0.2
        chaos.start_agent(name)
    chaos.wait_for_agents(*AGENTS)
    run_id = chaos.submit_load(duration="5s")
    check_ended(chaos, run_id)
    assert 200 <= clock_bound_ms(chaos, run_id) < 400


@pytest.mark.parametrize("fault", FAULTS)
def test_reports_and_commands_count_once(fleet: ChaosFleet, fault: str) -> None:
    fleet.use_report_relay(1, [fault])
    fleet.wait_for_agents(*AGENTS)
    check_ended(fleet, fleet.submit_load(duration="5s"))


def test_all_of_it_at_once(fleet: ChaosFleet) -> None:
    fleet.use_report_relay(2, FAULTS)
    for relay in fleet.relays.values():
        relay.delay_s = 0.05
    fleet.wait_for_agents(*AGENTS)
    check_ended(fleet, fleet.submit_load(duration="8s"))


@pytest.mark.parametrize("direction", ["up", "down"])
def test_a_link_that_works_one_way_only_is_a_silent_one(
    fleet: ChaosFleet, direction: str
) -> None:
    run_id = fleet.submit_load(duration="12s")
    fleet.wait_for_load(run_id)
    fleet.relays["a"].cut(up=direction == "up", down=direction == "down")
    time.sleep(7.0)
    fleet.relays["a"].mend()
    check_ended(fleet, run_id)


def test_connections_that_break_all_the_time_cost_nothing(fleet: ChaosFleet) -> None:
    run_id = fleet.submit_load(duration="10s")
    fleet.wait_for_load(run_id)
    for _ in range(20):
        for relay in fleet.relays.values():
            relay.reset()
        time.sleep(0.4)
    check_ended(fleet, run_id)
