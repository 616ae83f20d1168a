# SPDX-License-Identifier: Apache-2.0
"""Servers that misbehave before the load: on connecting, in TLS, in the bind.

What is refused before the load fails `prepare` with its stage; what is refused while
the load runs is a connection that could not be replaced, counted and tried again.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable

import pytest

from ldapslam.agent._engine import ConnectError
from ldapslam.lab.certificates import Authority
from support.engine import ADMIN, MS, Result, S, connect_error, run, stream
from support.fake_ldap import (
    SEARCH_ENTRY,
    AfterSome,
    Behaviour,
    FakeLdap,
    Greeting,
    Peer,
    Request,
    answer,
    cut,
    entry,
    ldap_result,
    message,
    never,
    notice_of_disconnection,
    result,
    send_and_close,
    send_and_stay,
    tlv,
)
from support.fake_tls import (
    APPLICATION_DATA,
    HANDSHAKE,
    HANDSHAKE_FAILURE,
    INTERNAL_ERROR,
    fatal_alert,
    record,
)


def refusal(uri: str, **changes: object) -> ConnectError:
    """Why `prepare` gives up; it has to, in time."""
    settings = {"connections": 1, "connect_timeout_ns": 500 * MS, **changes}
    before = time.monotonic()
    error = connect_error(uri, **settings)
    assert time.monotonic() - before < 5
    return error


def replaced(server: FakeLdap, **changes: object) -> Result:
    """A run whose connections are lost after some requests each."""
    settings = {"think_time_ns": MS, "connect_timeout_ns": 300 * MS, **changes}
    return run(stream(server.uri, **settings), duration_ns=600 * MS, grace_ns=200 * MS)


# -- binds -----------------------------------------------------------------------------

CREDENTIALS = tlv(0x87, b"\xff\x00" * 500)

BINDS: dict[str, Behaviour] = {
    "never answered": never,
    "closed without an answer": lambda peer, request: False,
    "reset": lambda peer, request: peer.reset(),
    "cut short": send_and_close(lambda r: cut(result(r))),
    "not LDAP": send_and_stay(lambda r: b"SSH-2.0-OpenSSH_9.2\r\n" * 20),
    "of 4 GiB": send_and_stay(lambda r: b"\x30\x84\xff\xff\xff\xff\x02\x01\x01"),
    "of indefinite length": send_and_stay(lambda r: b"\x30\x80\x02\x01\x01" + bytes(9)),
    "of a search": send_and_stay(lambda r: message(r.message_id, 0x65, ldap_result(0))),
    "to another message": send_and_stay(
        lambda r: message(r.message_id + 7, 0x61, ldap_result(0))
    ),
    "an entry": send_and_stay(
        lambda r: message(r.message_id, SEARCH_ENTRY, tlv(0x04, b"") + tlv(0x30, b""))
    ),
    "a notice of disconnection": send_and_close(lambda r: notice_of_disconnection()),
    "in progress": send_and_stay(lambda r: result(r, 14)),
    "in progress with credentials": send_and_stay(
        lambda r: result(r, 14, more=CREDENTIALS)
    ),
    "a referral": send_and_stay(
        lambda r: result(r, 10, more=tlv(0xA3, tlv(0x04, b"ldap://127.0.0.1:1")))
    ),
    "refused": send_and_stay(lambda r: result(r, 53)),
    "refused with a code of no registry": send_and_stay(lambda r: result(r, 9999)),
}


@pytest.mark.parametrize("on_bind", BINDS.values(), ids=BINDS.keys())
def test_bind_that_is_not_answered_as_one_fails_prepare(on_bind: Behaviour) -> None:
    with FakeLdap(answer, on_bind=on_bind) as server:
        error = refusal(server.uri, **ADMIN)
    assert (error.uri, error.stage) == (server.uri, "bind")
    assert error.code != 0
    assert "secret" not in str(error)
    assert error.detail


@pytest.mark.parametrize("on_bind", BINDS.values(), ids=BINDS.keys())
def test_bind_that_fails_under_load_is_counted_and_tried_again(
    on_bind: Behaviour,
) -> None:
    """The first bind of each client succeeds, those of the replacements do not."""

    def first_is_good(peer: Peer, request: Request) -> bool:
        return peer.send(result(request)) if peer.number < 4 else on_bind(peer, request)

    lost = AfterSome(5, then=lambda peer, request: False)
    with FakeLdap(lost, on_bind=first_is_good) as server:
        outcome = replaced(server, **ADMIN)
    assert outcome.stream_count("connects") == 4
    assert outcome.stream_count("connect_failures") >= 4
    assert outcome.count("succeeded") == 20
    assert outcome.count("unresolved") == outcome.stream_count("disconnects") == 4


def test_bind_answered_with_garbage_credentials_is_a_bind_all_the_same() -> None:
    taken = send_and_stay(lambda r: result(r, more=CREDENTIALS))
    with FakeLdap(answer, on_bind=taken) as server:
        outcome = run(stream(server.uri, think_time_ns=MS, **ADMIN))
    assert outcome.count("succeeded") >= 4


# -- the handshake ---------------------------------------------------------------------


def after_hello(data: bytes) -> Greeting:
    """Waits for the client's first words, says its own, and goes."""

    def greet(peer: Peer) -> bool:
        peer.stream.recv(65536)
        peer.send(data)
        return False

    return greet


