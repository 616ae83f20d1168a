# SPDX-License-Identifier: Apache-2.0
"""Joining by token over the wire: once, by its bearer, and renewed before its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import grpc
import pytest

from ldapslam.base.errors import (
    AccessRefused,
    ConfigError,
    CoordinatorUnreachable,
    LdapSlamError,
)
from ldapslam.proto import enrolment_pb2, operator_pb2
from ldapslam.proto.enrolment_pb2_grpc import EnrolmentServiceStub
from ldapslam.proto.operator_pb2_grpc import OperatorServiceStub
from ldapslam.results import audit
from ldapslam.results.store import Store
from ldapslam.transport import enrolment
from ldapslam.transport.codec import error_of_rpc
from ldapslam.transport.credentials import aio_channel, trusting_channel
from ldapslam.transport.enrolment import identity_files, join, keep_renewed
from ldapslam.transport.pki.authority import JOINED_LIFETIME, Authority
from ldapslam.transport.pki.certificate import Role, build_request, new_key
from ldapslam.transport.pki.token import JoinToken
from support.secure_coordinator import SecureCoordinator

HOUR = timedelta(hours=1)


@pytest.fixture
def made(
    make_secure_coordinator: Callable[[], SecureCoordinator],
) -> Iterator[SecureCoordinator]:
    """Its own for each test: names have one holder at a time."""
    coordinator = make_secure_coordinator()
    with coordinator.served():
        yield coordinator


def enrol(made: SecureCoordinator, proof: str, request_pem: bytes) -> LdapSlamError:
    """What a stranger's call is refused with."""
    with trusting_channel(
        made.enrolment_address, made.authority.authority_pem
    ) as channel:
        stub = EnrolmentServiceStub(channel)  # type: ignore[no-untyped-call]
        request = enrolment_pb2.EnrolRequest(token=proof, request_pem=request_pem)
        with pytest.raises(grpc.RpcError) as caught:
            stub.Enrol(request, timeout=10)
    return error_of_rpc(caught.value, made.enrolment_address)


def test_a_token_gets_a_certificate_once(
    made: SecureCoordinator, tmp_path: Path
) -> None:
    token = made.authority.token("a1", Role.AGENT, HOUR)
    files = identity_files(tmp_path / "spool")
    join(token, made.enrolment_address, files)
    identity = files.identity()
    assert (identity.name, identity.role) == ("a1", Role.AGENT)
    assert identity.not_after_utc - identity.not_before_utc < 2 * JOINED_LIFETIME
    # the same host has it already, and asks nobody
    join(token, "127.0.0.1:1", files)
    with pytest.raises(AccessRefused, match="unknown, used or expired"):
        join(token, made.enrolment_address, identity_files(tmp_path / "thief"))
    # another token is there for a reason
    made.authority.revoke("a1")
    again = made.authority.token("a1", Role.AGENT, HOUR)
    before = files.certificate.read_bytes(), files.key.read_bytes()
    join(again, made.enrolment_address, files)
    after = files.certificate.read_bytes(), files.key.read_bytes()
    assert not set(before) & set(after)
    assert files.identity().name == "a1"
    join(again, "127.0.0.1:1", files)
    other = made.authority.token("a2", Role.AGENT, HOUR)
    with pytest.raises(ConfigError, match="the join token is for 'a2'"):
        join(other, made.enrolment_address, files)
    with Store.open(str(made.store), read_only=True) as store:
        entries = audit.newest(store)
    assert [(one.action, one.who, one.role) for one in entries] == [
        ("enrol", "a1", "agent"),
        ("refuse", "", "none"),
        ("enrol", "a1", "agent"),
    ]
    assert not any(token.secret in f"{one}" for one in entries)


def test_the_coordinator_is_known_before_anything_is_told_to_it(
    made: SecureCoordinator, tmp_path: Path
) -> None:
    other = Authority.create(tmp_path / "other", "other fleet")
    token = other.token("a1", Role.AGENT, HOUR)
    with pytest.raises(CoordinatorUnreachable):
        join(token, made.enrolment_address, identity_files(tmp_path / "spool"))


def test_all_agents_of_a_fleet_may_join_at_once_while_others_guess(
    made: SecureCoordinator, tmp_path: Path
) -> None:
    tokens = [made.authority.token(f"a{n}", Role.AGENT, HOUR) for n in range(40)]
    request_pem = build_request(new_key(), "a1")

    def joined(token: JoinToken) -> str:
        guess = enrol(made, f"{token.token_id}.guess", request_pem)
        assert "unknown, used or expired" in str(guess)
        files = identity_files(tmp_path / token.name)
        join(token, made.enrolment_address, files)
        return files.identity().name

    with ThreadPoolExecutor(len(tokens)) as pool:
        names = list(pool.map(joined, tokens))
    assert names == [token.name for token in tokens]


def test_the_enrolment_address_takes_requests_and_nothing_else(
    made: SecureCoordinator,
) -> None:
    token = made.authority.token("a1", Role.AGENT, HOUR)
    for size, kind in (
        (0, AccessRefused),
        (1000, AccessRefused),
        # more than this address takes does not reach the coordinator's code
        (200_000, CoordinatorUnreachable),
    ):
        assert type(enrol(made, token.proof, b"x" * size)) is kind
    with trusting_channel(
        made.enrolment_address, made.authority.authority_pem
    ) as channel:
        stub = OperatorServiceStub(channel)  # type: ignore[no-untyped-call]
        with pytest.raises(grpc.RpcError) as caught:
            stub.ListRuns(operator_pb2.ListRunsRequest(), timeout=10)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_certificate_is_renewed_when_it_is_due(
    made: SecureCoordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = identity_files(tmp_path / "spool")
    token = made.authority.token("a1", Role.AGENT, HOUR)
    join(token, made.enrolment_address, files)
    key = files.key.read_bytes()
    first = files.identity()

    async def look_once() -> None:
        async with aio_channel(made.address, files) as channel:
            task = asyncio.create_task(keep_renewed(channel, made.address, files))
            async with asyncio.timeout(20):
                while files.identity().serial == first.serial and not task.done():
                    await asyncio.sleep(0.05)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # not due yet
    monkeypatch.setattr(enrolment, "_RENEWED_AFTER", 0.9)
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(look_once(), 0.5))
    assert files.identity() == first
    monkeypatch.setattr(enrolment, "_RENEWED_AFTER", 0.0)
    asyncio.run(look_once())
    second = files.identity()
    assert second.serial != first.serial
    assert (second.name, second.role) == ("a1", Role.AGENT)
    assert files.key.read_bytes() == key
    with Store.open(str(made.store), read_only=True) as store:
        assert [one.action for one in audit.newest(store)] == ["renew", "enrol"]
