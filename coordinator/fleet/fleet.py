# SPDX-License-Identifier: Apache-2.0
"""Which agents there are, and which run gets which of them. A pure state machine.

No I/O and no clock: `handle(event, now_ns)` takes what happened and returns what has to
be done. An event that its state does not allow changes nothing and returns RefuseEvent:
events come from the network and may be late or repeated. Two machines, of agents and of
the queue, decide together.

An agent:

                       AgentRegistered
    absent, lost, left ---------------> idle <------ AgentReleased ------.
                                         |            (its last run)     |
                                         '---- [AssignRun] ----> assigned
    idle -- TimePassed, silent too long --> lost
    idle, assigned -- AgentHungUp, then no AgentListens in time --> lost
    assigned -- TimePassed, silent, its connection open --> silent
    silent -- AgentHeard, AgentRegistered --> assigned
    silent -- TimePassed, beyond the leases of its runs --> lost
    idle, assigned, silent -- AgentRegistered by another process --> lost --> idle
    idle, assigned, silent -- AgentLeft --> left
    absent -- RunRecovered --> silent

An agent whose process ends hangs up: the kernel closes its connection. One that is only
silent may be cut off, and goes on with its load until its lease is over, and so
do its runs.

A run, as far as the fleet is concerned:

    unknown -- RunSubmitted --> waiting -- [AssignRun] --> holding
    unknown -- RunRecovered --> holding
    waiting -- RunWithdrawn --> unknown
    waiting -- TimePassed, too few agents for too long --> [GiveUpRun] --> unknown
    holding -- RunRequeued --> waiting
    holding -- RunEnded --> unknown

A waiting run is assigned when enough agents it selects have room and no run holds one
of its targets. A connection may end while the load goes on: the targets of an agent
that is lost so are held until its lease is over, or it tells that its load is. Runs are
taken by priority, then in the order of submission; one that waits for busy agents or
targets reserves them, so that a later one of no higher priority cannot overtake it for
good.

An agent that registers is reconciled first: what it holds of runs is compared with what
they know of it, and only then are runs assigned. Busy with a run which is not its own
(it was lost meanwhile), it is told to stop that run, and has less room until it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from ldapslam.base.message import Message
from ldapslam.coordinator.fleet.selection import Candidate, Selection

#: An idle agent, or one that hung up, is lost after this. Heartbeats come every second.
LOST_AFTER_NS = 4_000_000_000
#: The agent's clock ends the lease; its last report takes a while.
LEASE_SLACK_NS = 5_000_000_000
#: Then the run waits this long for agents that went away.
PATIENCE_NS = 60_000_000_000


class AgentState(StrEnum):
    ABSENT = "absent"
    IDLE = "idle"
    ASSIGNED = "assigned"
    SILENT = "silent"
    LOST = "lost"
    LEFT = "left"


class QueueState(StrEnum):
    UNKNOWN = "unknown"
    WAITING = "waiting"
    HOLDING = "holding"


class FleetEvent(Message):
    """What happened."""


class AgentRegistered(FleetEvent):
    name: str
    #: Random for each process.
    instance: str
    labels: Mapping[str, str] = field(default_factory=dict)
    runs: tuple[str, ...] = ()
    #: Number of the process on the agent's spool.
    epoch: int = 0
    #: Runs that it takes at a time.
    max_runs: int = 1
    is_restricted: bool = False
    host_id: str = ""


class AgentHeard(FleetEvent):
    name: str


class AgentHungUp(FleetEvent):
    """The connection that brings the agent its commands has ended."""

    name: str


class AgentListens(FleetEvent):
    """A connection that brings the agent its commands stands."""

    name: str


class AgentLeft(FleetEvent):
    name: str
    reason: str


class AgentReleased(FleetEvent):
    """The agent's part of the run has ended."""

    name: str
    run_id: str


class TimePassed(FleetEvent):
    pass


class RunSubmitted(FleetEvent):
    run_id: str
    selection: Selection
    targets: frozenset[str]
    priority: int = 0
    #: Other sharing runs may load the same targets.
    is_sharing: bool = False
    #: How long agents keep up the load without the coordinator.
    lease_ns: int = 60_000_000_000
    #: Whether it may wait for agents; until `agents_until_ns`, or without limit.
    may_wait: bool = False
    agents_until_ns: int | None = None


