# SPDX-License-Identifier: Apache-2.0
"""Entries below a branch of their own, and `ldapslam data` called on them."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import ldap

from ldapslam.cli.main import run
from ldapslam.directory.access import connect
from ldapslam.jobs.connection_settings import BindSettings, ConnectionSettings
from ldapslam.lab.people import SUFFIX
from support.directory import Directory

BRANCH = f"ou=loaded,{SUFFIX}"

_TEAM = 50


def person_dn(number: int) -> str:
    return f"uid=p{number},ou=team {number // _TEAM},{BRANCH}"


def population(people: int) -> str:
    """A branch, below it teams of people, each team's people right behind it."""
    parts = [f"dn: {BRANCH}\nobjectClass: organizationalUnit\nou: loaded\n"]
    for number in range(people):
        if number % _TEAM == 0:
            team = f"team {number // _TEAM}"
            parts.append(
                f"dn: ou={team},{BRANCH}\nobjectClass: organizationalUnit\nou: {team}\n"
            )
        parts.append(_person(number))
    return "\n".join(parts)


def _person(number: int) -> str:
    name = base64.b64encode(f"Zoë {number}".encode()).decode()
    chief = person_dn(number - number % _TEAM).replace(",", ", ")
    return f"""\
dn: {person_dn(number)}
objectClass: top
objectClass: inetOrgPerson
uid: p{number}
cn:: {name}
cn: P {number}
sn: Surname of a length that
  is folded
manager: {chief}
userPassword: secret
"""


def write_population(path: Path, people: int) -> Path:
    path.write_text(population(people))
    return path


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def data(*arguments: str | Path) -> Done:
    """Call `ldapslam data …` in this process: its start takes longer than its work."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        try:
            code = run(["data", *map(str, arguments)])
        finally:
            # its own way of ending is no test's
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return Done(code, stdout.getvalue(), stderr.getvalue())


def data_json(*arguments: str | Path) -> dict[str, Any]:
    """Its result, with the exit code and what people are told."""
    done = data(*arguments, "--json")
    result: dict[str, Any] = json.loads(done.stdout)
    return {"exit_code": done.returncode, "stderr": done.stderr, **result}


def as_admin(directory: Directory) -> list[str]:
    """Options of commands that bind as the administrator."""
    return ["-D", directory.admin_dn, "-y", str(directory.admin_password_file)]


def change(directory: Directory, work: Callable[[Any], None]) -> None:
    """Do something to the directory's entries as its administrator."""
    connection = connect(directory.uri, _access(directory))
    try:
        work(connection)
    finally:
        connection.unbind_s()


def remove_branch(directory: Directory) -> None:
    """Delete what was loaded, children first."""

    def remove(connection: Any) -> None:
        try:
            found = connection.search_s(
                BRANCH, ldap.SCOPE_SUBTREE, "(objectClass=*)", ["1.1"]
            )
        except ldap.NO_SUCH_OBJECT:
            return
        levels: dict[int, list[str]] = {}
        for dn, _ in found:
            levels.setdefault(dn.count(","), []).append(dn)
        for level in sorted(levels, reverse=True):
            for message_id in [connection.delete_ext(dn) for dn in levels[level]]:
                connection.result3(message_id)

    change(directory, remove)


def _access(directory: Directory) -> ConnectionSettings:
    return ConnectionSettings(
        bind=BindSettings(
            directory.admin_dn, directory.admin_password_file.read_bytes()
        )
    )
