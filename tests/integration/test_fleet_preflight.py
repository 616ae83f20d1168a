# SPDX-License-Identifier: Apache-2.0
"""Pre-flight against real servers: facts of the usable, explanations of the others.

The remedy of each fault that a job may have is in tests/integration/test_mistakes.py.
"""

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
from support.lab import Lab

S = 1_000_000_000


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


def probe_of(uri: str, **settings: Any) -> Probe:
    return Probe(uri, ConnectionSettings(**settings))


def over_tls(uri: str, ca_file: Path, **tls: Any) -> Probe:
    return probe_of(uri, tls=TlsSettings(ca_file=str(ca_file), **tls))


def rejection(probe: Probe) -> TargetError:
    with pytest.raises(TargetError) as caught:
        preflight(probe)
    assert caught.value.hint
    return caught.value


def test_a_socket_that_is_not_there(tmp_path: Path) -> None:
    path = str(tmp_path / "ldapi").replace("/", "%2F")
    error = rejection(Probe(f"ldapi://{path}"))
    assert isinstance(error, TargetUnreachable)
    assert "no such file or directory" in str(error)
    assert "ldapi://" in str(error.hint)


@pytest.mark.parametrize(
    ("answers", "timeout_ns", "said"),
    [
        (None, S // 5, "not answered within 0.2 s"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", 2 * S, "is it an LDAP server"),
    ],
    ids=["nothing", "something else"],
)
def test_a_port_that_does_not_speak_ldap(
    answers: bytes | None, timeout_ns: int, said: str
) -> None:
    with listener_that(answers) as port:
        uri = f"ldap://127.0.0.1:{port}"
        error = rejection(probe_of(uri, connect_timeout_ns=timeout_ns))
    assert isinstance(error, TargetUnreachable)
    assert said in f"{error}{error.hint}"


def test_a_usable_server_tells_who_it_is(lab: Lab) -> None:
    uri = lab.supplier.uri
    facts = preflight(Probe(uri))
    assert facts["uri"] == uri
    assert facts["naming_contexts"] == ["dc=example,dc=com"]
    assert "3" in facts["supported_ldap_version"]
    assert facts["tls"] is False
    # its product without what only others may read
    assert facts["vendor_name"] == "OpenLDAP slapd"
    # root DSE, and the monitor where it may be read
    assert facts["control_operations"] == {"bind": 1, "search": 2, "unbind": 1}
    secret = SecretRef(file=str(lab.admin_password_file))
    facts = preflight(probe_of(uri, bind=BindSettings(lab.admin_dn, secret)))
    assert "slapd" in facts["monitor_version"]
    assert preflight(over_tls(lab.supplier.ldaps_uri, lab.ca_file))["tls"] is True
    facts = preflight(over_tls(uri, lab.ca_file, start_tls=True))
    assert facts["control_operations"]["extended"] == 1


@pytest.mark.usefixtures("slapd_installed")
def test_an_expired_certificate() -> None:
    with Lab(entries=1, certificate_lifetime=timedelta(days=-1)) as lab:
        uri = lab.supplier.ldaps_uri
        error = rejection(over_tls(uri, lab.ca_file))
        assert isinstance(error, TlsHandshakeFailed)
        assert "expired" in str(error)
        assert "renew" in str(error.hint)
        # and when nobody wants to know
        preflight(over_tls(uri, lab.ca_file, verify=False))


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
