# SPDX-License-Identifier: Apache-2.0
"""What a load over LDAP has done so far, in two files beside each other.

    people.ldif.rejects           LDIF of what the server refused, and why; those of
                                  earlier loads are people.ldif.rejects.1, .2, …
    people.ldif.rejects.state     where in people.ldif the load is; gone at its end

Both follow the order of the file: when the state says a place, all before it has been
answered and what was refused is in the rejects. What came after it is sent again by
the next call. Of that the state names what may be there already, by hashes, and before
it is sent: any other entry that is there was there before the load.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import BinaryIO, Self

from ldapslam.base.errors import ConfigError
from ldapslam.dataset.add_order import Add, Outcome
from ldapslam.dataset.ldif import Record, open_ldif, records
from ldapslam.directory.entry_digest import Fingerprint

_FORMAT = 2


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a load is; numbers are of all its calls together."""

    #: Where in the LDIF the next record begins; lines count from 1.
    line: int = 1
    offset_bytes: int = 0
    rejects_bytes: int = 0
    added: int = 0
    #: Were there already when they were sent again.
    present: int = 0
    rejected: int = 0
    #: Sum of the digests of the entries that are there; see content.Fingerprint.
    digests: int = 0
    #: Hash of the records up to here, in hex: see _hashed.
    content: str = ""
    #: Time under way, of earlier calls too.
    seconds: float = 0.0

    @property
    def fingerprint(self) -> Fingerprint:
        """Of the entries that are there."""
        return Fingerprint(self.added + self.present, self.digests)


class LoadState:
    """A load's two files; a context manager that closes them."""

    def __init__(self, ldif: Path, uri: str, rejects: Path, *, restart: bool) -> None:
        """ConfigError for another load's or a damaged state; `restart` forgets it."""
        self._rejects = rejects
        self._path = rejects.with_name(rejects.name + ".state")
        self._load = {"ldif": str(ldif.resolve()), "uri": uri}
        self._version = _version(ldif)
        self._file: BinaryIO | None = None
        #: Where the rejects of another load are now that had this name.
        self.kept: Path | None = None
        self.is_resumed = self._path.exists() and not restart
        self.progress = Progress()
        #: Hashes of the entries behind this place that earlier calls may have added;
        #: without those that were read in this one.
        self._sent: set[str] = set()
        if self.is_resumed:
            self.progress, self._sent = self._read(ldif)

    def __enter__(self) -> Self:
        try:
            if self.progress.rejects_bytes:
                self._file = _own(self._rejects, os.O_RDWR)
                self._file.truncate(self.progress.rejects_bytes)
                self._file.seek(0, os.SEEK_END)
            elif self.is_resumed:
                # of entries that are sent again
                self._rejects.unlink(missing_ok=True)
            else:
                self.kept = _renamed(self._rejects)
            self.save(self.progress.seconds, [])
        except OSError as error:
            raise self._unusable(error) from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def take_sent(self, record: Record) -> bool:
        """Whether an earlier call may have added this record. save() no longer lists
        it: another record like it was not sent."""
        if not self._sent:
            return False
        mark = _mark(record)
        was_sent = mark in self._sent
        self._sent.discard(mark)
        return was_sent

    def settle(self, add: Add, digest: bytes) -> None:
        """Record the outcome of the file's next entry, in one assignment: an interrupt
        comes before or after it."""
        before, outcome = self.progress, add.outcome
        total = before.fingerprint
        rejects_bytes = before.rejects_bytes
        if outcome is Outcome.REJECTED:
            rejects_bytes = self._reject(add)
        else:
            total.add(digest)
        counts = {
            one.value: getattr(before, one.value) + (outcome is one) for one in Outcome
        }
        self.progress = replace(
            before,
            line=add.record.end_line,
            offset_bytes=add.record.end_bytes,
            rejects_bytes=rejects_bytes,
            digests=total.total,
            content=_hashed(before.content, add.record),
            **counts,
        )

    def save(self, seconds: float, sent: Iterable[Record]) -> None:
        """Write the state atomically; `seconds` is the time so far, `sent` has the
        entries behind the place that may be in the directory."""
        self.progress = replace(self.progress, seconds=seconds)
        if self._file is not None:
            self._file.flush()
        document = {
            "format": _FORMAT,
            **self._load,
            "version": self._version,
            "progress": asdict(self.progress),
            "sent": [*self._sent, *map(_mark, sent)],
        }
        new = self._path.with_name(self._path.name + ".new")
        try:
            with _own(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as file:
                file.write(json.dumps(document).encode())
            new.replace(self._path)
        except OSError as error:
            raise self._unusable(error) from error

    def finish(self, seconds: float) -> None:
        """The load is done: nothing is left to go on with."""
        self.progress = replace(self.progress, seconds=seconds)
        self._path.unlink(missing_ok=True)

    def _reject(self, add: Add) -> int:
        """How long the file of rejects now is."""
        try:
            if self._file is None:
                # __enter__ has taken an old one away
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                self._file = _own(self._rejects, flags)
            reason = " ".join(add.reason.split())
            head = f"# line {add.record.line}: {reason}\n".encode()
            text = add.record.text.rstrip(b"\r\n")
            self._file.write(head + text + b"\n\n")
            return self._file.tell()
        except OSError as error:
            raise self._unusable(error) from error

    def _read(self, ldif: Path) -> tuple[Progress, set[str]]:
        """How far it is, and the hashes of what may have been sent behind that."""
        try:
            document = json.loads(self._path.read_text(encoding="utf-8"))
            if document["format"] != _FORMAT:
                raise ValueError("another version of ldapslam wrote it")
            load = {key: document[key] for key in self._load}
            version, found = document["version"], document["progress"]
            progress = Progress(
                **{one.name: found[one.name] for one in fields(Progress)}
            )
            sent = {str(mark) for mark in document["sent"]}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"the state of an earlier load, {str(self._path)!r}, cannot be used: "
                f"{error}",
                hint="--restart begins from the start",
            ) from error
        if load != self._load:
            raise ConfigError(
                f"{str(self._path)!r} is of another load that did not end: of "
                f"{load['ldif']} into {load['uri']}",
                hint="go on with that one, forget it with --restart, or name another "
                "file with --rejects",
            )
        if version != self._version and not _begins_with(ldif, progress):
            raise ConfigError(
                f"{str(ldif)!r} was changed above line {progress.line}, up to which an "
                "earlier call loaded it",
                hint="--restart begins from the start",
            )
        return progress, sent

    def _unusable(self, error: OSError) -> ConfigError:
        return ConfigError(
            f"the load's state cannot be kept in {str(self._rejects.parent)!r}: "
            f"{error.strerror}",
            hint="name a file in another folder with --rejects",
        )


