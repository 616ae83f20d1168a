# SPDX-License-Identifier: Apache-2.0
"""Figures of a study's table."""

from __future__ import annotations

import pytest

from ldapslam.base.fault import Fault
from ldapslam.reports.figures import Figure, figures_in, figures_json
from ldapslam.studies.figures import Column


def figures(
    stream: str, operation: str, completed: int, mean_us: float, **counts: int
) -> list[Figure]:
    place = stream, operation
    errors = sum(counts.values())
    due = completed + counts.get("dropped", 0)
    return [
        Figure(*place, "throughput", None, completed / 10),
        Figure(*place, "completed", None, completed),
        Figure(*place, "errors", None, errors / due, sample=due),
        Figure(*place, "response_time", "mean", mean_us, sample=completed),
        Figure(*place, "response_time", "p99", 5 * mean_us, sample=completed),
    ]


def line(agents: int, server: int, **more: int) -> dict[str, int]:
    return {"agents": agents, "server": server, "control": 0, "replicated": 0, **more}


RESULT = {
    "figures": figures_json(
        [
            *figures("readers", "search", 900, 1000.0),
            *figures("mix", "search", 100, 3000.0, failed=7, dropped=25),
            *figures("mix", "add", 50, 9000.0),
            Figure("readers", "*", "elapsed", None, 3.5e6),
            Figure("mix", "*", "elapsed", None, None),
        ]
    ),
    "books": {
        "a": {"search": line(1000, 1010, control=4)},
        "b": {"search": line(500, 503, replicated=3)},
        "c": {"bind": {"agents": 5}},
        # what has a server in common is there twice
        "d": {"add": {"agents": 7}},
        "e": {"add": {"agents": 8}},
        "d + e": {"add": line(15, 15)},
    },
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("readers.search.throughput", 90.0),
        ("agents.bind + agents.add + readers.search.completed", 920.0),
        ("agents.bind + search.p99", None),
        ("*.search.throughput", 100.0),
        ("*.*.completed", 1050.0),
        ("mix.search.errors", 32 / 125),
        # 900 of 1 ms and 100 of 3 ms
        ("search.mean", 1200.0),
        ("search.p99", None),
        ("add.p99", 45_000.0),
        ("mix.add.response_time.p99", 45_000.0),
        ("readers.delete.throughput", None),
        ("readers.elapsed", 3.5e6),
        ("*.elapsed", None),
        ("agents.search", 1500.0),
        ("server.search", 1506.0),
        ("agents.bind", 5.0),
        ("server.bind", None),
        ("server.modify", None),
        ("agents.add", 15.0),
        ("server.add", 15.0),
    ],
)
def test_figures_are_read_from_results(text: str, value: float | None) -> None:
    found = Column.of(text).read(RESULT)
    assert found == (None if value is None else pytest.approx(value))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a b.search.throughput", "is not a name"),
        ("readers.duration", "does not name a stream, operation and metric"),
        ("readers.search.speed", "unknown metric 'speed'"),
        ("server.searches", "does not name a stream, operation and metric"),
        ("readers.search.throughput.p99", "throughput has no statistic"),
        ("readers.search.response_time.p98", "unknown statistic 'p98'"),
    ],
)
def test_faults_of_figures_are_told(text: str, fault: str) -> None:
    with pytest.raises(Fault, match=fault):
        Column.of(text)


@pytest.mark.parametrize("operation", ["search", "outage", "p99", "a.b", "*"])
@pytest.mark.parametrize(
    ("metric", "statistic"),
    [("throughput", None), ("response_time", "p99_9"), ("outage", "longest")],
)
def test_a_result_gives_the_figures_that_were_written(
    operation: str, metric: str, statistic: str | None
) -> None:
    figure = Figure("readers", operation, metric, statistic, 1.5, sample=7)
    assert figures_in({"figures": figures_json([figure])}) == [figure]
