# SPDX-License-Identifier: Apache-2.0
"""Channels that are told of an ended run: which, how often it is tried, and what."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.base.secrets import SecretRef
from ldapslam.coordinator.control import Coordinator
from ldapslam.coordinator.outputs import notify as module
from ldapslam.coordinator.outputs.notify import (
    Notifier,
    NotifySettings,
    body,
    headline,
    is_news,
    parse_channel,
)
from ldapslam.coordinator.outputs.notify_send import without_secrets
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.results.records import RunRecord, utc_text
from support.bounds import exceeds
from support.store import RUN_ID, Scenario, run_record

HOOK = "json://hooks.example.com/x"
OPS = "mailto://ops@example.com"
BUSY: dict[str, Any] = {"why": "it answered 503"}


class Post:
    """Stands in for the process that sends: keeps what was sent, fails as told."""

    def __init__(self) -> None:
        self.sent: list[dict[str, str]] = []
        #: URL -> what its next attempts end with.
        self.answers: dict[str, list[dict[str, Any] | Exception]] = {}

    async def __call__(
        self, _: Sequence[str], question: dict[str, str], __: float
    ) -> dict[str, Any]:
        self.sent.append(question)
        answers = self.answers.get(question["url"])
        answer = answers.pop(0) if answers else {}
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def told(self) -> list[str]:
        return sorted(question["url"] for question in self.sent)


@pytest.fixture
def post(monkeypatch: pytest.MonkeyPatch) -> Post:
    post = Post()
    monkeypatch.setattr(module, "ask", post)
    return post


@pytest.fixture
def writer() -> Iterator[StoreWriter]:
    writer = StoreWriter("sqlite://")
    yield writer
    asyncio.run(writer.close())


def ended(*named: str, **fields: object) -> RunRecord:
    now_utc = utc_text(datetime.now(UTC))
    record = replace(run_record(Scenario()), finished_utc=now_utc, verdict="FAIL")
    manifest = {**record.manifest, "notify": list(named)}
    return replace(record, manifest=manifest, **fields)  # type: ignore[arg-type]


def settings(*always: str) -> NotifySettings:
    return NotifySettings({"ops": OPS, "hook": HOOK}, always)


def run(
    writer: StoreWriter,
    work: Callable[[Notifier], Awaitable[None]],
    own: NotifySettings,
    back_off_s: tuple[float, ...] = (0.0, 0.0),
) -> list[tuple[str, str]]:
    """Do this with a notifier from its start to its stop; the run's events."""

    async def live() -> list[tuple[str, str]]:
        notifier = Notifier(own, back_off_s=back_off_s)
        await notifier.start(Coordinator(writer), None)
        try:
            await work(notifier)
        finally:
            await notifier.stop()
        events = await writer.call(writer.store.events, RUN_ID)
        return sorted((event.kind, event.text) for event in events)

    return asyncio.run(live())


def judged(
    writer: StoreWriter, record: RunRecord, *, is_of_before: bool = False
) -> Callable[[Notifier], Awaitable[None]]:
    """The run is stored and its end told; or that of one of an earlier coordinator."""
    ended_s = None if is_of_before else time.monotonic()

    async def work(notifier: Notifier) -> None:
        await writer.call(writer.store.create_run, record)
        # a list of runs has no manifests
        notifier.run_judged(replace(record, manifest={}), ("p99",), ended_s)
        await until_told(notifier)

    return work


async def until_told(notifier: Notifier) -> None:
    while notifier._pending:
        await asyncio.wait(notifier._pending)


def test_a_channel_that_run_and_operator_name_is_told_once(
    writer: StoreWriter, post: Post
) -> None:
    events = run(writer, judged(writer, ended("ops", "hook")), settings("ops"))
    assert post.told == [HOOK, OPS]
    assert post.sent[0]["type"] == "failure"
    assert post.sent[0]["title"].startswith("FAIL: directory-mix")
    assert events == [
        ("notified", "channel hook was told of FAIL"),
        ("notified", "channel ops was told of FAIL"),
    ]


def test_a_run_that_names_no_channel_is_told_to_those_of_every_run(
    writer: StoreWriter, post: Post
) -> None:
    run(writer, judged(writer, ended()), settings("hook"))
    assert post.told == [HOOK]


def test_what_fails_is_tried_again_and_hinders_no_other(
    writer: StoreWriter, post: Post
) -> None:
    post.answers[OPS] = [BUSY, TimeoutError("not done within 60 s")]
    events = run(writer, judged(writer, ended("ops", "hook")), settings())
    assert post.told.count(OPS) == 3
    assert [kind for kind, _ in events] == ["notified", "notified"]


