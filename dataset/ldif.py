# SPDX-License-Identifier: Apache-2.0
"""Entries of LDIF files (RFC 2849), one after the other; gzip is read as it is.

    with open_ldif(path) as stream:
        for record in records(stream, str(path)): …

Memory is that of an entry. Files of changes are refused, but for `changetype: add`;
so are values by URL: what an entry is must not depend on other files.
"""

from __future__ import annotations

import binascii
import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader, FileIO
from pathlib import Path
from typing import BinaryIO, Final, cast

from ldapslam.base.errors import ConfigError
from ldapslam.directory.entry_digest import Attributes

_GZIP_MAGIC = b"\x1f\x8b"
_BUFFER_BYTES: Final = 1 << 20
_NAME = re.compile(rb"[A-Za-z0-9.;-]+")


@dataclass(frozen=True, slots=True)
class Record:
    """An entry, and where it is."""

    dn: str
    #: In the order of the file; names that differ only in case share one key.
    attributes: dict[str, list[bytes]]
    #: Its lines as they are, comments before it included.
    text: bytes
    #: Number of its first line, from 1.
    line: int


@contextmanager
def open_ldif(path: Path) -> Iterator[BinaryIO]:
    """The octets of the LDIF; ConfigError when there is no such file."""
    with _open(path) as file:
        if not _is_packed(file, path):
            yield file
            return
        with gzip.open(file) as unpacked:
            yield cast(BinaryIO, unpacked)


def is_packed(path: Path) -> bool:
    """Whether it is a gzip; ConfigError when there is no such file."""
    with _open(path) as file:
        return _is_packed(file, path)


def _open(path: Path) -> BufferedReader:
    try:
        return BufferedReader(FileIO(path), _BUFFER_BYTES)
    except OSError as error:
        raise _unreadable(str(path), error) from error


def _is_packed(file: BufferedReader, path: Path) -> bool:
    try:
        return file.peek(2)[:2] == _GZIP_MAGIC
    except OSError as error:
        raise _unreadable(str(path), error) from error


def _lines(stream: Iterable[bytes], name: str) -> Iterator[bytes]:
    try:
        yield from stream
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(name, error) from error


def _unreadable(name: str, error: Exception) -> ConfigError:
    reason = getattr(error, "strerror", None) or error
    return ConfigError(f"{name!r} cannot be read: {reason}")


def records(stream: Iterable[bytes], name: str) -> Iterator[Record]:
    """The entries of a file. ConfigError names the line that is no LDIF."""
    for text, first_line in _blocks(_lines(stream, name)):
        yield from _record(text, name, first_line)


def unfolded_records(stream: Iterable[bytes], name: str) -> Iterator[list[bytes]]:
    """The unfolded lines of each entry, undecoded, without comments and version."""
    for text, first_line in _blocks(_lines(stream, name)):
        lines = [octets.rstrip(b"\r\n") for octets in text]
        if any(line[0] in b" #" for line in lines):
            lines = [line for _, line in _unfolded(text, name, first_line)]
        if lines and lines[0].startswith(b"version:"):
            del lines[0]
        if lines:
            yield lines


def _blocks(lines: Iterable[bytes]) -> Iterator[tuple[list[bytes], int]]:
    """The lines between empty lines, and the number of the first."""
    first_line, text = 1, []
    for number, octets in enumerate(lines, 1):
        if octets.strip(b"\r\n"):
            text.append(octets)
            continue
        if text:
            yield text, first_line
            text = []
        first_line = number + 1
    if text:
        yield text, first_line


def _record(text: list[bytes], name: str, first_line: int) -> Iterator[Record]:
    """The record of these lines; none when they are comments or the version."""
    dn: str | None = None
    attributes: dict[str, list[bytes]] = {}
    spellings: dict[bytes, list[bytes]] = {}
    for number, line in _unfolded(text, name, first_line):
        key, colon, rest = line.partition(b":")
        if not colon or not _NAME.fullmatch(key):
            raise _fault(name, number, f"expected `name: value`, got {_shown(line)}")
        value = _value(rest, name, number)
        folded = key.lower()
        if dn is None:
            if folded == b"version":
                if value != b"1":
                    reason = f"expected version 1, got {_shown(value)}"
                    raise _fault(name, number, reason)
            elif folded == b"dn":
                dn = _text(value, name, number)
            else:
                raise _fault(name, number, f"expected `dn:` first, got {_shown(line)}")
        elif folded == b"changetype" and not attributes:
            if value != b"add":
                raise _fault(
                    name,
                    number,
                    f"expected an entry, got a change: {_shown(line)}",
                    "only entries can be loaded and compared; ldapmodify makes changes",
                )
        elif (values := spellings.get(folded)) is not None:
            values.append(value)
        else:
            spellings[folded] = attributes[key.decode()] = [value]
    if dn is not None:
        yield Record(dn, attributes, b"".join(text), first_line)


def _unfolded(
    text: list[bytes], name: str, first_line: int
) -> Iterator[tuple[int, bytes]]:
    """Lines with their continuations, without comments."""
    number, whole = first_line, b""
    for at, octets in enumerate(text, first_line):
        line = octets.rstrip(b"\r\n")
        if line[:1] == b" ":
            if not whole:
                raise _fault(
                    name, at, "a continuation line has no line before it to continue"
                )
            whole += line[1:]
            continue
        if whole and whole[:1] != b"#":
            yield number, whole
        number, whole = at, line
    if whole and whole[:1] != b"#":
        yield number, whole


def _value(rest: bytes, name: str, number: int) -> bytes:
    if rest[:1] == b":":
        try:
            return binascii.a2b_base64(rest[1:].strip(b" "), strict_mode=True)
        except binascii.Error as error:
            raise _fault(name, number, f"the base64 is wrong: {error}") from None
    if rest[:1] == b"<":
        raise _fault(
            name,
            number,
            "a value by URL is not read",
            "put the value itself there, as base64 after `::`",
        )
    return rest.lstrip(b" ")


def _text(value: bytes, name: str, number: int) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise _fault(name, number, f"the DN is no UTF-8: {_shown(value)}") from None


def _shown(line: bytes) -> str:
    return repr(line[:60].decode(errors="replace"))


def _fault(name: str, line: int, reason: str, hint: str | None = None) -> ConfigError:
    return ConfigError(
        f"{name}:{line}: {reason}", hint=hint or "LDIF is as RFC 2849 has it"
    )


def ldif_entries(path: Path) -> Iterator[tuple[str, Attributes]]:
    """DN and attributes of each entry of a file."""
    with open_ldif(path) as stream:
        for record in records(stream, str(path)):
            yield record.dn, record.attributes


def entry_count(path: Path) -> int:
    """Entries of a file that others have found to be LDIF: lines that begin one."""
    with open_ldif(path) as stream:
        return sum(line[:3].lower() == b"dn:" for line in _lines(stream, str(path)))
