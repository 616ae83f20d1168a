# SPDX-License-Identifier: Apache-2.0
"""The commands for what happens by the clock: schedule, audit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from ldapslam.base.units import format_duration
from ldapslam.cli.client import Client, completed_by, operator_name
from ldapslam.cli.command import command
from ldapslam.cli.console import put_json, put_result, wants_json
from ldapslam.cli.fleet.operate import document, field_lines, put_table
from ldapslam.cli.fleet.times import (
    shown,
    shown_twice,
)
from ldapslam.cli.options import Decorator, option
from ldapslam.cli.security import client_options
from ldapslam.proto import schedule_pb2 as pb
from ldapslam.proto.fields import words_of

MISFIRES = words_of(pb.MisfirePolicy.DESCRIPTOR)
OVERLAPS = words_of(pb.OverlapPolicy.DESCRIPTOR)
_MISFIRE_NAMES = {number: name for name, number in MISFIRES.items()}
_OVERLAP_NAMES = {number: name for name, number in OVERLAPS.items()}
#: State -> the change that leads to it.
_CHANGES = {
    "active": "CHANGE_RESUME",
    "paused": "CHANGE_PAUSE",
}


def _argument(metavar: str, **settings: Any) -> Decorator:
    return click.argument(
        "name",
        metavar=metavar,
        shell_complete=completed_by(
            lambda client: [one.name or one.schedule_id for one in client.schedules()]
        ),
        **settings,
    )


_schedule_argument = _argument("SCHEDULE")
_optional_schedule = _argument("[SCHEDULE]", required=False)


def _asked(coordinator: str, method: str, request: Any) -> Any:
    with Client(coordinator) as client:
        return client.schedule_call(method, request)


@command("list")
@_optional_schedule
@client_options
def list_command(name: str | None, coordinator: str) -> None:
    """List the schedules with their next five times, or all about SCHEDULE.

    Of one schedule its last ten times are shown, too.
    """
    if name is not None:
        with Client(coordinator) as client:
            status = client.schedule(name)
        put_result(schedule_document(status), _full_lines(status))
        return
    request = pb.ListSchedulesRequest()
    schedules = _asked(coordinator, "ListSchedules", request).schedules
    documents = [schedule_document(status) for status in schedules]
    lines = (line for status in schedules for line in _brief_lines(status))
    none = "no schedules; make one with `ldapslam submit JOB --cron …`"
    put_result(documents, lines, said="" if schedules else none)


@command("set")
@_schedule_argument
@click.argument("state", type=click.Choice(list(_CHANGES)))
@client_options
def set_command(name: str, state: str, coordinator: str) -> None:
    """Make SCHEDULE active, or pause it: it begins no runs until it is active again."""
    request = pb.ChangeScheduleRequest(
        schedule=name, change=_CHANGES[state], changed_by=operator_name()
    )
    status = _asked(coordinator, "ChangeSchedule", request)
    said = f"schedule {status.name} is {status.state}"
    put_result(schedule_document(status), said=said)


@command("remove")
@_schedule_argument
@client_options
def remove_command(name: str, coordinator: str) -> None:
    """Remove SCHEDULE; runs that it made stay."""
    request = pb.RemoveScheduleRequest(schedule=name, removed_by=operator_name())
    _asked(coordinator, "RemoveSchedule", request)
    said = f"schedule {name} is removed"
    put_result({"removed": name}, said=said)


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
        "time_zone": rule.time_zone or "UTC",
        "from_utc": rule.from_utc or None,
        "until_utc": rule.until_utc or None,
        "misfire": _MISFIRE_NAMES.get(rule.misfire),
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
    return f"every {format_duration(rule.every_ns)}"


def _brief_lines(status: pb.ScheduleStatus) -> Iterator[str]:
    """A schedule in a list: itself, and its next times."""
    yield (
        f"{status.name}  {status.schedule_id}  {status.state}  job {status.job_name}  "
        f"{_rule_text(status.rule)}"
    )
    for time in status.next_utc:
        yield f"    {shown_twice(time, status.rule.time_zone)}"


def _full_lines(status: pb.ScheduleStatus) -> Iterator[str]:
    """All that is known of a schedule."""
    rule, zone = status.rule, status.rule.time_zone
    yield from field_lines(
        {
            "schedule": f"{status.name} ({status.schedule_id})",
            "job": status.job_name,
            "state": status.state,
            "rule": _rule_text(rule),
            "from": shown_twice(rule.from_utc, zone) if rule.from_utc else "",
            "until": shown_twice(rule.until_utc, zone) if rule.until_utc else "",
            "misfire": str(_MISFIRE_NAMES.get(rule.misfire)),
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


@command("audit")
@option(
    "--limit N", "This many at most; 0 for all.", type=click.IntRange(min=0), default=50
)
@client_options
def audit_command(limit: int, coordinator: str) -> None:
    """List who submitted, cancelled or scheduled what, and who was refused."""
    request = pb.ListAuditRequest(limit=limit)
    entries = _asked(coordinator, "ListAudit", request).entries
    if wants_json():
        put_json([{**document(entry), "number": entry.number} for entry in entries])
        return
    rows = [
        (shown(one.at_utc), one.who, one.role, one.action, one.subject, one.detail)
        for one in entries
    ]
    header = ("time", "who", "role", "did", "what", "detail")
    put_table(header, rows, "nothing yet")
