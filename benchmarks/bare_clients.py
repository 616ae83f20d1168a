# SPDX-License-Identifier: Apache-2.0
"""The floor: a bare client that writes and reads the engine's bytes, also over TLS.

Built here, with the compiler that the engine is built with; over TLS with GnuTLS, if
that is libldap's TLS library, and against a TLS server of the same.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import ldap
from bench_jobs import search_template
from processes import Figures, Server, cost, raise_descriptor_limit, server_process

from ldapslam.agent import _engine
from ldapslam.jobs.requests.template import Template
from ldapslam.lab.certificates import Authority

_HERE = Path(__file__).resolve().parent
_ENGINE_SOURCES = _HERE.parent / "agent" / "csrc"
_FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-g")
_WARM_UP_MS = 500
_RUN_MS = 2000
#: A messageID of three bytes, as most of the engine's are.
_MESSAGE_ID = b"\x01\x00\x00"
#: searchResDone with a result of seven bytes: the end of the canned answer.
_END_OF_ANSWER = b"\x65\x07\x0a\x01\x00\x04\x00\x04\x00"


class Missing(Exception):
    """Something that a comparison needs is not on this machine; the text says what."""


class BareClients:
    """The programs, built in a folder when they are first needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(self, server: Server, connections: int, *, tls: bool = False) -> Figures:
        """The floor's figures; without those of the server."""
        request = encode(search_template())
        # an answer has two messages, with the messageID of the request
        with _canned() as canned:
            response_bytes = answer_bytes(canned, request)
        arguments = (
            server.address,
            connections,
            _RUN_MS,
            _WARM_UP_MS,
            request.hex(),
            response_bytes,
        )
        output = subprocess.run(
            [self._tls_floor() if tls else self._floor(), *map(str, arguments)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=raise_descriptor_limit,
        ).stdout
        completed, cpu_ns, wall_ns, waited_ns = map(int, output.split())
        return cost(completed, cpu_ns, wall_ns, waited_ns / wall_ns)

    @contextlib.contextmanager
    def tls_server(self) -> Iterator[Server]:
        """A canned server over TLS."""
        library = ldap.get_option(ldap.OPT_X_TLS_PACKAGE)
        if library != "GnuTLS":
            raise Missing(f"libldap is built on {library}, the bare client on GnuTLS")
        program = self._build(
            "tls_server",
            _HERE / "tls_server.c",
            _ENGINE_SOURCES / "responder" / "canned.c",
            f"-I{_ENGINE_SOURCES}",
            "-lgnutls",
        )
        authority = Authority(self._folder)
        pair = authority.issue("server", timedelta(hours=1))
        command = [program, str(pair.certificate_file), str(pair.key_file)]
        with server_process(command, pinned=True) as server:
            server.ca_file = authority.ca_file
            yield server

    def _floor(self) -> str:
        return self._build("floor", _HERE / "floor.c")

    def _tls_floor(self) -> str:
        return self._build("tls_floor", _HERE / "floor.c", "-DFLOOR_TLS", "-lgnutls")

    def _build(self, name: str, *arguments: Path | str) -> str:
        program = self._folder / name
        if not program.exists():
            compiler = os.environ.get("CC") or shutil.which("cc") or "gcc"
            built = subprocess.run(
                [compiler, *_FLAGS, "-o", program, *map(str, arguments)],
                check=False,
                capture_output=True,
                text=True,
            )
            if built.returncode:
                raise Missing(f"{name}: {built.stderr.splitlines()[0]}")
        return str(program)


@contextlib.contextmanager
def _canned() -> Iterator[int]:
    """The port of a canned server in this process."""
    server = _engine.Responder()
    server.start()
    try:
        yield server.port
    finally:
        server.stop()


# -- the floor's bytes -----------------------------------------------------------------


def tlv(tag: int, content: bytes) -> bytes:
    if len(content) < 0x80:
        return bytes([tag, len(content)]) + content
    length = len(content).to_bytes((len(content).bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def encode(template: Template) -> bytes:
    """A request of the template as the engine writes it, each value its lowest."""
    program = template.program
    stack: list[tuple[int, bytearray]] = [(0x30, bytearray(tlv(0x02, _MESSAGE_ID)))]
    at = 0
    while at < len(program):
        code, at = program[at], at + 1
        if code == 1:
            size = int.from_bytes(program[at : at + 4], "little")
            stack[-1][1].extend(program[at + 4 : at + 4 + size])
            at += 4 + size
        elif code == 2:
            source = int.from_bytes(program[at : at + 2], "little")
            stack[-1][1].extend(str(template.values[source].lo).encode())
            at += 2
        elif code == 3:
            stack.append((program[at], bytearray()))
            at += 1
        else:
            tag, content = stack.pop()
            stack[-1][1].extend(tlv(tag, bytes(content)))
    return tlv(stack[0][0], bytes(stack[0][1]))


def answer_bytes(port: int, request: bytes) -> int:
    """The length of the canned answer to the request."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(request)
        received = b""
        while not received.endswith(_END_OF_ANSWER):
            received += connection.recv(65536)
    return len(received)
