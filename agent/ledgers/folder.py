# SPDX-License-Identifier: Apache-2.0
"""The folder of a run's ledgers, with what a clean-up needs.

    SPOOL/ledgers/RUN/clean-up.json     servers and identities, no passwords
    SPOOL/ledgers/RUN/STREAM-LEDGER-WORKER.ledger    see agent/csrc/load/ledger.h
    SPOOL/ledgers/RUN/lock              held by the folder's user; its time is when the
                                        load was last alive

It is made before any load and removed when none of its entries is left.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import mmap
import os
import re
import shutil
import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

from ldapslam.base.errors import ConfigError, StoreError
from ldapslam.base.files import private, write_whole
from ldapslam.base.inert import parse_json
from ldapslam.base.names import is_name
from ldapslam.base.secrets import SecretRef
from ldapslam.jobs.connection_settings import (
    BindSettings,
    ConnectionSettings,
    TlsSettings,
)
from ldapslam.jobs.plan import AgentPlan, StreamPlan

FOLDER = "ledgers"
_PLAN = "clean-up.json"
_LOCK = "lock"
_FORMAT = "ldapslam.clean_up/2"
_LEDGER = re.compile(r"(\d+)-(\d+)-(\d+)\.ledger")


@dataclass(frozen=True, slots=True)
class CleanUpStream:
    """A stream that added entries, its servers and its identity."""

    name: str
    uris: tuple[str, ...]
    connection: ConnectionSettings
    #: For each ledger, whether its entries are to be removed.
    ledgers: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class CleanUpPlan:
    run_id: str
    #: The run added nothing before this, in s since 1970.
    begun_s: float
    #: The run was last known to be live at this time.
    ended_s: float
    #: By the engine's numbers.
    streams: tuple[CleanUpStream, ...]


def run_folder(spool: Path, run_id: str) -> Path:
    """Return the folder of a run; ConfigError where a user gave what is no id."""
    if not is_name(run_id):
        raise ConfigError(f"{run_id!r} is no run's id", hint="`ldapslam list` has them")
    return spool / FOLDER / run_id


def needs_ledgers(plan: AgentPlan) -> bool:
    return any(stream.ledgers for stream in plan.streams)


def make_folder(folder: Path, run_id: str, plan: AgentPlan) -> None:
    """Before any load: write down what a clean-up will need."""
    try:
        folder.mkdir(parents=True, mode=0o700)
    except FileExistsError:
        raise StoreError(
            f"{str(folder)!r} exists: an earlier run of that id left entries",
            hint=f"`ldapslam run --cleanup {run_id}` removes them",
        ) from None
    native = [stream for stream in plan.streams if stream.engine == "native"]
    content = {
        "format": _FORMAT,
        "run_id": run_id,
        "begun_s": time.time(),
        "streams": [
            _stream_content(folder, number, stream)
            for number, stream in enumerate(native)
        ],
    }
    _write_plan(folder, content)


def _write_plan(folder: Path, content: Mapping[str, Any]) -> None:
    write_whole(folder / _PLAN, json.dumps(content, indent=2).encode())


def note_begin(folder: Path, begun_s: float) -> None:
    """No add is sent before that moment."""
    content = parse_json((folder / _PLAN).read_text(encoding="utf-8"))
    _write_plan(folder, {**content, "begun_s": begun_s})


def note_alive(folder: Path) -> None:
    """Called about once a second during the load."""
    os.utime(folder / _LOCK)


def _stream_content(folder: Path, number: int, stream: StreamPlan) -> dict[str, Any]:
    connection = stream.connection
    if connection.tls.ca_file is not None:
        # the run's own copy is removed with its folder
        ca_file = f"ca-{number}.pem"
        shutil.copyfile(connection.tls.ca_file, folder / ca_file)
        tls = dataclasses.replace(connection.tls, ca_file=ca_file)
        connection = dataclasses.replace(connection, tls=tls)
    return {
        "name": stream.name,
        "uris": stream.uris,
        "ledgers": stream.clean_up,
        "connection": dataclasses.asdict(connection),
    }


def read_plan(folder: Path, *, resolve_anew: bool = False) -> CleanUpPlan:
    """The plan that make_folder wrote; `resolve_anew` drops the servers' addresses."""
    path = folder / _PLAN
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
        if content["format"] != _FORMAT:
            raise ValueError(f"format {content['format']!r}")
        lock, begun_s = folder / _LOCK, content["begun_s"]
        return CleanUpPlan(
            run_id=content["run_id"],
            begun_s=begun_s,
            # without a lock the run got no further
            ended_s=lock.stat().st_mtime if lock.exists() else begun_s,
            streams=tuple(
                _stream(folder, one, resolve_anew=resolve_anew)
                for one in content["streams"]
            ),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{str(path)!r} cannot be used: {error}",
            hint="the entries that the run added must be removed by hand; the ledgers "
            "beside it have their DNs",
        ) from error


