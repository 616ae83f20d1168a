# SPDX-License-Identifier: Apache-2.0
"""Frames, facts, addresses, snapshots, errors: what goes in comes out, or is none."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import grpc
import pytest

from ldapslam.base.address import check_plaintext, grpc_target, is_local
from ldapslam.base.causes import FAILURE_CAUSES, LOSS_CAUSES
from ldapslam.base.errors import (
    AccessRefused,
    AmbiguousRun,
    ConfigError,
    CoordinatorUnreachable,
    EngineError,
    FleetError,
    JobError,
    JobErrors,
    LdapSlamError,
    NotEnoughAgents,
    RunAborted,
    RunNotFound,
    StoreBusy,
)
from ldapslam.jobs.fields.thresholds import SET_UP_METRICS, TIME_METRICS
from ldapslam.proto.common_pb2 import Failure
from ldapslam.proto.engine_pb2 import EngineStarted
from ldapslam.proto.fields import (
    CONNECTION_COUNTERS,
    GAUGES,
    METRICS,
    OPERATION_COUNTERS,
    SET_UP_TIMES,
    STREAM_COUNTERS,
)
from ldapslam.transport.codec import FAILURE_KEY, error_of_rpc, rpc_errors, status_of
from ldapslam.transport.messages import (
    MAX_FRAME_BYTES,
    ProtocolError,
    decode_facts,
    encode_frame,
    error_of,
    facts_json,
    failure_message,
    read_frame,
    read_frame_async,
)
from support.sample_errors import FAULT, SAMPLES

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
    others = {*GAUGES, *FAILURE_CAUSES, *LOSS_CAUSES, "down_ns", "unable_ns"}
    assert {*STREAM_COUNTERS} - {*CONNECTION_COUNTERS} == others


# Our errors survive the wire, and gRPC's become ours.


class RefusedCall(grpc.RpcError):  # type: ignore[misc]
    """What a client gets of a refused call."""

    def __init__(
        self,
        code: grpc.StatusCode,
        details: str,
        metadata: tuple[tuple[str, bytes | str], ...] = (),
    ) -> None:
        super().__init__()
        self._parts = code, details, metadata

    def code(self) -> grpc.StatusCode:
        return self._parts[0]

    def details(self) -> str:
        return self._parts[1]

    def trailing_metadata(self) -> tuple[tuple[str, bytes | str], ...]:
        return self._parts[2]


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_survives_the_wire(error: LdapSlamError) -> None:
    back = error_of_rpc(RefusedCall(*status_of(error)), "127.0.0.1:7400")
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert back.hint == error.hint
    assert back.exit_code is error.exit_code
    assert back.to_dict() == error.to_dict()


CODES = [
    (FAULT, grpc.StatusCode.INVALID_ARGUMENT),
    (RunNotFound("r"), grpc.StatusCode.NOT_FOUND),
    (AmbiguousRun("r", ["r1"]), grpc.StatusCode.INVALID_ARGUMENT),
    (StoreBusy("x", 1), grpc.StatusCode.UNAVAILABLE),
    (AccessRefused("x"), grpc.StatusCode.PERMISSION_DENIED),
    (NotEnoughAgents("1 agent", []), grpc.StatusCode.FAILED_PRECONDITION),
    (RunAborted("x"), grpc.StatusCode.ABORTED),
    (EngineError("x"), grpc.StatusCode.INTERNAL),
    (LdapSlamError("x"), grpc.StatusCode.UNKNOWN),
]


@pytest.mark.parametrize(("error", "code"), CODES)
def test_foreign_clients_see_the_kind_of_error(
    error: LdapSlamError, code: grpc.StatusCode
) -> None:
    assert status_of(error)[:2] == (code, str(error))


def test_a_call_that_did_not_reach_us_means_unreachable() -> None:
    call = RefusedCall(grpc.StatusCode.UNAVAILABLE, "Socket closed")
    with (
        pytest.raises(CoordinatorUnreachable, match="the connection ended"),
        rpc_errors("127.0.0.1:1"),
    ):
        raise call


@pytest.mark.parametrize(
    ("details", "words"),
    [
        (
            "failed to connect to all addresses; last error: UNKNOWN: "
            "ipv4:127.0.0.1:7400: Failed to connect to remote host: Connection refused",
            "connection refused",
        ),
        (
            "failed to connect to all addresses; last error: FAILED_PRECONDITION: "
            "unix:/x.sock: connect failed: addr: unix:/x.sock error: No such file or "
            "directory",
            "no such file or directory",
        ),
        (
            "failed to connect to all addresses; last error: UNKNOWN: ipv4:1.2.3.4:1: "
            "Ssl handshake failed: SSL_ERROR_SSL: error:1000007d:SSL routines",
            "the TLS handshake failed",
        ),
        (
            "failed to connect to all addresses; last error: UNKNOWN: ipv4:1.2.3.4:1: "
            "Timeout occurred: FD shutdown",
            "no connection could be made",
        ),
        (
            "DNS resolution failed for nosuch:1: C-ares status is not ARES_SUCCESS",
            "its name cannot be resolved",
        ),
    ],
)
def test_no_text_of_grpc_says_why_nobody_answered(details: str, words: str) -> None:
    error = error_of_rpc(RefusedCall(grpc.StatusCode.UNAVAILABLE, details), "a")
    assert str(error) == f"coordinator 'a' did not answer: {words}"
    assert error.hint


@pytest.mark.parametrize("code", grpc.StatusCode)
def test_a_call_that_ends_otherwise_is_told_without_texts_of_grpc(
    code: grpc.StatusCode,
) -> None:
    text = f"{error_of_rpc(RefusedCall(code, 'Method not found!'), 'a')}"
    assert "Method" not in text
    assert code.name not in text
    no_answer = code is grpc.StatusCode.DEADLINE_EXCEEDED
    assert ("no answer in time" in text) == no_answer


BAD_FAILURES = [
    Failure(error_class="FleetError", message="m", values_json="{"),
    Failure(error_class="FleetError", message="m", values_json="[1]"),
    Failure(error_class="FleetError", message="m", values_json="[" * 100_000),
    Failure(error_class="JobErrors", values_json='{"faults": {"class": 1}}'),
]


@pytest.mark.parametrize("failure", BAD_FAILURES, ids=["cut", "list", "deep", "inner"])
def test_a_nonsensical_failure_is_an_error_of_its_own(failure: Failure) -> None:
    assert isinstance(error_of(failure), ProtocolError)


def test_a_hint_that_is_no_text_is_dropped() -> None:
    failure = failure_message(FleetError("m"))
    failure.values_json = '{"hint": [1, 2]}'
    assert error_of(failure).hint is None


def test_an_unknown_class_arrives_as_the_root() -> None:
    error = error_of(Failure(error_class="Newer", message="m", values_json="{}"))
    assert type(error) is LdapSlamError
    assert str(error) == "m"


def test_garbage_in_the_metadata_is_an_error_of_its_own() -> None:
    metadata = ((FAILURE_KEY, b"\xff\xff"),)
    call = RefusedCall(grpc.StatusCode.UNKNOWN, "x", metadata)
    assert isinstance(error_of_rpc(call, "a"), ProtocolError)


def test_very_many_faults_still_fit_into_the_metadata() -> None:
    faults = [JobError("x" * 5000, file="a.yaml", line=n) for n in range(1000)]
    _, text, ((_, packed),) = status_of(JobErrors(faults))
    assert len(packed) < 1024 * 1024
    assert len(text) <= 1000
