# SPDX-License-Identifier: Apache-2.0
"""Serves metrics for Prometheus over plain HTTP, GET /metrics.

It is neither encrypted nor authenticated, so it is off by default, and on loopback
unless another address is named. It has few threads, and slow clients are cut off.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
import socketserver
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import MetricsHandler

from ldapslam.base.errors import ConfigError

_log = logging.getLogger(__name__)

_MAX_REQUESTS = 4
_REQUEST_TIMEOUT_S = 10.0


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 16

    def __init__(self, place: tuple[str, int], handler: Any) -> None:
        self.address_family = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
        self._free = threading.BoundedSemaphore(_MAX_REQUESTS)
        super().__init__(place, handler)

    def server_bind(self) -> None:
        # HTTPServer's would look up the address's name
        socketserver.TCPServer.server_bind(self)
        self.server_name = str(self.server_address[0])
        self.server_port = int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        _log.debug("a request for metrics", exc_info=True)


class _Handler(MetricsHandler):
    timeout = _REQUEST_TIMEOUT_S
    server_version = "ldapslam"
    sys_version = ""

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(404)
            return
        try:
            super().do_GET()
        except OSError:
            raise  # the client has gone, or does not read
        except Exception as error:
            _log.warning("no metrics: %s: %s", type(error).__name__, error)
            self.send_error(503)

    def log_message(self, format: str, *args: Any) -> None:
        _log.debug(format, *args)


def _listening(place: tuple[str, int], handler: Any) -> _Server:
    try:
        return _Server(place, handler)
    except OSError as error:
        raise ConfigError(
            f"--metrics: cannot listen on {place[0]}:{place[1]}: {error.strerror}",
            hint="is another coordinator, agent or run using the port?"
            if error.errno == errno.EADDRINUSE
            else "give an address of this host and a port from 1024 on, such as "
            "127.0.0.1:9400",
        ) from error


def free_place(place: tuple[str, int]) -> tuple[str, int]:
    """The address, a port 0 being a free one, for a child to listen on; ConfigError as
    `exposed`."""
    server = _listening(place, _Handler)
    server.server_close()
    return place[0], server.server_port


def metrics_url(host: str, port: int) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/metrics"


@contextlib.contextmanager
def exposed(registry: CollectorRegistry, place: tuple[str, int]) -> Iterator[int]:
    """Serve the registry; the port, a port 0 being the real one. ConfigError when
    nothing can listen there."""
    server = _listening(place, _Handler.factory(registry))
    port = server.server_port
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="metrics"
    )
    thread.daemon = True
    thread.start()
    _log.info("metrics on %s", metrics_url(place[0], port))
    try:
        yield port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
