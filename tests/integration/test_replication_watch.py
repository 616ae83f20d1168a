# SPDX-License-Identifier: Apache-2.0
"""A watch of the replication probe: a connection that it lost, and a server whose
search for changes ends."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import ldap
import pytest
from ldap.syncrepl import SyncInfoMessage, SyncRequestControl

from ldapslam.agent.python_jobs.job import Observation
from ldapslam.agent.replication.watch import Watch
from ldapslam.base.errors import TargetError
from ldapslam.jobs.connection_settings import ConnectionSettings
from support.fake_ldap import (
    INTERMEDIATE,
    SEARCH_ENTRY,
    Behaviour,
    FakeLdap,
    Peer,
    Request,
    entry,
    message,
    result,
    tlv,
)
from support.lab import FAST, Lab
from support.relay import Relay
from support.replication import access_of, supplier_of
from support.waiting import wait_until

DN = "uid=user.1,ou=people,dc=example,dc=com"
LIMIT_S = 10.0
REQUEST_TIMEOUT_S = 30.0


class Told(Observation):
    """How it ended."""

    def __init__(self, begun_ns: int) -> None:
        self.begun_ns = begun_ns
        self.received_ns: int | None = None
        self.is_lost = False

    def seen(self, received_ns: int) -> None:
        self.received_ns = received_ns

    def lost(self) -> None:
        self.is_lost = True

    def has_ended(self) -> bool:
        return self.is_lost or self.received_ns is not None


@pytest.fixture(scope="module")
def lab(slapd_installed: None) -> Iterator[Lab]:
    """Its supplier tells of changes, as it has a replica."""
    with Lab(replicas=1, entries=10, choices=FAST) as lab:
        yield lab


@pytest.mark.parametrize("poll_s", [None, 0.02])
def test_marks_of_a_gap_are_lost_and_those_after_it_are_timed(
    lab: Lab, poll_s: float | None
) -> None:
    requests: list[str] = []
    word = f"polled-{poll_s}"
    with (
        Relay(lab.supplier.uri.removeprefix("ldap://")) as relay,
        supplier_of(lab) as c,
    ):

        def write(number: int) -> Told:
            observation = Told(time.monotonic_ns())
            mark = f"{word} {number}".encode()
            c.modify_s(DN, [(ldap.MOD_REPLACE, "description", [mark])])
            return observation

        watch = Watch(
            f"ldap://{relay.address}",
            access_of(lab),
            DN,
            "description",
            word,
            poll_s=poll_s,
            timeout_s=REQUEST_TIMEOUT_S,
            note_request=requests.append,
        )
        watch.open(time.monotonic() + LIMIT_S)
        try:
            first = write(1)
            watch.expect(1, first)
            wait_until(lambda: first.received_ns, "the first mark")
            binds = requests.count("bind")
            relay.reset()
            # expected before the watch comes back, and after it
            early, late = write(2), write(3)
            watch.expect(2, early)
            wait_until(lambda: requests.count("bind") > binds, "a connection")
            wait_until(early.has_ended, "the early mark")
            watch.expect(3, late)
            wait_until(late.has_ended, "the late mark")
            # which is the first one is for the watch to say
            for number in itertools.count(4):
                after = write(number)
                watch.expect(number, after)
                wait_until(after.has_ended, "a later mark")
                if not after.is_lost:
                    break
                assert number < 10_000
        finally:
            watch.close()
    assert (early.is_lost, early.received_ns) == (True, None)
    assert (late.is_lost, late.received_ns) == (True, None)
    assert after.received_ns is not None
    assert 0 < after.received_ns - after.begun_ns < LIMIT_S * 1e9


def root_dse(request: Request) -> bytes:
    """Of a server that knows of RFC 4533."""
    oid = SyncRequestControl.controlType.encode()
    values = tlv(0x04, b"supportedControl") + tlv(0x31, tlv(0x04, oid))
    content = tlv(0x04, b"") + tlv(0x30, tlv(0x30, values))
    return message(request.message_id, SEARCH_ENTRY, content)


def search_commonly(peer: Peer, request: Request) -> bool:
    """As slapd without the overlay, the end of the search after a while."""
    asks_root_dse = request.content.startswith(tlv(0x04, b""))
    peer.send(root_dse(request) if asks_root_dse else entry(request))
    if request.controls:
        time.sleep(0.2)
    return peer.send(result(request))


def watch_of(server: FakeLdap) -> Watch:
    return Watch(
        server.uri,
        ConnectionSettings(),
        DN,
        "description",
        "word",
        poll_s=None,
        timeout_s=REQUEST_TIMEOUT_S,
        note_request=lambda kind: None,
    )


def refuse_reading(peer: Peer, request: Request) -> bool:
    return peer.send(result(request, 50))  # insufficientAccessRights


def search_once_for_changes(peer: Peer, request: Request) -> bool:
    """Later connections ask for changes, and have no answer."""
    if request.content.startswith(tlv(0x04, b"")):
        peer.send(root_dse(request))
    elif request.controls and peer.number > 0:
        return True
    elif request.controls:
        done = tlv(0x80, SyncInfoMessage.responseName.encode())
        return peer.send(message(request.message_id, INTERMEDIATE, done))
    else:
        peer.send(entry(request))
    return peer.send(result(request))


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        # an entry alone does not show that changes will follow
        (search_commonly, "does not tell of changes"),
        (refuse_reading, r"does not let .* be watched"),
    ],
)
def test_a_replica_that_cannot_be_watched_is_an_error_of_the_target(
    behaviour: Behaviour, said: str
) -> None:
    with FakeLdap(behaviour) as server:
        watch = watch_of(server)
        try:
            with pytest.raises(TargetError, match=said):
                watch.open(time.monotonic() + LIMIT_S)
        finally:
            watch.close()


def test_the_end_does_not_wait_for_a_replica_that_does_not_answer() -> None:
    with FakeLdap(search_once_for_changes) as server:
        watch = watch_of(server)
        watch.open(time.monotonic() + LIMIT_S)
        server.drop()
        wait_until(lambda: any(one.controls for one in server.requests[3:]), "a search")
        begun_s = time.monotonic()
        watch.close()
        assert time.monotonic() - begun_s < LIMIT_S
