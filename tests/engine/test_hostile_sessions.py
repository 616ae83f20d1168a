# SPDX-License-Identifier: Apache-2.0
"""Servers that lie to a session: in what it takes out of one response for the next
request. What cannot be used fails the request, and ends the session there."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from typing import Any

import pytest

from support.engine import (
    MS,
    Result,
    S,
    literal,
    nested,
    paged_search,
    run,
    sasl_bind,
    search,
    stream,
    value,
    variable,
)
from support.fake_ldap import (
    MODIFY_REQUEST,
    SEARCH_ENTRY,
    SEARCH_REQUEST,
    Behaviour,
    FakeLdap,
    Peer,
    Request,
    cut,
    entry,
    message,
    page,
    reference,
    result,
    send_and_stay,
    tlv,
    with_controls,
)

_VARIABLE_MAX = 2_044
_PAGED_RESULTS = tlv(0x04, b"1.2.840.113556.1.4.319")


def ended(settings: dict[str, Any], duration_ns: int = 150 * MS) -> Result:
    before = time.monotonic()
    outcome = run(settings, duration_ns=duration_ns, grace_ns=200 * MS)
    assert time.monotonic() - before < 10
    return outcome


# -- paged results ---------------------------------------------------------------------


def paged(uri: str, **changes: Any) -> dict[str, Any]:
    settings = {"variables": 1, "think_time_ns": 5 * MS, **changes}
    return stream(uri, operations=[paged_search(0)], **settings)


def cookie_of(request: Request) -> bytes:
    """What the client sent; its request's last octets, in the control's value."""
    whole = request.controls.partition(b"\x02\x01\x0a\x04")[2]
    assert whole
    if whole[0] < 0x80:
        return whole[1 : 1 + whole[0]]
    start = 1 + (whole[0] & 0x7F)
    return whole[start : start + int.from_bytes(whole[1:start], "big")]


def test_cookie_that_never_ends_is_a_page_each_and_ends_with_the_run() -> None:
    behaviour = send_and_stay(lambda r: with_controls(result(r), page(b"more")))
    with FakeLdap(behaviour) as server:
        outcome = ended(paged(server.uri, connections=2))
        requests = list(server.requests)
    assert outcome.count("succeeded") >= 10
    assert sum(cookie_of(r) == b"" for r in requests) == 2  # one search per client
    assert {cookie_of(r) for r in requests} == {b"", b"more"}


@pytest.mark.parametrize(
    "cookie",
    [b"\0", b"\xff" * 127, b"\x30\x84" * 64, b"x" * _VARIABLE_MAX],
    ids=["zero", "127 bytes", "looks like BER", "as long as can be"],
)
def test_cookie_goes_back_as_it_came(cookie: bytes) -> None:
    def two_pages(peer: Peer, request: Request) -> bool:
        following = b"" if cookie_of(request) else cookie
        last = with_controls(result(request), page(following))
        return peer.send(entry(request) + last)

    with FakeLdap(two_pages) as server:
        outcome = ended(paged(server.uri))
        cookies = [cookie_of(r) for r in server.requests]
    assert outcome.count("failed") == 0
    assert set(cookies) == {b"", cookie}
    assert abs(cookies.count(cookie) - cookies.count(b"")) <= 4


TOO_LONG: dict[str, bytes] = {
    "one byte more than fits": b"x" * (_VARIABLE_MAX + 1),
    "1 MiB": b"x" * (1 << 20),
}


@pytest.mark.parametrize("cookie", TOO_LONG.values(), ids=TOO_LONG.keys())
def test_cookie_too_long_to_send_back_fails_the_search(cookie: bytes) -> None:
    behaviour = send_and_stay(lambda r: with_controls(result(r), page(cookie)))
    with FakeLdap(behaviour) as server:
        outcome = ended(paged(server.uri))
        assert {cookie_of(r) for r in server.requests} == {b""}
    assert outcome.count("failed") == outcome.count("completed") >= 4
    assert outcome.stream_count("protocol_errors") == 0


# tlv(0x04, oid) + [criticality] + tlv(0x04, value)
PAGE_CONTROLS: dict[str, bytes] = {
    "none": b"",
    "cut short": page(b"more")[:-2],
    "without a value": tlv(0x30, _PAGED_RESULTS),
    "with an empty value": tlv(0x30, _PAGED_RESULTS + tlv(0x04, b"")),
    "without a cookie": tlv(
        0x30, _PAGED_RESULTS + tlv(0x04, tlv(0x30, tlv(0x02, b"\0")))
    ),
    "with a cookie longer than itself": tlv(
        0x30,
        _PAGED_RESULTS + tlv(0x04, tlv(0x30, tlv(0x02, b"\0") + b"\x04\x7fmore")),
    ),
    "with a cookie of 4 GiB": tlv(
        0x30,
        _PAGED_RESULTS
        + tlv(0x04, tlv(0x30, tlv(0x02, b"\0") + b"\x04\x84\xff\xff\xff\xffmore")),
    ),
    "of another type": page(b"more").replace(b".319", b".320"),
    "of zeros": bytes(30),
}


@pytest.mark.parametrize("control", PAGE_CONTROLS.values(), ids=PAGE_CONTROLS.keys())
def test_page_without_a_sound_control_is_the_last(control: bytes) -> None:
    behaviour = send_and_stay(lambda r: with_controls(result(r), control))
    with FakeLdap(behaviour) as server:
        outcome = ended(paged(server.uri))
        assert {cookie_of(r) for r in server.requests} == {b""}
    assert outcome.count("succeeded") == outcome.count("completed") >= 4


# -- captures --------------------------------------------------------------------------


def modify_captured() -> dict[str, Any]:
    """Modifies the entry whose DN is in variable 0."""
    changes = b"\x30\x0b\x30\x09\x0a\x01\x02\x30\x04\x04\x00\x31\x00"
    return {
        "name": "modify",
        "response_tag": 0x67,
        "program": nested(0x66, nested(0x04, value(0)), literal(changes)),
        "values": [variable(0)],
    }


def search_then_modify(uri: str, attribute: bytes = b"") -> dict[str, Any]:
    operations = [search(captures=[(0, attribute)]), modify_captured()]
    return stream(
        uri,
        operations=operations,
        scripts=[(1, [(0, 0), (1, 0)])],
        variables=1,
        think_time_ns=2 * MS,
    )


def entries_then_result(make: Callable[[Request], bytes]) -> Behaviour:
    def behaviour(peer: Peer, request: Request) -> bool:
        found = make(request) if request.tag == SEARCH_REQUEST else b""
        return peer.send(found + result(request))

    return behaviour


def modified_dns(server: FakeLdap) -> set[bytes]:
    """The DNs of all modify requests."""
    dns = set()
    for request in server.requests:
        if request.tag == MODIFY_REQUEST:
            size, start = request.content[1], 2
            if size >= 0x80:
                start += size & 0x7F
                size = int.from_bytes(request.content[2:start], "big")
            dns.add(request.content[start : start + size])
    return dns


DNS: dict[str, bytes] = {
    "empty": b"",
    "zeros": bytes(50),
    "not UTF-8": b"uid=\xff\xfe\x80,dc=example",
    "no DN at all": b"]]><script>'; DROP TABLE entries; --",
    "looks like BER": b"\x30\x84\xff\xff\xff\xff\x02\x01",
    "a pattern": b"uid=[0-999],[file:/etc/passwd]",
    "as long as can be": b"x" * _VARIABLE_MAX,
}


def dn_alone(dn: bytes) -> Callable[[Request], bytes]:
    return lambda request: entry(request, dn=dn)


def many_entries(request: Request) -> bytes:
    return b"".join(entry(request, dn=b"uid=%d" % n) for n in range(500))


def large_entry(request: Request) -> bytes:
    """A photograph of 300 kB comes in several reads; the DN is in the first."""
    return entry(request, 300_000)


def unsound_entry(content: bytes) -> Callable[[Request], bytes]:
    return lambda request: message(request.message_id, SEARCH_ENTRY, content)


def attributes(*pairs: tuple[bytes, bytes]) -> Callable[[Request], bytes]:
    """An entry with these attributes, each with a SET of this content."""
    content = b"".join(
        tlv(0x30, tlv(0x04, name) + tlv(0x31, values)) for name, values in pairs
    )
    return unsound_entry(tlv(0x04, b"uid=a") + tlv(0x30, content))


SEE_ALSO = tlv(0x04, b"uid=b")


#: Entries, the attribute that is captured (none: the DN), and the octets that go back.
CAPTURED: dict[str, tuple[Callable[[Request], bytes], bytes, bytes]] = {
    **{name: (dn_alone(dn), b"", dn) for name, dn in DNS.items()},
    "the first of many": (many_entries, b"", b"uid=0"),
    "of a large entry": (large_entry, b"", b"uid=a,dc=example,dc=com"),
    "by its name in any case": (
        attributes((b"cn", tlv(0x04, b"no")), (b"SEEalso", SEE_ALSO)),
        b"seeAlso",
        b"uid=b",
    ),
}


@pytest.mark.parametrize(
    ("make", "attribute", "captured"), CAPTURED.values(), ids=CAPTURED.keys()
)
def test_what_is_captured_is_octets_that_go_back_as_they_came(
    make: Callable[[Request], bytes], attribute: bytes, captured: bytes
) -> None:
    with FakeLdap(entries_then_result(make)) as server:
        outcome = ended(search_then_modify(server.uri, attribute))
        assert modified_dns(server) == {captured}
    assert outcome.count("failed", operation=0) == 0
    assert outcome.count("succeeded", operation=1) >= 4
    assert outcome.count("captures_missing") == 0


NO_DN: dict[str, Callable[[Request], bytes]] = {
    "no entry": lambda request: b"",
    "a reference alone": reference,
    "an entry of no bytes": unsound_entry(b""),
    "a DN longer than its entry": unsound_entry(b"\x04\x7fuid=a"),
    "a DN of 4 GiB": unsound_entry(b"\x04\x84\xff\xff\xff\xffuid=a"),
    "a DN of indefinite length": unsound_entry(b"\x04\x80uid=a\x00\x00"),
    "a number in its place": unsound_entry(tlv(0x02, b"\x01") + tlv(0x30, b"")),
    "a DN that is too long": dn_alone(b"x" * (_VARIABLE_MAX + 1)),
    "a DN of 1 MiB": dn_alone(b"x" * (1 << 20)),
}
NO_ATTRIBUTE: dict[str, Callable[[Request], bytes]] = {
    "no attribute": attributes(),
    "no value": attributes((b"seeAlso", b"")),
    "a longer name": attributes((b"seeAlsoToo", SEE_ALSO)),
    "a shorter name": attributes((b"seeAls", SEE_ALSO)),
    "a value longer than its set": attributes((b"seeAlso", b"\x04\x7fuid=b")),
    "a number for a value": attributes((b"seeAlso", tlv(0x02, b"\x01"))),
    "attributes cut short": lambda r: message(
        r.message_id,
        SEARCH_ENTRY,
        tlv(0x04, b"uid=a") + b"\x30\x7f" + cut(tlv(0x04, b"seeAlso")),
    ),
}


@pytest.mark.parametrize(
    ("make", "attribute"),
    [pytest.param(make, b"", id=name) for name, make in NO_DN.items()]
    + [pytest.param(make, b"seeAlso", id=name) for name, make in NO_ATTRIBUTE.items()],
)
def test_search_that_gives_nothing_to_go_on_with_fails(
    make: Callable[[Request], bytes], attribute: bytes
) -> None:
    with FakeLdap(entries_then_result(make)) as server:
        outcome = ended(search_then_modify(server.uri, attribute))
        assert modified_dns(server) == set()
    searches = outcome.count("completed", operation=0)
    assert outcome.count("failed", operation=0) == searches >= 4
    assert outcome.count("captures_missing", operation=0) == searches
    assert outcome.count("scheduled", operation=1) == 0
    assert outcome.stream_count("disconnects") == 0


# -- SASL binds as the load ------------------------------------------------------------


def sasl_binds(uri: str, mechanism: str = "SCRAM-SHA-256") -> dict[str, Any]:
    return stream(
        uri, operations=[sasl_bind(mechanism)], variables=3, think_time_ns=5 * MS
    )


def in_progress(credentials: bytes) -> Behaviour:
    return send_and_stay(lambda r: result(r, 14, more=tlv(0x87, credentials)))


CHALLENGES: dict[str, Behaviour] = {
    "in progress for ever": send_and_stay(lambda r: result(r, 14)),
    "an empty challenge": in_progress(b""),
    "garbage": in_progress(b"\xff\x00" * 100),
    "64 kB": in_progress(b"x" * 64_000),
    "a nonce of another": in_progress(b"r=AAAA,s=QSXCR+Q6sek8bf92,i=4096"),
    "a challenge longer than its response": send_and_stay(
        lambda r: message(
            r.message_id,
            0x61,
            tlv(0x0A, b"\x0e") + 2 * tlv(0x04, b"") + b"\x87\x84\x7f\xff\xff\xff",
        )
    ),
    "a refusal": send_and_stay(lambda r: result(r, 49)),
}


@pytest.mark.parametrize("on_bind", CHALLENGES.values(), ids=CHALLENGES.keys())
def test_sasl_exchange_that_leads_nowhere_is_a_failed_bind(on_bind: Behaviour) -> None:
    with FakeLdap(lambda peer, request: True, on_bind=on_bind) as server:
        outcome = ended(sasl_binds(server.uri))
    assert outcome.count("succeeded") == 0
    assert outcome.count("failed") == outcome.count("completed") >= 4
    assert outcome.stream_count("protocol_errors") == 0


def client_nonce(request: Request) -> bytes:
    return request.content.partition(b",r=")[2]


def test_iterations_by_the_thousand_million_do_not_stop_the_engine() -> None:
    """RFC 5802 leaves it to the server how often the client is to hash."""

    def costly(peer: Peer, request: Request) -> bool:
        salt = base64.b64encode(b"salt" * 4)
        nonce = client_nonce(request) + b"server"
        challenge = b"r=" + nonce + b",s=" + salt + b",i=2147483647"
        return peer.send(result(request, 14, more=tlv(0x87, challenge)))

    with FakeLdap(lambda peer, request: True, on_bind=costly) as server:
        outcome = ended(sasl_binds(server.uri), duration_ns=S // 2)
    assert outcome.count("succeeded") == 0


def test_password_of_plain_is_sent_once_and_a_challenge_ends_it() -> None:
    seen = []

    def once_more(peer: Peer, request: Request) -> bool:
        seen.append(request.content)
        return peer.send(result(request, 14, more=tlv(0x87, b"and again?")))

    with FakeLdap(lambda peer, request: True, on_bind=once_more) as server:
        outcome = ended(sasl_binds(server.uri, "PLAIN"))
    assert outcome.count("failed") >= 4
    assert all(b"\0user\0pencil" in content for content in seen)
    assert len(seen) == outcome.count("requests")
