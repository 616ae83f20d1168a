# SPDX-License-Identifier: Apache-2.0
"""Verdicts of ended runs, from a process of its own (reports/judge.py).

One at a time, with low priority and a time limit. A process that fails is started again
a few times; then the run has no verdict, and an event that says why.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from functools import partial
from typing import Protocol

from ldapslam.base.child import ask
from ldapslam.base.errors import (
    LdapSlamError,
    RunNotFound,
    StoreError,
    StoreFull,
    StoreRefused,
)
from ldapslam.coordinator.observer import JudgedRun, KeyFigures, Observer
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.results.audit import AuditRecord
from ldapslam.results.columns import report_count
from ldapslam.results.digest import canonical, stored_digest
from ldapslam.results.records import (
    FINAL_STATES,
    Digest,
    DigestDocument,
    RunRecord,
    utc_text,
)

_log = logging.getLogger(__name__)

#: How long a judgement may take, and how much longer for each report.
LIMIT_S, _LIMIT_PER_REPORT_S = 300.0, 0.002

_VERDICTS = ("PASS", "FAIL", "INVALID")
#: Runs without a verdict that a start judges.
_JUDGED_AT_START = 20
#: Late reports of an agent come one after the other.
_QUIET_S = 5.0
#: Of a run's end: others wait for the judge as well.
_SIGNED_WITHIN = timedelta(minutes=30)
_READER_WAITS_S = 20.0
#: Of a run that the judge cannot read; then it goes without.
_MOST_LOOKS = 3
_MOST_ENDED = 1000
#: Before each further try of a judgement that failed.
_PAUSES_S = (1.0, 5.0, 15.0)


@dataclass(frozen=True, slots=True)
class Judgement:
    #: PASS, FAIL or INVALID; None: the run never began, or could not be judged.
    verdict: str | None = None
    reasons: tuple[str, ...] = ()
    #: What binds them to what was measured: reports/digest.py.
    document: DigestDocument | None = None
    #: What of the stored run is not what was judged before.
    altered: tuple[str, ...] = ()
    #: Why there is no verdict of a run that should have one.
    problem: str = ""
    #: What a message about the run names.
    figures: KeyFigures = field(default_factory=dict)


class Standing(Enum):
    """What an ended run is, before more of it is stored."""

    #: As it was when it was judged, or about to be judged.
    SOUND = auto()
    #: Nobody looked; it is judged again, and not signed.
    UNSEEN = auto()
    #: Not what was judged: it keeps its verdict and digest.
    ALTERED = auto()


@dataclass(slots=True)
class _Late:
    standing: Standing
    #: When the last of it was stored, on the monotonic clock.
    at_s: float = field(default_factory=time.monotonic)
    #: Who added to the run, for its events and the audit.
    notes: set[AuditRecord] = field(default_factory=set)


def _note_of_restart(run_id: str) -> AuditRecord:
    """The note about reports that came shortly before a coordinator was killed."""
    detail = "reports of an agent came after the run's end, before a restart"
    now_utc = utc_text(datetime.now(UTC))
    return AuditRecord(now_utc, "", "local", "", "late_reports", run_id, detail)


class Judge(Protocol):
    async def __call__(
        self, run_id: str, reports: int = 0, *, looks_only: bool = False
    ) -> Judgement:
        """Judge a run as it is now, which has this number of reports; `looks_only`:
        is it what was judged before?"""


#: The signature of a document in canonical JSON.
Sign = Callable[[bytes], Mapping[str, str]]


class JudgeProcess:
    """Judges the runs of one store; the log says why one could not be judged."""

    def __init__(
        self, command: Sequence[str], store_url: str, *, limit_s: float = LIMIT_S
    ) -> None:
        self._command = command
        self._store_url = store_url
        self._limit_s = limit_s
        self._one_at_a_time = asyncio.Lock()
        self._one_part_at_a_time = asyncio.Lock()

    async def __call__(
        self, run_id: str, reports: int = 0, *, looks_only: bool = False
    ) -> Judgement:
        limit_s = self._limit_s + reports * _LIMIT_PER_REPORT_S
        question = self._question(run_id, limit_s)
        try:
            async with self._one_at_a_time:
                answer = await ask(
                    self._command, {**question, "looks_only": looks_only}, limit_s
                )
        except (OSError, ValueError) as error:
            answer = {"why": str(error)}
        verdict = answer.get("verdict")
        if verdict in _VERDICTS:
            reasons = tuple(map(str, answer.get("reasons", ())))
            altered = tuple(map(str, answer.get("altered", ())))
            return Judgement(
                verdict,
                reasons,
                answer.get("document"),
                altered,
                figures=answer.get("figures", {}),
            )
        if verdict is not None or "why" in answer:
            why = answer.get("why", f"verdict {verdict!r}")
            _log.error("run %s could not be judged: %s", run_id, why)
            return Judgement(problem=str(why))
        return Judgement()

    async def collect(
        self, run_id: str, first_index: int, last_index: int
    ) -> Mapping[str, object]:
        """See `part_collector.Collect`. Verdicts do not wait for it."""
        question = self._question(run_id, self._limit_s)
        question |= {"first_index": first_index, "last_index": last_index}
        async with self._one_part_at_a_time:
            return await ask(self._command, question, self._limit_s)

    def _question(self, run_id: str, limit_s: float) -> dict[str, str | float]:
        return {"store": self._store_url, "run_id": run_id, "limit_s": limit_s}


class Verdicts:
    """Has runs judged that have ended, stores the verdict with a digest of what it is
    of, and tells observers."""

    def __init__(
        self,
        writer: StoreWriter,
        judge: Judge | None,
        observers: Sequence[Observer],
        sign: Sign | None = None,
    ) -> None:
        self._writer = writer
        self._judge = judge
        self._observers = observers
        self._sign = sign
        #: Of which run.
        self._tasks: dict[asyncio.Task[None], str] = {}
        #: Of ended runs that more is stored of.
        self._late: dict[str, _Late] = {}
        #: Ended run -> what it is, for those who are about to store more of it.
        self._checks: dict[str, asyncio.Task[Standing]] = {}
        #: Run that ended here -> when, on the monotonic clock; the last ones.
        self._ended_s: dict[str, float] = {}
        #: Ended run -> how often nothing could be found out of it.
        self._unseen: Counter[str] = Counter()

    def judge(self, record: RunRecord) -> None:
        """Judge a run that has just ended, in the background; the last that happens to
        it."""
        self._ended_s[record.run_id] = time.monotonic()
        if len(self._ended_s) > _MOST_ENDED:
            del self._ended_s[next(iter(self._ended_s))]
        self._start(self._judge_run(record), record.run_id)

    def _start(self, work: Coroutine[None, None, None], run_id: str) -> None:
        task = asyncio.create_task(work)
        self._tasks[task] = run_id
        task.add_done_callback(self._tasks.pop)

    async def before_late(self, run_id: str) -> Standing:
        """More of an ended run is about to be stored: what it is, for `note_late`.
        StoreError when that cannot be told."""
        if self._judge is None:
            return Standing.SOUND
        if run_id in self._late:
            return self._late[run_id].standing
        check = self._checks.get(run_id)
        if check is None:
            check = asyncio.create_task(self._standing(run_id))
            self._checks[run_id] = check
            check.add_done_callback(lambda _: self._checks.pop(run_id))
        standing = await asyncio.shield(check)
        # another one's addition may have come before the check
        late = self._late.get(run_id)
        return late.standing if late else standing

    def note_late(
        self, run_id: str, standing: Standing, note: AuditRecord | None = None
    ) -> None:
        """More of an ended run may have been stored. If so, it is judged again when
        nothing more comes; until then its reports say that it has more. `note`: who
        added to it."""
        if self._judge is None:
            return
        late = self._late.get(run_id)
        if late is None:
            late = self._late[run_id] = _Late(standing)
            self._start(self._judge_late(run_id), run_id)
        late.at_s = time.monotonic()
        if note is not None and all(note.who != known.who for known in late.notes):
            late.notes.add(note)

    async def _standing(self, run_id: str) -> Standing:
        assert self._judge is not None
        record = await self._writer.call(self._writer.store.run, run_id)
        if record.digest is None:
            # without a verdict it is about to be judged
            return Standing.SOUND if record.verdict is None else Standing.ALTERED
        if record.unjudged:
            return Standing.UNSEEN
        found = await self._judge(run_id, looks_only=True)
        if found.verdict is None:
            self._unseen[run_id] += 1
            if self._unseen[run_id] < _MOST_LOOKS:  # the agent sends its report again
                raise StoreError(f"run {run_id} cannot be looked at: see the log")
            return Standing.UNSEEN
        if found.altered:
            why = "; ".join(found.altered)
            _log.error("run %s is not what was judged: %s", run_id, why)
            return Standing.ALTERED
        return Standing.SOUND

    async def _judge_late(self, run_id: str) -> None:
        first = [task for task, of in self._tasks.items() if of == run_id]
        others = [task for task in first if task is not asyncio.current_task()]
        if others:
            await asyncio.wait(others)
        late = self._late[run_id]
        try:
            while True:
                while (left_s := late.at_s + _QUIET_S - time.monotonic()) > 0:
                    await asyncio.sleep(left_s)
                at_s = late.at_s
                record = await self._writer.call(self._writer.store.run, run_id)
                if record.unjudged:
                    await self._record_notes(run_id, late.notes)
                if record.unjudged and late.standing is Standing.ALTERED:
                    # it keeps what shows that it was altered
                    await self._store(record, record.verdict, record.digest)
                elif record.unjudged:
                    is_sound = late.standing is Standing.SOUND
                    await self._judge_run(record, is_sound=is_sound)
                if late.at_s == at_s:
                    return
        except Exception:
            _log.exception("run %s cannot be judged again", run_id)
        finally:
            del self._late[run_id]

    async def _record_notes(self, run_id: str, notes: set[AuditRecord]) -> None:
        while notes:
            note = notes.pop()
            add_event = self._writer.store.add_event
            event = note.action, note.detail, note.at_utc
            await self._writer.call_noted(note, add_event, run_id, *event)

    async def judge_those_left(self) -> None:
        """Runs whose end was stored, but not their verdict, and those that have grown
        since."""
        if self._judge is None:
            return
        call, store = self._writer.call, self._writer.store
        newest = await call(store.runs, _JUDGED_AT_START, states=FINAL_STATES)
        left = [record for record in newest if record.verdict is None]
        grown = await call(store.runs, only_unjudged=True)
        for run_id in dict.fromkeys(one.run_id for one in (*left, *grown)):
            record = await call(store.run, run_id)
            if record.unjudged and record.digest:
                await self._record_notes(run_id, {_note_of_restart(run_id)})
            self._start(self._judge_run(record), run_id)

    def is_judging(self, run_id: str) -> bool:
        return run_id in self._tasks.values()

    async def wait(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def wait_for(self, run_id: str) -> None:
        """Until the run is judged, or for so long that a reader goes without it."""
        if tasks := [task for task, of in self._tasks.items() if of == run_id]:
            await asyncio.wait(tasks, timeout=_READER_WAITS_S)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _judge_run(self, record: RunRecord, *, is_sound: bool = False) -> None:
        """`is_sound`: it was as judged, before this process stored more of it."""
        found, run_id = Judgement(), record.run_id
        if self._judge is not None:
            try:
                stored = await self._writer.call(self._writer.store.run, run_id)
                found = await self._judged(record)
                if found.verdict is not None:
                    signs = self._may_sign(record, is_sound=is_sound)
                    digest = await self._digest(found.document, signs=signs)
                    await self._store(stored, found.verdict, digest)
                    # more of it, which came when it was about to end
                    stored = await self._writer.call(self._writer.store.run, run_id)
                    if stored.unjudged:
                        self.note_late(run_id, Standing.SOUND)
            except Exception:
                _log.exception("run %s cannot be judged", run_id)
        if record.verdict is not None and found.verdict in (None, record.verdict):
            return  # judged again, and as before, or not
        record = replace(record, verdict=found.verdict)
        ended_s = self._ended_s.get(run_id)
        judged = JudgedRun(record, found.reasons, ended_s, found.figures)
        for observer in self._observers:
            try:
                observer.run_judged(judged)
            except Exception:
                _log.exception("run %s: an observer failed", run_id)

    async def _judged(self, record: RunRecord) -> Judgement:
        """By a process that may fail: it dies, or the host has no memory left."""
        assert self._judge is not None
        run_id = record.run_id
        reports = await self._writer.call(report_count, self._writer.store, run_id)
        found = await self._judge(run_id, reports)
        for pause_s in _PAUSES_S:
            if not found.problem:
                return found
            await asyncio.sleep(pause_s)
            found = await self._judge(run_id, reports)
        if found.problem and record.verdict is None:
            text = f"the run could not be judged: {found.problem}"
            now_utc = utc_text(datetime.now(UTC))
            add_event = self._writer.store.add_event
            self._writer.post(add_event, run_id, "not_judged", text, now_utc)
        return found

    async def _store(
        self, record: RunRecord, verdict: str | None, digest: Digest | None
    ) -> None:
        """As soon as the store takes it; of the run as `record` has it."""
        run_id, unjudged = record.run_id, record.unjudged
        set_verdict = partial(self._writer.store.set_verdict, unjudged=unjudged)
        while True:
            try:
                return await self._writer.call(set_verdict, run_id, verdict, digest)
            except (RunNotFound, StoreFull, StoreRefused):
                raise
            except StoreError as error:
                _log.warning("run %s: its verdict has to wait: %s", run_id, error)
                await asyncio.sleep(_QUIET_S)

    def _may_sign(self, record: RunRecord, *, is_sound: bool) -> bool:
        """Not what lay in the store for long: who knows what became of it there."""
        if record.digest is not None and record.digest.get("signature"):
            return is_sound
        ended_s = self._ended_s.get(record.run_id)
        if ended_s is not None:
            return time.monotonic() - ended_s < _SIGNED_WITHIN.total_seconds()
        if record.finished_utc is None:
            return False
        since = datetime.now(UTC) - datetime.fromisoformat(record.finished_utc)
        # the clock may have been set back since
        return timedelta() <= since < _SIGNED_WITHIN

    async def _digest(
        self, document: DigestDocument | None, *, signs: bool
    ) -> Digest | None:
        """As the store keeps it; without a signature where there is nobody to sign."""
        if not document:
            return None
        signature = None
        if signs and self._sign is not None:
            try:
                signature = await asyncio.to_thread(self._sign, canonical(document))
            except LdapSlamError as error:
                _log.error("run %s is not signed: %s", document["run_id"], error)
        return stored_digest(document, signature)
