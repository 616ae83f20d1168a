# SPDX-License-Identifier: Apache-2.0
"""Connections to addresses that somebody else resolved: nothing else is reached."""

from __future__ import annotations

import socket
import ssl
from typing import Any

import pytest

from ldapslam.lab.certificates import Authority
from support.engine import (
    ADMIN,
    MS,
    Result,
    collect,
    connect_error,
    new_engine,
    run,
    sleep_until,
    start,
    stream,
)
from support.fake_ldap import (
    AfterSome,
    FakeLdap,
    Peer,
    Request,
    answer,
    ldap_result,
    message,
    reset,
    result,
    send_and_stay,
    tlv,
)
from support.network import free_port

#: Of no host anywhere (RFC 2606): whoever looks it up finds nothing.
NAME = "ds.example.invalid"
EXTENDED_RESPONSE = 0x78


def named(port: int, addresses: str, **changes: Any) -> dict[str, Any]:
    """Return the arguments of a stream to a host whose name does not resolve."""
    uri = f"{changes.pop('scheme', 'ldap')}://{changes.pop('name', NAME)}:{port}"
    return {"uri": uri, "addresses": [addresses], "connections": 2, **changes}


def assert_loaded(outcome: Result) -> None:
    assert outcome.count("succeeded") > 10


@pytest.mark.parametrize(
    "addresses", ["127.0.0.1/{port}", "127.0.0.2/1 ::1/1 127.0.0.1/{port}"]
)
def test_a_host_is_where_its_addresses_are_and_is_not_looked_up(addresses: str) -> None:
    with FakeLdap(answer) as server:
        outcome = run(stream(**named(server.port, addresses.format(port=server.port))))
    assert_loaded(outcome)
    assert outcome.stream_count("connects") == 2


def test_an_empty_text_leaves_the_name_to_libldap() -> None:
    with FakeLdap(answer) as server:
        outcome = run(stream(server.uri, addresses=[""]))
    assert_loaded(outcome)
    error = connect_error(**named(server.port, ""))
    assert error.stage == "connect"


def test_lost_connections_come_back_to_the_same_addresses() -> None:
    with FakeLdap(AfterSome(20, reset)) as server:
        outcome = run(stream(**named(server.port, f"127.0.0.1/{server.port}")))
    assert outcome.stream_count("disconnects") > 2
    assert outcome.stream_count("connects") > 2


def test_a_host_is_away_whose_other_address_has_no_route() -> None:
    """What the address says counts that has accepted before."""
    with FakeLdap(answer) as server:
        addresses = f"127.0.0.1/{server.port} 255.255.255.255/1"
        plan = stream(**named(server.port, addresses))
        engine = new_engine([plan], duration_ns=500 * MS)
        sleep_until(start(engine) + 100 * MS)
    outcome = collect(engine)
    assert outcome.stream_count("refused") > 2
    assert outcome.stream_count("no_route") == 0
    assert outcome.stream_count("down_ns") > 2 * 300 * MS


@pytest.mark.parametrize(
    "addresses", ["127.0.0.1/{port}", "nonsense", "127.0.0.1", "/", " ", "x" * 200]
)
def test_without_an_address_that_accepts_the_set_up_fails(addresses: str) -> None:
    error = connect_error(**named(389, addresses.format(port=free_port())))
    assert (error.uri, error.stage) == (f"ldap://{NAME}:389", "connect")
    assert "Can't contact LDAP server" in error.detail


def test_a_silent_address_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        port = full.getsockname()[1]
        # one waits to be accepted; the kernel answers nobody else
        with socket.create_connection(("127.0.0.1", port)):
            settings = named(port, f"127.0.0.1/{port}")
            error = connect_error(**settings, connect_timeout_ns=200 * MS)
    assert error.stage == "connect"
    assert "timed out" in error.detail


# -- TLS knows the host by its name ----------------------------------------------------


@pytest.mark.parametrize("start_tls", [False, True], ids=["ldaps", "start_tls"])
def test_the_certificate_must_be_of_the_name_not_of_the_address(
    tls: ssl.SSLContext, authority: Authority, start_tls: bool
) -> None:
    with FakeLdap(answer, tls=tls, tls_at_once=not start_tls) as server:
        chosen = {
            "scheme": "ldap" if start_tls else "ldaps",
            "start_tls": start_tls,
            "ca_file": str(authority.ca_file),
            **ADMIN,
        }
        where = f"127.0.0.1/{server.port}"
        outcome = run(stream(**named(server.port, where, name="[::1]", **chosen)))
        # the certificate is of 127.0.0.1, too; what counts is the name
        error = connect_error(**named(server.port, where, **chosen))
    assert_loaded(outcome)
    assert outcome.facts["kernel_stamps"] is True
    assert error.stage in ("tls", "connect")


# -- libldap makes no connection of its own --------------------------------------------


def test_a_connection_that_is_lost_before_the_bind_is_not_replaced_behind_our_back(
    tls: ssl.SSLContext, authority: Authority
) -> None:
    """libldap would connect again, without TLS, and send the password in the clear."""
    passwords: list[bytes] = []

    def note(peer: Peer, request: Request) -> bool:
        passwords.append(request.content)
        return peer.send(result(request))

    def promise_and_leave(peer: Peer, request: Request) -> bool:
        response = message(request.message_id, EXTENDED_RESPONSE, ldap_result(0))
        return peer.send(response) and False

    with FakeLdap(answer, on_bind=note, on_start_tls=promise_and_leave) as server:
        for addresses in ("", f"127.0.0.1/{server.port}"):
            before = server.connections
            connect_error(
                server.uri,
                addresses=[addresses],
                connections=1,
                start_tls=True,
                ca_file=str(authority.ca_file),
                **ADMIN,
            )
            assert server.connections == before + 1
    assert passwords == []


@pytest.mark.parametrize("addresses", ["", "127.0.0.1/{port}"], ids=["name", "address"])
def test_a_referral_to_elsewhere_is_counted_and_not_followed(addresses: str) -> None:
    with FakeLdap(answer) as elsewhere:
        uri = f"ldap://127.0.0.1:{elsewhere.port}/dc=example,dc=com".encode()
        # [3] Referral, a sequence of URIs (RFC 4511 section 4.1.9)
        refer = send_and_stay(lambda r: result(r, 10, more=tlv(0xA3, tlv(0x04, uri))))
        with FakeLdap(refer, on_bind=refer) as server:
            where = addresses.format(port=server.port)
            outcome = run(stream(server.uri, addresses=[where]))
            error = connect_error(server.uri, addresses=[where], **ADMIN)
        assert outcome.result_codes() == {10: outcome.count("failed")}
        assert outcome.stream_count("connects") == 4
        assert error.code == 10
        assert elsewhere.connections == 0
