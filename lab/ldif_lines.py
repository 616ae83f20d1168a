# SPDX-License-Identifier: Apache-2.0
"""Copies of LDIF files that keep what the tools of servers wrote.

Nothing is decoded but names: attribute options, which carry the state of replication,
and the order of lines stay as they are.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path

from ldapslam.base.errors import ConfigError
from ldapslam.dataset.ldif import ldif_entries, open_ldif, unfolded_records


def suffix_of(ldif: Path) -> str:
    """The DN of the first entry of an LDIF file; ConfigError where it is no suffix for
    a lab."""
    suffix = next((dn for dn, _ in ldif_entries(ldif)), None)
    if suffix is None:
        raise ConfigError(
            f"{str(ldif)!r} has no entries",
            hint="the first one is the suffix of the tree",
        )
    check_suffix(suffix, repr(str(ldif)))
    return suffix


def check_suffix(suffix: str, of: str) -> None:
    """ConfigError when no lab could have it."""
    if not suffix.isprintable() or re.search(r'["\\%]', suffix):
        raise ConfigError(
            f"{of} begins with {suffix!r}: a lab's suffix has no quotation marks, "
            "backslashes, % and control characters",
            hint="the first entry is the suffix of the tree",
        )


def records(ldif: Path) -> Iterator[list[bytes]]:
    """The unfolded lines of each entry, without comments and the version."""
    with open_ldif(ldif) as stream:
        yield from unfolded_records(stream, str(ldif))


def write_plain(source: Path, target: Path) -> None:
    """Copy an LDIF without its version and comments, which slapadd does not know."""
    with target.open("wb", buffering=1 << 20) as output:
        for record in records(source):
            output.write(b"\n".join(record) + b"\n\n")


def dn_of(record: list[bytes]) -> str:
    """The DN of an entry's lines."""
    name, _, value = record[0].partition(b":")
    if name.lower() != b"dn":
        raise ConfigError(
            f"expected an entry's dn in the LDIF, got {record[0][:60].decode()!r}"
        )
    if value.startswith(b":"):
        return base64.b64decode(value[1:]).decode()
    return value.strip().decode()
