# SPDX-License-Identifier: Apache-2.0
"""Figures of a study's table."""

from __future__ import annotations

from typing import Any

import pytest

from ldapslam.base.fault import Fault
from ldapslam.studies.figures import Figure


def operation(completed: int, mean_us: float, **more: int) -> dict[str, Any]:
    names = ("failed", "timed_out", "unresolved", "abandoned", "dropped")
    return {
        **dict.fromkeys(names, 0),
        "completed": completed,
        "kind": "search",
        "throughput_per_s": completed / 10,
        "response_time_us": {"count": completed, "mean": mean_us, "p99": 5 * mean_us},
        **more,
    }


def line(agents: int, server: int, **more: int) -> dict[str, int]:
    return {"agents": agents, "server": server, "control": 0, "replicated": 0, **more}


RESULT = {
    "streams": {
        "readers": {"search": operation(900, 1000.0)},
        "mix": {
            "search": operation(100, 3000.0, failed=7, dropped=25),
            "add": operation(50, 9000.0),
        },
    },
    "connections": {"readers": {"elapsed_s": 3.5}, "mix": {"elapsed_s": None}},
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
        ("mix.search.errors", 100 * 32 / 125),
        # 900 of 1 ms and 100 of 3 ms
        ("search.mean", 1.2),
        ("search.p99", None),
        ("add.p99", 45.0),
        ("mix.add.response_time.p99", 45.0),
        ("readers.delete.throughput", None),
        ("readers.elapsed", 3.5),
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
    found = Figure.of(text).read(RESULT)
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
        Figure.of(text)
