# SPDX-License-Identifier: Apache-2.0
"""A directory that answers as a test tells it to, also as no directory should.

`FakeLdap(behaviour)` listens on 127.0.0.1. Binds succeed, StartTLS too where there is a
certificate; every other request is handed to the behaviour, a function of the
connection and the request, in that connection's own thread. When it returns False the
connection is closed. `on_bind`, `on_start_tls` and `on_connect` are behaviours for
binds, for StartTLS and for new connections, the last before TLS and before anything is
read. The behaviours at the end are the usual ones, sane and hostile.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from support.fake_tls import TlsStream

BIND_REQUEST, UNBIND_REQUEST, EXTENDED_REQUEST = 0x60, 0x42, 0x77
SEARCH_REQUEST, MODIFY_REQUEST = 0x63, 0x66
SEARCH_ENTRY, SEARCH_REFERENCE, INTERMEDIATE = 0x64, 0x73, 0x79
_RESPONSES = {
    **{0x60: 0x61, 0x63: 0x65, 0x66: 0x67, 0x68: 0x69, 0x4A: 0x6B},
    **{0x6C: 0x6D, 0x6E: 0x6F, 0x77: 0x78},
}
_START_TLS = b"1.3.6.1.4.1.1466.20037"


@dataclass(frozen=True)
class Request:
    message_id: int
    tag: int
    #: Of the protocolOp, without its tag and length.
    content: bytes
    #: What follows the protocolOp: the controls with their tag, or nothing.
    controls: bytes = b""


@dataclass
class Peer:
    """One client's connection."""

    stream: socket.socket | TlsStream
    number: int
    #: Load requests seen on this connection, the current one included.
    requests: int = 0

    def send(self, data: bytes) -> bool:
        try:
            self.stream.sendall(data)
        except OSError:
            return False
        return True

    def tls(self) -> TlsStream:
        assert isinstance(self.stream, TlsStream)
        return self.stream

    def reset(self) -> bool:
        """Closes with RST, as a crashed host's kernel does. Always False."""
        linger = struct.pack("ii", 1, 0)
        self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        return False


Behaviour = Callable[[Peer, Request], bool]
Greeting = Callable[[Peer], bool]


class FakeLdap:
    """The server, as a context manager; `port=` reuses the port of another."""

    def __init__(
        self,
        behaviour: Behaviour,
        *,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        tls_at_once: bool = False,
        on_bind: Behaviour | None = None,
        on_start_tls: Behaviour | None = None,
        on_connect: Greeting | None = None,
    ) -> None:
        self.behaviour = behaviour
        self.on_bind = on_bind
        self.on_start_tls = on_start_tls
        self.on_connect = on_connect
        self.requests: list[Request] = []
        self.connections = 0
        self._tls = tls
        self._tls_at_once = tls_at_once
        self._lock = threading.Lock()
        self._peers: list[socket.socket | TlsStream] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", port), backlog=1024)
        self.port: int = self._listener.getsockname()[1]

    @property
    def uri(self) -> str:
        scheme = "ldaps" if self._tls_at_once else "ldap"
        return f"{scheme}://127.0.0.1:{self.port}"

    def __enter__(self) -> FakeLdap:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        # shutdown wakes the thread in accept(), which close alone does not
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop()
        for thread in list(self._threads):
            thread.join(timeout=10)

    def drop(self) -> None:
        """End all connections."""
        with self._lock:
            peers = list(self._peers)
        for peer in peers:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                stream, _ = self._listener.accept()
            except OSError:
                return
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._peers.append(stream)
                self.connections += 1
            self._start(self._serve, stream, self.connections - 1)

    def _serve(self, stream: socket.socket, number: int) -> None:
        peer = Peer(stream, number)
        try:
            self._serve_peer(peer)
        except (OSError, ssl.SSLError):
            pass  # the client is gone
        finally:
            with self._lock:
                self._peers.remove(peer.stream)
            peer.stream.close()

    def _serve_peer(self, peer: Peer) -> None:
        if self.on_connect is not None and not self.on_connect(peer):
            return
        if self._tls is not None and self._tls_at_once:
            self._secure(peer)
        pending = b""
        while True:
            received = peer.stream.recv(65536)
            if not received:
                return
            pending += received
            while (parsed := parse_request(pending)) is not None:
                request, pending = parsed
                if not self._handle(peer, request):
                    return

    def _handle(self, peer: Peer, request: Request) -> bool:
        if request.tag == UNBIND_REQUEST:
            return False
        if request.tag == BIND_REQUEST:
            if self.on_bind is not None:
                return self.on_bind(peer, request)
            return peer.send(result(request))
        if request.tag == EXTENDED_REQUEST and _START_TLS in request.content:
            if self.on_start_tls is not None:
                return self.on_start_tls(peer, request)
            if self._tls is None:
                return peer.send(result(request, 2))  # protocolError
            sent = peer.send(result(request))
            self._secure(peer)
            return sent
        with self._lock:
            self.requests.append(request)
        peer.requests += 1
        return self.behaviour(peer, request)

    def _secure(self, peer: Peer) -> None:
        assert self._tls is not None
        assert isinstance(peer.stream, socket.socket)
        secured = TlsStream(peer.stream, self._tls)
        with self._lock:
            self._peers.remove(peer.stream)
            peer.stream = secured
            self._peers.append(secured)
        secured.handshake()