def test_a_channel_that_cannot_be_told_is_named_in_the_runs_log(
    writer: StoreWriter, post: Post
) -> None:
    post.answers[OPS] = [BUSY] * 9
    events = run(writer, judged(writer, ended("ops")), settings())
    assert len(post.sent) == 3
    assert events == [
        ("notify_failed", "channel ops was not told of FAIL: it answered 503"),
    ]


def test_a_channel_that_is_gone_since_the_submission_is_named_in_the_runs_log(
    writer: StoreWriter, post: Post
) -> None:
    [(kind, text)] = run(writer, judged(writer, ended("team")), settings())
    assert kind == "notify_failed"
    assert "no notification channel 'team'" in text
    assert post.sent == []


def test_nobody_is_told_of_what_ended_long_ago(writer: StoreWriter, post: Post) -> None:
    long_ago = utc_text(datetime.now(UTC) - timedelta(hours=2))
    record = ended("ops", finished_utc=long_ago)
    work = judged(writer, record, is_of_before=True)
    assert run(writer, work, settings()) == []
    assert post.sent == []


@pytest.mark.parametrize("fails", [False, True])
def test_nobody_is_told_again_after_a_restart(
    writer: StoreWriter, post: Post, fails: bool
) -> None:
    """A run without a verdict is judged again at each start."""
    if fails:
        post.answers[OPS] = [BUSY] * 3
    record = ended("ops", verdict=None)
    before = run(writer, judged(writer, record), settings())
    attempts = len(post.sent)

    async def judged_again(notifier: Notifier) -> None:
        notifier.run_judged(record, (), None)
        await until_told(notifier)

    assert run(writer, judged_again, settings()) == before
    assert len(post.sent) == attempts


def test_a_run_that_was_judged_before_the_start_is_told_after_it(
    writer: StoreWriter, post: Post
) -> None:
    async def live() -> None:
        notifier = Notifier(settings("ops"))
        await writer.call(writer.store.create_run, ended())
        notifier.run_judged(ended(), (), None)
        await notifier.start(Coordinator(writer), None)
        await until_told(notifier)

    asyncio.run(live())
    assert post.told == [OPS]


