# SPDX-License-Identifier: Apache-2.0
"""Frames, facts, addresses, snapshots: what goes in comes out, or is refused."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import pytest

from ldapslam.base.address import check_plaintext, grpc_target, is_local
from ldapslam.base.causes import FAILURE_CAUSES
from ldapslam.base.errors import ConfigError
from ldapslam.jobs.fields.thresholds import SET_UP_METRICS, TIME_METRICS
from ldapslam.proto.engine_pb2 import EngineStarted
from ldapslam.proto.fields import (
    CONNECTION_COUNTERS,
    GAUGES,
    METRICS,
    OPERATION_COUNTERS,
    SET_UP_TIMES,
    STREAM_COUNTERS,
)
from ldapslam.transport.messages import (
    MAX_FRAME_BYTES,
    ProtocolError,
    decode_facts,
    encode_frame,
    facts_json,
    read_frame,
    read_frame_async,
)

# Frames.


def read_with_asyncio(content: bytes) -> EngineStarted | None:
    async def read() -> EngineStarted | None:
        stream = asyncio.StreamReader()
        stream.feed_data(content)
        stream.feed_eof()
        return await read_frame_async(stream, EngineStarted)

    return asyncio.run(read())


def read_with_file(content: bytes) -> EngineStarted | None:
    return read_frame(io.BytesIO(content), EngineStarted)


READERS = pytest.mark.parametrize(
    "read", [read_with_file, read_with_asyncio], ids=["file", "asyncio"]
)


@READERS
@pytest.mark.parametrize("value", [0, 1, -5, 2**62])
def test_a_message_survives_its_frame(read: Any, value: int) -> None:
    message = EngineStarted(start_error_ns=value)
    assert read(encode_frame(message)) == message
    assert read(b"") is None


FRAME = encode_frame(EngineStarted(start_error_ns=1234567))


@READERS
@pytest.mark.parametrize(
    "content",
    [
        FRAME[:2],
        FRAME[:-1],
        (MAX_FRAME_BYTES + 1).to_bytes(4, "big") + b"x",
        b"\x00\x00\x00\x02\xff\xff",
    ],
    ids=["cut length", "cut message", "too long", "garbage"],
)
def test_a_broken_frame_is_refused(read: Any, content: bytes) -> None:
    with pytest.raises(ProtocolError):
        read(content)


# Facts.


def test_facts_survive_and_odd_values_become_text() -> None:
    facts = {"kernel": "Linux", "cores": 2, "odd": {1, 2}.__class__, "none": None}
    back = decode_facts(facts_json(facts))
    assert back == {**facts, "odd": "<class 'set'>"}


@pytest.mark.parametrize("text", ["{", "[1]", "[" * 100_000])
def test_facts_that_are_no_object_are_refused(text: str) -> None:
    with pytest.raises(ProtocolError):
        decode_facts(text)


# Addresses.

ADDRESSES = [
    ("127.0.0.1:7400", "127.0.0.1:7400", True),
    ("127.0.0.1", "127.0.0.1:7400", True),
    ("localhost:1", "localhost:1", True),
    ("[::1]:7400", "[::1]:7400", True),
    ("::1", "[::1]:7400", True),
    ("[::1]", "[::1]:7400", True),
    ("unix:/run/x", "unix:/run/x", True),
    ("10.0.0.7:7400", "10.0.0.7:7400", False),
    ("0.0.0.0:7400", "0.0.0.0:7400", False),
    ("ds1.example.com", "ds1.example.com:7400", False),
]


@pytest.mark.parametrize(("address", "target", "local"), ADDRESSES)
def test_addresses_are_read_as_people_write_them(
    address: str, target: str, local: bool
) -> None:
    assert grpc_target(address) == target
    assert is_local(address) is local


@pytest.mark.parametrize(
    "address", ["", ":7400", "h:x", "h:99999", "unix:x", "unix:/" + "x" * 107]
)
def test_an_address_that_is_none_is_refused_with_a_hint(address: str) -> None:
    with pytest.raises(ConfigError) as caught:
        grpc_target(address)
    assert caught.value.hint


def test_an_address_that_others_reach_needs_insecure() -> None:
    check_plaintext("127.0.0.1:7400", insecure=False)
    check_plaintext("10.0.0.7:7400", insecure=True)
    with pytest.raises(ConfigError, match="neither encrypted nor authenticated"):
        check_plaintext("10.0.0.7:7400", insecure=False)


# Snapshots.


def test_thresholds_know_the_metrics_of_the_protocol() -> None:
    assert sorted(TIME_METRICS) == sorted(METRICS)
    assert sorted(SET_UP_METRICS) == sorted(SET_UP_TIMES)


def test_counters_are_told_from_gauges_and_durations() -> None:
    assert OPERATION_COUNTERS[:3] == ("scheduled", "sent", "completed")
    others = {*GAUGES, *FAILURE_CAUSES, "down_ns", "unable_ns"}
    assert {*STREAM_COUNTERS} - {*CONNECTION_COUNTERS} == others
