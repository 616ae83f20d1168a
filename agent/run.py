# SPDX-License-Identifier: Apache-2.0
"""An agent's part of a run, from the order to prepare to the last report.

A pure state machine, no I/O and no clock: `handle(event, now_ns)` takes what happened
and returns what has to be done. An event that its state does not allow changes nothing
and returns RefuseEvent: orders come from the network and may be late or repeated.

    idle ------PrepareReceived-> preparing --EngineReady--> ready
    ready -----StartReceived---> armed --EngineStarted--> running
    running ---IntervalClosed, the last planned one or the engine's last, or
               StopReceived--> draining
    armed, running, draining --EngineFinished--> idle
    preparing, ready, armed --StopReceived--> idle     (the engine is killed: no load)
    any but idle -- EngineFailed, EngineExited --> idle
    any but idle -- StopReceived to abandon --> idle
    armed, running -- TimePassed, coordinator away for coordinator_timeout --> draining
    preparing, ready -- TimePassed, the same --> idle
    draining -- TimePassed, engine overdue --> idle

TerminateRequested (SIGTERM) acts as a stop, after which the agent leaves: LeaveFleet is
returned on the way to idle. Once more, it forces: the engine is killed, nothing is
awaited. PrepareReceived while busy with another run is answered with ReportFailed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from ldapslam.base.errors import FleetError, LdapSlamError, RunAborted
from ldapslam.base.message import Message

#: Heartbeats come every second, so shorter silence means nothing.
LEAST_COORDINATOR_TIMEOUT_NS = 3_000_000_000
#: A year: later times do not fit into messages.
MOST_COORDINATOR_TIMEOUT_NS = 366 * 86_400 * 1_000_000_000
#: The engine's process ends its load this much after the agent would.
LEASE_SLACK_NS = 1_000_000_000
#: A drain has the job's grace and this much more.
DRAIN_SLACK_NS = 20_000_000_000


class AgentRunState(StrEnum):
    IDLE = "idle"
    PREPARING = "preparing"
    READY = "ready"
    ARMED = "armed"
    RUNNING = "running"
    DRAINING = "draining"


class AgentRunEvent(Message):
    """What happened."""


class PrepareReceived(AgentRunEvent):
    run_id: str
    coordinator_timeout_ns: int


class StartReceived(AgentRunEvent):
    run_id: str
    t0_mono_ns: int


class StopReceived(AgentRunEvent):
    run_id: str
    reason: str
    #: True: at once, without drain.
    abandon: bool = False


class EngineReady(AgentRunEvent):
    facts: Mapping[str, Any]
    #: Planned intervals; the drain follows them.
    interval_count: int
    #: Time for requests in flight.
    grace_ns: int


class EngineStarted(AgentRunEvent):
    start_error_ns: int


class IntervalClosed(AgentRunEvent):
    index: int
    #: Passed on unread.
    snapshot: Any
    #: The engine's last one: early when all counts are reached.
    is_final: bool = False


class CleanUpProgressed(AgentRunEvent):
    """The engine's process removes what the run added."""

    entries_left: int


class EngineFinished(AgentRunEvent):
    facts: Mapping[str, Any]
    #: Why it ended early by itself, or empty.
    early_reason: str = ""


class EngineFailed(AgentRunEvent):
    error: LdapSlamError


class EngineExited(AgentRunEvent):
    """The process is gone without a last word; `how` says with which status."""

    how: str


class CoordinatorHeard(AgentRunEvent):
    pass


class TimePassed(AgentRunEvent):
    pass


class TerminateRequested(AgentRunEvent):
    reason: str


class Command(Message):
    """What has to be done."""


class LaunchEngine(Command):
    run_id: str


class StartEngine(Command):
    t0_mono_ns: int
    #: As of ExtendLease: the load never is without a lease.
    lease_until_mono_ns: int


class ExtendLease(Command):
    """The engine's process may go on until then without word of the agent."""

    until_mono_ns: int


class DrainEngine(Command):
    pass


class KillEngine(Command):
    pass


class ReportReady(Command):
    run_id: str
    facts: Mapping[str, Any]


class ReportStarted(Command):
    run_id: str
    start_error_ns: int


class ReportInterval(Command):
    run_id: str
    sequence: int
    snapshot: Any


class ReportCleanUp(Command):
    run_id: str
    entries_left: int


class ReportFinished(Command):
    run_id: str
    early_reason: str
    interval_count: int
    facts: Mapping[str, Any]


