# SPDX-License-Identifier: Apache-2.0
"""Has runs begin when their time has come: schedules, `--at`, `--after`.

Once a second, or whenever a test says so, `tick` settles the times that are due and
sees to the runs that wait. What is decided is in schedule.py; here it is done, in an
order that lets a crash anywhere neither lose nor double a run:

1. One transaction inserts the time's row, `submitting`, with the id that its run will
   have. The row's key is (schedule, time): a time is settled once. Before it, nothing
   has happened, and the time is found due again.
2. The run is submitted under this id, which the coordinator commits.
3. A second transaction makes the row `submitted`.

After a crash rows that are still `submitting` are looked at: a run that the store has
was submitted, another one is submitted now, or left out when it is too late for the
misfire policy. A wall clock that jumps back finds its times settled; one that jumps
ahead finds them missed.

A schedule's runs are submitted as runs that wait, and released when no run of an
earlier time is left that has not ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import islice, takewhile

from ldapslam.base.errors import LdapSlamError, StoreError
from ldapslam.base.time_zone import clock_text, parse_utc, utc_now
from ldapslam.coordinator.run_queue import RunQueue
from ldapslam.coordinator.runs.submission import new_run_id
from ldapslam.coordinator.schedules.recurrence import times
from ldapslam.coordinator.schedules.schedule import (
    Decision,
    Drop,
    Misfire,
    Outcome,
    Overlap,
    Release,
    State,
    decide,
    next_step,
)
from ldapslam.coordinator.schedules.schedule_store import (
    Entry,
    ScheduleStore,
    run_request,
)
from ldapslam.coordinator.security.audit_log import AuditLog, note_of_caller
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.results import schedule_store
from ldapslam.results.records import utc_text
from ldapslam.results.schedule_store import FireRecord, RunEnd

_log = logging.getLogger(__name__)

TICK_S = 1.0
_BATCH = 500


class Scheduler:
    """Works on the coordinator's queue; the store says which runs have ended."""

    def __init__(
        self,
        writer: StoreWriter,
        queue: RunQueue,
        now_utc: Callable[[], datetime] = utc_now,
        audit: AuditLog | None = None,
    ) -> None:
        self.schedules = ScheduleStore(writer)
        self._writer = writer
        self._queue = queue
        self._now_utc = now_utc
        self._audit = audit
        #: Held during changes of the schedules.
        self._lock = asyncio.Lock()
        #: Times whose runs are being submitted, after a crash or while the store is
        #: busy.
        self._unfinished: list[FireRecord] = []
        #: The store's answer was lost: it may have settled times.
        self._is_unsure = False
        self._ticker: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load, settle what passed without a coordinator, begin to tick."""
        await self.load()
        await self._try_tick()
        self._ticker = asyncio.create_task(self._tick_for_ever())

    async def load(self) -> None:
        await self.schedules.load()
        await self._load_unfinished()

    async def _load_unfinished(self) -> None:
        store = self._writer.store
        self._unfinished = await self._writer.call(schedule_store.unfinished, store)
        self._is_unsure = False

    async def stop(self) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.gather(self._ticker, return_exceptions=True)

    async def _tick_for_ever(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            await self._try_tick()

    async def _try_tick(self) -> None:
        try:
            await self.tick()
        except StoreError as error:
            # the next tick continues
            _log.error("the scheduler has to wait: %s", error)
        except Exception:
            _log.exception("the scheduler failed; it goes on")

    async def tick(self) -> None:
        async with self._lock:
            now = self._now_utc()
            try:
                await self._settle_all(now)
            finally:
                await self._see_to_waiting(now)

    @contextlib.asynccontextmanager
    async def settled(self) -> AsyncIterator[datetime]:
        """Within, nothing else changes schedules, and due times are settled where
        possible."""
        async with self._lock:
            now = self._now_utc()
            # a broken schedule can still be paused or removed
            with contextlib.suppress(Exception):
                await self._settle_all(now)
            yield now

    async def _settle_all(self, now: datetime) -> None:
        """Settle everything due; a schedule that fails does not stop the others, its
        error is raised at the end."""
        errors: list[Exception] = []
        if self._is_unsure:
            await self._load_unfinished()
        for fire in list(self._unfinished):
            try:
                await self._finish(fire, now)
            except Exception as error:
                errors.append(error)
        for entry in list(self.schedules.entries.values()):
            try:
                await self._settle_due(entry, now)
            except Exception as error:
                _log.error("schedule %s: %s", entry.name, error)
                errors.append(error)
        if errors:
            raise errors[0]

    async def _finish(self, fire: FireRecord, now: datetime) -> None:
        entry = self.schedules.entries.get(fire.schedule_id)
        if entry is not None:
            await self._submit(entry, fire, now, is_again=True)
        self._unfinished.remove(fire)

    def upcoming(self, entry: Entry) -> Iterator[datetime]:
        """The schedule's next times, whatever its state."""
        return times(entry.plan.rule, max(entry.settled, self._now_utc()))

    async def _settle_due(self, entry: Entry, now: datetime) -> None:
        while entry.next_due is not None and entry.next_due <= now:
            upcoming = takewhile(
                lambda due: due <= now, times(entry.plan.rule, entry.settled)
            )
            due_times = list(islice(upcoming, _BATCH))
            open_runs = await self.schedules.open_runs(entry.schedule_id)
            decisions = decide(
                due_times,
                next(upcoming, None),
                entry.plan.policy,
                now,
                is_busy=bool(open_runs),
            )
            await self._carry_out(entry, decisions, now)
            entry.look_ahead()
        if entry.next_due is None and entry.state is State.ACTIVE:
            await self.schedules.set_state(entry, State.OVER, entry.settled)

    async def _carry_out(
        self, entry: Entry, decisions: list[Decision], now: datetime
    ) -> None:
        batch: list[FireRecord] = []
        for decision in decisions:
            fire = _fire(entry, decision, now)
            batch.append(fire)
            if decision.outcome is Outcome.SUBMITTING:
                new = await self._settle(entry, batch)
                batch = []
                if fire in new:
                    self._unfinished.append(fire)
                    await self._submit(entry, fire, now, is_again=False)
                    self._unfinished.remove(fire)
        if batch:
            await self._settle(entry, batch)

    async def _settle(self, entry: Entry, fires: list[FireRecord]) -> list[FireRecord]:
        """Settle times for good; those that were not settled before."""
        store, settled_utc = self._writer.store, fires[-1].due_utc
        try:
            new = await self._writer.call(
                schedule_store.settle, store, entry.schedule_id, fires, settled_utc
            )
        except StoreError:
            self._is_unsure = True
            raise
        entry.settled = parse_utc(settled_utc)
        await self._report_left_out(entry, new)
        return new

    async def _report_left_out(self, entry: Entry, fires: list[FireRecord]) -> None:
        left_out = [
            fire
            for fire in fires
            if fire.outcome in (Outcome.MISSED, Outcome.OVERLAPPED)
        ]
        if not left_out:
            return
        first, last = left_out[0], left_out[-1]
        text = f"{first.outcome}: {clock_text(parse_utc(first.due_utc))}"
        if len(left_out) > 1:
            until = clock_text(parse_utc(last.due_utc))
            text = f"{text} and {len(left_out) - 1} more until {until}"
        text = f"{text} ({last.detail})"
        _log.warning("schedule %s: %s", entry.name, text)
        await self._note_miss(entry, text)

    async def _submit(
        self, entry: Entry, fire: FireRecord, now: datetime, *, is_again: bool
    ) -> None:
        """Submit the run of a time unless it exists, and close the time's row.
        StoreError: try again."""
        store, policy = self._writer.store, entry.plan.policy
        due, settled = parse_utc(fire.due_utc), parse_utc(fire.at_utc)
        [run_id] = fire.run_ids
        exists = False
        if is_again:
            # a run that was refused may have to be withdrawn before
            await self._writer.flush()
            exists = bool(
                await self._writer.call(schedule_store.run_ends, store, [run_id])
            )
        if policy.overlap is Overlap.REPLACE:
            open_runs = await self.schedules.open_runs(entry.schedule_id)
            for other, other_due in open_runs.items():
                if other_due < due:
                    await self._queue.cancel_run(other, f"schedule {entry.name}")
        begin = policy.begin(due, settled)
        outcome, problem = Outcome.SUBMITTED, ""
        if exists:
            pass
        elif (
            is_again and policy.misfire is Misfire.SKIP and policy.is_missed(begin, now)
        ):
            outcome = Outcome.MISSED
            problem = "the coordinator ended before it was submitted"
        else:
            request = run_request(entry.request.job)
            request.not_before_utc = utc_text(begin)
            text, by = f"due {fire.due_utc}", f"schedule {entry.name}"
            note = note_of_caller("submit", run_id, text, by=by)
            try:
                await self._queue.submit_scheduled(
                    request, entry.schedule_id, run_id, note
                )
            except StoreError:
                raise
            except LdapSlamError as error:
                outcome, problem = Outcome.FAILED, str(error)
        is_made = outcome is Outcome.SUBMITTED
        detail = "; ".join(filter(None, (fire.detail, problem)))
        run_ids = fire.run_ids if is_made else ()
        ended = replace(fire, outcome=outcome, detail=detail, run_ids=run_ids)
        await self._writer.call(schedule_store.finish, store, ended)
        if is_made:
            _log.info("schedule %s: run %s", entry.name, run_id)
        else:
            _log.error("schedule %s: %s", entry.name, detail)
            await self._note_miss(entry, detail)

    async def _note_miss(self, entry: Entry, text: str) -> None:
        if self._audit is not None:
            by = f"schedule {entry.name}"
            await self._audit.note("miss", entry.schedule_id, text, by=by)

    async def _see_to_waiting(self, now: datetime) -> None:
        waiting = self._queue.waiting()
        if not waiting:
            return
        endings = await self._endings({one.request.after_run for one in waiting} - {""})
        schedules = {one.record.schedule_id or "" for one in waiting}
        open_runs = {
            one: await self.schedules.open_runs(one)
            for one in schedules & self.schedules.entries.keys()
        }
        for one in waiting:
            run_id, after_run = one.run_id, one.request.after_run
            step = next_step(one.request, endings.get(after_run), now)
            if isinstance(step, Drop):
                _log.info("run %s will not begin: %s", run_id, step.reason)
                await self._queue.drop(run_id, step.reason)
            elif not isinstance(step, Release):
                self._queue.explain(run_id, step.reason)
            elif earlier := _earlier_run(
                run_id, open_runs.get(one.record.schedule_id or "", {})
            ):
                reason = f"run {earlier} of the same schedule has not ended"
                self._queue.explain(run_id, reason)
            else:
                await self._queue.release(run_id)

    async def _endings(self, run_ids: Collection[str]) -> dict[str, RunEnd]:
        """How far these runs are, without runs that the store lacks."""
        # before the store is asked: what it has then is final
        judged = [one for one in run_ids if not self._queue.awaits_verdict(one)]
        found = await self._writer.call(
            schedule_store.run_ends, self._writer.store, run_ids
        )
        return {
            run_id: replace(end, is_judged=run_id in judged)
            for run_id, end in found.items()
        }


def _earlier_run(run_id: str, open_runs: Mapping[str, datetime]) -> str | None:
    """Return an open run of an earlier time of the same schedule."""
    due = open_runs.get(run_id)
    earlier = (one for one, at in open_runs.items() if due is not None and at < due)
    return next(earlier, None)


def _fire(entry: Entry, decision: Decision, now: datetime) -> FireRecord:
    is_run = decision.outcome is Outcome.SUBMITTING
    return FireRecord(
        schedule_id=entry.schedule_id,
        due_utc=utc_text(decision.due),
        at_utc=utc_text(now),
        outcome=decision.outcome,
        run_ids=(new_run_id(now),) if is_run else (),
        detail=decision.detail,
    )
