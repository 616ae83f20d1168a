# SPDX-License-Identifier: Apache-2.0
"""Who is told of an ended run, how often it is tried, and what the run's log says."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from ldapslam.coordinator.destinations import Destination, parse_destination
from ldapslam.coordinator.extension import Parts
from ldapslam.coordinator.journal import Journal
from ldapslam.coordinator.outputs import notifier as module
from ldapslam.coordinator.outputs.deliver import Cutoff, DeliveryFailed
from ldapslam.coordinator.outputs.notifier import Notifier, NotifySettings
from ldapslam.proto import operator_pb2 as pb
from ldapslam.results.records import RunRecord, SubmissionRecord, utc_text
from support.store import RUN_ID, Scenario, run_record

HOOK = "https://hooks.example.com/x"
OPS = "mailto:ops@example.com"


class Post:
    """Stands in for `send`: keeps what was sent, fails as it is told to."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        #: Destination -> what its next attempts end with.
        self.failures: dict[str, list[Exception]] = {}

    def __call__(self, document: dict[str, Any], to: Destination, *_: object) -> None:
        self.sent.append((str(to), document))
        if self.failures.get(str(to)):
            raise self.failures[str(to)].pop(0)

    @property
    def told(self) -> list[str]:
        return sorted(place for place, _ in self.sent)


@pytest.fixture
def post(monkeypatch: pytest.MonkeyPatch) -> Post:
    post = Post()
    monkeypatch.setattr(module, "send", post)
    return post


@pytest.fixture
def journal() -> Iterator[Journal]:
    journal = Journal("sqlite://")
    yield journal
    asyncio.run(journal.close())


def ended(**fields: object) -> RunRecord:
    now_utc = utc_text(datetime.now(UTC))
    record = replace(run_record(Scenario()), finished_utc=now_utc, verdict="FAIL")
    return replace(record, **fields)  # type: ignore[arg-type]


def settings(*where: str) -> NotifySettings:
    return NotifySettings(tuple(parse_destination(one) for one in where))


def run(
    journal: Journal,
    work: Callable[[Notifier], Awaitable[None]],
    own: NotifySettings,
    back_off_s: tuple[float, ...] = (0.0, 0.0),
) -> list[tuple[str, str]]:
    """Do this with a notifier from its start to its stop; the run's events."""

    async def live() -> list[tuple[str, str]]:
        notifier = Notifier(own, lambda _: ("p99",), back_off_s=back_off_s)
        parts = cast(Parts, type("Parts", (), {"journal": journal}))
        await notifier.start(parts)
        try:
            await work(notifier)
        finally:
            await notifier.stop()
        events = await journal.call(journal.store.events, RUN_ID)
        return sorted((event.kind, event.text) for event in events)

    return asyncio.run(live())


def judged(
    journal: Journal, record: RunRecord
) -> Callable[[Notifier], Awaitable[None]]:
    """The run is stored and its end told."""

    async def work(notifier: Notifier) -> None:
        await journal.call(journal.store.create_run, record)
        notifier.run_judged(record)
        await until_told(notifier)

    return work


async def until_told(notifier: Notifier) -> None:
    while notifier._pending:
        await asyncio.wait(notifier._pending)


def test_every_destination_is_told_once_with_verdict_and_reasons(
    journal: Journal, post: Post
) -> None:
    events = run(journal, judged(journal, ended()), settings(HOOK, OPS, HOOK))
    assert post.told == ["https://hooks.example.com/…", OPS]
    document = post.sent[0][1]
    assert (document["verdict"], document["reasons"]) == ("FAIL", ["p99"])
    assert events == [
        ("notified", "https://hooks.example.com/… was told"),
        ("notified", f"{OPS} was told"),
    ]


def test_what_fails_is_tried_again_and_hinders_no_other(
    journal: Journal, post: Post
) -> None:
    busy = DeliveryFailed("it answered 503")
    post.failures[OPS] = [busy, busy]
    events = run(journal, judged(journal, ended()), settings(OPS, HOOK))
    assert post.told.count(OPS) == 3
    assert [kind for kind, _ in events] == ["notified", "notified"]


