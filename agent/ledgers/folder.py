# SPDX-License-Identifier: Apache-2.0
"""Where the ledgers of a run are, and what is needed to remove the entries in them.

    SPOOL/ledgers/RUN/clean-up.json            servers and identities, no passwords
    SPOOL/ledgers/RUN/STREAM-LEDGER-WORKER.ledger        the engine's: see ledger.h
    SPOOL/ledgers/RUN/lock                     held by the process that uses the folder;
                                               its time is when the load was last alive

The folder is made before any load and removed when none of its entries is left: one
that is there belongs to a run that is under way or did not come to its end.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldapslam.agent.ledgers.file import LedgerFile
from ldapslam.agent.spool import private
from ldapslam.base.errors import ConfigError, StoreError
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
    """A stream that added entries: where, and as whom."""

    name: str
    uris: tuple[str, ...]
    connection: ConnectionSettings
    #: For each of its ledgers, whether its entries are to be removed.
    ledgers: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class CleanUpPlan:
    run_id: str
    #: Before this moment (seconds since 1970) the run had added nothing.
    begun_s: float
    #: At this moment it was last known to be under way.
    ended_s: float
    #: By the number that the engine gave the stream.
    streams: tuple[CleanUpStream, ...]


def run_name(run_id: str) -> str:
    """A file's name for a run: its id is a coordinator's, so no path parts; ConfigError
    where none is left."""
    name = Path(run_id).name
    if name in ("", "..") or "\0" in name:
        raise ConfigError(f"{run_id!r} is no run's id", hint="`ldapslam list` has them")
    return name


def run_folder(spool: Path, run_id: str) -> Path:
    """Of one run; ConfigError."""
    return spool / FOLDER / run_name(run_id)


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
    new = folder / f"{_PLAN}.new"
    with open(new, "w", encoding="utf-8", opener=private) as file:
        json.dump(content, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    new.replace(folder / _PLAN)


def note_begin(folder: Path, begun_s: float) -> None:
    """No add is sent before that moment: later than what make_folder wrote."""
    content = json.loads((folder / _PLAN).read_text(encoding="utf-8"))
    _write_plan(folder, {**content, "begun_s": begun_s})


def note_alive(folder: Path) -> None:
    """The load is under way now; to be told about once a second."""
    os.utime(folder / _LOCK)


def _stream_content(folder: Path, number: int, stream: StreamPlan) -> dict[str, Any]:
    connection = stream.connection
    if connection.tls.ca_file is not None:
        # the run's own copy goes with its folder; this one may be moved with ours
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
    """What make_folder wrote; resolve_anew: but not where the servers then were."""
    path = folder / _PLAN
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != _FORMAT:
            raise ValueError(f"format {content['format']!r}")
        return CleanUpPlan(
            run_id=content["run_id"],
            begun_s=content["begun_s"],
            ended_s=_last_alive_s(folder, content["begun_s"]),
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


def _last_alive_s(folder: Path, begun_s: float) -> float:
    try:
        return (folder / _LOCK).stat().st_mtime
    except FileNotFoundError:
        return begun_s  # it got no further


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
    """How many entries of the run may still be in a directory."""
    count = 0
    for paths in ledgers_to_clean(folder, read_plan(folder)).values():
        for path in paths:
            with LedgerFile(path) as ledger:
                count += ledger.left()
    return count


def folders_left(spool: Path) -> list[Path]:
    """Of runs that did not remove what they added, oldest first."""
    folders = (spool / FOLDER).glob(f"*/{_PLAN}")
    return [path.parent for path in sorted(folders, key=lambda p: p.stat().st_mtime)]


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
