# SPDX-License-Identifier: Apache-2.0
"""The figures of runs that are compared, by operation and metric. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ldapslam.base.fault import Fault
from ldapslam.jobs.fields.thresholds import parse_subject, unit_of
from ldapslam.reports.figures import Figure
from ldapslam.reports.model import Summary

#: Unit of a figure -> how it is shown, and the factor to that.
_SHOWN = {
    "us": ("ms", 1e-3),
    "per_s": ("/s", 1.0),
    "share": ("%", 100.0),
    "1": ("requests", 1.0),
}
_IN_SECONDS = ("s", 1e-6)


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure that operations, or streams, of all runs have."""

    metric: str
    statistic: str | None = None

    @property
    def name(self) -> str:
        """As in thresholds, without stream and operation: `p99`, `errors`."""
        return self.words.replace(" ", ".")

    @property
    def words(self) -> str:
        """For people."""
        if self.statistic is None or self.metric == "response_time":
            return self.statistic or self.metric
        return f"{self.metric} {self.statistic}"

    @property
    def title(self) -> str:
        """With the unit: `p99 (ms)`."""
        return f"{self.words} ({self._shown[0]})"

    @property
    def unit(self) -> str:
        return unit_of(self.metric, self.statistic)

    @property
    def scale(self) -> float:
        """The factor from a figure's unit to the shown one."""
        return self._shown[1]

    @property
    def _shown(self) -> tuple[str, float]:
        return _IN_SECONDS if self.metric == "elapsed" else _SHOWN[self.unit]

    @property
    def is_ratio(self) -> bool:
        """Compared by new / old, else by new - old: a share may be 0, which has no
        ratio."""
        return self.unit != "share"

    @property
    def is_rate(self) -> bool:
        """Whether more of it is better."""
        return self.unit == "per_s"


def metric_of(text: str) -> Metric:
    """Return the metric that a text names, as in thresholds; Fault."""
    about = parse_subject(text)
    if (about.stream, about.operation) != ("*", "*"):
        raise Fault(
            f"expected a metric of all operations, got {text!r}",
            "such as p99, errors",
        )
    return Metric(about.metric, about.statistic)


_GOODPUT, _THROUGHPUT = Metric("goodput"), Metric("throughput")
#: What runs are compared by when nothing is chosen.
COMPARED = tuple(
    map(metric_of, "throughput goodput errors mean p50 p95 p99 elapsed".split())
)
#: By name.
METRICS = {one.name: one for one in COMPARED}

#: (operation's title, or the stream's name; metric) -> figure.
Readings = dict[tuple[str, Metric], Figure]


def readings_of(summary: Summary) -> Readings:
    """All figures of a run, in the order of the report."""
    return dict(_readings(summary))


def _readings(summary: Summary) -> Iterator[tuple[tuple[str, Metric], Figure]]:
    for figure in summary.figures:
        # of streams, the time until their count is reached
        if figure.operation != "*":
            title = f"{figure.stream}.{figure.operation}"
        elif figure.metric == "elapsed" and figure.sample:
            title = figure.stream
        else:
            continue
        yield (title, Metric(figure.metric, figure.statistic)), figure


def keys_of(
    runs: Sequence[Readings], metrics: Sequence[Metric] = COMPARED
) -> list[tuple[str, Metric]]:
    """Return the keys with these metrics of all runs, by operation; goodput where it is
    not throughput in all."""
    keys = dict.fromkeys(key for run in runs for key in run)
    titles = dict.fromkeys(title for title, _ in keys)
    return [
        (title, metric)
        for title in titles
        for metric in metrics
        if (title, metric) in keys
        and (
            metric != _GOODPUT
            or any(
                run[title, _GOODPUT].value != run[title, _THROUGHPUT].value
                for run in runs
                if (title, _GOODPUT) in run
            )
        )
    ]
