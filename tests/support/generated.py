# SPDX-License-Identifier: Apache-2.0
"""Populations for tests: templates given as text, their entries as python-ldap reads
them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from ldif import LDIFRecordList  # type: ignore[import-untyped]

from ldapslam.dataset.generate import Generation, generate

Entries = list[tuple[str, dict[str, list[str]]]]

BRANCH = "branch: ou=people,dc=com\nsubordinateTemplate: person:{count}\n\n"
SEQUENTIAL = "uid: user.<sequential>\n"
PERSON = "template: person\nrdnAttr: uid\nobjectClass: person\n"


def parse_ldif(text: bytes) -> Entries:
    """Entries in order, each value as text."""
    records = LDIFRecordList(io.BytesIO(text))
    records.parse()
    return [
        (
            dn,
            {
                name: [value.decode() for value in values]
                for name, values in attributes.items()
            },
        )
        for dn, attributes in records.all_records
    ]


def generated(folder: Path, template: str, **settings: Any) -> bytes:
    """The LDIF of a template's text."""
    path = folder / "test.template"
    path.write_text(template, "utf-8")
    generate(Generation(str(path), output=folder / "test.ldif", **settings))
    return (folder / "test.ldif").read_bytes()


def people(folder: Path, lines: str, count: int = 20, **settings: Any) -> Entries:
    """The entries of a template `person` with these lines, without their branch."""
    text = BRANCH.format(count=count) + PERSON + lines
    return parse_ldif(generated(folder, text, **settings))[1:]


def values(entries: Entries, attribute: str) -> list[str | None]:
    """The attribute's only value in each entry, None where it is not there."""
    return [
        attributes[attribute][0] if attribute in attributes else None
        for _, attributes in entries
    ]
