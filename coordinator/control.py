# SPDX-License-Identifier: Apache-2.0
"""The coordinator without gRPC: its parts, its start, its clock, its stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from ldapslam.base.clock_id import boot_id
from ldapslam.base.errors import LdapSlamError, RunAborted, StoreError, StoreFull
from ldapslam.coordinator.active_fleet import ActiveFleet
from ldapslam.coordinator.agent_service import AgentService
from ldapslam.coordinator.bounds import Bound
from ldapslam.coordinator.fleet import fleet as fleet_machine
from ldapslam.coordinator.observer import Observer
from ldapslam.coordinator.operator_service import OperatorService
from ldapslam.coordinator.run_queue import RunQueue
from ldapslam.coordinator.runs import run as run_machine
from ldapslam.coordinator.runs.crash_recovery import Resume, recovery_of
from ldapslam.coordinator.runs.judge import Judge, Sign, Verdicts
from ldapslam.coordinator.runs.live import MOST_KEPT_BYTES
from ldapslam.coordinator.runs.submission import reload_submission
from ldapslam.coordinator.security.audit_log import AuditLog
from ldapslam.coordinator.store_writer import MOST_KEPT, StoreWriter
from ldapslam.proto import operator_pb2 as pb
from ldapslam.results.records import OpenRun

_log = logging.getLogger(__name__)

_TICK_S = 0.25
#: A later tick means that this process stood still.
_STALL_S = 1.0
_CLOCK_INTERVAL_S = 10.0


class Coordinator:
    """Start it, call its services, stop it: all on one event loop."""

    def __init__(
        self,
        writer: StoreWriter,
        now_ns: Callable[[], int] = time.monotonic_ns,
        *,
        judge: Judge | None = None,
        observers: Sequence[Observer] = (),
        sign: Sign | None = None,
    ) -> None:
        """`sign` signs the digests of runs."""
        self.writer = writer
        self.audit = AuditLog(writer)
        self._verdicts = Verdicts(writer, judge, observers, sign)
        self.fleet = ActiveFleet(writer, now_ns, self._verdicts, observers)
        self.queue = RunQueue(self.fleet)
        self.agents = AgentService(self.fleet)
        self.operators = OperatorService(self.fleet, self.queue, self.audit)
        #: What there is only so much of -> how much now, and at most.
        self.bounds: dict[str, tuple[Callable[[], float], float]] = {
            Bound.STORE_WRITES: (lambda: writer.waiting, MOST_KEPT),
            Bound.LIVE_BYTES: (self._live_bytes, MOST_KEPT_BYTES),
        }
        self._ticker: asyncio.Task[None] | None = None
        #: Set when it has to end: nothing more can be stored.
        self.is_over = asyncio.Event()

    def _live_bytes(self) -> int:
        return max((run.live_bytes for run in self.fleet.runs.values()), default=0)

    async def start(self) -> None:
        """Take up the runs that a previous coordinator left open."""
        store = self.writer.store
        for run in await self.writer.call(store.open_runs):
            try:
                await self._recover(run)
            except StoreError:
                raise  # it says nothing of the run, which the next start finds again
            except Exception as error:
                if isinstance(error, LdapSlamError):
                    failure = error
                else:
                    _log.exception("run %s cannot be taken up", run.record.run_id)
                    failure = RunAborted(f"it could not be taken up again: {error}")
                self._forget(run.record.run_id)
                await self.fleet.close_record(
                    run.record, "coordinator_restarted", failure
                )
        await self._verdicts.judge_those_left()
        self.writer.is_started = True
        self._ticker = asyncio.create_task(self._tick())

    async def _recover(self, run: OpenRun) -> None:
        """LdapSlamError when the run has to end."""
        record = run.record
        if run.submission is None:
            raise RunAborted("the coordinator was restarted")
        request = pb.SubmitJobRequest.FromString(run.submission.request)
        submission = await asyncio.to_thread(reload_submission, request, record)
        events = await self.writer.call(self.writer.store.events, record.run_id)
        active = self.fleet.new_run(submission)
        plan = recovery_of(run)
        if plan is None:
            active.wait_again(events, run.parts)
            is_waiting = bool(request.not_before_utc or request.after_run)
            # it was given agents before
            active.is_released = not is_waiting or record.state != "queued"
            if active.is_released:
                self.queue.queue(active, may_wait=True)
            return
        self.fleet.feed(
            fleet_machine.RunRecovered(
                record.run_id,
                submission.targets,
                plan.awaited,
                submission.is_sharing,
                submission.lease_ns,
            )
        )
        own_t0_ns = self._own_t0_ns(plan, record.t0_utc)
        active.resume(plan, own_t0_ns, events, run.agents, run.parts)

    def _forget(self, run_id: str) -> None:
        """Remove a run that was recovered in part."""
        self.fleet.runs.pop(run_id, None)
        self.fleet.feed(fleet_machine.RunWithdrawn(run_id))
        self.fleet.feed(fleet_machine.RunEnded(run_id))

    def _own_t0_ns(self, plan: Resume, t0_utc: str | None) -> int:
        """T0 in our clock, unless this host has booted since."""
        if plan.boot_id == boot_id() or t0_utc is None:
            return plan.t0_mono_ns
        since = datetime.now(UTC) - datetime.fromisoformat(t0_utc)
        return self.fleet.now_ns() - round(since.total_seconds() * 1e9)

    async def stop(self, timeout_s: float = 0.0, *, leave_runs: bool = False) -> None:
        """Cancel live runs and give them time to drain, or leave them to the next
        coordinator."""
        # queued runs are kept for the next coordinator
        live = [one for one in self.fleet.runs.values() if not one.is_queued]
        runs = [] if leave_runs or self.writer.is_over else live
        for run in runs:
            run.feed(run_machine.CancelRequested("the coordinator, which is stopping"))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                for run in runs:
                    await run.concluded.wait()
                await self._verdicts.wait()
        await self._verdicts.stop()
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.gather(self._ticker, return_exceptions=True)
        for link in self.fleet.links.values():
            link.close()
        # the store writer tries until it is closed
        with contextlib.suppress(StoreError):
            await self.writer.flush()

    async def _tick(self) -> None:
        before_s = clocks_s = time.monotonic()
        while True:
            await asyncio.sleep(_TICK_S)
            now_s = time.monotonic()
            is_stalled, before_s = now_s - before_s > _STALL_S, now_s
            try:
                self._pass_time(is_stalled=is_stalled)
                self.writer.retry()
                if self.writer.is_over:
                    self.is_over.set()
                if now_s - clocks_s >= _CLOCK_INTERVAL_S:
                    clocks_s = now_s
                    self.writer.keep_claim()
                    for run in self.fleet.runs.values():
                        run.sample_clocks()
            except Exception:
                # a defect; time must go on
                _log.exception("the coordinator's clock")

    def _pass_time(self, *, is_stalled: bool) -> None:
        if not is_stalled:
            # after a stall, agents' messages are taken first
            self.fleet.feed(fleet_machine.TimePassed())
        failure = self.writer.failure
        # a full one ends runs; one that is locked or away comes back
        away = "" if isinstance(failure, StoreFull | None) else str(failure)
        for run in list(self.fleet.runs.values()):
            try:
                if not run.state.is_final:
                    run.feed(run_machine.TimePassed(away))
            except Exception:
                # a defect; time must go on for the other runs
                _log.exception("run %s: its clock", run.run_id)
