# SPDX-License-Identifier: Apache-2.0
"""Executes the commands of a run's state machine. No gRPC.

Events go in by `feed`, on the event loop, one at a time; nothing here waits.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from operator import methodcaller
from typing import Protocol

from ldapslam.base.clock_id import boot_id
from ldapslam.base.errors import (
    FleetError,
    LdapSlamError,
    RunAborted,
    StoreError,
    StoreFull,
    StoreRefused,
)
from ldapslam.coordinator.bounds import Bound, note_exceeded
from ldapslam.coordinator.fleet.clock import ClockOffset
from ldapslam.coordinator.fleet.link import AgentLink
from ldapslam.coordinator.fleet.selection import first_of_each_host
from ldapslam.coordinator.observer import Observer
from ldapslam.coordinator.runs import run as machine
from ldapslam.coordinator.runs.crash_recovery import Resume, ending_facts
from ldapslam.coordinator.runs.ingest import room_bytes, with_report
from ldapslam.coordinator.runs.live import LiveStatistics, Measured
from ldapslam.coordinator.runs.run import Run, RunState
from ldapslam.coordinator.runs.status import event_message, status_message
from ldapslam.coordinator.runs.submission import Submission
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.proto import agent_pb2
from ldapslam.proto import operator_pb2 as pb
from ldapslam.proto.common_pb2 import RunAssignment, Snapshot
from ldapslam.results.facts import (
    AgentFacts,
    Manifest,
    Observed,
    ServerIdentity,
    Start,
)
from ldapslam.results.records import NO_PART, EventRecord, Part, RunRecord, utc_text

_log = logging.getLogger(__name__)

#: Attempts to write the final state; each waits for a busy store.
_END_ATTEMPTS = 5
_END_PAUSE_S = 1.0
_START_PAUSE_S = 0.2
#: Statistics that a watcher may leave unread before it gets no more.
_MOST_UNREAD = 1000
#: A watcher's queue; None ends it.
Updates = asyncio.Queue[pb.RunUpdate | None]


class Fleet(Protocol):
    """What a run needs of the rest of the coordinator."""

    def link(self, agent: str) -> AgentLink | None: ...

    def requeue(self, run_id: str, agents: tuple[str, ...]) -> None: ...

    def release_agents(self, run_id: str, agents: tuple[str, ...]) -> None: ...

    def load_begins(self, run_id: str) -> None: ...

    def run_concluded(self, run: ActiveRun) -> None: ...


class ActiveRun:
    """One run that has not come to its end."""

    def __init__(
        self,
        submission: Submission,
        fleet: Fleet,
        writer: StoreWriter,
        now_ns: Callable[[], int] = time.monotonic_ns,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.submission = submission
        self.record = submission.record
        #: Time and order allow it to begin.
        self.is_released = True
        #: Set when the final state is in the store, or cannot be written.
        self.concluded = asyncio.Event()
        self._fleet = fleet
        self._writer = writer
        self._now_ns = now_ns
        self._machine = Run(submission.limits)
        self._live = LiveStatistics(())
        self._events: list[EventRecord] = []
        self._error: LdapSlamError | None = None
        self._watchers: set[Updates] = set()
        #: Agent -> its clock at the start.
        self._offsets: dict[str, ClockOffset] = {}
        self._servers: dict[str, ServerIdentity] = {}
        self._control_operations: dict[str, dict[str, int]] = {}
        self._closing: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[None] | None = None
        self._observers = observers
        self._clock_at_ns: dict[str, int] = {}
        #: Agent -> its part of the current attempt.
        self._parts: dict[str, Part] = {}
        self.refusals = 0

    def resume(
        self,
        plan: Resume,
        t0_ns: int,
        events: Iterable[EventRecord],
        agents: Mapping[str, AgentFacts],
        parts: Mapping[str, Part],
    ) -> None:
        """Continue the run of another coordinator."""
        self._events, self._parts = list(events), dict(parts)
        self._live = LiveStatistics(
            (agent for agent, part in plan.parts.items() if not part.is_over),
            self.record.plan,
        )
        for agent, facts in agents.items():
            offset_us, bound_us = facts.clock_offset_us, facts.clock_offset_bound_us
            if offset_us is not None and bound_us is not None:
                self._offsets[agent] = ClockOffset(
                    round(offset_us * 1000), round(bound_us * 1000)
                )
        manifest = self.record.manifest
        self._servers = dict(manifest.servers)
        self._control_operations = {
            uri: dict(counts) for uri, counts in manifest.control_operations.items()
        }
        text = "taken up by a coordinator that was started again"
        self.add_event("coordinator_restarted", text)
        adopted = (*manifest.adopted, utc_text(datetime.now(UTC)))
        self._set_manifest(Manifest(adopted=adopted))
        over = machine.Watch.ENDED
        ended = [agent for agent in agents if agents[agent].observer == over]
        for command in self._machine.resume(
            plan.state, plan.parts, t0_ns, plan.ending, self._now_ns(), ended
        ):
            self._execute(command)

    def wait_again(
        self, events: Iterable[EventRecord], parts: Mapping[str, Part]
    ) -> None:
        """Wait in the queue again."""
        self._events, self._parts = list(events), dict(parts)
        if self.record.state != RunState.QUEUED:
            text = "queued again: the coordinator was restarted before the load began"
            self.add_event("coordinator_restarted", text)
            self._set_state(RunState.QUEUED, text)

    @property
    def run_id(self) -> str:
        return self.record.run_id

    @property
    def state(self) -> RunState:
        return self._machine.state

    @property
    def is_queued(self) -> bool:
        return self.state is RunState.QUEUED

    def feed_later(self, event: machine.RunEvent) -> None:
        """Not within this round of commands or runs."""
        asyncio.get_running_loop().call_soon(self.feed, event)

    def feed(self, event: machine.RunEvent) -> None:
        before, watches = dict(self._machine.parts), dict(self._machine.watches)
        commands = self._machine.handle(event, self._now_ns())
        for agent, part in self._machine.parts.items():
            # stored before the report is acknowledged
            if before.get(agent, part) is not part:
                self._put_agent(agent, AgentFacts(part=str(part)))
        for agent, watch in self._machine.watches.items():
            if watch is machine.Watch.ENDED and watches.get(agent) is not watch:
                self._put_agent(agent, AgentFacts(observer=str(watch)))
        for command in commands:
            self._execute(command)

    def take_up_part(self, agent: str, state: str) -> None:
        """An agent of a resumed run has registered in this state."""
        if state in ("preparing", "ready") and self.state is not RunState.PREPARING:
            error = RunAborted("the order to start was lost with the coordinator")
            self._stop((agent,), error.reason, abandon=True)
            self.feed(machine.AgentFailed(agent, error))
        elif not self._machine.ending.is_planned and state != "draining":
            self._stop((agent,), self._machine.ending.detail)

    def awaits_monitor(self, agent: str) -> bool:
        """Whether the agent was told to monitor, and has not said what."""
        return self._machine.watches.get(agent) is machine.Watch.ASSIGNED

    def has_open_watch(self, agent: str) -> bool:
        """Whether the agent's monitor has more to tell."""
        watch = self._machine.watches.get(agent, machine.Watch.ENDED)
        return watch is not machine.Watch.ENDED

    def take_up_monitor(self, agent: str) -> None:
        """The agent's monitor has registered again: orders may be lost."""
        if not self.has_open_watch(agent):
            self._end_monitors((agent,))
        elif self._machine.is_concluding:
            self._conclude_monitors((agent,), self._machine.ending.is_verified)

    def refuse_monitor(self, agent: str, reason: str) -> None:
        """A report of the agent's monitor cannot be stored."""
        self._end_monitors((agent,))
        self.feed(machine.MonitorEnded(agent, reason))

    def stored_part(self, agent: str) -> Part:
        """The agent's part of the current attempt, as the store has it."""
        return self._parts.get(agent, NO_PART)

    def seal_part(self, agent: str) -> None:
        """The agent has said its last word."""
        part = self._parts[agent]
        self._parts[agent] = part._replace(is_sealed=True)
        seal = self._writer.store.seal_part
        self._writer.post(seal, self.run_id, agent, part.attempt)

    @property
    def elapsed_ns(self) -> int:
        """Since T0; 0 before it."""
        t0_ns = self._machine.t0_ns
        return 0 if t0_ns is None else max(0, self._now_ns() - t0_ns)

    def part(self, agent: str) -> machine.Part:
        return self._machine.parts.get(agent, machine.Part.LOST)

    def note_progress(self, agent: str, measured_ns: int) -> None:
        """Await an agent that delivers after its load longer."""
        if self.state is RunState.DRAINING and self.has_live_part(agent):
            self.feed(machine.PartProgressed(agent, measured_ns))

    def has_live_part(self, agent: str) -> bool:
        return not self.part(agent).is_over

    def sample_clocks(self) -> None:
        """Keep the best exchange with each agent's clock since the last call."""
        t0_ns = self._machine.t0_ns
        if t0_ns is None or self.state not in (RunState.RUNNING, RunState.DRAINING):
            return
        rows = []
        for agent in self._machine.parts:
            link = self._fleet.link(agent)
            if link is None or not self.has_live_part(agent):
                continue
            since_ns = max(t0_ns, self._clock_at_ns.get(agent, 0))
            found = link.best_exchange(since_ns)
            if found is not None:
                at_ns, offset = found
                self._clock_at_ns[agent] = at_ns
                rows.append((agent, at_ns - t0_ns, offset.offset_ns, offset.bound_ns))
        if rows:
            self._writer.post(self._writer.store.add_clock_samples, self.run_id, rows)

    def announce(self) -> None:
        status = self.status()
        self._notify(pb.RunUpdate(status=status))
        self._observe(methodcaller("run_changed", status))

    def set_queue_reason(self, detail: str) -> None:
        self._set_state(RunState.QUEUED, detail)
        self.announce()

    @property
    def live_bytes(self) -> int:
        return self._live.kept_bytes

    def status(self) -> pb.RunStatus:
        return status_message(
            self.record, self._events, self._error, self.submission.limits.planned_ns
        )

    def subscribe(self) -> Updates:
        updates: Updates = asyncio.Queue()
        updates.put_nowait(pb.RunUpdate(status=self.status()))
        if self.concluded.is_set():
            updates.put_nowait(None)
        self._watchers.add(updates)
        return updates

    def unsubscribe(self, updates: Updates) -> None:
        self._watchers.discard(updates)

    def _notify(self, update: pb.RunUpdate) -> None:
        for updates in self._watchers:
            # a watcher that does not read must not fill the memory
            if not update.HasField("figures") or updates.qsize() < _MOST_UNREAD:
                updates.put_nowait(update)
            else:
                note_exceeded(Bound.UNREAD)

    def _observe(self, tell: Callable[[Observer], object]) -> None:
        for observer in self._observers:
            try:
                tell(observer)
            except Exception:
                _log.exception("run %s: an observer failed", self.run_id)

    def _show(self, measured: Iterable[Measured]) -> None:
        for interval in measured:
            self._notify(pb.RunUpdate(figures=interval.figures))
            self._observe(methodcaller("interval_measured", self.run_id, *interval))

    def add_snapshot(self, agent: str, snapshot: Snapshot) -> None:
        self._show(self._live.add(agent, snapshot))
        if self._live.abort_reason and self.state is RunState.RUNNING:
            self.feed(machine.ThresholdMissed(self._live.abort_reason))

    def drop_agent(self, agent: str) -> None:
        """Do not wait for this agent's intervals."""
        self._show(self._live.drop(agent))

    def add_facts(self, agent: str, facts: AgentFacts) -> None:
        """Keep an agent's facts; those about servers are the run's too."""
        self._put_agent(agent, facts)
        for target in facts.targets:
            self._servers.setdefault(target.uri, target.identity)
        operations = [
            *facts.control_operations.items(),
            *facts.later_operations.items(),
        ]
        for uri, counts in operations:
            total = self._control_operations.setdefault(uri, {})
            for operation, count in counts.items():
                total[operation] = total.get(operation, 0) + count
        if operations:
            self._set_manifest(
                Manifest(
                    servers=self._servers, control_operations=self._control_operations
                )
            )

    def add_monitor_facts(self, facts: Observed) -> None:
        if facts.model_fields_set:
            self._set_manifest(with_report(self.record.manifest, facts))

    def add_clock_drift(self, agent: str) -> None:
        """The agent's part has ended: how far did its clock drift?"""
        link, before = self._fleet.link(agent), self._offsets.get(agent)
        after = link.clock_offset(self._now_ns()) if link else None
        if before is None or after is None:
            return
        drift_ns = abs(after.offset_ns - before.offset_ns)
        facts = AgentFacts(clock_drift_us=drift_ns / 1000)
        if agent not in self._clock_at_ns:
            # without samples, which say how well it was known at each time
            bound_us = max(after.bound_ns, before.bound_ns) / 1000
            facts = facts.updated(AgentFacts(clock_offset_bound_us=bound_us))
        self._put_agent(agent, facts)

    def add_event(self, kind: str, text: str) -> None:
        _log.warning("run %s: %s: %s", self.run_id, kind, text)
        event = EventRecord(utc_text(datetime.now(UTC)), kind, text)
        self._events.append(event)
        self._writer.post(
            self._writer.store.add_event, self.run_id, kind, text, event.at_utc
        )
        self._notify(pb.RunUpdate(event=event_message(event)))

    def _execute(self, command: machine.Command) -> None:
        match command:
            case machine.PrepareAgents(agents):
                self._prepare(agents)
            case machine.StartAgents(agents, t0_ns, tell_until_ns):
                self._start(agents, t0_ns, tell_until_ns)
            case machine.StopAgents(agents, reason, abandon):
                self._stop(agents, reason, abandon=abandon)
            case machine.MonitorServers(agents):
                self._assign(agents)
                self._monitor(agents)
            case machine.ConcludeMonitors(agents, verify):
                self._conclude_monitors(agents, verify)
            case machine.EndMonitors(agents):
                self._end_monitors(agents)
            case machine.ReleaseAgents(agents):
                self._fleet.release_agents(self.run_id, agents)
            case machine.RequeueRun(agents):
                self._fleet.requeue(self.run_id, agents)
            case machine.RecordState(state, detail):
                _log.info("run %s: %s %s", self.run_id, state, detail)
                if state is RunState.DRAINING:
                    begun_ns = self._machine.t0_ns
                    since_ns = None if begun_ns is None else self._now_ns() - begun_ns
                    known = self.record.manifest.ending
                    ending = ending_facts(self._machine.ending, since_ns, known)
                    self._set_manifest(Manifest(ending=ending))
                self._set_state(state, detail)
                self.announce()
            case machine.RecordEvent(kind, text):
                self.add_event(kind, text)
            case machine.ConcludeRun(state, detail, error):
                self._conclude(state, detail, error)
            case machine.RefuseEvent(event, state):
                _log.debug("run %s, %s: refused %r", self.run_id, state, event)

    def _assign(self, agents: tuple[str, ...]) -> None:
        """Begin a new attempt with these agents."""
        self.record = replace(self.record, agents=agents)
        self._writer.post(self._writer.store.set_run_agents, self.run_id, agents)
        attempt = secrets.randbits(62) + 1
        self._parts = {}
        room = room_bytes(self.record.plan)
        for agent in agents:
            link = self._fleet.link(agent)
            if link is not None:
                epoch, build = link.identity.epoch, link.identity.build
                part = self._parts[agent] = Part(attempt, epoch, room_bytes=room)
                facts = AgentFacts(
                    epoch=epoch, build=build, attempt=attempt, observer=""
                )
                self._put_agent(agent, facts, part)
        self.announce()

    def _prepare(self, agents: tuple[str, ...]) -> None:
        if not self.submission.limits.monitored:
            self._assign(agents)
        self._live = LiveStatistics(agents, self.record.plan)
        everyone = self.record.agents
        for index, agent in enumerate(everyone):
            if agent in agents:
                part = self._assignment(agent, index, len(everyone))
                self._send(agent_pb2.Command(prepare=part), agent)

    def _monitor(self, agents: tuple[str, ...]) -> None:
        """The first agent of each host monitors it, the run's first agent the
        directories too."""
        links = {agent: self._fleet.link(agent) for agent in agents}
        hosts = {agent: link.identity.host_id for agent, link in links.items() if link}
        monitors = first_of_each_host(agents, hosts)
        for index, agent in enumerate(agents):
            if agent in monitors:
                part = self._assignment(agent, index, len(agents))
                order = agent_pb2.MonitorRun(run=part)
                self._send(agent_pb2.Command(monitor=order), agent)
            else:
                self.feed_later(machine.MonitorEnded(agent))

    def _conclude_monitors(self, agents: Iterable[str], verify: bool) -> None:
        for agent in agents:
            attempt = self.stored_part(agent).attempt
            order = agent_pb2.ConcludeMonitoring(
                run_id=self.run_id, verify=verify, attempt=attempt
            )
            self._send(agent_pb2.Command(conclude=order), agent)

    def _end_monitors(self, agents: Iterable[str]) -> None:
        order = agent_pb2.EndMonitoring(run_id=self.run_id)
        self._send(agent_pb2.Command(end_monitoring=order), *agents)

    def _assignment(self, agent: str, index: int, count: int) -> RunAssignment:
        part = RunAssignment()
        part.CopyFrom(self.submission.assignment)
        part.agent_index, part.agent_count = index, count
        part.attempt = self.stored_part(agent).attempt
        part.store_id = self._writer.store.store_id
        return part

    def _start(self, agents: tuple[str, ...], t0_ns: int, tell_until_ns: int) -> None:
        ahead = timedelta(microseconds=(t0_ns - self._now_ns()) / 1000)
        t0_utc = utc_text(datetime.now(UTC) + ahead)
        self._set_manifest(Manifest(t0=Start(mono_ns=t0_ns, boot_id=boot_id())))
        self._set_state(self.state, self.record.state_detail, t0_utc=t0_utc)
        self.announce()
        orders = {}
        for agent in agents:
            link = self._fleet.link(agent)
            offset = link.clock_offset(self._now_ns()) if link else None
            if offset is None:
                text = f"agent {agent!r} sent no clock sample: T0 cannot be told to it"
                error = FleetError(text, hint="see the agent's log")
                self.feed_later(machine.AgentFailed(agent, error))
                continue
            self._offsets[agent] = offset
            facts = AgentFacts(
                clock_offset_us=offset.offset_ns / 1000,
                clock_offset_bound_us=offset.bound_ns / 1000,
            )
            self._put_agent(agent, facts)
            orders[agent] = offset.to_agent_ns(t0_ns)
        self._starting = asyncio.create_task(self._order_start(orders, tell_until_ns))

    async def _order_start(self, orders: Mapping[str, int], tell_until_ns: int) -> None:
        """Order the start once it is stored, for the next coordinator to know."""
        while True:
            try:
                await self._writer.flush(self.run_id)
                break
            except StoreError as error:
                if self._writer.is_over:
                    return  # the run is another coordinator's now
                is_lasting = isinstance(error, StoreFull | StoreRefused)
                if is_lasting or self._now_ns() > tell_until_ns:
                    self.feed(machine.StoreFailed(error))
                    return
            await asyncio.sleep(_START_PAUSE_S)
        if self._now_ns() > tell_until_ns:
            _log.warning("run %s: it took long to store the start", self.run_id)
            self._set_manifest(Manifest(t0=None))  # nobody was told
            self.feed(machine.StartDelayed())
            return
        self._fleet.load_begins(self.run_id)
        for agent, t0_mono_ns in orders.items():
            start = agent_pb2.StartRun(run_id=self.run_id, t0_mono_ns=t0_mono_ns)
            self._send(agent_pb2.Command(start=start), agent)

    def _stop(
        self, agents: Iterable[str], reason: str, *, abandon: bool = False
    ) -> None:
        stop = agent_pb2.StopRun(run_id=self.run_id, reason=reason, abandon=abandon)
        self._send(agent_pb2.Command(stop=stop), *agents)

    def _send(self, order: agent_pb2.Command, *agents: str) -> None:
        for link in map(self._fleet.link, agents):
            if link is not None:
                link.send(order)

    def _conclude(
        self, state: RunState, detail: str, error: LdapSlamError | None
    ) -> None:
        _log.info("run %s: %s %s", self.run_id, state, detail)
        self._end_as(state, detail, error)
        first = self._writer.submit(self._store_end, self.record, error)
        self._closing = asyncio.create_task(self._close(first))

    def _end_as(
        self, state: RunState, detail: str, error: LdapSlamError | None
    ) -> None:
        self._error = error
        self.record = replace(
            self.record,
            state=str(state),
            state_detail=detail,
            finished_utc=utc_text(datetime.now(UTC)),
        )

    async def _close(self, written: asyncio.Future[None]) -> None:
        """Conclude once the end is stored."""
        try:
            attempts = 0
            while True:
                try:
                    await written
                    break
                except StoreError as error:
                    _log.error("run %s: its end is not stored: %s", self.run_id, error)
                    # any other fault may pass
                    attempts += isinstance(error, StoreFull | StoreRefused)
                    if attempts == _END_ATTEMPTS:
                        self._end_as(RunState.FAILED, str(error), error)
                        self._writer.post(self._store_end, self.record, error)
                        break
                await asyncio.sleep(_END_PAUSE_S)
                written = self._writer.submit(self._store_end, self.record, self._error)
        finally:
            self.announce()
            for updates in self._watchers:
                updates.put_nowait(None)
            self.concluded.set()
            self._fleet.run_concluded(self)

    def _store_end(self, record: RunRecord, error: LdapSlamError | None) -> None:
        """On the store's thread; may be repeated."""
        store = self._writer.store
        if error is not None:
            store.set_manifest(record.run_id, Manifest(failure=error.to_dict()))
        store.set_run_state(
            record.run_id,
            record.state,
            record.state_detail,
            finished_utc=record.finished_utc,
        )
        store.forget_submission(record.run_id)

    def _set_state(
        self, state: RunState, detail: str, t0_utc: str | None = None
    ) -> None:
        started_utc = self.record.started_utc
        if state is RunState.RUNNING:
            started_utc = utc_text(datetime.now(UTC))
        self.record = record = replace(
            self.record,
            state=str(state),
            state_detail=detail,
            t0_utc=t0_utc or self.record.t0_utc,
            started_utc=started_utc,
        )
        self._writer.post(
            self._writer.store.set_run_state,
            self.run_id,
            record.state,
            detail,
            t0_utc=record.t0_utc,
            started_utc=started_utc,
        )

    def _set_manifest(self, facts: Manifest) -> None:
        manifest = self.record.manifest.updated(facts)
        self.record = replace(self.record, manifest=manifest)
        self._writer.post(self._writer.store.set_manifest, self.run_id, facts)

    def _put_agent(
        self, agent: str, facts: AgentFacts, part: Part | None = None
    ) -> None:
        put_agent = self._writer.store.put_agent
        self._writer.post(put_agent, self.run_id, agent, facts, part)
