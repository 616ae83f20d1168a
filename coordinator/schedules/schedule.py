# SPDX-License-Identifier: Apache-2.0
"""Decides about a schedule's times, and about runs that wait. Pure, without clock.

A time of a schedule, once it is due, is settled for good:

    due --in time, or missed and made up for----> submitting --> submitted
     |                                                |--------> failed
     |                                                '--------> missed (after a crash)
     |--missed, and the policy leaves it out----> missed
     '--the run before has not ended, skip------> overlapped

A time is missed when it could not be kept within the grace: the coordinator was down,
or the wall clock jumped ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from ldapslam.base.errors import ConfigError
from ldapslam.base.message import Message
from ldapslam.base.time_zone import clock_text, parse_utc, zone_named
from ldapslam.coordinator.run_queue import CONDITIONS
from ldapslam.coordinator.schedules.recurrence import Rule, check_cron, next_time
from ldapslam.proto import operator_pb2
from ldapslam.proto import schedule_pb2 as pb
from ldapslam.proto.fields import words_of
from ldapslam.results.records import FINAL_STATES
from ldapslam.results.schedule_store import RunEnd

GRACE = timedelta(minutes=1)

_MIN_PERIOD_NS = 1_000_000_000
_MAX_PERIOD_NS = 366 * 86_400_000_000_000
#: How far ahead a schedule's first time may be.
_MAX_AHEAD = timedelta(days=3660)
_NS_PER_US = 1000


class Misfire(StrEnum):
    SKIP = "skip"
    RUN_ONCE = "run_once"


class Overlap(StrEnum):
    SKIP = "skip"
    QUEUE = "queue"
    REPLACE = "replace"


class Outcome(StrEnum):
    SUBMITTING = "submitting"
    SUBMITTED = "submitted"
    MISSED = "missed"
    OVERLAPPED = "overlapped"
    FAILED = "failed"


class State(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    OVER = "over"


_MISFIRES = {n: Misfire(w) for w, n in words_of(pb.MisfirePolicy.DESCRIPTOR).items()}
_OVERLAPS = {n: Overlap(w) for w, n in words_of(pb.OverlapPolicy.DESCRIPTOR).items()}


@dataclass(frozen=True, slots=True)
class Policy:
    """How to treat times that cannot be kept."""

    misfire: Misfire = Misfire.SKIP
    overlap: Overlap = Overlap.SKIP

    def is_missed(self, due: datetime, now: datetime) -> bool:
        return now - due > GRACE

    def begin(self, due: datetime, settled: datetime) -> datetime:
        """When the time's run begins: as due, or late."""
        return settled if self.is_missed(due, settled) else due


