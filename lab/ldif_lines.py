# SPDX-License-Identifier: Apache-2.0
"""LDIF files as lines, for copies of them that keep what the tools of servers wrote.

Nothing is decoded but names: attribute options, which carry the state of replication,
and the order of lines stay as they are.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ldapslam.lab.errors import LabError


def suffix_of(ldif: Path) -> str:
    """The DN of the first entry of an LDIF file; LabError when there is none."""
    try:
        with ldif.open("rb") as lines:
            for record in records(lines):
                return dn_of(record)
    except OSError as error:
        raise LabError(f"{str(ldif)!r} cannot be read: {error.strerror}") from error
    raise LabError(
        f"{str(ldif)!r} has no entries", hint="the first one is the suffix of the tree"
    )


def records(lines: BinaryIO) -> Iterator[list[bytes]]:
    """The lines of each entry, those that were folded in one; comments and the version
    are left out."""
    record: list[bytes] = []
    is_comment = False
    for line in lines:
        text = line.rstrip(b"\r\n")
        if text.startswith(b" "):
            if record and not is_comment:
                record[-1] += text[1:]
            continue
        is_comment = text.startswith(b"#")
        if not text:
            if record:
                yield record
            record = []
        elif not is_comment and not (not record and text.startswith(b"version:")):
            record.append(text)
    if record:
        yield record


def write_plain(source: Path, target: Path) -> None:
    """Copy an LDIF without its version and comments, which slapadd does not know."""
    with source.open("rb") as lines, target.open("wb", buffering=1 << 20) as output:
        for record in records(lines):
            output.write(b"\n".join(record) + b"\n\n")


def dn_of(record: list[bytes]) -> str:
    """The DN of an entry's lines."""
    name, _, value = record[0].partition(b":")
    if name.lower() != b"dn":
        raise LabError(
            f"expected an entry's dn in the LDIF, got {record[0][:60].decode()!r}"
        )
    if value.startswith(b":"):
        return base64.b64decode(value[1:]).decode()
    return value.strip().decode()
