# SPDX-License-Identifier: Apache-2.0
"""Schedules and maintenance windows as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ldapslam.base.units import format_duration
from ldapslam.cli.fleet.moments import shown, shown_twice
from ldapslam.proto import schedule_pb2 as pb

MISFIRES = {
    "skip": pb.MISFIRE_POLICY_SKIP,
    "run_once": pb.MISFIRE_POLICY_RUN_ONCE,
    "run_all": pb.MISFIRE_POLICY_RUN_ALL,
}
OVERLAPS = {
    "skip": pb.OVERLAP_POLICY_SKIP,
    "queue": pb.OVERLAP_POLICY_QUEUE,
    "replace": pb.OVERLAP_POLICY_REPLACE,
}
_MISFIRE_NAMES = {number: name for name, number in MISFIRES.items()}
_OVERLAP_NAMES = {number: name for name, number in OVERLAPS.items()}

DEFAULT_GRACE_NS = 60_000_000_000


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
        "misfire_grace_ns": rule.misfire_grace_ns or DEFAULT_GRACE_NS,
        "overlap": _OVERLAP_NAMES.get(rule.overlap),
        "created_utc": status.created_utc,
        "created_by": status.created_by,
        "next": [
            {"utc": time, "local": shown(time, rule.time_zone)}
            for time in status.next_utc
        ],
        "fires": [
            {
                "due_utc": fire.due_utc,
                "at_utc": fire.at_utc,
                "outcome": fire.outcome,
                "run_ids": list(fire.run_ids),
                "detail": fire.detail,
            }
            for fire in status.fires
        ],
    }


def rule_text(rule: pb.ScheduleRule) -> str:
    """When its times are, in a few words."""
    if rule.cron:
        return f"cron '{rule.cron}' {rule.time_zone or 'UTC'}"
    if rule.once:
        return "once" if rule.from_utc else "once, as soon as it is active"
    return f"every {format_duration(rule.every_ns)}"


def brief_lines(status: pb.ScheduleStatus) -> Iterator[str]:
    """A schedule in a list: itself, and its next times."""
    yield (
        f"{status.name}  {status.schedule_id}  {status.state}  job {status.job_name}  "
        f"{rule_text(status.rule)}"
    )
    note = "" if status.state == "active" else f", not while it is {status.state}"
    for time in status.next_utc:
        yield f"    {shown_twice(time, status.rule.time_zone)}{note}"


def full_lines(status: pb.ScheduleStatus) -> Iterator[str]:
    """All that is known of a schedule."""
    rule, zone = status.rule, status.rule.time_zone
    grace = format_duration(rule.misfire_grace_ns or DEFAULT_GRACE_NS)
    fields = {
        "schedule": f"{status.name} ({status.schedule_id})",
        "job": status.job_name,
        "state": status.state,
        "rule": rule_text(rule),
        "from": shown_twice(rule.from_utc, zone) if rule.from_utc else "",
        "until": shown_twice(rule.until_utc, zone) if rule.until_utc else "",
        "misfire": f"{_MISFIRE_NAMES.get(rule.misfire)}, grace {grace}",
        "overlap": str(_OVERLAP_NAMES.get(rule.overlap)),
        "created": f"{shown(status.created_utc)} by {status.created_by}",
    }
    for name, value in fields.items():
        if value:
            yield f"{name:<10} {value}"
    for number, time in enumerate(status.next_utc):
        yield f"{'next' if number == 0 else '':<10} {shown_twice(time, zone)}"
    for number, fire in enumerate(status.fires):
        parts = [shown_twice(fire.due_utc, zone), fire.outcome, *fire.run_ids]
        if fire.detail:
            parts.append(f"({fire.detail})")
        yield f"{'times' if number == 0 else '':<10} {'  '.join(parts)}"


def window_document(window: pb.MaintenanceWindow) -> dict[str, Any]:
    """A maintenance window for --json."""
    return {
        "window_id": window.window_id,
        "name": window.name,
        "from_utc": window.from_utc or None,
        "until_utc": window.until_utc or None,
        "cron": window.cron or None,
        "time_zone": window.time_zone or "UTC",
        "length_ns": window.length_ns or None,
        "targets": list(window.targets),
        "created_by": window.created_by,
    }


def window_text(window: pb.MaintenanceWindow) -> str:
    """A maintenance window in one line."""
    if window.cron:
        when = (
            f"cron '{window.cron}' {window.time_zone or 'UTC'} for "
            f"{format_duration(window.length_ns)}"
        )
    else:
        zone = window.time_zone
        begin, end = (shown_twice(t, zone) for t in (window.from_utc, window.until_utc))
        when = f"{begin} to {end}"
    targets = ", ".join(window.targets) or "all targets"
    return f"{window.name}  {window.window_id}  {when}  {targets}"
