# SPDX-License-Identifier: Apache-2.0
"""The arrivals of an open stream, shared by the processes of its clients.

The schedule is the engine's (agent/csrc/pacer.h): of the run's arrivals, numbered from
0 and due when N(t) reaches their number, connection c of C is dealt c, c + C, …; this
agent's connections take theirs from one queue, so that an arrival waits only when all
of them are busy. Its state is a block of memory that all of them map, changed under a
lock that the kernel takes back from a process that dies.

A client that is free takes the next arrival, also one that is not due yet, and waits
for it. Arrivals that come due while nobody is free are put into the backlog the next
time that somebody looks: in between nothing is taken out of it, so that it is as full,
and drops as many, as if it had been kept all the time.
"""

from __future__ import annotations

import fcntl
import math
import mmap
import os
import random
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ldapslam.jobs.rates.profile import LINEAR, Segment

NEVER_NS = (1 << 64) - 1

#: Next arrival in ns; its place in the share (round, member); arrivals dealt so far;
#: position of a Poisson process; state of its generator; backlog: first, length.
_STATE = struct.Struct("<QQQQdQQQ")
_TIME = struct.Struct("<Q")
_SPLITMIX_STEP = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
#: N^-1 is searched for to the ns: more halvings than 64 bits have change nothing.
_HALVINGS = 70


class DueTimes:
    """N^-1: when the arrival with a number is due, in ns after T0."""

    def __init__(self, profile: Sequence[Segment]) -> None:
        self._pieces: list[tuple[float, int, Segment]] = []
        total, start_ns = 0.0, 0
        for segment in profile:
            self._pieces.append((total, start_ns, segment))
            total += segment.arrivals_by(segment.duration_ns)
            start_ns += segment.duration_ns
        self._total = total
        self._piece = 0

    def due_ns(self, x: float) -> int:
        """NEVER_NS after the last arrival. Quickest for numbers that rise."""
        if x >= self._total:
            return NEVER_NS
        if x < self._pieces[self._piece][0]:
            self._piece = 0
        while (
            self._piece + 1 < len(self._pieces)
            and x >= self._pieces[self._piece + 1][0]
        ):
            self._piece += 1
        before, start_ns, segment = self._pieces[self._piece]
        return start_ns + _inverse(segment, x - before)


def _inverse(segment: Segment, x: float) -> int:
    """The t with N(t) = x within a segment; N rises.

    Of a ramp, with k = (b - a) / d its slope, N(t) = a t + k t^2 / 2 = x, so
    t = 2 x / (a + sqrt(a^2 + 2 k x)), which loses no digits where k is small.
    """
    a = segment.a
    if segment.kind == LINEAR:
        slope = (segment.b - a) / segment.duration_ns
        root = math.sqrt(max(0.0, a * a + 2 * slope * x))
        return int(2 * x / (a + root)) if x > 0 else 0
    low, high = 0.0, float(segment.duration_ns)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if segment.arrivals_by(middle) < x:
            low = middle
        else:
            high = middle
    return int(high)


@dataclass(frozen=True, slots=True)
class ArrivalSettings:
    """The share of one agent."""

    profile: tuple[Segment, ...]
    #: 'constant', 'poisson' or 'uniform'.
    arrivals: str
    #: Connections first + i * stride, i < count, of total.
    first: int
    stride: int
    count: int
    total: int
    max_backlog: int
    #: Arrivals of the whole run; 0: no end.
    limit: int
    #: No arrival is due at or after it, in ns after T0.
    end_ns: int
    seed: str

    @property
    def own_limit(self) -> int:
        """How many arrivals below `limit` are dealt to this agent's connections."""
        if not self.limit:
            return NEVER_NS
        return sum(
            (self.limit - number + self.total - 1) // self.total
            for number in self._numbers()
            if number < self.limit
        )

    def _numbers(self) -> Iterator[int]:
        return (self.first + i * self.stride for i in range(self.count))


