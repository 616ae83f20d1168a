# SPDX-License-Identifier: Apache-2.0
"""What cannot be is refused with the reason; what comes in the wrong order, too."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ldapslam.agent._engine import Engine, Responder
from support.engine import (
    MS,
    STRING,
    S,
    new_engine,
    open_stream,
    search,
    source,
    start,
    stream,
    stream_plan,
)

URI = "ldap://127.0.0.1:1"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"workers": 0}, "workers"),
        ({"workers": 10**6}, "workers"),
        ({"boundaries_ns": []}, "at least one interval"),
        ({"boundaries_ns": [5, 5]}, "ascend"),
        ({"boundaries_ns": [0]}, "ascend"),
    ],
)
def test_impossible_engines_are_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        new_engine([], **changes)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"uris": []}, "URI"),
        ({"connections": 0}, "connection"),
        ({"in_flight": 0}, "in_flight"),
        ({"in_flight": 2}, "one request in flight per client"),
        ({"arrivals": "punctual"}, "'punctual'"),
        ({"model": "half-open"}, "'half-open'"),
        ({"model": "open"}, "profile"),
        ({"request_timeout_ns": 0}, "time-outs"),
        ({"connect_timeout_ns": 0}, "time-outs"),
        ({"bind_dn": "cn=admin"}, "needs a password"),
    ],
)
def test_impossible_streams_are_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        new_engine([stream(URI, **changes)])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"program": b""}, "1 to"),
        ({"program": b"\x63"}, "byte 0: unknown instruction"),
        ({"program": b"\x03\x63"}, "a part is not ended"),
        ({"values": []}, "no such value source"),
        ({"values": [source(STRING + 97)]}, "unknown kind"),
        ({"values": [source(STRING, 5)]}, "charset"),
        ({"values": [source(STRING, 5, data=b"x" * 257)]}, "256"),
        ({"weight": 0}, "weight"),
    ],
)
def test_impossible_operations_are_refused(
    changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        new_engine([stream(URI, operations=[{**search(), **changes}])])


def test_calls_in_the_wrong_order_are_refused(responder: Responder) -> None:
    engine = new_engine([stream(responder.uri, think_time_ns=MS)])
    with pytest.raises(RuntimeError, match="start comes once, after prepare"):
        engine.start(0)
    with pytest.raises(RuntimeError):
        engine.snapshot(0, 0)
    start(engine)
    with pytest.raises(RuntimeError, match="prepare is called once"):
        engine.prepare()
    with pytest.raises(RuntimeError, match="before prepare"):
        engine.add_stream(stream_plan(stream(responder.uri)))
    with pytest.raises(ValueError, match="in order"):
        engine.snapshot(1, 0)
    engine.close()
    engine.close()
    with pytest.raises(RuntimeError, match="closed"):
        engine.facts()


@pytest.mark.parametrize(
    ("streams", "reason"),
    [([], "at least one stream"), ([stream(URI, operations=[])], "no operations")],
)
def test_engine_without_work_is_refused_by_prepare(
    streams: list[dict[str, Any]], reason: str
) -> None:
    engine = new_engine(streams)
    with pytest.raises(ValueError, match=reason):
        engine.prepare()


def test_other_threads_run_while_a_snapshot_is_awaited(responder: Responder) -> None:
    engine: Engine = new_engine(
        [open_stream(responder.uri, 100)], duration_ns=60 * S, interval_ns=30 * S
    )
    start(engine)
    stopper = threading.Timer(0.1, engine.stop)
    stopper.start()
    # blocks without the GIL until the other thread has stopped the run
    snapshot = engine.snapshot(0, 20 * S)
    assert snapshot is not None
    assert snapshot["end_ns"] < 10 * S
    stopper.join()
    engine.close()
