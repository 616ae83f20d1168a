# SPDX-License-Identifier: Apache-2.0
"""`replay`: the log of a directory as load, by its statistics or request by request."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ldapslam.base import units
from ldapslam.base.errors import ConfigError, ExitCode
from ldapslam.base.fault import Fault
from ldapslam.base.files import private
from ldapslam.cli.command import Command
from ldapslam.cli.composed_job import ComposedJob
from ldapslam.cli.console import put, say
from ldapslam.cli.measure.one_line import run_composed
from ldapslam.cli.measure.one_line_options import (
    compose_head,
    connection_options,
    put_tail,
    run_options,
)
from ldapslam.cli.options import FILE, flag, option, parse_pair
from ldapslam.jobs.model import Job
from ldapslam.jobs.plan import agent_plan
from ldapslam.jobs.rates.arrivals import AS_FAST_AS_POSSIBLE
from ldapslam.jobs.replay.log import Log
from ldapslam.jobs.replay.read import prepare, read_logs
from ldapslam.jobs.replay.statistical_job import (
    Wishes,
    analyse,
    run_section,
    statistical_job,
)
from ldapslam.jobs.replay.trace import Identity, Schedule

#: The duration of a replay that is as fast as possible.
_LONGEST_S = 86_400
_EXAMPLE_URI = "ldap://127.0.0.1:389"


@click.group("replay")
def replay_command() -> None:
    """Turn a log of OpenLDAP (loglevel stats) or 389-DS into load."""


_logs_argument = click.argument(
    "logs", metavar="LOG…", nargs=-1, required=True, type=FILE
)
_target_option = option(
    "-H --target uris URI", "The directory to load; repeatable.", multiple=True
)
_credentials_option = option(
    "--credentials TEXT",
    "Bind as the log's DNs, with this password: that of a test population, never a "
    "real one.",
)


@replay_command.command("analyse")
@_logs_argument
@_target_option
@_credentials_option
@option(
    "--modify-attribute NAME",
    "What modifies replace: the log does not have their values.",
    default="description",
)
@option(
    "-o --out output FILE",
    "The job file; stdout when left out. Its feeds and rates go to the same folder.",
    type=FILE,
)
def analyse_command(
    logs: tuple[Path, ...],
    uris: tuple[str, ...],
    credentials: str | None,
    modify_attribute: str,
    output: Path | None,
) -> None:
    """Make a job of the same kind of load as LOG…, for `ldapslam run`.

    Operations by weight, filters with patterns for their values, the rate over time,
    connections and how often clients reconnect; comments tell the evidence.

    \b
      ldapslam replay analyse slapd.log -H ldap://test1 > job.yaml
      ldapslam replay analyse access access.2026*.gz -H ldap://test1 -o job.yaml
    """
    name = output.stem if output else "analysed"
    wishes = Wishes(
        name="".join(c if c.isalnum() and c.isascii() else "-" for c in name),
        uris=uris or (_EXAMPLE_URI,),
        credentials=credentials,
        attribute=modify_attribute,
    )
    try:
        made = statistical_job(analyse(read_logs(logs)), wishes)
    except Fault as fault:
        raise ConfigError(fault.reason, hint=fault.hint) from None
    folder = output.parent if output else Path()
    for file, content in made.files.items():
        _write(folder / file, content)
    if output is None:
        put(made.text.rstrip("\n"))
    else:
        _write(output, made.text.encode())
        say(f"{output}: `ldapslam check {output}` explains it")
    if not uris:
        say(f"hint: the job's target is {_EXAMPLE_URI}; name yours with -H URI")


@replay_command.command("run", cls=Command)
@_logs_argument
@_target_option
@option(
    "--speed Nx",
    "As fast as the log, 10x as fast, …; max: as fast as possible.",
    default="1x",
)
@option("--skip TIME", "Leave out this much of the log's begin.")
@option("-d --duration TIME", "End after this time; without it, with the log.")
@_credentials_option
@flag("--bind-as-configured", "Bind as -D, not as the log's DNs.")
@option(
    "--modify-attribute modify NAME", "Modifies replace this attribute by random text."
)
@option(
    "--add-attribute add NAME=TEXT",
    "Adds add entries with these attributes; repeatable.",
    multiple=True,
    parse=parse_pair,
)
@flag("--deletes", "Delete the entries that the log names.")
@flag("--renames", "Rename the entries that the log names.")
@connection_options
@run_options
def run_command(logs: tuple[Path, ...], **given: Any) -> ExitCode:
    """Send the requests of LOG… again, each at its time, on its connection.

    What the log does not have (passwords, values) is substituted as the options say;
    requests without are skipped, and counted.

    \b
      ldapslam replay run slapd.log -H ldap://test1
      ldapslam replay run access* -H ldap://test1 --speed 10x -D cn=admin,… -y FILE
          --modify-attribute description
    """
    if not given["uris"]:
        raise click.UsageError("name the directory: -H URI")
    log = read_logs(logs)
    job = compose_head("replay", given["uris"], given, "-H")
    stream = ("streams", 0)
    _put_duration(job, log, given)
    job.put((*stream, "name"), "log", "")
    job.put((*stream, "target"), "directory", "")
    job.put((*stream, "type"), "replay", "")
    load = (*stream, "load")
    job.put((*load, "connections"), 1_000_000, "")
    job.put((*load, "speed"), given["speed"], "--speed")
    _put_options(job, logs, given)
    put_tail(job, given)
    made = explain_replay(job.load(given["overrides"]), 0, log)
    job.put((*load, "connections"), len(made.connections), "")
    for line in skipped_lines(made.facts()):
        say(line)
    return run_composed(job, given)


def _put_options(job: ComposedJob, logs: Sequence[Path], given: dict[str, Any]) -> None:
    options = ("streams", 0, "options")
    job.put((*options, "logs"), [str(path) for path in logs], "LOG")
    entry: dict[str, list[str]] = {}
    for name, value in given["add"]:
        entry.setdefault(name, []).append(value)
    as_configured = given["bind_as_configured"]
    if given["credentials"] is not None and as_configured:
        raise click.UsageError("--credentials and --bind-as-configured: give one")
    if as_configured and given["bind_dn"] is None:
        raise click.UsageError("--bind-as-configured needs -D, the DN to bind as")
    for path, value, words in (
        (("skip",), given["skip"], "--skip"),
        (("binds", "as_configured"), as_configured, "--bind-as-configured"),
        (("binds", "password"), given["credentials"], "--credentials"),
        (("modifies", "attribute"), given["modify"], "--modify-attribute"),
        (("adds", "entry"), entry or None, "--add-attribute"),
        (("deletes",), given["deletes"], "--deletes"),
        (("renames",), given["renames"], "--renames"),
    ):
        if value is not None and value is not False:
            job.put((*options, *path), value, words)


def _put_duration(job: ComposedJob, log: Log, given: dict[str, Any]) -> None:
    """That of the log, a little longer: the run ends with the last request."""
    if given["duration"] is not None:
        job.put(("run", "duration"), given["duration"], "-d")
        return
    seconds = _LONGEST_S
    if given["speed"] != AS_FAST_AS_POSSIBLE:
        match = re.fullmatch(r"([\d.]+)x?", given["speed"])
        speed = float(match[1]) if match else 1.0
        seconds = math.ceil(log.duration_ns / max(speed, 1e-6) / units.NS_PER_S) + 1
    for key, value in run_section(seconds).items():
        job.put(("run", key), value, "")
    job.comments["run"] = "at most: the run ends with the log"


def skipped_lines(facts: dict[str, Any]) -> list[str]:
    """What of a log is replayed, and what is not, for people."""
    requests = ", ".join(
        f"{count:,} {kind}" for kind, count in facts["requests"].items()
    )
    lines = [
        f"{requests} in {facts['sessions']:,} sessions on {facts['connections']:,} "
        "connections"
    ]
    lines += [
        f"not replayed: {one['count']:,} {one['operation']}: {one['reason']}"
        for one in facts["skipped"]
    ]
    return lines


def explain_replays(job: Job) -> list[str]:
    """What `check` says of a job's replays."""
    return [
        f"stream {stream.name}: {line}"
        for number, stream in enumerate(job.streams)
        if stream.replay is not None
        for line in skipped_lines(explain_replay(job, number).facts())
    ]


def explain_replay(job: Job, number: int, log: Log | None = None) -> Schedule:
    """What a replay would send, made without secrets; `log` if it was read before."""
    stream = agent_plan(job, 0, 1, 0).streams[number]
    planned = stream.replay
    assert planned is not None, "the stream is a replay"
    replayed = planned.replay
    return prepare(
        replayed,
        read_logs(planned.logs) if log is None else log,
        planned.pace,
        connections=stream.total_connections,
        seed=0,
        identity=Identity("", b""),
    )


def _write(path: Path, content: bytes) -> None:
    """For the owner's eyes: a log has the names of people."""
    try:
        with open(path, "wb", opener=private) as file:
            file.write(content)
    except OSError as error:
        raise ConfigError(
            f"{str(path)!r} cannot be written: {error.strerror}",
            hint="name another file with -o",
        ) from None
