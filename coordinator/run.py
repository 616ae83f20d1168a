# SPDX-License-Identifier: Apache-2.0
"""The life of one run, from the queue to its end. A pure state machine.

No I/O and no clock: `handle(event, now_ns)` takes what happened and returns what has to
be done. An event that its state does not allow changes nothing and returns RefuseEvent;
a repeated one returns nothing, because agents repeat what was not acknowledged.

    queued ---AgentsAssigned---> preparing ---AgentPrepared (last)---> ready
    ready ----AgentStarted (last)----> running
    running --TimePassed, plan over--> draining
    running, draining --AgentFinished (last)--> finished

    queued -- CancelRequested --> cancelled
    preparing, ready, running -- CancelRequested --> draining --> cancelled
    preparing, ready --AgentFailed, AgentVanished, AgentFinished--> draining --> failed
    running, draining --AgentFailed, AgentVanished, AgentFinished early--> the same
                        (on_agent_loss: stop; with `continue` the others go on)
    preparing, ready --TimePassed, agents overdue--> draining --> failed
    draining --TimePassed, agents overdue--> failed, or what draining was to end in

In draining no more load is started and agents are awaited; the state that follows was
decided by what led there first. It is left when every agent has ended or is gone;
agents that are overdue then are abandoned; an agent that reports progress with its
clean-up gives all of them more time. With no agent to wait for it is passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ldapslam.jobs.errors import AgentLost, AgentUnreachable, LdapSlamError, RunAborted


class RunState(StrEnum):
    QUEUED = "queued"
    PREPARING = "preparing"
    READY = "ready"
    RUNNING = "running"
    DRAINING = "draining"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self in (RunState.FINISHED, RunState.FAILED, RunState.CANCELLED)


class Part(StrEnum):
    """How far one agent is with its part of the run."""

    ASSIGNED = "assigned"
    PREPARED = "prepared"
    STARTED = "started"
    ENDED = "ended"
    #: Failed, vanished, or ended before its time.
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Times that decide transitions."""

    #: From T0 to the end of the plan's last phase.
    planned_ns: int
    #: What requests in flight get to complete after the last arrival.
    grace_ns: int
    #: False: `on_agent_loss: continue`.
    stop_on_loss: bool = True
    #: All agents are to be ready within.
    prepare_ns: int = 120_000_000_000
    #: From the last agent's readiness to T0.
    start_lead_ns: int = 1_000_000_000
    #: Beyond what is planned, for messages on their way.
    slack_ns: int = 30_000_000_000


# Events.


@dataclass(frozen=True, slots=True)
class AgentsAssigned:
    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AgentPrepared:
    agent: str


@dataclass(frozen=True, slots=True)
class AgentStarted:
    agent: str


@dataclass(frozen=True, slots=True)
class CleanUpProgressed:
    """The agent's load is over; it removes the entries that it added."""

    agent: str
    entries_left: int


@dataclass(frozen=True, slots=True)
class AgentFinished:
    agent: str
    #: Why before the plan's end, or empty.
    early_reason: str = ""


@dataclass(frozen=True, slots=True)
class AgentFailed:
    agent: str
    error: LdapSlamError


@dataclass(frozen=True, slots=True)
class AgentVanished:
    agent: str
    silent_ns: int
    reason: str


@dataclass(frozen=True, slots=True)
class CancelRequested:
    by: str


@dataclass(frozen=True, slots=True)
class TimePassed:
    pass


RunEvent = (
    AgentsAssigned
    | AgentPrepared
    | AgentStarted
    | CleanUpProgressed
    | AgentFinished
    | AgentFailed
    | AgentVanished
    | CancelRequested
    | TimePassed
)

# Commands.


@dataclass(frozen=True, slots=True)
class PrepareAgents:
    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StartAgents:
    agents: tuple[str, ...]
    #: T0 in the coordinator's clock.
    t0_ns: int


@dataclass(frozen=True, slots=True)
class StopAgents:
    agents: tuple[str, ...]
    reason: str
    #: True: at once, without drain.
    abandon: bool = False


@dataclass(frozen=True, slots=True)
class RecordState:
    state: RunState
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RecordEvent:
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class ConcludeRun:
    """The run is over; `error` is why it failed."""

    state: RunState
    detail: str
    error: LdapSlamError | None


@dataclass(frozen=True, slots=True)
class RefuseEvent:
    event: RunEvent
    state: RunState


