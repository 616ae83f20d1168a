# SPDX-License-Identifier: Apache-2.0
"""Servers that misbehave: counted, survived, and left behind in time."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from support.engine import (
    FAILED,
    MS,
    RESPONSE_TIME,
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
    INTERMEDIATE,
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
    never,
    notice_of_disconnection,
    page,
    reference,
    reset,
    result,
    send_and_close,
    send_and_stay,
    tlv,
    with_controls,
)

_MAX_PDU_BYTES = 1 << 20
#: Every result code of RFC 4511, appendix A, and canceled of RFC 3909.
RESULT_CODES = [
    *(0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 21, 32),
    *(33, 34, 36, 48, 49, 50, 51, 52, 53, 54, 64, 65, 66, 67, 68, 69, 71, 80, 118),
]


def outcome_after_ten(
    behaviour: Behaviour, *, is_open: bool = False, **changes: Any
) -> Result:
    """A short run against a server that answers ten requests on each
    connection and then does its worst."""
    before = time.monotonic()
    with FakeLdap(AfterSome(10, then=behaviour)) as server:
        load = (
            open_stream(server.uri, 1000, **changes)
            if is_open
            else stream(server.uri, think_time_ns=MS, **changes)
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
    outcome = outcome_after_ten(send_and_stay(make))
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
    outcome = outcome_after_ten(behaviour, is_open=is_open)
    lost = outcome.stream_count("disconnects")
    assert lost >= 4
    assert outcome.stream_count("protocol_errors") == 0
    assert outcome.count("unresolved") >= lost
    assert 4 < outcome.stream_count("connects") <= 4 + lost


LOSSES: dict[str, Behaviour] = {
    "lost_idle": send_and_close(result),
    "lost_closed": lambda peer, request: False,
    "lost_reset": reset,
    "lost_silent": never,
    "lost_notice": send_and_close(lambda request: notice_of_disconnection()),
    "lost_invalid": send_and_stay(lambda request: b"\x30\x00"),
}


@pytest.mark.parametrize(("cause", "behaviour"), LOSSES.items(), ids=LOSSES.keys())
def test_losses_have_a_cause_and_say_after_how_many_requests(
    cause: str, behaviour: Behaviour
) -> None:
    outcome = outcome_after_ten(behaviour, request_timeout_ns=50 * MS)
    lost = outcome.stream_count("disconnects")
    assert lost >= 4
    assert outcome.stream_count(cause) == lost
    assert outcome.stream_count("lost_requests") == 11 * lost


def test_answers_in_front_of_the_garbage_still_count() -> None:
    outcome = outcome_after_ten(
        send_and_close(lambda r: entry(r) + result(r) + b"\x00")
    )
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

    fits = outcome_after_ten(of_length(_MAX_PDU_BYTES))
    assert fits.stream_count("protocol_errors") == 0
    assert fits.stream_count("disconnects") == 0
    too_long = outcome_after_ten(of_length(_MAX_PDU_BYTES + 1))
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


# Messages that are well-formed LDAP and still not what was asked for, or not when.


def outcome_of(behaviour: Behaviour, **changes: object) -> Result:
    """A closed loop of four clients for 300 ms, with its books in order."""
    before = time.monotonic()
    with FakeLdap(behaviour) as server:
        settings = {"think_time_ns": MS, **changes}
        outcome = run(stream(server.uri, **settings), grace_ns=200 * MS)
    assert time.monotonic() - before < 10
    return outcome


def test_notices_of_disconnection_with_each_result_code_are_counted() -> None:
    codes = itertools.cycle(RESULT_CODES)
    sent = itertools.count()

    def behaviour(peer: Peer, request: Request) -> bool:
        next(sent)
        return peer.send(notice_of_disconnection(next(codes)) + result(request))

    outcome = outcome_of(behaviour, think_time_ns=0)
    notices = next(sent)
    assert notices >= len(RESULT_CODES)
    # said and not done: the connection serves on
    answered = notices - outcome.count("unresolved")
    assert outcome.count("succeeded") == outcome.stream_count("notices") == answered
    assert outcome.stream_count("disconnects") == 0


# RFC 4511, section 4.4.1: the codes that a server gives a reason with.
@pytest.mark.parametrize("code", [2, 8, 52, 51, 80])
def test_notice_before_a_close_is_counted_with_what_it_cost(code: int) -> None:
    farewell = send_and_close(lambda request: notice_of_disconnection(code))
    outcome = outcome_of(AfterSome(5, then=farewell))
    lost = outcome.stream_count("disconnects")
    assert outcome.stream_count("notices") == lost >= 4
    assert outcome.count("unresolved") == lost
    assert outcome.stream_count("protocol_errors") == 0


UNSOLICITED: dict[str, bytes] = {
    "extended response of no known name": message(
        0, 0x78, ldap_result(0) + tlv(0x8A, b"1.2.3.4")
    ),
    "extended response without a name": message(0, 0x78, ldap_result(0)),
    "entry": message(0, SEARCH_ENTRY, tlv(0x04, b"uid=a") + tlv(0x30, b"")),
    "search result": message(0, 0x65, ldap_result(0)),
    "intermediate": message(0, INTERMEDIATE, b""),
}


@pytest.mark.parametrize("flood", UNSOLICITED.values(), ids=UNSOLICITED.keys())
def test_flood_of_messages_with_id_zero_is_passed_over(flood: bytes) -> None:
    each = 500
    outcome = outcome_of(send_and_stay(lambda request: each * flood + result(request)))
    completed = outcome.count("succeeded")
    assert completed >= 4
    assert outcome.stream_count("notices") == each * completed
    assert outcome.stream_count("disconnects") == 0


# -- not what was asked for ------------------------------------------------------------

OF_ANOTHER_KIND: dict[str, Callable[[Request], bytes]] = {
    "an entry": entry,
    "a reference": reference,
    "a search result": lambda r: message(r.message_id, 0x65, ldap_result(0)),
    "a bind response": lambda r: message(r.message_id, 0x61, ldap_result(0)),
    "an extended response": lambda r: message(r.message_id, 0x78, ldap_result(0)),
}


@pytest.mark.parametrize("make", OF_ANOTHER_KIND.values(), ids=OF_ANOTHER_KIND.keys())
def test_modify_answered_as_another_operation_breaks_the_connection(
    make: Callable[[Request], bytes],
) -> None:
    outcome = outcome_of(AfterSome(5, then=send_and_stay(make)), operations=[modify()])
    errors = outcome.stream_count("protocol_errors")
    assert outcome.stream_count("disconnects") == errors >= 4
    assert outcome.count("unresolved") == errors


def test_intermediate_responses_are_passed_over() -> None:
    def flood(request: Request) -> bytes:
        return 200 * message(request.message_id, INTERMEDIATE, b"") + result(request)

    outcome = outcome_of(send_and_stay(flood))
    assert outcome.count("succeeded") >= 4
    assert outcome.count("entries") == outcome.stream_count("unexpected_messages") == 0


def test_flood_of_references_is_counted_and_never_followed() -> None:
    each = 500
    with FakeLdap(
        send_and_stay(lambda request: each * reference(request) + result(request))
    ) as server:
        outcome = run(stream(server.uri, think_time_ns=MS))
        assert server.connections == 4
    completed = outcome.count("succeeded")
    assert outcome.count("references") == each * completed >= 4 * each


def test_every_result_code_is_data() -> None:
    codes = itertools.cycle(RESULT_CODES)
    outcome = outcome_of(lambda p, r: p.send(result(r, next(codes))), think_time_ns=0)
    seen = outcome.result_codes()
    assert set(seen) == set(RESULT_CODES)
    assert seen[0] == outcome.count("succeeded")
    assert sum(seen.values()) == outcome.count("completed")


@pytest.mark.parametrize("code", [128, 255, 4096, 16_654, 2**31 - 1])
def test_result_code_beyond_any_registry_is_a_failure_like_others(code: int) -> None:
    outcome = outcome_of(send_and_stay(lambda request: result(request, code)))
    failed = outcome.count("failed")
    assert failed == outcome.count("completed") >= 4
    assert sum(outcome.result_codes().values()) == failed
    assert 0 not in outcome.result_codes()
    assert outcome.histogram(RESPONSE_TIME, FAILED).total == failed


def test_diagnostic_message_of_a_megabyte_passes_by() -> None:
    outcome = outcome_of(send_and_stay(lambda r: result(r, 80, b"x" * 1_000_000)))
    assert outcome.result_codes() == {80: outcome.count("failed")}
    assert outcome.count("failed") >= 4


def test_diagnostic_messages_are_made_harmless() -> None:
    said = b"\x1b[2Jno \xff superior\n\0"
    outcome = outcome_of(send_and_stay(lambda r: result(r, 53, said)))
    assert outcome.messages() == {(53, " [2Jno \ufffd superior")}


CONTROLS: dict[str, bytes] = {
    "of zeros": bytes(40),
    "cut short": page(b"cookie")[:-3],
    "longer than themselves": b"\x30\x84\xff\xff\xff\xff" + bytes(10),
    "ten thousand": 10_000 * tlv(0x30, tlv(0x04, b"1.2.3")),
}


@pytest.mark.parametrize("controls", CONTROLS.values(), ids=CONTROLS.keys())
def test_controls_that_nobody_asked_for_are_not_looked_at(controls: bytes) -> None:
    outcome = outcome_of(send_and_stay(lambda r: with_controls(result(r), controls)))
    assert outcome.count("succeeded") == outcome.count("completed") >= 4


# -- not when it was asked for ---------------------------------------------------------


def test_answer_before_any_request_is_unexpected() -> None:
    early = b"".join(message(n, 0x65, ldap_result(0)) for n in (1, 2, 3, 64, 2**31 - 1))
    with FakeLdap(answer, on_connect=lambda peer: peer.send(early)) as server:
        outcome = run(stream(server.uri, think_time_ns=MS))
    assert outcome.count("succeeded") == outcome.count("completed") >= 4
    assert outcome.stream_count("unexpected_messages") == 4 * 5
    assert outcome.stream_count("disconnects") == 0


def test_entries_after_the_result_are_unexpected() -> None:
    outcome = outcome_of(send_and_stay(lambda r: entry(r) + result(r) + 3 * entry(r)))
    completed = outcome.count("succeeded")
    assert outcome.count("entries") == completed >= 4
    late = outcome.stream_count("unexpected_messages")
    # those behind the very last results may come after the end
    assert 3 * (completed - 4) <= late <= 3 * completed


def test_answers_in_reverse_order_find_their_requests() -> None:
    in_flight = 4
    waiting: dict[int, list[Request]] = {}

    def behaviour(peer: Peer, request: Request) -> bool:
        batch = waiting.setdefault(peer.number, [])
        batch.append(request)
        if len(batch) < in_flight:
            return True
        # the code tells which request it belongs to: 32 for the last come
        codes = [0] * (in_flight - 1) + [32]
        answers = [result(r, c) for r, c in zip(batch, codes, strict=True)]
        batch.clear()
        return peer.send(b"".join(reversed(answers)))

    with FakeLdap(behaviour) as server:
        outcome = run(
            open_stream(server.uri, 2000, connections=2, in_flight=in_flight),
            duration_ns=400 * MS,
            grace_ns=100 * MS,
        )
    batches = outcome.count("failed")
    assert batches >= 4
    assert outcome.count("succeeded") == (in_flight - 1) * batches
    assert outcome.stream_count("unexpected_messages") == 0


# -- not in one piece ------------------------------------------------------------------


def test_answer_cut_at_every_place_is_put_together() -> None:
    places = itertools.count(1)

    def behaviour(peer: Peer, request: Request) -> bool:
        data = entry(request) + reference(request) + result(request, 0, b"text")
        place = next(places) % len(data)
        return peer.send(data[:place]) and peer.send(data[place:])

    outcome = outcome_of(behaviour, connections=1, think_time_ns=0)
    completed = outcome.count("succeeded")
    assert completed == outcome.count("entries") == outcome.count("references")
    assert completed > 150  # every place of some 130 bytes


def test_answer_that_comes_too_slowly_times_out() -> None:
    """One byte each 20 ms; the answer has some 60, the time-out is 200 ms."""

    def drip(peer: Peer, request: Request) -> bool:
        data = entry(request) + result(request)
        for i in range(len(data)):
            if not peer.send(data[i : i + 1]) or server_gone.wait(0.02):
                return False
        return True

    server_gone = threading.Event()
    with FakeLdap(drip) as server:
        outcome = run(
            stream(server.uri, connections=1, request_timeout_ns=200 * MS),
            duration_ns=500 * MS,
            grace_ns=100 * MS,
        )
        server_gone.set()
    assert outcome.count("timed_out") >= 1
    assert outcome.count("succeeded") == 0


# -- not to the end --------------------------------------------------------------------


def test_server_that_closes_every_new_connection_is_not_hammered() -> None:
    """Set-up of an anonymous connection ends with TCP's: all that tells it from a good
    one is that it is lost at once."""
    good = 4
    with FakeLdap(
        AfterSome(5, then=lambda peer, request: False),
        on_connect=lambda peer: peer.number < good,
    ) as server:
        outcome = run(
            stream(server.uri, think_time_ns=MS), duration_ns=S, grace_ns=200 * MS
        )
        connections = server.connections
    assert outcome.stream_count("disconnects") >= good
    assert connections < 2_000


def test_broken_answer_costs_what_was_in_flight_and_no_more() -> None:
    """Four are in flight, and the slot that the last answer freed is used again."""
    last = AfterSome(3, then=send_and_close(lambda r: result(r) + b"\x30\x03"))
    with FakeLdap(last) as server:
        outcome = run(
            # more than it can answer: all slots are in use
            open_stream(server.uri, 20_000, in_flight=4),
            duration_ns=300 * MS,
            grace_ns=200 * MS,
        )
    assert outcome.stream_count("protocol_errors") == 0
    assert 4 <= outcome.count("unresolved") <= 4 * outcome.stream_count("disconnects")
