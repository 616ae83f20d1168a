# SPDX-License-Identifier: Apache-2.0
"""Which databases a slapd has, from its configuration alone; and whether one is in use.

Reads slapd.conf(5) with what it includes, or a folder of slapd-config(5), no more of
either than is needed: types, suffixes, folders, and the file of slapd's process id.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ldapslam.base.errors import ConfigError
from ldapslam.dataset.ldif import open_ldif, records
from ldapslam.directory.entry_digest import is_below

_INCLUDES_DEEP = 8


@dataclass(frozen=True, slots=True)
class SlapdDatabase:
    """One database of a slapd."""

    #: `mdb`, `hdb` and so on.
    backend: str
    suffixes: tuple[str, ...]
    #: Where its files are, for back ends that have some.
    folder: Path | None
    #: Where slapd writes its process id while it runs.
    pid_file: Path | None

    def user_pid(self) -> int | None:
        """A process that has the database open, or None.

        LMDB has a lock on the first octet of lock.mdb as long as an environment is open
        (mdb_env_excl_lock, mdb_env_share_locks); for other back ends it is the process
        of the file of its id, if that runs.
        """
        if self.folder is not None:
            pid = _lock_holder(self.folder / "lock.mdb")
            if pid is not None:
                return pid
        return None if self.pid_file is None else _running(self.pid_file)


def find_database(config: Path, dn: str) -> SlapdDatabase:
    """The database that an entry of this DN would be in. ConfigError: there is none."""
    databases = list(_databases(config))
    for database in databases:
        if any(is_below(dn, suffix) for suffix in database.suffixes):
            return database
    suffixes = [suffix for one in databases for suffix in one.suffixes]
    raise ConfigError(
        f"no database of {str(config)!r} is for {dn!r}; their suffixes are "
        f"{', '.join(suffixes) or 'none'}",
        hint="name the configuration of the slapd that is to have the entries: "
        "slapd.conf, or the folder slapd.d",
    )


def _databases(config: Path) -> Iterator[SlapdDatabase]:
    directives = _folder(config) if config.is_dir() else _file(config, _INCLUDES_DEEP)
    pid_file: Path | None = None
    backend, folder = "", None
    suffixes: list[str] = []
    for keyword, value in directives:
        if keyword == "pidfile":
            pid_file = Path(value)
        elif keyword == "database":
            if suffixes:
                yield SlapdDatabase(backend, tuple(suffixes), folder, pid_file)
            backend, suffixes, folder = value, [], None
        elif keyword == "suffix" and backend:
            suffixes.append(value)
        elif keyword == "directory" and backend:
            folder = Path(value)
    if suffixes:
        yield SlapdDatabase(backend, tuple(suffixes), folder, pid_file)


def _file(path: Path, depth: int) -> Iterator[tuple[str, str]]:
    """Keyword and first argument of each directive of slapd.conf."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    for line in re.sub(r"\n[ \t]+", " ", text).splitlines():
        match = re.match(r'(\w+)\s+(?:"([^"]*)"|(\S+))', line)
        if match is None:
            continue
        keyword, value = match[1].lower(), match[2] or match[3] or ""
        if keyword == "include" and depth:
            yield from _file(Path(value), depth - 1)
        else:
            yield keyword, value


def _folder(path: Path) -> Iterator[tuple[str, str]]:
    """The same of slapd.d."""
    inner = path / "cn=config"
    files = [path / "cn=config.ldif", *sorted(inner.glob("olcDatabase=*.ldif"))]
    if not files[0].exists():
        raise ConfigError(
            f"{str(path)!r} is no folder of slapd-config: it has no cn=config.ldif"
        )
    keywords = {"olcsuffix": "suffix", "olcdbdirectory": "directory"}
    for file in files:
        with open_ldif(file) as stream:
            for record in records(stream, str(file)):
                found = {name.lower(): all for name, all in record.attributes.items()}
                if "olcpidfile" in found:
                    yield "pidfile", os.fsdecode(found["olcpidfile"][0])
                if "olcdatabase" in found:
                    name = found["olcdatabase"][0].decode()
                    yield "database", name.partition("}")[2] or name
                for attribute, keyword in keywords.items():
                    for value in found.get(attribute, ()):
                        yield keyword, value.decode(errors="surrogateescape")


def _lock_holder(path: Path) -> int | None:
    try:
        with path.open("rb") as file:
            # struct flock: l_type, l_whence, l_start, l_len, l_pid
            asked = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
            found = struct.unpack("hhqqi", fcntl.fcntl(file, fcntl.F_GETLK, asked))
    except OSError:
        return None  # not there, or not ours to look at: slapadd will say so
    return found[4] if found[0] != fcntl.F_UNLCK else None


def _running(pid_file: Path) -> int | None:
    try:
        return running_slapd(pid_file.read_text().strip())
    except OSError:
        return None


def running_slapd(text: str) -> int | None:
    """The process id that a file has, if that is a slapd's or ns-slapd's."""
    try:
        name = Path(f"/proc/{int(text)}/comm").read_text()
    except (OSError, ValueError):
        return None
    return int(text) if "slapd" in name else None
