# SPDX-License-Identifier: Apache-2.0
"""Commands to an agent: in order, again after a broken stream, never twice at once."""

from __future__ import annotations

import asyncio

import pytest

from ldapslam.coordinator.fleet.clock import ClockOffset, ClockSample
from ldapslam.coordinator.fleet.link import AgentIdentity, AgentLink
from ldapslam.proto.agent_pb2 import Command, StopRun


def new_link() -> AgentLink:
    return AgentLink(AgentIdentity("a", "a-1", 1, "0"))


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


async def test_commands_are_numbered_and_come_in_order() -> None:
    link = new_link()
    link.send(stop("x"))
    link.send(stop("y"))
    assert await take(link, 2) == [(1, "x"), (2, "y")]


async def test_a_command_reaches_a_stream_that_waits() -> None:
    link = new_link()
    waiting = await begin(link)
    assert link.is_streaming
    link.send(stop("x"))
    assert await waiting == [(1, "x")]
    assert not link.is_streaming


async def test_what_was_not_confirmed_comes_again() -> None:
    link = new_link()
    for reason in "xyz":
        link.send(stop(reason))
    await take(link, 3)
    link.confirm(1)
    # the agent saw two of them before its stream broke
    assert await take(link, 1, after=2) == [(3, "z")]
    assert await take(link, 2, after=0) == [(2, "y"), (3, "z")]


async def test_a_new_stream_ends_the_old_one() -> None:
    link = new_link()
    old = await begin(link)
    new = await begin(link)
    assert await old == []
    link.send(stop("x"))
    assert await new == [(1, "x")]


async def test_a_closed_session_ends_its_stream() -> None:
    link = new_link()
    waiting = await begin(link)
    link.close()
    assert await waiting == []


def test_clock_samples_of_another_session_are_ignored() -> None:
    link = AgentLink(AgentIdentity("a", "a-1", 1, "0"), opened_ns=1_000)
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
