# SPDX-License-Identifier: Apache-2.0
"""Figures out of entries: which entries are read, and what is made of their attributes.

What a server is known to say is a table: `Query` is a search, `Source` a metric and
where its value is. A monitor runs the searches and fills the table; what the server
does not say is missing.
"""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

import ldap

from ldapslam.agent.monitoring.base import (
    MISSING,
    STARTED,
    Directory,
    Metric,
    TargetAccess,
)
from ldapslam.base.errors import TargetError

#: Attribute, in lower case -> its values.
Entry = Mapping[str, Sequence[bytes]]
Convert = Callable[[Sequence[bytes]], float]

_LARGEST = 2.0**64
_GENERALIZED_TIME = re.compile(rb"(\d{14})(?:[.,](\d+))?Z")


class Query(NamedTuple):
    """A search."""

    base_dn: str
    scope: int
    attributes: tuple[str, ...]
    filter_text: str = "(objectClass=*)"
    #: It finds one entry below the base, which sources know by the base's name.
    finds_one: bool = False


class Source(NamedTuple):
    """A metric, and where its value is."""

    metric: Metric
    #: As `folded` has it.
    dn: str
    #: In lower case; their values are added.
    attributes: tuple[str, ...]
    convert: Convert


@dataclass(frozen=True)
class Table:
    """All that is read of a server."""

    queries: tuple[Query, ...]
    sources: tuple[Source, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)


class EntriesMonitor:
    """A monitor of a server by the table that `learn` makes of it when it is opened."""

    def __init__(
        self,
        name: str,
        every_ns: int,
        uri: str,
        target: TargetAccess,
        learn: Callable[[Directory], Table],
    ) -> None:
        self.name = name
        self.every_ns = every_ns
        self.metrics: tuple[Metric, ...] = ()
        self._directory = Directory(uri, target)
        self._learn = learn
        self._table = Table((), ())

    def open(self) -> Mapping[str, Any]:
        self._table = self._learn(self._directory)
        self.metrics = tuple(source.metric for source in self._table.sources)
        return self._table.facts

    def sample(self) -> Sequence[float]:
        values = fill(self._table, self._directory)
        if all(math.isnan(value) for value in values):
            raise TargetError(
                f"server {self._directory.uri!r} says nothing of what is monitored",
                hint="may the monitor's `bind` read it?",
            )
        return values

    def close(self) -> None:
        self._directory.close()


def fill(table: Table, directory: Directory) -> list[float]:
    """The values of the sources now, NaN where missing; TargetError."""
    entries: dict[str, dict[str, list[bytes]]] = {}
    for query in table.queries:
        for dn, entry in directory.read(
            query.base_dn, query.scope, query.attributes, query.filter_text
        ):
            is_base = query.finds_one or query.scope == ldap.SCOPE_BASE
            name = query.base_dn if is_base else dn
            entries.setdefault(folded(name), {}).update(entry)
    return [_value(source, entries.get(source.dn, {})) for source in table.sources]


def _value(source: Source, entry: Entry) -> float:
    found = [entry.get(attribute) for attribute in source.attributes]
    values = [source.convert(one) for one in found if one]
    return sum(values) if len(values) == len(found) else MISSING


def folded(dn: str) -> str:
    """A DN in a form that compares equal however a server writes it."""
    return ",".join(part.strip() for part in dn.lower().split(","))


def entry_table(
    dn: str, attributes: Iterable[str], counters: Iterable[str]
) -> Callable[[Directory], Table]:
    """Numbers of one entry: those that go up and down, and those that count."""
    metrics = [
        *(Metric(name, "1", "gauge") for name in attributes),
        *(Metric(name, "1", "counter") for name in counters),
    ]
    names = tuple(metric.name for metric in metrics)
    table = Table(
        (Query(dn, ldap.SCOPE_BASE, names),),
        tuple(
            Source(metric, folded(dn), (metric.name.lower(),), number)
            for metric in metrics
        ),
        {"entry": dn},
    )
    return lambda _: table


def distinct(sources: Iterable[Source]) -> tuple[Source, ...]:
    """Each metric once; of those with one name, each by its entry's DN instead: two
    consumers may have one provider, and two agreements one name."""
    by_place = {(one.metric.name, one.dn): one for one in sources}
    times = Counter(name for name, _ in by_place)
    return tuple(
        one
        if times[name] == 1
        else one._replace(
            metric=one.metric._replace(name=f"{name.partition('[')[0]}[{dn}]")
        )
        for (name, dn), one in by_place.items()
    )


# What values mean.


def number(values: Sequence[bytes]) -> float:
    """The first value, if it is a number, of 64 bits at most."""
    try:
        found = float(values[0])
    except ValueError:
        return MISSING
    return found if abs(found) <= _LARGEST else MISSING


def is_true(values: Sequence[bytes]) -> float:
    return float(values[0].lower() in (b"true", b"on", b"1"))


def time_s(values: Sequence[bytes]) -> float:
    """A generalized time, in s since 1970."""
    match = _GENERALIZED_TIME.match(values[0])
    if match is None:
        return MISSING
    try:
        moment = datetime.strptime(match[1].decode(), "%Y%m%d%H%M%S")
    except ValueError:
        return MISSING
    return moment.replace(tzinfo=UTC).timestamp() + float(b"0." + (match[2] or b"0"))


def age_s(values: Iterable[float]) -> float:
    """From the latest of some times until now, by this host's clock."""
    known = [value for value in values if not math.isnan(value)]
    return time.time() - max(known) if known else MISSING


def started(dn: str, attribute: str) -> Source:
    """When the server began, by which restarts are noticed."""
    metric = Metric(STARTED, "s since 1970", "gauge")
    return Source(metric, folded(dn), (attribute.lower(),), time_s)


def text(entry: Entry, attribute: str) -> str | None:
    """The first value of an attribute."""
    values = entry.get(attribute.lower())
    return values[0].decode("utf-8", "replace") if values else None
