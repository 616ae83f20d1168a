# SPDX-License-Identifier: Apache-2.0
"""The commands that serve until a signal ends them: `coordinator` and `agent`."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldapslam.base.address import DEFAULT_PORT, is_unix
from ldapslam.base.errors import ConfigError
from ldapslam.cli.console import without_passwords
from ldapslam.cli.logs import (
    announce,
    log_format_option,
    log_to_stderr,
    warn_of_root,
)
from ldapslam.cli.options import coordinator_option
from ldapslam.cli.scratch import is_scratch, remove_scratch
from ldapslam.cli.serve.limit_options import limit_options
from ldapslam.cli.serve.server_security import (
    ServerSecurity,
    agent_place,
    join_option,
    server_security_options,
)
from ldapslam.cli.serve.settings_file import config_option

if TYPE_CHECKING:
    from ldapslam.agent.admission.limits import AgentLimits
    from ldapslam.agent.client import Sidecar


def state_folder() -> Path:
    """Where this user's programs keep what survives them (XDG base directories)."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "ldapslam"


def _place(
    _: click.Context, __: click.Parameter, value: str | None
) -> tuple[str, int] | None:
    """HOST:PORT, or PORT alone, which is on loopback."""
    if value is None:
        return None
    host, colon, port = value.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else "127.0.0.1"
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ConfigError(
            f"--metrics: expected HOST:PORT or a port, got {value!r}",
            hint="such as 127.0.0.1:9400",
        )
    return host, int(port)


metrics_option = click.option(
    "--metrics",
    metavar="HOST:PORT",
    callback=_place,
    help="Give figures to Prometheus there, GET /metrics; a port alone is one of "
    "this host. Neither encrypted nor authenticated. Off when left out.",
)


def _channels(
    _: click.Context, __: click.Parameter, values: tuple[str, ...]
) -> dict[str, Any]:
    from ldapslam.coordinator.outputs.notify import parse_channel

    channels: dict[str, Any] = {}
    for number, value in enumerate(values, 1):
        try:
            name, place = parse_channel(value)
        except ConfigError as error:
            # the text may be a secret
            raise ConfigError(
                f"--notify, number {number}: {error}", hint=error.hint
            ) from error
        if name in channels:
            raise ConfigError(f"--notify: channel {name!r} is named twice")
        channels[name] = place
    return channels


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
@click.option(
    "--notify",
    "channels",
    metavar="NAME=URL",
    multiple=True,
    callback=_channels,
    help="Name a channel for notifications of ended runs: a URL of apprise, or the "
    "reference {env: NAME} or {file: PATH} to one; repeatable.",
)
@click.option(
    "--notify-always",
    metavar="NAME",
    multiple=True,
    help="Tell this channel of every run; repeatable.",
)
@click.option(
    "--notify-link",
    metavar="URL",
    help="Link to give in notifications; {run_id} in it is the run's.",
)
@config_option
def coordinator_command(
    listen: tuple[str, ...],
    store: str,
    on_stop: str,
    security: ServerSecurity,
    log_format: str,
    metrics: tuple[str, int] | None,
    channels: dict[str, Any],
    notify_always: tuple[str, ...],
    notify_link: str | None,
    scratch: Path | None,
) -> None:
    """Take agents and jobs, and keep the results, until SIGTERM or Ctrl-C."""
    log_to_stderr(log_format)
    warn_of_root(is_wanted=scratch is not None)
    from ldapslam.coordinator.extension import Extension
    from ldapslam.coordinator.outputs.health import Health
    from ldapslam.coordinator.outputs.notify import Notifier, NotifySettings
    from ldapslam.coordinator.runs.judge import JudgeProcess
    from ldapslam.coordinator.schedules.service import Schedules
    from ldapslam.coordinator.server import run_coordinator
    from ldapslam.reports import judge

    def on_ready(addresses: Sequence[str]) -> None:
        shown = without_passwords(store)
        announce(f"coordinator on {', '.join(addresses)}, store {shown}")

    extensions: list[Extension] = [Health()]
    if metrics is not None:
        from ldapslam.coordinator.outputs.metrics import Metrics

        extensions.append(Metrics(metrics))
    # the command that made a local fleet judges its run
    is_served = scratch is None
    if is_served:
        notify = NotifySettings(channels, notify_always, notify_link)
        extensions += [Schedules(), Notifier(notify)]
    try:
        run_coordinator(
            list(listen),
            store,
            insecure=security.insecure,
            tls=security.files,
            enrol=security.enrol,
            judge=JudgeProcess(judge.COMMAND, store) if is_served else None,
            channels=channels.keys(),
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
            sidecar=_metrics_sidecar(metrics),
        )


def _metrics_sidecar(place: tuple[str, int] | None) -> Sidecar | None:
    """Serves an agent's metrics beside it."""
    if place is None:
        return None
    from ldapslam.agent.metrics import agent_registry
    from ldapslam.transport.metrics_server import exposed

    return lambda session, is_connected: exposed(
        agent_registry(session, is_connected), place
    )
