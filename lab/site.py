# SPDX-License-Identifier: Apache-2.0
"""The servers of one lab, as a kind of server (slapd, 389-DS) gets them, and its tools.

`Lab` decides when things happen; `OpenLdap` and `Ds389Servers` know how. Tools run
through `Site.finish`; `Lab` starts servers with the command line that they name.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ldapslam.base.errors import ConfigError
from ldapslam.lab.access import Access
from ldapslam.lab.certificates import KeyPair
from ldapslam.lab.lab_folder import LabFolder
from ldapslam.lab.options import Options
from ldapslam.lab.server import LabError, Server

# Entries are loaded faster than that on any machine.
_LOADED_PER_S_MIN = 1_000
_TOOL_TIMEOUT_S = 600.0
# Measured: 1.4 KiB an entry with the indexes of a lab's slapd.
_MAP_BYTES_MIN = 1 << 30
_MAP_BYTES_PER_ENTRY = 16 << 10
_VERSION_TIMEOUT_S = 10.0
_MARKED = " - (?:ERR|WARN) - "
_HINTS = (
    ("No space left", "make room on the disk of the lab's folder, or name another"),
    ("MDB_MAP_FULL", "the database is larger than its maxsize: --setting maxsize=SIZE"),
    (
        "bad configuration",
        "this slapd does not take one of the --setting, or its value",
    ),
)


@dataclass(frozen=True)
class Choices:
    """What the user chose of the servers' software."""

    #: slapd or ns-slapd of a build under test; None: the installed one.
    binary: Path | None = None
    #: `mdb` or `bdb`; None: the product's usual one.
    backend: str | None = None
    #: Replicas of slapd get changes from an access log (delta-syncrepl).
    has_delta: bool = False
    #: Servers replicate over TLS.
    has_tls: bool = False
    #: `--setting` of all servers, see options.py.
    options: Options = ()
    #: CPUs that the servers run on; None: those of this process.
    cpus: frozenset[int] | None = None
    #: False: only the administrator of a slapd may read the tree.
    is_readable: bool = True


@dataclass(frozen=True)
class Tree:
    """The data that every server begins with."""

    suffix: str
    entries: int
    ldif: Path
    #: The LDIF is slapd's own, with entryUUID, entryCSN and contextCSN in it.
    is_replicated: bool

    @property
    def map_bytes(self) -> int:
        """For the file of an mdb: it is sparse, so that too much costs nothing and
        leaves room for what a load adds."""
        return max(_MAP_BYTES_MIN, self.entries * _MAP_BYTES_PER_ENTRY)


@dataclass(frozen=True)
class Site:
    """The lab's folder and what is in it, as its servers need it."""

    lab_folder: LabFolder
    tree: Tree
    admin_dn: str
    password: str
    ca_file: Path
    access: Access
    #: Suppliers first.
    servers: Sequence[Server]
    #: Server -> servers that it gets changes from.
    providers: Mapping[str, Sequence[Server]]
    key_pairs: Mapping[str, KeyPair]

    @property
    def folder(self) -> Path:
        return self.lab_folder.path

    @property
    def suppliers(self) -> list[Server]:
        return [one for one in self.servers if one.role == "supplier"]

    def is_provider(self, server: Server) -> bool:
        """Whether other servers get changes from it."""
        return any(server in found for found in self.providers.values())

    def consumers(self, server: Server) -> list[Server]:
        """The servers that get changes from it."""
        return [one for one in self.servers if server in self.providers[one.name]]

    def finish(self, tool: str, commands: Mapping[str, Sequence[str]]) -> None:
        """Run a tool for several servers at once; it writes to <server>/<tool>.log."""
        by_name = {server.name: server for server in self.servers}
        timeout_s = _TOOL_TIMEOUT_S + self.tree.entries / _LOADED_PER_S_MIN
        running = []
        for name, argv in commands.items():
            log = by_name[name].folder / f"{tool}.log"
            program = f"{name} {tool}"
            process = self.lab_folder.start(program, argv, log)
            running.append((program, process, log))
        deadline_s = time.monotonic() + timeout_s
        for program, process, log in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(deadline_s - time.monotonic(), 0))
            status = process.returncode
            if status != 0:
                outcome = "did not end" if status is None else f"ended with {status}"
                said = last_words(log)
                hint = next((hint for words, hint in _HINTS if words in said), None)
                raise LabError(f"{program} {outcome}: {said}", hint=hint)


def checked_binary(binary: Path, hint: str) -> Path:
    """The absolute path of an executable that the user named; ConfigError."""
    if not (binary.is_file() and os.access(binary, os.X_OK)):
        raise ConfigError(f"--binary {str(binary)!r} is no program", hint=hint)
    return Path(os.path.abspath(binary))


def version_answer(program: Path, option: str, word: str, name: str) -> str:
    """What a program answers to its version option; ConfigError without `word`."""
    try:
        done = subprocess.run(
            [program, option],
            capture_output=True,
            text=True,
            timeout=_VERSION_TIMEOUT_S,
            env={**os.environ, "LDAPNOINIT": "1"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"{str(program)!r} cannot be run: {error}") from error
    said = done.stderr + done.stdout
    if word not in said:
        raise ConfigError(
            f"{str(program)!r} is no {name}: asked for its version, it said "
            f"{said.strip()[:200]!r}"
        )
    return said


def version_line(said: str) -> str:
    """The first line with a version in what a program answered, or nothing."""
    found = (line for line in said.splitlines() if re.search(r"\d\.\d", line))
    return next(found, "").removeprefix("@(#) $").strip(" $")


def error_lines(log: Path, lines: int = 3) -> str:
    """The last errors and warnings of a 389-DS's log, in one line; of none, nothing."""
    marked = [line for line in _lines(log) if re.search(_MARKED, line)]
    return " | ".join(line.partition("] - ")[2] or line for line in marked[-lines:])


def last_words(log: Path, lines: int = 5) -> str:
    """Return what a server or a tool said last, in one line.

    ns-slapd and its tools write errors only to the log of errors.
    """
    errors = error_lines(log.parent / "log" / "errors")
    return errors or " | ".join(_lines(log)[-lines:]) or "it said nothing"


def _lines(log: Path) -> list[str]:
    try:
        return log.read_text(errors="replace").splitlines()
    except OSError:
        return []
