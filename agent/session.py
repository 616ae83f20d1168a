# SPDX-License-Identifier: Apache-2.0
"""The agent without its connection: its slots, its spool, its leaving.

A slot serves one run at a time with a state machine and an engine process. All its
events go through one queue, so that commands are executed in the order in which they
were decided. No gRPC here: client.py feeds this and empties the spool.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import time
from collections.abc import Callable
from typing import Any

from ldapslam.agent import run as machine
from ldapslam.agent.assignment import trim_heap
from ldapslam.agent.children import EngineChild
from ldapslam.agent.ledgers.cleanup import clean_up_aside
from ldapslam.agent.ledgers.folder import folders_left, run_folder
from ldapslam.agent.monitoring.monitored_runs import MonitoredRuns
from ldapslam.agent.run import AgentRun, AgentRunEvent
from ldapslam.agent.settings import AgentSettings
from ldapslam.agent.spool import Spool
from ldapslam.base.errors import LdapSlamError, RunAborted
from ldapslam.proto import agent_pb2, engine_pb2
from ldapslam.proto.common_pb2 import RunAssignment
from ldapslam.results.packing import pack
from ldapslam.transport.messages import (
    decode_facts,
    error_of,
    facts_json,
    failure_message,
)

_log = logging.getLogger(__name__)
_TICK_S = 0.25
#: Agents of a run send reports this apart by their index, each at one of these places.
_APART_S, _PLACES = 0.001, 500


class AgentSession:
    """One agent: feed it, and have it serve."""

    def __init__(
        self,
        settings: AgentSettings,
        spool: Spool,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.settings = settings
        self.spool = spool
        #: Set when the spool has something to deliver.
        self.has_reports = asyncio.Event()
        #: Set when the agent is to stop serving.
        self.leaving: asyncio.Future[machine.LeaveFleet]
        self.leaving = asyncio.get_running_loop().create_future()
        self._slots = [Slot(self, now_ns) for _ in range(settings.max_runs)]
        #: From the order to prepare on.
        self._slot_of: dict[str, Slot] = {}
        self._left: list[machine.LeaveFleet] = []
        #: How long reports wait before they are sent.
        self.report_delay_s = 0.0
        self.monitored = MonitoredRuns(settings, spool, self.has_reports)
        if len(spool):
            self.has_reports.set()

    @property
    def runs(self) -> dict[str, str]:
        """Live runs -> their states."""
        return {slot.run_id: str(slot.state) for slot in self._slots if slot.run_id}

    def post(self, event: AgentRunEvent) -> None:
        for slot in self._slots:
            slot.post(event)
        if isinstance(event, machine.CoordinatorHeard):
            self.monitored.heard()

    def take_command(self, command: agent_pb2.Command) -> None:
        kind = command.WhichOneof("kind")
        self.monitored.take_command(command)
        if kind == "prepare":
            run_id = command.prepare.run_id
            slot = self._slot_of.setdefault(run_id, self._slot_for(run_id))
            slot.prepare(command.prepare)
        elif kind == "start":
            start = command.start
            self._tell(machine.StartReceived(start.run_id, start.t0_mono_ns))
        elif kind == "stop":
            stop = command.stop
            self._tell(machine.StopReceived(stop.run_id, stop.reason, stop.abandon))
        elif kind is None:
            _log.warning("unknown command %d", command.number)

    def _slot_for(self, run_id: str) -> Slot:
        """The run's slot, a free one, or one that will refuse."""
        taken = set(map(id, self._slot_of.values()))
        free = [slot for slot in self._slots if id(slot) not in taken]
        return self._slot_of.get(run_id) or (free or self._slots)[0]

    def _tell(self, event: machine.StartReceived | machine.StopReceived) -> None:
        slot = self._slot_of.get(event.run_id)
        if slot is not None:
            slot.post(event)

    def slot_idle(self, slot: Slot) -> None:
        """Called by a slot that has nothing to do."""
        for run_id in [name for name, one in self._slot_of.items() if one is slot]:
            del self._slot_of[run_id]

    def slot_left(self, order: machine.LeaveFleet) -> None:
        """Called by a slot that takes no more runs."""
        self._left.append(order)
        at_once = [one for one in self._left if one.at_once]
        if (at_once or len(self._left) >= len(self._slots)) and not self.leaving.done():
            self.leaving.set_result((at_once or self._left)[0])

    async def serve(self) -> None:
        """Work until cancelled; no process is left then."""
        # of runs whose agent was killed
        shutil.rmtree(self.settings.work_folder, ignore_errors=True)
        self._tell_of_entries_left()
        tasks = [asyncio.create_task(slot.serve()) for slot in self._slots]
        try:
            while True:
                # a slot that failed ends the agent
                done, _ = await asyncio.wait(
                    tasks, timeout=_TICK_S, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    task.result()
                self.post(machine.TimePassed())
                self.monitored.end_orphans()
        finally:
            await self.monitored.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _tell_of_entries_left(self) -> None:
        """Runs whose process was killed may have left entries."""
        spool = self.spool.folder
        for folder in folders_left(spool):
            _log.error(
                "run %s left entries in a directory: this agent's next run on its "
                "servers removes them, or `ldapslam run --cleanup %s --spool %s`",
                folder.name,
                folder.name,
                spool,
            )

    async def wait_until_delivered(self, timeout_s: float) -> bool:
        """False: there are reports that the coordinator has not acknowledged."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self.spool.has_more:
                    await asyncio.sleep(0.02)
        return not self.spool.has_more


#: Time for an engine's process to exit.
_EXIT_TIMEOUT_S = 2.0


class Slot:
    """One run after another."""

    def __init__(self, agent: AgentSession, now_ns: Callable[[], int]) -> None:
        self._agent = agent
        self.settings = agent.settings
        self.spool = agent.spool
        self._now_ns = now_ns
        self._machine = AgentRun()
        # with the process that an event comes from: it may be replaced by then
        self._events: asyncio.Queue[tuple[AgentRunEvent, EngineChild | None]]
        self._events = asyncio.Queue()
        self._assignments: dict[str, RunAssignment] = {}
        #: Run -> the coordinator's attempt, and the identity of its store.
        self._origins: dict[str, tuple[int, str]] = {}
        self._child: EngineChild | None = None
        self._listeners: set[asyncio.Task[None]] = set()

    @property
    def run_id(self) -> str | None:
        return self._machine.run_id

    @property
    def state(self) -> machine.AgentRunState:
        return self._machine.state

    def post(self, event: AgentRunEvent, source: EngineChild | None = None) -> None:
        self._events.put_nowait((event, source))

    def prepare(self, run: RunAssignment) -> None:
        self._assignments[run.run_id] = run
        self._origins[run.run_id] = run.attempt, run.store_id
        self._agent.report_delay_s = run.agent_index % _PLACES * _APART_S
        self.post(machine.PrepareReceived(run.run_id, run.coordinator_timeout_ns))

    async def serve(self) -> None:
        """Work until cancelled; no process is left then."""
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
                # the process is about to exit
                await asyncio.wait(self._listeners, timeout=_EXIT_TIMEOUT_S)
            self._kill()
            await asyncio.gather(*self._listeners, return_exceptions=True)

    async def _execute(self, command: machine.Command) -> None:
        match command:
            case machine.LaunchEngine(run_id):
                await self._launch(run_id)
            case machine.StartEngine(t0_mono_ns, lease_until_mono_ns):
                self._extend_lease(lease_until_mono_ns)
                start = engine_pb2.StartEngine(t0_mono_ns=t0_mono_ns)
                await self._tell(engine_pb2.EngineRequest(start=start))
                # only now: gRPC keeps a command until the next one
                trim_heap()
            case machine.ExtendLease(until_mono_ns):
                self._extend_lease(until_mono_ns)
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
                    attempt=self._origin(run_id)[0],
                    sequence=sequence,
                    packed=pack(snapshot),
                )
                await self._spool(run_id, interval=interval)
            case _:
                progress = self._progress(command)
                await self._spool(progress.run_id, progress=progress)
                if progress.WhichOneof("kind") in ("finished", "failed"):
                    self._origins.pop(progress.run_id, None)

    def _origin(self, run_id: str) -> tuple[int, str]:
        return self._origins.get(run_id, (0, ""))

    def _progress(self, command: machine.Command) -> agent_pb2.ProgressReport:
        run_id: str = getattr(command, "run_id")  # noqa: B009  of every report
        report = agent_pb2.ProgressReport(
            run_id=run_id,
            agent=self.settings.name,
            epoch=self.spool.epoch,
            attempt=self._origin(run_id)[0],
        )
        match command:
            case machine.ReportReady(facts=facts):
                report.ready.facts_json = facts_json(facts)
            case machine.ReportStarted(start_error_ns=start_error_ns):
                report.started.start_error_ns = start_error_ns
            case machine.ReportCleanUp(entries_left=entries_left):
                report.cleaning_up.entries_left = entries_left
            case machine.ReportFinished(_, early_reason, interval_count, facts):
                report.finished.early_reason = early_reason
                report.finished.interval_count = interval_count
                report.finished.facts_json = facts_json(facts)
            case machine.ReportFailed(error=error):
                _log.error("run %s: %s", run_id, error)
                self._assignments.pop(run_id, None)
                report.failed.CopyFrom(failure_message(error))
            case _:
                raise TypeError(f"not a report: {command!r}")
        return report

    async def _spool(self, run_id: str, **report: Any) -> None:
        entry = agent_pb2.SpoolEntry(**report, store_id=self._origin(run_id)[1])
        is_on_disk = await asyncio.to_thread(self.spool.append, entry)
        self._agent.has_reports.set()
        if not is_on_disk and self._machine.run_id is not None:
            # what cannot be stored must not be measured
            run_id = self._machine.run_id
            self.post(machine.StopReceived(run_id, self.spool.trouble))

    def _kill(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child = None

    def _extend_lease(self, until_mono_ns: int) -> None:
        if self._child is not None:
            self._child.lease.extend(until_mono_ns)

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
        try:
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
                work=settings.work_folder,
                log_path=settings.log_path("engine", run_id),
                forks=settings.forks,
                command=settings.engine_command,
            )
        except (LdapSlamError, OSError) as error:
            if not isinstance(error, LdapSlamError):
                error = RunAborted(f"the engine's process: {error}")
            self.post(machine.EngineFailed(error))
            return
        _log.info("run %s: engine process %d", run_id, child.pid)
        self._child = child
        listener = asyncio.create_task(self._listen(child, run_id))
        self._listeners.add(listener)
        listener.add_done_callback(self._listeners.discard)

    async def _listen(self, child: EngineChild, run_id: str) -> None:
        """Post a process's messages, and its end."""
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
