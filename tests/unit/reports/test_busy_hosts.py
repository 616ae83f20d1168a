# SPDX-License-Identifier: Apache-2.0
"""Which hosts a report calls busy, and whose they are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ldapslam.reports.rules.busy_hosts import busy_hosts
from ldapslam.results.facts import AgentFacts, MonitorFacts


def agent(busy: float | None) -> Any:
    wall_ns = 0 if busy is None else 100
    return SimpleNamespace(
        cpu_utilisation_ns=100 * (busy or 0), cpu_utilisation_wall_ns=wall_ns
    )


def monitor(busy: float, uri: str, boot: str = "b", kind: str = "host") -> Any:
    means = {"cpu_user": 4 * busy, "cpu_idle": 3 * (1 - busy), "cpu_iowait": 1 - busy}
    means["memory_used"] = 9e9
    facts = MonitorFacts(kind=kind, boot_id=boot, serves={"supplier": (uri,)})
    return SimpleNamespace(name=uri, facts=facts, means=means)


def lines(
    agents: dict[str, float | None], facts: dict[str, Any], *monitors: Any
) -> list[str]:
    collected = SimpleNamespace(agents={name: agent(of) for name, of in agents.items()})
    evidence: Any = SimpleNamespace(
        collected=collected,
        facts={name: AgentFacts.parsed(one) for name, one in facts.items()},
        monitors=monitors,
    )
    return list(busy_hosts(evidence))


def test_a_client_without_cpu_left_may_be_the_limit() -> None:
    host = {"host": {"boot_id": "x"}}
    facts = {"one": host, "two": host, "three": {"host": {"boot_id": "y"}}}
    assert lines({"one": 0.97, "two": None, "three": 0.79}, facts) == [
        "the host of agents one, two had its CPUs 97% busy: the client may be the "
        "limit, and not the directory"
    ]


def test_a_server_without_cpu_left_carries_no_more() -> None:
    busy, idle = monitor(0.95, "ldap://a"), monitor(0.5, "ldap://b", "c")
    process = monitor(0.99, "ldap://b", "d", kind="process")
    assert lines({"one": 0.1}, {}, busy, idle, process) == [
        "the host of ldap://a had its CPUs 95% busy: it carries no more"
    ]


@pytest.mark.parametrize(
    ("facts", "monitors", "server"),
    [
        ({"host": {"boot_id": "b"}}, [monitor(0.9, "ldap://a")], "ldap://a"),
        ({"shares_host_with_target": True}, [], "a server"),
    ],
)
def test_of_a_host_that_both_share_neither_is_known_to_be_the_limit(
    facts: dict[str, Any], monitors: list[Any], server: str
) -> None:
    assert lines({"one": 1.0}, {"one": facts}, *monitors) == [
        f"the host of agent one and {server} had its CPUs 100% busy: it may be the "
        "limit"
    ]
