# SPDX-License-Identifier: Apache-2.0
"""How far an agent's monotonic clock is from the coordinator's. Pure arithmetic.

One exchange gives four times: the agent sends at `t1` and receives at `t4` by its
clock, the coordinator receives at `t2` and sends at `t3` by its own. With

    offset = agent's clock - coordinator's clock
    rtt    = (t4 - t1) - (t3 - t2)              time spent on the way, both directions

the estimate is the midpoint, and it is off by at most half of the time on the way,
whatever the split between the directions:

    offset = ((t1 - t2) + (t4 - t3)) / 2 ± rtt / 2

Of many exchanges the one with the tightest bound is used, not a mean: queueing only
ever lengthens the way. Clocks drift apart, so a sample's bound widens with its age by
DRIFT_LIMIT, twice what an ordinary oscillator does.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

#: Largest relative drift between two hosts' monotonic clocks: 100 parts per million.
DRIFT_LIMIT = 100e-6
WINDOW = 64
#: Later times are made up, and would not fit into 64 bits.
_LATEST_NS = 2**61


@dataclass(frozen=True, slots=True)
class ClockSample:
    """One exchange; the names are those of the module's formula."""

    t1: int
    t2: int
    t3: int
    t4: int

    @property
    def rtt_ns(self) -> int:
        return (self.t4 - self.t1) - (self.t3 - self.t2)

    @property
    def is_plausible(self) -> bool:
        """False when a clock went back, or the sample was made up."""
        if max(map(abs, (self.t1, self.t2, self.t3, self.t4))) > _LATEST_NS:
            return False
        return self.t4 >= self.t1 and self.t3 >= self.t2 and self.rtt_ns >= 0

    def offset_ns(self) -> int:
        return ((self.t1 - self.t2) + (self.t4 - self.t3)) // 2


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """Agent's clock minus the coordinator's, known to ± bound_ns."""

    offset_ns: int
    bound_ns: int

    def to_agent_ns(self, coordinator_mono_ns: int) -> int:
        """The instant in the agent's CLOCK_MONOTONIC."""
        return coordinator_mono_ns + self.offset_ns


class OffsetEstimator:
    """The offset of one agent, from its last WINDOW exchanges."""

    def __init__(self) -> None:
        self._samples: deque[ClockSample] = deque(maxlen=WINDOW)

    def add(self, sample: ClockSample) -> bool:
        """Take an exchange; False when it is implausible and was ignored."""
        if not sample.is_plausible:
            return False
        self._samples.append(sample)
        return True

    def best_since(self, since_ns: int) -> tuple[int, ClockOffset] | None:
        """The tightest exchange after `since_ns`: its time and its offset."""
        later = [sample for sample in self._samples if sample.t3 > since_ns]
        if not later:
            return None
        best = min(later, key=lambda sample: sample.rtt_ns)
        bound_ns = (best.rtt_ns + 1) // 2 + 1
        return best.t3, ClockOffset(best.offset_ns(), bound_ns)

    def estimate(self, now_ns: int) -> ClockOffset | None:
        """Best estimate at the coordinator's `now_ns`; None without any exchange."""
        best: ClockOffset | None = None
        for sample in self._samples:
            age_ns = max(0, now_ns - sample.t3)
            # rounded up: a bound must not be too small
            bound_ns = (sample.rtt_ns + 1) // 2 + int(age_ns * DRIFT_LIMIT) + 1
            if best is None or bound_ns < best.bound_ns:
                best = ClockOffset(sample.offset_ns(), bound_ns)
        return best
