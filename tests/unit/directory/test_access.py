# SPDX-License-Identifier: Apache-2.0
"""What python-ldap connections do: how they end, and what ended a sample."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import ldap
import pytest

from ldapslam.base.errors import TargetUnreachable
from ldapslam.directory import sample
from ldapslam.directory.access import connect, dial, unbind_and_wait
from ldapslam.jobs.connection_settings import ConnectionSettings

_BIND_RESPONSE = bytes.fromhex("30 0c 02 01 01 61 07 0a 01 00 04 00 04 00")
_UNBIND = bytes.fromhex("42 00")


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_UNIX])
def test_the_wait_ends_when_the_server_closes(
    family: socket.AddressFamily, tmp_path: Path
) -> None:
    path = tmp_path / "ldapi"
    with socket.socket(family) as listener:
        if family == socket.AF_UNIX:
            listener.bind(str(path))
            uri = f"ldapi://{str(path).replace('/', '%2F')}"
        else:
            listener.bind(("127.0.0.1", 0))
            uri = f"ldap://127.0.0.1:{listener.getsockname()[1]}"
        listener.listen()
        ended: list[bool] = []

        def use() -> None:
            connection = ldap.initialize(uri)
            connection.simple_bind_s("cn=admin", "password")
            ended.append(unbind_and_wait(connection))

        client = threading.Thread(target=use)
        client.start()
        server, _ = listener.accept()
        with server:
            server.recv(4096)
            server.sendall(_BIND_RESPONSE)
            assert server.recv(4096).endswith(_UNBIND)
            client.join(0.1)
            assert client.is_alive(), "the client did not wait for the server"
        client.join(5)
        assert ended == [True]


def test_a_tls_port_that_is_silent_is_given_up() -> None:
    """libldap would read again and again for good."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        settings = ConnectionSettings(connect_timeout_ns=200_000_000)
        with pytest.raises(TargetUnreachable, match=r"not answered within 0\.2 s"):
            connect(f"ldaps://127.0.0.1:{server.getsockname()[1]}", settings)


def test_what_the_address_says_counts_that_has_accepted_before() -> None:
    """A host may have no way to the others."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        addresses = f"127.0.0.1/{server.getsockname()[1]} 255.255.255.255/1"
        dial("ldap://ds.example.com", addresses, 1).close()
    with pytest.raises(TargetUnreachable) as caught:
        dial("ldap://ds.example.com", addresses, 1)
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)


class _Server:
    """Returns as many entries as its limit allows, then its result."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def search_ext(self, *_: Any, sizelimit: int) -> int:
        self._left = min(self._limit, sizelimit)
        return 1

    def result3(self, _request: int, **_: Any) -> tuple[int, list[Any]]:
        if not self._left:
            raise ldap.SIZELIMIT_EXCEEDED
        self._left -= 1
        uid = str(self._left).encode()
        return ldap.RES_SEARCH_ENTRY, [(f"uid={self._left}", {"uid": [uid]})]

    def unbind_s(self) -> None:
        pass


@pytest.mark.parametrize(
    ("limit", "ended_by"), [(5, "size limit"), (20, sample.SAMPLE)]
)
def test_a_limit_of_the_server_is_known(
    monkeypatch: pytest.MonkeyPatch, limit: int, ended_by: str
) -> None:
    monkeypatch.setattr(sample, "connect", lambda *_: _Server(limit))
    found = sample.sample_of("ldap://x", ConnectionSettings(), "dc=x", None, 20)
    assert (found.entries, found.ended_by) == (limit, ended_by)