@dataclass(frozen=True, slots=True)
class Plan:
    """When a schedule's runs begin."""

    rule: Rule
    policy: Policy


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of one time."""

    due: datetime
    outcome: Outcome
    detail: str = ""


def plan_of(message: pb.ScheduleRule, created: datetime) -> Plan:
    """The plan of an operator's rule; ConfigError for its first fault.

    A period counts from the first allowed time, else from the creation, with the first
    run one period later.
    """
    if bool(message.cron) == bool(message.every_ns):
        raise ConfigError("a schedule has either a cron expression or a period")
    zone = zone_named(message.time_zone)
    first = parse_utc(message.from_utc) if message.from_utc else None
    last = parse_utc(message.until_utc) if message.until_utc else None
    if first is not None and abs(first - created) > _MAX_AHEAD:
        raise ConfigError(f"the schedule begins in {first.year}, which is too far away")
    if first is not None and last is not None and last < first:
        raise ConfigError("the schedule ends before it begins")
    every = None
    if message.cron:
        check_cron(message.cron)
    else:
        every = _period(message.every_ns)
    rule = Rule(message.cron or None, every, zone, first or created, first, last)
    if next_time(rule, min(created, first or created) - timedelta(seconds=1)) is None:
        raise ConfigError("the rule has no time between its first and its last")
    return Plan(rule, _policy(message))


def _period(every_ns: int) -> timedelta:
    if every_ns < _MIN_PERIOD_NS or every_ns % _NS_PER_US:
        raise ConfigError(
            "the period must be whole microseconds, and at least a second",
            hint="write it with its unit, such as 6h",
        )
    if every_ns > _MAX_PERIOD_NS:
        raise ConfigError("the period is at most 366 days")
    return timedelta(microseconds=every_ns // _NS_PER_US)


def _policy(message: pb.ScheduleRule) -> Policy:
    if message.misfire not in _MISFIRES or message.overlap not in _OVERLAPS:
        raise ConfigError("the misfire or the overlap policy is not known")
    return Policy(
        misfire=_MISFIRES[message.misfire],
        overlap=_OVERLAPS[message.overlap],
    )


def decide(
    due_times: Sequence[datetime],
    next_due: datetime | None,
    policy: Policy,
    now: datetime,
    *,
    is_busy: bool,
) -> list[Decision]:
    """Settle the due times, in order.

    `next_due`: the time after them, if any. `is_busy`: a run of the schedule has not
    ended.
    """
    decisions = []
    later = [*due_times, next_due][1:]
    for due, following in zip(due_times, later, strict=True):
        is_last = following is None or not policy.is_missed(following, now)
        decision = _decide(due, policy, now, is_last=is_last, is_busy=is_busy)
        is_busy = is_busy or decision.outcome is Outcome.SUBMITTING
        decisions.append(decision)
    return decisions


def _decide(
    due: datetime, policy: Policy, now: datetime, *, is_last: bool, is_busy: bool
) -> Decision:
    """`is_last`: no missed time follows."""
    detail = ""
    if policy.is_missed(due, now):
        detail = f"{timedelta(seconds=round((now - due).total_seconds()))} late"
        if policy.misfire is Misfire.SKIP:
            return Decision(due, Outcome.MISSED, detail)
        if not is_last:
            return Decision(due, Outcome.MISSED, "a later one makes up for it")
    if is_busy and policy.overlap is Overlap.SKIP:
        return Decision(due, Outcome.OVERLAPPED, "the run before has not ended")
    return Decision(due, Outcome.SUBMITTING, detail)


class Release(Message):
    """The run may begin, as far as time and order are concerned."""


class Drop(Message):
    """The run will never begin."""

    reason: str


class Wait(Message):
    """Not yet, for this reason."""

    reason: str


def next_step(
    run: operator_pb2.SubmitJobRequest, ending: RunEnd | None, now: datetime
) -> Release | Drop | Wait:
    """What to do with a waiting run. `ending`: of the run that it follows; None:
    unknown run."""
    if run.after_run:
        condition = CONDITIONS[run.after_if]
        if ending is None:
            return Drop(f"run {run.after_run}, which it waited for, is not there")
        is_met = condition_met(condition, ending)
        if is_met is None:
            return Wait(f"waits for the end of run {run.after_run}{_if(condition)}")
        if not is_met:
            what = ending.verdict or f"{ending.state} without a verdict"
            return Drop(
                f"run {run.after_run} ended as {what}, and it was to begin"
                f"{_if(condition)} only"
            )
    if run.not_before_utc and parse_utc(run.not_before_utc) > now:
        return Wait(f"waits for {clock_text(parse_utc(run.not_before_utc))}")
    return Release()


def condition_met(condition: str, ending: RunEnd) -> bool | None:
    """Whether a run ended as asked (any, pass, fail); None: not known yet."""
    if ending.state not in FINAL_STATES:
        return None
    if condition == "any":
        return True
    may_be_judged = ending.t0_utc is not None and not ending.is_judged
    if ending.verdict is None and may_be_judged:
        return None
    return (ending.verdict == "PASS") == (condition == "pass")


def _if(condition: str) -> str:
    return "" if condition == "any" else f" if that is a {condition.upper()}"
