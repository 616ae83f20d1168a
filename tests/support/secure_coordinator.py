# SPDX-License-Identifier: Apache-2.0
"""A coordinator over mutual TLS, in a thread, and certificates of every kind.

With all services, on loopback: TLS is TLS there too. Certificates that `fleet pki`
does not make (expired, of tomorrow, without a role) are made here with its key.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2

from ldapslam.coordinator.outputs.health import Health
from ldapslam.coordinator.schedules.service import Schedules
from ldapslam.coordinator.security.enrolment import Enrolment
from ldapslam.coordinator.server import serve
from ldapslam.proto import agent_pb2, enrolment_pb2, operator_pb2, schedule_pb2
from ldapslam.transport.credentials import TlsFiles, channel
from ldapslam.transport.pki.authority import Authority
from ldapslam.transport.pki.certificate import (
    Role,
    build_leaf,
    certificate_pem,
    key_pem,
    new_key,
    read_key,
)

_TIMEOUT_S = 30.0
DAY = timedelta(days=1)


ENROL: MethodDescriptor = enrolment_pb2.DESCRIPTOR.services_by_name[
    "EnrolmentService"
].methods_by_name["Enrol"]


def methods() -> list[MethodDescriptor]:
    """Every method of every service that a coordinator has where agents connect."""
    files = (agent_pb2, operator_pb2, schedule_pb2, enrolment_pb2, health_pb2)
    return [
        method
        for file in files
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
        if method.full_name != ENROL.full_name
    ]


def path_of(method: MethodDescriptor) -> str:
    return f"/{method.containing_service.full_name}/{method.name}"


def call(
    to: grpc.Channel,
    method: MethodDescriptor,
    request: Message | None = None,
    timeout_s: float = 30.0,
) -> Message | None:
    """The answer, or the first one of a stream; None when a stream has none."""
    request = request or GetMessageClass(method.input_type)()
    answers = GetMessageClass(method.output_type).FromString
    if method.server_streaming:
        stream = to.unary_stream(
            path_of(method), type(request).SerializeToString, answers
        )
        first: Message | None = next(iter(stream(request, timeout=timeout_s)), None)
        return first
    unary = to.unary_unary(path_of(method), type(request).SerializeToString, answers)
    answer: Message = unary(request, timeout=timeout_s)
    return answer


def files_of(folder: Path, **others: Path) -> TlsFiles:
    """Certificate, key and authority of a folder, some of them others."""
    names = {"certificate": "cert.pem", "key": "key.pem", "authority": "ca.pem"}
    return TlsFiles(**{key: folder / file for key, file in names.items()} | others)


class SecureCoordinator:
    """A coordinator that is served; `address` and `enrolment_address` are real."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority.create(folder / "pki", "fleet")
        hosts = ("127.0.0.1", "localhost")
        made = self.authority.issue("coordinator", Role.COORDINATOR, hosts)
        self.files = files_of(made)
        self.store = folder / "results.sqlite"
        self.address = self.enrolment_address = ""

    @contextlib.contextmanager
    def served(self) -> Iterator[None]:
        """In a thread of its own, for the length of the block."""
        ready, end = threading.Event(), asyncio.Event()
        failures: list[BaseException] = []
        loops: list[asyncio.AbstractEventLoop] = []

        async def work() -> None:
            loops.append(asyncio.get_running_loop())
            revoked = self.authority.revoked_file
            files = self.files
            async with serve(
                ["127.0.0.1:0"],
                str(self.store),
                tls=TlsFiles(files.certificate, files.key, files.authority, revoked),
                enrol=Enrolment("127.0.0.1:0", self.authority),
                extensions=[Health(), Schedules()],
            ) as coordinator:
                self.address = coordinator.address
                self.enrolment_address = coordinator.enrolment_address or ""
                ready.set()
                await end.wait()

        def run() -> None:
            try:
                asyncio.run(work())
            except BaseException as error:
                failures.append(error)
                ready.set()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            assert ready.wait(_TIMEOUT_S), "the coordinator did not start"
            assert not failures, failures
            yield
        finally:
            if loops and not failures:
                loops[0].call_soon_threadsafe(end.set)
            thread.join(_TIMEOUT_S)
            assert not thread.is_alive(), "the coordinator did not end"
        assert not failures, failures

    def issue(self, name: str, role: Role) -> TlsFiles:
        return files_of(self.authority.issue(name, role))

    def forged(
        self,
        name: str,
        role: Role,
        *,
        not_before: timedelta = -DAY,
        not_after: timedelta = DAY,
        hosts: Sequence[str] = (),
    ) -> TlsFiles:
        """Signed by the authority, for a time relative to now."""
        folder = self.folder / f"forged-{name}"
        folder.mkdir()
        key, now_utc = new_key(), datetime.now(UTC)
        certificate = build_leaf(
            self.authority.certificate,
            read_key(self.authority.folder / "ca.key"),
            key.public_key(),
            name,
            role,
            hosts,
            now_utc + not_before,
            now_utc + not_after,
        )
        (folder / "key.pem").write_bytes(key_pem(key))
        (folder / "cert.pem").write_bytes(certificate_pem(certificate))
        return files_of(folder, authority=self.authority.folder / "ca.pem")

    def channel(self, files: TlsFiles | None) -> grpc.Channel:
        return channel(self.address, files)


@pytest.fixture(scope="module")
def secure_coordinator(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SecureCoordinator]:
    """One for all tests of a module."""
    coordinator = SecureCoordinator(tmp_path_factory.mktemp("secure"))
    with coordinator.served():
        yield coordinator


@pytest.fixture
def make_secure_coordinator(tmp_path: Path) -> Callable[[], SecureCoordinator]:
    """One of the test's own, not served yet."""
    return lambda: SecureCoordinator(tmp_path)
