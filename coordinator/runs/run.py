# SPDX-License-Identifier: Apache-2.0
"""The life of one run, from the queue to its end. A pure state machine.

No I/O and no clock: `handle(event, now_ns)` takes what happened and returns what has to
be done. An event that its state does not allow changes nothing and returns RefuseEvent;
a repeated one returns nothing, because agents repeat what was not acknowledged.

    queued ---AgentsAssigned---> preparing ---AgentPrepared (last)---> ready
    ready ----AgentStarted (last)----> running
    running --TimePassed, plan over--> draining
    running --ThresholdMissed--> draining --> aborted
    running, draining --AgentFinished (last)--> finished

    queued -- CancelRequested, GaveUp --> cancelled, failed
    preparing, ready, running -- CancelRequested --> draining --> cancelled
    preparing, ready --AgentFailed, AgentVanished, AgentFinished--> draining --> failed
    running, draining --AgentFailed, AgentVanished, AgentFinished early--> the same
                        (on_agent_loss: stop; with `continue` the others go on)
    preparing, ready --TimePassed, agents overdue--> draining --> failed
    draining --TimePassed, agents overdue--> failed, or what draining was to end in
    preparing -- some agents failed or overdue, a quorum is prepared --> queued

A run with monitors has monitors on some of its agents. They see the servers before
anything else happens to them: agents are told to prepare when every monitor has. They
conclude when every agent has ended: draining goes on until they have, or until the run
is cancelled, which then ends as it was going to. A run is not begun when a monitor is
refused what the job asks of it, and never stopped for what one fails to see later: its
verdict says what is missing.

At the end of the run, and before it begins again, every agent gets the order to end its
monitor, even where that seems to have ended.

While the store takes no writes nothing that is awaited can come: no time passes.

In draining no more load is started and agents are awaited; the state that follows was
decided by what led there first. It is left when every agent has ended or is gone;
agents that are overdue then are abandoned; an agent that delivers intervals, or reports
progress with its clean-up, gives all of them more time. With no agent to wait for it is
passed over.

With a quorum, agents that cannot be made ready are left out, and the run begins again
with those that can: each agent's share of the load depends on how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ldapslam.base.errors import AgentLost, AgentUnreachable, LdapSlamError, RunAborted
from ldapslam.base.message import Message
from ldapslam.results.records import FINAL_STATES

#: The disk takes a while, and agents of one host share its CPUs.
_LOCAL_LEAD_NS = 400_000_000
_LOCAL_LEAD_PER_AGENT_NS = 20_000_000
#: Of large fleets.
_LEAD_PER_AGENT_NS = 5_000_000


class RunState(StrEnum):
    QUEUED = "queued"
    PREPARING = "preparing"
    READY = "ready"
    RUNNING = "running"
    DRAINING = "draining"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"
    #: Ended early, as its job wants it for a threshold that was missed.
    ABORTED = "aborted"

    @property
    def is_final(self) -> bool:
        return self in FINAL_STATES


class Watch(StrEnum):
    """How far the monitor of one agent is."""

    ASSIGNED = "assigned"
    PREPARED = "prepared"
    ENDED = "ended"


class Part(StrEnum):
    """How far one agent is with its part of the run."""

    ASSIGNED = "assigned"
    PREPARED = "prepared"
    STARTED = "started"
    ENDED = "ended"
    #: Failed, vanished, or ended before its time.
    LOST = "lost"

    @property
    def is_over(self) -> bool:
        return self in (Part.ENDED, Part.LOST)


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Times that decide transitions."""

    #: From T0 to the end of the plan's last phase.
    planned_ns: int
    #: What requests in flight get to complete after the last arrival.
    grace_ns: int
    #: False: `on_agent_loss: continue`.
    stop_on_loss: bool = True
    #: Time for all agents to become ready.
    prepare_ns: int = 120_000_000_000
    #: Enough ready agents when others fail; None: all are needed.
    quorum: int | None = None
    #: From the last agent's readiness to T0: the order is stored, then sent. Shorter on
    #: the coordinator's host, longer for a large fleet.
    start_lead_ns: int = 1_000_000_000
    #: For messages on their way.
    slack_ns: int = 30_000_000_000
    monitored: bool = False
    #: Time for monitors to read the servers before the load.
    monitor_prepare_ns: int = 30_000_000_000
    #: Time, beyond the slack, for replicas to become equal.
    verify_ns: int = 0


