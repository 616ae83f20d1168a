# SPDX-License-Identifier: Apache-2.0
"""Links that break, between hosts that are network namespaces: silently, for a while,
for good, and a little at a time.

    coordinator (+ directory) --- bridge --- agent a, agent b

The directory's link is the agents' own, so a cut host loads it no more either; where
the load is to go on, the directory listens on a Unix socket of the agents' host.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from ldapslam.results.histogram import Histogram
from support.books import Books, check_books, check_ended
from support.chaos_fleet import AGENTS, ChaosFleet
from support.counting_ldap import CountingLdap
from support.fleet import FINAL
from support.network import Network, network_of

pytestmark = [pytest.mark.long, pytest.mark.chaos]

_PORT = 7411
_SILENT_S = 4.0
#: The agents' ticks and the coordinator's, and a machine that is busy.
_SLACK_S = 1.0


@pytest.fixture
def network() -> Iterator[Network]:
    yield from network_of("coordinator", *AGENTS)


@pytest.fixture
def hosts(chaos: ChaosFleet, network: Network) -> ChaosFleet:
    """The fleet on hosts of its own; the directory is next to the agents."""
    directory = CountingLdap(chaos.folder, str(chaos.folder / "directory"))
    return begun(chaos, network, directory)


def begun(chaos: ChaosFleet, network: Network, directory: CountingLdap) -> ChaosFleet:
    """Start the directory, and the fleet on hosts of its own."""
    address = f"{network.address('coordinator')}:{_PORT}"
    for key in ("coordinator", *AGENTS):
        chaos.prefixes[key] = network.command(key)
    chaos.directory = directory
    chaos.directory.start()
    chaos.start_coordinator(also_listen=[address], insecure=True)
    for name in AGENTS:
        chaos.start_agent(name, coordinator=address, insecure=True)
    chaos.wait_for_agents(*AGENTS)
    return chaos


def test_a_link_cut_for_ten_seconds_costs_nothing(
    hosts: ChaosFleet, network: Network
) -> None:
    run_id = hosts.submit_load(duration="15s")
    hosts.wait_for_load(run_id)
    network.cut("a")
    cut_s = time.monotonic()
    hosts.wait_until(lambda: "agent_silent" in hosts.events(run_id), "silence")
    assert _SILENT_S - _SLACK_S < time.monotonic() - cut_s < _SILENT_S + _SLACK_S
    time.sleep(cut_s + 10.0 - time.monotonic())
    # it went on measuring, and kept what it could not deliver
    assert hosts.undelivered("a") > 40
    network.mend("a")
    hosts.wait_until(lambda: "agent_heard" in hosts.events(run_id), "return", 10.0)
    check_ended(hosts, run_id)
    assert hosts.events(run_id) == ["agent_silent", "agent_heard"]


def test_a_link_cut_beyond_the_grace_ends_the_load_by_itself(
    hosts: ChaosFleet, network: Network
) -> None:
    run_id = hosts.submit_load(duration="60s", coordinator_timeout="5s")
    hosts.wait_for_load(run_id)
    network.cut("a")
    cut_s = time.monotonic()
    hosts.wait_until(lambda: hosts.engine("a") is None, "the lease's end", 15.0)
    hosts.wait_until(lambda: "agent_lost" in hosts.events(run_id), "the loss", 15.0)
    # the coordinator gives it up 5 s after the agent has given itself up
    assert 9.0 - _SLACK_S < time.monotonic() - cut_s < 10.0 + _SLACK_S
    status = hosts.wait_for(run_id, *FINAL)
    assert status.state == "failed"
    assert "agent 'a' was lost" in status.state_detail
    network.mend("a")
    hosts.wait_for_agents(*AGENTS)
    hosts.wait_for_delivery("a")
    books = check_books(hosts, run_id)
    # what it measured until its lease ended has come after all
    assert all(books.is_complete(agent) for agent in AGENTS)
    assert hosts.run(run_id).state == "failed"
    last_s = books.arrived_s["a"][-1] - cut_s
    assert 5.0 - 1.0 - _SLACK_S < last_s < 5.0 + _SLACK_S


def test_a_link_that_goes_down_and_up_costs_nothing(
    hosts: ChaosFleet, network: Network
) -> None:
    run_id = hosts.submit_load(duration="8s")
    hosts.wait_for_load(run_id)
    for _ in range(3):
        network.pull("b")
        time.sleep(1.0)
        network.plug("b")
        time.sleep(1.0)
    check_ended(hosts, run_id)


def test_lost_packets_cost_nothing(hosts: ChaosFleet, network: Network) -> None:
    for agent in AGENTS:
        network.lose(agent, 5)
    run_id = hosts.submit_load(duration="10s")
    check_ended(hosts, run_id)
    assert all(network.dropped(agent) > 0 for agent in AGENTS)


def test_lost_packets_on_the_way_to_the_directory_are_response_time(
    chaos: ChaosFleet, network: Network
) -> None:
    """TCP brings them again: the books balance, the response times show it."""
    directory = CountingLdap(
        chaos.folder,
        f"{network.address('coordinator')}:1389",
        network.command("coordinator"),
    )
    begun(chaos, network, directory)
    network.lose("a", 5)
    run_id = chaos.submit_load(duration="10s", rate="400/s")
    books = check_ended(chaos, run_id)
    assert network.dropped("a") > 0
    assert worst_ms(books, "a") > 100  # a retransmission takes 200 ms
    assert worst_ms(books, "b") < worst_ms(books, "a")


def worst_ms(books: Books, agent: str) -> float:
    return max(
        Histogram.merge([packed]).max_ns / 1e6
        for record in books.stored[agent].values()
        for row in record.operations
        for (metric, _), packed in row.histograms.items()
        if metric == "response_time"
    )
