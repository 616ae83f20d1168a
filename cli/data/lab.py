# SPDX-License-Identifier: Apache-2.0
"""`lab`: real directories of this user's own, brought up to stay until taken down."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import yaml

from ldapslam.base.errors import ConfigError, ExitCode
from ldapslam.cli.console import json_option, put, put_json, say

if TYPE_CHECKING:
    from ldapslam.lab.standing import Description

DEFAULT_NAME = "lab"
DEFAULT_ENTRIES = 1_000

_LABELS = {"slapd": "slapd", "389ds": "389-DS"}


@click.group("lab")
def lab_command() -> None:
    """Bring up slapd or 389-DS, with replicas and data, for load to be put on.

    Everything is in one folder and runs as this user; `lab down` leaves nothing.
    """


@lab_command.command("up")
@click.option(
    "--server",
    type=click.Choice(list(_LABELS)),
    default="slapd",
    show_default=True,
    help="Which directory server.",
)
@click.option(
    "--suppliers",
    type=click.IntRange(1, 2),
    default=1,
    show_default=True,
    help="Servers that take writes; two replicate each other.",
)
@click.option(
    "--replicas",
    type=click.IntRange(0, 20),
    default=0,
    show_default=True,
    help="Servers that follow the suppliers.",
)
@click.option("--hub", is_flag=True, help="Replicas follow a hub, the hub suppliers.")
@click.option(
    "--entries",
    type=click.IntRange(0, 100_000_000),
    help=f"People in the tree, user.0 and so on.  [default: {DEFAULT_ENTRIES}]",
)
@click.option(
    "--ldif",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Load this file instead; its first entry is the suffix.",
)
@click.option(
    "--binary",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="slapd or ns-slapd of a build under test.",
)
@click.option(
    "--set",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    help="A setting of all servers, such as threads=8; repeatable. docs/labs.md "
    "has the names.",
)
@click.option(
    "--backend", type=click.Choice(["mdb", "bdb"]), help="The servers' database."
)
@click.option(
    "--tls", is_flag=True, help="Servers replicate over TLS; the targets are ldaps://."
)
@click.option("--delta", is_flag=True, help="slapd: delta-syncrepl.")
@click.option(
    "--name", default=DEFAULT_NAME, show_default=True, help="What the lab is called."
)
@click.option(
    "--folder",
    "base",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Make the lab's folder, with all data, in DIR.  [default: TMPDIR]",
)
@json_option
def lab_up_command(
    server: str,
    suppliers: int,
    replicas: int,
    hub: bool,
    entries: int | None,
    ldif: Path | None,
    binary: Path | None,
    settings: tuple[str, ...],
    backend: str | None,
    tls: bool,
    delta: bool,
    name: str,
    base: Path | None,
    as_json: bool,
) -> ExitCode:
    """Bring up servers that stay; print where they are and targets for a job file."""
    from ldapslam.lab import Choices, Lab
    from ldapslam.lab.standing import bring_up

    if ldif is not None and entries is not None:
        raise ConfigError(
            "--entries and --ldif exclude each other",
            hint="an LDIF has the entries that it has",
        )
    if hub and not replicas:
        raise ConfigError("--hub without replicas", hint="say how many: --replicas N")
    choices = Choices(
        binary=binary,
        backend=backend,
        has_delta=delta,
        has_tls=tls,
        options=[_pair(text) for text in settings],
    )
    lab = Lab(
        server="389ds" if server == "389ds" else "slapd",
        suppliers=suppliers,
        replicas=replicas,
        has_hub=hub,
        entries=DEFAULT_ENTRIES if entries is None else entries,
        ldif=ldif,
        choices=choices,
        base=None if base is None else base.absolute(),
    )
    say(f"loading and starting {len(lab.topology.roles())} × {_LABELS[server]}")
    description = bring_up(name, lab, has_tls=tls)
    job = job_snippet(description)
    if as_json:
        put_json({**description, "job": job})
    else:
        put("\n".join(_text(description)))
        put("")
        put(yaml.safe_dump(job, sort_keys=False).rstrip())
        say(f"`ldapslam lab down {name}` ends it and removes its data")
    return ExitCode.PASS


@lab_command.command("status")
@click.argument("name", required=False)
@json_option
def lab_status_command(name: str | None, as_json: bool) -> ExitCode:
    """List the labs and their servers: which run, and which are in sync."""
    from ldapslam.lab.standing import describe, descriptions, examine

    found = descriptions() if name is None else [describe(name)]
    states = [examine(description) for description in found]
    if as_json:
        both = zip(found, states, strict=True)
        put_json([{**description, "states": rows} for description, rows in both])
        return ExitCode.PASS
    if not found:
        put("no labs are up")
    for description, rows in zip(found, states, strict=True):
        put(_title(description))
        for row in rows:
            synced = {True: "in sync", False: "NOT IN SYNC", None: "–"}[row["in_sync"]]
            state = row["state"]
            put(
                f"  {row['name']:<10} {row['pid']:>8}  {state:<15} {synced:<12}"
                f" {row['uri']}"
            )
    return ExitCode.PASS


@lab_command.command("down")
@click.argument("name", default=DEFAULT_NAME)
@json_option
def lab_down_command(name: str, as_json: bool) -> ExitCode:
    """End all servers of the lab NAME ('lab' without one) and remove its folder."""
    from ldapslam.lab.standing import take_down

    take_down(name)
    if as_json:
        put_json({"name": name, "state": "down"})
    else:
        put(f"lab {name!r} is down, nothing of it is left")
    return ExitCode.PASS


def job_snippet(description: Description) -> dict[str, Any]:
    """The parts of a job file that point it at a lab: targets, bind, tls."""
    by_role: dict[str, list[dict[str, Any]]] = {}
    for server in description["servers"]:
        by_role.setdefault(server["role"], []).append(server)
    key = "ldaps_uri" if description["tls"] else "uri"
    targets: dict[str, Any] = {"supplier": _one_or_all(by_role["supplier"], key)}
    if hubs := by_role.get("hub"):
        targets["hub"] = hubs[0][key]
    replicas = by_role.get("replica", [])
    for replica in replicas:
        role = "replica" if len(replicas) == 1 else replica["name"]
        targets[role] = replica[key]
    job: dict[str, Any] = {
        "targets": targets,
        "bind": {
            "dn": description["admin_dn"],
            "password": {"file": description["admin_password_file"]},
        },
    }
    if description["tls"]:
        job["tls"] = {"ca_file": description["ca_file"]}
    return job


def _one_or_all(servers: Sequence[dict[str, Any]], key: str) -> str | list[str]:
    uris = [server[key] for server in servers]
    return uris[0] if len(uris) == 1 else uris


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"--set: expected NAME=VALUE, got {text!r}")
    return name.strip(), value


def _title(description: Description) -> str:
    if "servers" not in description:
        process = description["process"]["pid"]
        return f"lab {description['name']!r} is being brought up by process {process}"
    label = _LABELS[description["server"]]
    data = f"{description['entries']:,} people"
    if not description["entries"]:
        data = f"the tree {description['suffix']}"
    return f"lab {description['name']!r}: {label} ({description['backend']}), {data}"


def _text(description: Description) -> list[str]:
    lines = [_title(description)]
    for server in description["servers"]:
        uris = f"{server['uri']}  {server['ldaps_uri']}"
        lines.append(f"  {server['name']:<14} {uris}  pid {server['pid']}")
    facts = {
        "admin DN": "admin_dn",
        "password file": "admin_password_file",
        "CA file": "ca_file",
        "folder": "folder",
    }
    return lines + [f"  {label:<14} {description[key]}" for label, key in facts.items()]
