# SPDX-License-Identifier: Apache-2.0
"""Those who are told of ended runs: a webhook's server and a mail server, on loopback.

Each has a thread of its own, keeps what it was sent, and misbehaves on request.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

# Verdicts come first, and take their time on a busy host.
_TIMEOUT_S = 90.0


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)


class Webhook:
    """An HTTP server; a context manager. `answers` are given in order, then 204."""

    def __init__(self, *answers: int, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Request] = []
        self._answers = list(answers)
        self._changed = threading.Condition()
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                request = Request(
                    self.path, dict(self.headers.items()), self.rfile.read(length)
                )
                status = webhook._take(request)
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls is not None:
            # the handshake is the handler's, not the accepting thread's
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def _take(self, request: Request) -> int:
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
            return self._answers.pop(0) if self._answers else 204

    def wait_for(self, count: int) -> list[Request]:
        with self._changed:
            came = self._changed.wait_for(
                lambda: len(self.requests) >= count, _TIMEOUT_S
            )
        assert came, f"{len(self.requests)} of {count} requests came"
        return self.requests

    def __enter__(self) -> Webhook:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@dataclass
class MailServer:
    """An SMTP server; a context manager. With `tls` it wants STARTTLS."""

    tls: ssl.SSLContext | None = None
    #: With a password it wants a login.
    user: str = "slam"
    password: str | None = None
    #: Reply to the recipient; None takes it.
    refusal: str | None = None
    mails: list[Envelope] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def _protocol(self) -> SMTP:
        options: dict[str, Any] = {}
        if self.password is not None:
            options = {
                "authenticator": self._authenticate,
                "auth_required": True,
                "auth_require_tls": self.tls is not None,
            }
        return SMTP(
            self,
            hostname="mail.example.com",
            tls_context=self.tls,
            require_starttls=self.tls is not None,
            loop=self._loop,
            **options,
        )

    def _authenticate(self, *arguments: Any) -> AuthResult:
        given = arguments[-1]
        is_right = isinstance(given, LoginPassword) and given == LoginPassword(
            self.user.encode(), (self.password or "").encode()
        )
        return AuthResult(success=is_right, handled=False)

    async def handle_RCPT(
        self,
        server: Any,
        session: Session,
        envelope: Envelope,
        address: str,
        options: list[str],
    ) -> str:
        if self.refusal is not None:
            return self.refusal
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(
        self, server: Any, session: Session, envelope: Envelope
    ) -> str:
        with self._changed:
            self.mails.append(envelope)
            self._changed.notify_all()
        return "250 OK"

    def wait_for(self, count: int) -> list[Envelope]:
        with self._changed:
            came = self._changed.wait_for(lambda: len(self.mails) >= count, _TIMEOUT_S)
        assert came, f"{len(self.mails)} of {count} mails came"
        return self.mails

    def __enter__(self) -> MailServer:
        self._server = self._loop.run_until_complete(
            self._loop.create_server(self._protocol, "127.0.0.1", 0)
        )
        self.port = int(self._server.sockets[0].getsockname()[1])
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(_TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Silence:
    """Takes connections and never says a word; a context manager."""

    def __init__(self, greeting: bytes = b"") -> None:
        self._greeting = greeting
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._taken: list[socket.socket] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def _serve(self) -> None:
        self._listener.settimeout(0.05)
        while not self._ended.is_set():
            try:
                taken, _ = self._listener.accept()
            except TimeoutError:
                self._drip()
                continue
            self._taken.append(taken)

    def _drip(self) -> None:
        """A byte now and then: no read of the other side ever takes too long."""
        for taken in self._taken:
            try:
                taken.sendall(self._greeting)
            except OSError:
                continue

    def __enter__(self) -> Silence:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        for taken in self._taken:
            taken.close()
        self._listener.close()
