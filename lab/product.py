# SPDX-License-Identifier: Apache-2.0
"""What the servers of one lab share, and what a kind of server must be able to do.

`Lab` decides when things happen; a `Product` (slapd, 389-DS) knows how its servers do
them. A product starts no process by itself: tools run through `Site.finish`, servers
are started by `Lab` with the command line that the product names.
"""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ldapslam.dataset.offline import IsStopping, OfflineResult
from ldapslam.directory.counts import ServerKind
from ldapslam.lab.access import Access
from ldapslam.lab.certificates import KeyPair
from ldapslam.lab.errors import LabError
from ldapslam.lab.keeper import Keeper
from ldapslam.lab.options import Options
from ldapslam.lab.server import Server

#: Of a value that one server has and no other: `Lab.break_entry`.
BROKEN_SUFFIX = b"0"

# Entries are loaded faster than that on any machine.
_LOADED_PER_S_MIN = 1_000
_TOOL_TIMEOUT_S = 600.0
_MARKED = " - (?:ERR|WARN) - "
_HINTS = (
    ("No space left", "make room on the disk of the lab's folder, or name another"),
    ("MDB_MAP_FULL", "the database is larger than its maxsize: --set maxsize=SIZE"),
    ("bad configuration", "this slapd does not take one of the --set, or their value"),
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
    #: `--set` of all servers, see options.py.
    options: Options = ()


@dataclass(frozen=True)
class Tree:
    """The data that every server begins with."""

    suffix: str
    entries: int
    ldif: Path
    #: The LDIF is slapd's own, with entryUUID, entryCSN and contextCSN in it.
    is_replicated: bool


@dataclass(frozen=True)
class Site:
    """The lab's folder and what is in it, as its servers need it."""

    folder: Path
    tree: Tree
    admin_dn: str
    password: str
    ca_file: Path
    access: Access
    keeper: Keeper
    #: Suppliers first.
    servers: Sequence[Server]
    #: Whom each server, by its name, gets changes from.
    providers: Mapping[str, Sequence[Server]]
    key_pairs: Mapping[str, KeyPair]
    #: Stop a server; start it again, wait until it answers.
    stop: Callable[[Server], None]
    start: Callable[[Server], None]

    def is_provider(self, server: Server) -> bool:
        """Whether others get changes from it."""
        return any(server in found for found in self.providers.values())

    def consumers(self, server: Server) -> list[Server]:
        """Who gets changes from it."""
        return [one for one in self.servers if server in self.providers[one.name]]

    def finish(self, tool: str, commands: Mapping[str, Sequence[str]]) -> None:
        """Run one tool for several servers, by their names, all at once, to its end;
        what it says is in <server>/<tool>.log."""
        by_name = {server.name: server for server in self.servers}
        timeout_s = _TOOL_TIMEOUT_S + self.tree.entries / _LOADED_PER_S_MIN
        running = []
        for name, argv in commands.items():
            log = by_name[name].folder / f"{tool}.log"
            program = f"{name} {tool}"
            running.append((program, self.keeper.start(program, argv, log, 8_192), log))
        deadline_s = time.monotonic() + timeout_s
        for program, pid, log in running:
            left_s = max(deadline_s - time.monotonic(), 0)
            status = self.keeper.wait(program, pid, left_s)
            if status != 0:
                outcome = "did not end" if status is None else f"ended with {status}"
                # ns-slapd's tools say what was wrong there alone
                said = error_lines(log.parent / "log" / "errors") or last_lines(log)
                raise LabError(f"{program} {outcome}: {said}", hint=_hint(said))


class Product(ABC):
    """One kind of server. `site` is set before anything but `find` is asked."""

    #: As its users call it.
    label: ClassVar[str]
    kind: ClassVar[ServerKind]
    #: How long a server may take to stop before it is killed.
    stop_grace_s: ClassVar[float]
    site: Site

    @property
    @abstractmethod
    def backend(self) -> str:
        """The back end in use."""

    @abstractmethod
    def find(self) -> None:
        """Find the programs; a missing one is a LabError that names the package."""

    @abstractmethod
    def make_files(self) -> None:
        """Configure every server, in its folder, which is there."""

    @abstractmethod
    def load(self) -> None:
        """Load the tree into every server, before any is started."""

    @abstractmethod
    def version(self) -> str:
        """What the server's program says of itself."""

    @abstractmethod
    def import_offline(
        self, server: Server, ldif: Path, *, is_quick: bool, is_stopping: IsStopping
    ) -> OfflineResult:
        """Load a file into a server that was never started, and time it."""

    @abstractmethod
    def command(self, server: Server) -> Sequence[str]:
        """Run one server in the foreground."""

    @abstractmethod
    def log(self, server: Server) -> Path:
        """What the server's process prints."""

    @abstractmethod
    def nofile(self, server: Server) -> int:
        """The server's limit of open files."""

    @abstractmethod
    def connect(self) -> None:
        """Have the servers, which are up now and had no client, replicate."""

    @abstractmethod
    def counts(self, server: Server) -> dict[str, int]:
        """Operations begun since the server started, by the RFC's names, the lab's own
        excepted."""

    @abstractmethod
    def pause(self, replica: Server) -> None:
        """Have a replica get no changes, without stopping any server."""

    @abstractmethod
    def resume(self, replica: Server, through: str | None) -> None:
        """Have a replica get changes again, over a relay at `through` (host:port)."""

    @abstractmethod
    def break_entry(self, replica: Server, dn: str, attribute: str | None) -> None:
        """Remove an entry, or change a value of it, on one replica alone."""


def _hint(said: str) -> str | None:
    """The remedy, by the words of the program that failed."""
    return next((hint for words, hint in _HINTS if words in said), None)


def version_line(said: str) -> str:
    """The first line with a version in what a program answered, or nothing."""
    found = (line for line in said.splitlines() if re.search(r"\d\.\d", line))
    return next(found, "").removeprefix("@(#) $").strip(" $")


def error_lines(log: Path, lines: int = 3) -> str:
    """The last errors and warnings of a 389-DS's log, in one line; of none, nothing."""
    try:
        text = log.read_text(errors="replace")
    except OSError:
        return ""
    marked = [line for line in text.splitlines() if re.search(_MARKED, line)]
    return " | ".join(line.partition("] - ")[2] or line for line in marked[-lines:])


def last_lines(log: Path, lines: int = 5) -> str:
    """What a program said last, in one line."""
    try:
        text = log.read_text(errors="replace")
    except FileNotFoundError:
        text = ""
    return " | ".join(text.splitlines()[-lines:]) or "it said nothing"
