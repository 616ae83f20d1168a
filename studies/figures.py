# SPDX-License-Identifier: Apache-2.0
"""The figures that a study's table shows: read from the result.json of a run. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ldapslam.base.errors import ConfigError
from ldapslam.jobs.fields.thresholds import COUNTED_KINDS, Subject, parse_subject
from ldapslam.jobs.model import Job
from ldapslam.reports.figures import Metric, combined, figures_in, matching

NOTATION = """\
    stream.operation.metric[.statistic]   as in thresholds; the table shows times in
                                          ms, elapsed in s, shares in percent
    server.KIND                           requests that servers have counted in the
                                          whole run, with pre-flight and clean-up,
                                          without replication: bind, search, modify …
    agents.KIND                           requests that agents have sent in it
    one + another                         their sum

Of several streams or operations, rates and counts are added up, means and shares
are those of all of their requests; a percentile is of one operation.
"""

_BOOKS = re.compile(rf"(server|agents)\.({'|'.join(COUNTED_KINDS)})")

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """A parsed column."""

    about: Subject
    #: `server` or `agents`, and the kind of its requests.
    books: tuple[str, str] | None = None
    #: What is added to it.
    plus: Column | None = None

    @classmethod
    def of(cls, text: str) -> Column:
        """Parsed; Fault."""
        first, _, rest = text.partition(" + ")
        if rest:
            return replace(cls.of(first.strip()), plus=cls.of(rest.strip()))
        if found := _BOOKS.fullmatch(text):
            return cls(_ALL_COMPLETED, (found[1], found[2]))
        return cls(parse_subject(text))

    @property
    def metric(self) -> Metric:
        """The metric with the unit of its values."""
        return Metric(self.about.metric, self.about.statistic)

    def read(self, result: Result) -> float | None:
        """Its value; None where the run does not have it."""
        if self.plus is not None:
            return _sum([replace(self, plus=None).read(result), self.plus.read(result)])
        if self.books is not None:
            return _requests(result, *self.books)
        return combined(matching(self.about, figures_in(result)))


_ALL_COMPLETED = parse_subject("completed")


def check_figures(figures: Mapping[str, Column], jobs: Iterable[Job]) -> None:
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


def _terms(one: Column | None) -> Iterator[Column]:
    while one is not None:
        yield one
        one = one.plus


def _sum(values: Iterable[float | None]) -> float | None:
    """None where one is not known, or there is none."""
    found = list(values)
    known = [one for one in found if one is not None]
    return math.fsum(known) if found and len(known) == len(found) else None