@dataclass(frozen=True, slots=True)
class Ending:
    """The final state that a run is on its way to, and why."""

    state: RunState = RunState.FINISHED
    detail: str = ""
    error: LdapSlamError | None = None

    @property
    def is_planned(self) -> bool:
        return self.state is RunState.FINISHED

    @property
    def is_verified(self) -> bool:
        """Is what the load has left on the servers worth a look? A run that its job has
        ended early is a run."""
        return self.state in (RunState.FINISHED, RunState.ABORTED)


class RunEvent(Message):
    """What happened."""


class AgentsAssigned(RunEvent):
    agents: tuple[str, ...]
    #: All run on the coordinator's host.
    are_local: bool = False


class MonitorPrepared(RunEvent):
    agent: str


class MonitorProgressed(RunEvent):
    """It is at work: servers may take long to become equal, and to be compared."""

    agent: str


class MonitorEnded(RunEvent):
    agent: str
    reason: str = ""
    #: The reason of a refusal, which another try would not change.
    refusal: LdapSlamError | None = None


class AgentPrepared(RunEvent):
    agent: str


class StartDelayed(RunEvent):
    """It took long to store T0: there is not enough time left to tell the agents."""


class AgentStarted(RunEvent):
    agent: str


class PartProgressed(RunEvent):
    """The agent has delivered an interval, or removed entries that it added: after its
    load, both may take longer than agents are awaited for."""

    agent: str
    #: Of an interval: its end, since T0.
    measured_ns: int = 0


class AgentFinished(RunEvent):
    agent: str
    early_reason: str = ""


class AgentFailed(RunEvent):
    agent: str
    error: LdapSlamError


class AgentVanished(RunEvent):
    agent: str
    silent_ns: int
    reason: str


class CancelRequested(RunEvent):
    by: str


class ThresholdMissed(RunEvent):
    """For as long as the job allows; it wants the run to end then."""

    text: str


class GaveUp(RunEvent):
    """The run will not begin: with an error it has failed, else it is cancelled."""

    reason: str
    error: LdapSlamError | None = None


class StoreFailed(RunEvent):
    """Reports cannot be kept: what cannot be kept must not be measured."""

    error: LdapSlamError


class TimePassed(RunEvent):
    #: Why the store takes no writes: what is awaited cannot come; empty: it takes them.
    store_failure: str = ""


class Command(Message):
    """What has to be done."""


class MonitorServers(Command):
    """On these agents; the run begins again for all of them."""

    agents: tuple[str, ...]


class ConcludeMonitors(Command):
    agents: tuple[str, ...]
    #: Whether to wait for equal replicas; False after a failure.
    verify: bool


class EndMonitors(Command):
    """At once."""

    agents: tuple[str, ...]


class PrepareAgents(Command):
    agents: tuple[str, ...]


class StartAgents(Command):
    agents: tuple[str, ...]
    #: T0 in the coordinator's clock.
    t0_ns: int
    #: Until when they are to be told; else StartDelayed.
    tell_until_ns: int


class StopAgents(Command):
    agents: tuple[str, ...]
    reason: str
    #: True: at once, without drain.
    abandon: bool = False


class ReleaseAgents(Command):
    """They have not been told of the run."""

    agents: tuple[str, ...]


class RequeueRun(Command):
    """The run is to begin again with these agents, once they have ended their part."""

    agents: tuple[str, ...]


class RecordState(Command):
    state: RunState
    detail: str = ""


class RecordEvent(Command):
    kind: str
    text: str


class ConcludeRun(Command):
    """The run is over; `error` is why it failed."""

    state: RunState
    detail: str
    error: LdapSlamError | None


class RefuseEvent(Command):
    event: RunEvent
    state: RunState


_Step = Callable[[Any, int], list[Command]]
_BEFORE_LOAD = (RunState.PREPARING, RunState.READY)
_OF_MONITORS = (MonitorPrepared, MonitorProgressed, MonitorEnded)


