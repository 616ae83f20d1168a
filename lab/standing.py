# SPDX-License-Identifier: Apache-2.0
"""Labs that stay after the command that made them: `lab up`, `lab status`, `lab down`.

Each has a state file by its name in this user's state folder. Making that file claims
the name; the file is good as long as the process that it names lives (the command, then
the lab's keeper). What a killed one left is removed by the next command that finds it.

    absent ── up ──> starting (command) ── loaded, detached ──> up (keeper) ── down ──┐
      ^─── failed, or its process is gone ──────────────────────────────────────────┘
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ldapslam.base.errors import ConfigError, TargetError
from ldapslam.base.fault import did_you_mean
from ldapslam.base.files import host_state_folder
from ldapslam.directory.counts import ServerKind
from ldapslam.directory.replication_state import State, latest, state
from ldapslam.lab.access import Access
from ldapslam.lab.keeper import ask_detached
from ldapslam.lab.lab import Lab, in_sync
from ldapslam.lab.server import LabError, Server

#: A lab as JSON: what `lab up --json` prints.
Description = dict[str, Any]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
_END_TIMEOUT_S = 60.0
_CONNECT_TIMEOUT_S = 2

_KINDS = {"slapd": ServerKind.SLAPD, "389ds": ServerKind.DS389}


def bring_up(name: str, lab: Lab, *, has_tls: bool) -> Description:
    """Bring the lab up to stay; its description. ConfigError when the name is taken."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"--name: expected letters, digits, '-', '_' and '.', got {name!r}"
        )
    state_file = _state_file(name)
    _claim(name, state_file)
    try:
        lab.up()
        try:
            description = _description(name, lab, has_tls)
            with _written(state_file.parent, description) as complete:
                os.replace(complete, state_file)
            lab.detach(state_file)
        finally:
            lab.down()  # harmless once detached
    except BaseException:
        state_file.unlink(missing_ok=True)
        raise
    return description


def descriptions() -> list[Description]:
    """All labs of this user, by name; what killed ones have left is removed."""
    read = map(_read, sorted(_folder().glob("*.json")))
    return [description for description in read if description is not None]


def describe(name: str) -> Description:
    """One lab of this user; ConfigError when there is none of this name."""
    found = {description["name"]: description for description in descriptions()}
    if name in found:
        return found[name]
    hint = did_you_mean(name, found, "labs") if found else "`ldapslam lab up` makes one"
    raise ConfigError(f"there is no lab {name!r}", hint=hint)


def examine(description: Description) -> list[dict[str, Any]]:
    """The servers of a lab: `state` is `running`, `not answering` or how it ended;
    `in_sync` whether it has all changes of the suppliers, None if that is unknown."""
    servers = [_server(values) for values in description.get("servers", [])]
    states = {server.name: _state(description, server) for server in servers}
    positions: dict[str, State] = {}
    for server in servers:
        if states[server.name] == "running":
            try:
                positions[server.name] = _position(description, server)
            except (TargetError, OSError):
                states[server.name] = "not answering"
    wanted = latest(
        positions[one.name]
        for one in servers
        if one.role == "supplier" and one.name in positions
    )
    return [
        {
            "name": server.name,
            "pid": server.pid,
            "uri": server.uri,
            "state": states[server.name],
            "position": positions.get(server.name),
            "in_sync": in_sync(positions[server.name], wanted)
            if server.name in positions
            else None,
        }
        for server in servers
    ]


def take_down(name: str) -> None:
    """End all servers of a lab and remove its folder; returns when that is done."""
    description = describe(name)
    pid = description["process"]["pid"]
    if "servers" not in description:
        raise ConfigError(
            f"lab {name!r} is being brought up by process {pid}",
            hint=f"wait for it, or end it: `kill {pid}`",
        )
    with contextlib.suppress(ProcessLookupError):
        keeper_fd = os.pidfd_open(pid)
        try:
            with contextlib.suppress(ConnectionError, FileNotFoundError):
                ask_detached(Path(description["folder"]), do="end", name=name)
            ended, _, _ = select.select([keeper_fd], [], [], _END_TIMEOUT_S)
        finally:
            os.close(keeper_fd)
        if not ended:
            raise LabError(
                f"lab {name!r} did not end within {_END_TIMEOUT_S:g} s",
                hint=f"`kill -9 {pid}` ends its servers too",
            )
    _sweep(_state_file(name), description)


