# SPDX-License-Identifier: Apache-2.0
"""The commands for what happens by the clock: schedule, maintenance, audit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click

from ldapslam.base.errors import ConfigError
from ldapslam.base.fault import Fault
from ldapslam.base.uri import check_uri
from ldapslam.cli.console import json_option, put, put_json, say
from ldapslam.cli.fleet.moments import (
    given_text,
    moment,
    positive_duration_ns,
    shown,
    time_zone_option,
)
from ldapslam.cli.fleet.operate import document, put_table
from ldapslam.cli.fleet.schedule_client import ScheduleClient
from ldapslam.cli.fleet.schedule_texts import (
    brief_lines,
    full_lines,
    schedule_document,
    window_document,
    window_text,
)
from ldapslam.cli.options import coordinator_option
from ldapslam.proto import schedule_pb2 as pb
from ldapslam.results.records import utc_text

_schedule_argument = click.argument("name", metavar="SCHEDULE")


@click.group("schedule")
def schedule_command() -> None:
    """Schedules, which `ldapslam submit --cron` and `--every` make."""


@schedule_command.command("list")
@coordinator_option
@json_option
def list_schedules(coordinator: str, as_json: bool) -> None:
    """List the schedules with their next five times."""
    with ScheduleClient(coordinator) as client:
        found = client.schedules()
    if as_json:
        put_json([schedule_document(status) for status in found])
        return
    if not found:
        say("no schedules; make one with `ldapslam submit JOB --cron …`")
    for status in found:
        for line in brief_lines(status):
            put(line)


@schedule_command.command("show")
@_schedule_argument
@coordinator_option
@json_option
def show_schedule(name: str, coordinator: str, as_json: bool) -> None:
    """Show a schedule: its rule, its next times, and what became of the last ten."""
    with ScheduleClient(coordinator) as client:
        status = client.schedule(name)
    _show(status, as_json=as_json)


@schedule_command.command("pause")
@_schedule_argument
@coordinator_option
@json_option
def pause_schedule(name: str, coordinator: str, as_json: bool) -> None:
    """Begin no runs until it is resumed; times that pass meanwhile are noted."""
    _change(name, pb.ChangeScheduleRequest.CHANGE_PAUSE, coordinator, as_json)


@schedule_command.command("resume")
@_schedule_argument
@coordinator_option
@json_option
def resume_schedule(name: str, coordinator: str, as_json: bool) -> None:
    """Go on after a pause, or start a disabled schedule."""
    _change(name, pb.ChangeScheduleRequest.CHANGE_RESUME, coordinator, as_json)


@schedule_command.command("disable")
@_schedule_argument
@coordinator_option
@json_option
def disable_schedule(name: str, coordinator: str, as_json: bool) -> None:
    """Keep the schedule, without effect and without a record of its times."""
    _change(name, pb.ChangeScheduleRequest.CHANGE_DISABLE, coordinator, as_json)


@schedule_command.command("remove")
@_schedule_argument
@coordinator_option
@json_option
def remove_schedule(name: str, coordinator: str, as_json: bool) -> None:
    """Forget a schedule; runs that it made stay."""
    with ScheduleClient(coordinator) as client:
        client.remove(name)
    _removed("schedule", name, as_json)


def _change(
    name: str,
    change: pb.ChangeScheduleRequest.Change,
    coordinator: str,
    as_json: bool,
) -> None:
    with ScheduleClient(coordinator) as client:
        status = client.change(name, change)
    if as_json:
        put_json(schedule_document(status))
    else:
        say(f"schedule {status.name} is {status.state}")


def _show(status: pb.ScheduleStatus, *, as_json: bool) -> None:
    if as_json:
        put_json(schedule_document(status))
        return
    for line in full_lines(status):
        put(line)


def _removed(kind: str, name: str, as_json: bool) -> None:
    if as_json:
        put_json({"removed": name})
    else:
        say(f"{kind} {name} is removed")


def _checked_uris(
    _: click.Context, __: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    try:
        return tuple(check_uri(value) for value in values)
    except Fault as fault:
        raise ConfigError(f"--target: {fault}", hint=fault.hint) from None


@click.group("maintenance")
def maintenance_command() -> None:
    """Maintenance windows: times in which no run is under way."""


@maintenance_command.command("add")
@click.option(
    "--from",
    "begin",
    metavar="TIME",
    callback=given_text,
    help="Begin of the one window.",
)
@click.option(
    "--until", metavar="TIME", callback=given_text, help="End of the one window."
)
@click.option(
    "--cron", metavar="EXPR", callback=given_text, help="Begins of a regular window."
)
@click.option(
    "--for",
    "length_ns",
    metavar="DURATION",
    callback=positive_duration_ns,
    help="Length of a regular window, or of one that has a --from.",
)
@time_zone_option
@click.option(
    "--target",
    "targets",
    metavar="URI",
    multiple=True,
    callback=_checked_uris,
    help="Hold only runs against this server; repeatable. All when left out.",
)
@click.option("--name", callback=given_text, help="A name for it.")
@coordinator_option
@json_option
def add_window(
    begin: str | None,
    until: str | None,
    cron: str | None,
    length_ns: int,
    time_zone: str,
    targets: tuple[str, ...],
    name: str | None,
    coordinator: str,
    as_json: bool,
) -> None:
    """Keep a time free: no run begins within, nor one that would still be going on."""
    window = pb.MaintenanceWindow(name=name or "", time_zone=time_zone, targets=targets)
    if cron is not None:
        if begin is not None or until is not None:
            raise ConfigError("--cron with --for, or --from with --until or --for")
        window.cron, window.length_ns = cron, length_ns
    else:
        now = datetime.now(UTC)
        if begin is None or (until is not None) == (length_ns > 0):
            raise ConfigError(
                "a maintenance window has a begin and an end",
                hint="give --from and --until, --from and --for, or --cron and --for",
            )
        start = moment("--from", begin, time_zone, now)
        window.from_utc = utc_text(start)
        if until is not None:
            end = moment("--until", until, time_zone, start)
        else:
            end = start + timedelta(microseconds=length_ns // 1000)
        window.until_utc = utc_text(end)
    with ScheduleClient(coordinator) as client:
        kept = client.add_window(window)
    if as_json:
        put_json(window_document(kept))
    else:
        say(window_text(kept))
        put(kept.window_id)


@maintenance_command.command("list")
@coordinator_option
@json_option
def list_windows(coordinator: str, as_json: bool) -> None:
    """List the maintenance windows."""
    with ScheduleClient(coordinator) as client:
        found = client.windows()
    if as_json:
        put_json([window_document(window) for window in found])
        return
    if not found:
        say("no maintenance windows")
    for window in found:
        put(window_text(window))


@maintenance_command.command("remove")
@click.argument("name", metavar="WINDOW")
@coordinator_option
@json_option
def remove_window(name: str, coordinator: str, as_json: bool) -> None:
    """Forget a maintenance window, by its id or name."""
    with ScheduleClient(coordinator) as client:
        client.remove_window(name)
    _removed("maintenance window", name, as_json)


@click.command("audit")
@click.option(
    "-n", "--limit", type=click.IntRange(min=0), default=50, help="0 for all."
)
@coordinator_option
@json_option
def audit_command(limit: int, coordinator: str, as_json: bool) -> None:
    """List who submitted, cancelled or scheduled what, and who was refused."""
    with ScheduleClient(coordinator) as client:
        entries = client.audit(limit)
    if as_json:
        put_json([{**document(entry), "number": entry.number} for entry in entries])
        return
    rows = [
        (shown(one.at_utc), one.who, one.role, one.action, one.subject, one.detail)
        for one in entries
    ]
    header = ("time", "who", "role", "did", "what", "detail")
    put_table(header, rows, "nothing yet")
