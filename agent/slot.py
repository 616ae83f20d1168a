# SPDX-License-Identifier: Apache-2.0
"""A place for one run at a time on an agent: its state machine and its engine process.

Events from the coordinator, the engine's process, signals and the clock go through one
queue, one at a time, so that commands are carried out in the order in which they were
decided. An agent has as many slots as it takes runs at a time (session.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from ldapslam.agent import run as machine
from ldapslam.agent.assignment import trim_heap
from ldapslam.agent.children import EngineChild
from ldapslam.agent.ledger_folder import run_folder, run_name
from ldapslam.agent.run import AgentRun, AgentRunEvent
from ldapslam.agent.run_ledgers import clean_up_aside
from ldapslam.agent.settings import AgentSettings
from ldapslam.agent.spool import Spool
from ldapslam.jobs.errors import LdapSlamError, RunAborted
from ldapslam.proto import agent_pb2, engine_pb2
from ldapslam.proto.common_pb2 import RunAssignment
from ldapslam.proto.messages import (
    decode_facts,
    error_of,
    facts_json,
    failure_message,
)

_log = logging.getLogger(__name__)
#: An engine's process gets so long to exit after its last word.
_EXIT_TIMEOUT_S = 2.0


class Agent(Protocol):
    """What a slot needs of its agent."""

    settings: AgentSettings
    spool: Spool
    has_reports: asyncio.Event

    def slot_idle(self, slot: Slot) -> None: ...

    def slot_left(self, order: machine.LeaveFleet) -> None: ...


class Slot:
    """One run after another."""

    def __init__(self, agent: Agent, now_ns: Callable[[], int]) -> None:
        self._agent = agent
        self.settings = agent.settings
        self.spool = agent.spool
        self._now_ns = now_ns
        self._machine = AgentRun()
        # with an engine process's events, the process: it may not be the current one
        # any more by the time the event is taken
        self._events: asyncio.Queue[tuple[AgentRunEvent, EngineChild | None]]
        self._events = asyncio.Queue()
        self._assignments: dict[str, RunAssignment] = {}
        #: Run -> which of the coordinator's attempts at it.
        self._attempts: dict[str, int] = {}
        self._child: EngineChild | None = None
        self._listeners: set[asyncio.Task[None]] = set()

    @property
    def run_id(self) -> str | None:
        return self._machine.run_id

    @property
    def state(self) -> machine.AgentRunState:
        return self._machine.state

    def post(self, event: AgentRunEvent, source: EngineChild | None = None) -> None:
        """Have the machine take an event, after those already posted."""
        self._events.put_nowait((event, source))

    def prepare(self, run: RunAssignment) -> None:
        """Have the machine take a run."""
        self._assignments[run.run_id] = run
        self._attempts[run.run_id] = run.attempt
        self.post(machine.PrepareReceived(run.run_id, run.orphan_grace_ns))

    async def serve(self) -> None:
        """Work until cancelled; then nothing of ours is left running."""
        try:
            while True:
                event, source = await self._events.get()
                if source is None or source is self._child:
                    for command in self._machine.handle(event, self._now_ns()):
                        await self._execute(command)
                if self._machine.run_id is None and self._events.empty():
                    self._agent.slot_idle(self)
        finally:
            if self._machine.run_id is None and self._listeners:
                # the run is over: its process is about to end by itself
                await asyncio.wait(self._listeners, timeout=_EXIT_TIMEOUT_S)
            self._kill()
            await asyncio.gather(*self._listeners, return_exceptions=True)

    @property
    def _work(self) -> Path:
        return work_folder(self.spool)

    async def _execute(self, command: machine.Command) -> None:
        match command:
            case machine.LaunchEngine(run_id):
                await self._launch(run_id)
            case machine.StartEngine(t0_mono_ns):
                start = engine_pb2.StartEngine(t0_mono_ns=t0_mono_ns)
                await self._tell(engine_pb2.EngineRequest(start=start))
                # only now: the connection keeps each command until the next one
                trim_heap()
            case machine.ExtendLease(until_mono_ns):
                lease = engine_pb2.ExtendLease(until_mono_ns=until_mono_ns)
                await self._tell(engine_pb2.EngineRequest(lease=lease))
            case machine.DrainEngine():
                stop = engine_pb2.StopEngine()
                await self._tell(engine_pb2.EngineRequest(stop=stop))
            case machine.KillEngine():
                self._kill()
            case machine.LeaveFleet():
                self._agent.slot_left(command)
            case machine.RefuseEvent(event, state):
                _log.debug("refused in state %s: %r", state, event)
            case machine.ReportInterval(run_id, sequence, snapshot):
                interval = agent_pb2.IntervalReport(
                    run_id=run_id,
                    agent=self.settings.name,
                    epoch=self.spool.epoch,
                    sequence=sequence,
                    snapshot=snapshot,
                )
                await self._spool(agent_pb2.SpoolEntry(interval=interval))
            case _:
                progress = self._progress(command)
                await self._spool(agent_pb2.SpoolEntry(progress=progress))

    def _progress(self, command: machine.Command) -> agent_pb2.ProgressReport:
        report = agent_pb2.ProgressReport(
            agent=self.settings.name, epoch=self.spool.epoch
        )
        match command:
            case machine.ReportReady(run_id, facts):
                report.run_id = run_id
                report.ready.facts_json = facts_json(facts)
            case machine.ReportStarted(run_id, start_error_ns):
                report.run_id = run_id
                report.started.start_error_ns = start_error_ns
            case machine.ReportCleanUp(run_id, entries_left):
                report.run_id = run_id
                report.cleaning_up.entries_left = entries_left
            case machine.ReportFinished(run_id, early_reason, interval_count, facts):
                report.run_id = run_id
                report.finished.early_reason = early_reason
                report.finished.interval_count = interval_count
                report.finished.facts_json = facts_json(facts)
            case machine.ReportFailed(run_id, error):
                _log.error("run %s: %s", run_id, error)
                self._assignments.pop(run_id, None)
                report.run_id = run_id
                report.failed.CopyFrom(failure_message(error))
            case _:
                raise TypeError(f"not a report: {command!r}")
        report.attempt = self._attempts.get(report.run_id, 0)
        if report.WhichOneof("kind") in ("finished", "failed"):
            self._attempts.pop(report.run_id, None)
        return report

    async def _spool(self, entry: agent_pb2.SpoolEntry) -> None:
        is_on_disk = await asyncio.to_thread(self.spool.append, entry)
        self._agent.has_reports.set()
        if not is_on_disk and self._machine.run_id is not None:
            # what cannot be kept must not be measured; what was, is in memory
            run_id = self._machine.run_id
            self.post(machine.StopReceived(run_id, self.spool.trouble))

    def _kill(self) -> None:
        """End the engine's process; its listener reaps it."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    async def _tell(self, request: engine_pb2.EngineRequest) -> None:
        if self._child is not None:
            await self._child.send(request)

    async def _launch(self, run_id: str) -> None:
        settings = self.settings
        assignment = self._assignments.pop(run_id, None)
        if assignment is None:  # it went with the refusal of an order before this one
            refused = RunAborted("the agent was busy when it was told of the run")
            self.post(machine.EngineFailed(refused))
            return
        logs = settings.logs or self.spool.folder / "logs"
        try:
            # the name is the operator's own, the run's id the coordinator's
            name = f"engine-{Path(settings.name).name}-{run_name(run_id)}.log"
            prepare = engine_pb2.PrepareEngine(
                agent=settings.name,
                workers=settings.workers or 0,
                realtime=settings.realtime,
                ledger_folder=str(run_folder(self.spool.folder, run_id)),
                limits_json=settings.limits_json,
            )
            child = await EngineChild.launch(
                assignment,
                prepare,
                work=self._work,
                log_path=logs / name,
                forks=settings.forks,
                command=settings.engine_command,
            )
        except (LdapSlamError, OSError) as error:
            failure = error if isinstance(error, LdapSlamError) else None
            failure = failure or RunAborted(f"the engine's process: {error}")
            self.post(machine.EngineFailed(failure))
            return
        _log.info("run %s: engine process %d", run_id, child.pid)
        self._child = child
        listener = asyncio.create_task(self._listen(child, run_id))
        self._listeners.add(listener)
        listener.add_done_callback(self._listeners.discard)

    async def _listen(self, child: EngineChild, run_id: str) -> None:
        """Post what a process says, and its end."""
        try:
            async for message in child.events():
                event = _engine_event(message)
                if event is not None:
                    self.post(event, child)
        except LdapSlamError as error:
            child.kill()
            self.post(machine.EngineFailed(error), child)
        finally:
            how = await child.wait()
            _log.info("engine process %d: %s", child.pid, how)
            self.post(machine.EngineExited(how), child)
            if how.startswith("killed"):
                clean_up_aside(run_folder(self.spool.folder, run_id))


def work_folder(spool: Spool) -> Path:
    """Where the files of runs under way are."""
    return spool.folder / "work"


def _engine_event(message: engine_pb2.EngineEvent) -> AgentRunEvent | None:
    match message.WhichOneof("kind"):
        case "ready":
            ready = message.ready
            facts = decode_facts(ready.facts_json)
            return machine.EngineReady(facts, ready.interval_count, ready.grace_ns)
        case "started":
            return machine.EngineStarted(message.started.start_error_ns)
        case "snapshot":
            snapshot = message.snapshot
            return machine.IntervalClosed(snapshot.index, snapshot, snapshot.final)
        case "cleaning_up":
            return machine.CleanUpProgressed(message.cleaning_up.entries_left)
        case "finished":
            finished = message.finished
            return machine.EngineFinished(
                decode_facts(finished.facts_json), finished.early_reason
            )
        case "failed":
            return machine.EngineFailed(error_of(message.failed))
        case _:
            return None
