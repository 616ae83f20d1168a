# SPDX-License-Identifier: Apache-2.0
"""Receivers of notifications on loopback: a webhook, and one that never answers.

Each has a thread of its own, keeps what it was sent, and misbehaves on request.
"""

from __future__ import annotations

import json
import socket
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

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

    def __init__(self, *answers: int) -> None:
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
