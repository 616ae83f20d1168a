# SPDX-License-Identifier: Apache-2.0
"""Labs that stay after the command that made them: `lab up`, `lab status`, `lab down`.

A name is a symbolic link to the lab's folder, in this user's state folder; making the
link claims the name, and a link without its folder is removed. The lab's folder has the
pid files of its servers, that of `lab up` until the lab is up, and its description from
then on.

    absent ── up ──> linked, has the pid of `lab up` ──> described: up ── down ──┐
      ^─── failed, or its folder is gone ────────────────────────────────────────┘
"""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ldapslam.base.errors import ConfigError, TargetError
from ldapslam.base.fault import did_you_mean
from ldapslam.base.files import host_state_folder, locked, read_json, write_whole
from ldapslam.directory.counts import ServerKind
from ldapslam.directory.replication_state import State, latest, state
from ldapslam.jobs.fields.context import LAB_FOLDER
from ldapslam.lab.access import Access
from ldapslam.lab.lab import Lab, in_sync
from ldapslam.lab.pid_files import (
    locked_pid_file,
    pid_file_of,
    remove_lab,
    running_pid,
)
from ldapslam.lab.server import LabError, Server

#: A lab as JSON: what `lab up --json` prints. Without `servers`, the lab is not up:
#: `process` is the pid of its `lab up`, or None when that was killed.
Description = dict[str, Any]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
_CONNECT_TIMEOUT_S = 2

#: Files of the lab's folder; the first is no server's, and has another suffix.
_PID_OF_UP, _DESCRIPTION = "up-pid", "lab.json"

_KINDS = {"slapd": ServerKind.SLAPD, "389ds": ServerKind.DS389}


def bring_up(name: str, lab: Lab, *, has_tls: bool) -> Description:
    """Bring the lab up to stay; its description. ConfigError when the name is taken."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"--name: expected letters, digits, '-', '_' and '.', got {name!r}"
        )
    lab.prepare()
    folder = lab.folder
    try:
        with locked_pid_file(folder / _PID_OF_UP) as descriptor:
            os.write(descriptor, str(os.getpid()).encode())
            _claim(name, folder)
            lab.serve()
            text = json.dumps(_description(name, lab, has_tls), indent=2, default=str)
            write_whole(folder / _DESCRIPTION, text.encode())
            lab.leave()
    except BaseException:
        lab.down()
        _folders()
        raise
    return _read(name, folder)


def descriptions() -> list[Description]:
    """All labs of this user, by name."""
    return [_read(name, folder) for name, folder in _folders().items()]


def describe(name: str) -> Description:
    """One lab of this user; ConfigError when there is none of this name."""
    labs = {description["name"]: description for description in descriptions()}
    if name in labs:
        return labs[name]
    hint = did_you_mean(name, labs, "labs") if labs else "`ldapslam lab up` makes one"
    raise ConfigError(f"there is no lab {name!r}", hint=hint)


def examine(description: Description) -> list[dict[str, Any]]:
    """The servers of a lab: `state` is `running`, `not answering` or `ended`;
    `in_sync` whether it has all changes of the suppliers, None if that is unknown."""
    servers = [_server(values) for values in description.get("servers", [])]
    examined = [(server, *_state(description, server)) for server in servers]
    newest = latest(
        position
        for server, _, position in examined
        if server.role == "supplier" and position is not None
    )
    return [
        {
            "name": server.name,
            "pid": server.pid,
            "uri": server.uri,
            "state": shown,
            "position": position,
            "in_sync": None if position is None else in_sync(position, newest),
        }
        for server, shown, position in examined
    ]


def take_down(name: str) -> None:
    """End all servers of a lab and remove its folder; returns when that is done."""
    folder = Path(describe(name)["folder"])
    if pid := running_pid(folder / _PID_OF_UP):
        raise ConfigError(
            f"lab {name!r} is being brought up by process {pid}",
            hint=f"wait for it, or end it: `kill {pid}`",
        )
    remove_lab(folder)
    if folder.exists():
        raise LabError(
            f"the servers of lab {name!r} have ended, but {str(folder)!r} cannot be "
            "removed",
            hint="may this user write there? Then try again",
        )
    _folders()


# -- what is kept ----------------------------------------------------------------------


def _description(name: str, lab: Lab, has_tls: bool) -> Description:
    return {
        "name": name,
        "server": lab.kind,
        "backend": lab.backend,
        "suffix": lab.suffix,
        "entries": lab.entries,
        "admin_dn": lab.admin_dn,
        "admin_password_file": lab.admin_password_file,
        "ca_file": lab.ca_file,
        "tls": has_tls,
        "folder": lab.folder,
        "created_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "servers": [asdict(server) for server in lab.servers],
    }


def _server(values: dict[str, Any]) -> Server:
    paths = {key: Path(values[key]) for key in ("folder", "admin_password_file")}
    return Server(**{**values, **paths})


def _state(description: Description, server: Server) -> tuple[str, State | None]:
    """The state of a server, and its position where it answers."""
    if running_pid(pid_file_of(Path(description["folder"]), server.name)) is None:
        return "ended", None
    kind = _KINDS[description["server"]]
    try:
        access = Access(server.admin_password_file.read_text())
        with access.bound(server, _CONNECT_TIMEOUT_S) as connection:
            return "running", state(connection, kind, description["suffix"])
    except (TargetError, OSError):
        return "not answering", None


# -- names -----------------------------------------------------------------------------


def _state_folder() -> Path:
    """The folder of the names of this host's labs; not the runtime folder, which goes
    with the last session."""
    return host_state_folder("labs")


def _claim(name: str, folder: Path) -> None:
    _folders()  # removes the link of a lab that is gone
    try:
        (_state_folder() / name).symlink_to(folder)
    except FileExistsError:
        raise ConfigError(
            f"lab {name!r} is up already",
            hint=f"`ldapslam lab down {name}` first, or take another --name",
        ) from None


def _folders() -> dict[str, Path]:
    """The folders of this user's labs by name; names of labs that are gone are
    removed."""
    folders = {}
    with locked(state_folder := _state_folder()):
        for link in sorted(state_folder.iterdir()):
            if not link.is_symlink():
                continue
            folder = link.readlink()
            if _is_own_lab(folder):
                folders[link.name] = folder
            else:
                link.unlink()
    return folders


def _is_own_lab(folder: Path) -> bool:
    """Whether it is a lab's folder that this user made; another user may have taken the
    path of one that is gone."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return False
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return is_own and folder.name.startswith(LAB_FOLDER)


def _read(name: str, folder: Path) -> Description:
    try:
        return read_json(folder / _DESCRIPTION)
    except FileNotFoundError:
        process = running_pid(folder / _PID_OF_UP)
        return {"name": name, "folder": str(folder), "process": process}
