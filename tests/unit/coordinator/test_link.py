# SPDX-License-Identifier: Apache-2.0
"""Commands to an agent: in order, again after a broken stream. Offsets of its clock."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldapslam.coordinator.fleet.clock import (
    DRIFT_LIMIT,
    WINDOW,
    ClockOffset,
    ClockSample,
    OffsetEstimator,
)
from ldapslam.coordinator.fleet.link import AgentIdentity, AgentLink
from ldapslam.proto.agent_pb2 import Command, StopRun


def new_link(*sent: str, **options: Any) -> AgentLink:
    """A link on which commands to stop with these reasons were sent."""
    link = AgentLink(AgentIdentity("a", "a-1", 1, "0"), **options)
    for reason in sent:
        link.send(stop(reason))
    return link


def stop(reason: str) -> Command:
    return Command(stop=StopRun(run_id="r", reason=reason))


async def take(link: AgentLink, count: int, after: int = 0) -> list[tuple[int, str]]:
    """The next commands of a new stream, which then breaks."""
    found: list[tuple[int, str]] = []
    stream = link.commands(after)
    async for command in stream:
        found.append((command.number, command.stop.reason))
        if len(found) == count:
            break
    await stream.aclose()
    return found


async def begin(link: AgentLink) -> asyncio.Task[list[tuple[int, str]]]:
    """A stream that waits for its first command."""
    waiting = asyncio.create_task(take(link, 1))
    await asyncio.wait((waiting,), timeout=0)
    assert not waiting.done()
    return waiting


async def test_commands_come_in_order_and_again_when_they_were_not_confirmed() -> None:
    link = new_link("x", "y", "z")
    assert await take(link, 3) == [(1, "x"), (2, "y"), (3, "z")]
    link.confirm(1)
    # the agent saw two of them before its stream broke
    assert await take(link, 1, after=2) == [(3, "z")]
    assert await take(link, 2, after=0) == [(2, "y"), (3, "z")]


async def test_a_command_reaches_the_stream_that_waits_until_the_session_ends() -> None:
    link = new_link()
    old = await begin(link)
    new = await begin(link)
    assert await old == [], "a new stream ends the old stream"
    assert link.is_streaming
    link.send(stop("x"))
    assert await new == [(1, "x")]
    assert not link.is_streaming
    link.confirm(1)
    waiting = await begin(link)
    link.close()
    assert await waiting == []


async def test_one_command_for_two_agents_has_a_number_of_each() -> None:
    command, first, second = stop("x"), new_link("before"), new_link()
    first.send(command)
    second.send(command)
    assert await take(first, 2) == [(1, "before"), (2, "x")]
    assert await take(second, 1) == [(1, "x")]


def test_clock_samples_of_another_session_are_ignored() -> None:
    link = new_link(opened_ns=1_000)
    link.add_sample(ClockSample(0, 999, 999, 0), now_ns=2_000)
    link.add_sample(ClockSample(0, 2_001, 2_001, 0), now_ns=2_000)
    assert link.clock_offset(2_000) is None
    link.add_sample(ClockSample(10, 1_510, 1_510, 10), now_ns=2_000)
    offset = link.clock_offset(2_000)
    assert offset is not None
    assert offset.offset_ns == -1_500


@pytest.mark.parametrize(
    ("offset_ns", "expected"),
    [(0, ClockOffset(0, 0)), (40, ClockOffset(0, 0)), (60, ClockOffset(60, 51))],
)
def test_a_clock_that_is_our_own_is_known_exactly_unless_it_cannot_be(
    offset_ns: int, expected: ClockOffset
) -> None:
    link = AgentLink(AgentIdentity("a", "a-1", 1, "0", shares_clock=True))
    # 100 ns on the way: known to 50
    link.add_sample(ClockSample(offset_ns, 50, 50, offset_ns + 100), 50)
    assert link.clock_offset(50) == expected
    found = link.best_exchange(0)
    assert found is not None
    assert found == (50, expected)


S = 1_000_000_000


def exchange(
    offset_ns: int, there_ns: int, back_ns: int, *, at_ns: int = 0, work_ns: int = 0
) -> ClockSample:
    """What an agent whose clock is ahead by offset_ns measures; at_ns: sent, in the
    coordinator's clock."""
    return ClockSample(
        t1=at_ns + offset_ns,
        t2=at_ns + there_ns,
        t3=at_ns + there_ns + work_ns,
        t4=at_ns + there_ns + work_ns + back_ns + offset_ns,
    )


def test_equal_ways_give_the_exact_offset() -> None:
    # t1 = 1000, t2 = 50, t3 = 70, t4 = 1120: ((1000-50) + (1120-70)) / 2 = 1000
    sample = exchange(1000, 50, 50, work_ns=20)
    assert (sample.offset_ns(), sample.rtt_ns) == (1000, 100)
    assert ClockOffset(-300, 10).to_agent_ns(1000) == 700


@given(
    offset_ns=st.integers(-(10**18), 10**18),
    there_ns=st.integers(0, 10**9),
    back_ns=st.integers(0, 10**9),
    work_ns=st.integers(0, 10**9),
    age_ns=st.integers(0, 10**9),
)
def test_the_true_offset_is_within_the_bound_whatever_the_ways(
    offset_ns: int, there_ns: int, back_ns: int, work_ns: int, age_ns: int
) -> None:
    estimator = OffsetEstimator()
    sample = exchange(offset_ns, there_ns, back_ns, work_ns=work_ns)
    assert estimator.add(sample)
    estimate = estimator.estimate(sample.t3 + age_ns)
    assert estimate is not None
    assert abs(estimate.offset_ns - offset_ns) <= estimate.bound_ns


def test_a_bound_widens_with_age_until_a_newer_sample_is_better() -> None:
    estimator = OffsetEstimator()
    estimator.add(exchange(0, 100, 100))
    estimate = estimator.estimate(10 * S)
    # half of 200 ns, and 10 s at 100 parts per million: 1 ms
    assert estimate is not None
    assert estimate.bound_ns == pytest.approx(100 + 10 * S * DRIFT_LIMIT, abs=2)
    estimator.add(exchange(700, 1000, 1000, at_ns=10 * S))
    assert estimator.estimate(10 * S) == ClockOffset(700, 1001)


@pytest.mark.parametrize(
    "sample",
    [
        ClockSample(t1=10, t2=0, t3=0, t4=9),
        ClockSample(t1=0, t2=10, t3=9, t4=10),
        ClockSample(t1=0, t2=0, t3=100, t4=50),
        ClockSample(t1=-(2**63), t2=0, t3=1, t4=2**63 - 1),
    ],
    ids=[
        "agent's clock went back",
        "coordinator's clock went back",
        "negative way",
        "no clock's times",
    ],
)
def test_an_impossible_sample_is_ignored(sample: ClockSample) -> None:
    estimator = OffsetEstimator()
    assert not estimator.add(sample)
    assert estimator.estimate(0) is None


def test_the_shortest_way_of_the_last_samples_wins() -> None:
    estimator = OffsetEstimator()
    for there_ns in (900, 40, 300):
        estimator.add(exchange(5000, there_ns, 40))
    assert estimator.estimate(0) == ClockOffset(5000, 41)
    for _ in range(WINDOW):
        estimator.add(exchange(2, 50, 50))
    assert estimator.estimate(0) == ClockOffset(2, 51)