def silent(peer: Peer) -> bool:
    while peer.stream.recv(65536):
        pass
    return False


HANDSHAKES: dict[str, Greeting] = {
    "closed": lambda peer: False,
    "reset": lambda peer: peer.reset(),
    "no answer to the hello": silent,
    "closed after the hello": after_hello(b""),
    "refused": after_hello(fatal_alert(HANDSHAKE_FAILURE)),
    "broken by an error": after_hello(fatal_alert(INTERNAL_ERROR)),
    "an alert cut short": after_hello(fatal_alert(HANDSHAKE_FAILURE)[:-1]),
    "garbage": after_hello(b"\xff" * 200),
    "LDAP in the clear": after_hello(notice_of_disconnection()),
    "data before its time": after_hello(record(APPLICATION_DATA, bytes(64))),
    "a hello of zeros": after_hello(record(HANDSHAKE, b"\x02\x00\x00\x40" + bytes(64))),
    "a record longer than its bytes": after_hello(b"\x16\x03\x03\x40\x00" + bytes(9)),
}


@pytest.mark.parametrize("greet", HANDSHAKES.values(), ids=HANDSHAKES.keys())
def test_handshake_that_fails_fails_prepare(
    greet: Greeting, authority: Authority
) -> None:
    with FakeLdap(answer, on_connect=greet) as server:
        uri = f"ldaps://127.0.0.1:{server.port}"
        error = refusal(uri, ca_file=str(authority.ca_file))
    assert error.uri == uri
    assert error.stage in ("tls", "connect")
    assert error.detail


@pytest.mark.parametrize("greet", HANDSHAKES.values(), ids=HANDSHAKES.keys())
def test_handshake_that_fails_under_load_is_counted_and_tried_again(
    greet: Greeting, authority: Authority, tls: ssl.SSLContext
) -> None:
    def first_is_good(peer: Peer) -> bool:
        return peer.number < 4 or greet(peer)

    lost = AfterSome(5, then=lambda peer, request: False)
    with FakeLdap(lost, on_connect=first_is_good, tls=tls, tls_at_once=True) as server:
        outcome = replaced(server, ca_file=str(authority.ca_file))
    assert outcome.stream_count("connects") == 4
    assert outcome.stream_count("connect_failures") >= 4
    assert outcome.count("succeeded") == 20


START_TLS: dict[str, Callable[[Request], bytes]] = {
    "refused": lambda r: result(r, 52),
    "granted and answered in the clear": lambda r: result(r) + b"\xff" * 200,
    # what a man in the middle could put behind the server's consent (CVE-2011-0411)
    "granted with an answer injected": lambda r: (
        result(r) + message(r.message_id + 1, 0x61, ldap_result(0))
    ),
    "granted and refused by an alert": lambda r: (
        result(r) + fatal_alert(HANDSHAKE_FAILURE)
    ),
    "answered as a search": lambda r: message(r.message_id, 0x65, ldap_result(0)),
    "never answered": lambda r: b"",
    "granted and no answer to the hello": result,
}


