# SPDX-License-Identifier: Apache-2.0
"""The commands that serve until a signal ends them: `coordinator` and `agent`."""

from __future__ import annotations

import logging
import os
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldapslam.base import units
from ldapslam.base.address import DEFAULT_PORT, is_unix
from ldapslam.base.errors import ConfigError
from ldapslam.base.fault import Fault
from ldapslam.base.files import state_folder
from ldapslam.base.log_format import (
    FORMAT_VARIABLE,
    FORMATS,
    set_up_log,
    without_passwords,
)
from ldapslam.base.process import leave_no_core_dump
from ldapslam.cli.command import command
from ldapslam.cli.console import announce, put
from ldapslam.cli.options import (
    FOLDER,
    add_options,
    flag,
    metrics_option,
    option,
)
from ldapslam.cli.scratch import is_scratch, remove_scratch
from ldapslam.cli.security import coordinator_option
from ldapslam.cli.serve.server_security import (
    AgentIdentity,
    ServerSecurity,
    agent_identity,
    join_option,
    server_security_options,
)
from ldapslam.cli.serve.settings_file import config_option, settings_in_force

if TYPE_CHECKING:
    from ldapslam.agent.admission.limits import AgentLimits


log_format_option = option(
    "--log-format",
    "Log lines of text, or one JSON object a line; engine processes follow.",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    envvar=FORMAT_VARIABLE,
    show_envvar=True,
)


def _begin_service(log_format: str, *, may_be_root: bool, **fields: str) -> None:
    """Log to stderr, also without --verbose; a warning where root serves needlessly."""
    leave_no_core_dump()
    level = min(logging.getLogger().level, logging.INFO)
    set_up_log(log_format, level=level).update(fields)
    if os.geteuid() == 0 and not may_be_root:
        logging.getLogger("ldapslam").warning(
            "running as root, which nothing here needs: the shipped systemd units run "
            "as users of their own"
        )


def _parse_scratch(value: Path) -> Path:
    if not is_scratch(value):
        raise Fault(f"{str(value)!r} is no folder of a local fleet")
    return value


@command("coordinator")
@option(
    "--listen HOST:PORT",
    "Where agents and operators connect; also unix:PATH; repeatable.",
    multiple=True,
    default=[f"127.0.0.1:{DEFAULT_PORT}"],
)
@option(
    "--store URL",
    "Results store: a file, or a URL.",
    default=lambda: str(state_folder() / "results.sqlite"),
    show_default="results.sqlite in the user's state folder",
)
@option("--scratch DIR", type=FOLDER, parse=_parse_scratch, hidden=True)
@option(
    "--on-stop",
    "What SIGTERM does to runs under way: cancel them and wait for their drain,"
    " or leave them to their agents, and to the next coordinator on the store.",
    type=click.Choice(["drain", "leave"]),
    default="drain",
)
@server_security_options
@log_format_option
@metrics_option
@option(
    "--on-run-end WORD",
    "Start this program, without a shell, when a run has ended; it reads the run as "
    "JSON on stdin. Repeat the option for each argument of the program.",
    multiple=True,
)
@config_option
def coordinator_command(
    listen: tuple[str, ...],
    store: str,
    on_stop: str,
    security: ServerSecurity,
    log_format: str,
    metrics: tuple[str, int] | None,
    on_run_end: tuple[str, ...],
    scratch: Path | None,
) -> None:
    """Take agents and jobs, and keep the results, until SIGTERM or Ctrl-C."""
    _begin_service(log_format, may_be_root=scratch is not None)
    from ldapslam.coordinator.extension import Extension
    from ldapslam.coordinator.outputs.health import Health
    from ldapslam.coordinator.runs.judge import JudgeProcess
    from ldapslam.coordinator.server import run_coordinator
    from ldapslam.reports import judge

    def on_ready(addresses: Sequence[str]) -> None:
        shown = without_passwords(store)
        announce(f"coordinator on {', '.join(addresses)}, store {shown}")

    extensions: list[Extension] = [Health()]
    if metrics is not None:
        from ldapslam.coordinator.outputs.metrics import Metrics
        from ldapslam.coordinator.outputs.shown_runs import ShownRuns

        extensions += [runs := ShownRuns(), Metrics(metrics, runs)]
    # the command that made a local fleet judges its run
    is_served = scratch is None
    judging = JudgeProcess(judge.COMMAND, store)
    if is_served:
        from ldapslam.coordinator.part_collector import PartCollector
        from ldapslam.coordinator.schedules.service import Schedules

        extensions += [Schedules(), PartCollector(judging.collect)]
    if on_run_end and is_served:
        from ldapslam.coordinator.outputs.run_end_command import RunEndCommand

        extensions.append(RunEndCommand(on_run_end))
    try:
        run_coordinator(
            list(listen),
            store,
            insecure=security.insecure,
            tls=security.files,
            enrol=security.enrol,
            judge=judging if is_served else None,
            extensions=extensions,
            leave_runs=on_stop == "leave",
            on_ready=on_ready,
        )
    finally:
        # The command of the local fleet may have been killed, and cannot remove it.
        if scratch is not None:
            remove_scratch(scratch)