class SharedArrivals:
    """Made before the processes are; each calls `attach` once, then `take`."""

    def __init__(self, settings: ArrivalSettings) -> None:
        self._settings = settings
        self._due = DueTimes(settings.profile)
        self._own_limit = settings.own_limit
        self._file = os.memfd_create("arrivals", os.MFD_CLOEXEC)
        size = _STATE.size + _TIME.size * settings.max_backlog
        os.truncate(self._file, size)
        self._memory = mmap.mmap(self._file, size)
        self._lock = -1
        self.attach()
        generator = random.Random(settings.seed).getrandbits(64)
        state = _State(rng=generator)
        if settings.arrivals == "poisson":
            state.position = self._exponential(state)
        state.next_ns = self._next(state)
        self._store(state)

    def attach(self) -> None:
        """Give the calling process, or thread, a lock of its own."""
        self._lock = os.open(f"/proc/self/fd/{self._file}", os.O_RDWR | os.O_CLOEXEC)

    def attached(self) -> SharedArrivals:
        """The same arrivals for another thread of this process."""
        other = object.__new__(SharedArrivals)
        other.__dict__.update(self.__dict__)
        other.attach()
        return other

    @contextmanager
    def _locked(self) -> Iterator[_State]:
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            state = _State(*_STATE.unpack_from(self._memory))
            yield state
            self._store(state)
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _store(self, state: _State) -> None:
        _STATE.pack_into(self._memory, 0, *state.values())

    def take(self, now_ns: int, end_ns: int) -> tuple[int | None, list[int]]:
        """The next arrival for a client that is free now, and the arrivals that were
        dropped until now. None: there is none before the end. Times after T0."""
        with self._locked() as state:
            dropped = self._admit(state, now_ns, end_ns)
            if state.length:
                (arrival_ns,) = _TIME.unpack_from(self._memory, self._slot(state.head))
                state.head = (state.head + 1) % self._settings.max_backlog
                state.length -= 1
                return arrival_ns, dropped
            if state.next_ns >= self._end_ns(end_ns):
                return None, dropped
            arrival_ns = state.next_ns
            state.next_ns = self._next(state)
            return arrival_ns, dropped

    def note(self, now_ns: int, end_ns: int) -> tuple[int, list[int]]:
        """Length of the backlog now, and the arrivals that were dropped until now."""
        with self._locked() as state:
            dropped = self._admit(state, now_ns, end_ns)
            return state.length, dropped

    def end(self, end_ns: int) -> list[int]:
        """The load is over: what is due and waits is dropped, nothing more is taken."""
        with self._locked() as state:
            dropped = self._admit(state, end_ns, end_ns)
            for i in range(state.length):
                slot = self._slot((state.head + i) % self._settings.max_backlog)
                dropped.append(_TIME.unpack_from(self._memory, slot)[0])
            state.length = 0
            state.next_ns = NEVER_NS
            return dropped

    def _end_ns(self, end_ns: int) -> int:
        return min(end_ns, self._settings.end_ns)

    def _admit(self, state: _State, now_ns: int, end_ns: int) -> list[int]:
        dropped: list[int] = []
        capacity = self._settings.max_backlog
        while state.next_ns <= now_ns and state.next_ns < self._end_ns(end_ns):
            if state.length == capacity:
                dropped.append(state.next_ns)
            else:
                slot = self._slot((state.head + state.length) % capacity)
                _TIME.pack_into(self._memory, slot, state.next_ns)
                state.length += 1
            state.next_ns = self._next(state)
        return dropped

    @staticmethod
    def _slot(index: int) -> int:
        return _STATE.size + _TIME.size * index

    def _next(self, state: _State) -> int:
        """Time of the next arrival of this agent; advances to the one after."""
        settings = self._settings
        if state.dealt >= self._own_limit:
            return NEVER_NS
        state.dealt += 1
        if settings.arrivals == "poisson":
            x = state.position
            state.position += self._exponential(state)
            return self._due.due_ns(x)
        number = settings.first + state.member * settings.stride
        x = float(state.round * settings.total + number)
        state.member += 1
        if state.member == settings.count:
            state.member, state.round = 0, state.round + 1
        if settings.arrivals == "uniform":
            x += _uniform(state)
        return self._due.due_ns(x)

    def _exponential(self, state: _State) -> float:
        """A Poisson share's distance to its next arrival, in the run's arrivals."""
        step = -math.log(1.0 - _uniform(state))
        return step * self._settings.total / self._settings.count


@dataclass(slots=True)
class _State:
    next_ns: int = NEVER_NS
    round: int = 0
    member: int = 0
    dealt: int = 0
    position: float = 0.0
    rng: int = 0
    head: int = 0
    length: int = 0

    def values(self) -> tuple[int | float, ...]:
        return (
            self.next_ns,
            self.round,
            self.member,
            self.dealt,
            self.position,
            self.rng,
            self.head,
            self.length,
        )


def _uniform(state: _State) -> float:
    """The next number of [0, 1): splitmix64, whose whole state is one word."""
    state.rng = (state.rng + _SPLITMIX_STEP) & _MASK
    z = state.rng
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return float((z ^ (z >> 31)) >> 11) / float(1 << 53)
