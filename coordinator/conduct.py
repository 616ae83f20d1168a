# SPDX-License-Identifier: Apache-2.0
"""Carries out what a run's state machine decides.

Commands go to the agents, states and facts to the journal, news to those who watch.
Events go in by `feed`, on the event loop, one at a time; nothing here waits. No gRPC.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from ldapslam.coordinator import run as machine
from ldapslam.coordinator.clock import ClockOffset
from ldapslam.coordinator.journal import Journal
from ldapslam.coordinator.link import AgentLink
from ldapslam.coordinator.live import LiveFigures
from ldapslam.coordinator.run import Run, RunState
from ldapslam.coordinator.submission import Submission
from ldapslam.jobs.errors import FleetError, LdapSlamError, StoreError
from ldapslam.proto import agent_pb2
from ldapslam.proto import operator_pb2 as pb
from ldapslam.proto.common_pb2 import RunAssignment, Snapshot
from ldapslam.proto.messages import failure_message
from ldapslam.reports.results.records import EventRecord, RunRecord, utc_text

_log = logging.getLogger(__name__)

#: The final state is written so often, a busy store having its own patience each time.
_END_ATTEMPTS = 5
_END_PAUSE_S = 1.0

#: A watcher's queue; None ends it.
Updates = asyncio.Queue[pb.RunUpdate | None]


class Fleet(Protocol):
    """What a run needs of the rest of the coordinator."""

    def link(self, agent: str) -> AgentLink | None: ...

    def run_concluded(self, run_id: str) -> None: ...


class ActiveRun:
    """One run that has not come to its end."""

    def __init__(
        self,
        submission: Submission,
        fleet: Fleet,
        journal: Journal,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.submission = submission
        self.record = submission.record
        #: Set when the final state is in the store, or cannot be written.
        self.concluded = asyncio.Event()
        self._fleet = fleet
        self._journal = journal
        self._now_ns = now_ns
        self._machine = Run(submission.limits)
        self._live = LiveFigures(())
        self._events: list[EventRecord] = []
        self._error: LdapSlamError | None = None
        self._watchers: set[Updates] = set()
        #: Agent -> its clock at the start.
        self._offsets: dict[str, ClockOffset] = {}
        self._servers: dict[str, Any] = {}
        self._control_operations: dict[str, dict[str, int]] = {}
        self._closing: asyncio.Task[None] | None = None

    @property
    def run_id(self) -> str:
        return self.record.run_id

    @property
    def state(self) -> RunState:
        return self._machine.state

    def feed(self, event: machine.RunEvent) -> None:
        """Have the machine take an event, and do what it decides."""
        for command in self._machine.handle(event, self._now_ns()):
            self._execute(command)

    def status(self) -> pb.RunStatus:
        return status_message(
            self.record, self._events, self._error, self.submission.limits.planned_ns
        )

    # Watchers.

    def subscribe(self) -> Updates:
        """A queue that gets the status now and every update from now on."""
        updates: Updates = asyncio.Queue()
        updates.put_nowait(pb.RunUpdate(status=self.status()))
        if self.concluded.is_set():
            updates.put_nowait(None)
        self._watchers.add(updates)
        return updates

    def unsubscribe(self, updates: Updates) -> None:
        self._watchers.discard(updates)

    def _notify(self, **update: Any) -> None:
        for updates in self._watchers:
            updates.put_nowait(pb.RunUpdate(**update))

    # What agents report beyond the machine's events.

    def add_snapshot(self, agent: str, snapshot: Snapshot) -> None:
        """Show an interval that was committed."""
        for figures in self._live.add(agent, snapshot):
            self._notify(figures=figures)

    def drop_agent(self, agent: str) -> None:
        """Show intervals without waiting for this agent."""
        for figures in self._live.drop(agent):
            self._notify(figures=figures)

    def add_facts(self, agent: str, facts: Mapping[str, Any]) -> None:
        """Keep an agent's facts; those about servers are the run's as well."""
        self._put_agent(agent, facts)
        for target in facts.get("targets") or ():
            known = {key: target[key] for key in _SERVER_FACTS if key in target}
            self._servers.setdefault(str(target.get("uri")), known)
        operations = [
            (uri, counts)
            for name in ("control_operations", "later_operations")
            for uri, counts in (facts.get(name) or {}).items()
        ]
        for uri, counts in operations:
            total = self._control_operations.setdefault(uri, {})
            for operation, count in counts.items():
                total[operation] = total.get(operation, 0) + count
        if operations:
            self._set_manifest(
                servers=self._servers, control_operations=self._control_operations
            )

    def add_clock_drift(self, agent: str) -> None:
        """The agent's part has ended: see how far its clock went meanwhile."""
        link, before = self._fleet.link(agent), self._offsets.get(agent)
        after = link.clock_offset(self._now_ns()) if link else None
        if before is None or after is None:
            return
        drift_ns = abs(after.offset_ns - before.offset_ns)
        bound_ns = max(after.bound_ns, before.bound_ns)
        self._put_agent(
            agent,
            {
                "clock_drift_us": drift_ns / 1000,
                "clock_offset_bound_us": bound_ns / 1000,
            },
        )

    def add_event(self, kind: str, text: str) -> None:
        """Add a line to the run's log."""
        _log.warning("run %s: %s: %s", self.run_id, kind, text)
        event = EventRecord(utc_text(datetime.now(UTC)), kind, text)
        self._events.append(event)
        self._journal.post(
            self._journal.store.add_event, self.run_id, kind, text, event.at_utc
        )
        self._notify(event=event_message(event))

    # Commands of the machine.

    def _execute(self, command: machine.Command) -> None:
        match command:
            case machine.PrepareAgents(agents):
                self._prepare(agents)
            case machine.StartAgents(agents, t0_ns):
                self._start(agents, t0_ns)
            case machine.StopAgents(agents, reason, abandon):
                stop = agent_pb2.StopRun(
                    run_id=self.run_id, reason=reason, abandon=abandon
                )
                for agent in agents:
                    self._send(agent, agent_pb2.Command(stop=stop))
            case machine.RecordState(state, detail):
                _log.info("run %s: %s %s", self.run_id, state, detail)
                self._set_state(state, detail)
                self._notify(status=self.status())
            case machine.RecordEvent(kind, text):
                self.add_event(kind, text)
            case machine.ConcludeRun(state, detail, error):
                self._conclude(state, detail, error)
            case machine.RefuseEvent(event, state):
                _log.debug("run %s, %s: refused %r", self.run_id, state, event)

    def _prepare(self, agents: tuple[str, ...]) -> None:
        self.record = replace(self.record, agents=agents)
        self._journal.post(self._journal.store.set_run_agents, self.run_id, agents)
        self._live = LiveFigures(agents)
        for index, agent in enumerate(agents):
            assignment = RunAssignment()
            assignment.CopyFrom(self.submission.assignment)
            assignment.agent_index = index
            assignment.agent_count = len(agents)
            link = self._fleet.link(agent)
            if link is not None:
                facts = {"epoch": link.identity.epoch, "build": link.identity.build}
                self._put_agent(agent, facts)
            self._send(agent, agent_pb2.Command(prepare=assignment))
        self._notify(status=self.status())

    def _start(self, agents: tuple[str, ...], t0_ns: int) -> None:
        ahead = timedelta(microseconds=(t0_ns - self._now_ns()) / 1000)
        t0_utc = utc_text(datetime.now(UTC) + ahead)
        self._set_state(self.state, self.record.state_detail, t0_utc=t0_utc)
        self._notify(status=self.status())
        for agent in agents:
            link = self._fleet.link(agent)
            offset = link.clock_offset(self._now_ns()) if link else None
            if offset is None:
                error = FleetError(
                    f"agent {agent!r} sent no clock sample: T0 cannot be told to it",
                    hint="see the agent's log",
                )
                # after this round of commands, not within it
                asyncio.get_running_loop().call_soon(
                    self.feed, machine.AgentFailed(agent, error)
                )
                continue
            self._offsets[agent] = offset
            self._put_agent(
                agent,
                {
                    "clock_offset_us": offset.offset_ns / 1000,
                    "clock_offset_bound_us": offset.bound_ns / 1000,
                },
            )
            start = agent_pb2.StartRun(
                run_id=self.run_id, t0_mono_ns=offset.to_agent_ns(t0_ns)
            )
            self._send(agent, agent_pb2.Command(start=start))

    def _send(self, agent: str, command: agent_pb2.Command) -> None:
        link = self._fleet.link(agent)
        if link is not None:
            link.send(command)

    def _conclude(
        self, state: RunState, detail: str, error: LdapSlamError | None
    ) -> None:
        _log.info("run %s: %s %s", self.run_id, state, detail)
        self._end_as(state, detail, error)
        first = self._journal.submit(self._store_end, self.record, error)
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
        """Tell of the end when it is stored: what watchers see of it is there."""
        try:
            for attempt in range(1, _END_ATTEMPTS + 1):
                try:
                    await written
                    break
                except StoreError as error:
                    _log.error("run %s: its end is not stored: %s", self.run_id, error)
                    if attempt == _END_ATTEMPTS:
                        self._end_as(RunState.FAILED, str(error), error)
                        break
                await asyncio.sleep(_END_PAUSE_S)
                written = self._journal.submit(
                    self._store_end, self.record, self._error
                )
        finally:
            self._notify(status=self.status())
            for updates in self._watchers:
                updates.put_nowait(None)
            self.concluded.set()
            self._fleet.run_concluded(self.run_id)

    def _store_end(self, record: RunRecord, error: LdapSlamError | None) -> None:
        """On the store's thread; any number of times."""
        store = self._journal.store
        if error is not None:
            store.set_manifest(record.run_id, {"failure": error.to_dict()})
        store.set_run_state(
            record.run_id,
            record.state,
            record.state_detail,
            finished_utc=record.finished_utc,
        )

    # The journal.

    def _set_state(self, state: RunState, detail: str, **times: str) -> None:
        if state is RunState.RUNNING:
            times["started_utc"] = utc_text(datetime.now(UTC))
        changes: dict[str, Any] = {"state": str(state), "state_detail": detail, **times}
        self.record = replace(self.record, **changes)
        self._journal.post(
            self._journal.store.set_run_state, self.run_id, str(state), detail, **times
        )

    def _set_manifest(self, **facts: Any) -> None:
        self._journal.post(self._journal.store.set_manifest, self.run_id, dict(facts))

    def _put_agent(self, agent: str, facts: Mapping[str, Any]) -> None:
        self._journal.post(
            self._journal.store.put_agent, self.run_id, agent, dict(facts)
        )


_SERVER_FACTS = (
    "vendor_name",
    "vendor_version",
    "monitor_version",
    "naming_contexts",
    "addresses",
)


def status_message(
    record: RunRecord,
    events: list[EventRecord],
    error: LdapSlamError | None,
    planned_ns: int,
) -> pb.RunStatus:
    """A run as operators see it."""
    return pb.RunStatus(
        run_id=record.run_id,
        job_name=record.job_name,
        state=record.state,
        state_detail=record.state_detail,
        failure=failure_message(error) if error is not None else None,
        submitted_utc=record.submitted_utc,
        submitted_by=record.submitted_by,
        t0_utc=record.t0_utc or "",
        finished_utc=record.finished_utc or "",
        agents=record.agents,
        planned_ns=planned_ns,
        events=[event_message(event) for event in events],
    )


def event_message(event: EventRecord) -> pb.RunEvent:
    return pb.RunEvent(at_utc=event.at_utc, kind=event.kind, text=event.text)
