# SPDX-License-Identifier: Apache-2.0
"""Monitors of directory entries: searches, and metrics made of attributes.

What a server is known to say is a table: `Query` is a search, `Source` a metric and
where its value is. A missing value is NaN; a sample without any value is an error.
"""

from __future__ import annotations

import csv
import dataclasses
import math
import re
import select
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import ldap

from ldapslam.base.errors import TargetError, TargetUnreachable
from ldapslam.directory.access import connect, error_text
from ldapslam.jobs.connection_settings import ConnectionSettings
from ldapslam.jobs.fields.connection import Bind
from ldapslam.results.records import STARTED, Metric

#: Attribute, in lower case -> its values.
Entry = Mapping[str, Sequence[bytes]]
Convert = Callable[[Sequence[bytes]], float]
Kind = Literal["gauge", "counter"]
#: Attributes, metric, unit, kind.
Column = tuple[str, str, str, Kind]
Columns = tuple[Column, ...]

_ATTRIBUTES = Path(__file__).with_name("attributes.csv")
_LARGEST = 2.0**64
_GENERALIZED_TIME = re.compile(rb"(\d{14})(?:[.,](\d+))?Z")


def columns_of(server: str) -> dict[str, Columns]:
    """The columns of each entry, or kind of entry, of a server's product."""
    found: dict[str, Columns] = {}
    with _ATTRIBUTES.open(encoding="utf-8", newline="") as file:
        for product, entry, *column in csv.reader(file):
            if product == server:
                found[entry] = (*found.get(entry, ()), cast(Column, tuple(column)))
    return found


class Query(NamedTuple):
    """A search."""

    base_dn: str
    scope: int
    attributes: tuple[str, ...]
    filter_text: str = "(objectClass=*)"
    #: The entry is below the base; sources know it by the base's name.
    finds_one: bool = False


class Source(NamedTuple):
    """A metric, and where its value is."""

    metric: Metric
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


MISSING = math.nan


class Monitor:
    """A source of metrics; `name` is unique in the run."""

    #: Fixed once `open` has returned.
    metrics: tuple[Metric, ...] = ()

    def __init__(self, name: str, every_ns: int) -> None:
        self.name = name
        #: Time between samples; 0: the run's interval.
        self.every_ns = every_ns
        #: What it is about: its kind, and the URIs of its servers by role. Facts, too.
        self.about: Mapping[str, Any] = {}

    def open(self) -> Mapping[str, Any]:
        """Facts for the manifest; LdapSlamError."""
        raise NotImplementedError

    def sample(self) -> Sequence[float]:
        """A value for each metric, NaN where missing; LdapSlamError when all are."""
        raise NotImplementedError

    def close(self) -> None:
        """Release what `open` and `sample` made."""


class EntriesMonitor(Monitor):
    """A monitor of a server by the table that `learn` makes of it when it is opened."""

    def __init__(
        self,
        name: str,
        every_ns: int,
        uri: str,
        target: TargetAccess,
        learn: Callable[[Directory], Table],
    ) -> None:
        super().__init__(name, every_ns)
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
    """A DN in lower case without spaces at its commas, for comparing."""
    return ",".join(part.strip() for part in dn.lower().split(","))


def entry_table(
    dn: str, attributes: Iterable[str], counters: Iterable[str]
) -> Callable[[Directory], Table]:
    """The metrics of one entry: gauges and counters."""
    metrics = [
        *(Metric(name, "1", "gauge") for name in attributes),
        *(Metric(name, "1", "counter") for name in counters),
    ]
    names = tuple(metric.name for metric in metrics)
    table = Table(
        (Query(dn, ldap.SCOPE_BASE, names),),
        tuple(source(dn, metric.name, *metric) for metric in metrics),
        {"entry": dn},
    )
    return lambda _: table


def distinct(sources: Iterable[Source]) -> tuple[Source, ...]:
    """Each metric once; metrics with equal names get their entry's DN instead."""
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


def number(values: Sequence[bytes]) -> float:
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


