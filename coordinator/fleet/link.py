# SPDX-License-Identifier: Apache-2.0
"""One agent's session: commands on their way to it, and its clock. No gRPC.

Commands are numbered from 1 and kept until a heartbeat confirms them, so that a broken
stream loses none.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from ldapslam.coordinator.fleet.clock import ClockOffset, ClockSample, OffsetEstimator
from ldapslam.proto import agent_pb2 as pb
from ldapslam.results.facts import Said


@dataclass(frozen=True, slots=True)
class AgentIdentity:
    """What an agent said of itself when it registered."""

    name: str
    instance: str
    epoch: int
    build: str
    host_facts: Said = field(default_factory=dict)
    limits: Said = field(default_factory=dict)
    #: True: its CLOCK_MONOTONIC is ours.
    shares_clock: bool = False
    #: The same for agents of one host; empty: not known.
    host_id: str = ""


class AgentLink:
    """The session of one agent process, over any number of connections."""

    def __init__(self, identity: AgentIdentity, opened_ns: int = 0) -> None:
        self.identity = identity
        self._opened_ns = opened_ns
        self.session_id = uuid.uuid4().hex
        self._clock = OffsetEstimator()
        self._commands: list[pb.Command] = []
        self._last_number = 0
        self._changed = asyncio.Event()
        #: Only the newest stream serves the session.
        self._stream_number = 0
        self._open_streams = 0
        self._is_closed = False
        self.load: pb.HostLoad | None = None

    @property
    def is_streaming(self) -> bool:
        """True while the agent's process holds its command stream open."""
        return self._open_streams > 0

    def send(self, command: pb.Command) -> None:
        """Queue a copy of a command, with its number."""
        self._last_number += 1
        numbered = pb.Command(number=self._last_number)
        numbered.MergeFrom(command)
        self._commands.append(numbered)
        self._changed.set()

    def confirm(self, number: int) -> None:
        """The agent has everything up to `number`."""
        self._commands = [item for item in self._commands if item.number > number]

    def close(self) -> None:
        self._is_closed = True
        self._changed.set()

    async def commands(self, after: int) -> AsyncGenerator[pb.Command, None]:
        """Commands beyond number `after`, as they come, until the session ends."""
        self._stream_number += 1
        own_number = self._stream_number
        self._changed.set()
        self._open_streams += 1
        try:
            while not self._is_closed and own_number == self._stream_number:
                pending = [item for item in self._commands if item.number > after]
                for command in pending:
                    yield command
                    after = command.number
                if not pending:
                    self._changed.clear()
                    await self._changed.wait()
        finally:
            self._open_streams -= 1

    def add_sample(self, sample: ClockSample, now_ns: int) -> None:
        """Take an exchange; one that by its times is of another session is ignored."""
        if self._opened_ns <= sample.t2 and sample.t3 <= now_ns:
            self._clock.add(sample)

    def best_exchange(self, since_ns: int) -> tuple[int, ClockOffset] | None:
        """The tightest exchange after `since_ns`: when it was, and what it says."""
        found = self._clock.best_since(since_ns)
        return None if found is None else (found[0], self._known(found[1]))

    def clock_offset(self, now_ns: int) -> ClockOffset | None:
        estimate = self._clock.estimate(now_ns)
        return None if estimate is None else self._known(estimate)

    def _known(self, estimate: ClockOffset) -> ClockOffset:
        """Offset 0 where both have one clock, unless that cannot be true."""
        if self.identity.shares_clock and abs(estimate.offset_ns) <= estimate.bound_ns:
            return ClockOffset(0, 0)
        return estimate