def _renamed(path: Path) -> Path | None:
    """The new name of a file that is there: with the next number behind it."""
    if not os.path.lexists(path):
        return None
    if not (path.is_symlink() or path.is_file()):
        raise ConfigError(
            f"{str(path)!r} is no file",
            hint="rejects and the state beside it are files",
        )
    kept = next(
        name
        for number in count(1)
        if not os.path.lexists(name := path.with_name(f"{path.name}.{number}"))
    )
    path.rename(kept)
    return kept


def _own(path: Path, flags: int) -> BinaryIO:
    """Open a file for its owner alone: entries have passwords. No link is followed."""
    number = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    return open(number, "r+b" if flags & os.O_RDWR else "wb")


def _version(ldif: Path) -> list[int]:
    """By which a file that was not changed is known."""
    try:
        status = ldif.stat()
    except OSError as error:
        raise ConfigError(f"{str(ldif)!r} cannot be read: {error.strerror}") from error
    return [status.st_size, status.st_mtime_ns]


def _begins_with(ldif: Path, progress: Progress) -> bool:
    """Whether the part of a changed file that was loaded is still the same: a refused
    entry may have been corrected."""
    content, end_bytes = "", 0
    with open_ldif(ldif) as stream:
        for record in records(stream, str(ldif)):
            if end_bytes >= progress.offset_bytes:
                break
            content, end_bytes = _hashed(content, record), record.end_bytes
    return (content, end_bytes) == (progress.content, progress.offset_bytes)


def _mark(record: Record) -> str:
    """Hash of an entry as it stands in the file, wherever that is."""
    return blake2b(record.text.strip(), digest_size=8).hexdigest()


def _hashed(before: str, record: Record) -> str:
    """Hash of a file's records so far, of that before this one."""
    return blake2b(before.encode() + record.text, digest_size=16).hexdigest()