@pytest.mark.parametrize("make", START_TLS.values(), ids=START_TLS.keys())
def test_start_tls_that_fails_fails_prepare(
    make: Callable[[Request], bytes], authority: Authority
) -> None:
    def behaviour(peer: Peer, request: Request) -> bool:
        return peer.send(make(request)) and silent(peer)

    with FakeLdap(answer, on_start_tls=behaviour) as server:
        error = refusal(
            server.uri, start_tls=True, ca_file=str(authority.ca_file), **ADMIN
        )
    assert (error.uri, error.stage) == (server.uri, "tls")


# -- within TLS ------------------------------------------------------------------------


def alert_alone(peer: Peer, request: Request) -> bool:
    peer.tls().alert()
    return False


def alert_within_a_response(peer: Peer, request: Request) -> bool:
    peer.send(cut(entry(request, 1000)))
    peer.tls().alert()
    return False


def alert_and_silence(peer: Peer, request: Request) -> bool:
    """The connection stays, and nothing can come of it."""
    peer.tls().alert()
    peer.tls().below.recv(1)
    return False


def notify_and_close(peer: Peer, request: Request) -> bool:
    peer.tls().end()
    return False


def close_without_notice(peer: Peer, request: Request) -> bool:
    return False


def close_within_a_response(peer: Peer, request: Request) -> bool:
    peer.send(cut(entry(request, 1000)))
    return False


def close_within_a_record(peer: Peer, request: Request) -> bool:
    peer.tls().below.sendall(cut(peer.tls().encrypted(result(request))))
    return False


def forged_record(peer: Peer, request: Request) -> bool:
    peer.tls().below.sendall(record(APPLICATION_DATA, bytes(100)))
    return True


def plain_text(peer: Peer, request: Request) -> bool:
    peer.tls().below.sendall(result(request))
    return True


def reset_within_tls(peer: Peer, request: Request) -> bool:
    return peer.reset()


@pytest.mark.parametrize(
    "behaviour",
    [
        alert_alone,
        alert_within_a_response,
        alert_and_silence,
        notify_and_close,
        close_without_notice,
        close_within_a_response,
        close_within_a_record,
        forged_record,
        plain_text,
        reset_within_tls,
    ],
)
def test_end_of_a_tls_session_is_the_end_of_its_connection(
    behaviour: Behaviour, authority: Authority, tls: ssl.SSLContext
) -> None:
    with FakeLdap(AfterSome(5, then=behaviour), tls=tls, tls_at_once=True) as server:
        outcome = replaced(server, ca_file=str(authority.ca_file))
    lost = outcome.stream_count("disconnects")
    assert lost >= 4
    # and what was in flight when the run ended
    assert lost <= outcome.count("unresolved") <= lost + 4
    assert outcome.count("timed_out") == 0
    assert outcome.count("succeeded") >= 5 * 4
    assert outcome.stream_count("connects") > 4


def in_records_of(size: int) -> Behaviour:
    """The answer in TLS records of `size` bytes of content, each sent by itself."""

    def behaviour(peer: Peer, request: Request) -> bool:
        data = entry(request) + result(request)
        return all(peer.send(data[i : i + size]) for i in range(0, len(data), size))

    return behaviour


def byte_by_byte(peer: Peer, request: Request) -> bool:
    """One record, of which every byte comes in a segment of its own."""
    data = peer.tls().encrypted(entry(request) + result(request))
    for i in range(len(data)):
        peer.tls().below.sendall(data[i : i + 1])
    return True


@pytest.mark.parametrize(
    "behaviour",
    [in_records_of(1), in_records_of(7), byte_by_byte],
    ids=["records of a byte", "records of seven", "one record byte by byte"],
)
def test_answer_in_pieces_of_tls_is_put_together(
    behaviour: Behaviour, authority: Authority, tls: ssl.SSLContext
) -> None:
    with FakeLdap(behaviour, tls=tls, tls_at_once=True) as server:
        outcome = run(
            stream(server.uri, ca_file=str(authority.ca_file), think_time_ns=MS),
            duration_ns=S // 2,
        )
    assert outcome.count("succeeded") == outcome.count("entries") >= 4
    assert outcome.stream_count("disconnects") == 0
