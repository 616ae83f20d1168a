# SPDX-License-Identifier: Apache-2.0
"""What a report says of how the servers are set up. Pure.

What differs between them may matter to the run and stands in its manifest; what is the
same on all, a page or two of it, comes last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ldapslam.reports.document import Cell, Column, Table
from ldapslam.reports.sections.flat_facts import compared

#: Servers that have a column each.
_COLUMNS = 3
#: Characters of a setting and its value: two such stand beside each other.
_SHORT = 56
_SETTING = (Column("Setting"), Column("Value"))
_NOTE = "Before the load, as far as the servers let the run's user read it."


def products(manifest: Mapping[str, Any]) -> str:
    """Which servers they are, by what they say of themselves."""
    uris: dict[str, list[str]] = {}
    for uri, facts in _facts(manifest).items():
        names = [key for key in facts if "vendor" in key or "version" in key]
        named = " ".join(str(facts[name]) for name in names)
        uris.setdefault(named or "of no known kind", []).append(uri)
    return "; ".join(f"{named}: {', '.join(of)}" for named, of in uris.items())


def differing(manifest: Mapping[str, Any]) -> list[Table]:
    """The settings that are not the same on all servers."""
    facts = _facts(manifest)
    rows = {
        name: of for name, of in compared(facts).items() if len(set(of.values())) > 1
    }
    if not rows:
        return []
    columns = (Column("Setting"), *map(Column, facts))
    cells: Iterable[tuple[str, ...]] = (
        (name, *of.values()) for name, of in rows.items()
    )
    if len(facts) > _COLUMNS:
        columns = (Column("Setting"), Column("Server"), Column("Value"))
        cells = ((name, *one) for name, of in rows.items() for one in of.items())
    caption = "Servers: what differs between them"
    return [Table("facts-servers", caption, columns, _rows(cells), (_NOTE,))]


def shared(manifest: Mapping[str, Any]) -> tuple[Table, ...]:
    """Those that all servers have, or the one that there is; short ones in pairs."""
    facts = _facts(manifest)
    rows = [
        (name, next(iter(of.values())))
        for name, of in compared(facts).items()
        if len(set(of.values())) == 1
    ]
    short = [one for one in rows if len(one[0]) + len(one[1]) <= _SHORT]
    long = [one for one in rows if len(one[0]) + len(one[1]) > _SHORT]
    tables = []
    if short:
        half = (len(short) + 1) // 2
        pairs = zip(short[:half], [*short[half:], ("", "")], strict=False)
        cells = ((*left, *right) for left, right in pairs)
        caption = "The same on all servers" if len(facts) > 1 else f"Of {min(facts)}"
        columns = (*_SETTING, *_SETTING)
        tables.append(Table("settings", caption, columns, _rows(cells), (_NOTE,)))
    if long:
        tables.append(
            Table("settings-long", "With longer values", _SETTING, _rows(long))
        )
    return tuple(tables)


def _facts(manifest: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Of each server what an observer read; else what it told the agents of itself."""
    told: Mapping[str, Mapping[str, Any]] = manifest.get("servers") or {}
    observed: Mapping[str, Mapping[str, Any]] = manifest.get("observations") or {}
    facts: dict[str, dict[str, Any]] = {}
    for uri in dict.fromkeys((*told, *observed)):
        of_agents = dict(told.get(uri, {}))
        if found := observed.get(uri, {}).get("facts"):
            addresses = {"addresses": of_agents.get("addresses")}
            facts[uri] = {**(addresses if of_agents else {}), **found}
        elif of_agents:
            facts[uri] = of_agents
    return facts


def _rows(rows: Iterable[tuple[str, ...]]) -> tuple[tuple[Cell, ...], ...]:
    return tuple(tuple(map(Cell, row)) for row in rows)
