# SPDX-License-Identifier: Apache-2.0
"""What an agent says of itself, its host and its targets, checked before it is kept.

Reports print facts and judge by some of them: those must have the shape that reports
expect, and none may pass for what only the coordinator knows. Pure.
"""

from __future__ import annotations

from typing import Any

from ldapslam.transport.messages import ProtocolError, decode_facts

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
        "observer",
    }
)

#: What an agent found out about a server that is the run's fact as well.
SERVER_FACTS = tuple(
    "vendor_name vendor_version monitor_version naming_contexts addresses".split()
)

_CLEAN_UP_COUNTS = ("entries", "deleted", "already_gone", "left")

_MAX_CHARACTERS = 1 << 20
_MAX_DEPTH = 8
#: Settings of servers, by database and plug-in, lie deeper.
_MAX_MONITOR_DEPTH = 16


def agent_facts(text: str) -> dict[str, Any]:
    """The facts of a report; ProtocolError when a reader could stumble over them."""
    facts = monitor_facts(text)
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
            _expect(_are_counts(counts), name)
    notes = facts.get("notes", {})
    _expect(isinstance(notes, dict), "notes")
    for kind in notes.values():
        _expect(isinstance(kind, list), "notes")
        _expect(all(isinstance(note, dict) for note in kind), "notes")
    _check_clean_up(facts.get("clean_up", {}))
    return {
        name: value for name, value in facts.items() if name not in COORDINATOR_FACTS
    }


def observation_facts(text: str) -> dict[str, Any]:
    """What an observer found: of servers by URI, and of their replication."""
    facts = monitor_facts(text)
    observations = facts.get("observations", {})
    _expect(isinstance(observations, dict), "observations")
    for found in observations.values():
        _expect(isinstance(found, dict), "observations")
        for name in ("before", "after"):
            reading = found.get(name, {})
            _expect(isinstance(reading, dict), name)
            _expect(_are_counts(reading.get("operations", {}), may_lack=True), name)
            _expect(_are_counts(reading.get("sent", {})), name)
            started = reading.get("started")
            _expect(started is None or _is_text(started), name)
        _expect(_are_counts(found.get("control_operations", {})), "control_operations")
        _expect(isinstance(found.get("facts", {}), dict), "facts")
        _expect(found.get("failure") is None or _is_text(found["failure"]), "failure")
    _expect(isinstance(facts.get("replication", {}), dict), "replication")
    cost = facts.get("observer_cost", {"cpu_s": 0.0})
    _expect(isinstance(cost, dict), "observer_cost")
    _expect(isinstance(cost.get("cpu_s"), int | float), "observer_cost")
    known = ("observations", "replication", "observer_cost")
    return {name: facts[name] for name in known if name in facts}


def monitor_facts(text: str) -> dict[str, Any]:
    """Facts of any kind, of a size and depth that can be kept."""
    if len(text) > _MAX_CHARACTERS:
        raise ProtocolError(f"facts of {len(text)} characters")
    facts = decode_facts(text)
    _check_depth(facts, _MAX_MONITOR_DEPTH)
    return facts


def _are_counts(counts: object, *, may_lack: bool = False) -> bool:
    return isinstance(counts, dict) and all(
        _is_count(count) or (may_lack and count is None) for count in counts.values()
    )


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