def test_what_waits_for_another_attempt_is_given_up_at_once_at_the_end(
    writer: StoreWriter, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STOP_GRACE_S", 3600.0)
    post.answers[OPS] = [BUSY]

    async def work(notifier: Notifier) -> None:
        await writer.call(writer.store.create_run, ended("ops"))
        notifier.run_judged(ended("ops"), (), None)

    events = run(writer, work, settings(), (3600.0,))
    text = "channel ops was not told of FAIL: it answered 503; the coordinator ended"
    assert events == [("notify_failed", text)]


def test_what_is_being_sent_is_cut_off_at_the_end(
    writer: StoreWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STOP_GRACE_S", 0.05)
    has_begun, was_cancelled = asyncio.Event(), []

    async def hang(*_: object) -> None:
        has_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            was_cancelled.append(True)

    monkeypatch.setattr(module, "ask", hang)

    async def work(notifier: Notifier) -> None:
        await writer.call(writer.store.create_run, ended("ops"))
        notifier.run_judged(ended("ops"), (), None)
        await has_begun.wait()

    [(kind, text)] = run(writer, work, settings())
    assert (kind, "the coordinator ended" in text) == ("notify_failed", True)
    assert was_cancelled == [True]


# What the operator writes.


@pytest.mark.parametrize(
    ("text", "channel"),
    [
        (f"ops={OPS}", ("ops", OPS)),
        ("ci=json://h/a?b=c", ("ci", "json://h/a?b=c")),
        ("ops={env: OPS_URL}", ("ops", SecretRef(env="OPS_URL"))),
        ('ops={"file": "/etc/ops"}', ("ops", SecretRef(file="/etc/ops"))),
    ],
)
def test_a_channel_is_a_name_and_a_url_or_a_reference(
    text: str, channel: tuple[str, str | SecretRef]
) -> None:
    assert parse_channel(text) == channel


@pytest.mark.parametrize(
    "text",
    ["s3cret", "=s3cret", "a b=s3cret", "ops=", "ops={s3cret", "ops={env: [s3cret]}"],
)
def test_a_channel_that_cannot_be_read_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_channel(text)
    assert "s3cret" not in str(refused.value)


def check(own: NotifySettings) -> None:
    asyncio.run(Notifier(own).check())


def test_channels_need_the_library_and_say_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    check(NotifySettings())
    with pytest.raises(ConfigError, match="apprise") as refused:
        check(settings())
    assert refused.value.hint == "pip install 'apprise>=1.9'"


def test_a_channel_without_its_secret_is_refused() -> None:
    with pytest.raises(ConfigError, match="'ops': the secret"):
        check(NotifySettings({"ops": SecretRef(env="NO_SUCH_VARIABLE")}))


def test_a_channel_of_every_run_has_to_be_there() -> None:
    with pytest.raises(ConfigError, match="no notification channel 'team'") as refused:
        check(settings("team"))
    assert "hook, ops" in str(refused.value.hint)


# What is told.


@pytest.mark.parametrize(
    ("fields", "reasons", "text"),
    [
        ({"verdict": "PASS"}, [], "PASS: directory-mix, run {} finished"),
        (
            {"state": "cancelled", "state_detail": "by ana"},
            [],
            "no verdict: directory-mix, run {} cancelled: by ana",
        ),
        (
            {"verdict": "INVALID", "state": "failed", "state_detail": "agent lost"},
            ["an interval is missing", "books"],
            "INVALID: directory-mix, run {} failed: an interval is missing",
        ),
    ],
)
def test_the_headline(fields: dict[str, str], reasons: list[str], text: str) -> None:
    record = run_record(Scenario(run=fields))
    assert headline(record, reasons) == text.format(RUN_ID)


def test_the_body_says_what_became_of_the_run() -> None:
    record = run_record(Scenario(run={"verdict": "FAIL"}))
    text = body(record, ["p99 was 8 ms", "errors"], "https://example.com/{run_id}/")
    assert text.splitlines() == [
        f"run        {RUN_ID}",
        "job        directory-mix",
        "verdict    FAIL",
        "state      finished",
        "submitted  2026-03-01T12:00:00.000000Z by ana@workstation",
        "started    2026-03-01T12:00:02.000000Z",
        "finished   2026-03-01T12:01:23.000000Z",
        "agents     load1, load2",
        f"link       https://example.com/{RUN_ID}/",
        f"report     ldapslam report {RUN_ID}",
        "",
        "Reasons:",
        "- p99 was 8 ms",
        "- errors",
    ]


def test_what_a_job_says_stays_on_its_line() -> None:
    name = "mix\r\nBcc: victim@example.com\n\nbody"
    record = run_record(Scenario(run={"job_name": name, "state_detail": name}))
    assert "\n" not in headline(record, [name])
    lines = body(record, [name], None).splitlines()
    assert not [line for line in lines if line.startswith(("Bcc", "body"))]


def test_secrets_of_a_url_are_taken_out_of_what_is_said() -> None:
    url = "jsons://ana:pa%40ss@hooks.example.com:8443/T0K3N/x?key=K3Y"
    said = "hooks.example.com refused pa@ss and T0K3N, K3Y of ana at x: 404"
    assert without_secrets(said, url) == "… refused … and …, … of … at …: 404"


@pytest.mark.parametrize(
    "clock", [timedelta(hours=2), timedelta(0), timedelta(hours=-2)]
)
def test_what_is_news_does_not_depend_on_a_clock_that_is_set(clock: timedelta) -> None:
    now = datetime.now(UTC) + clock
    assert is_news(ended(), 100.0, 100.0 + 3599, now)
    assert not is_news(ended(), 100.0, 100.0 + 3601, now)


def test_a_run_that_ended_before_the_start_is_no_news_after_an_hour() -> None:
    now = datetime.now(UTC)
    for minutes, expected in ((61, False), (59, True), (-60, True)):
        at = now + timedelta(minutes=minutes)
        assert is_news(ended(), None, 0.0, at) is expected


def test_so_many_notifications_wait_and_the_rest_is_told_in_the_run(
    writer: StoreWriter, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_PENDING", 2)

    async def work(notifier: Notifier) -> None:
        await writer.call(writer.store.create_run, ended("ops"))
        with exceeds():
            for verdict in ("PASS", "FAIL"):
                notifier.run_judged(ended(verdict=verdict), (), None)
            await until_told(notifier)
        with exceeds(NOTIFICATIONS=1):
            for verdict in ("PASS", "FAIL", "INVALID"):
                notifier.run_judged(ended(verdict=verdict), (), None)
            await until_told(notifier)

    events = run(writer, work, settings())
    assert [kind for kind, _ in events].count("notify_failed") == 1
    assert any("too many notifications are waiting" in text for _, text in events)