class RunRecovered(FleetEvent):
    """A run that was live when the coordinator before this one ended."""

    run_id: str
    targets: frozenset[str]
    #: Agents with an open part -> the epoch in which they took it.
    agents: Mapping[str, int]
    is_sharing: bool = False
    lease_ns: int = 60_000_000_000


class RunRequeued(FleetEvent):
    """The run is to begin again, with these agents."""

    run_id: str
    agents: tuple[str, ...]


class RunWithdrawn(FleetEvent):
    run_id: str


class LoadBegins(FleetEvent):
    """The agents are about to be told of T0: from now on they may load the targets."""

    run_id: str


class RunEnded(FleetEvent):
    run_id: str


class Command(Message):
    """What has to be done."""


class AssignRun(Command):
    run_id: str
    #: In the order of their indexes.
    agents: tuple[str, ...]
    #: Free, but without a part of the load.
    left_out: tuple[str, ...] = ()


class RefuseRun(Command):
    run_id: str
    wanted: str
    #: Agents that fit; all serving ones for a run that names some.
    available: tuple[str, ...]
    #: Why others do not fit.
    ineligible: tuple[str, ...] = ()


class GiveUpRun(RefuseRun):
    """The run has waited long enough for agents."""


class ReportSilence(Command):
    """Nothing is heard of the agent; its runs go on."""

    name: str
    run_ids: tuple[str, ...]
    silent_ns: int


class ReportReturn(Command):
    """A silent agent is heard again."""

    name: str
    run_ids: tuple[str, ...]
    silent_ns: int


class ReportLoss(Command):
    """The runs lose the agent; `is_gone`: so does the fleet."""

    name: str
    run_ids: tuple[str, ...]
    silent_ns: int
    reason: str
    is_gone: bool = True


class ReconcileAgent(Command):
    """The agent has registered: compare what it holds of runs with what they know of
    it. After its losses, before any other order."""

    name: str


class StopOrphan(Command):
    """The agent works on a run that is not its own (any more)."""

    name: str
    run_id: str


class RefuseEvent(Command):
    event: FleetEvent
    state: str


_GONE = (AgentState.ABSENT, AgentState.LOST, AgentState.LEFT)
#: Events of agents that are in the fleet.
_OF_MEMBERS = (AgentHeard, AgentHungUp, AgentListens, AgentLeft)


@dataclass(slots=True)
class AgentRecord:
    """What the fleet knows of one agent."""

    name: str
    #: Empty: of a recovered run, not registered yet.
    instance: str
    heard_ns: int
    epoch: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    max_runs: int = 1
    is_restricted: bool = False
    host_id: str = ""
    #: Run -> its lease in ns.
    runs: dict[str, int] = field(default_factory=dict)
    #: When its connection ended; None while it stands.
    hung_up_ns: int | None = None
    is_silent: bool = False
    #: LOST or LEFT; None while it is in the fleet.
    gone: AgentState | None = None

    @property
    def state(self) -> AgentState:
        if self.gone is not None:
            return self.gone
        if self.is_silent:
            return AgentState.SILENT
        return AgentState.ASSIGNED if self.runs else AgentState.IDLE

    @property
    def has_room(self) -> bool:
        return len(self.runs) < self.max_runs

    def candidate(self) -> Candidate:
        return Candidate(
            self.name, self.labels, self.host_id, self.is_restricted, len(self.runs)
        )


@dataclass(slots=True)
class _Entry:
    state: QueueState
    selection: Selection
    run: RunSubmitted | RunRecovered
    agents_until_ns: int | None = None
    has_load: bool = False

    @property
    def priority(self) -> int:
        return self.run.priority if isinstance(self.run, RunSubmitted) else 0


@dataclass(slots=True)
class _Orphan:
    """An agent's part of a run, of which one is gone: its load may go on until its
    lease is over."""

    run: RunSubmitted | RunRecovered
    until_ns: int


@dataclass(slots=True)
class _Targets:
    """Servers in use: alone, or shared by runs that allow it."""

    alone: set[str] = field(default_factory=set)
    shared: set[str] = field(default_factory=set)

    def take(self, entry: _Entry | _Orphan) -> None:
        run = entry.run
        (self.shared if run.is_sharing else self.alone).update(run.targets)

    def are_free_for(self, entry: _Entry) -> bool:
        run = entry.run
        if run.targets & self.alone:
            return False
        return run.is_sharing or not run.targets & self.shared


