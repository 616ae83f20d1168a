# SPDX-License-Identifier: Apache-2.0
"""The books: how many requests of each kind agents sent to each server. Pure.

Everything that a server's own monitor counts is in them: the load of every phase, the
binds and StartTLS of set-ups, unbinds, and what pre-flight and clean-up asked. Agents
count by role, so a role of several servers is one account, named by the role; one of a
single server is named by its URI, whatever the number of roles that share it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ldapslam.jobs.model import PYTHON_KIND
from ldapslam.reports.collect.totals import Collected
from ldapslam.results.records import RunRecord

#: Account -> kind of operation -> requests sent.
Books = Mapping[str, Mapping[str, int]]

#: Counter of a stream's connections -> kind.
_SET_UP = {"binds": "bind", "extended": "extended", "unbinds": "unbind"}


def keep_books(run: RunRecord, collected: Collected) -> Books:
    """Kinds in the order of their names; a kind never sent is left out."""
    streams = {stream["name"]: stream for stream in run.plan.get("streams", ())}
    accounts = accounts_of(streams)
    books: dict[str, Counter[str]] = {}
    for (stream, name), totals in collected.operations.items():
        if stream in streams:
            kind = _kinds(streams[stream]).get(name, "")
            if kind == PYTHON_KIND:
                continue  # what a class asked is in control_operations, by kind
            # an engine that does not count requests sends one for each operation
            sent = totals.whole["requests"] or totals.whole["sent"]
            books.setdefault(accounts[stream], Counter())[kind] += sent
    for stream, of_stream in collected.streams.items():
        if stream in streams:
            book = books.setdefault(accounts[stream], Counter())
            for counter, kind in _SET_UP.items():
                book[kind] += of_stream.counters[counter]
    by_uri = {
        uri: accounts[name]
        for name, stream in streams.items()
        for uri in stream.get("uris", ())
    }
    for uri, operations in (run.manifest.get("control_operations") or {}).items():
        books.setdefault(by_uri.get(uri, uri), Counter()).update(operations)
    return {
        account: {kind: book[kind] for kind in sorted(book) if book[kind]}
        for account, book in books.items()
    }


def accounts_of(streams: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Stream -> account."""
    return {
        name: uris[0]
        if len(uris := tuple(stream.get("uris", ()))) == 1
        else str(stream.get("target", ""))
        for name, stream in streams.items()
    }


def _kinds(stream: Mapping[str, Any]) -> dict[str, str]:
    return {one["name"]: one["kind"] for one in stream.get("operations", ())}
