# SPDX-License-Identifier: Apache-2.0
"""Certificates with others between them and the authority, over real TLS."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import grpc
import pytest

from ldapslam.base.errors import AccessRefused, CoordinatorUnreachable
from ldapslam.transport.codec import error_of_rpc
from ldapslam.transport.credentials import TlsFiles
from ldapslam.transport.diagnosis import explained
from ldapslam.transport.enrolment import identity_files, join
from ldapslam.transport.pki.authority import Authority
from ldapslam.transport.pki.certificate import Role, read_key
from support.chains import Issuer, root
from support.fleet import registration
from support.secure_coordinator import (
    SecureCoordinator,
    call,
    files_of,
    methods,
    path_of,
)

METHODS = {path_of(method): method for method in methods()}
LIST_RUNS = METHODS["/ldapslam.v1.OperatorService/ListRuns"]
REGISTER = METHODS["/ldapslam.v1.AgentService/Register"]
HOSTS = ("127.0.0.1",)
HOUR = timedelta(hours=1)


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
