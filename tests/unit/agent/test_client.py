# SPDX-License-Identifier: Apache-2.0
"""When an agent sends heartbeats, and how it delivers its reports."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ldapslam.agent import client
from ldapslam.agent.session import AgentSession
from ldapslam.agent.spool import Spool
from ldapslam.base.errors import StoreError
from ldapslam.proto import agent_pb2 as pb
from ldapslam.proto.agent_pb2_grpc import AgentServiceStub
from ldapslam.transport.messages import ProtocolError


class _Over(Exception):
    """The time that a test looks at."""


def beats(
    monkeypatch: pytest.MonkeyPatch,
    answered_s: list[float],
    until_s: float,
    *,
    answered_late: bool = False,
) -> list[float]:
    """When there were heartbeats each second at most, with reports answered then; or
    sent then, and answered late."""
    session = cast(AgentSession, SimpleNamespace(spool=None))
    link = client._Link("unix:nowhere", session, None, has_joined=False)
    now_s, found = 0.0, []

    async def pass_time(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds
        if now_s > until_s:
            raise _Over
        past = [at_s for at_s in answered_s if at_s <= now_s]
        if past:
            link._signed_s = past[-1]
            if not answered_late:
                link._heard_s = max(link._heard_s, past[-1])

    async def beat(stub: AgentServiceStub) -> None:
        found.append(now_s)
        link._heard_s = now_s

    with monkeypatch.context() as patch:
        patch.setattr(client, "time", SimpleNamespace(monotonic=lambda: now_s))
        patch.setattr(client, "asyncio", SimpleNamespace(sleep=pass_time))
        patch.setattr(link, "_heartbeat", beat)
        with pytest.raises(_Over):
            asyncio.run(link._beat(cast(AgentServiceStub, None), 1.0))
    return found


EACH_SECOND = [second + 0.1 for second in range(12)]


@pytest.mark.parametrize(
    ("answered_s", "until_s", "answered_late", "expected"),
    [
        pytest.param([], 4, False, [1, 2, 3, 4], id="no reports"),
        pytest.param(EACH_SECOND, 12, False, [5, 10], id="answered"),
        pytest.param(EACH_SECOND, 6, True, [1, 3, 5], id="answered late"),
        pytest.param([0.9, 1.9, 2.9], 7, False, [5, 6, 7], id="answered no more"),
    ],
)
def test_reports_that_are_answered_stand_for_heartbeats(
    monkeypatch: pytest.MonkeyPatch,
    answered_s: list[float],
    until_s: float,
    answered_late: bool,
    expected: list[float],
) -> None:
    """For four of five; for every second heartbeat when they are answered late."""
    found = beats(monkeypatch, answered_s, until_s, answered_late=answered_late)
    assert found == expected


REFUSED = pb.ReportReply.STATUS_REFUSED
COMMITTED = pb.ReportReply.STATUS_COMMITTED


class _Stub:
    """Refuses the interval of sequence 1, and knows what it was sent."""

    ReportProgress = ReportMonitor = None

    def __init__(self, answers_short_by: int = 0, fails_at: int = -1) -> None:
        #: The messages of each stream.
        self.streams: list[list[list[int]]] = []
        self._short_by = answers_short_by
        self._fails_at = fails_at

    def Reports(self) -> _Stream:
        self.streams.append([])
        return _Stream(self)

    def take(self, request: pb.IntervalReports) -> pb.IntervalReplies:
        assert request.session_id == "s"
        sequences = [report.sequence for report in request.reports]
        self.streams[-1].append(sequences)
        if self._fails_at in sequences:
            self._fails_at = -1
            raise StoreError("the store is full")
        replies = [
            pb.ReportReply(status=REFUSED if sequence == 1 else COMMITTED)
            for sequence in sequences
        ]
        return pb.IntervalReplies(replies=replies[self._short_by :])


class _Stream:
    def __init__(self, stub: _Stub) -> None:
        self._stub = stub
        self._requests: deque[pb.IntervalReports] = deque()
        self._is_done = False

    def done(self) -> bool:
        return self._is_done

    async def write(self, request: pb.IntervalReports) -> None:
        self._requests.append(request)

    async def __aiter__(self) -> AsyncIterator[pb.IntervalReplies]:
        try:
            yield self._stub.take(self._requests.popleft())
        except StoreError:
            self._is_done = True
            raise


def deliver(folder: Path, sequences: range, stub: _Stub) -> None:
    """Until the spool is empty, or an error."""
    with Spool(folder) as spool:
        for sequence in sequences:
            report = pb.IntervalReport(run_id="r", sequence=sequence)
            spool.append(pb.SpoolEntry(interval=report))
        emptied = asyncio.Event()

        async def wait() -> None:
            emptied.set()
            await asyncio.Event().wait()

        reports = SimpleNamespace(clear=lambda: None, wait=wait)
        session: Any = SimpleNamespace(
            spool=spool,
            has_reports=reports,
            report_delay_s=0,
            post=lambda _: None,
        )
        link = client._Link("unix:nowhere", session, None, has_joined=False)
        link._session_id = "s"

        async def until_empty() -> None:
            delivering = asyncio.create_task(link._deliver(cast(Any, stub)))
            waiting = asyncio.create_task(emptied.wait())
            await asyncio.wait(
                (delivering, waiting), return_when=asyncio.FIRST_COMPLETED
            )
            waiting.cancel()
            if delivering.done():
                delivering.result()
            delivering.cancel()

        asyncio.run(until_empty())


def test_intervals_that_wait_go_in_one_message_and_each_has_its_answer(
    tmp_path: Path,
) -> None:
    stub = _Stub()
    deliver(tmp_path, range(11), stub)
    assert stub.streams == [[[0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 10]]]
    assert [path.name for path in tmp_path.rglob("*.report")] == ["000000000002.report"]


def test_intervals_that_the_store_did_not_take_go_again_on_another_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_STORE_PAUSE_S", 0)
    stub = _Stub(fails_at=9)
    deliver(tmp_path, range(2, 12), stub)
    assert stub.streams == [[[*range(2, 10)]], [[*range(2, 10)], [10, 11]]]
    assert not list(tmp_path.rglob("*.report"))


def test_an_answer_for_fewer_intervals_than_were_sent_confirms_none(
    tmp_path: Path,
) -> None:
    with pytest.raises(ProtocolError, match="2 answers to 3 reports"):
        deliver(tmp_path, range(2, 5), _Stub(answers_short_by=1))
    assert len(list(tmp_path.glob("*.report"))) == 3
