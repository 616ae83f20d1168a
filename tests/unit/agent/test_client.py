# SPDX-License-Identifier: Apache-2.0
"""When an agent sends heartbeats."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from ldapslam.agent import client
from ldapslam.agent.session import AgentSession
from ldapslam.proto.agent_pb2_grpc import AgentServiceStub


class _Over(Exception):
    """The time that a test looks at."""


def beats(
    monkeypatch: pytest.MonkeyPatch, answered_s: list[float], until_s: float
) -> list[float]:
    """When there were heartbeats each second at most, with reports answered then."""
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
            link._answered_s = past[-1]

    async def beat(stub: AgentServiceStub) -> None:
        found.append(now_s)

    with monkeypatch.context() as patch:
        patch.setattr(client, "time", SimpleNamespace(monotonic=lambda: now_s))
        patch.setattr(client, "asyncio", SimpleNamespace(sleep=pass_time))
        patch.setattr(link, "_heartbeat", beat)
        with pytest.raises(_Over):
            asyncio.run(link._beat(cast(AgentServiceStub, None), 1.0))
    return found


def test_heartbeats_come_each_second_without_reports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert beats(monkeypatch, [], 4) == [1, 2, 3, 4]


def test_reports_that_are_answered_stand_for_four_of_five_heartbeats(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    each_second = [second + 0.1 for second in range(12)]
    assert beats(monkeypatch, each_second, 12) == [5, 10]


def test_heartbeats_come_again_when_reports_are_not_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert beats(monkeypatch, [0.9, 1.9, 2.9], 7) == [5, 6, 7]