class ReportFailed(Command):
    run_id: str
    error: LdapSlamError


class LeaveFleet(Command):
    reason: str
    #: True: do not wait for the spool to be delivered.
    at_once: bool = False


class RefuseEvent(Command):
    event: AgentRunEvent
    state: AgentRunState


_S = AgentRunState
_BUSY = (_S.PREPARING, _S.READY, _S.ARMED, _S.RUNNING, _S.DRAINING)
_LOADED = (_S.ARMED, _S.RUNNING, _S.DRAINING)
_BEFORE_LOAD = (_S.PREPARING, _S.READY)


class AgentRun:
    """The machine of one agent; it serves one run after another."""

    def __init__(self) -> None:
        self.state = AgentRunState.IDLE
        self.run_id: str | None = None
        self._timeout_ns = 0
        self._grace_ns = 0
        self._planned_intervals = 0
        self._reported_intervals = 0
        self._heard_ns = 0
        self._early_reason = ""
        self._deadline_ns: int | None = None
        self._leave_reason: str | None = None
        every = tuple(AgentRunState)
        steps: dict[type[Any], tuple[Any, tuple[AgentRunState, ...]]] = {
            PrepareReceived: (self._on_prepare, every),
            StartReceived: (self._on_start, (_S.READY,)),
            StopReceived: (self._on_stop, _BUSY),
            EngineReady: (self._on_ready, (_S.PREPARING,)),
            EngineStarted: (self._on_started, (_S.ARMED, _S.DRAINING)),
            IntervalClosed: (self._on_interval, _LOADED),
            CleanUpProgressed: (self._on_clean_up, _LOADED),
            EngineFinished: (self._on_finished, _LOADED),
            EngineFailed: (self._on_failed, _BUSY),
            EngineExited: (self._on_exited, _BUSY),
            CoordinatorHeard: (self._on_heard, every),
            TimePassed: (self._on_time, _BUSY),
            TerminateRequested: (self._on_terminate, every),
        }
        self._steps: dict[type[Any], Callable[[Any, int], list[Command]]]
        self._steps = {event: step for event, (step, _) in steps.items()}
        self._allowed = {event: states for event, (_, states) in steps.items()}

    def handle(self, event: AgentRunEvent, now_ns: int) -> list[Command]:
        """Take one event; `now_ns` is this host's CLOCK_MONOTONIC."""
        if self.state not in self._allowed[type(event)]:
            return [RefuseEvent(event, self.state)]
        if (
            isinstance(event, StartReceived | StopReceived)
            and event.run_id != self.run_id
        ):
            return [RefuseEvent(event, self.state)]
        return self._steps[type(event)](event, now_ns)

    def _on_prepare(self, event: PrepareReceived, now_ns: int) -> list[Command]:
        if event.run_id == self.run_id:
            return []
        if self.run_id is not None or self._leave_reason is not None:
            doing = f"busy with run {self.run_id!r}" if self.run_id else "leaving"
            return [ReportFailed(event.run_id, FleetError(f"the agent is {doing}"))]
        self.state = AgentRunState.PREPARING
        self.run_id = event.run_id
        grace_ns = min(event.coordinator_timeout_ns, MOST_COORDINATOR_TIMEOUT_NS)
        self._timeout_ns = max(grace_ns, LEAST_COORDINATOR_TIMEOUT_NS)
        self._grace_ns = 0
        self._planned_intervals = self._reported_intervals = 0
        self._heard_ns = now_ns
        self._early_reason = ""
        self._deadline_ns = None
        return [LaunchEngine(event.run_id)]

    def _on_start(self, event: StartReceived, now_ns: int) -> list[Command]:
        late_ns = now_ns - event.t0_mono_ns
        if late_ns >= 0:
            error = RunAborted(
                f"the order to start came {late_ns / 1e6:.1f} ms after T0",
                hint="is the agent's host, or the network to it, overloaded?",
            )
            return [KillEngine(), *self._end_failed(error)]
        self.state = AgentRunState.ARMED
        return [StartEngine(event.t0_mono_ns, self._lease_until_ns())]

    def _on_stop(self, event: StopReceived, now_ns: int) -> list[Command]:
        if event.abandon:
            return [KillEngine(), *self._end_failed(RunAborted(event.reason))]
        return self._stop(event.reason, now_ns)

    def _on_terminate(self, event: TerminateRequested, now_ns: int) -> list[Command]:
        if self._leave_reason is not None:
            commands: list[Command] = []
            if self.run_id is not None:
                error = RunAborted(f"{event.reason}, twice")
                commands = [KillEngine(), ReportFailed(self.run_id, error)]
                self._become_idle()
            return [*commands, LeaveFleet(event.reason, at_once=True)]
        self._leave_reason = event.reason
        if self.run_id is None:
            return [LeaveFleet(event.reason)]
        return self._stop(event.reason, now_ns)

    def _on_ready(self, event: EngineReady, now_ns: int) -> list[Command]:
        self.state = AgentRunState.READY
        self._planned_intervals = event.interval_count
        self._grace_ns = event.grace_ns
        return [ReportReady(self._run(), event.facts)]

    def _on_started(self, event: EngineStarted, now_ns: int) -> list[Command]:
        if self.state is AgentRunState.ARMED:
            self.state = AgentRunState.RUNNING
        return [ReportStarted(self._run(), event.start_error_ns)]

    def _on_interval(self, event: IntervalClosed, now_ns: int) -> list[Command]:
        sequence = self._reported_intervals
        self._reported_intervals += 1
        commands: list[Command] = []
        is_over = event.is_final or event.index + 1 >= self._planned_intervals
        if is_over and self.state is not AgentRunState.DRAINING:
            self._drain(now_ns)
            if not event.is_final:
                # only the drain is left, which has a limit
                commands.append(ExtendLease(now_ns + self._grace_ns + DRAIN_SLACK_NS))
        return [*commands, ReportInterval(self._run(), sequence, event.snapshot)]

    def _on_clean_up(self, event: CleanUpProgressed, now_ns: int) -> list[Command]:
        if self.state is AgentRunState.DRAINING:
            self._drain(now_ns)
        return [ReportCleanUp(self._run(), event.entries_left)]

    def _on_finished(self, event: EngineFinished, now_ns: int) -> list[Command]:
        reason = self._early_reason or event.early_reason
        report = ReportFinished(
            self._run(), reason, self._reported_intervals, event.facts
        )
        return [report, *self._become_idle()]

    def _on_failed(self, event: EngineFailed, now_ns: int) -> list[Command]:
        return self._end_failed(event.error)

    def _on_exited(self, event: EngineExited, now_ns: int) -> list[Command]:
        error = RunAborted(
            f"the engine's process ended: {event.how}",
            hint="the agent's log folder has the engine's last words",
        )
        return self._end_failed(error)

    def _on_heard(self, event: CoordinatorHeard, now_ns: int) -> list[Command]:
        self._heard_ns = now_ns
        is_loaded = self.state in (_S.ARMED, _S.RUNNING)
        return [ExtendLease(self._lease_until_ns())] if is_loaded else []

    def _lease_until_ns(self) -> int:
        return self._heard_ns + self._timeout_ns + LEASE_SLACK_NS

    def _on_time(self, event: TimePassed, now_ns: int) -> list[Command]:
        if self.state is AgentRunState.DRAINING:
            if self._deadline_ns is None or now_ns < self._deadline_ns:
                return []
            error = RunAborted("the engine did not end its drain in time")
            return [KillEngine(), *self._end_failed(error)]
        away_ns = now_ns - self._heard_ns
        if away_ns < self._timeout_ns:
            return []
        return self._stop(f"no coordinator for {away_ns / 1e9:.0f} s", now_ns)

    def _stop(self, reason: str, now_ns: int) -> list[Command]:
        if self.state is AgentRunState.DRAINING:
            return []
        self._early_reason = reason
        if self.state in _BEFORE_LOAD:
            report = ReportFinished(self._run(), reason, 0, {})
            return [KillEngine(), report, *self._become_idle()]
        self._drain(now_ns)
        return [DrainEngine()]

    def _drain(self, now_ns: int) -> None:
        self.state = AgentRunState.DRAINING
        self._deadline_ns = now_ns + self._grace_ns + DRAIN_SLACK_NS

    def _end_failed(self, error: LdapSlamError) -> list[Command]:
        return [ReportFailed(self._run(), error), *self._become_idle()]

    def _become_idle(self) -> list[Command]:
        self.state = AgentRunState.IDLE
        self.run_id = None
        if self._leave_reason is None:
            return []
        return [LeaveFleet(self._leave_reason)]

    def _run(self) -> str:
        return self.run_id or ""
