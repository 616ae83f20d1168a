# SPDX-License-Identifier: Apache-2.0
"""Joining by token over the wire, and certificates of authorities below others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

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
from ldapslam.transport.credentials import TlsFiles, aio_channel, trusting_channel
from ldapslam.transport.diagnosis import explained
from ldapslam.transport.enrolment import identity_files, join, keep_renewed
from ldapslam.transport.pki.authority import JOINED_LIFETIME, Authority
from ldapslam.transport.pki.certificate import Role, build_request, new_key, read_key
from ldapslam.transport.pki.token import JoinToken
from support.chains import Issuer, root
from support.fleet import registration
from support.secure_coordinator import (
    SecureCoordinator,
    call,
    files_of,
    methods,
    path_of,
)

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


# Certificates with others between them and the authority, over real TLS.


METHODS = {path_of(method): method for method in methods()}
LIST_RUNS = METHODS["/ldapslam.v1.OperatorService/ListRuns"]
REGISTER = METHODS["/ldapslam.v1.AgentService/Register"]
HOSTS = ("127.0.0.1",)


class Chained(NamedTuple):
    """Served, with certificates of `east` and `west`, which `root` signed."""

    coordinator: SecureCoordinator
    root: Issuer
    east: Issuer
    west: Issuer
    victor: TlsFiles
    agent: TlsFiles


@pytest.fixture
def chained(
    make_secure_coordinator: Callable[[], SecureCoordinator], tmp_path: Path
) -> Iterator[Chained]:
    made, top = make_secure_coordinator(), root()
    east, west = top.issuer("east"), top.issuer("west")
    made.files = east.files(
        tmp_path / "c", "coordinator", Role.COORDINATOR, top, east, west, hosts=HOSTS
    )
    made.authority.revoked_file.write_bytes(top.revoked())
    victor = east.files(tmp_path / "victor", "victor", Role.VIEWER, top, east)
    agent = west.files(tmp_path / "a1", "a1", Role.AGENT, top, west)
    with made.served():
        yield Chained(made, top, east, west, victor, agent)


def refusal(made: SecureCoordinator, files: TlsFiles) -> str:
    """Why a viewer is not heard; empty: it is."""
    with made.channel(files) as channel:
        try:
            call(channel, LIST_RUNS)
        except grpc.RpcError as error:
            return str(error_of_rpc(error, made.address))
    return ""


def registered(made: SecureCoordinator, files: TlsFiles, name: str) -> None:
    with made.channel(files) as channel:
        call(channel, REGISTER, registration(name, epoch=1))


def test_callers_of_several_authorities_below_one_have_their_names(
    chained: Chained, tmp_path: Path
) -> None:
    made = chained.coordinator
    registered(made, chained.agent, "a1")
    with pytest.raises(grpc.RpcError) as caught:
        registered(made, chained.agent, "a2")
    assert isinstance(error_of_rpc(caught.value, made.address), AccessRefused)
    # without the certificates in between, one is not taken
    alone = chained.east.files(tmp_path / "alone", "victor", Role.VIEWER, chained.root)
    assert refusal(made, alone) != ""
    reason = explained(CoordinatorUnreachable(made.address, ""), alone)
    assert "does not take the certificate" in str(reason)
    assert "between" in str(reason.hint)
    # lists of each authority of a chain revoke
    other = chained.east.files(
        tmp_path / "other", "other", Role.VIEWER, chained.root, chained.east
    )
    for content, revoked in (
        (chained.east.revoked(chained.victor.identity().serial), chained.victor),
        (chained.root.revoked(chained.east.certificate.serial_number), other),
    ):
        assert refusal(made, revoked) == ""
        made.authority.revoked_file.write_bytes(content)
        deadline_s = time.monotonic() + 20
        while "was revoked" not in refusal(made, revoked):
            assert time.monotonic() < deadline_s, "the list is not in force"
        registered(made, chained.agent, "a1")


def test_another_authority_in_between_and_then_another_root_take_over(
    chained: Chained, tmp_path: Path
) -> None:
    made, top = chained.coordinator, chained.root
    north, following = top.issuer("north"), root("the next root")
    renewed = north.files(tmp_path / "new", "victor", Role.VIEWER, top, north)
    assert refusal(made, renewed) == ""
    south = following.issuer("south")
    both = top.pem + following.pem
    new = south.files(tmp_path / "newer", "victor", Role.VIEWER, following, south)
    assert refusal(made, new) != ""
    for files in (made.files, renewed, new):
        files.authority.write_bytes(both)
    assert (refusal(made, renewed), refusal(made, new)) == ("", "")
    served = south.files(
        tmp_path / "c2", "coordinator", Role.COORDINATOR, following, south, hosts=HOSTS
    )
    made.files.key.write_bytes(served.key.read_bytes())
    made.files.certificate.write_bytes(served.certificate.read_bytes())
    made.files.authority.write_bytes(following.pem)
    assert refusal(made, new) == ""
    assert refusal(made, renewed) != ""


def test_who_joins_gets_a_certificate_of_an_authority_that_a_root_signed(
    make_secure_coordinator: Callable[[], SecureCoordinator], tmp_path: Path
) -> None:
    """`pki/ca.pem` is no root; who issues by it trusts it, and needs no other."""
    made, top = make_secure_coordinator(), root()
    folder = made.authority.folder
    key = read_key(folder / "ca.key")
    (folder / "ca.pem").write_bytes(top.issuer("fleet", key, path_length=0).pem)
    made.authority = Authority(folder)
    made.authority.renew("coordinator")
    token = made.authority.token("joined", Role.AGENT, HOUR)
    files = identity_files(tmp_path / "spool")
    with made.served():
        join(token, made.enrolment_address, files)
        registered(made, files, "joined")
        viewer = files_of(made.authority.issue("victor", Role.VIEWER))
        assert refusal(made, viewer) == ""
        unreachable = CoordinatorUnreachable(made.address, "it was away")
        assert explained(unreachable, viewer) is unreachable
