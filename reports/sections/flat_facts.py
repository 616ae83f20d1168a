# SPDX-License-Identifier: Apache-2.0
"""Facts of manifests as names and texts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ldapslam.reports.typeset import NOTHING


def flattened(facts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Each one, with the names of those it is in."""
    for key, value in facts.items():
        name = f"{prefix}{key}".replace("_", " ")
        if isinstance(value, Mapping):
            yield from flattened(value, f"{name} · ")
        elif isinstance(value, list) and any(isinstance(one, Mapping) for one in value):
            numbered = {str(number): one for number, one in enumerate(value, 1)}
            yield from flattened(numbered, f"{name} · ")
        else:
            yield name, _fact(value)


def compared(facts: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Name -> whose -> text, of those that somebody has."""
    flat = {whose: dict(flattened(of)) for whose, of in facts.items()}
    names = dict.fromkeys(name for of in flat.values() for name in of)
    found = {
        name: {whose: of.get(name, NOTHING) for whose, of in flat.items()}
        for name in names
    }
    return {name: of for name, of in found.items() if set(of.values()) != {NOTHING}}


def _fact(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_fact(one) for one in value) or NOTHING
    return NOTHING if value is None or value == "" else str(value)
