# SPDX-License-Identifier: Apache-2.0
"""The commands for what happens by the clock: schedule, maintenance, audit."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from ldapslam.base.errors import ConfigError
from ldapslam.base.units import format_duration
from ldapslam.base.uri import check_uri
from ldapslam.cli.client import Client, completed_by, operator_name
from ldapslam.cli.console import put_json, put_result
from ldapslam.cli.fleet.operate import document, field_lines, put_table
from ldapslam.cli.fleet.times import (
    moment,
    parse_cron,
    positive_duration,
    shown,
    shown_twice,
    time_zone_option,
)
from ldapslam.cli.options import option, parse_text
from ldapslam.cli.security import client_options
from ldapslam.proto import schedule_pb2 as pb
from ldapslam.proto.fields import words_of
from ldapslam.results.records import utc_text

MISFIRES = words_of(pb.MisfirePolicy.DESCRIPTOR)
OVERLAPS = words_of(pb.OverlapPolicy.DESCRIPTOR)
_MISFIRE_NAMES = {number: name for name, number in MISFIRES.items()}
_OVERLAP_NAMES = {number: name for name, number in OVERLAPS.items()}
_DEFAULT_GRACE_NS = 60_000_000_000
_CHANGES = {
    "pause": "Begin no runs until it is resumed; times that pass meanwhile are noted.",
    "resume": "Go on after a pause, or start a disabled schedule.",
    "disable": "Keep the schedule, without effect and without a record of its times.",
}
_schedule_argument = click.argument(
    "name",
    metavar="SCHEDULE",
    shell_complete=completed_by(
        lambda client: [one.name or one.schedule_id for one in client.schedules()]
    ),
)


def _asked(coordinator: str, method: str, request: Any) -> Any:
    with Client(coordinator) as client:
        return client.schedule_call(method, request)


@click.group("schedule")
def schedule_command() -> None:
    """Schedules, which `ldapslam submit --cron` and `--every` make."""


@schedule_command.command("list")
@client_options
def list_schedules(coordinator: str, as_json: bool) -> None:
    """List the schedules with their next five times."""
    request = pb.ListSchedulesRequest()
    found = _asked(coordinator, "ListSchedules", request).schedules
    documents = [schedule_document(status) for status in found]
    lines = (line for status in found for line in _brief_lines(status))
    none = "no schedules; make one with `ldapslam submit JOB --cron …`"
    put_result(documents, lines, as_json=as_json, said="" if found else none)


@schedule_command.command("show")
@_schedule_argument
@client_options
def show_schedule(name: str, coordinator: str, as_json: bool) -> None:
    """Show a schedule: its rule, its next times, and its last ten times."""
    with Client(coordinator) as client:
        status = client.schedule(name)
    put_result(schedule_document(status), _full_lines(status), as_json=as_json)


def _change_command(word: str, help: str) -> click.Command:
    @click.command(word, help=help)
    @_schedule_argument
    @client_options
    def change(name: str, coordinator: str, as_json: bool) -> None:
        request = pb.ChangeScheduleRequest(
            schedule=name, change=f"CHANGE_{word.upper()}", changed_by=operator_name()
        )
        status = _asked(coordinator, "ChangeSchedule", request)
        said = f"schedule {status.name} is {status.state}"
        put_result(schedule_document(status), as_json=as_json, said=said)

    return change


for _word, _help in _CHANGES.items():
    schedule_command.add_command(_change_command(_word, _help))


@schedule_command.command("remove")
@_schedule_argument
@client_options
def remove_schedule(name: str, coordinator: str, as_json: bool) -> None:
    """Forget a schedule; runs that it made stay."""
    request = pb.RemoveScheduleRequest(schedule=name, removed_by=operator_name())
    _asked(coordinator, "RemoveSchedule", request)
    said = f"schedule {name} is removed"
    put_result({"removed": name}, as_json=as_json, said=said)


def schedule_document(status: pb.ScheduleStatus) -> dict[str, Any]:
    """A schedule for --json."""
    rule = status.rule
    return {
        "schedule_id": status.schedule_id,
        "name": status.name,
        "job_name": status.job_name,
        "state": status.state,
        "cron": rule.cron or None,
        "every_ns": rule.every_ns or None,
        "once": rule.once,
        "time_zone": rule.time_zone or "UTC",
        "from_utc": rule.from_utc or None,
        "until_utc": rule.until_utc or None,
        "misfire": _MISFIRE_NAMES.get(rule.misfire),
        "misfire_grace_ns": rule.misfire_grace_ns or _DEFAULT_GRACE_NS,
        "overlap": _OVERLAP_NAMES.get(rule.overlap),
        "created_utc": status.created_utc,
        "created_by": status.created_by,
        "next": [
            {"utc": time, "local": shown(time, rule.time_zone)}
            for time in status.next_utc
        ],
        "fires": [document(fire) for fire in status.fires],
    }


def _rule_text(rule: pb.ScheduleRule) -> str:
    """When its times are, in a few words."""
    if rule.cron:
        return f"cron '{rule.cron}' {rule.time_zone or 'UTC'}"
    if rule.once:
        return "once" if rule.from_utc else "once, as soon as it is active"
    return f"every {format_duration(rule.every_ns)}"


def _brief_lines(status: pb.ScheduleStatus) -> Iterator[str]:
    """A schedule in a list: itself, and its next times."""
    yield (
        f"{status.name}  {status.schedule_id}  {status.state}  job {status.job_name}  "
        f"{_rule_text(status.rule)}"
    )
    note = "" if status.state == "active" else f", not while it is {status.state}"
    for time in status.next_utc:
        yield f"    {shown_twice(time, status.rule.time_zone)}{note}"


def _full_lines(status: pb.ScheduleStatus) -> Iterator[str]:
    """All that is known of a schedule."""
    rule, zone = status.rule, status.rule.time_zone
    grace = format_duration(rule.misfire_grace_ns or _DEFAULT_GRACE_NS)
    yield from field_lines(
        {
            "schedule": f"{status.name} ({status.schedule_id})",
            "job": status.job_name,
            "state": status.state,
            "rule": _rule_text(rule),
            "from": shown_twice(rule.from_utc, zone) if rule.from_utc else "",
            "until": shown_twice(rule.until_utc, zone) if rule.until_utc else "",
            "misfire": f"{_MISFIRE_NAMES.get(rule.misfire)}, grace {grace}",
            "overlap": str(_OVERLAP_NAMES.get(rule.overlap)),
            "created": f"{shown(status.created_utc)} by {status.created_by}",
        }
    )
    for number, time in enumerate(status.next_utc):
        yield f"{'next' if number == 0 else '':<10} {shown_twice(time, zone)}"
    for number, fire in enumerate(status.fires):
        parts = [shown_twice(fire.due_utc, zone), fire.outcome, *fire.run_ids]
        if fire.detail:
            parts.append(f"({fire.detail})")
        yield f"{'times' if number == 0 else '':<10} {'  '.join(parts)}"


@click.group("maintenance")
def maintenance_command() -> None:
    """Maintenance windows: times in which no run is under way."""


@maintenance_command.command("add")
@option("--from begin TIME", "Begin of the one window.", parse=parse_text)
@option("--until TIME", "End of the one window.", parse=parse_text)
@option("--cron EXPR", "Begins of a regular window.", parse=parse_cron)
@option(
    "--for length_ns DURATION",
    "Length of a regular window, or of one that has a --from.",
    parse=positive_duration,
)
@time_zone_option
@option(
    "--target targets URI",
    "Hold only runs against this server; repeatable. All when left out.",
    multiple=True,
    parse=check_uri,
)
@option("--name", "A name for it.", parse=parse_text)
@client_options
def add_window(
    begin: str | None,
    until: str | None,
    cron: str | None,
    length_ns: int | None,
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
        window.cron, window.length_ns = cron, length_ns or 0
    else:
        if begin is None or (until is None) == (length_ns is None):
            raise ConfigError(
                "a maintenance window has a begin and an end",
                hint="give --from and --until, --from and --for, or --cron and --for",
            )
        start = moment("--from", begin, time_zone, datetime.now(UTC))
        end = start + timedelta(microseconds=(length_ns or 0) // 1000)
        if until is not None:
            end = moment("--until", until, time_zone, start)
        window.from_utc, window.until_utc = utc_text(start), utc_text(end)
    window.created_by = operator_name()
    kept = _asked(coordinator, "AddMaintenance", window)
    shown, said = _window_document(kept), _window_text(kept)
    put_result(shown, [kept.window_id], as_json=as_json, said=said)


@maintenance_command.command("list")
@client_options
def list_windows(coordinator: str, as_json: bool) -> None:
    """List the maintenance windows."""
    request = pb.ListMaintenanceRequest()
    found = _asked(coordinator, "ListMaintenance", request).windows
    documents = [_window_document(window) for window in found]
    said = "" if found else "no maintenance windows"
    put_result(documents, map(_window_text, found), as_json=as_json, said=said)


@maintenance_command.command("remove")
@click.argument("name", metavar="WINDOW")
@client_options
def remove_window(name: str, coordinator: str, as_json: bool) -> None:
    """Forget a maintenance window, by its id or name."""
    request = pb.RemoveMaintenanceRequest(window=name, removed_by=operator_name())
    _asked(coordinator, "RemoveMaintenance", request)
    said = f"maintenance window {name} is removed"
    put_result({"removed": name}, as_json=as_json, said=said)


def _window_document(window: pb.MaintenanceWindow) -> dict[str, Any]:
    shown = document(window)
    for name in ("from_utc", "until_utc", "cron", "length_ns"):
        shown[name] = shown[name] or None
    return shown | {"time_zone": window.time_zone or "UTC"}


def _window_text(window: pb.MaintenanceWindow) -> str:
    zone = window.time_zone
    if window.cron:
        length = format_duration(window.length_ns)
        when = f"cron '{window.cron}' {zone or 'UTC'} for {length}"
    else:
        begin, end = (shown_twice(t, zone) for t in (window.from_utc, window.until_utc))
        when = f"{begin} to {end}"
    targets = ", ".join(window.targets) or "all targets"
    return f"{window.name}  {window.window_id}  {when}  {targets}"


@click.command("audit")
@option(
    "--limit N", "This many at most; 0 for all.", type=click.IntRange(min=0), default=50
)
@client_options
def audit_command(limit: int, coordinator: str, as_json: bool) -> None:
    """List who submitted, cancelled or scheduled what, and who was refused."""
    request = pb.ListAuditRequest(limit=limit)
    entries = _asked(coordinator, "ListAudit", request).entries
    if as_json:
        put_json([{**document(entry), "number": entry.number} for entry in entries])
        return
    rows = [
        (shown(one.at_utc), one.who, one.role, one.action, one.subject, one.detail)
        for one in entries
    ]
    header = ("time", "who", "role", "did", "what", "detail")
    put_table(header, rows, "nothing yet")
