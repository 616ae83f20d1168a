# SPDX-License-Identifier: Apache-2.0
"""Notifies channels of ended runs, with retries.

The operator of a coordinator names channels, each a URL of the library apprise; jobs
name channels, never URLs. A process (notify_send.py) sends each notification; a failure
is a log line and an event of the run. Retries take a quarter of an hour at most, within
this coordinator's life. A channel may be notified twice, never of a run that did not
end.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import yaml

from ldapslam.base.child import ask
from ldapslam.base.errors import ConfigError, LdapSlamError
from ldapslam.base.inert import one_line
from ldapslam.base.secrets import SecretRef
from ldapslam.coordinator.bounds import Bound, note_exceeded
from ldapslam.coordinator.control import Coordinator
from ldapslam.coordinator.extension import Extension
from ldapslam.coordinator.outputs.notify_send import COMMAND
from ldapslam.coordinator.runs.submission import check_channels
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.results.records import RunRecord, utc_text
from ldapslam.results.store import Store

_log = logging.getLogger(__name__)

#: Pauses between attempts: five attempts in a quarter of an hour.
BACK_OFF_S = (5.0, 30.0, 120.0, 600.0)
LIMIT_S = 60.0
#: Time for notifications under way at the end.
STOP_GRACE_S = 5.0

_MAX_PROCESSES = 2
#: More at a time are not tried.
MOST_PENDING = 500
#: A run that ended earlier is no news.
_NEWS_FOR = timedelta(hours=1)
_MAX_REASONS = 20
_TOLD, _FAILED = "notified", "notify_failed"
_TYPES = {"PASS": "success", "FAIL": "failure", "INVALID": "warning"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True)
class NotifySettings:
    """What the operator of a coordinator decides."""

    #: URL, or a reference to it.
    channels: Mapping[str, str | SecretRef] = field(default_factory=dict)
    #: For every run.
    always: tuple[str, ...] = ()
    #: For receivers to follow; {run_id} is the run's.
    link: str | None = None

    def url(self, name: str) -> str:
        """A channel's URL; ConfigError, which does not show it."""
        place = self.channels[name]
        if isinstance(place, str):
            return place
        try:
            return place.resolve().decode().strip()
        except (ConfigError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"notification channel {name!r}: {error}",
                hint="the reference is read where the coordinator runs",
            ) from error


def parse_channel(text: str) -> tuple[str, str | SecretRef]:
    """`NAME=URL` or `NAME={env: VARIABLE}`; ConfigError without the URL."""
    name, equals, place = text.partition("=")
    if not equals or not _NAME.fullmatch(name) or not place.strip():
        raise ConfigError(
            "expected NAME=URL", hint="such as ops=mailto://… or ops={file: /PATH}"
        )
    place = place.strip()
    if not place.startswith("{"):
        return name, place
    try:
        reference = yaml.safe_load(place)
        ((key, value),) = reference.items()
        if key in ("env", "file") and value and isinstance(value, str):
            return name, SecretRef(**{key: value})
    except (yaml.YAMLError, ValueError, AttributeError):
        pass
    raise ConfigError(
        f"notification channel {name!r}: expected a URL or a reference to one",
        hint="write {env: NAME} or {file: /PATH}",
    )


