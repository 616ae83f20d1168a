# SPDX-License-Identifier: Apache-2.0
"""The figures that a study's table shows: read from the result.json of a run. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ldapslam.base.errors import ConfigError
from ldapslam.jobs.fields.thresholds import (
    COUNTED_KINDS,
    SHARES,
    Subject,
    figure,
    matching,
    parse_subject,
    share_of,
)
from ldapslam.jobs.model import Job

NOTATION = """\
    stream.operation.metric[.statistic]   as in thresholds: times in ms, elapsed in s,
                                          shares in percent
    stream.operation.completed, .failed   requests of the measure phase
    server.KIND                           requests that servers have counted in the
                                          whole run, with pre-flight and clean-up,
                                          without replication: bind, search, modify …
    agents.KIND                           requests that agents have sent in it
    one + another                         their sum

Of several streams or operations, rates and counts are added up, means and shares
are those of all of their requests; a percentile is of one operation.
"""

_COUNTS = ("completed", "failed")
_BOOKS = re.compile(rf"(server|agents)\.({'|'.join(COUNTED_KINDS)})")
#: From the unit of a threshold's figure to the table's.
_SCALE = {"us": 1e-3, "per_s": 1.0, "share": 100.0}

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Figure:
    """One parsed figure."""

    about: Subject
    #: `server` or `agents`, and the kind of its requests.
    books: tuple[str, str] | None = None
    #: Counter, in place of the subject's metric.
    counter: str = ""
    #: What is added to it.
    plus: Figure | None = None

    @classmethod
    def of(cls, text: str) -> Figure:
        """Parsed; Fault."""
        first, _, rest = text.partition(" + ")
        if rest:
            return replace(cls.of(first.strip()), plus=cls.of(rest.strip()))
        if found := _BOOKS.fullmatch(text):
            return cls(_ALL, (found[1], found[2]))
        subject, _, last = text.rpartition(".")
        if last not in _COUNTS:
            return cls(parse_subject(text))
        # any metric of operations has the same names before it
        return cls(parse_subject(f"{subject}.throughput".lstrip(".")), counter=last)

    def read(self, result: Result) -> float | None:
        """Its value; None where the run does not have it."""
        if self.plus is not None:
            return _sum([replace(self, plus=None).read(result), self.plus.read(result)])
        if self.books is not None:
            return _requests(result, *self.books)
        found = [statistics for *_, statistics in matching(self.about, result)]
        if self.counter:
            return _sum(float(one[self.counter]) for one in found)
        values = [figure(self.about, one) for one in found]
        metric = self.about.metric
        if metric == "elapsed":
            return _worst(values, 1e-6)
        if len(values) == 1:
            return _worst(values, _SCALE[self.about.unit])
        if self.about.unit == "per_s":
            return _sum(values)
        if metric in SHARES:
            names = {name for both in SHARES[metric] for name in both}
            added = {name: sum(one.get(name, 0) for one in found) for name in names}
            share = share_of(metric, added)
            return None if share is None else 100 * share
        if self.about.statistic == "mean":
            return _mean_ms([one[f"{metric}_us"] for one in found])
        return None


_ALL = parse_subject("throughput")


def check_figures(figures: Mapping[str, Figure], jobs: Iterable[Job]) -> None:
    """ConfigError for a column of which no job has the stream and the operation."""
    streams = [stream for job in jobs for stream in job.streams]
    terms = [(name, term) for name, one in figures.items() for term in _terms(one)]
    for name, one in terms:
        about = one.about
        if not any(
            about.stream in ("*", stream.name)
            and about.operation in ("*", *dict(stream.request_names))
            for stream in streams
        ):
            raise ConfigError(
                f"the column {name!r} is of {about.stream}.{about.operation}, which no "
                "job of the study has",
                hint="`ldapslam describe thresholds` explains the names",
            )


def _requests(result: Result, side: str, kind: str) -> float | None:
    """Requests of a kind in the whole run, as 'agents' sent them or as the 'server'
    counted them for the run, of all servers; None: not known."""
    # 'A + B' is of groups that have a server in common, which are there as well
    parts = {
        part for name in result["books"] if " + " in name for part in name.split(" + ")
    }
    books = [book for name, book in result["books"].items() if name not in parts]
    lines = [book[kind] for book in books if kind in book]
    if side == "agents":
        return _sum(line["agents"] for line in lines)
    if any(line.get("server") is None for line in lines):
        return None
    return _sum(line["server"] - line["control"] - line["replicated"] for line in lines)


def _terms(one: Figure | None) -> Iterator[Figure]:
    while one is not None:
        yield one
        one = one.plus


def _worst(values: Sequence[float | None], scale: float) -> float | None:
    known = [one for one in values if one is not None]
    return max(known) * scale if known and len(known) == len(values) else None


def _sum(values: Iterable[float | None]) -> float | None:
    """None where one is not known, or there is none."""
    found = list(values)
    known = [one for one in found if one is not None]
    return math.fsum(known) if found and len(known) == len(found) else None


def _mean_ms(times: Sequence[Result]) -> float | None:
    found = [one for one in times if one["count"]]
    total_us = _sum(one["mean"] and one["mean"] * one["count"] for one in found)
    count = sum(one["count"] for one in found)
    return None if total_us is None else total_us / float(count) / 1000
