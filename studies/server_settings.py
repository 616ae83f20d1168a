# SPDX-License-Identifier: Apache-2.0
"""Settings of servers, changed over LDAP and put back whatever happens.

What an attribute was is written to disk before it is changed, so that what a killed
study has changed can be put back too (`ldapslam study --restore`).
"""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import ldap

from ldapslam.directory.access import target_error
from ldapslam.directory.control_connection import ControlConnection
from ldapslam.jobs.connection_settings import ConnectionSettings

CHANGED = "changed-settings.json"
_HINT = "does the study's `bind` name somebody who may read and change it?"


@dataclass(frozen=True)
class Place:
    """An attribute of an entry of a server."""

    uri: str
    dn: str
    attribute: str


class ChangedSettings:
    """What was changed, in a file of the study's folder."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / CHANGED
        #: Place -> values before the first change.
        self._before: dict[Place, list[bytes]] = {}
        if self._file.exists():
            self._before = {
                Place(one["uri"], one["dn"], one["attribute"]): [
                    b64decode(value) for value in one["values_base64"]
                ]
                for one in json.loads(self._file.read_text())
            }

    @property
    def places(self) -> Sequence[Place]:
        return list(self._before)

    def __bool__(self) -> bool:
        return bool(self._before)

    def change(
        self,
        place: Place,
        value: str,
        access: ConnectionSettings,
        *,
        is_kept: bool = True,
    ) -> None:
        """Give the attribute one value; what it was is kept. TargetError when the
        server refuses it, or cannot be reached."""
        with ControlConnection.open(place.uri, access, Counter()) as connection:
            if is_kept and place not in self._before:
                values = _values(connection, place)
                self._before[place] = values
                self._keep()
            _replace(connection, place, [value.encode()])

    def restore(self, access: ConnectionSettings) -> Sequence[Place]:
        """Put everything back; the places. What cannot be is kept in the file, and the
        first error is raised when all others have been tried."""
        restored, failed = [], None
        for place, values in list(self._before.items()):
            try:
                with ControlConnection.open(place.uri, access, Counter()) as connection:
                    _replace(connection, place, values)
            except Exception as error:
                failed = failed or error
                continue
            restored.append(place)
            del self._before[place]
            self._keep()
        if failed is not None:
            raise failed
        return restored

    def _keep(self) -> None:
        """Write the file; it is on disk when this returns."""
        if not self._before:
            self._file.unlink(missing_ok=True)
            return
        content = [
            {
                "uri": place.uri,
                "dn": place.dn,
                "attribute": place.attribute,
                "values_base64": [b64encode(value).decode() for value in values],
            }
            for place, values in self._before.items()
        ]
        part = self._file.with_suffix(".part")
        with part.open("w", encoding="utf-8") as out:
            json.dump(content, out, indent=2)
            out.flush()
            os.fsync(out.fileno())
        os.replace(part, self._file)
        folder = os.open(self._file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _values(connection: ControlConnection, place: Place) -> list[bytes]:
    try:
        found = connection.ldap.search_s(
            place.dn, ldap.SCOPE_BASE, "(objectClass=*)", [place.attribute]
        )
    except ldap.LDAPError as error:
        what = f"{place.dn!r} be read"
        raise target_error(place.uri, what, error, _HINT) from error
    for _, attributes in found:
        for name, values in attributes.items():
            if name.lower() == place.attribute.lower():
                return list(values)
    return []


def _replace(
    connection: ControlConnection, place: Place, values: Sequence[bytes]
) -> None:
    change = (ldap.MOD_REPLACE, place.attribute, list(values) or None)
    try:
        connection.ldap.modify_s(place.dn, [change])
    except ldap.LDAPError as error:
        text = b", ".join(values).decode(errors="replace")
        what = f"{place.attribute} of {place.dn!r} be set to {text!r}"
        raise target_error(place.uri, what, error, _HINT) from error
