# SPDX-License-Identifier: Apache-2.0
"""Tells of ended runs: an observer of the coordinator that sends, and tries again.

Sending has threads of its own and no part in the run: whatever fails here is a line in
the log and an event of the run. What could not be delivered at once is tried again with
growing pauses, some minutes in all, and only as long as this coordinator lives: what is
undelivered when it ends is named in the run's events and not sent by its successor.
A receiver may be told twice (its answer was lost), never of something that was not.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import sqlalchemy as sa
from google.protobuf.message import DecodeError

from ldapslam.base.errors import ConfigError, LdapSlamError
from ldapslam.coordinator.destinations import Destination, submitted_destinations
from ldapslam.coordinator.extension import Extension, Parts
from ldapslam.coordinator.hooks import Observer
from ldapslam.coordinator.journal import Journal
from ldapslam.coordinator.outputs.deliver import (
    DELIVERY_LIMIT_S,
    Allowed,
    Cutoff,
    DeliveryFailed,
    MailServer,
    post,
    send_mail,
)
from ldapslam.coordinator.outputs.notification import (
    SCHEMA,
    content,
    mail,
    notification,
)
from ldapslam.proto import operator_pb2 as pb
from ldapslam.results import schema
from ldapslam.results.records import FINAL_STATES, RunRecord, utc_text
from ldapslam.results.store import Store
from ldapslam.transport.messages import build_version

_log = logging.getLogger(__name__)

#: Pauses between attempts: five attempts in a quarter of an hour.
BACK_OFF_S = (5.0, 30.0, 120.0, 600.0)
#: What is on its way gets so long when the coordinator ends.
STOP_GRACE_S = 5.0

_THREADS = 2
_ENDED = "; the coordinator ended"
#: Kinds of events.
_TOLD, _FAILED = "notified", "notify_failed"
#: Of a run that ended earlier nobody needs to be told any more.
_NEWS_FOR = timedelta(hours=1)
#: More notifications than this at a time are not tried at all.
_MAX_PENDING = 500


@dataclass(frozen=True)
class NotifySettings:
    """What the operator of a coordinator decides."""

    destinations: tuple[Destination, ...] = ()
    mail_server: MailServer | None = None
    #: Where submissions may send to.
    allowed: Allowed = field(default_factory=Allowed)
    #: For receivers to follow; {run_id} is the run's.
    link: str | None = None


class Notifier(Extension):
    """One coordinator's; all but the sending is on its event loop."""

    def __init__(
        self,
        settings: NotifySettings,
        reasons: Callable[[str], Sequence[str]],
        *,
        back_off_s: Sequence[float] = BACK_OFF_S,
        limit_s: float = DELIVERY_LIMIT_S,
    ) -> None:
        self._settings = settings
        self._reasons = reasons
        self._back_off_s = tuple(back_off_s)
        self._limit_s = limit_s
        self._journal: Journal | None = None
        #: Runs that are taken up again are told of before.
        self._has_started = asyncio.Event()
        self._ending = asyncio.Event()
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="notify")
        #: Run -> what its submission names, asked for as long as that is kept.
        self._submitted: dict[str, asyncio.Task[tuple[Destination, ...]]] = {}
        self._pending: set[asyncio.Task[None]] = set()
        self._under_way: set[Cutoff] = set()

    # The coordinator's calls.

    def observers(self) -> Sequence[Observer]:
        return (self,)

    async def start(self, parts: Parts) -> None:
        self._journal = parts.journal
        self._has_started.set()

    async def stop(self) -> None:
        """Let what is being sent end; nothing is tried again."""
        self._ending.set()
        if self._pending:
            await asyncio.wait(self._pending, timeout=STOP_GRACE_S)
        for task in [*self._pending, *self._submitted.values()]:
            task.cancel()
        for cutoff in list(self._under_way):
            cutoff.end()
        await asyncio.gather(
            *self._pending, *self._submitted.values(), return_exceptions=True
        )
        self._executor.shutdown(wait=False, cancel_futures=True)

    def run_changed(self, status: pb.RunStatus) -> None:
        """Look what the submission names: it is forgotten when the run has ended."""
        run_id = status.run_id
        if status.state in FINAL_STATES or run_id in self._submitted:
            return
        asking = asyncio.get_running_loop().create_task(self._ask(run_id))
        self._submitted[run_id] = asking

    def interval_measured(self, run_id: str, figures: pb.IntervalFigures) -> None:
        pass

    def run_judged(self, record: RunRecord) -> None:
        task = asyncio.get_running_loop().create_task(self._tell(record))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    # On the loop.

    async def _ask(self, run_id: str) -> tuple[Destination, ...]:
        await self._has_started.wait()
        if self._journal is None:
            return ()
        try:
            return await self._journal.call(_submitted, self._journal.store, run_id)
        except Exception as error:
            # those that the operator named are told all the same
            self._note(run_id, _FAILED, f"what it names is not known: {error}")
            return ()

    async def _tell(self, record: RunRecord) -> None:
        asked = self._submitted.pop(record.run_id, None)
        named = await asked if asked is not None else ()
        # one that both name is the operator's
        wanted = {
            (one.url, one.secret, one.mail): one
            for one in (*named, *self._settings.destinations)
        }
        if not wanted:
            return
        document = notification(
            record, self._reasons(record.run_id), link=self._settings.link
        )
        if not await self._is_news(record):
            return
        await asyncio.gather(*(self._deliver(document, one) for one in wanted.values()))

    async def _is_news(self, record: RunRecord) -> bool:
        """False of a run that ended long ago, or was told of before the coordinator
        was restarted: it may only now have been judged."""
        ended_utc = record.finished_utc or record.submitted_utc
        if ended_utc < utc_text(datetime.now(UTC) - _NEWS_FOR):
            return False
        if self._journal is None:
            return True
        try:
            events = await self._journal.call(self._journal.store.events, record.run_id)
        except LdapSlamError:
            return True
        return not any(event.kind in (_TOLD, _FAILED) for event in events)

    async def _deliver(self, document: dict[str, object], to: Destination) -> None:
        run_id = str(document["run_id"])
        if len(self._pending) > _MAX_PENDING:
            self._note(run_id, _FAILED, f"{to}: too many are waiting")
            return
        why = "it was not tried"
        try:
            for pause_s in (*self._back_off_s, None):
                try:
                    await self._send(document, to)
                    self._note(run_id, _TOLD, f"{to} was told")
                    return
                except DeliveryFailed as error:
                    why = str(error)
                    if error.is_final or pause_s is None:
                        break
                if not self._ending.is_set():
                    _log.info("run %s: %s: %s; it is tried again", run_id, to, why)
                if await self._ends_within(pause_s):
                    why += _ENDED
                    break
        except asyncio.CancelledError:
            why += _ENDED
        except Exception as error:
            _log.exception("run %s: a notification", run_id)
            why = type(error).__name__
        self._note(run_id, _FAILED, f"{to} was not told: {why}")

    async def _ends_within(self, pause_s: float) -> bool:
        """Sleep; True as soon as the coordinator is to end."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._ending.wait()
        return self._ending.is_set()

    async def _send(self, document: dict[str, object], to: Destination) -> None:
        cutoff = Cutoff(self._limit_s)
        self._under_way.add(cutoff)
        try:
            await asyncio.get_running_loop().run_in_executor(
                self._executor, send, document, to, self._settings, cutoff
            )
        finally:
            self._under_way.discard(cutoff)

    def _note(self, run_id: str, kind: str, text: str) -> None:
        level = logging.INFO if kind == _TOLD else logging.WARNING
        _log.log(level, "run %s: %s: %s", run_id, kind, text)
        if self._journal is not None:
            store, at_utc = self._journal.store, utc_text(datetime.now(UTC))
            self._journal.post(store.add_event, run_id, kind, text, at_utc)


def send(
    document: dict[str, object],
    to: Destination,
    settings: NotifySettings,
    cutoff: Cutoff,
) -> None:
    """One attempt, in a thread; DeliveryFailed."""
    try:
        place = to.resolved()
    except ConfigError as error:
        raise DeliveryFailed(str(error)) from error
    if place.mail is not None:
        server = settings.mail_server
        if server is None:
            raise DeliveryFailed(
                "this coordinator has no mail server (--smtp)", is_final=True
            )
        message = mail(
            document,
            sender=server.sender,
            recipient=place.mail,
            now_utc=datetime.now(UTC),
        )
        send_mail(server, message, cutoff=cutoff)
        return
    url = place.url or ""
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "User-Agent": f"ldapslam/{build_version()}",
        "X-Ldapslam-Schema": SCHEMA,
        # the same for each attempt
        "X-Ldapslam-Run": str(document["run_id"]),
    }
    permit = None
    # what an operator keeps in a variable made for this is the operator's own
    if to.is_submitted and to.secret is None:
        permit = settings.allowed.permit(_host(url))
    post(url, content(document), headers, cutoff=cutoff, permit=permit)


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def _submitted(store: Store, run_id: str) -> tuple[Destination, ...]:
    """On the store's thread."""
    table = schema.submission.c
    with store.transaction() as connection:
        found = connection.scalar(
            sa.select(table.request).where(table.run_id == run_id)
        )
    if found is None:
        return ()
    request = pb.SubmitJobRequest()
    try:
        request.ParseFromString(found)
    except DecodeError as error:
        raise ConfigError("its submission cannot be read") from error
    return submitted_destinations(request.notify)
