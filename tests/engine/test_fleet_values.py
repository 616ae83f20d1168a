# SPDX-License-Identifier: Apache-2.0
"""A fleet of seven engines of three workers each: what it sends as a whole."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ldapslam.jobs.plan import share
from ldapslam.jobs.requests.template import SEQUENCE, UNIQUE
from support.engine import (
    BUSY_LATER,
    S,
    open_stream,
    run,
    search,
    searched_value,
    source,
    steady,
    stream,
)
from support.fake_ldap import FakeLdap, result, send_and_stay

AGENTS, WORKERS = 7, 3


def sent_by_fleet(
    connections: int, count: int, values: tuple[Any, ...], **settings: Any
) -> Counter[int]:
    """How often each number was searched for in a run of `count` searches; the agents
    run one after the other."""
    sent: Counter[int] = Counter()
    with FakeLdap(send_and_stay(result)) as server:
        for agent in range(AGENTS):
            make = open_stream if "rate_per_s" in settings else stream
            run(
                make(
                    server.uri,
                    operations=[search(values)],
                    connections=share(connections, AGENTS, agent),
                    first_connection=agent,
                    connection_stride=AGENTS,
                    total_connections=connections,
                    total_operations=count,
                    **settings,
                ),
                workers=WORKERS,
                duration_ns=5 * S,
            )
        sent.update(searched_value(request.content) for request in server.requests)
    return sent


def test_fleet_sends_each_sequential_value_once() -> None:
    sent = sent_by_fleet(50, 1000, source(SEQUENCE, 100, 1099))
    assert sent == dict.fromkeys(range(100, 1100), 1)


def test_fleet_of_an_open_stream_sends_each_value_once_a_round() -> None:
    sent = sent_by_fleet(
        21,
        1000,
        source(SEQUENCE, 0, 499),
        rate_per_s=20_000,
        profile=[steady(20_000), BUSY_LATER],
        arrivals="poisson",
    )
    assert sent == dict.fromkeys(range(500), 2)


def test_fleet_sends_no_unique_number_twice() -> None:
    sent = sent_by_fleet(24, 1000, source(UNIQUE))
    assert len(sent) == sum(sent.values()) == 1000
