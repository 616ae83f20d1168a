# SPDX-License-Identifier: Apache-2.0
"""Servers that misbehave: counted, survived, and left behind in time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

import pytest

from support.engine import (
    MS,
    Result,
    S,
    literal,
    modify,
    nested,
    open_stream,
    run,
    stream,
)
from support.fake_ldap import (
    MODIFY_REQUEST,
    SEARCH_ENTRY,
    AfterSome,
    Behaviour,
    FakeLdap,
    Peer,
    Request,
    answer,
    cut,
    entry,
    ldap_result,
    message,
    reset,
    result,
    send_and_close,
    send_and_stay,
    tlv,
)

_MAX_PDU_BYTES = 1 << 20


def outcome_of(behaviour: Behaviour, *, is_open: bool = False) -> Result:
    """A short run against a server that answers ten requests on each
    connection and then does its worst."""
    before = time.monotonic()
    with FakeLdap(AfterSome(10, then=behaviour)) as server:
        load = (
            open_stream(server.uri, 1000)
            if is_open
            else stream(server.uri, think_time_ns=MS)
        )
        outcome = run(
            load,
            duration_ns=400 * MS,
            grace_ns=200 * MS,
            max_pdu_bytes=_MAX_PDU_BYTES,
        )
    assert time.monotonic() - before < 10
    assert outcome.count("succeeded") >= 40  # ten on each of four connections
    return outcome


NOT_LDAP: dict[str, Callable[[Request], bytes]] = {
    "text": lambda request: b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "zeros": lambda request: bytes(100),
    "ones": lambda request: b"\xff" * 100,
    "message longer than the limit": lambda r: b"\x30\x83\x10\x00\x01" + bytes(100),
    "message of 4 GiB": lambda r: b"\x30\x84\xff\xff\xff\xff\x02\x01\x01",
    "length of 8 bytes": lambda r: b"\x30\x88" + b"\xff" * 8,
    "indefinite length": lambda r: b"\x30\x80\x02\x01\x01\x65\x00\x00\x00",
    "empty message": lambda r: b"\x30\x00",
    "message id of five bytes": lambda r: tlv(
        0x30, b"\x02\x05" + bytes(5) + b"\x65\x00"
    ),
    "negative message id": lambda r: tlv(0x30, b"\x02\x01\xff\x65\x00"),
    "operation longer than its message": lambda r: b"\x30\x05\x02\x01\x01\x65\x7f",
    "result without a code": lambda r: message(r.message_id, 0x65, b""),
    "result with a negative code": lambda r: message(
        r.message_id, 0x65, tlv(0x0A, b"\x80") + tlv(0x04, b"") * 2
    ),
    "a request": lambda r: message(r.message_id, 0x63, ldap_result(0)),
    "response of another operation": lambda r: message(
        r.message_id, 0x67, ldap_result(0)
    ),
}


@pytest.mark.parametrize("make", NOT_LDAP.values(), ids=NOT_LDAP.keys())
def test_bytes_that_are_no_response_break_the_connection_and_are_counted(
    make: Callable[[Request], bytes],
) -> None:
    outcome = outcome_of(send_and_stay(make))
    errors = outcome.stream_count("protocol_errors")
    assert errors >= 4
    assert outcome.stream_count("disconnects") == errors
    assert outcome.count("unresolved") >= errors  # each took a request with it
    assert outcome.count("timed_out") == 0
    assert outcome.stream_count("connects") > 4  # and was replaced


def half_close(peer: Peer, request: Request) -> bool:
    peer.stream.shutdown(socket.SHUT_WR)
    return True  # and reads on


def reset_within_a_response(peer: Peer, request: Request) -> bool:
    peer.send(entry(request) + cut(result(request)))
    return peer.reset()


ENDS: dict[str, Behaviour] = {
    "closed without an answer": lambda peer, request: False,
    "closed within an entry": send_and_close(lambda r: cut(entry(r, 1000))),
    "closed between entry and result": send_and_close(entry),
    "closed within the result": send_and_close(lambda r: entry(r) + cut(result(r))),
    "closed within the first length": send_and_close(lambda r: b"\x30\x82\x01"),
    "closed one way": half_close,
    "reset": reset,
    "reset within the result": reset_within_a_response,
}


@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "open"])
@pytest.mark.parametrize("behaviour", ENDS.values(), ids=ENDS.keys())
def test_connection_that_ends_in_mid_response_leaves_its_requests_unresolved(
    behaviour: Behaviour, is_open: bool
) -> None:
    outcome = outcome_of(behaviour, is_open=is_open)
    lost = outcome.stream_count("disconnects")
    assert lost >= 4
    assert outcome.stream_count("protocol_errors") == 0
    assert outcome.count("unresolved") >= lost
    assert 4 < outcome.stream_count("connects") <= 4 + lost


def test_answers_in_front_of_the_garbage_still_count() -> None:
    outcome = outcome_of(send_and_close(lambda r: entry(r) + result(r) + b"\x00"))
    assert outcome.stream_count("protocol_errors") >= 4
    assert outcome.count("unresolved") == 0
    assert outcome.count("entries") == outcome.count("succeeded")


def test_message_ids_that_nobody_asked_for_are_counted_and_passed_over() -> None:
    def behaviour(peer: Peer, request: Request) -> bool:
        strangers = [request.message_id + 1, request.message_id + 4096, 1, 2**31 - 1]
        unexpected = b"".join(
            message(number, 0x65, ldap_result(0)) for number in strangers
        )
        return peer.send(unexpected + entry(request) + result(request))

    with FakeLdap(behaviour) as server:
        outcome = run(stream(server.uri))
    completed = outcome.count("succeeded")
    assert completed > 10
    assert outcome.stream_count("unexpected_messages") == 4 * completed
    assert outcome.stream_count("disconnects") == 0


@pytest.mark.parametrize("second_code", [0, 80])
def test_answer_that_comes_twice_is_counted_once(second_code: int) -> None:
    twice = send_and_stay(lambda r: result(r) + result(r, second_code))
    with FakeLdap(twice) as server:
        outcome = run(stream(server.uri, think_time_ns=5 * MS))
    completed = outcome.count("succeeded")
    assert completed == len(server.requests)
    assert outcome.result_codes() == {0: completed}
    # the second of the very last may come after the end
    assert completed - 4 <= outcome.stream_count("unexpected_messages") <= completed


def test_entry_as_long_as_the_limit_is_taken_and_one_byte_more_is_not() -> None:
    def padded(request: Request, total: int) -> bytes:
        # head of 5 bytes, messageID of 3 to 5, operation's head of 5
        for filler in range(total - 20, total):
            data = message(request.message_id, SEARCH_ENTRY, bytes(filler))
            if len(data) == total:
                return data
        raise AssertionError

    def of_length(total: int) -> Behaviour:
        return send_and_stay(lambda r: padded(r, total) + result(r))

    fits = outcome_of(of_length(_MAX_PDU_BYTES))
    assert fits.stream_count("protocol_errors") == 0
    assert fits.stream_count("disconnects") == 0
    too_long = outcome_of(of_length(_MAX_PDU_BYTES + 1))
    assert too_long.stream_count("protocol_errors") >= 4


def test_answer_in_single_bytes_is_put_together() -> None:
    def behaviour(peer: Peer, request: Request) -> bool:
        data = entry(request) + result(request)
        return all(peer.send(data[i : i + 1]) for i in range(len(data)))

    with FakeLdap(behaviour) as server:
        outcome = run(stream(server.uri, connections=1))
    assert outcome.count("entries") == outcome.count("succeeded") > 3


def test_endless_stream_of_entries_ends_with_the_run() -> None:
    def flood(peer: Peer, request: Request) -> bool:
        batch = entry(request, 100) * 1000
        while peer.send(batch):
            pass
        return False

    before = time.monotonic()
    with FakeLdap(flood) as server:
        outcome = run(
            stream(server.uri, connections=1, request_timeout_ns=300 * MS),
            duration_ns=1000 * MS,
            grace_ns=100 * MS,
        )
    assert time.monotonic() - before < 10
    assert outcome.count("timed_out") >= 1
    assert outcome.count("entries") > 1000
    ends = [s["end_ns"] for s in outcome.snapshots]
    assert ends[-1] < 2 * S


@pytest.mark.parametrize("in_flight", [1, 16])
def test_peer_that_stops_reading_is_given_up_with_its_request(in_flight: int) -> None:
    """Its connection takes nothing more: the next ones would wait for ever."""
    over = threading.Event()

    def deaf_at_first(peer: Peer, request: Request) -> bool:
        if peer.number > 0:
            return answer(peer, request)
        over.wait(10)
        return False

    # more than two sockets hold
    program = nested(MODIFY_REQUEST, literal(tlv(0x04, bytes(1 << 19))))
    large = {**modify(), "program": program, "values": []}
    with FakeLdap(deaf_at_first) as server:
        outcome = run(
            open_stream(
                server.uri,
                50,
                connections=1,
                in_flight=in_flight,
                request_timeout_ns=300 * MS,
                operations=[large],
            ),
            duration_ns=1500 * MS,
            grace_ns=200 * MS,
        )
        over.set()
    assert outcome.stream_count("disconnects") == 1
    assert outcome.stream_count("connects") == 2
    assert outcome.count("timed_out") >= 1
    assert outcome.count("succeeded") > 10


def test_server_that_never_reads_stalls_its_own_connections_only() -> None:
    def stop_reading(peer: Peer, request: Request) -> bool:
        time.sleep(1.5)
        return False

    with FakeLdap(stop_reading) as deaf, FakeLdap(answer) as server:
        outcome = run(
            open_stream("", 500, uris=[deaf.uri, server.uri], max_backlog=100),
            duration_ns=600 * MS,
            grace_ns=100 * MS,
        )
    assert outcome.count("completed") > 200
    assert outcome.count("unresolved") == 8  # two connections, four each
