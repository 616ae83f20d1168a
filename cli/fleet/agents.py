# SPDX-License-Identifier: Apache-2.0
"""`agents`: who is in the fleet, how it is, and what its operators allow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from ldapslam.agent.admission.limits import describe_limits
from ldapslam.base.errors import FleetError
from ldapslam.base.units import format_size
from ldapslam.cli.client import Client, completed_by
from ldapslam.cli.command import command
from ldapslam.cli.console import put_json, put_result, wants_json
from ldapslam.cli.fleet.operate import document, put_table
from ldapslam.cli.security import client_options
from ldapslam.proto import operator_pb2 as pb
from ldapslam.transport.messages import decode_facts

_NS_PER_S = 1e9
_NS_PER_MS = 1e6


@command("agents")
@click.argument(
    "name",
    metavar="[NAME]",
    required=False,
    shell_complete=completed_by(lambda client: [one.name for one in client.agents()]),
)
@client_options
def agents_command(name: str | None, coordinator: str) -> None:
    """List the agents that the coordinator knows, or all about NAME."""
    with Client(coordinator) as client:
        agents = client.agents()
    if name is not None:
        agents = [agent for agent in agents if agent.name == name]
        if not agents:
            raise FleetError(
                f"the coordinator knows no agent {name!r}",
                hint="`ldapslam fleet agents` lists those that it knows",
            )
        lines = (f"{field:<14} {value}" for field, value in _fields(agents[0]))
        put_result(agent_document(agents[0]), lines)
    elif wants_json():
        put_json([agent_document(agent) for agent in agents])
    else:
        table = [_columns(agent) for agent in agents] or [{}]
        rows = [list(row.values()) for row in table if row]
        put_table(list(table[0]), rows, "no agents; start one with `ldapslam agent`")


def agent_document(agent: pb.AgentStatus) -> dict[str, Any]:
    """An agent as JSON; figures that its host does not give are left out."""
    readable = pb.AgentStatus()
    readable.CopyFrom(agent)
    readable.limits_json = json.dumps(decode_facts(agent.limits_json))
    readable.host_facts_json = json.dumps(decode_facts(agent.host_facts_json))
    shown = document(readable)
    if agent.HasField("load"):
        # protobuf's JSON has 64-bit integers as text
        shown["load"] = {
            field.name: value for field, value in agent.load.ListFields()
        } | {
            "spool_bytes": agent.load.spool_bytes,
            "spool_reports": agent.load.spool_reports,
        }
    return shown


def _columns(agent: pb.AgentStatus) -> dict[str, str]:
    """One agent in the table of all."""
    return {
        "agent": agent.name,
        "state": f"{agent.state}, restricted" if agent.restricted else agent.state,
        "runs": " ".join([f"{len(agent.run_ids)}/{_max_runs(agent)}", *agent.run_ids]),
        "version": agent.build,
        "load": _load(agent),
        "clock offset": _offset(agent),
        "last heard of": f"{agent.silent_ns / _NS_PER_S:.1f} s ago",
        "limits": "; ".join(describe_limits(decode_facts(agent.limits_json))),
        "labels": " ".join(f"{k}={v}" for k, v in sorted(agent.labels.items())),
    }


def _fields(agent: pb.AgentStatus) -> Iterator[tuple[str, str]]:
    """All that is known of one agent."""
    columns = _columns(agent)
    for name in (
        *("agent", "state", "version", "labels"),
        *("last heard of", "clock offset", "load"),
    ):
        if columns[name]:
            yield name, columns[name]
    yield "runs", f"{len(agent.run_ids)} of {_max_runs(agent)}"
    for run_id in agent.run_ids:
        yield "", run_id
    load = agent.load
    if load.HasField("memory_available_bytes"):
        yield "memory", f"{format_size(load.memory_available_bytes)} available"
    if load.HasField("spool_free_bytes"):
        yield "spool's disk", f"{format_size(load.spool_free_bytes)} free"
    if agent.HasField("load"):
        size = format_size(load.spool_bytes)
        yield "spool", f"{load.spool_reports:,} reports wait ({size})"
    for phrase in describe_limits(decode_facts(agent.limits_json)):
        yield "limit", phrase
    for key, value in sorted(decode_facts(agent.host_facts_json).items()):
        if value is not None:
            yield "host", f"{key} {value}"


def _max_runs(agent: pb.AgentStatus) -> int:
    return max(1, agent.max_runs)


def _load(agent: pb.AgentStatus) -> str:
    load = agent.load
    parts = []
    if load.HasField("cpu_utilisation"):
        parts.append(f"{load.cpu_utilisation:.0%} CPU")
    if load.spool_reports:
        parts.append(f"{load.spool_reports:,} reports wait")
    return ", ".join(parts)


def _offset(agent: pb.AgentStatus) -> str:
    if not agent.HasField("clock_offset_bound_ns"):
        return "not known yet"
    offset_ms = agent.clock_offset_ns / _NS_PER_MS
    bound_ms = agent.clock_offset_bound_ns / _NS_PER_MS
    return f"{offset_ms:+.3f} ms ± {bound_ms:.3f}"
