# SPDX-License-Identifier: Apache-2.0
"""The commands that serve until a signal ends them: `coordinator` and `agent`."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ldapslam.cli.console import without_passwords
from ldapslam.cli.limit_options import limit_options
from ldapslam.cli.logs import (
    announce,
    log_format_option,
    log_to_stderr,
    warn_of_root,
)
from ldapslam.cli.metrics_server import beside_agent, metrics_option
from ldapslam.cli.notify_options import notify_options
from ldapslam.cli.options import coordinator_option
from ldapslam.cli.scratch import is_scratch, remove_scratch
from ldapslam.cli.server_security import (
    ServerSecurity,
    agent_place,
    join_option,
    server_security_options,
)
from ldapslam.cli.settings_file import config_option
from ldapslam.jobs.errors import ConfigError
from ldapslam.proto.address import DEFAULT_PORT, is_unix

if TYPE_CHECKING:
    from ldapslam.agent.limits import AgentLimits
    from ldapslam.cli.notifier import NotifySettings


def state_folder() -> Path:
    """Where this user's programs keep what survives them (XDG base directories)."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "ldapslam"


def _own_scratch(
    _: click.Context, __: click.Parameter, folder: Path | None
) -> Path | None:
    if folder is not None and not is_scratch(folder):
        raise ConfigError(f"--scratch: {str(folder)!r} is no folder of a local fleet")
    return folder


@click.command("coordinator")
@click.option(
    "--listen",
    metavar="HOST:PORT",
    multiple=True,
    default=[f"127.0.0.1:{DEFAULT_PORT}"],
    show_default=True,
    help="Where agents and operators connect; also unix:PATH; repeatable.",
)
@click.option(
    "--store",
    metavar="URL",
    default=lambda: str(state_folder() / "results.sqlite"),
    show_default="results.sqlite in the user's state folder",
    help="Results store: a file, or a URL.",
)
@click.option(
    "--scratch",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    callback=_own_scratch,
    hidden=True,
)
@click.option(
    "--on-stop",
    type=click.Choice(["drain", "leave"]),
    default="drain",
    show_default=True,
    help="What SIGTERM does to runs under way: cancel them and wait for their drain, "
    "or leave them to their agents, and to the next coordinator on the store.",
)
@server_security_options
@log_format_option
@metrics_option
@notify_options
@config_option
def coordinator_command(
    listen: tuple[str, ...],
    store: str,
    on_stop: str,
    security: ServerSecurity,
    log_format: str,
    metrics: tuple[str, int] | None,
    notify: NotifySettings,
    scratch: Path | None,
) -> None:
    """Take agents and jobs, and keep the results, until SIGTERM or Ctrl-C."""
    log_to_stderr(log_format)
    warn_of_root(is_wanted=scratch is not None)
    from ldapslam.cli.services import coordinator_services
    from ldapslam.coordinator.server import run_coordinator

    def on_ready(addresses: Sequence[str]) -> None:
        shown = without_passwords(store)
        announce(f"coordinator on {', '.join(addresses)}, store {shown}")

    hooks, extensions = coordinator_services(
        store, notify, metrics, is_local_fleet=scratch is not None
    )
    try:
        run_coordinator(
            list(listen),
            store,
            insecure=security.insecure,
            tls=security.files,
            enrol=security.enrol,
            hooks=hooks,
            extensions=extensions,
            leave_runs=on_stop == "leave",
            on_ready=on_ready,
        )
    finally:
        # Of a local fleet whose command was killed and cannot remove it any more.
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


@click.command("agent")
@coordinator_option
@click.option(
    "--name",
    show_default="that of the certificate, or this host's",
    help="Name in the fleet and in reports; unique.",
)
@click.option(
    "--label",
    "labels",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_labels,
    help="A label that jobs can select by; repeatable.",
)
@click.option(
    "--spool",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for reports that are not yet delivered; one agent each. "
    "In the user's state folder when left out.",
)
@click.option(
    "--workers",
    metavar="N",
    type=click.IntRange(1, 1024),
    help="Engine threads; one less than the CPUs when left out.",
)
@click.option(
    "--realtime/--no-realtime",
    default=True,
    show_default=True,
    help="Ask for SCHED_FIFO in open loops.",
)
@limit_options
@join_option
@log_format_option
@metrics_option
@config_option
def agent_command(
    coordinator: str,
    name: str | None,
    labels: dict[str, str],
    spool: Path | None,
    workers: int | None,
    realtime: bool,
    max_runs: int,
    restricted: bool,
    limits: AgentLimits,
    join_file: Path | None,
    log_format: str,
    metrics: tuple[str, int] | None,
) -> None:
    """Generate load for a coordinator until SIGTERM or Ctrl-C, which drain."""
    place = agent_place(
        coordinator,
        name,
        socket.gethostname(),
        spool,
        state_folder() / "spool",
        join_file,
    )
    log_to_stderr(log_format, agent=place.name)
    warn_of_root(is_wanted=is_unix(coordinator))
    from ldapslam.agent.fork_server import fork_server

    # before anything that has threads: gRPC, an event loop
    with fork_server() as forks:
        from ldapslam.agent.client import run_agent
        from ldapslam.agent.settings import AgentSettings

        settings = AgentSettings(
            name=place.name,
            spool=place.spool,
            labels=labels,
            workers=workers,
            realtime=realtime,
            max_runs=max_runs,
            restricted=restricted,
            limits=limits,
            forks=forks,
        )
        place.enter(coordinator)
        announce(
            f"agent {place.name} of coordinator {coordinator}, spool {settings.spool}"
        )
        run_agent(
            coordinator,
            settings,
            insecure=place.insecure,
            tls=place.files,
            has_joined=place.has_joined,
            beside=beside_agent(metrics),
        )