@pytest.mark.parametrize(
    ("failure", "attempts", "said"),
    [
        (DeliveryFailed("it answered 503"), 3, "it answered 503"),
        (DeliveryFailed("it answered 404", is_final=True), 1, "it answered 404"),
        (ZeroDivisionError("a defect"), 1, "ZeroDivisionError"),
    ],
)
def test_a_destination_that_cannot_be_told_is_named_in_the_runs_log(
    journal: Journal, post: Post, failure: Exception, attempts: int, said: str
) -> None:
    post.failures[OPS] = [failure] * 9
    events = run(journal, judged(journal, ended()), settings(OPS))
    assert len(post.sent) == attempts
    assert events == [("notify_failed", f"{OPS} was not told: {said}")]


def test_what_a_submission_names_is_told_though_it_is_forgotten_at_the_end(
    journal: Journal, post: Post
) -> None:
    request = pb.SubmitJobRequest(notify=["mailto:ana@example.com", OPS])
    submission = SubmissionRecord(request.SerializeToString())

    async def work(notifier: Notifier) -> None:
        record = ended()
        store = journal.store
        await journal.call(
            store.create_run, replace(record, state="queued"), submission
        )
        for state in ("queued", "running", "finished"):
            notifier.run_changed(pb.RunStatus(run_id=RUN_ID, state=state))
        notifier.run_judged(record)
        await until_told(notifier)

    run(journal, work, settings(OPS))
    assert post.told == ["mailto:ana@example.com", OPS]


def test_nobody_is_told_of_what_ended_long_ago(journal: Journal, post: Post) -> None:
    long_ago = utc_text(datetime.now(UTC) - timedelta(hours=2))
    assert (
        run(journal, judged(journal, ended(finished_utc=long_ago)), settings(OPS)) == []
    )
    assert post.sent == []


@pytest.mark.parametrize("fails", [False, True])
def test_nobody_is_told_again_after_a_restart(
    journal: Journal, post: Post, fails: bool
) -> None:
    """A run without a verdict is judged again at each start."""
    if fails:
        post.failures[OPS] = [DeliveryFailed("no", is_final=True)]
    record = ended(verdict=None)
    before = run(journal, judged(journal, record), settings(OPS))

    async def judged_again(notifier: Notifier) -> None:
        notifier.run_judged(record)
        await until_told(notifier)

    assert run(journal, judged_again, settings(OPS)) == before
    assert len(post.sent) == 1


def test_what_waits_for_another_attempt_is_given_up_at_once_at_the_end(
    journal: Journal, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STOP_GRACE_S", 3600.0)
    post.failures[OPS] = [DeliveryFailed("it answered 503")]

    async def work(notifier: Notifier) -> None:
        await journal.call(journal.store.create_run, ended())
        notifier.run_judged(ended())

    events = run(journal, work, settings(OPS), (3600.0,))
    assert events == [
        ("notify_failed", f"{OPS} was not told: it answered 503; the coordinator ended")
    ]


def test_what_is_being_sent_is_cut_off_at_the_end(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STOP_GRACE_S", 0.05)
    has_begun, ended_early = threading.Event(), threading.Event()

    def hang(_: object, __: object, ___: object, cutoff: Cutoff) -> None:
        has_begun.set()
        while not cutoff._is_over:
            ended_early.wait(0.01)
        ended_early.set()
        raise DeliveryFailed("not done")

    monkeypatch.setattr(module, "send", hang)

    async def work(notifier: Notifier) -> None:
        await journal.call(journal.store.create_run, ended())
        notifier.run_judged(ended())
        await asyncio.to_thread(has_begun.wait, 60)

    [(kind, text)] = run(journal, work, settings(OPS))
    assert (kind, "the coordinator ended" in text) == ("notify_failed", True)
    assert ended_early.wait(60)


def test_a_submission_that_cannot_be_read_is_no_harm(
    journal: Journal, post: Post
) -> None:
    async def work(notifier: Notifier) -> None:
        record = ended()
        queued = replace(record, state="queued")
        submission = SubmissionRecord(b"\xff\xff")
        await journal.call(journal.store.create_run, queued, submission)
        notifier.run_changed(pb.RunStatus(run_id=RUN_ID, state="running"))
        await asyncio.wait({notifier._submitted[RUN_ID]})
        notifier.run_judged(record)
        await until_told(notifier)

    events = run(journal, work, settings())
    assert [kind for kind, _ in events] == ["notify_failed"]
