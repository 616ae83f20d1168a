# SPDX-License-Identifier: Apache-2.0
"""What libldap sends: the oracle for our own encoding of requests."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import ldap
import pytest
from ldap.ldapobject import SimpleLDAPObject


class LibLdap:
    """A python-ldap connection over a socket pair, whose requests can be read."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()
        self.far.settimeout(10)
        # The library takes the descriptor over and closes it at unbind.
        self.connection = SimpleLDAPObject("ldap://", fileno=self.near.detach())
        self.connection.set_option(ldap.OPT_REFERRALS, 0)

    def sent_by(self, request: Callable[[Any], int]) -> tuple[int, bytes]:
        """Message id and bytes of the request that the function sends."""
        message_id = request(self.connection)
        return message_id, self._read_message()

    def close(self) -> None:
        self.connection.unbind_ext_s()
        self.far.close()

    def _read_message(self) -> bytes:
        message = self._read(2)
        length = message[1]
        if length & 0x80:
            octets = self._read(length & 0x7F)
            message += octets
            length = int.from_bytes(octets, "big")
        return message + self._read(length)

    def _read(self, count: int) -> bytes:
        content = b""
        while len(content) < count:
            part = self.far.recv(count - len(content))
            assert part, "libldap closed the connection"
            content += part
        return content


@pytest.fixture(scope="module")
def libldap() -> Iterator[LibLdap]:
    oracle = LibLdap()
    yield oracle
    oracle.close()
