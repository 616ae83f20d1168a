# SPDX-License-Identifier: Apache-2.0
"""Entries of an LDIF file into a 389-DS that runs, by a task of its own.

The server reads the file itself, from a path of its own host, and puts the entries in
place of all those of the back end of their suffix, which is closed meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ldap

from ldapslam.base.errors import ConfigError, TargetError, TargetUnreachable
from ldapslam.dataset.ldif import is_packed
from ldapslam.dataset.local_tree import first_dn
from ldapslam.dataset.offline import OfflineResult, backend_of, imported
from ldapslam.directory.access import connect, error_text, result_code_of
from ldapslam.jobs.connection_settings import ConnectionSettings

_TASKS = "cn=import,cn=tasks,cn=config"
_BACKENDS = "cn=ldbm database,cn=plugins,cn=config"
_POLL_S = 0.05

_Attributes = Mapping[str, Sequence[bytes]]


def import_task(
    ldif: Path,
    uri: str,
    access: ConnectionSettings,
    tell: Callable[[str], None] = lambda status: None,
) -> OfflineResult:
    """Have the server import the file and wait until it has. `tell` hears the last
    line of its log. TargetError: it cannot be used, or starts no such task."""
    if is_packed(ldif):
        raise ConfigError(f"a 389-DS reads no packed file such as {str(ldif)!r}")
    dn = f"cn=ldapslam-{secrets.token_hex(6)},{_TASKS}"
    connection = connect(uri, access)
    try:
        backend = backend_of(_backends(connection), first_dn(ldif), uri)
        begun_s = time.monotonic()
        connection.add_s(dn, _task(ldif, backend))
        task: _Attributes = {}
        while "nstaskexitcode" not in task:
            time.sleep(_POLL_S)
            # a server that imports may be slow to answer
            with contextlib.suppress(ldap.TIMEOUT):
                task = _lowered(connection.read_s(dn))
                tell(_text(task, "nstasklog").strip().rpartition("\n")[2])
    except ldap.LDAPError as error:
        if result_code_of(error) < 0:
            raise TargetUnreachable(uri, error_text(error)) from error
        raise TargetError(
            f"target {uri!r} runs no import task: {error_text(error)} "
            f"({result_code_of(error)})",
            hint="that is done by cn=Directory Manager of a 389-DS",
        ) from error
    finally:
        with contextlib.suppress(ldap.LDAPError):
            connection.unbind_s()
    text = f"{_text(task, 'nstasklog')}\n{_text(task, 'nstaskstatus')}".strip()
    return imported(
        "import-task",
        time.monotonic() - begun_s,
        int(_text(task, "nstaskexitcode")),
        text,
    )


def _backends(connection: Any) -> list[_Attributes]:
    found = connection.search_s(
        _BACKENDS,
        ldap.SCOPE_ONELEVEL,
        "(objectClass=nsBackendInstance)",
        ["cn", "nsslapd-suffix"],
    )
    return [_lowered(attributes) for _, attributes in found]


def _task(ldif: Path, backend: str) -> list[tuple[str, list[bytes]]]:
    return [
        ("objectClass", [b"top", b"extensibleObject"]),
        ("nsFilename", [os.fsencode(ldif.resolve())]),
        ("nsInstance", [backend.encode()]),
    ]


def _lowered(attributes: _Attributes) -> _Attributes:
    return {name.lower(): values for name, values in attributes.items()}


def _text(task: _Attributes, name: str) -> str:
    values = task.get(name, [b""])
    return values[0].decode(errors="replace")
