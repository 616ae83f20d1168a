# SPDX-License-Identifier: Apache-2.0
"""Which agents there are, and which run gets which of them. A pure state machine.

No I/O and no clock: `handle(event, now_ns)` takes what happened and returns what has to
be done. An event that its state does not allow changes nothing and returns RefuseEvent:
events come from the network and may be late or repeated.

An agent:

                       AgentRegistered
    absent, lost, left ---------------> idle <------ AgentReleased ------.
                                         |                               |
                                         '---- [AssignRun] ----> assigned
    idle, assigned -- TimePassed, silent too long --> lost
    idle, assigned -- AgentRegistered by another process --> lost --> idle
    idle, assigned -- AgentLeft --> left

A run, as far as the fleet is concerned:

    unknown -- RunSubmitted --> waiting -- [AssignRun] --> holding
    waiting -- RunWithdrawn --> unknown
    holding -- RunEnded --> unknown

A waiting run is assigned when enough agents it selects are idle and no run holds one
of its targets. Runs are taken in the order of submission; one that waits for busy
agents or targets reserves them, so that a later run cannot overtake it for good.

An agent that registers busy with a run which is not its own (it was lost meanwhile, or
the coordinator was restarted) is told to stop that run, and is assigned until it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

#: An agent not heard for so long is lost. Heartbeats come every second.
LOST_AFTER_NS = 4_000_000_000


class AgentState(StrEnum):
    ABSENT = "absent"
    IDLE = "idle"
    ASSIGNED = "assigned"
    LOST = "lost"
    LEFT = "left"


class QueueState(StrEnum):
    UNKNOWN = "unknown"
    WAITING = "waiting"
    HOLDING = "holding"


@dataclass(frozen=True, slots=True)
class Selection:
    """The agents a job asks for: by number, by name, by label, or all there are."""

    #: That many, any; None: every one that fits.
    count: int | None = None
    #: Exactly these.
    names: tuple[str, ...] = ()
    #: Those that carry all of these labels.
    labels: Mapping[str, str] = field(default_factory=dict)
    #: The load can be spread over so many at most; None: over any number.
    most: int | None = None

    def fits(self, name: str, labels: Mapping[str, str]) -> bool:
        if self.names and name not in self.names:
            return False
        return all(labels.get(key) == value for key, value in self.labels.items())

    def needed(self, candidates: int) -> int:
        """How many agents make a run of `candidates` fitting ones; at least one."""
        if self.names:
            return len(self.names)
        return max(1, candidates if self.count is None else self.count)

    def __str__(self) -> str:
        if self.names:
            return "agents " + ", ".join(self.names)
        labels = ", ".join(f"{key}={value}" for key, value in self.labels.items())
        which = f" labelled {labels}" if labels else ""
        if self.count is None:
            return f"all agents{which}" if which else "at least one agent"
        return f"{self.count} agent{'s' * (self.count != 1)}{which}"


# Events.


@dataclass(frozen=True, slots=True)
class AgentRegistered:
    name: str
    #: Random, one for each process.
    instance: str
    labels: Mapping[str, str] = field(default_factory=dict)
    #: The run the agent is busy with, as it says.
    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class AgentHeard:
    name: str


@dataclass(frozen=True, slots=True)
class AgentLeft:
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class AgentReleased:
    """The agent's part of the run has ended."""

    name: str
    run_id: str


@dataclass(frozen=True, slots=True)
class TimePassed:
    pass


@dataclass(frozen=True, slots=True)
class RunSubmitted:
    run_id: str
    selection: Selection
    targets: frozenset[str]


@dataclass(frozen=True, slots=True)
class RunWithdrawn:
    run_id: str


@dataclass(frozen=True, slots=True)
class RunEnded:
    run_id: str


FleetEvent = (
    AgentRegistered
    | AgentHeard
    | AgentLeft
    | AgentReleased
    | TimePassed
    | RunSubmitted
    | RunWithdrawn
    | RunEnded
)

# Commands.


@dataclass(frozen=True, slots=True)
class AssignRun:
    run_id: str
    #: In the order of their index in the run.
    agents: tuple[str, ...]
    #: Wanted and idle, but without a share of the load.
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RefuseRun:
    run_id: str
    wanted: str
    available: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReportLoss:
    """The agent is gone; `run_id` is the run that it takes a part of with it."""

    name: str
    run_id: str | None
    silent_ns: int
    reason: str


@dataclass(frozen=True, slots=True)
class StopStray:
    """The agent works on a run that is not its own (any more)."""

    name: str
    run_id: str


@dataclass(frozen=True, slots=True)
class RefuseEvent:
    event: FleetEvent
    state: str


Command = AssignRun | RefuseRun | ReportLoss | StopStray | RefuseEvent


@dataclass(slots=True)
class AgentRecord:
    """What the fleet knows of one agent."""

    name: str
    instance: str
    labels: Mapping[str, str]
    state: AgentState
    heard_ns: int
    #: Set in ASSIGNED only.
    run_id: str | None = None


@dataclass(slots=True)
class _Entry:
    state: QueueState
    selection: Selection
    targets: frozenset[str]