class Run:
    """The machine of one run. State changes through `handle` only."""

    def __init__(self, limits: RunLimits) -> None:
        self.state = RunState.QUEUED
        #: In the order of the agents' indexes.
        self.parts: dict[str, Part] = {}
        #: For all agents, or none.
        self.watches: dict[str, Watch] = {}
        #: Agents have ended, and monitors are awaited.
        self.is_concluding = False
        #: T0 in the coordinator's clock; None until all agents were ready.
        self.t0_ns: int | None = None
        self._limits = limits
        self._are_told = False
        self._are_local = False
        self._lead_factor = 1
        self._deadline_ns: int | None = None
        #: When the store began to take no writes.
        self._away_from_ns: int | None = None
        self._drained_from_ns: int | None = None
        self._conclude_until_ns = 0
        #: The result once the agents are gone.
        self.ending = Ending()
        active = (RunState.PREPARING, RunState.READY, RunState.RUNNING)
        live = (*active, RunState.DRAINING)
        #: Event -> what it does, and the states that allow it.
        self._steps: dict[type[Any], tuple[_Step, tuple[RunState, ...]]] = {
            AgentsAssigned: (self._on_assigned, (RunState.QUEUED,)),
            MonitorPrepared: (self._on_monitor_prepared, live),
            MonitorProgressed: (self._on_monitor_progressed, live),
            MonitorEnded: (self._on_monitor_ended, live),
            AgentPrepared: (self._on_prepared, live),
            StartDelayed: (self._on_start_delayed, (RunState.READY,)),
            AgentStarted: (self._on_started, (RunState.READY, *live[2:])),
            PartProgressed: (self._on_part_progressed, live),
            AgentFinished: (self._on_finished, live),
            AgentFailed: (self._on_failed, live),
            AgentVanished: (self._on_vanished, live),
            CancelRequested: (self._on_cancel, (RunState.QUEUED, *live)),
            ThresholdMissed: (self._on_threshold_missed, (RunState.RUNNING,)),
            GaveUp: (self._on_gave_up, (RunState.QUEUED,)),
            StoreFailed: (self._on_store_failed, live),
            TimePassed: (self._on_time, live),
        }

    def resume(
        self,
        state: RunState,
        parts: Mapping[str, Part],
        t0_ns: int,
        ending: Ending,
        now_ns: int,
        monitors_ended: Collection[str] = (),
    ) -> list[Command]:
        """Continue the run of another coordinator: READY or beyond."""
        self.state = state
        self.parts = dict(parts)
        self.t0_ns = t0_ns
        self.ending = ending
        self._are_told = True
        if self._limits.monitored:
            self.watches = {
                agent: Watch.ENDED if agent in monitors_ended else Watch.PREPARED
                for agent in parts
            }
        if state is RunState.READY:
            self._deadline_ns = max(t0_ns, now_ns) + self._limits.slack_ns
        elif state is RunState.DRAINING:
            self._await_agents(now_ns)
        lost = [agent for agent, part in parts.items() if part is Part.LOST]
        if lost and ending.is_planned and self._limits.stop_on_loss:
            # the coordinator ended between two writes
            error = AgentLost(lost[0], 0.0)
            return self._stop(RunState.FAILED, str(error), error, now_ns)
        return [] if self._live() else self._conclude(now_ns)

    def handle(self, event: RunEvent, now_ns: int) -> list[Command]:
        """Take one event; `now_ns` is the coordinator's clock and never goes back."""
        step, allowed = self._steps[type(event)]
        if self.state not in allowed:
            return [RefuseEvent(event, self.state)]
        agent = getattr(event, "agent", None)
        if agent is not None:
            if agent not in self.parts:
                return [RefuseEvent(event, self.state)]
            is_of_monitor = isinstance(event, _OF_MONITORS)
            if self.parts[agent].is_over and not is_of_monitor:
                return []
        return step(event, now_ns)

    def _on_assigned(self, event: AgentsAssigned, now_ns: int) -> list[Command]:
        self.parts = dict.fromkeys(event.agents, Part.ASSIGNED)
        self._are_told = False
        self._are_local = event.are_local
        self._lead_factor = 1
        entered = self._enter(RunState.PREPARING)
        if self._limits.monitored:
            self.watches = dict.fromkeys(event.agents, Watch.ASSIGNED)
            self._deadline_ns = now_ns + self._limits.monitor_prepare_ns
            return [*entered, MonitorServers(event.agents)]
        return [*entered, *self._prepare(now_ns)]

    def _prepare(self, now_ns: int) -> list[Command]:
        self._are_told = True
        self._deadline_ns = now_ns + self._limits.prepare_ns
        return [PrepareAgents(self._live())]

    def _on_monitor_prepared(
        self, event: MonitorPrepared, now_ns: int
    ) -> list[Command]:
        if self.watches.get(event.agent) is not Watch.ASSIGNED:
            return []
        self.watches[event.agent] = Watch.PREPARED
        return self._prepare_when_monitored(now_ns)

    def _on_monitor_progressed(
        self, event: MonitorProgressed, now_ns: int
    ) -> list[Command]:
        if self.is_concluding and self.watches.get(event.agent) is Watch.PREPARED:
            until_ns = now_ns + self._limits.slack_ns
            self._deadline_ns = min(until_ns, self._conclude_until_ns)
        return []

    def _on_monitor_ended(self, event: MonitorEnded, now_ns: int) -> list[Command]:
        before = self.watches.get(event.agent, Watch.ENDED)
        if before is Watch.ENDED:
            return []
        self.watches[event.agent] = Watch.ENDED
        commands: list[Command] = []
        text = f"monitor of agent {event.agent!r}: {event.reason}"
        if event.reason:
            commands.append(RecordEvent("observer_failed", text))
        if event.refusal is not None and before is Watch.ASSIGNED:
            stop = self._stop(RunState.FAILED, text, event.refusal, now_ns)
            return [*commands, *stop]
        if self.is_concluding:
            return [*commands, *([] if self._watching() else self._end())]
        return [*commands, *self._prepare_when_monitored(now_ns)]

    def _prepare_when_monitored(self, now_ns: int) -> list[Command]:
        is_waiting = self.state is RunState.PREPARING and not self._are_told
        if not is_waiting or Watch.ASSIGNED in self.watches.values():
            return []
        return self._prepare(now_ns)

    def _on_prepared(self, event: AgentPrepared, now_ns: int) -> list[Command]:
        if self.state is not RunState.PREPARING:
            return []  # repeated, or it crossed our stop
        self.parts[event.agent] = Part.PREPARED
        if any(part is Part.ASSIGNED for part in self.parts.values()):
            return []
        if any(part is Part.LOST for part in self.parts.values()):
            return self._begin_again()
        return [*self._enter(RunState.READY), self._start(now_ns)]

    def _on_start_delayed(self, event: StartDelayed, now_ns: int) -> list[Command]:
        self._lead_factor *= 2
        return [self._start(now_ns)]

    def _start(self, now_ns: int) -> StartAgents:
        lead_ns = self._lead_factor * self._start_lead_ns()
        self.t0_ns = now_ns + lead_ns
        self._deadline_ns = self.t0_ns + self._limits.slack_ns
        return StartAgents(self._live(), self.t0_ns, now_ns + lead_ns // 2)

    def _start_lead_ns(self) -> int:
        agents = len(self.parts)
        lead_ns = max(self._limits.start_lead_ns, agents * _LEAD_PER_AGENT_NS)
        if not self._are_local:
            return lead_ns
        return min(lead_ns, _LOCAL_LEAD_NS + agents * _LOCAL_LEAD_PER_AGENT_NS)

    def _begin_again(self) -> list[Command]:
        """Begin again with the agents that are ready."""
        ready = tuple(
            agent for agent, part in self.parts.items() if part is Part.PREPARED
        )
        missing = [agent for agent in self.parts if agent not in ready]
        text = f"begins again without {', '.join(missing)}"
        end_monitors = self._end_monitors()
        self.parts, self.watches, self._are_told = {}, {}, False
        self._deadline_ns = None
        return [
            RecordEvent("quorum", text),
            *end_monitors,
            StopAgents(ready, text),
            *self._enter(RunState.QUEUED, text),
            RequeueRun(ready),
        ]

    def _is_expendable(self, agent: str) -> bool:
        quorum = self._limits.quorum
        if quorum is None or self.state is not RunState.PREPARING:
            return False
        parts = self.parts.items()
        return sum(p is not Part.LOST and name != agent for name, p in parts) >= quorum

    def _leave_out(self, agent: str, text: str) -> list[Command]:
        self.parts[agent] = Part.LOST
        event = RecordEvent("agent_left_out", text)
        if any(part is Part.ASSIGNED for part in self.parts.values()):
            return [event]
        return [event, *self._begin_again()]

    def _on_started(self, event: AgentStarted, now_ns: int) -> list[Command]:
        if self.state is not RunState.READY:
            return []
        self.parts[event.agent] = Part.STARTED
        if any(part is Part.PREPARED for part in self.parts.values()):
            return []
        self._deadline_ns = None
        return self._enter(RunState.RUNNING)

    def _on_part_progressed(self, event: PartProgressed, now_ns: int) -> list[Command]:
        # not for an agent that goes on with its load
        measured_ns = (self.t0_ns or 0) + event.measured_ns
        until_ns = (self._drained_from_ns or 0) + self._limits.grace_ns
        if self.state is RunState.DRAINING and measured_ns <= until_ns:
            self._await_agents(now_ns)
        return []

    def _on_finished(self, event: AgentFinished, now_ns: int) -> list[Command]:
        reason = event.early_reason
        # a fast agent may end while another's start is on its way
        if self.parts[event.agent] is not Part.STARTED and self.state in _BEFORE_LOAD:
            reason = reason or "no load was started"
        if not reason or not self.ending.is_planned:
            return self._end_part(event.agent, now_ns)
        error = RunAborted(f"agent {event.agent!r} ended early: {reason}")
        return self._lose(event.agent, "agent_early", error, now_ns, reason)

    def _on_failed(self, event: AgentFailed, now_ns: int) -> list[Command]:
        if self._is_expendable(event.agent):
            return self._leave_out(event.agent, f"{event.agent}: {event.error}")
        return self._lose(event.agent, "agent_failed", event.error, now_ns)

    def _on_vanished(self, event: AgentVanished, now_ns: int) -> list[Command]:
        error = AgentLost(event.agent, event.silent_ns / 1e9)
        if event.agent in self.watches:
            self.watches[event.agent] = Watch.ENDED
        if self._is_expendable(event.agent):
            left_out = self._leave_out(event.agent, str(error))
            return [*left_out, *self._prepare_when_monitored(now_ns)]
        return self._lose(event.agent, "agent_lost", error, now_ns, event.reason)

    def _on_cancel(self, event: CancelRequested, now_ns: int) -> list[Command]:
        detail = f"cancelled by {event.by}"
        noted = RecordEvent("cancel", detail)
        if self.state is RunState.QUEUED:
            self.ending = Ending(RunState.CANCELLED, detail)
            return [noted, *self._conclude(now_ns)]
        if self.is_concluding:
            # only the wait for replicas is cancelled
            return [noted, *self._end()]
        if self.state is RunState.DRAINING:
            return [RefuseEvent(event, self.state)]
        return [noted, *self._stop(RunState.CANCELLED, detail, None, now_ns)]

    def _on_threshold_missed(
        self, event: ThresholdMissed, now_ns: int
    ) -> list[Command]:
        noted = RecordEvent("aborted", event.text)
        return [noted, *self._stop(RunState.ABORTED, event.text, None, now_ns)]

    def _on_gave_up(self, event: GaveUp, now_ns: int) -> list[Command]:
        state = RunState.CANCELLED if event.error is None else RunState.FAILED
        self.ending = Ending(state, event.reason, event.error)
        return [RecordEvent("gave_up", event.reason), *self._conclude(now_ns)]

    def _on_store_failed(self, event: StoreFailed, now_ns: int) -> list[Command]:
        if not self.ending.is_planned:
            return []
        text = str(event.error)
        stop = self._stop(RunState.FAILED, text, event.error, now_ns)
        return [RecordEvent("store_failed", text), *stop]

    def _on_time(self, event: TimePassed, now_ns: int) -> list[Command]:
        if event.store_failure:
            if self._away_from_ns is not None:
                return []
            self._away_from_ns = now_ns
            return [RecordEvent("store_away", event.store_failure)]
        if self._away_from_ns is not None:
            away_ns, self._away_from_ns = now_ns - self._away_from_ns, None
            self._conclude_until_ns += away_ns
            if self._deadline_ns is not None:
                self._deadline_ns += away_ns
        if self.state is RunState.RUNNING and self.t0_ns is not None:
            if now_ns < self.t0_ns + self._limits.planned_ns:
                return []
            self._await_agents(now_ns)
            return self._enter(RunState.DRAINING)
        if self._deadline_ns is None or now_ns < self._deadline_ns:
            return []
        if self.is_concluding or not self._are_told:
            return self._without_monitors(now_ns)
        late = self._late()
        if self.state is RunState.DRAINING:
            return self._abandon(late, now_ns)
        commands: list[Command] = []
        while late and self._is_expendable(late[0]):
            error = AgentUnreachable(late[0], self._limits.prepare_ns / 1e9)
            commands.append(StopAgents(late[:1], str(error), abandon=True))
            commands += self._leave_out(late[0], str(error))
            late = late[1:]
        if commands:
            if late:  # too many of them: as without a quorum
                self._deadline_ns = now_ns
            return commands
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
        """The agent's part ended early."""
        noted = RecordEvent(kind, f"agent {agent!r}: {reason or error}")
        self.parts[agent] = Part.LOST
        has_others = any(part is not Part.LOST for part in self.parts.values())
        is_fatal = self._limits.stop_on_loss or self.state in _BEFORE_LOAD
        if has_others and not is_fatal:
            return [noted] if self._live() else [noted, *self._conclude(now_ns)]
        return [noted, *self._stop(RunState.FAILED, str(error), error, now_ns)]

    def _stop(
        self,
        outcome: RunState,
        detail: str,
        error: LdapSlamError | None,
        now_ns: int,
    ) -> list[Command]:
        """Go to `outcome`, unless the run is on its way down already."""
        is_first = self.ending.is_planned
        if is_first:
            self.ending = Ending(outcome, detail, error)
        live = self._live()
        if live and not self._are_told:
            self.parts.update(dict.fromkeys(live, Part.ENDED))
            return [ReleaseAgents(live), *self._conclude(now_ns)]
        if not live:
            return self._conclude(now_ns)
        if not is_first:
            return []
        self._await_agents(now_ns)
        stop = StopAgents(live, detail)
        if self.state is RunState.DRAINING:
            return [RecordState(self.state, detail), stop]
        return [*self._enter(RunState.DRAINING, detail), stop]

    def _abandon(self, late: tuple[str, ...], now_ns: int) -> list[Command]:
        """The drain took too long: end without the late agents."""
        waited_ns = self._limits.grace_ns + self._limits.slack_ns
        error = AgentUnreachable(late[0], waited_ns / 1e9)
        if self.ending.is_planned:
            self.ending = Ending(RunState.FAILED, str(error), error)
        for agent in late:
            self.parts[agent] = Part.LOST
        return [
            RecordEvent("agent_overdue", str(error)),
            StopAgents(late, "the drain took too long", abandon=True),
            *self._conclude(now_ns),
        ]

    def _without_monitors(self, now_ns: int) -> list[Command]:
        """Monitors took too long: go on without them."""
        late = self._watching()
        if not self.is_concluding:
            late = tuple(a for a in late if self.watches[a] is Watch.ASSIGNED)
        for agent in late:
            self.watches[agent] = Watch.ENDED
        text = f"the monitors of {', '.join(late)} took too long"
        overdue = RecordEvent("observer_overdue", text)
        if self.is_concluding:
            return [overdue, *self._end()]
        return [overdue, EndMonitors(late), *self._prepare(now_ns)]

    def _end_part(self, agent: str, now_ns: int) -> list[Command]:
        self.parts[agent] = Part.ENDED
        return [] if self._live() else self._conclude(now_ns)

    def _conclude(self, now_ns: int) -> list[Command]:
        """No agent is awaited any more; monitors may be."""
        monitors = self._watching()
        # without T0 there is no load to see the effect of
        if not monitors or self.t0_ns is None or self.is_concluding:
            return self._end()
        self.is_concluding = True
        verify = self.ending.is_verified
        self._deadline_ns = now_ns + self._limits.slack_ns
        self._conclude_until_ns = self._deadline_ns
        if verify:
            self._conclude_until_ns += self._limits.verify_ns
        commands: list[Command] = [ConcludeMonitors(monitors, verify)]
        if self.state is RunState.DRAINING:
            return commands
        return [*self._enter(RunState.DRAINING, self.ending.detail), *commands]

    def _end(self) -> list[Command]:
        ending = self.ending
        self.state = ending.state
        conclude = ConcludeRun(ending.state, ending.detail, ending.error)
        return [*self._end_monitors(), conclude]

    def _end_monitors(self) -> list[Command]:
        """Order it of every agent, even where its monitor seems to have ended."""
        self.watches = dict.fromkeys(self.watches, Watch.ENDED)
        return [EndMonitors(tuple(self.watches))] if self.watches else []

    def _enter(self, state: RunState, detail: str = "") -> list[Command]:
        self.state = state
        return [RecordState(state, detail)]

    def _await_agents(self, now_ns: int) -> None:
        """In draining, from now on."""
        if self._drained_from_ns is None:
            self._drained_from_ns = now_ns
        self._deadline_ns = now_ns + self._limits.grace_ns + self._limits.slack_ns

    def _live(self) -> tuple[str, ...]:
        return tuple(agent for agent, part in self.parts.items() if not part.is_over)

    def _watching(self) -> tuple[str, ...]:
        return tuple(a for a, watch in self.watches.items() if watch is not Watch.ENDED)

    def _late(self) -> tuple[str, ...]:
        awaited = {RunState.PREPARING: Part.PREPARED, RunState.READY: Part.STARTED}
        there = awaited.get(self.state)
        return tuple(agent for agent in self._live() if self.parts[agent] is not there)
