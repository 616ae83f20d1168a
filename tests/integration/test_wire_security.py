# SPDX-License-Identifier: Apache-2.0
"""Who may not call: every method, with every kind of wrong certificate."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from google.protobuf.descriptor import MethodDescriptor
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ldapslam.base.errors import AccessRefused, ConfigError, CoordinatorUnreachable
from ldapslam.coordinator.security import access
from ldapslam.proto import agent_pb2, operator_pb2
from ldapslam.results import audit
from ldapslam.results.store import Store
from ldapslam.transport.codec import error_of_rpc
from ldapslam.transport.credentials import TlsFiles, check_server, trusting_channel
from ldapslam.transport.diagnosis import explained
from ldapslam.transport.pki.authority import Authority
from ldapslam.transport.pki.certificate import (
    Role,
    certificate_pem,
    read_certificate,
    read_key,
)
from support.fleet import job_text, registration, submission
from support.secure_coordinator import (
    DAY,
    SecureCoordinator,
    call,
    files_of,
    methods,
    path_of,
)
from support.waiting import wait_until

METHODS = {path_of(method): method for method in methods()}
#: Refused in the handshake: no call reaches the coordinator.
STRANGERS = ("none", "other authority", "expired", "of tomorrow", "plain text")
#: Refused by the coordinator, call by call.
KNOWN = ("revoked", "without a role", "coordinator")


@pytest.fixture(scope="module")
def channels(
    secure_coordinator: SecureCoordinator, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, grpc.Channel]]:
    """By kind of certificate, and by role."""
    made = secure_coordinator
    other = Authority.create(tmp_path_factory.mktemp("other"), "other fleet")
    theirs = files_of(
        other.issue("mallory", Role.OPERATOR),
        authority=made.authority.folder / "ca.pem",
    )
    revoked = made.forged("rita", Role.OPERATOR)
    # known to the authority's register, as if it had been issued
    kept = made.authority.folder / "certificates" / "rita.pem"
    kept.write_bytes(revoked.certificate.read_bytes())
    made.authority.revoke("rita")
    by_kind: dict[str, TlsFiles | None] = {
        "plain text": None,
        "other authority": theirs,
        "expired": made.forged(
            "eve", Role.OPERATOR, not_before=-2 * DAY, not_after=-DAY
        ),
        "of tomorrow": made.forged(
            "tom", Role.OPERATOR, not_before=DAY, not_after=2 * DAY
        ),
        "revoked": revoked,
        "without a role": _without_role(made),
        "coordinator": files_of(made.authority.bundle("coordinator")),
        "agent": made.issue("a1", Role.AGENT),
        "operator": made.issue("olga", Role.OPERATOR),
        "viewer": made.issue("victor", Role.VIEWER),
    }
    found = {kind: made.channel(files) for kind, files in by_kind.items()}
    authority_pem = (made.authority.folder / "ca.pem").read_bytes()
    found["none"] = trusting_channel(made.address, authority_pem)
    _wait_for_revocation(found["revoked"])
    yield found
    for channel in found.values():
        channel.close()


def _without_role(made: SecureCoordinator) -> TlsFiles:
    """Of the same authority, for another purpose."""
    files = made.forged("norole", Role.VIEWER)
    old = read_certificate(files.certificate)
    builder = (
        x509.CertificateBuilder()
        .subject_name(old.subject)
        .issuer_name(old.issuer)
        .public_key(old.public_key())
        .serial_number(old.serial_number + 1)
        .not_valid_before(old.not_valid_before_utc)
        .not_valid_after(old.not_valid_after_utc)
    )
    key = read_key(made.authority.folder / "ca.key")
    files.certificate.write_bytes(certificate_pem(builder.sign(key, hashes.SHA256())))
    return files


def _wait_for_revocation(channel: grpc.Channel) -> None:
    agents = METHODS["/ldapslam.v1.OperatorService/ListAgents"]

    def is_refused() -> bool:
        try:
            call(channel, agents)
        except grpc.RpcError:
            return True
        return False

    wait_until(is_refused, "the list of the revoked")


def refusal(channel: grpc.Channel, method: MethodDescriptor) -> Exception:
    with pytest.raises(grpc.RpcError) as caught:
        call(channel, method)
    return error_of_rpc(caught.value, "it")


@pytest.mark.parametrize("kind", STRANGERS)
def test_a_stranger_reaches_no_method(
    channels: dict[str, grpc.Channel], kind: str
) -> None:
    for path, method in METHODS.items():
        error = refusal(channels[kind], method)
        assert isinstance(error, CoordinatorUnreachable), path


@pytest.mark.parametrize("kind", KNOWN)
def test_a_certificate_that_is_no_callers_is_refused_for_every_method(
    channels: dict[str, grpc.Channel], kind: str
) -> None:
    for path, method in METHODS.items():
        error = refusal(channels[kind], method)
        if kind == "coordinator":  # for servers: ended in the handshake
            assert isinstance(error, CoordinatorUnreachable), path
        else:
            assert isinstance(error, AccessRefused), path
            word = "revoked" if kind == "revoked" else "no role"
            assert word in str(error), path


@pytest.mark.parametrize("role", ["agent", "operator", "viewer"])
def test_a_role_may_call_what_the_table_says_and_nothing_else(
    channels: dict[str, grpc.Channel], role: str
) -> None:
    allowed = set()
    for path, method in METHODS.items():
        try:
            call(channels[role], method)
        except grpc.RpcError as error:
            refused = error_of_rpc(error, "it")
            if isinstance(refused, AccessRefused) and "may not" in str(refused):
                continue
        allowed.add(path)
    assert allowed == {path for path in METHODS if Role(role) in access.ROLES[path]}


def test_the_certificates_name_wins_over_what_the_caller_says(
    make_secure_coordinator: Callable[[], SecureCoordinator],
) -> None:
    """In runs, and in the audit log, which has who was refused too."""
    made = make_secure_coordinator()
    submit = METHODS["/ldapslam.v1.OperatorService/SubmitJob"]
    cancel = METHODS["/ldapslam.v1.OperatorService/CancelRun"]
    get = METHODS["/ldapslam.v1.OperatorService/GetRun"]
    said = {"submitted_by": "root@elsewhere", "wait_for_agents_ns": 60_000_000_000}
    request = submission(job_text(), **said)
    with (
        made.served(),
        made.channel(made.issue("olga", Role.OPERATOR)) as operator,
        made.channel(made.issue("victor", Role.VIEWER)) as viewer,
    ):
        reply = call(operator, submit, request)
        assert isinstance(reply, operator_pb2.SubmitJobReply)
        asked = operator_pb2.GetRunRequest(run_id=reply.run_id)
        status = call(viewer, get, asked)
        assert isinstance(status, operator_pb2.RunStatus)
        assert status.submitted_by == "olga"
        refusal(viewer, submit)
        end = operator_pb2.CancelRunRequest(run_id=reply.run_id, cancelled_by="root")
        call(operator, cancel, end)
    with Store.open(str(made.store), read_only=True) as store:
        records = audit.newest(store)
        events = store.events(reply.run_id)
    assert [(one.action, one.who, one.role) for one in records] == [
        ("cancel", "olga", "operator"),
        ("refuse", "victor", "viewer"),
        ("submit", "olga", "operator"),
    ]
    assert records[-1].peer.startswith("ipv4:127.0.0.1:")
    assert any("olga" in event.text for event in events)
    assert not any("root" in event.text for event in events)


def test_an_agents_certificate_serves_no_coordinator(tmp_path: Path) -> None:
    authority = Authority.create(tmp_path / "pki", "fleet")
    files = files_of(authority.issue("a1", Role.AGENT))
    with pytest.raises(ConfigError, match="a coordinator needs one of its own"):
        check_server(files)
    # whoever serves with it all the same is not believed
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.load_verify_locations(files.authority)
    ours, theirs = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_side = context.wrap_bio(ours, theirs, server_side=True)
    client_side = client.wrap_bio(theirs, ours)

    def shake_hands() -> None:
        for side in (client_side, server_side) * 4:
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()

    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_an_older_tls_is_refused(
    secure_coordinator: SecureCoordinator, version: ssl.TLSVersion
) -> None:
    def hello(offered: ssl.TLSVersion) -> str | None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.minimum_version = context.maximum_version = offered
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.set_alpn_protocols(["h2"])
        host, _, port = secure_coordinator.address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=5) as plain:
            files = files_of(secure_coordinator.authority.bundle("coordinator"))
            context.load_cert_chain(files.certificate, files.key)
            with context.wrap_socket(plain) as stream:
                return stream.version()

    assert hello(ssl.TLSVersion.TLSv1_3) == "TLSv1.3"
    with (
        pytest.warns(DeprecationWarning, match=r"TLSv1"),
        pytest.raises((ssl.SSLError, OSError)),
    ):
        hello(version)


def test_why_there_is_no_connection_is_said(
    secure_coordinator: SecureCoordinator, tmp_path: Path
) -> None:
    address = secure_coordinator.address
    failure = CoordinatorUnreachable(address, "Socket closed")

    def reason(files: TlsFiles | None, where: str = address) -> str:
        return str(explained(CoordinatorUnreachable(where, "closed"), files))

    assert "it wants TLS, and there is no certificate here" in reason(None)
    good = secure_coordinator.issue("greta", Role.OPERATOR)
    assert explained(failure, good) is failure
    other = Authority.create(tmp_path / "other", "other")
    assert "its certificate is not good" in reason(
        files_of(other.issue("olaf", Role.OPERATOR))
    )
    mine = files_of(
        other.bundle("olaf"), authority=secure_coordinator.authority.folder / "ca.pem"
    )
    assert "it does not take the certificate" in reason(mine)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"\0\0\x06\x04\0\0\0\0\0")

        thread = threading.Thread(target=answer)
        thread.start()
        plain = f"127.0.0.1:{listener.getsockname()[1]}"
        assert "it speaks plain text" in reason(good, plain)
        thread.join()


def connected(
    made: SecureCoordinator, name: str, files: TlsFiles
) -> tuple[grpc.Channel, str]:
    """An agent that has registered, and its session."""
    channel = made.channel(files)
    register = METHODS["/ldapslam.v1.AgentService/Register"]
    reply = call(channel, register, registration(name))
    assert isinstance(reply, agent_pb2.RegisterReply)
    return channel, reply.session_id


def test_calls_that_are_open_end_with_the_certificate(
    secure_coordinator: SecureCoordinator,
) -> None:
    """Expiry and revocation, on connections that go on being used."""
    made = secure_coordinator

    def watching(files: TlsFiles) -> tuple[grpc.Channel, grpc.Call]:
        """A stream that ends for no other reason."""
        channel = made.channel(files)
        stub = health_pb2_grpc.HealthStub(channel)
        statuses = stub.Watch(health_pb2.HealthCheckRequest(), timeout=120)
        next(statuses)
        return channel, statuses

    brief = made.forged("brief", Role.AGENT, not_after=timedelta(seconds=6))
    brief_channel, brief_calls = watching(brief)
    lost_channel, lost_calls = watching(made.issue("lost", Role.OPERATOR))
    good_channel, good_calls = watching(made.issue("good", Role.VIEWER))
    begun_s = time.monotonic()
    made.authority.revoke("lost")
    for calls, word in ((lost_calls, "was revoked"), (brief_calls, "expired at")):
        with pytest.raises(grpc.RpcError) as caught:
            next(calls)
        error = error_of_rpc(caught.value, "it")
        assert isinstance(error, AccessRefused)
        assert word in str(error)
    assert time.monotonic() - begun_s < 30
    for channel in (brief_channel, lost_channel):
        # the connection is still there, and of no use
        for method in METHODS.values():
            assert isinstance(refusal(channel, method), AccessRefused)
        channel.close()
    assert good_calls.is_active()
    good_channel.close()


def test_a_session_is_its_agents_alone(secure_coordinator: SecureCoordinator) -> None:
    made = secure_coordinator
    mine, session_id = connected(made, "mine", made.issue("mine", Role.AGENT))
    thief, _ = connected(made, "thief", made.issue("thief", Role.AGENT))
    heartbeat = METHODS["/ldapslam.v1.AgentService/Heartbeat"]
    requests = {
        heartbeat: agent_pb2.HeartbeatRequest(session_id=session_id),
        METHODS["/ldapslam.v1.AgentService/Commands"]: agent_pb2.CommandsRequest(
            session_id=session_id
        ),
        METHODS["/ldapslam.v1.AgentService/Leave"]: agent_pb2.LeaveRequest(
            session_id=session_id
        ),
    }
    with mine, thief:
        for method, request in requests.items():
            with pytest.raises(grpc.RpcError) as caught:
                call(thief, method, request)
            error = error_of_rpc(caught.value, "it")
            assert isinstance(error, AccessRefused)
            assert "not that of agent 'thief'" in str(error)
        reply = call(mine, heartbeat, requests[heartbeat])
    assert isinstance(reply, agent_pb2.HeartbeatReply)
    assert reply.known


def test_a_renewed_certificate_of_the_coordinator_needs_no_restart(
    make_secure_coordinator: Callable[[], SecureCoordinator],
) -> None:
    made = make_secure_coordinator()
    viewer = made.issue("victor", Role.VIEWER)

    def shown_serial() -> int:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(viewer.authority)
        context.load_cert_chain(viewer.certificate, viewer.key)
        context.set_alpn_protocols(["h2"])
        host, _, port = made.address.rpartition(":")
        with (
            socket.create_connection((host, int(port)), timeout=5) as plain,
            context.wrap_socket(plain, server_hostname=host) as stream,
        ):
            der = stream.getpeercert(binary_form=True)
        assert der is not None
        return x509.load_der_x509_certificate(der).serial_number

    with made.served():
        first = shown_serial()
        assert first == made.files.identity().serial
        made.authority.renew("coordinator")
        second = shown_serial()
        assert second == made.files.identity().serial != first
        # what cannot be used does not take the place of what can
        made.files.certificate.write_bytes(viewer.certificate.read_bytes())
        assert shown_serial() == second


def test_a_new_authority_takes_over_without_a_restart(
    make_secure_coordinator: Callable[[], SecureCoordinator], tmp_path: Path
) -> None:
    """As docs/how-to/security.md says: both are trusted first, then only the new one
    is."""
    made = make_secure_coordinator()
    following = Authority.create(tmp_path / "following", "the next fleet")
    both = tmp_path / "both.pem"
    authorities = [one.folder / "ca.pem" for one in (made.authority, following)]
    both.write_bytes(b"".join(path.read_bytes() for path in authorities))
    old, new, bad = (
        files_of(shutil.copytree(issued, tmp_path / issued.name), authority=both)
        for issued in (
            made.authority.issue("olga", Role.VIEWER),
            following.issue("nina", Role.VIEWER),
            following.issue("boris", Role.VIEWER),
        )
    )
    following.revoke("boris")
    lists = made.authority.revoked_file, following.revoked_file

    def is_heard(files: TlsFiles) -> bool:
        with made.channel(files) as channel, contextlib.suppress(grpc.RpcError):
            call(channel, METHODS["/ldapslam.v1.OperatorService/ListRuns"])
            return True
        return False

    with made.served():
        assert [is_heard(one) for one in (old, new)] == [True, False]
        made.files.authority.write_bytes(both.read_bytes())
        lists[0].write_bytes(b"".join(path.read_bytes() for path in lists))
        assert [is_heard(one) for one in (old, new)] == [True, True]
        wait_until(lambda: not is_heard(bad), "the new list")
        served = following.issue("coordinator", Role.COORDINATOR, ("127.0.0.1",))
        for name in ("key.pem", "cert.pem"):
            (made.files.key.parent / name).write_bytes((served / name).read_bytes())
        assert [is_heard(one) for one in (old, new)] == [True, True]
        made.files.authority.write_bytes(authorities[1].read_bytes())
        assert [is_heard(one) for one in (old, new, bad)] == [False, True, False]