class Fleet:
    """The machine. State changes through `handle` only."""

    def __init__(self, lost_after_ns: int = LOST_AFTER_NS) -> None:
        self._lost_after_ns = lost_after_ns
        self._agents: dict[str, AgentRecord] = {}
        self._runs: dict[str, _Entry] = {}
        self._steps: dict[type[Any], Callable[[Any, int], list[Command]]] = {
            AgentRegistered: self._on_registered,
            AgentHeard: self._on_heard,
            AgentLeft: self._on_left,
            AgentReleased: self._on_released,
            TimePassed: self._on_time,
            RunSubmitted: self._on_submitted,
            RunWithdrawn: self._on_withdrawn,
            RunEnded: self._on_ended,
        }

    def handle(self, event: FleetEvent, now_ns: int) -> list[Command]:
        """Take one event; `now_ns` never goes back."""
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
        """What the answer to such a submission would be now; None: it is taken."""
        fitting = self._fitting(selection)
        if len(fitting) >= selection.needed(len(fitting)):
            return None
        available = tuple(record.name for record in self._serving())
        return RefuseRun(run_id, str(selection), available)

    def _serving(self) -> Iterable[AgentRecord]:
        serving = (AgentState.IDLE, AgentState.ASSIGNED)
        return (record for record in self.agents() if record.state in serving)

    # Agents.

    def _on_registered(self, event: AgentRegistered, now_ns: int) -> list[Command]:
        commands: list[Command] = []
        record = self._agents.get(event.name)
        is_serving = self.agent_state(event.name) in (
            AgentState.IDLE,
            AgentState.ASSIGNED,
        )
        run_id: str | None = None
        if record is not None and is_serving:
            if record.instance == event.instance:
                run_id = record.run_id  # a reconnect: what it had it still has
            else:
                commands.append(
                    ReportLoss(
                        event.name,
                        record.run_id,
                        now_ns - record.heard_ns,
                        "it was started again",
                    )
                )
        if event.run_id is not None and event.run_id != run_id:
            commands.append(StopStray(event.name, event.run_id))
            run_id = run_id or event.run_id
        self._agents[event.name] = AgentRecord(
            event.name,
            event.instance,
            dict(event.labels),
            AgentState.IDLE if run_id is None else AgentState.ASSIGNED,
            now_ns,
            run_id,
        )
        return commands + self._assign()

    def _on_heard(self, event: AgentHeard, now_ns: int) -> list[Command]:
        record = self._agents.get(event.name)
        if record is None or record.state in (AgentState.LOST, AgentState.LEFT):
            return [RefuseEvent(event, self.agent_state(event.name))]
        record.heard_ns = now_ns
        return []

    def _on_left(self, event: AgentLeft, now_ns: int) -> list[Command]:
        record = self._agents.get(event.name)
        if record is None or record.state in (AgentState.LOST, AgentState.LEFT):
            return [RefuseEvent(event, self.agent_state(event.name))]
        return self._lose(record, AgentState.LEFT, now_ns, event.reason)

    def _on_released(self, event: AgentReleased, now_ns: int) -> list[Command]:
        record = self._agents.get(event.name)
        if (
            record is None
            or record.state is not AgentState.ASSIGNED
            or record.run_id != event.run_id
        ):
            return [RefuseEvent(event, self.agent_state(event.name))]
        record.state, record.run_id = AgentState.IDLE, None
        return self._assign()

    def _on_time(self, event: TimePassed, now_ns: int) -> list[Command]:
        commands: list[Command] = []
        for record in list(self._serving()):
            if now_ns - record.heard_ns >= self._lost_after_ns:
                commands += self._lose(
                    record, AgentState.LOST, now_ns, "nothing was heard of it"
                )
        return commands

    def _lose(
        self, record: AgentRecord, state: AgentState, now_ns: int, reason: str
    ) -> list[Command]:
        run_id = record.run_id
        record.state, record.run_id = state, None
        return [ReportLoss(record.name, run_id, now_ns - record.heard_ns, reason)]

    # Runs.

    def _on_submitted(self, event: RunSubmitted, now_ns: int) -> list[Command]:
        if event.run_id in self._runs:
            return [RefuseEvent(event, self.run_state(event.run_id))]
        refusal = self.refusal(event.run_id, event.selection)
        if refusal is not None:
            return [refusal]
        self._runs[event.run_id] = _Entry(
            QueueState.WAITING, event.selection, event.targets
        )
        return self._assign()

    def _on_withdrawn(self, event: RunWithdrawn, now_ns: int) -> list[Command]:
        if self.run_state(event.run_id) is not QueueState.WAITING:
            return [RefuseEvent(event, self.run_state(event.run_id))]
        del self._runs[event.run_id]
        return self._assign()

    def _on_ended(self, event: RunEnded, now_ns: int) -> list[Command]:
        if self.run_state(event.run_id) is not QueueState.HOLDING:
            return [RefuseEvent(event, self.run_state(event.run_id))]
        del self._runs[event.run_id]
        return self._assign()

    def _fitting(self, selection: Selection) -> list[AgentRecord]:
        return [
            record
            for record in self._serving()
            if selection.fits(record.name, record.labels)
        ]

    def _assign(self) -> list[Command]:
        """Give agents to waiting runs, the oldest first."""
        commands: list[Command] = []
        taken_targets: set[str] = set()
        for entry in self._runs.values():
            if entry.state is QueueState.HOLDING:
                taken_targets |= entry.targets
        reserved: set[str] = set()
        for run_id, entry in self._runs.items():
            if entry.state is not QueueState.WAITING:
                continue
            fitting = self._fitting(entry.selection)
            needed = entry.selection.needed(len(fitting))
            if len(fitting) < needed:
                continue  # waits for agents that are not there: reserves nothing
            idle = [
                record
                for record in fitting
                if record.state is AgentState.IDLE and record.name not in reserved
            ]
            if len(idle) >= needed and not entry.targets & taken_targets:
                chosen = idle[:needed][: entry.selection.most]
                entry.state = QueueState.HOLDING
                for record in chosen:
                    record.state, record.run_id = AgentState.ASSIGNED, run_id
                names = tuple(record.name for record in idle[:needed])
                used = len(chosen)
                commands.append(AssignRun(run_id, names[:used], names[used:]))
            else:
                reserved |= {record.name for record in fitting}
            taken_targets |= entry.targets
        return commands