Command = (
    PrepareAgents
    | StartAgents
    | StopAgents
    | RecordState
    | RecordEvent
    | ConcludeRun
    | RefuseEvent
)

_BEFORE_LOAD = (RunState.PREPARING, RunState.READY)
_OVER = (Part.ENDED, Part.LOST)


class Run:
    """The machine of one run. State changes through `handle` only."""

    def __init__(self, limits: RunLimits) -> None:
        self.state = RunState.QUEUED
        #: Agent -> how far it is; in the order of the agents' indexes.
        self.parts: dict[str, Part] = {}
        #: T0 in the coordinator's clock; None until all agents were ready.
        self.t0_ns: int | None = None
        self._limits = limits
        self._deadline_ns: int | None = None
        # what the run will have been once its agents are gone
        self._outcome = RunState.FINISHED
        self._detail = ""
        self._error: LdapSlamError | None = None
        active = (RunState.PREPARING, RunState.READY, RunState.RUNNING)
        live = (*active, RunState.DRAINING)
        steps: dict[type[Any], tuple[Any, tuple[RunState, ...]]] = {
            AgentsAssigned: (self._on_assigned, (RunState.QUEUED,)),
            AgentPrepared: (self._on_prepared, live),
            AgentStarted: (self._on_started, (RunState.READY, *live[2:])),
            CleanUpProgressed: (self._on_clean_up, live),
            AgentFinished: (self._on_finished, live),
            AgentFailed: (self._on_failed, live),
            AgentVanished: (self._on_vanished, live),
            CancelRequested: (self._on_cancel, (RunState.QUEUED, *active)),
            TimePassed: (self._on_time, live),
        }
        self._steps: dict[type[Any], Callable[[Any, int], list[Command]]]
        self._steps = {event: step for event, (step, _) in steps.items()}
        self._allowed = {event: states for event, (_, states) in steps.items()}

    def handle(self, event: RunEvent, now_ns: int) -> list[Command]:
        """Take one event; `now_ns` is the coordinator's clock and never goes back."""
        if self.state not in self._allowed[type(event)]:
            return [RefuseEvent(event, self.state)]
        agent = getattr(event, "agent", None)
        if agent is not None:
            if agent not in self.parts:
                return [RefuseEvent(event, self.state)]
            if self.parts[agent] in _OVER:
                return []
        return self._steps[type(event)](event, now_ns)

    def _on_assigned(self, event: AgentsAssigned, now_ns: int) -> list[Command]:
        self.parts = dict.fromkeys(event.agents, Part.ASSIGNED)
        self._deadline_ns = now_ns + self._limits.prepare_ns
        return [*self._enter(RunState.PREPARING), PrepareAgents(event.agents)]

    def _on_prepared(self, event: AgentPrepared, now_ns: int) -> list[Command]:
        if self.state is not RunState.PREPARING:
            return []  # repeated, or it crossed our stop
        self.parts[event.agent] = Part.PREPARED
        if any(part is Part.ASSIGNED for part in self.parts.values()):
            return []
        self.t0_ns = now_ns + self._limits.start_lead_ns
        self._deadline_ns = self.t0_ns + self._limits.slack_ns
        return [*self._enter(RunState.READY), StartAgents(self._live(), self.t0_ns)]

    def _on_started(self, event: AgentStarted, now_ns: int) -> list[Command]:
        if self.state is not RunState.READY:
            return []
        self.parts[event.agent] = Part.STARTED
        if any(part is Part.PREPARED for part in self.parts.values()):
            return []
        self._deadline_ns = None
        return self._enter(RunState.RUNNING)

    def _on_clean_up(self, event: CleanUpProgressed, now_ns: int) -> list[Command]:
        if self.state is RunState.DRAINING:
            self._deadline_ns = self._drain_deadline_ns(now_ns)
        return []

    def _on_finished(self, event: AgentFinished, now_ns: int) -> list[Command]:
        reason = event.early_reason
        # while another's start is on its way, a fast agent may be through
        if self.parts[event.agent] is not Part.STARTED and self.state in _BEFORE_LOAD:
            reason = reason or "no load was started"
        if not reason or self._outcome is not RunState.FINISHED:
            return self._end_part(event.agent)
        error = RunAborted(f"agent {event.agent!r} ended early: {reason}")
        return self._lose(event.agent, "agent_early", error, now_ns, reason)

    def _on_failed(self, event: AgentFailed, now_ns: int) -> list[Command]:
        return self._lose(event.agent, "agent_failed", event.error, now_ns)

    def _on_vanished(self, event: AgentVanished, now_ns: int) -> list[Command]:
        error = AgentLost(event.agent, event.silent_ns / 1e9)
        return self._lose(event.agent, "agent_lost", error, now_ns, event.reason)

    def _on_cancel(self, event: CancelRequested, now_ns: int) -> list[Command]:
        detail = f"cancelled by {event.by}"
        noted = RecordEvent("cancel", detail)
        if self.state is RunState.QUEUED:
            self._outcome, self._detail = RunState.CANCELLED, detail
            return [noted, *self._conclude()]
        return [noted, *self._stop(RunState.CANCELLED, detail, None, now_ns)]

    def _on_time(self, event: TimePassed, now_ns: int) -> list[Command]:
        if self.state is RunState.RUNNING and self.t0_ns is not None:
            if now_ns < self.t0_ns + self._limits.planned_ns:
                return []
            self._deadline_ns = self._drain_deadline_ns(now_ns)
            return self._enter(RunState.DRAINING)
        if self._deadline_ns is None or now_ns < self._deadline_ns:
            return []
        late = self._late()
        if self.state is RunState.DRAINING:
            return self._abandon(late)
        waited_ns = self._limits.prepare_ns
        if self.state is RunState.READY:
            waited_ns = self._limits.slack_ns
        error = AgentUnreachable(late[0], waited_ns / 1e9)
        return self._stop(RunState.FAILED, str(error), error, now_ns)

    def _lose(
        self,
        agent: str,
        kind: str,
        error: LdapSlamError,
        now_ns: int,
        reason: str = "",
    ) -> list[Command]:
        """The agent's part is over before its time."""
        noted = RecordEvent(kind, f"agent {agent!r}: {reason or error}")
        self.parts[agent] = Part.LOST
        has_others = any(part is not Part.LOST for part in self.parts.values())
        is_fatal = self._limits.stop_on_loss or self.state in _BEFORE_LOAD
        if has_others and not is_fatal:
            return [noted] if self._live() else [noted, *self._conclude()]
        return [noted, *self._stop(RunState.FAILED, str(error), error, now_ns)]

    def _stop(
        self,
        outcome: RunState,
        detail: str,
        error: LdapSlamError | None,
        now_ns: int,
    ) -> list[Command]:
        """Bring the run down to `outcome`, unless it is on its way down already."""
        is_first = self._outcome is RunState.FINISHED
        if is_first:
            self._outcome, self._detail, self._error = outcome, detail, error
        live = self._live()
        if not live:
            return self._conclude()
        if not is_first:
            return []
        self._deadline_ns = self._drain_deadline_ns(now_ns)
        stop = StopAgents(live, detail)
        if self.state is RunState.DRAINING:
            return [RecordState(self.state, detail), stop]
        return [*self._enter(RunState.DRAINING, detail), stop]

    def _abandon(self, late: tuple[str, ...]) -> list[Command]:
        """The drain took too long: end without those that are still at it."""
        waited_ns = self._limits.grace_ns + self._limits.slack_ns
        error = AgentUnreachable(late[0], waited_ns / 1e9)
        if self._outcome is RunState.FINISHED:
            self._outcome, self._detail = RunState.FAILED, str(error)
            self._error = error
        for agent in late:
            self.parts[agent] = Part.LOST
        return [
            RecordEvent("agent_overdue", str(error)),
            StopAgents(late, "the drain took too long", abandon=True),
            *self._conclude(),
        ]

    def _end_part(self, agent: str) -> list[Command]:
        self.parts[agent] = Part.ENDED
        if self._live():
            return []
        return self._conclude()

    def _conclude(self) -> list[Command]:
        self.state = self._outcome
        return [ConcludeRun(self.state, self._detail, self._error)]

    def _enter(self, state: RunState, detail: str = "") -> list[Command]:
        self.state = state
        return [RecordState(state, detail)]

    def _drain_deadline_ns(self, now_ns: int) -> int:
        return now_ns + self._limits.grace_ns + self._limits.slack_ns

    def _live(self) -> tuple[str, ...]:
        return tuple(agent for agent, part in self.parts.items() if part not in _OVER)

    def _late(self) -> tuple[str, ...]:
        """Agents that the current state waits for."""
        awaited = {RunState.PREPARING: Part.PREPARED, RunState.READY: Part.STARTED}
        there = awaited.get(self.state)
        return tuple(agent for agent in self._live() if self.parts[agent] is not there)
