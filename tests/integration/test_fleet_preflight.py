# SPDX-License-Identifier: Apache-2.0
"""Pre-flight against real servers: facts of the usable, explanations of the others."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ldapslam.agent.admission.preflight import Probe, control_operations, preflight
from ldapslam.base.errors import (
    BindRejected,
    ConfigError,
    TargetError,
    TargetUnreachable,
    TlsHandshakeFailed,
)
from ldapslam.base.secrets import SecretRef
from ldapslam.jobs.connection_settings import (
    BindSettings,
    ConnectionSettings,
    TlsSettings,
)
from ldapslam.lab.certificates import Authority
from support.lab import Lab

S = 1_000_000_000


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def listener_that(answers: bytes | None) -> Iterator[int]:
    """A port where something else than LDAP lives; None: accepts and says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        connections: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                connections.append(connection)
                if answers is not None:
                    connection.sendall(answers)
                    connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in connections:
                connection.close()


ANONYMOUS = BindSettings()


def probe_of(uri: str, *, bind: BindSettings = ANONYMOUS, **tls: Any) -> Probe:
    return Probe(uri, ConnectionSettings(TlsSettings(**tls), bind))


def impatient(uri: str, timeout_ns: int) -> Probe:
    return Probe(uri, ConnectionSettings(connect_timeout_ns=timeout_ns))


def rejection(probe: Probe) -> TargetError:
    with pytest.raises(TargetError) as caught:
        preflight(probe)
    assert caught.value.hint
    return caught.value


def test_a_name_that_does_not_resolve() -> None:
    error = rejection(Probe("ldap://no-such-host.invalid"))
    assert isinstance(error, TargetUnreachable)
    assert "name 'no-such-host.invalid' does not resolve" in str(error)


def test_a_closed_port() -> None:
    port = closed_port()
    error = rejection(Probe(f"ldap://127.0.0.1:{port}"))
    assert isinstance(error, TargetUnreachable)
    assert f"connect to 127.0.0.1 port {port}: connection refused" in str(error)


def test_a_socket_that_is_not_there(tmp_path: Path) -> None:
    path = str(tmp_path / "ldapi").replace("/", "%2F")
    error = rejection(Probe(f"ldapi://{path}"))
    assert isinstance(error, TargetUnreachable)
    assert "no such file or directory" in str(error)
    assert "ldapi://" in str(error.hint)


def test_a_server_that_never_answers() -> None:
    with listener_that(None) as port:
        error = rejection(impatient(f"ldap://127.0.0.1:{port}", S // 5))
    assert isinstance(error, TargetUnreachable)
    assert "not answered within 0.2 s" in str(error)


def test_a_server_that_speaks_something_else() -> None:
    with listener_that(b"SSH-2.0-OpenSSH_9.2\r\n") as port:
        error = rejection(impatient(f"ldap://127.0.0.1:{port}", 2 * S))
    assert isinstance(error, TargetUnreachable)
    assert "is it an LDAP server" in str(error.hint)


def test_a_port_without_tls_behind_ldaps(lab: Lab) -> None:
    port = lab.supplier.uri.rpartition(":")[2]
    error = rejection(impatient(f"ldaps://127.0.0.1:{port}", 2 * S))
    assert isinstance(error, TlsHandshakeFailed)
    assert "start_tls" in str(error.hint) or "TLS port" in str(error.hint)


def test_a_usable_server_tells_who_it_is(lab: Lab) -> None:
    facts = preflight(Probe(lab.supplier.uri))
    assert facts["uri"] == lab.supplier.uri
    assert facts["naming_contexts"] == ["dc=example,dc=com"]
    assert "3" in facts["supported_ldap_version"]
    assert facts["tls"] is False
    # its product without what only others may read
    assert facts["vendor_name"] == "OpenLDAP slapd"
    # root DSE, and the monitor where it may be read
    assert facts["control_operations"] == {"bind": 1, "search": 2, "unbind": 1}


def test_a_bound_identity_reads_the_monitor(lab: Lab) -> None:
    secret = SecretRef(file=str(lab.admin_password_file))
    probe = probe_of(lab.supplier.uri, bind=BindSettings(lab.admin_dn, secret))
    assert "slapd" in preflight(probe)["monitor_version"]


def test_tls_with_the_right_authority(lab: Lab) -> None:
    ca_file = str(lab.ca_file)
    assert preflight(probe_of(lab.supplier.ldaps_uri, ca_file=ca_file))["tls"] is True
    facts = preflight(probe_of(lab.supplier.uri, start_tls=True, ca_file=ca_file))
    assert facts["control_operations"]["extended"] == 1


@pytest.mark.parametrize("start_tls", [False, True], ids=["ldaps", "StartTLS"])
def test_an_unknown_authority(lab: Lab, tmp_path: Path, start_tls: bool) -> None:
    other = Authority(tmp_path).ca_file
    uri = lab.supplier.uri if start_tls else lab.supplier.ldaps_uri
    error = rejection(probe_of(uri, start_tls=start_tls, ca_file=str(other)))
    assert isinstance(error, TlsHandshakeFailed)
    assert "unknown authority" in str(error)
    assert "tls.ca_file" in str(error.hint)


@pytest.mark.usefixtures("slapd_installed")
def test_an_expired_certificate() -> None:
    with Lab(entries=10, certificate_lifetime=timedelta(days=-1)) as lab:
        ca_file = str(lab.ca_file)
        error = rejection(probe_of(lab.supplier.ldaps_uri, ca_file=ca_file))
        assert isinstance(error, TlsHandshakeFailed)
        assert "expired" in str(error)
        assert "renew" in str(error.hint)
        # and when nobody wants to know
        preflight(probe_of(lab.supplier.ldaps_uri, ca_file=ca_file, verify=False))


def test_an_authority_file_that_is_none(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("hello")
    probe = probe_of(lab.supplier.ldaps_uri, ca_file=str(tmp_path / "ca.pem"))
    error = rejection(probe)
    assert isinstance(error, TlsHandshakeFailed)
    assert "PEM" in str(error.hint)


def test_a_wrong_password(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("not it")
    reference = SecretRef(file=str(tmp_path / "password"))
    error = rejection(
        probe_of(lab.supplier.uri, bind=BindSettings(lab.admin_dn, reference))
    )
    assert isinstance(error, BindRejected)
    assert (error.result_code, error.bind_dn) == (49, lab.admin_dn)
    assert "password" in str(error.hint)
    assert "not it" not in f"{error}{error.hint}"


def test_a_secret_that_is_not_there_is_the_operators_error(lab: Lab) -> None:
    reference = SecretRef(env="LDAPSLAM_TEST_NO_SUCH_VARIABLE")
    with pytest.raises(ConfigError, match="LDAPSLAM_TEST_NO_SUCH_VARIABLE"):
        preflight(
            probe_of(lab.supplier.uri, bind=BindSettings(lab.admin_dn, reference))
        )


def test_what_the_preflight_costs_is_added_up_per_server() -> None:
    facts = [
        {"uri": "ldap://x", "control_operations": {"bind": 1, "search": 2}},
        {"uri": "ldap://y", "control_operations": {"bind": 1}},
        {"uri": "ldap://x", "control_operations": {"bind": 1, "extended": 1}},
    ]
    assert control_operations(facts) == {
        "ldap://x": {"bind": 2, "search": 2, "extended": 1},
        "ldap://y": {"bind": 1},
    }