# -- what is kept ----------------------------------------------------------------------


def _description(name: str, lab: Lab, has_tls: bool) -> Description:
    servers = [
        {key: str(value) if isinstance(value, Path) else value for key, value in pairs}
        for pairs in (asdict(server).items() for server in lab.servers)
    ]
    return {
        "name": name,
        "server": lab.kind,
        "backend": lab.backend,
        "suffix": lab.suffix,
        "entries": lab.entries,
        "admin_dn": lab.admin_dn,
        "admin_password_file": str(lab.admin_password_file),
        "ca_file": str(lab.ca_file),
        "tls": has_tls,
        "folder": str(lab.folder),
        "created_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "process": _process(lab.keeper_pid),
        "servers": servers,
    }


def _server(values: dict[str, Any]) -> Server:
    paths = {key: Path(values[key]) for key in ("folder", "admin_password_file")}
    return Server(**{**values, **paths})


def _state(description: Description, server: Server) -> str:
    folder = Path(description["folder"])
    try:
        reply = ask_detached(folder, do="status", name=server.name)
    except OSError:
        return "not answering"
    status = reply.get("status")
    return "running" if status is None else f"ended with {status}"


def _position(description: Description, server: Server) -> State:
    access = Access(server.admin_password_file.read_text())
    with access.bound(server, _CONNECT_TIMEOUT_S) as connection:
        kind = _KINDS[description["server"]]
        return state(connection, kind, description["suffix"])


# -- state files -----------------------------------------------------------------------


def _folder() -> Path:
    """The folder of this host's state files; not the runtime folder, which goes with
    the last session."""
    return host_state_folder("labs")


def _state_file(name: str) -> Path:
    return _folder() / f"{name}.json"


def _claim(name: str, state_file: Path) -> None:
    """Make the state file of a lab that this process starts."""
    claim = {"name": name, "process": _process(os.getpid())}
    # A second time: what is found first may be left of a lab whose process is gone.
    for _ in range(2):
        with _written(state_file.parent, claim) as complete:
            try:
                os.link(complete, state_file)
            except FileExistsError:
                pass
            else:
                return
        if _read(state_file) is not None:
            break
    raise ConfigError(
        f"lab {name!r} is up already",
        hint=f"`ldapslam lab down {name}` first, or take another --name",
    )


@contextlib.contextmanager
def _written(folder: Path, document: Description) -> Iterator[Path]:
    """A complete file, which is gone afterwards unless it was renamed."""
    number, path = tempfile.mkstemp(dir=folder)
    try:
        with os.fdopen(number, "w") as output:
            json.dump(document, output, indent=2)
        yield Path(path)
    finally:
        Path(path).unlink(missing_ok=True)


def _read(state_file: Path) -> Description | None:
    """The description in a state file; None, and the file is removed, without its
    process."""
    try:
        description: Description = json.loads(state_file.read_text())
        process = description["process"]
        if process == _process(process["pid"]):
            return description
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise LabError(
            f"{str(state_file)!r} cannot be read: {error}", hint="remove it"
        ) from error
    _sweep(state_file, description)
    return None


def _sweep(state_file: Path, description: Description) -> None:
    folder = Path(description.get("folder", ""))
    if folder.name.startswith("ldapslam-lab-"):
        shutil.rmtree(folder, ignore_errors=True)
    # The keeper removes it too, and somebody else may have taken the name since.
    with contextlib.suppress(FileNotFoundError, ValueError, KeyError):
        if json.loads(state_file.read_text())["process"] == description["process"]:
            state_file.unlink()


def _process(pid: int) -> dict[str, Any] | None:
    """Tells a process from a later one with its pid; None without it."""
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # proc_pid_stat(5): the fields from the third on, behind the name.
    fields = text.rpartition(")")[2].split()
    if fields[0] == "Z":
        return None
    return {"pid": pid, "start_ticks": int(fields[19]), "boot_id": boot_id}
