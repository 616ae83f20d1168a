# SPDX-License-Identifier: Apache-2.0
"""Fault schedules drawn from a seed: what is broken, when, and for how long. Pure.

A schedule is one short run and one to four faults. The same seed is always the same
schedule. `Expected` says what a run may come to under it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from support.report_relay import FAULTS as CALL_FAULTS

AGENTS = ("a", "b", "c")


class Kind(StrEnum):
    """A fault; those with a length end by themselves, the others are for good."""

    KILL_AGENT = "kill_agent"
    KILL_ENGINE = "kill_engine"
    TERMINATE_AGENT = "terminate_agent"
    RESTART_COORDINATOR = "restart_coordinator"
    CUT_LINK = "cut_link"
    CUT_REPLIES = "cut_replies"
    RESET_LINK = "reset_link"
    STOP_AGENT = "stop_agent"
    STOP_ENGINE = "stop_engine"
    STOP_COORDINATOR = "stop_coordinator"
    DELAY = "delay"
    #: Writes wait, some of them beyond the coordinator's patience.
    LOCK_STORE = "lock_store"
    #: PostgreSQL's side of all connections.
    END_BACKENDS = "end_backends"
    #: Another one on the same store.
    SECOND_COORDINATOR = "second_coordinator"


#: They end an agent's part of the run, if it has not ended yet.
LETHAL = frozenset({Kind.KILL_AGENT, Kind.KILL_ENGINE, Kind.TERMINATE_AGENT})
_OF_THE_STORE = (Kind.LOCK_STORE, Kind.END_BACKENDS, Kind.SECOND_COORDINATOR)
_OF_AN_AGENT = frozenset(Kind).difference(
    (Kind.RESTART_COORDINATOR, Kind.STOP_COORDINATOR), _OF_THE_STORE
)
#: Shortest and longest, in seconds; of those for good, until the process is back.
_LENGTH_S = {
    Kind.KILL_AGENT: (0.0, 1.0),
    Kind.KILL_ENGINE: (0.0, 0.0),
    Kind.TERMINATE_AGENT: (0.0, 1.0),
    Kind.RESTART_COORDINATOR: (0.0, 1.5),
    Kind.CUT_LINK: (0.2, 2.5),
    Kind.CUT_REPLIES: (0.2, 2.5),
    Kind.RESET_LINK: (0.0, 0.0),
    Kind.STOP_AGENT: (0.2, 2.0),
    Kind.STOP_ENGINE: (0.2, 1.0),
    Kind.STOP_COORDINATOR: (0.2, 2.0),
    Kind.DELAY: (0.5, 3.0),
    Kind.LOCK_STORE: (0.2, 3.0),
    Kind.END_BACKENDS: (0.0, 0.0),
    Kind.SECOND_COORDINATOR: (1.0, 3.0),
}
#: Longer than a coordinator waits for its store.
_LONG_LOCK_S = (10.5, 12.0)
#: They keep an agent from hearing its coordinator; beyond the grace, in some schedules.
_LEASED = frozenset({Kind.CUT_LINK, Kind.STOP_AGENT, Kind.STOP_COORDINATOR})
_LONG_S = (4.5, 6.0)
#: Promised: a lease is over so soon after the grace.
_LATE_S = 1.0
_SHORT_GRACE_S, _LONG_GRACE_S = 3.0, 20.0


@dataclass(frozen=True, slots=True)
class Fault:
    kind: Kind
    #: After T0.
    at_s: float
    length_s: float
    #: None: the fault is the coordinator's.
    agent: str | None = None

    def __str__(self) -> str:
        of = f" {self.agent}" if self.agent else ""
        return f"{self.kind}{of} at {self.at_s:+.2f} s for {self.length_s:.2f} s"


@dataclass(frozen=True, slots=True)
class FaultSchedule:
    seed: int
    agents: tuple[str, ...]
    duration_s: float
    on_agent_loss: str
    coordinator_timeout_s: float
    #: Is there a second run, which wants the same target?
    has_rival: bool
    is_postgresql: bool
    #: Of the calls of agents, during all of the run (report_relay.py).
    call_faults: tuple[str, ...]
    #: In order.
    faults: tuple[Fault, ...]

    def __str__(self) -> str:
        parts = ["postgresql"] * self.is_postgresql + ["a rival"] * self.has_rival
        parts += [*self.call_faults, *map(str, self.faults)]
        return (
            f"seed {self.seed}: {self.duration_s:.1f} s on {', '.join(self.agents)}, "
            f"{self.on_agent_loss}, timeout {self.coordinator_timeout_s:g} s: "
            + "; ".join(parts)
        )

    @property
    def is_harmless(self) -> bool:
        """Must the run come to its planned end, with every interval?"""
        return self.coordinator_timeout_s == _LONG_GRACE_S and not any(
            fault.kind in LETHAL or fault.at_s < 0 for fault in self.faults
        )

    @property
    def killed(self) -> dict[str, float]:
        """Agents that may owe the intervals under way when they were killed, and those
        of so many seconds before: a suspended agent takes none from its engine."""
        lethal = (Kind.KILL_AGENT, Kind.KILL_ENGINE)
        killed = {one.agent for one in self.faults if one.agent and one.kind in lethal}
        held = [one for one in self.faults if one.kind is Kind.STOP_AGENT]
        return {
            agent: sum(one.length_s for one in held if one.agent == agent)
            for agent in killed
        }

    @property
    def stopped(self) -> frozenset[str]:
        """Agents whose engine stands still for a while."""
        return frozenset(
            fault.agent
            for fault in self.faults
            if fault.agent and fault.kind is Kind.STOP_ENGINE
        )

    def load_ends_s(self, agent: str, begun_s: Mapping[Fault, float]) -> float:
        """Load of the agent reaches the directory no later after T0: by the plan, or by
        the lease of an agent that does not hear its coordinator. `begun_s` says when
        faults were there in truth."""
        ends_s = self.duration_s + _LATE_S
        for fault, at_s in begun_s.items():
            is_deaf = fault.kind in _LEASED and fault.agent in (agent, None)
            if is_deaf and at_s > 0 and fault.length_s > self.coordinator_timeout_s:
                ends_s = min(ends_s, at_s + self.coordinator_timeout_s + _LATE_S)
        return ends_s + sum(
            fault.length_s
            for fault in self.faults
            if fault.kind is Kind.STOP_ENGINE and fault.agent == agent
        )


def fault_schedule(seed: int) -> FaultSchedule:
    """The schedule of this seed."""
    rng = random.Random(seed)
    agents = AGENTS[: rng.choice((2, 3))]
    is_short = rng.random() < 0.3
    # long enough for the lease to end before the plan does
    duration_s = round(rng.uniform(4.0, 6.0) if is_short else rng.uniform(2.0, 4.0), 1)
    call_faults: tuple[str, ...] = ()
    if rng.random() < 0.35:
        call_faults = tuple(sorted(rng.sample(CALL_FAULTS, rng.choice((1, 2)))))
    is_postgresql = rng.random() < 0.4
    kinds = [one for one in Kind if is_postgresql or one is not Kind.END_BACKENDS]
    faults = sorted(
        _faults(rng, kinds, agents, duration_s, is_short), key=lambda fault: fault.at_s
    )
    return FaultSchedule(
        seed,
        agents,
        duration_s,
        rng.choice(("stop", "continue")),
        _SHORT_GRACE_S if is_short else _LONG_GRACE_S,
        rng.random() < 0.3,
        is_postgresql,
        call_faults,
        tuple(faults),
    )


def _faults(
    rng: random.Random,
    kinds: Sequence[Kind],
    agents: tuple[str, ...],
    duration_s: float,
    is_short: bool,
) -> Iterator[Fault]:
    has_ended: set[str] = set()
    for _ in range(rng.randint(1, 4)):
        kind = rng.choice(kinds)
        agent = rng.choice(agents) if kind in _OF_AN_AGENT else None
        if agent is not None and kind in LETHAL:
            if agent in has_ended:
                continue  # one end is enough
            has_ended.add(agent)
        length_s = rng.uniform(*_LENGTH_S[kind])
        if is_short and kind in _LEASED and rng.random() < 0.7:
            length_s = rng.uniform(*_LONG_S)
        if kind is Kind.LOCK_STORE and rng.random() < 0.2:
            length_s = rng.uniform(*_LONG_LOCK_S)
        # some before the start, while agents prepare; some after the end
        earliest_s = -1.5 if rng.random() < 0.15 else 0.05
        at_s = rng.uniform(earliest_s, duration_s + 0.3)
        yield Fault(kind, at_s, length_s, agent)
