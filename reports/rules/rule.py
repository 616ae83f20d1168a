# SPDX-License-Identifier: Apache-2.0
"""What a validity rule is, for the modules that have some. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NOT_APPLICABLE = "nothing to check"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, applied."""

    #: As in the result and the guide: `sent_share`.
    name: str
    #: What must hold, and what is wrong when it does not, for people.
    title: str
    problem: str
    limit: str
    observed: str
    passed: bool


def percent(share: float) -> str:
    """Of limits and of what was observed."""
    return f"{share * 100:.5g}%"


def listed(items: Sequence[str], limit: int = 4) -> str:
    more = f" and {len(items) - limit} more" if len(items) > limit else ""
    return ", ".join(items[:limit]) + more
