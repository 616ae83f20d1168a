# SPDX-License-Identifier: Apache-2.0
"""`ldapslam submit`: a job for the fleet, now, later, after another run, or often."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ldapslam.base.errors import ConfigError, ExitCode
from ldapslam.cli.client import Client
from ldapslam.cli.command import command
from ldapslam.cli.console import put_result, say
from ldapslam.cli.fleet.operate import watch_run
from ldapslam.cli.fleet.schedule import MISFIRES, OVERLAPS, schedule_document
from ldapslam.cli.fleet.times import (
    moment,
    parse_cron,
    positive_duration,
    shown_twice,
    time_zone_option,
)
from ldapslam.cli.load_options import LoadChanges, load_options
from ldapslam.cli.options import (
    change_options,
    flag,
    grouped,
    job_argument,
    option,
    parse_text,
)
from ldapslam.cli.security import coordinator_option
from ldapslam.cli.submission import JobFile, checked_request
from ldapslam.proto import operator_pb2 as pb
from ldapslam.proto import schedule_pb2
from ldapslam.proto.fields import words_of
from ldapslam.results.records import utc_text

_TYPED = ParameterSource.COMMANDLINE
_CONDITIONS = words_of(pb.RunCondition.DESCRIPTOR)


@dataclass
class Timing:
    """When the job is to run: the options of `submit`, as given."""

    at: str | None
    after: str | None
    condition: str
    cron: str | None
    every_ns: int | None
    time_zone: str
    begin: str | None
    until: str | None
    misfire: str | None
    overlap: str | None
    name: str | None
    paused: bool

    @property
    def is_often(self) -> bool:
        return self.cron is not None or self.every_ns is not None

    def check(self, *, wait: bool) -> None:
        """ConfigError when two of them do not go together."""
        _refuse(
            self.cron is not None and self.every_ns is not None,
            "--cron and --every: give one of them",
        )
        if self.is_often:
            for name, text in {"--at": self.at, "--after": self.after}.items():
                _refuse(
                    text is not None,
                    f"{name} is for one run, --cron and --every are for many",
                    "--from says when a schedule begins",
                )
            _refuse(wait, "--wait waits for a run, a schedule has no end")
        else:
            given = {
                "--from": self.begin,
                "--until": self.until,
                "--misfire": self.misfire,
                "--overlap": self.overlap,
                "--name": self.name,
                "--paused": self.paused or None,
            }
            for name, value in given.items():
                _refuse(
                    value is not None,
                    f"{name} is for schedules",
                    "give --cron or --every",
                )
        _refuse(
            bool(self.time_zone) and not self.is_often and self.at is None,
            "--tz is the zone of --at, --cron, --from, --until",
        )
        _refuse(
            self.condition != "any" and self.after is None,
            "--if says how the run of --after has to end",
        )

    def rule(self, now: datetime) -> schedule_pb2.ScheduleRule:
        return schedule_pb2.ScheduleRule(
            cron=self.cron or "",
            every_ns=self.every_ns or 0,
            time_zone=self.time_zone,
            from_utc=_utc_text(self._moment("--from", self.begin, now)),
            until_utc=_utc_text(self._moment("--until", self.until, now)),
            misfire=MISFIRES[self.misfire or "skip"],
            overlap=OVERLAPS[self.overlap or "skip"],
        )

    def _moment(self, name: str, text: str | None, now: datetime) -> datetime | None:
        return None if text is None else moment(name, text, self.time_zone, now)

    def begin_of_run(self, now: datetime) -> datetime | None:
        """When the run may begin; None: at once."""
        at = self._moment("--at", self.at, now)
        if at is not None and at < now:
            raise ConfigError(
                f"--at: {shown_twice(at, self.time_zone)} has passed",
                hint="leave --at out to run now, or give a time to come, such as +30m",
            )
        return at


def _refuse(is_wrong: bool, message: str, hint: str | None = None) -> None:
    if is_wrong:
        raise ConfigError(message, hint=hint)


def _utc_text(instant: datetime | None) -> str:
    return "" if instant is None else utc_text(instant)


_timing_options = grouped(
    "When",
    option(
        "--at TIME",
        "Run then: 22:30, 2026-03-01T22:30, …T22:30:00Z, or +30m from now.",
        parse=parse_text,
    ),
    option("--after RUN", "Run when that run has ended.", parse=parse_text),
    option(
        "--if condition",
        "How the run of --after has to end; else this one is dropped.",
        type=click.Choice(list(_CONDITIONS)),
        default="any",
    ),
    option(
        "--cron EXPR",
        "Run often: minute, hour, day of month, month, day of week, as in crontab(5).",
        parse=parse_cron,
    ),
    option(
        "--every every_ns PERIOD",
        "Run often, with this time from one begin to the next, such as 6h.",
        parse=positive_duration,
    ),
    time_zone_option,
    option(
        "--from begin TIME",
        "A schedule's first possible time; --every counts from there.",
        parse=parse_text,
    ),
    option("--until TIME", "A schedule's last possible time.", parse=parse_text),
    option(
        "--misfire",
        "Times that were missed, such as while the coordinator was down: leave them "
        "out (skip, the default), or make up for all of them by one run.",
        type=click.Choice(list(MISFIRES)),
    ),
    option(
        "--overlap",
        "When the schedule's run before has not ended: leave the time out (skip, the "
        "default), wait for that, or cancel it.",
        type=click.Choice(list(OVERLAPS)),
    ),
    option("--name", "A schedule's name.", parse=parse_text),
    flag("--paused", "Begin no runs until `fleet schedule set NAME active`."),
)


@command("submit")
@job_argument
@change_options
@load_options
@_timing_options
@option(
    "--priority",
    "Among waiting runs the higher one comes first.",
    type=click.IntRange(-1000, 1000),
    default=0,
)
@coordinator_option
@flag("--wait", "Show the run; exit with its verdict.")
def submit_command(
    job_file: Path,
    overrides: tuple[str, ...],
    load: LoadChanges,
    priority: int,
    coordinator: str,
    wait: bool,
    **options: Any,
) -> ExitCode:
    """Have the fleet run JOB, at once, later or by a schedule.

    Prints the run's id, alone, on stdout; the schedule's with --cron or --every.
    """
    timing = Timing(**options)
    timing.check(wait=wait)
    now = datetime.now(UTC)
    job = JobFile(job_file)
    request = checked_request(job, load.overrides(job, overrides))
    request.priority = priority
    if timing.is_often:
        create = schedule_pb2.CreateScheduleRequest(
            name=timing.name or "",
            job=request,
            rule=timing.rule(now),
            paused=timing.paused,
        )
        with Client(coordinator) as client:
            status = client.schedule_call("CreateSchedule", create)
        said = _schedule_text(status)
        document = schedule_document(status)
        put_result(document, [status.schedule_id], said=said)
        return ExitCode.PASS
    begin = timing.begin_of_run(now)
    request.not_before_utc = _utc_text(begin)
    with Client(coordinator) as client:
        if timing.after is not None:
            request.after_run = client.run(timing.after).run_id
            request.after_if = _CONDITIONS[timing.condition]
        run_id = client.submit(request)
        conditions = []
        if begin is not None:
            conditions.append(f"at {shown_twice(begin, timing.time_zone)}")
        if timing.after is not None:
            how = f", if that is a {timing.condition}" * (timing.condition != "any")
            conditions.append(f"after run {request.after_run}{how}")
        if conditions:
            say(f"run {run_id} begins {', '.join(conditions)}")
        if wait:
            say(f"run {run_id}")
            code = watch_run(client, run_id)
            source = click.get_current_context().get_parameter_source("coordinator")
            place = f" --coordinator {coordinator}" * (source is _TYPED)
            say(f"\nits report: ldapslam report {run_id}{place}")
            return code
    put_result({"run_id": run_id}, [run_id])
    return ExitCode.PASS


def _schedule_text(status: schedule_pb2.ScheduleStatus) -> str:
    first = "no time left"
    if status.state == "paused":
        first = f"`ldapslam fleet schedule set {status.name} active` starts it"
    elif status.next_utc:
        first = f"next time {shown_twice(status.next_utc[0], status.rule.time_zone)}"
    return f"schedule {status.name}, {status.state}: {first}"
