# SPDX-License-Identifier: Apache-2.0
"""Files for their owner alone, written whole or not at all; JSON files of others."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ldapslam.base.errors import ConfigError
from ldapslam.base.inert import parse_json


def state_folder() -> Path:
    """Where this user's programs keep what survives them (XDG base directories)."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "ldapslam"


def host_state_folder(name: str) -> Path:
    """One that is of this host, for this user alone; ConfigError."""
    folder = state_folder() / name / socket.gethostname()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{str(folder)!r} cannot be made: {error.strerror}",
            hint=f"{name} are noted there; set XDG_STATE_HOME to another folder",
        ) from error
    found = folder.stat()
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise ConfigError(
            f"{str(folder)!r} is not this user's alone",
            hint=f"`chmod 700 {folder}` if it is yours; else set XDG_STATE_HOME",
        )
    return folder


def make_private_folder(folder: Path) -> None:
    with errors_of(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)


def private(path: str, flags: int) -> int:
    """An opener of files for their owner alone, in folders that may be anyone's."""
    return os.open(path, flags, 0o600)


def write_whole(path: Path, content: bytes) -> None:
    """Put a private file in place of what is there, durably, whole or not at all."""
    aside = path.with_name(f".{path.name}.new")
    aside.unlink(missing_ok=True)  # of a process that was killed
    try:
        with open(aside, "xb", opener=private) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except BaseException:
        # half a file would take the room that the next one needs
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def part_of(path: Path) -> Path:
    """Where a file is written before it takes its place: nothing is there, nor a link
    to a file of somebody else."""
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    return part


def sync_folder(folder: Path) -> None:
    """Make the names in it durable."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def write_private(path: Path, content: bytes) -> None:
    """`write_whole` with its errors as ConfigError."""
    with errors_of(path):
        write_whole(path, content)


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a file; FileNotFoundError without the file, ConfigError
    without an object in it."""
    try:
        if path.exists() and not path.is_file():
            raise ValueError("it is no file")
        value = parse_json(path.read_bytes())
        if not isinstance(value, dict):
            raise ValueError("it is no JSON object")
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise ConfigError(f"{str(path)!r} cannot be read: {error}") from error
    return value


def stamp(path: Path) -> tuple[int, int, int] | None:
    """Another value when the file was replaced or changed; None: it cannot be seen."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Within, no other process changes the folder."""
    with errors_of(folder):
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def errors_of(path: Path) -> Iterator[None]:
    """Within, what the file system refuses is a ConfigError that names the path."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be written: {error.strerror}",
            hint="is the folder there, and writable for this user?",
        ) from error
