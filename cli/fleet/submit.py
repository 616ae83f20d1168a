# SPDX-License-Identifier: Apache-2.0
"""`ldapslam submit`: a job for the fleet, now, later, after another run, or often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from ldapslam.base.errors import ConfigError, ExitCode
from ldapslam.cli.console import json_option, put, put_json, say
from ldapslam.cli.fleet.moments import (
    duration_ns,
    given_text,
    moment,
    positive_duration_ns,
    shown_twice,
    time_zone_option,
)
from ldapslam.cli.fleet.operate import watch_run
from ldapslam.cli.fleet.schedule_client import ScheduleClient
from ldapslam.cli.fleet.schedule_texts import MISFIRES, OVERLAPS, schedule_document
from ldapslam.cli.options import coordinator_option, job_argument, set_option
from ldapslam.cli.submission import JobFile, checked_request
from ldapslam.proto import operator_pb2 as pb
from ldapslam.proto import schedule_pb2
from ldapslam.results.records import utc_text

_Command = TypeVar("_Command", bound=Callable[..., Any])

_CONDITIONS = {
    "any": pb.RUN_CONDITION_ANY,
    "pass": pb.RUN_CONDITION_PASS,
    "fail": pb.RUN_CONDITION_FAIL,
}


@dataclass
class Timing:
    """When it is to run: the options of `submit`, as given; None or 0 is not given."""

    at: str | None
    after: str | None
    condition: str
    cron: str | None
    every_ns: int
    time_zone: str
    begin: str | None
    until: str | None
    misfire: str | None
    misfire_grace_ns: int
    overlap: str | None
    name: str | None
    disabled: bool

    @property
    def is_often(self) -> bool:
        return self.cron is not None or self.every_ns > 0

    @property
    def is_once(self) -> bool:
        """One run that is kept back, or left out when its time is missed."""
        may_miss = self.misfire is not None or self.misfire_grace_ns > 0
        return not self.is_often and (self.disabled or may_miss)

    @property
    def is_schedule(self) -> bool:
        return self.is_often or self.is_once

    def check(self, *, wait: bool) -> None:
        """ConfigError when two of them do not go together."""
        if self.cron is not None and self.every_ns:
            raise ConfigError("--cron and --every: give one of them")
        if self.is_often:
            for option, text in {"--at": self.at, "--after": self.after}.items():
                if text is not None:
                    raise ConfigError(
                        f"{option} is for one run, --cron and --every are for many",
                        hint="--from says when a schedule begins",
                    )
            if wait:
                raise ConfigError("--wait waits for a run, a schedule has no end")
        else:
            given = {
                "--from": self.begin,
                "--until": self.until,
                "--overlap": self.overlap,
                "--name": None if self.is_once else self.name,
            }
            for option, value in given.items():
                if value:
                    raise ConfigError(
                        f"{option} is for schedules", hint="give --cron or --every"
                    )
            if self.is_once:
                self._check_once(wait=wait)
            if self.time_zone and self.at is None:
                raise ConfigError("--tz is the zone of --at, --cron, --from, --until")
        if self.condition != "any" and self.after is None:
            raise ConfigError("--if says how the run of --after has to end")

    def _check_once(self, *, wait: bool) -> None:
        option = "--disabled" if self.disabled else "--misfire"
        if self.after is not None:
            raise ConfigError(
                f"{option} makes a schedule, and --after is for a run that is there",
                hint="leave one of them out",
            )
        if self.at is None and (self.misfire or self.misfire_grace_ns):
            raise ConfigError(
                "--misfire is for runs that have a time",
                hint="give --at, --cron or --every",
            )
        if wait:
            raise ConfigError(f"--wait waits for a run, {option} makes a schedule")

    def rule(self, now: datetime) -> schedule_pb2.ScheduleRule:
        # one run without a time begins when it is resumed, however late that is
        is_at_once = self.is_once and self.at is None
        default_misfire = "run_once" if is_at_once else "skip"
        return schedule_pb2.ScheduleRule(
            cron=self.cron or "",
            every_ns=self.every_ns,
            time_zone=self.time_zone,
            once=self.is_once,
            from_utc=self._first(now),
            until_utc=self._limit("--until", self.until, now),
            misfire=MISFIRES[self.misfire or default_misfire],
            misfire_grace_ns=self.misfire_grace_ns,
            overlap=OVERLAPS[self.overlap or "skip"],
        )

    def _first(self, now: datetime) -> str:
        if not self.is_once:
            return self._limit("--from", self.begin, now)
        begin = self.begin_of_run(now)
        return "" if begin is None else utc_text(begin)

    def _limit(self, option: str, text: str | None, now: datetime) -> str:
        if text is None:
            return ""
        return utc_text(moment(option, text, self.time_zone, now))

    def begin_of_run(self, now: datetime) -> datetime | None:
        """When the run may begin; None: at once."""
        if self.at is None:
            return None
        at = moment("--at", self.at, self.time_zone, now)
        if at < now:
            raise ConfigError(f"--at: {shown_twice(at, self.time_zone)} has passed")
        return at


def _timing_options(command: _Command) -> _Command:
    options = [
        click.option(
            "--at",
            metavar="TIME",
            callback=given_text,
            help="Run then: 22:30, 2026-03-01T22:30, …T22:30:00Z, or +30m from now.",
        ),
        click.option(
            "--after",
            metavar="RUN",
            callback=given_text,
            help="Run when that run has ended.",
        ),
        click.option(
            "--if",
            "condition",
            type=click.Choice(list(_CONDITIONS)),
            default="any",
            show_default=True,
            help="How the run of --after has to end; else this one is dropped.",
        ),
        click.option(
            "--cron",
            metavar="EXPR",
            callback=given_text,
            help="Run often: minute, hour, day of month, month, day of week, as in "
            "crontab(5).",
        ),
        click.option(
            "--every",
            "every_ns",
            metavar="PERIOD",
            callback=positive_duration_ns,
            help="Run often, with this time from one begin to the next, such as 6h.",
        ),
        time_zone_option,
        click.option(
            "--from",
            "begin",
            metavar="TIME",
            callback=given_text,
            help="A schedule's first possible time; --every counts from there.",
        ),
        click.option(
            "--until",
            metavar="TIME",
            callback=given_text,
            help="A schedule's last possible time.",
        ),
        click.option(
            "--misfire",
            type=click.Choice(list(MISFIRES)),
            help="Times that were missed, such as while the coordinator was down, also "
            "that of --at: "
            "leave them out (skip, the default), make up for all of them by one run, "
            "or run each.",
        ),
        click.option(
            "--misfire-grace",
            "misfire_grace_ns",
            metavar="DURATION",
            callback=positive_duration_ns,
            help="How late a run may begin before its time counts as missed; 1m when "
            "left out.",
        ),
        click.option(
            "--overlap",
            type=click.Choice(list(OVERLAPS)),
            help="When the schedule's run before has not ended: leave the time out "
            "(skip, the default), wait for that, or cancel it.",
        ),
        click.option("--name", callback=given_text, help="A schedule's name."),
        click.option(
            "--disabled",
            is_flag=True,
            help="Keep it back until `schedule resume`, also a single run.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.command("submit")
@job_argument
@set_option
@_timing_options
@click.option(
    "--priority",
    type=click.IntRange(-1000, 1000),
    default=0,
    show_default=True,
    help="Among waiting runs the higher one comes first.",
)
@click.option(
    "--wait-for-agents",
    "wait_for_agents_ns",
    metavar="DURATION",
    callback=duration_ns,
    help="How long the run may wait for agents that are not there yet.",
)
@click.option(
    "--notify",
    metavar="CHANNEL",
    multiple=True,
    help="Tell a channel of the coordinator of the end; repeatable.",
)
@coordinator_option
@click.option("--wait", is_flag=True, help="Show the run; exit with its verdict.")
@json_option
def submit_command(
    job_file: Path,
    overrides: tuple[str, ...],
    priority: int,
    wait_for_agents_ns: int,
    notify: tuple[str, ...],
    coordinator: str,
    wait: bool,
    as_json: bool,
    **options: Any,
) -> ExitCode:
    """Have the fleet run JOB, at once, later or by a schedule.

    Prints the run's id, alone, on stdout; the schedule's with --cron, --every,
    --misfire or --disabled.
    """
    timing = Timing(**options)
    timing.check(wait=wait)
    now = datetime.now(UTC)
    request = checked_request(JobFile(job_file), overrides)
    request.priority = priority
    request.wait_for_agents_ns = wait_for_agents_ns
    request.notify.extend(notify)
    if timing.is_schedule:
        create = schedule_pb2.CreateScheduleRequest(
            name=timing.name or "",
            job=request,
            rule=timing.rule(now),
            disabled=timing.disabled,
        )
        with ScheduleClient(coordinator) as client:
            _show_schedule(client.create(create), as_json=as_json)
        return ExitCode.PASS
    begin = timing.begin_of_run(now)
    with ScheduleClient(coordinator) as client:
        if timing.after is not None:
            request.after_run = client.run(timing.after).run_id
            request.after_if = _CONDITIONS[timing.condition]
        run_id = _submit(client, request, begin, timing)
        if wait:
            say(f"run {run_id}")
            return watch_run(client, run_id, as_json=as_json)
    if as_json:
        put_json({"run_id": run_id})
    else:
        put(run_id)
    return ExitCode.PASS


def _submit(
    client: ScheduleClient,
    request: pb.SubmitJobRequest,
    begin: datetime | None,
    timing: Timing,
) -> str:
    request.not_before_utc = utc_text(begin) if begin is not None else ""
    run_id = client.submit_request(request)
    conditions = []
    if begin is not None:
        conditions.append(f"at {shown_twice(begin, timing.time_zone)}")
    if request.after_run:
        how = "" if timing.condition == "any" else f", if that is a {timing.condition}"
        conditions.append(f"after run {request.after_run}{how}")
    if conditions:
        say(f"run {run_id} begins {', '.join(conditions)}")
    return run_id


def _show_schedule(status: schedule_pb2.ScheduleStatus, *, as_json: bool) -> None:
    if as_json:
        put_json(schedule_document(status))
        return
    first = "no time left"
    if status.state == "disabled":
        first = f"`ldapslam schedule resume {status.name}` starts it"
    elif status.next_utc:
        when = shown_twice(status.next_utc[0], status.rule.time_zone)
        first = f"next time {when}"
    say(f"schedule {status.name}, {status.state}: {first}")
    put(status.schedule_id)
