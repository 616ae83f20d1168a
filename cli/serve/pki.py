# SPDX-License-Identifier: Apache-2.0
"""`ldapslam fleet pki`: a fleet's own certificate authority in a folder."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from ldapslam.base.address import is_unix, split_host_port
from ldapslam.base.errors import ConfigError
from ldapslam.base.fault import Fault
from ldapslam.base.files import state_folder, write_private
from ldapslam.base.time_zone import clock_text
from ldapslam.cli.command import command
from ldapslam.cli.console import put_result, say
from ldapslam.cli.options import FILE, FOLDER, Decorator, option
from ldapslam.cli.serve.server_security import ENROLMENT_PORT, PKI_VARIABLE
from ldapslam.transport.pki.authority import (
    AUTHORITY_LIFETIME,
    LEAF_LIFETIME,
    Authority,
    Issued,
)
from ldapslam.transport.pki.certificate import Role

_LONGEST = timedelta(days=36500)
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}

_pki_option = option(
    "--pki folder DIR",
    "The authority's folder.",
    envvar=PKI_VARIABLE,
    show_envvar=True,
    default=lambda: state_folder() / "pki",
    show_default="pki in the user's state folder",
    type=FOLDER,
)


def _parse_lifetime(value: str) -> timedelta:
    match = re.fullmatch(r"([1-9]\d*)([mhd])", value)
    lifetime = match and timedelta(**{_UNITS[match[2]]: int(match[1])})
    if lifetime is None or lifetime > _LONGEST:
        raise Fault(
            f"expected a time up to {_LONGEST.days}d, got {value!r}",
            "the units are m, h and d, such as 365d",
        )
    return lifetime


def _expires_option(default: str) -> Decorator:
    return option(
        "--expires lifetime TIME",
        "How long it is valid.",
        default=default,
        parse=_parse_lifetime,
    )


_name_option = option(
    "--name", "Who it is for; unique in the fleet. An agent's --name.", required=True
)
_name_argument = click.argument("name", metavar="NAME")


@command("init")
@_pki_option
@option(
    "--name",
    "The authority's name in its certificates.",
    default="ldapslam fleet",
)
@_expires_option(f"{AUTHORITY_LIFETIME.days}d")
def init_command(folder: Path, name: str, lifetime: timedelta) -> None:
    """Make a certificate authority."""
    Authority.create(folder, name, lifetime)
    put_result({"name": name, "folder": str(folder)})
    say(f"certificate authority {name!r} in {folder}")
    say("next: ldapslam fleet pki issue --role coordinator --name coordinator --host …")


@command("issue")
@option(
    "--role",
    "agent: takes load; operator: everything; viewer: looks on; coordinator: "
    "what the others connect to. Needed for a new name.",
    type=click.Choice([str(role) for role in Role]),
)
@_name_option
@option(
    "--host hosts HOST",
    "For a coordinator: a name or address of its host; repeatable.",
    multiple=True,
)
@_expires_option(f"{LEAF_LIFETIME.days}d")
@_pki_option
def issue_command(
    role: str | None,
    name: str,
    hosts: tuple[str, ...],
    lifetime: timedelta,
    folder: Path,
) -> None:
    """Make a key and a certificate, or renew one; print the folder for `agent --tls`.

    Where NAME has a certificate, it is renewed: key, role and hosts stay, and the new
    cert.pem takes the place of the old cert.pem on its host.
    """
    authority = Authority(folder)
    if (last := authority.unrevoked(name)) is not None:
        known_role, known_hosts = str(last.identity.role), tuple(last.hosts)
        if role not in (None, known_role) or hosts not in ((), known_hosts):
            raise ConfigError(
                f"{name!r} has a certificate as {' '.join((known_role, *known_hosts))}",
                hint="leave --role and --host out to renew it, or revoke it first: "
                f"ldapslam fleet pki revoke {name}",
            )
        path = authority.renew(name, lifetime).parent
        say(f"{known_role} {name!r} is renewed; its host needs the new cert.pem:")
    elif role is None:
        raise ConfigError(f"{name!r} has no certificate yet", hint="give its --role")
    else:
        path = authority.issue(name, Role(role), hosts, lifetime)
        say(f"{role} {name!r}, only for its host and its user:")
    put_result({"name": name, "folder": str(path)}, [str(path)])


@command("revoke")
@_name_argument
@_pki_option
def revoke_command(name: str, folder: Path) -> None:
    """Revoke NAME's certificates; a coordinator with --pki refuses them at once."""
    authority = Authority(folder)
    count = authority.revoke(name)
    put_result({"name": name, "revoked": count})
    say(f"{name!r}: {count} certificates or tokens revoked")
    say(f"a coordinator with --tls-crl needs the new {authority.revoked_file}")


@command("list")
@_pki_option
def list_command(folder: Path) -> None:
    """List the certificates with their expiry."""
    issued = Authority(folder).issued()
    now_utc = datetime.now(UTC)
    documents = [_document(one, now_utc) for one in issued]
    lines = (_line(one, now_utc) for one in issued)
    said = "" if issued else "nothing issued yet"
    put_result(documents, lines, said=said)


def _line(one: Issued, now_utc: datetime) -> str:
    identity, state = one.identity, one.state(now_utc)
    hosts = f"  {', '.join(one.hosts)}" if one.hosts else ""
    if state == "valid":
        state = f"valid, {(identity.not_after_utc - now_utc).days} days left"
    return (
        f"{identity.name:<24} {identity.role:<12} until "
        f"{clock_text(identity.not_after_utc)}  {state}{hosts}"
    )


def _document(one: Issued, now_utc: datetime) -> dict[str, Any]:
    identity = one.identity
    return {
        "name": identity.name,
        "role": str(identity.role),
        "hosts": list(one.hosts),
        "state": one.state(now_utc),
        "serial": f"{identity.serial:x}",
        "not_before_utc": identity.not_before_utc.isoformat(),
        "not_after_utc": identity.not_after_utc.isoformat(),
    }


def _parse_enrolment(value: str) -> str:
    if not value:
        return ""  # an unset variable
    host, port = split_host_port(value)
    if is_unix(value):
        raise ConfigError("--enrol: expected HOST:PORT")
    if not value.endswith(f":{port}"):
        port = ENROLMENT_PORT
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@command("token")
@option(
    "--role",
    "Who joins.",
    type=click.Choice([str(Role.AGENT)]),
    default=str(Role.AGENT),
)
@_name_option
@_expires_option("1h")
@option(
    "--enrol HOST:PORT",
    "Where the coordinator enrols (`coordinator --enrol-listen`), as the agent reaches "
    f"it. Left out: the host of `agent --coordinator`, port {ENROLMENT_PORT}.",
    parse=_parse_enrolment,
)
@option(
    "-o --out FILE",
    "Write it to a new file that its owner alone can read; else to stdout.",
    type=FILE,
)
@_pki_option
def token_command(
    role: str,
    name: str,
    lifetime: timedelta,
    enrol: str | None,
    out: Path | None,
    folder: Path,
) -> None:
    """Make a join token: its first user becomes NAME. It can be used once."""
    if out is not None and out.exists():
        raise ConfigError(f"{out}: is there already", hint="give another --out")
    text = Authority(folder).token(name, Role(role), lifetime, enrol or "").text()
    say(f"for {role} {name!r}, good once, for {lifetime}; keep it to yourself")
    if out is None:
        put_result({"name": name, "token": text}, [text])
    else:
        write_private(out, f"{text}\n".encode())
