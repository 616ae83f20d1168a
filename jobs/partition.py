# SPDX-License-Identifier: Apache-2.0
"""Exact splits of a run's totals over its agents.

The things of a stream (clients, connections) are numbered from 0 over the whole run;
number i belongs to agent i mod A. So shares differ by at most one and sum to the total,
and every agent knows its own without asking. Inside an agent the engine gives number i
to worker (i div A) mod W.
"""

from __future__ import annotations


def share(total: int, parts: int, index: int) -> int:
    """How many of the numbers 0 … total-1 are congruent to index modulo parts."""
    if not 0 <= index < parts:
        raise ValueError(f"part {index} of {parts}")
    return (total - index + parts - 1) // parts if total > index else 0


def participants(connections: int, agents: int) -> int:
    """Agents with at least one connection of a stream: the first ones by index."""
    return min(connections, agents)
