# SPDX-License-Identifier: Apache-2.0
"""Settings of servers, changed over LDAP and put back whatever happens.

What an attribute was is on disk before it is changed, so that what a killed study has
changed can be put back too (`ldapslam study --restore`). It is kept in a folder of this
user and host, a file for each study: until a server is as it was, another study would
take for its settings what the first has made of them, and is refused.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import ldap

from ldapslam.base.errors import ConfigError
from ldapslam.base.files import host_state_folder, locked, read_json, write_private
from ldapslam.base.uri import server_of
from ldapslam.directory.access import target_error
from ldapslam.directory.control_connection import ControlConnection, text_of
from ldapslam.jobs.connection_settings import ConnectionSettings

_HINT = "does the study's `bind` name somebody who may read and change it?"
#: What tells servers apart, in cn=config: of slapd; of 389-DS.
_IDENTITIES = (
    ("entryuuid",),
    ("nsslapd-localhost", "nsslapd-port", "nsslapd-instancedir"),
)


@dataclass(frozen=True)
class Place:
    """An attribute of an entry of a server."""

    uri: str
    dn: str
    attribute: str


@dataclass(frozen=True)
class _Before:
    """What an attribute was."""

    values: Sequence[bytes]
    #: See `_names`.
    server: frozenset[str]


class ChangedSettings:
    """What the study of a folder has changed, or is about to change."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder.resolve())
        name = hashlib.sha256(self._folder.encode()).hexdigest()[:16]
        self._file = host_state_folder("settings") / f"{name}.json"
        found = _read(self._file)
        self._study: str = found["study"]
        self._before = _before(found)

    @property
    def places(self) -> Sequence[Place]:
        return list(self._before)

    def __bool__(self) -> bool:
        return bool(self._before)

    def keep(
        self, places: Iterable[Place], access: ConnectionSettings, study: Path
    ) -> None:
        """Note what they are, before they are changed for the first time. ConfigError
        when another study has changed such a server and not put it back; TargetError
        when one cannot be reached."""
        self._study = str(study.absolute())
        with locked(self._file.parent):
            others = set(self._file.parent.glob("*.json")) - {self._file}
            taken = {
                name: (other, place)
                for other in others
                for place, before in _before(_read(other)).items()
                for name in before.server
            }
            for place in dict.fromkeys(places):
                if place in self._before:
                    continue
                with ControlConnection.open(place.uri, access, Counter()) as connection:
                    names = _names(connection)
                    for name in taken.keys() & names:
                        raise _refusal(*taken[name])
                    values = _values(connection, place)
                self._before[place] = _Before(values, names)
            self._write()

    def restore(self, access: ConnectionSettings) -> Sequence[Place]:
        """Put everything back; the places. What cannot be stays noted, and the first
        error is raised when all others have been tried."""
        restored, failed = [], None
        for place, before in list(self._before.items()):
            try:
                _replace(place, before.values, access)
            except Exception as error:
                failed = failed or error
                continue
            restored.append(place)
            del self._before[place]
            self._write()
        if failed is not None:
            raise failed
        return restored

    def _write(self) -> None:
        """It is on disk when this returns."""
        if not self._before:
            self._file.unlink(missing_ok=True)
            return
        settings = [
            {
                **asdict(place),
                "values_base64": [b64encode(one).decode() for one in before.values],
                "server": sorted(before.server),
            }
            for place, before in self._before.items()
        ]
        document = {"folder": self._folder, "study": self._study, "settings": settings}
        write_private(self._file, json.dumps(document, indent=2).encode())


def change(place: Place, value: str, access: ConnectionSettings) -> None:
    """Give the attribute one value; TargetError."""
    _replace(place, [value.encode()], access)


def _read(file: Path) -> dict[str, Any]:
    """What a study has noted; the same of none."""
    try:
        return read_json(file)
    except FileNotFoundError:
        return {"folder": "", "study": "", "settings": []}


def _before(document: Mapping[str, Any]) -> dict[Place, _Before]:
    return {
        Place(one["uri"], one["dn"], one["attribute"]): _Before(
            [b64decode(value) for value in one["values_base64"]],
            frozenset(one["server"]),
        )
        for one in document["settings"]
    }


def _names(connection: ControlConnection) -> frozenset[str]:
    """What a server is known by: its address by its looks, and what it says itself, as
    far as it may be read: it may have several addresses."""
    wanted = [name for names in _IDENTITIES for name in names]
    entry = connection.read("cn=config", wanted)
    names = {server_of(connection.uri)}
    for identity in _IDENTITIES:
        texts = [text_of(entry, name) for name in identity]
        if None not in texts:
            names.add(" ".join(map(str, texts)))
    return frozenset(names)


def _refusal(noted: Path, place: Place) -> ConfigError:
    study = _read(noted)
    return ConfigError(
        f"the study in {study['folder']} has changed {place.attribute} of "
        f"{place.uri} and not put it back",
        hint="wait for its end, or after a crash put it back: `ldapslam study "
        f"{study['study']} --out {study['folder']} --restore`, with the study's --var "
        f"and --set; if there is no such server any more, remove {noted}",
    )


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


def _replace(place: Place, values: Sequence[bytes], access: ConnectionSettings) -> None:
    changed = (ldap.MOD_REPLACE, place.attribute, list(values) or None)
    with ControlConnection.open(place.uri, access, Counter()) as connection:
        try:
            connection.ldap.modify_s(place.dn, [changed])
        except ldap.LDAPError as error:
            text = b", ".join(values).decode(errors="replace")
            what = f"{place.attribute} of {place.dn!r} be set to {text!r}"
            raise target_error(place.uri, what, error, _HINT) from error
