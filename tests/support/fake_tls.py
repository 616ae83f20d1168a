# SPDX-License-Identifier: Apache-2.0
"""The server's side of TLS that can also do what a TLS library never would.

`TlsStream` has a socket's methods as far as support/fake_ldap.py uses them, over an
SSLObject of the standard library; what that writes can be held back, and what it reads
can be forged, so that its own alerts go out in good order. Closing it sends no
close_notify: `end` does.
"""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

# What RFC 8446 calls a TLSPlaintext: type, version, length, content.
ALERT, HANDSHAKE, APPLICATION_DATA = 21, 22, 23
HANDSHAKE_FAILURE, INTERNAL_ERROR = 40, 80


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def record(kind: int, content: bytes) -> bytes:
    """One TLS record in the clear."""
    return bytes([kind, 3, 3]) + len(content).to_bytes(2, "big") + content


def fatal_alert(description: int) -> bytes:
    return record(ALERT, bytes([2, description]))


class TlsStream:
    """A connection of a server with TLS; `handshake` comes first."""

    def __init__(self, stream: socket.socket, context: ssl.SSLContext) -> None:
        self.below = stream
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    def handshake(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
                return
            except ssl.SSLWantReadError:
                pass
            finally:
                self._flush()
            if not self._fill():
                raise OSError("the client is gone")

    def recv(self, size: int) -> bytes:
        while True:
            try:
                return self._tls.read(size)
            except ssl.SSLWantReadError:
                if not self._fill():
                    return b""
            except ssl.SSLZeroReturnError:
                return b""

    def sendall(self, data: bytes) -> None:
        self._tls.write(data)
        self._flush()

    def encrypted(self, data: bytes) -> bytes:
        """The records that `sendall` would have sent, for sending as one likes."""
        self._tls.write(data)
        return self._outgoing.read()

    def alert(self) -> None:
        """A fatal alert (bad_record_mac) within the session, as if the client had sent
        a record that cannot be decrypted."""
        self._incoming.write(record(APPLICATION_DATA, bytes(48)))
        try:
            self._tls.read(1)
        except ssl.SSLError:
            self._flush()
            return
        raise AssertionError("a forged record was taken for a good one")

    def end(self) -> None:
        """close_notify, and nothing more."""
        try:
            self._tls.unwrap()
        except ssl.SSLError:
            pass  # it waits for the client's own
        self._flush()

    def shutdown(self, how: int) -> None:
        self.below.shutdown(how)

    def setsockopt(self, level: int, option: int, value: int | bytes) -> None:
        self.below.setsockopt(level, option, value)

    def close(self) -> None:
        self.below.close()

    def _fill(self) -> bool:
        received = self.below.recv(65536)
        self._incoming.write(received)
        return bool(received)

    def _flush(self) -> None:
        data = self._outgoing.read()
        if data:
            self.below.sendall(data)