class Fleet:
    """The machine. State changes through `handle` only."""

    def __init__(self, lost_after_ns: int = LOST_AFTER_NS) -> None:
        self._lost_after_ns = lost_after_ns
        self._agents: dict[str, AgentRecord] = {}
        self._runs: dict[str, _Entry] = {}
        #: By agent and run.
        self._orphans: dict[tuple[str, str], _Orphan] = {}
        self._steps: dict[type[Any], Callable[[Any, int], list[Command]]] = {
            AgentRegistered: self._on_registered,
            AgentHeard: self._on_heard,
            AgentHungUp: self._on_hung_up,
            AgentListens: self._on_listens,
            AgentLeft: self._on_left,
            AgentReleased: self._on_released,
            TimePassed: self._on_time,
            RunSubmitted: self._on_submitted,
            RunRecovered: self._on_recovered,
            RunRequeued: self._on_requeued,
            LoadBegins: self._on_load,
            RunWithdrawn: self._on_gone,
            RunEnded: self._on_gone,
        }

    def handle(self, event: FleetEvent, now_ns: int) -> list[Command]:
        """Take one event; `now_ns` never goes back."""
        if isinstance(event, _OF_MEMBERS):
            state = self.agent_state(event.name)
            if state in _GONE:
                return [RefuseEvent(event, state)]
        return self._steps[type(event)](event, now_ns)

    def agents(self) -> list[AgentRecord]:
        """Every agent ever registered, by name."""
        return [self._agents[name] for name in sorted(self._agents)]

    def agent_state(self, name: str) -> AgentState:
        record = self._agents.get(name)
        return AgentState.ABSENT if record is None else record.state

    def run_state(self, run_id: str) -> QueueState:
        entry = self._runs.get(run_id)
        return QueueState.UNKNOWN if entry is None else entry.state

    def refusal(self, run_id: str, selection: Selection) -> RefuseRun | None:
        """Why such a submission would be refused now; None: it would be taken."""
        serving = [record.candidate() for record in self._serving()]
        fitting = [candidate for candidate in serving if selection.fits(candidate)]
        if selection.can_have(fitting):
            return None
        available = tuple(one.name for one in (serving if selection.names else fitting))
        ineligible = selection.ineligible(serving)
        return RefuseRun(run_id, str(selection), available, ineligible)

    def agents_for(self, selection: Selection) -> int:
        """How many agents such a run would have now; at least one."""
        needed = selection.needed(len(self._fitting(selection)))
        return needed if selection.most is None else min(needed, selection.most)

    def _serving(self) -> Iterable[AgentRecord]:
        serving = (AgentState.IDLE, AgentState.ASSIGNED)
        return (record for record in self.agents() if record.state in serving)

    def _on_registered(self, event: AgentRegistered, now_ns: int) -> list[Command]:
        commands: list[Command] = []
        record = self._agents.get(event.name)
        runs: dict[str, int] = {}
        if record is not None and record.gone is None:
            silent_ns = now_ns - record.heard_ns
            if _is_same_process(record, event):
                runs = record.runs  # a reconnect: what it had it still has
                if record.is_silent:
                    commands.append(ReportReturn(event.name, tuple(runs), silent_ns))
            else:
                lost = tuple(record.runs)
                reason = "it was started again"
                commands.append(ReportLoss(event.name, lost, silent_ns, reason))
        commands.append(ReconcileAgent(event.name))
        for run_id in event.runs:
            if run_id not in runs:
                commands.append(StopOrphan(event.name, run_id))
                runs[run_id] = 0
        for name, run_id in list(self._orphans):
            if name == event.name and run_id not in event.runs:
                del self._orphans[name, run_id]
        self._agents[event.name] = AgentRecord(
            event.name,
            event.instance,
            now_ns,
            event.epoch,
            dict(event.labels),
            event.max_runs,
            event.is_restricted,
            event.host_id,
            runs,
        )
        return commands + self._assign()

    def _on_heard(self, event: AgentHeard, now_ns: int) -> list[Command]:
        record = self._agents[event.name]
        silent_ns = now_ns - record.heard_ns
        record.heard_ns = now_ns
        if not record.is_silent:
            return []
        record.is_silent = False
        back = ReportReturn(event.name, tuple(record.runs), silent_ns)
        return [back, *self._assign()]

    def _on_hung_up(self, event: AgentHungUp, now_ns: int) -> list[Command]:
        record = self._agents[event.name]
        # we closed a silent agent's connection ourselves
        if not record.is_silent:
            record.hung_up_ns = now_ns
        return []

    def _on_listens(self, event: AgentListens, now_ns: int) -> list[Command]:
        record = self._agents[event.name]
        # the old connection's end may be noticed after the new one's begin
        record.hung_up_ns = None
        return []

    def _on_left(self, event: AgentLeft, now_ns: int) -> list[Command]:
        record = self._agents[event.name]
        return [self._lose(record, AgentState.LEFT, now_ns, event.reason)]

    def _on_released(self, event: AgentReleased, now_ns: int) -> list[Command]:
        record = self._agents.get(event.name)
        if record is None or event.run_id not in record.runs:
            return [RefuseEvent(event, self.agent_state(event.name))]
        del record.runs[event.run_id]
        self._orphans.pop((event.name, event.run_id), None)
        return self._assign()

    def _on_time(self, event: TimePassed, now_ns: int) -> list[Command]:
        commands: list[Command] = []
        for record in self.agents():
            if record.gone is None:
                commands += self._judge_silence(record, now_ns)
        over = [key for key, one in self._orphans.items() if one.until_ns <= now_ns]
        for key in over:
            del self._orphans[key]
        if over:
            commands += self._assign()
        for run_id, entry in self._waiting():
            until_ns = entry.agents_until_ns
            if until_ns is None or now_ns < until_ns:
                continue
            refusal = self.refusal(run_id, entry.selection)
            if refusal is not None:
                del self._runs[run_id]
                why = (refusal.wanted, refusal.available, refusal.ineligible)
                commands.append(GiveUpRun(run_id, *why))
        return commands

    def _judge_silence(self, record: AgentRecord, now_ns: int) -> list[Command]:
        silent_ns = now_ns - record.heard_ns
        if silent_ns < self._lost_after_ns:
            return []
        if not record.runs:
            return [
                self._lose(record, AgentState.LOST, now_ns, "nothing was heard of it")
            ]
        if record.hung_up_ns is not None:
            if now_ns - record.hung_up_ns < self._lost_after_ns:
                return []
            reason = "its connection ended, and it did not come back"
            for run_id in record.runs:
                self._orphan(record, run_id)
            return [self._lose(record, AgentState.LOST, now_ns, reason)]
        commands: list[Command] = []
        if not record.is_silent:
            record.is_silent = True
            commands.append(ReportSilence(record.name, tuple(record.runs), silent_ns))
        over = tuple(
            run_id
            for run_id, lease_ns in record.runs.items()
            if silent_ns >= lease_ns + LEASE_SLACK_NS
        )
        reason = "nothing was heard of it for as long as it keeps up its load"
        if len(over) == len(record.runs):
            commands.append(self._lose(record, AgentState.LOST, now_ns, reason))
        elif over:
            for run_id in over:
                del record.runs[run_id]
            commands.append(
                ReportLoss(record.name, over, silent_ns, reason, is_gone=False)
            )
        return commands

    def _lose(
        self, record: AgentRecord, state: AgentState, now_ns: int, reason: str
    ) -> ReportLoss:
        run_ids = tuple(record.runs)
        record.gone = state
        record.runs = {}
        record.is_silent = False
        return ReportLoss(record.name, run_ids, now_ns - record.heard_ns, reason)

    def _on_submitted(self, event: RunSubmitted, now_ns: int) -> list[Command]:
        if event.run_id in self._runs:
            return [RefuseEvent(event, self.run_state(event.run_id))]
        if not event.may_wait:
            refusal = self.refusal(event.run_id, event.selection)
            if refusal is not None:
                return [refusal]
        self._runs[event.run_id] = _Entry(
            QueueState.WAITING, event.selection, event, event.agents_until_ns
        )
        return self._assign()

    def _on_recovered(self, event: RunRecovered, now_ns: int) -> list[Command]:
        if event.run_id in self._runs:
            return [RefuseEvent(event, self.run_state(event.run_id))]
        selection = Selection(names=tuple(event.agents))
        entry = _Entry(QueueState.HOLDING, selection, event, has_load=True)
        self._runs[event.run_id] = entry
        for name, epoch in event.agents.items():
            record = self._agents.setdefault(
                name, AgentRecord(name, "", now_ns, epoch, is_silent=True)
            )
            record.runs[event.run_id] = event.lease_ns
        return []

    def _on_load(self, event: LoadBegins, now_ns: int) -> list[Command]:
        entry = self._runs.get(event.run_id)
        if entry is None or entry.state is not QueueState.HOLDING:
            return [RefuseEvent(event, self.run_state(event.run_id))]
        entry.has_load = True
        return []

    def _on_requeued(self, event: RunRequeued, now_ns: int) -> list[Command]:
        entry = self._runs.get(event.run_id)
        if entry is None or entry.state is not QueueState.HOLDING:
            return [RefuseEvent(event, self.run_state(event.run_id))]
        entry.state = QueueState.WAITING
        entry.selection = replace(
            entry.selection, names=event.agents, count=None, hosts=1
        )
        # one of them may be gone
        entry.agents_until_ns = max(now_ns + PATIENCE_NS, entry.agents_until_ns or 0)
        return self._assign()

    def _on_gone(self, event: RunWithdrawn | RunEnded, now_ns: int) -> list[Command]:
        is_end = isinstance(event, RunEnded)
        state = self.run_state(event.run_id)
        if state is not (QueueState.HOLDING if is_end else QueueState.WAITING):
            return [RefuseEvent(event, state)]
        if is_end:
            for record in self._agents.values():
                self._orphan(record, event.run_id)
        del self._runs[event.run_id]
        return self._assign()

    def _orphan(self, record: AgentRecord, run_id: str) -> None:
        """The agent's load of the run may go on, without one of the two."""
        entry, lease_ns = self._runs.get(run_id), record.runs.get(run_id)
        if entry is not None and entry.has_load and lease_ns:
            until_ns = record.heard_ns + lease_ns + LEASE_SLACK_NS
            self._orphans[record.name, run_id] = _Orphan(entry.run, until_ns)

    def _fitting(self, selection: Selection) -> list[AgentRecord]:
        return [
            record for record in self._serving() if selection.fits(record.candidate())
        ]

    def _waiting(self) -> list[tuple[str, _Entry]]:
        waiting = [
            (run_id, entry)
            for run_id, entry in self._runs.items()
            if entry.state is QueueState.WAITING
        ]
        # stable: the oldest first in each priority
        return sorted(waiting, key=lambda item: -item[1].priority)

    def _assign(self) -> list[Command]:
        commands: list[Command] = []
        taken = _Targets()
        for orphan in self._orphans.values():
            taken.take(orphan)
        for entry in self._runs.values():
            if entry.state is QueueState.HOLDING:
                taken.take(entry)
        reserved: set[str] = set()
        for run_id, entry in self._waiting():
            fitting = self._fitting(entry.selection)
            candidates = [record.candidate() for record in fitting]
            if not entry.selection.can_have(candidates):
                continue  # waits for agents that are not there: reserves nothing
            free = [
                record.candidate()
                for record in fitting
                if record.has_room
                and record.name not in reserved
                # its earlier attempt has not ended there
                and run_id not in record.runs
            ]
            names = entry.selection.choose(free, len(fitting))
            if names is not None and taken.are_free_for(entry):
                used = len(names)
                if entry.selection.most is not None:
                    used = min(used, entry.selection.most)
                entry.state = QueueState.HOLDING
                for name in names[:used]:
                    self._agents[name].runs[run_id] = entry.run.lease_ns
                commands.append(AssignRun(run_id, names[:used], names[used:]))
            else:
                reserved |= {record.name for record in fitting}
            taken.take(entry)
        return commands


def _is_same_process(record: AgentRecord, event: AgentRegistered) -> bool:
    if record.instance:
        return record.instance == event.instance
    # of the earlier coordinator, known by its run only
    return record.epoch == event.epoch