# -- bytes -----------------------------------------------------------------------------


def tlv(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def message(message_id: int, tag: int, content: bytes) -> bytes:
    number = message_id.to_bytes(message_id.bit_length() // 8 + 1, "big")
    return tlv(0x30, tlv(0x02, number) + tlv(tag, content))


def ldap_result(code: int, text: bytes = b"") -> bytes:
    number = code.to_bytes(code.bit_length() // 8 + 1, "big")
    return tlv(0x0A, number) + tlv(0x04, b"") + tlv(0x04, text)


def result(
    request: Request, code: int = 0, text: bytes = b"", more: bytes = b""
) -> bytes:
    """The final response to a request; `more` ends its content."""
    content = ldap_result(code, text) + more
    return message(request.message_id, _RESPONSES[request.tag], content)


def with_controls(response: bytes, controls: bytes) -> bytes:
    """A message with whatever is given as the content of its controls."""
    whole = _split(response)
    assert whole is not None
    return tlv(0x30, whole[1] + tlv(0xA0, controls))


def page(cookie: bytes) -> bytes:
    """A paged results control, RFC 2696."""
    value = tlv(0x30, tlv(0x02, b"\0") + tlv(0x04, cookie))
    oid = tlv(0x04, b"1.2.840.113556.1.4.319")
    return tlv(0x30, oid + tlv(0x04, value))


def entry(
    request: Request, size: int = 20, dn: bytes = b"uid=a,dc=example,dc=com"
) -> bytes:
    content = tlv(0x04, dn) + tlv(
        0x30, tlv(0x30, tlv(0x04, b"cn") + tlv(0x31, tlv(0x04, b"x" * size)))
    )
    return message(request.message_id, SEARCH_ENTRY, content)


def reference(request: Request) -> bytes:
    uri = tlv(0x04, b"ldap://elsewhere.example.com/dc=example,dc=com")
    return message(request.message_id, SEARCH_REFERENCE, uri)


def notice_of_disconnection(code: int = 52) -> bytes:
    """RFC 4511, section 4.4.1; by default with result code unavailable."""
    return message(0, 0x78, ldap_result(code) + tlv(0x8A, b"1.3.6.1.4.1.1466.20036"))


def parse_request(data: bytes) -> tuple[Request, bytes] | None:
    """The first complete request of the bytes and what follows it."""
    whole = _split(data)
    if whole is None:
        return None
    _, content, rest = whole
    message_id = _split(content)
    assert message_id is not None
    operation = _split(message_id[2])
    assert operation is not None
    number = int.from_bytes(message_id[1], "big")
    return Request(number, *operation), rest


def _split(data: bytes) -> tuple[int, bytes, bytes] | None:
    """Tag, content and rest of the TLV at the beginning; None when it is cut short."""
    if len(data) < 2:
        return None
    start, size = 2, data[1]
    if size >= 0x80:
        start += size & 0x7F
        if len(data) < start:
            return None
        size = int.from_bytes(data[2:start], "big")
    if len(data) < start + size:
        return None
    return data[0], data[start : start + size], data[start + size :]


# -- behaviours ------------------------------------------------------------------------


def answer(peer: Peer, request: Request) -> bool:
    """One entry for a search, and success."""
    entries = entry(request) if request.tag == SEARCH_REQUEST else b""
    return peer.send(entries + result(request))


def answer_with(code: int, text: bytes = b"") -> Behaviour:
    return send_and_stay(lambda request: result(request, code, text))


def never(peer: Peer, request: Request) -> bool:
    return True


def send_and_stay(make: Callable[[Request], bytes]) -> Behaviour:
    """Answers with any bytes."""

    def behaviour(peer: Peer, request: Request) -> bool:
        return peer.send(make(request))

    return behaviour


def send_and_close(make: Callable[[Request], bytes]) -> Behaviour:
    def behaviour(peer: Peer, request: Request) -> bool:
        peer.send(make(request))
        return False

    return behaviour


def reset(peer: Peer, request: Request) -> bool:
    return peer.reset()


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


@dataclass
class AfterSome:
    """Behaves as `first` for a number of requests per connection, then as `then`."""

    count: int
    then: Behaviour
    first: Behaviour = field(default=answer)

    def __call__(self, peer: Peer, request: Request) -> bool:
        behave = self.first if peer.requests <= self.count else self.then
        return behave(peer, request)
