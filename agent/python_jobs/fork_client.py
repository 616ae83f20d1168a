# SPDX-License-Identifier: Apache-2.0
"""The Python job type behind `burst` with `client: process`: runs `ldapsearch`.

It measures what a shell user gets: fork, loading, connect, bind, search, unbind, exit.
The program's CPU and run-queue time count as the client's, so that the validity rules
see a busy host.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from ldapslam.agent._engine import Text
from ldapslam.agent.python_jobs.job import LOST, TIME_OUT, Client, Operation, PythonJob
from ldapslam.base.errors import ConfigError
from ldapslam.jobs.requests.pattern import parse_pattern
from ldapslam.jobs.requests.template import Template, compile_template

PROGRAM = "ldapsearch"
_INVALID_CREDENTIALS = 49
#: Higher exit statuses are no result codes: libldap's -1 is 255.
_NO_RESULT_CODE = 128
_READ_BYTES = 1 << 16
#: Pause after a failed search.
_BACK_OFF_S = 0.1


class ForkedSearch(PythonJob):
    """`options`: base, scope, filter, attributes; base and filter are patterns."""

    operations: ClassVar[tuple[str, ...]] = ("search",)
    connects: ClassVar[bool] = False
    _texts: Text

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        program = shutil.which(PROGRAM)
        if program is None:
            raise ConfigError(
                f"{PROGRAM!r} is not installed on this agent's host",
                hint="install the OpenLDAP clients: ldap-utils on Debian and Ubuntu, "
                "openldap-clients on Fedora",
            )
        self._program = program
        self._template = _template(
            options["base"], options.get("filter", "(objectClass=*)")
        )
        self._command: list[str] = []
        self._environment: dict[str, str] = {}
        self._password_file = -1

    def set_up(self, client: Client) -> None:
        access = client.access
        if access.bind.mechanism is not None:
            raise ConfigError(
                f"{PROGRAM!r} cannot bind with {access.bind.mechanism} here",
                hint="use a simple bind, or `client: engine`",
            )
        self._environment = {**os.environ, **_tls_environment(client)}
        command = [self._program, "-x", "-LLL", "-H", _uri_for_program(client)]
        if access.tls.start_tls:
            command.append("-ZZ")
        if access.bind.dn is not None:
            # other users can read command lines
            self._password_file = os.memfd_create("password", os.MFD_CLOEXEC)
            os.write(self._password_file, access.bind.secret)
            command += ["-D", access.bind.dn, "-y", f"/dev/fd/{self._password_file}"]
        command += ["-s", self.options.get("scope", "sub")]
        self._command = command
        self._texts = Text(
            self._template,
            seed=client.random.getrandbits(64),
            number=client.number,
            total=client.total,
        )

    def run(self, client: Client) -> None:
        # --: a filter or an attribute is never taken for an option
        base, _, search_filter = self._texts.next().decode().partition("\n")
        arguments = ["-b", base, "--", search_filter]
        command = [*self._command, *arguments, *self.options.get("attributes", ())]
        with client.operation("search") as operation:
            self._search(client, operation, command)
        if operation.result_code == LOST:
            client.sleep(_BACK_OFF_S)

    def _search(self, client: Client, operation: Operation, command: list[str]) -> None:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self._environment,
            pass_fds=[self._password_file] if self._password_file >= 0 else [],
        )
        output = _read_until(process, time.monotonic() + client.request_timeout_s)
        if output is None:
            process.kill()
        status = _reap(client, process)
        if output is None:
            operation.result_code = TIME_OUT
        elif 0 <= status < _NO_RESULT_CODE:
            operation.result_code = status
            client.count_connection()
            operation.add(
                entries=output.count(b"\ndn:") + output.startswith(b"dn:"),
                requests=_requests(client, status),
            )
        else:
            operation.result_code = LOST
            client.count_connection(failed=True)


def _template(base: str, search_filter: str) -> Template:
    template = compile_template(
        *parse_pattern(base).nodes, b"\n", *parse_pattern(search_filter).nodes
    )
    if template.files:
        raise ConfigError(
            "patterns of files need the engine; this client is another program",
            hint="use a pattern without a file, or `client: engine`",
        )
    return template


def _uri_for_program(client: Client) -> str:
    """By address where no certificate needs the name, as checked before the run."""
    access = client.access
    addresses = access.addresses.get(client.uri, "").split()
    if not addresses or access.tls.start_tls or not client.uri.startswith("ldap:"):
        return client.uri
    places = (text.rpartition("/") for text in addresses)
    return " ".join(
        f"ldap://[{host}]:{port}" if ":" in host else f"ldap://{host}:{port}"
        for host, _, port in places
    )


def _tls_environment(client: Client) -> dict[str, str]:
    access = client.access
    files = {
        "LDAPTLS_CACERT": access.tls.ca_file,
        "LDAPTLS_CERT": access.tls.cert_file,
        "LDAPTLS_KEY": access.tls.key_file,
        "LDAPTLS_REQCERT": "demand" if access.tls.verify else "never",
    }
    return {name: value for name, value in files.items() if value is not None}


def _requests(client: Client, status: int) -> list[str]:
    """Kinds of requests of the program, as far as its exit status tells."""
    asked = ["extended"] if client.access.tls.start_tls else []
    searched = [] if status == _INVALID_CREDENTIALS else ["search"]
    return [*asked, "bind", *searched, "unbind"]


def _read_until(process: subprocess.Popen[bytes], deadline_s: float) -> bytes | None:
    if process.stdout is None:
        return b""
    chunks: list[bytes] = []
    with process.stdout as pipe:
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        while True:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or not poll.poll(left_s * 1000):
                return None
            chunk = os.read(pipe.fileno(), _READ_BYTES)
            if not chunk:
                return b"".join(chunks)
            chunks.append(chunk)


def _reap(client: Client, process: subprocess.Popen[bytes]) -> int:
    """The exit status; what the process took of the CPUs is the client's."""
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    try:
        # a zombie still has its statistics
        text = Path(f"/proc/{process.pid}/schedstat").read_text(encoding="ascii")
        cpu_ns, run_queue_ns = (int(word) for word in text.split()[:2])
        client.ran_program(cpu_ns=cpu_ns, run_queue_ns=run_queue_ns)
    except (OSError, ValueError):
        pass
    return process.wait()