class Notifier(Extension):
    """One coordinator's; on its event loop."""

    def __init__(
        self,
        settings: NotifySettings,
        *,
        command: Sequence[str] = COMMAND,
        back_off_s: Sequence[float] = BACK_OFF_S,
        limit_s: float = LIMIT_S,
    ) -> None:
        self._settings = settings
        self._command = command
        self._back_off_s = tuple(back_off_s)
        self._limit_s = limit_s
        self._writer: StoreWriter | None = None
        self._ending = asyncio.Event()
        self._processes = asyncio.Semaphore(_MAX_PROCESSES)
        self._pending: set[asyncio.Task[None]] = set()
        self._early: list[tuple[RunRecord, Sequence[str], float | None]] = []

    async def check(self) -> None:
        """ConfigError when what the operator named cannot be used."""
        settings = self._settings
        check_channels(settings.always, settings.channels)
        if not settings.channels:
            return
        if importlib.util.find_spec("apprise") is None:
            raise ConfigError(
                "notification channels need the library apprise, which is not there",
                hint="pip install 'apprise>=1.9'",
            )
        try:
            urls = {name: settings.url(name) for name in settings.channels}
            answer = await ask(COMMAND, {"check": urls}, LIMIT_S)
        except (OSError, ValueError) as error:
            answer = {"why": str(error)}
        if "why" in answer:
            raise ConfigError(
                f"notification channels cannot be checked: {answer['why']}"
            )
        for name in answer["unusable"]:
            raise ConfigError(
                f"notification channel {name!r}: apprise cannot use its URL",
                hint="https://github.com/caronc/apprise/wiki lists them, such as "
                "mailto://user:password@example.com or json://hooks.example.com/path",
            )

    async def start(self, coordinator: Coordinator, server: Any) -> None:
        self._writer = coordinator.writer
        coordinator.bounds[Bound.NOTIFICATIONS] = (
            lambda: len(self._pending),
            MOST_PENDING,
        )
        for early in self._early:
            self.run_judged(*early)

    async def stop(self) -> None:
        """Let what is being sent end; no retries."""
        self._ending.set()
        if self._pending:
            await asyncio.wait(self._pending, timeout=STOP_GRACE_S)
        for task in self._pending:
            task.cancel()
        await asyncio.gather(*self._pending, return_exceptions=True)

    def run_judged(
        self, record: RunRecord, reasons: Sequence[str], ended_s: float | None
    ) -> None:
        if self._writer is None:
            self._early.append((record, reasons, ended_s))
            return
        if not is_news(record, ended_s, time.monotonic(), datetime.now(UTC)):
            return
        task = asyncio.get_running_loop().create_task(
            self._tell(self._writer, record, reasons)
        )
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _tell(
        self, writer: StoreWriter, record: RunRecord, reasons: Sequence[str]
    ) -> None:
        try:
            named = await writer.call(_named, writer.store, record)
        except LdapSlamError as error:
            _log.error("run %s: nobody is told of it: %s", record.run_id, error)
            return
        if named is None:
            return
        message = {
            "title": headline(record, reasons),
            "body": body(record, reasons, self._settings.link),
            "type": _TYPES.get(record.verdict or "", "info"),
        }
        channels = dict.fromkeys((*named, *self._settings.always))
        await asyncio.gather(
            *(self._deliver(writer, record, message, one) for one in channels)
        )

    async def _deliver(
        self,
        writer: StoreWriter,
        record: RunRecord,
        message: Mapping[str, str],
        channel: str,
    ) -> None:
        run_id, news = record.run_id, _news(record)

        def note(kind: str, text: str) -> None:
            level = logging.INFO if kind == _TOLD else logging.WARNING
            _log.log(level, "run %s: %s: channel %s %s", run_id, kind, channel, text)
            text, at_utc = f"channel {channel} {text}", utc_text(datetime.now(UTC))
            writer.post(writer.store.add_event, run_id, kind, text, at_utc)

        if len(self._pending) > MOST_PENDING:
            note_exceeded(Bound.NOTIFICATIONS)
            note(_FAILED, f"was not told of {news}: too many notifications are waiting")
            return
        why = "it was not tried"
        try:
            for pause_s in (*self._back_off_s, None):
                why = await self._send(message, channel)
                if not why:
                    note(_TOLD, f"was told of {news}")
                    return
                if pause_s is None:
                    break
                _log.info("run %s: channel %s: %s", run_id, channel, why)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self._ending.wait()
                if self._ending.is_set():
                    why += "; the coordinator ended"
                    break
        except asyncio.CancelledError:
            why += "; the coordinator ended"
        note(_FAILED, f"was not told of {news}: {why}")

    async def _send(self, message: Mapping[str, str], channel: str) -> str:
        """One attempt; why it failed, or empty."""
        try:
            check_channels([channel], self._settings.channels)
            question = {**message, "url": self._settings.url(channel)}
            async with self._processes:
                answer = await ask(self._command, question, self._limit_s)
        except (ConfigError, OSError, ValueError) as error:
            return str(error)
        return str(answer.get("why", ""))


def is_news(
    record: RunRecord, ended_s: float | None, now_s: float, now: datetime
) -> bool:
    """By the time of day only where this process did not see the run end: a clock that
    is set forward silences no channel, one that is set back tells it twice at most."""
    if ended_s is not None:
        return now_s - ended_s <= _NEWS_FOR.total_seconds()
    ended_utc = record.finished_utc or record.submitted_utc
    return ended_utc >= utc_text(now - _NEWS_FOR)


def _named(store: Store, record: RunRecord) -> tuple[str, ...] | None:
    """The channels of the run's submission; None: they were told of this verdict. On
    the store's thread."""
    events = store.events(record.run_id)
    told = [event.text for event in events if event.kind in (_TOLD, _FAILED)]
    if told and f"told of {_news(record)}" in told[-1]:
        return None
    return tuple(store.run(record.run_id).manifest.get("notify", ()))


def _news(record: RunRecord) -> str:
    return record.verdict or "its end"


def headline(record: RunRecord, reasons: Sequence[str]) -> str:
    """`FAIL: directory-mix, run 2026… finished: p99 …`."""
    text = f"{record.verdict or 'no verdict'}: {record.job_name}, run {record.run_id} "
    text += record.state
    why = reasons[0] if reasons else record.state_detail
    return one_line(f"{text}: {why}" if why else text)


def body(record: RunRecord, reasons: Sequence[str], link: str | None) -> str:
    """The run in a few lines; `link` may hold {run_id}."""
    fields = {
        "run": record.run_id,
        "job": record.job_name,
        "verdict": record.verdict or "none",
        "state": record.state,
        "because": record.state_detail,
        "submitted": f"{record.submitted_utc} by {record.submitted_by}",
        "schedule": record.schedule_id,
        "started": record.t0_utc,
        "finished": record.finished_utc,
        "agents": ", ".join(record.agents),
        "link": link.replace("{run_id}", record.run_id) if link else None,
        "report": f"ldapslam report {record.run_id}",
    }
    lines = [f"{name:<10} {one_line(value)}" for name, value in fields.items() if value]
    if reasons:
        lines += ["", "Reasons:"]
        lines += [f"- {one_line(reason)}" for reason in reasons[:_MAX_REASONS]]
    return "\n".join([*lines, ""])