def source(
    dn: str,
    attributes: str,
    name: str,
    unit: str,
    kind: Kind = "gauge",
    convert: Convert = number,
    *,
    of: str = "",
) -> Source:
    """A metric of an entry; `attributes` are separated by spaces, `of` distinguishes
    metrics of one name."""
    metric = Metric(f"{name}[{of}]" if of else name, unit, kind)
    return Source(metric, folded(dn), tuple(attributes.lower().split()), convert)


def started(dn: str, attribute: str) -> Source:
    return source(dn, attribute, STARTED, "s since 1970", convert=time_s)


def newest_change(suffix: str, attribute: str, convert: Convert) -> Source:
    return source(
        suffix, attribute, "newest_change_age", "s", convert=convert, of=suffix
    )


def text(entry: Entry, attribute: str) -> str | None:
    values = entry.get(attribute.lower())
    return values[0].decode("utf-8", "replace") if values else None


@dataclass(frozen=True, slots=True)
class TargetAccess:
    """How to come to one server: TLS, addresses and the job's own bind."""

    access: ConnectionSettings
    #: Gets the kind of every request, for the reconciliation.
    note_request: Callable[[str], None]

    def bound_as(self, bind: Bind | None) -> TargetAccess:
        """With the bind's password resolved (ConfigError); itself without a bind."""
        if bind is None:
            return self
        return dataclasses.replace(self, access=self.access.bound_as(bind))


class Directory:
    """A connection to a server, made again after a loss."""

    def __init__(self, uri: str, target: TargetAccess) -> None:
        self.uri = uri
        self._target = target
        self._connection: Any = None

    def read(
        self,
        base_dn: str,
        scope: int = ldap.SCOPE_BASE,
        attributes: Sequence[str] = ("*", "+"),
        filter_text: str = "(objectClass=*)",
    ) -> list[tuple[str, dict[str, list[bytes]]]]:
        """The entries found, attribute names in lower case; none where the base is
        missing or hidden. TargetError without an answer."""
        wanted = (base_dn, scope, filter_text, list(attributes))
        try:
            try:
                found = self._search(*wanted)
            except ldap.SERVER_DOWN:
                found = self._search(*wanted)
        except (ldap.NO_SUCH_OBJECT, ldap.INSUFFICIENT_ACCESS):
            return []
        except ldap.LDAPError as error:
            self.close()
            raise TargetUnreachable(self.uri, error_text(error)) from error
        return [
            (dn, {name.lower(): values for name, values in entry.items()})
            for dn, entry in found
            if dn is not None
        ]

    def _search(self, *wanted: Any) -> Any:
        """SERVER_DOWN when the connection was lost: the next search makes another.

        A server that closed an idle connection sees nothing sent after that, so only
        searches that were or may be answered are noted.
        """
        if self._connection is not None and _has_hung_up(self._connection):
            self._forget()
        if self._connection is None:
            self._connection = connect(
                self.uri, self._target.access, note_request=self._target.note_request
            )
        timeout_s = self._target.access.connect_timeout_ns / 1e9
        try:
            found = self._connection.search_ext_s(*wanted, timeout=timeout_s)
        except ldap.SERVER_DOWN:
            self._forget()
            raise
        except ldap.LDAPError:
            self._target.note_request("search")
            raise
        self._target.note_request("search")
        return found

    def close(self) -> None:
        if self._connection is None:
            return
        is_heard = not _has_hung_up(self._connection)
        if self._forget() and is_heard:
            self._target.note_request("unbind")

    def _forget(self) -> bool:
        """Close; whether that went well."""
        connection, self._connection = self._connection, None
        try:
            connection.unbind_s()
        except ldap.LDAPError:
            return False
        return True


def _has_hung_up(connection: Any) -> bool:
    try:
        fileno = connection.get_option(ldap.OPT_DESC)
    except (ldap.LDAPError, ValueError):
        return True
    if fileno < 0:
        return True
    poll = select.poll()
    poll.register(fileno, select.POLLRDHUP)
    return bool(poll.poll(0))
