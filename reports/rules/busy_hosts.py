# SPDX-License-Identifier: Apache-2.0
"""Hosts with CPUs that were always busy: a note, and no rule, as a generator that was
held up by it has broken a rule of its own. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ldapslam.reports.collect.telemetry import cpu_seconds
from ldapslam.reports.rules.evidence import Evidence
from ldapslam.results.facts import AgentFacts

#: Mean busy share in the measure phase from which on queues for a CPU are long.
_BUSY = 0.8


@dataclass
class _Host:
    busy_share: float = 0.0
    agents: list[str] = field(default_factory=list)
    servers: list[str] = field(default_factory=list)
    has_server: bool = False


def busy_hosts(evidence: Evidence) -> Iterator[str]:
    """Yield a line for each busy host, with its agents and servers."""
    for host in _hosts(evidence).values():
        if host.busy_share < _BUSY:
            continue
        agents = f"agent{'s' * (len(host.agents) > 1)} {', '.join(host.agents)}"
        servers = ", ".join(host.servers) or "a server"
        if not host.agents:
            owners, means = servers, "it carries no more"
        elif host.has_server:
            owners, means = f"{agents} and {servers}", "it may be the limit"
        else:
            owners, means = agents, "the client may be the limit, and not the directory"
        yield f"the host of {owners} had its CPUs {host.busy_share:.0%} busy: {means}"


def _hosts(evidence: Evidence) -> dict[str, _Host]:
    """By boot id, or by the agent's or monitor's name where that is not known."""
    hosts: dict[str, _Host] = {}
    for name, totals in sorted(evidence.collected.agents.items()):
        facts = evidence.facts.get(name, AgentFacts())
        host = hosts.setdefault(str(facts.host.get("boot_id") or name), _Host())
        host.agents.append(name)
        host.has_server |= facts.shares_host_with_target
        if totals.cpu_utilisation_wall_ns:
            share = totals.cpu_utilisation_ns / totals.cpu_utilisation_wall_ns
            host.busy_share = max(host.busy_share, share)
    for one in evidence.monitors:
        busy_s, every_s = cpu_seconds(one.means)
        if one.facts.kind != "host" or not every_s:
            continue
        host = hosts.setdefault(one.facts.boot_id or one.name, _Host())
        host.has_server = True
        served = one.facts.serves.values()
        host.servers += dict.fromkeys(uri for uris in served for uri in uris)
        host.busy_share = max(host.busy_share, busy_s / every_s)
    return hosts