def _labels(
    _: click.Context, __: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    labels: dict[str, str] = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not (key and equals):
            raise ConfigError(f"--label: expected KEY=VALUE, got {value!r}")
        if key in labels:
            raise ConfigError(
                f"--label: {key!r} is given twice: {labels[key]!r} and {text!r}",
                hint="an agent has one value of each label",
            )
        labels[key] = text
    return labels


#: Limits of the agent's operator, which no job changes; named as in AgentLimits.
_limit_options = add_options(
    option(
        "--allow-target RULE",
        "A server that may be loaded: an address or network (10.1.0.0/16), a host "
        "name, either with :PORT; ldapi or ldapi:PATH; loopback; any. Repeatable. When "
        "left out: loopback and ldapi.",
        multiple=True,
    ),
    option(
        "--allow-log logs PATH",
        "A directory's log that monitors of a job may read, by its absolute path "
        "without symbolic links; any. Repeatable. When left out: none.",
        multiple=True,
    ),
    option(
        "--allow-import imports PATH",
        "What jobs of type bulk_load may use: a folder for databases and LDIF files, "
        "or a program that they may run; any. Repeatable. When left out: the folder "
        "for temporary files, and no programs but those installed.",
        multiple=True,
    ),
    option(
        "--allow-secret secrets RULE",
        "A secret that jobs may name, as in {env: NAME} or {file: PATH}: env:NAME; "
        "file:PATH, of a file or of a folder; any. Repeatable. When left out: none.",
        multiple=True,
    ),
    option(
        "--allow-class classes NAME",
        "A class in Python that jobs may run: package.module:Class, or a package or "
        "module for all in it; any. Repeatable. When left out: those that are "
        "installed as entry points of `ldapslam.python_jobs`.",
        multiple=True,
    ),
    flag("--restricted", "Take only jobs that name this agent."),
    option(
        "--max-runs N",
        "Runs at a time; each may use an equal part of the connections and the rate "
        "below.",
        type=click.IntRange(1, 64),
        default=1,
    ),
    option(
        "--max-connections N", "Most connections at a time.", type=click.IntRange(min=1)
    ),
    option(
        "--max-rate max_rate_per_s RATE",
        "Most requests that may be due, such as 5000/s; refuses loads without a known "
        "highest rate.",
        parse=lambda value: units.parse_rate(value).per_s,
    ),
    option(
        "--max-duration max_duration_ns DURATION",
        "Longest run, such as 12h.",
        parse=units.parse_duration,
    ),
    option(
        "--max-orphan max_orphan_ns DURATION",
        "Longest time that load may go on without the coordinator; a job asks for it "
        "as `coordinator_timeout`.",
        parse=units.parse_duration,
    ),
    option(
        "--spool-quota spool_quota_bytes SIZE",
        "Most space for reports that wait to be delivered, such as 2GiB.",
        parse=units.parse_size,
    ),
)


#: Options that are settings of the agent; the other options are its limits.
_OWN_SETTINGS = ("labels", "workers", "max_runs", "restricted")


@command("agent")
@coordinator_option
@option(
    "--name",
    "Name in the fleet and in reports; unique.",
    show_default="that of the certificate, or this host's",
)
@option(
    "--label labels KEY=VALUE",
    "A label that jobs can select by; repeatable.",
    multiple=True,
    callback=_labels,
)
@option(
    "--spool DIR",
    "Folder for reports that are not yet delivered; one agent each. In the user's "
    "state folder when left out.",
    type=FOLDER,
)
@option(
    "--workers N",
    "Engine threads; one less than the CPUs when left out.",
    type=click.IntRange(1, 1024),
)
@flag("--no-realtime", "Do not ask for SCHED_FIFO in open loops.")
@_limit_options
@join_option
@log_format_option
@config_option
@flag(
    "--explain",
    "Show the settings in force, where each is from, and what keeps the agent from "
    "starting; start nothing.",
)
def agent_command(
    explain: bool,
    coordinator: str,
    name: str | None,
    spool: Path | None,
    allow_target: tuple[str, ...],
    join_file: Path | None,
    log_format: str,
    **given: Any,
) -> None:
    """Generate load for a coordinator until SIGTERM or Ctrl-C, which drain."""
    from ldapslam.agent.admission.grants import check_secret_rules
    from ldapslam.agent.admission.limits import AgentLimits
    from ldapslam.agent.admission.target_rules import parse_rules

    own = {name: given.pop(name) for name in _OWN_SETTINGS}
    own["realtime"] = not given.pop("no_realtime")
    identity = agent_identity(
        *(coordinator, name, socket.gethostname(), spool),
        *(state_folder() / "spool", join_file),
    )
    given["secrets"] = check_secret_rules(given["secrets"])
    given["own_files"] = identity.own_files(join_file)
    allowed = AgentLimits(targets=parse_rules(allow_target), **given)
    if explain:
        _explain(identity, allowed, own["workers"])
        identity.check()
        return
    _begin_service(log_format, may_be_root=is_unix(coordinator), agent=identity.name)
    from ldapslam.agent.fork_server import fork_server

    # before anything that has threads: gRPC, an event loop
    with fork_server() as forks:
        from ldapslam.agent.client import run_agent
        from ldapslam.agent.settings import AgentSettings

        settings = AgentSettings(
            identity.name, identity.spool, limits=allowed, forks=forks, **own
        )
        identity.enter(coordinator)
        announce(
            f"agent {identity.name} of coordinator {coordinator}, "
            f"spool {settings.spool}"
        )
        run_agent(
            coordinator,
            settings,
            insecure=identity.insecure,
            tls=identity.files,
            has_joined=identity.has_joined,
        )


def _explain(
    identity: AgentIdentity, allowed: AgentLimits, workers: int | None
) -> None:
    """Print what is in force."""
    from ldapslam.agent.admission.admit import workers_for
    from ldapslam.agent.admission.grants import NEVER
    from ldapslam.cli.fleet.operate import put_table

    files = identity.files
    when_left_out = {
        "name": identity.name,
        "workers": str(workers_for(workers)),
        "spool": str(identity.spool),
        "tls": "no certificate" if files is None else str(files.certificate.parent),
        "allow-target": ", ".join(rule.text for rule in allowed.targets),
        "allow-import": tempfile.gettempdir(),
        "allow-class": "those of entry points",
    }
    settings = settings_in_force(click.get_current_context(), ("explain",))
    rows = [
        (name, value or when_left_out.get(name, "none" if "allow" in name else "–"), of)
        for name, value, of in settings
    ]
    put_table(["setting", "in force", "from"], rows, "")
    put(f"never read for a job: {', '.join((*NEVER, *allowed.own_files))}")
