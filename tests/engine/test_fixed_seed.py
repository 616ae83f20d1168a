# SPDX-License-Identifier: Apache-2.0
"""A fixed seed gives the same requests and the same counters, from release to release.

The golden values are those of the engine before its load models became files of their
own. A change here changes the results of every job that has a seed: say so in
CHANGELOG.md, then write the new values down.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from ldapslam.agent._engine import Responder
from ldapslam.proto.fields import OPERATION_COUNTERS
from support.engine import (
    BUSY_LATER,
    MS,
    Result,
    S,
    add,
    delete,
    modify,
    open_stream,
    run,
    search,
    steady,
    stream,
    uniform,
    value,
)
from support.fake_ldap import FakeLdap, Request, answer


def one_client(uri: str, folder: Path) -> dict[str, Any]:
    """All that a session may do, in the order of one connection."""
    return stream(
        uri,
        connections=1,
        total_operations=300,
        reconnect_operations=100,
        variables=2,
        ledgers=1,
        ledger_folder=str(folder),
        operations=[
            search(captures=[(1, b"cn")], lets=[(0, value(0), [uniform(1, 99)])]),
            modify(),
            add(ledger_put=0),
            delete(ledger_take=0, ledger_order="random"),
        ],
        scripts=[
            (3, [(0, 0)]),
            (2, [(0, 0), (1, MS), (2, 0)]),
            (2, [(3, 0)]),
            (1, [(2, 0), (1, 0)]),
        ],
    )


def eight_clients(uri: str, folder: Path) -> dict[str, Any]:
    return stream(
        uri,
        connections=8,
        total_operations=2000,
        operations=[search(uniform(0, 10**9), weight=3), {**modify(), "weight": 1}],
    )


def thinking_clients(uri: str, folder: Path) -> dict[str, Any]:
    return {**eight_clients(uri, folder), "total_operations": 200, "think_time_ns": MS}


def arrivals(uri: str, folder: Path) -> dict[str, Any]:
    return open_stream(
        uri,
        4000,
        profile=[steady(4000), BUSY_LATER],
        total_operations=1000,
        # of one kind: a script is drawn at its arrival, a value when it is sent
        operations=[search(uniform(0, 10**9))],
    )


Streams = Callable[[str, Path], dict[str, Any]]


def counted(result: Result) -> list[dict[str, int]]:
    """What each operation counted."""
    numbers = {row["operation"] for s in result.snapshots for row in s["operations"]}
    return [
        {name: result.count(name, operation=number) for name in OPERATION_COUNTERS}
        for number in sorted(numbers)
    ]


def succeeded(count: int, entries: int = 0) -> dict[str, int]:
    """The counters of an operation whose every request is answered with success."""
    counters = dict.fromkeys(OPERATION_COUNTERS, 0) | {"entries": entries}
    for name in ("scheduled", "sent", "completed", "succeeded", "requests"):
        counters[name] = count
    return counters


def digest(requests: Iterable[Request]) -> str:
    texts = [f"{r.tag:02x} {r.content.hex()} {r.controls.hex()}" for r in requests]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def in_order(requests: list[Request]) -> list[Request]:
    return requests


def by_content(requests: list[Request]) -> list[Request]:
    """Which connection is served first is for the kernel to say."""
    return sorted(requests, key=lambda r: (r.tag, r.content))


@pytest.mark.parametrize(
    ("streams", "order", "workers", "expected"),
    [
        (one_client, in_order, 1, "15b0a755de7e02bc"),
        (eight_clients, by_content, 1, "a4318c416ec8afb8"),
        (eight_clients, by_content, 2, "e0e60c86de3ed655"),
        (thinking_clients, by_content, 2, "f3ed890f7a269613"),
        (arrivals, by_content, 2, "9cb8da0434bfca6f"),
    ],
)
def test_requests(
    tmp_path: Path, streams: Streams, order: Any, workers: int, expected: str
) -> None:
    with FakeLdap(answer) as server:
        run(streams(server.uri, tmp_path), duration_ns=20 * S, seed=7, workers=workers)
        assert digest(order(server.requests)) == expected


@pytest.mark.parametrize(
    ("streams", "expected"),
    [
        (
            one_client,
            [succeeded(181, 181), succeeded(114), succeeded(114), succeeded(76)],
        ),
        (eight_clients, [succeeded(1510, 1510), succeeded(490)]),
        (thinking_clients, [succeeded(142, 142), succeeded(58)]),
        (arrivals, [succeeded(1000, 1000)]),
    ],
)
def test_counters(
    responder: Responder,
    tmp_path: Path,
    streams: Streams,
    expected: list[dict[str, int]],
) -> None:
    load = streams(responder.uri, tmp_path)
    result = run(load, duration_ns=20 * S, seed=7, workers=2)
    assert counted(result) == expected