def _stream(
    folder: Path, content: dict[str, Any], *, resolve_anew: bool
) -> CleanUpStream:
    connection = content["connection"]
    tls, bind = connection["tls"], connection["bind"]
    if resolve_anew:
        connection["addresses"] = {}
    if tls["ca_file"] is not None:
        tls["ca_file"] = str(folder / tls["ca_file"])
    if bind["password"] is not None:
        bind["password"] = SecretRef(**bind["password"])
    made = {**connection, "tls": TlsSettings(**tls), "bind": BindSettings(**bind)}
    return CleanUpStream(
        name=content["name"],
        uris=tuple(content["uris"]),
        connection=ConnectionSettings(**made),
        ledgers=tuple(content["ledgers"]),
    )


def ledgers_to_clean(folder: Path, plan: CleanUpPlan) -> dict[int, list[Path]]:
    """Stream number -> its ledgers whose entries are to be removed."""
    found: dict[int, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        if match := _LEDGER.fullmatch(path.name):
            stream, ledger = int(match[1]), int(match[2])
            if stream >= len(plan.streams):
                raise StoreError(f"{str(path)!r}: the run has no stream {stream}")
            wanted = plan.streams[stream].ledgers
            if ledger >= len(wanted) or wanted[ledger]:
                found.setdefault(stream, []).append(path)
    return found


def entries_left(folder: Path) -> int:
    count = 0
    for paths in ledgers_to_clean(folder, read_plan(folder)).values():
        for path in paths:
            with LedgerFile(path) as ledger:
                count += ledger.left()
    return count


def folders_left(spool: Path) -> list[Path]:
    """Folders of runs that did not remove their entries, oldest first."""
    times = {}
    for path in (spool / FOLDER).glob(f"*/{_PLAN}"):
        # another run may remove its folder meanwhile
        with contextlib.suppress(FileNotFoundError):
            times[path.parent] = path.stat().st_mtime
    return sorted(times, key=lambda folder: times[folder])


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Use the folder alone; ConfigError when another process does."""
    with open(folder / _LOCK, "ab", opener=private) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"the entries of run {folder.name!r} are in use",
                hint="the run, or another clean-up of it, is under way",
            ) from None
        yield


SEGMENT_BYTES = 1 << 20
MAX_DN_BYTES = 2044
_MAGIC = b"SLL1"
_HEADER_BYTES = 8
#: u8 state, three bytes of zero, u32 length of the DN, in the machine's byte order.
_RECORD = struct.Struct("=B3xI")
_ALIGNMENT = 8


class State(IntEnum):
    """Of a record; SENT and TAKEN leave open whether the entry exists."""

    SENT = 1
    ADDED = 2
    TAKEN = 3
    GONE = 4
    FAILED = 5


IN_DOUBT = (State.SENT, State.TAKEN)
LEFT = (*IN_DOUBT, State.ADDED)


@dataclass(frozen=True, slots=True)
class LedgerRecord:
    """One DN, and where its state is in the file."""

    offset: int
    state: State
    dn: bytes


class LedgerFile:
    """A ledger on disk; a context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with open(path, "r+b") as file:
            size = os.fstat(file.fileno()).st_size
            #: None: an empty file, which cannot be mapped.
            self._map = mmap.mmap(file.fileno(), size) if size else None
        if self._map is not None and self._map[: len(_MAGIC)] != _MAGIC:
            self.close()
            raise StoreError(
                f"{str(path)!r} is no ledger of added entries",
                hint="move it away, and look for entries that a run left by hand",
            )

    def records(self) -> Iterator[LedgerRecord]:
        if self._map is None:
            return
        for segment in range(0, len(self._map), SEGMENT_BYTES):
            end = min(segment + SEGMENT_BYTES, len(self._map))
            offset = segment or _HEADER_BYTES
            while offset + _RECORD.size <= end:
                state, length = _RECORD.unpack_from(self._map, offset)
                if state == 0:
                    break
                begin = offset + _RECORD.size
                if state not in tuple(State) or not (
                    0 < length <= MAX_DN_BYTES and begin + length <= end
                ):
                    raise StoreError(f"{str(self.path)!r} is damaged at byte {offset}")
                dn = self._map[begin : begin + length]
                yield LedgerRecord(offset, State(state), dn)
                offset = begin + length + -length % _ALIGNMENT

    def left(self) -> int:
        return sum(record.state in LEFT for record in self.records())

    def mark_gone(self, record: LedgerRecord) -> None:
        if self._map is not None:
            self._map[record.offset] = State.GONE

    def close(self) -> None:
        if self._map is not None:
            self._map.close()

    def __enter__(self) -> LedgerFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
