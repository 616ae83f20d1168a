# SPDX-License-Identifier: Apache-2.0
"""The figures that a study's table shows: read from the result.json of a run. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ldapslam.base.fault import Fault, expected, unknown
from ldapslam.jobs.fields.thresholds import SHARES, STATISTICS, TIME_METRICS

NOTATION = """\
    stream.operation.throughput, .goodput    per second
    stream.operation.completed, .failed      requests of the measure phase
    stream.operation.errors                  percent of the requests due
    stream.operation.TIME[.STATISTIC]        in ms, such as response_time.p99; the
                                             mean without a statistic
    stream.elapsed                           from its start to its last response,
                                             in s
    server.KIND                              requests that servers have counted in
                                             the whole run, without the tool's own:
                                             bind, search, modify, unbind …
    agents.KIND                              requests that agents have sent

`*` stands for all streams, or all operations: their rates and counts are added
up, times are means over all of their requests. A percentile is of one operation.
"""

_RATES = {"throughput": "throughput_per_s", "goodput": "goodput_per_s"}
_COUNTS = ("completed", "failed")
#: Counters of errors, and of what they are a share of.
_ERRORS = SHARES["errors"]
_SIDES = ("server", "agents")
_NAME = re.compile(r"\*|[A-Za-z0-9][A-Za-z0-9_-]*", re.ASCII)

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Figure:
    """One parsed figure."""

    #: Stream, or `server` or `agents`.
    subject: str
    #: Operation, or the kind of the requests; empty of a stream.
    operation: str
    metric: str = ""
    statistic: str = "mean"

    @classmethod
    def of(cls, text: str) -> Figure:
        """Parsed; Fault."""
        names = text.strip().split(".")
        if not all(map(_NAME.fullmatch, names)) or not 2 <= len(names) <= 4:
            raise expected("a figure", text, "such as readers.search.throughput")
        if names[0] in _SIDES and len(names) == 2:
            return cls(names[0], names[1])
        if len(names) == 2:
            if names[1] != "elapsed":
                raise unknown("figure of a stream", names[1], ["elapsed"], "figures")
            return cls(names[0], "", "elapsed")
        metrics = (*_RATES, *_COUNTS, "errors", *TIME_METRICS)
        if names[2] not in metrics:
            raise unknown("figure", names[2], metrics, "figures")
        if len(names) == 4:
            if names[2] not in TIME_METRICS:
                raise Fault(f"{names[2]} has no statistics", "take the last word away")
            if names[3] not in STATISTICS:
                raise unknown("statistic", names[3], STATISTICS)
        return cls(*names)

    def read(self, result: Result) -> float | None:
        """Its value; None where the run does not have it."""
        if not self.metric:
            return self._requests(result)
        if self.metric == "elapsed":
            return self._elapsed_s(result)
        found = list(self._operations(result))
        if not found:
            return None
        if self.metric in _COUNTS:
            return float(sum(one[self.metric] for one in found))
        if self.metric in _RATES:
            return _sum(one[_RATES[self.metric]] for one in found)
        if self.metric == "errors":
            errors, due = (
                sum(one[k] for one in found for k in names) for names in _ERRORS
            )
            return 100 * errors / due if due else None
        times = [one.get(f"{self.metric}_us") or {} for one in found]
        if self.statistic == "mean":
            return _mean_ms([one for one in times if one.get("count")])
        value = times[0].get(self.statistic) if len(times) == 1 else None
        return None if value is None else value / 1000

    def _operations(self, result: Result) -> Iterator[Result]:
        for stream, operations in result["streams"].items():
            if self.subject in ("*", stream):
                for name, one in operations.items():
                    if self.operation in ("*", name):
                        yield one

    def _elapsed_s(self, result: Result) -> float | None:
        found = [
            one["elapsed_s"]
            for name, one in result["connections"].items()
            if self.subject in ("*", name)
        ]
        if not found or None in found:
            return None
        return float(max(found))

    def _requests(self, result: Result) -> float | None:
        books = result["books"].values()
        lines = [book[self.operation] for book in books if self.operation in book]
        if self.subject == "agents":
            return _sum(one["agents"] for one in lines)
        counted = [one.get("server") for one in lines]
        if None in counted:
            return None
        return _sum(one["server"] - one["control"] for one in lines)


def _sum(values: Iterable[float | None]) -> float | None:
    """None where one is not known, or there is none."""
    found = list(values)
    known = [one for one in found if one is not None]
    return math.fsum(known) if found and len(known) == len(found) else None


def _mean_ms(times: Sequence[Result]) -> float | None:
    count = sum(one["count"] for one in times)
    total_us = _sum(one["mean"] and one["mean"] * one["count"] for one in times)
    return None if total_us is None else total_us / float(count) / 1000
