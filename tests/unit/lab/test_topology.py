# SPDX-License-Identifier: Apache-2.0
"""Who follows whom, and when a server has all changes."""

from __future__ import annotations

import pytest

from ldapslam.lab.lab import in_sync
from ldapslam.lab.server import Topology


@pytest.mark.parametrize(
    ("topology", "providers"),
    [
        (Topology(), {"supplier": []}),
        (
            Topology(replicas=2),
            {"supplier": [], "replica1": ["supplier"], "replica2": ["supplier"]},
        ),
        (
            Topology(suppliers=2, replicas=1),
            {
                "supplier1": ["supplier2"],
                "supplier2": ["supplier1"],
                "replica1": ["supplier1", "supplier2"],
            },
        ),
        (
            Topology(suppliers=2, replicas=1, has_hub=True),
            {
                "supplier1": ["supplier2"],
                "supplier2": ["supplier1"],
                "hub": ["supplier1", "supplier2"],
                "replica1": ["hub"],
            },
        ),
    ],
    ids=["one", "replicas", "two suppliers", "hub"],
)
def test_servers_follow_the_next_ones_up(
    topology: Topology, providers: dict[str, list[str]]
) -> None:
    assert {name: topology.providers(name) for name in topology.roles()} == providers


@pytest.mark.parametrize(
    ("position", "wanted", "expected"),
    [
        ({}, {}, True),
        ({"001": "20"}, {"001": "20"}, True),
        ({"001": "21", "002": "1"}, {"001": "20"}, True),
        ({"001": "19"}, {"001": "20"}, False),
        ({"001": "20"}, {"001": "20", "002": "1"}, False),
    ],
)
def test_a_server_is_in_sync_with_every_change_of_every_supplier(
    position: dict[str, str], wanted: dict[str, str], expected: bool
) -> None:
    assert in_sync(position, wanted) is expected
