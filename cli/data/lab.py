# SPDX-License-Identifier: Apache-2.0
"""`lab`: real directories of this user's own, brought up to stay until taken down."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import yaml

from ldapslam.base.errors import ConfigError
from ldapslam.base.files import errors_of
from ldapslam.base.units import parse_cpus
from ldapslam.cli.command import command
from ldapslam.cli.console import put_result, say
from ldapslam.cli.options import flag, option, parse_pair

if TYPE_CHECKING:
    from ldapslam.lab.standing import Description

DEFAULT_NAME = "lab"
DEFAULT_ENTRIES = 1_000

_LABELS = {"slapd": "slapd", "389ds": "389-DS"}


@command("up")
@option(
    "--server",
    "Which directory server.",
    type=click.Choice(list(_LABELS)),
    default="slapd",
)
@option(
    "--suppliers",
    "Servers that take writes; two replicate each other.",
    type=click.IntRange(1, 2),
    default=1,
)
@option(
    "--replicas",
    "Servers that follow the suppliers.",
    type=click.IntRange(0, 20),
    default=0,
)
@flag("--hub has_hub", "Replicas follow a hub, the hub suppliers.")
@option(
    "--entries N",
    f"People in the tree, user.0 and so on.  [default: {DEFAULT_ENTRIES}]",
    type=click.IntRange(0, 100_000_000),
)
@option(
    "--ldif",
    "Load this file instead; its first entry is the suffix.",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
)
@option(
    "--binary PATH",
    "slapd or ns-slapd of a build under test.",
    type=click.Path(path_type=Path),
)
@option(
    "--setting settings NAME=VALUE",
    "A setting of all servers, such as threads=8; repeatable. docs/how-to/labs.md has "
    "the names.",
    multiple=True,
    parse=parse_pair,
)
@option(
    "--cpus LIST",
    "The CPUs that the servers run on, such as 0-3,8, so that others are left for "
    "agents on this host.",
    parse=parse_cpus,
)
@option("--backend", "The servers' database.", type=click.Choice(["mdb", "bdb"]))
@flag("--ldaps tls", "Servers replicate over TLS; the targets are ldaps://.")
@flag("--delta", "slapd: delta-syncrepl.")
@option("--name", "What the lab is called.", default=DEFAULT_NAME)
@option(
    "--folder base DIR",
    "Make the lab's folder, with all data, in DIR.  [default: TMPDIR]",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
)
@option(
    "--job",
    "Write a job beside this one that runs it on the lab.",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
)
def up_command(
    server: Any,
    tls: bool,
    name: str,
    entries: int | None,
    base: Path | None,
    job: Path | None,
    **given: Any,
) -> None:
    """Bring up servers that stay; print where they are and targets for a job file."""
    from ldapslam.jobs.load import load_job
    from ldapslam.lab import Choices, Lab
    from ldapslam.lab.standing import bring_up

    if job is not None:  # faults before anything is started
        lab_job_path(job, load_job(job, command=[job.read_text()]).name, name)
    if given["ldif"] is not None and entries is not None:
        raise ConfigError(
            "--entries and --ldif exclude each other",
            hint="an LDIF has the entries that it has",
        )
    if given["has_hub"] and not given["replicas"]:
        raise ConfigError("--hub without replicas", hint="say how many: --replicas N")
    choices = Choices(
        binary=given.pop("binary"),
        backend=given.pop("backend"),
        has_delta=given.pop("delta"),
        has_tls=tls,
        options=given.pop("settings"),
        cpus=given.pop("cpus"),
    )
    lab = Lab(
        server=server,
        entries=DEFAULT_ENTRIES if entries is None else entries,
        choices=choices,
        base=None if base is None else base.absolute(),
        **given,
    )
    say(f"loading and starting {len(lab.topology.roles())} × {_LABELS[server]}")
    description = bring_up(name, lab, has_tls=tls)
    snippet = job_snippet(description)
    lines = [*_text(description), "", yaml.safe_dump(snippet, sort_keys=False).rstrip()]
    said = f"`ldapslam lab down {name}` ends it and removes its data"
    put_result({**description, "job": snippet}, lines, said=said)
    if job is not None:
        say(f"`ldapslam run {write_job(job, description)}` measures it")


def _complete_lab(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    from ldapslam.lab.standing import descriptions

    names = [description["name"] for description in descriptions()]
    return [name for name in names if name.startswith(incomplete)]


@command("status")
@click.argument("name", required=False, shell_complete=_complete_lab)
def status_command(name: str | None) -> None:
    """List the labs and their servers: which run, and which are in sync."""
    from ldapslam.lab.standing import describe, descriptions, examine

    found = descriptions() if name is None else [describe(name)]
    states = [(description, examine(description)) for description in found]
    documents = [{**description, "states": rows} for description, rows in states]
    lines = [] if found else ["no labs are up"]
    for description, rows in states:
        lines.append(_title(description))
        for row in rows:
            synced = {True: "in sync", False: "NOT IN SYNC", None: "–"}[row["in_sync"]]
            lines.append(
                f"  {row['name']:<10} {row['pid']:>8}  {row['state']:<15} {synced:<12}"
                f" {row['uri']}"
            )
    put_result(documents, lines)


@command("down")
@click.argument("name", default=DEFAULT_NAME, shell_complete=_complete_lab)
def down_command(name: str) -> None:
    """End all servers of the lab NAME ('lab' without one) and remove its folder."""
    from ldapslam.lab.standing import take_down

    take_down(name)
    said = f"lab {name!r} is down, nothing of it is left"
    put_result({"name": name, "state": "down"}, [said])


def job_snippet(description: Description) -> dict[str, Any]:
    """The parts of a job file that point it at a lab: targets, bind, tls."""
    key = "ldaps_uri" if description["tls"] else "uri"
    by_role: dict[str, dict[str, str]] = {}
    for server in description["servers"]:
        by_role.setdefault(server["role"], {})[server["name"]] = server[key]
    suppliers = list(by_role["supplier"].values())
    targets: dict[str, Any] = {
        "supplier": suppliers[0] if len(suppliers) == 1 else suppliers,
        **by_role.get("hub", {}),
    }
    replicas = by_role.get("replica", {})
    if len(replicas) == 1:
        replicas = dict.fromkeys(["replica"], *replicas.values())
    targets |= replicas
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


def lab_job_path(path: Path, job: str, lab: str) -> Path:
    """Where the job for a lab goes; ConfigError when it may not be made there."""
    from ldapslam.jobs.fields.sections import NAME_PATTERN

    name = f"{job}-{lab}"
    if not re.fullmatch(NAME_PATTERN, name):
        raise ConfigError(
            f"{name!r} cannot be the name of a job",
            hint="give the lab a short --name of letters, digits, - and _",
        )
    made = path.with_name(f"{name}.yaml")
    if made.exists() and f"extends: {path.name}\n" not in made.read_text("utf-8"):
        raise ConfigError(
            f"there is a file {str(made)!r} of another kind",
            hint="give the lab another --name, or move the file",
        )
    return made


def write_job(path: Path, description: Description) -> Path:
    """A file beside the job that extends it by where the lab's servers are; its path.

    Beside it: the files that a job names are found from where it is."""
    from ldapslam.jobs.fields.connection import Tls
    from ldapslam.jobs.load import load_job, variables_of, written_in

    # its files are not used here
    job = load_job(path, command=[path.read_text()])
    snippet = job_snippet(description)
    servers = snippet["targets"]
    replicas = [uri for role, uri in servers.items() if role.startswith("replica")]
    content: dict[str, Any] = {
        "extends": path.name,
        "name": f"{job.name}-{description['name']}",
        "targets": {
            role: servers.get(role)
            or (replicas if role.startswith("replica") and replicas else None)
            or servers["supplier"]
            for role in job.targets
        },
    }
    if description["entries"] and "users" in variables_of(path):
        content["vars"] = {"users": description["entries"]}
    # of the other job's password nothing may be left
    password = {"env": None, **snippet["bind"]["password"]}
    bind = {**snippet["bind"], "password": password}
    if job.bind is not None:
        content["bind"] = bind
    if description["tls"] or job.tls != Tls():
        content["tls"] = {"ca_file": description["ca_file"]}
    if binding := [one.name for one in job.streams if one.bind is not None]:
        content["streams"] = [{"name": one, "bind": bind} for one in binding]
    if any(one.bind is not None for one in job.monitors):
        # they have no names to be changed by
        content["monitors"] = [
            {**one, "bind": snippet["bind"]} if one.get("bind") is not None else one
            for one in written_in(path, "monitors")
        ]
    made = lab_job_path(path, job.name, description["name"])
    with errors_of(made):
        made.write_text(yaml.safe_dump(content, sort_keys=False), "utf-8")
    return made


def _title(description: Description) -> str:
    name = description["name"]
    if "servers" not in description:
        if process := description["process"]:
            return f"lab {name!r} is being brought up by process {process}"
        return f"lab {name!r} is incomplete: `ldapslam lab down {name}` removes it"
    label = _LABELS[description["server"]]
    data = f"{description['entries']:,} people"
    if not description["entries"]:
        data = f"the tree {description['suffix']}"
    return f"lab {name!r}: {label} ({description['backend']}), {data}"


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
