# SPDX-License-Identifier: Apache-2.0
"""When and why agents were lost, and what their observers failed with, as the run's
events have it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from ldapslam.results.records import EventRecord

#: Their texts begin with the agent, as the coordinator writes them.
_KINDS = ("agent_lost", "agent_early", "agent_failed")
_OF_OBSERVERS = ("observer_failed", "observer_overdue")


@dataclass(frozen=True, slots=True)
class Loss:
    """The end of an agent's part before its time."""

    #: Since T0: when the coordinator knew.
    at_s: float
    reason: str


def losses_of(
    events: Iterable[EventRecord], agents: Sequence[str], t0_utc: str | None
) -> dict[str, Loss]:
    """Agent -> its first loss; none of a run without T0."""
    losses: dict[str, Loss] = {}
    if t0_utc is None:
        return losses
    t0 = datetime.fromisoformat(t0_utc)
    for event in events:
        for agent in agents:
            start = f"agent {agent!r}: "
            if event.kind in _KINDS and event.text.startswith(start):
                at_s = (datetime.fromisoformat(event.at_utc) - t0).total_seconds()
                losses.setdefault(agent, Loss(at_s, event.text.removeprefix(start)))
    return losses


def observer_failures_of(events: Iterable[EventRecord]) -> list[str]:
    """Why observers saw nothing more, or nothing at all."""
    return [event.text for event in events if event.kind in _OF_OBSERVERS]
