# SPDX-License-Identifier: Apache-2.0
"""What an agent says of itself, its host and its targets, checked before it is kept.

Reports print facts and judge by some of them: those must have the shape that reports
expect, and none may pass for what only the coordinator knows. Pure.
"""

from __future__ import annotations

from typing import Any

from ldapslam.proto.messages import ProtocolError, decode_facts

#: Found out by the coordinator; an agent's word for them does not count.
COORDINATOR_FACTS = frozenset(
    {
        "epoch",
        "attempt",
        "build",
        "start_error_us",
        "clock_offset_us",
        "clock_offset_bound_us",
        "clock_drift_us",
        "part",
    }
)

_CLEAN_UP_COUNTS = ("entries", "deleted", "already_gone", "left")

_MAX_CHARACTERS = 1 << 20
_MAX_DEPTH = 8


def agent_facts(text: str) -> dict[str, Any]:
    """The facts of a report; ProtocolError when a reader could stumble over them."""
    if len(text) > _MAX_CHARACTERS:
        raise ProtocolError(f"facts of {len(text)} characters")
    facts = decode_facts(text)
    _check_depth(facts, _MAX_DEPTH)
    _expect(isinstance(facts.get("host", {}), dict), "host")
    targets = facts.get("targets", [])
    _expect(isinstance(targets, list), "targets")
    for target in targets:
        _expect(isinstance(target, dict) and _is_text(target.get("uri")), "targets")
    for name in ("control_operations", "later_operations"):
        operations = facts.get(name, {})
        _expect(isinstance(operations, dict), name)
        for counts in operations.values():
            _expect(
                isinstance(counts, dict) and all(map(_is_count, counts.values())), name
            )
    _check_clean_up(facts.get("clean_up", {}))
    return {
        name: value for name, value in facts.items() if name not in COORDINATOR_FACTS
    }


def _check_clean_up(facts: Any) -> None:
    _expect(isinstance(facts, dict), "clean_up")
    counts = (facts.get(name, 0) for name in _CLEAN_UP_COUNTS)
    _expect(all(map(_is_count, counts)), "clean_up")
    seconds = facts.get("seconds", 0.0)
    _expect(isinstance(seconds, int | float), "clean_up")
    _expect(facts.get("error") is None or _is_text(facts["error"]), "clean_up")


def _expect(holds: bool, name: str) -> None:
    if not holds:
        raise ProtocolError(f"fact {name!r} is not of its kind")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _check_depth(value: object, left: int) -> None:
    if not left:
        raise ProtocolError("facts within facts, too deep")
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            _check_depth(one, left - 1)
