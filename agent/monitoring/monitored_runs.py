# SPDX-License-Identifier: Apache-2.0
"""The agent's side of its monitor processes, one for each monitored run.

Their events go through the spool. A process that ends without a last word is reported
as failed: a run must not wait for it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial

from ldapslam.agent.children import MonitorChild
from ldapslam.agent.settings import AgentSettings
from ldapslam.agent.spool import Spool
from ldapslam.base.errors import LdapSlamError, RunAborted
from ldapslam.proto import agent_pb2
from ldapslam.proto import monitor_pb2 as pb
from ldapslam.proto.common_pb2 import RunAssignment
from ldapslam.transport.messages import failure_message

_log = logging.getLogger(__name__)

#: Beyond the coordinator timeout: the load is over by then.
_ORPHAN_SLACK_S = 900.0

Say = Callable[[pb.MonitorEvent], Awaitable[None]]


class MonitoredRun:
    """One run's monitor on this agent."""

    def __init__(self, run: RunAssignment, settings: AgentSettings, say: Say) -> None:
        self.run_id = run.run_id
        self._settings = settings
        self._say = say
        self._child: MonitorChild | None = None
        self._has_ended = False
        self._is_unwanted = False
        self._requests: asyncio.Queue[pb.MonitorRequest] = asyncio.Queue()
        self._coordinator_timeout_s = run.coordinator_timeout_ns / 1e9 + _ORPHAN_SLACK_S
        self._heard_s = time.monotonic()

    def start(self, t0_mono_ns: int) -> None:
        start = pb.StartMonitor(t0_mono_ns=t0_mono_ns)
        self._requests.put_nowait(pb.MonitorRequest(start=start))

    def conclude(self, *, verify: bool) -> None:
        """Ask for the last findings: no load is left."""
        conclude = pb.ConcludeMonitor(verify=verify)
        self._requests.put_nowait(pb.MonitorRequest(conclude=conclude))

    def heard(self) -> None:
        self._heard_s = time.monotonic()

    def end_if_orphaned(self) -> None:
        """Called now and then: perhaps nobody can end the run any more."""
        if time.monotonic() - self._heard_s > self._coordinator_timeout_s:
            self.end()

    def end(self) -> None:
        """At once; `serve` then returns."""
        self._is_unwanted = True
        if self._child is not None:
            self._child.kill()

    async def serve(self, run: RunAssignment) -> None:
        """Until the process has ended; cancelled, it is killed and reaped."""
        try:
            self._child = await self._launch(run)
        except (LdapSlamError, OSError) as error:
            await self._fail(f"the monitor did not start: {error}")
            return
        del run  # which came with its files
        child = self._child
        if self._is_unwanted:
            child.kill()
        telling = asyncio.create_task(self._tell(child))
        try:
            async for event in child.events():
                self._has_ended |= event.WhichOneof("kind") in ("finished", "failed")
                await self._say(event)
        except LdapSlamError as error:
            _log.error("run %s: %s", self.run_id, error)
        finally:
            telling.cancel()
            child.kill()
            how = await child.wait()
            _log.info("monitor process %d: %s", child.pid, how)
        if not self._has_ended:
            await self._fail(f"its process ended: {how}")

    async def _launch(self, run: RunAssignment) -> MonitorChild:
        settings = self._settings
        return await MonitorChild.launch(
            run,
            pb.PrepareMonitor(agent=settings.name, limits_json=settings.limits_json),
            work=settings.work_folder,
            log_path=settings.log_path("monitor", self.run_id),
            forks=settings.forks,
        )

    async def _tell(self, child: MonitorChild) -> None:
        while True:
            await child.send(await self._requests.get())

    async def _fail(self, reason: str) -> None:
        _log.error("run %s: monitor: %s", self.run_id, reason)
        await self._say(pb.MonitorEvent(failed=failure_message(RunAborted(reason))))


class MonitoredRuns:
    """All monitors of an agent."""

    def __init__(
        self, settings: AgentSettings, spool: Spool, has_reports: asyncio.Event
    ) -> None:
        self._settings = settings
        self._spool = spool
        self._has_reports = has_reports
        self._running: dict[str, tuple[MonitoredRun, asyncio.Task[None]]] = {}
        self._telling: set[asyncio.Task[None]] = set()

    def take_command(self, command: agent_pb2.Command) -> None:
        """Execute an order about monitors."""
        match command.WhichOneof("kind"):
            case "monitor":
                self._monitor(command.monitor.run)
            case "start" if found := self._of(command.start.run_id):
                found.start(command.start.t0_mono_ns)
            case "conclude" if found := self._of(command.conclude.run_id):
                found.conclude(verify=command.conclude.verify)
            case "conclude":
                self._report_no_monitor(command.conclude)
            case "end_monitoring" if found := self._of(command.end_monitoring.run_id):
                found.end()

    @property
    def runs(self) -> list[str]:
        return list(self._running)

    def heard(self) -> None:
        for monitored, _ in self._running.values():
            monitored.heard()

    def end_orphans(self) -> None:
        for monitored, _ in list(self._running.values()):
            monitored.end_if_orphaned()

    async def end_all(self) -> None:
        """The agent leaves: the last words are in the spool afterwards."""
        tasks = [task for _, task in self._running.values()]
        for monitored, _ in list(self._running.values()):
            monitored.end()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        """Nothing of ours is left running."""
        tasks = [task for _, task in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _of(self, run_id: str) -> MonitoredRun | None:
        return self._running[run_id][0] if run_id in self._running else None

    def _monitor(self, run: RunAssignment) -> None:
        run_id = run.run_id
        before = self._running.pop(run_id, None)
        if before is not None:
            before[1].cancel()  # of an earlier attempt
        say = partial(self._report, run_id, run.attempt, run.store_id)
        monitored = MonitoredRun(run, self._settings, say)
        task = asyncio.create_task(monitored.serve(run))
        self._running[run_id] = monitored, task
        task.add_done_callback(lambda done: self._forget(run_id, done))

    def _forget(self, run_id: str, task: asyncio.Task[None]) -> None:
        if run_id in self._running and self._running[run_id][1] is task:
            del self._running[run_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("run %s: monitor", run_id, exc_info=error)

    def _report_no_monitor(self, order: agent_pb2.ConcludeMonitoring) -> None:
        error = RunAborted("the agent has no monitor of the run any more")
        event = pb.MonitorEvent(failed=failure_message(error))
        report = self._report(order.run_id, order.attempt, "", event)
        task = asyncio.create_task(report)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _report(
        self, run_id: str, attempt: int, store_id: str, event: pb.MonitorEvent
    ) -> None:
        report = pb.MonitorReport(
            run_id=run_id,
            agent=self._settings.name,
            epoch=self._spool.epoch,
            attempt=attempt,
            event=event,
        )
        entry = agent_pb2.SpoolEntry(monitor=report, store_id=store_id)
        await asyncio.to_thread(self._spool.append, entry)
        self._has_reports.set()
