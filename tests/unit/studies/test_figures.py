# SPDX-License-Identifier: Apache-2.0
"""Figures of a study's table."""

from __future__ import annotations

import math

import pytest

from ldapslam.base.fault import Fault
from ldapslam.reports.figures import Figure, figures_in, figures_json
from ldapslam.reports.uncertainty import Estimate
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


def requests(group: str, kind: str, sent: int, counted: int | None) -> list[Figure]:
    values = {"sent": sent, "counted": counted}
    return [
        Figure(group, kind, metric, None, value, kind="server")
        for metric, value in values.items()
    ]


RESULT = {
    "figures": figures_json(
        [
            *figures("readers", "search", 900, 1000.0),
            *figures("mix", "search", 100, 3000.0, failed=7, dropped=25),
            *figures("mix", "add", 50, 9000.0),
            Figure("readers", "*", "elapsed", None, 3.5e6),
            Figure("mix", "*", "elapsed", None, None),
            *requests("a", "search", 1000, 1006),
            *requests("b", "search", 500, 500),
            *requests("c", "bind", 5, None),
            *requests("d + e", "add", 15, 15),
            Figure("ldap://a", "*", "cpu", None, 0.5, kind="host", roles=("db",)),
        ]
    )
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("readers.search.throughput", 90.0),
        ("server.bind.sent + server.add.sent + readers.search.completed", 920.0),
        ("server.bind.sent + search.p99", None),
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
        ("server.search.sent", 1500.0),
        ("server.search.counted", 1506.0),
        ("server.bind.sent", 5.0),
        ("server.bind.counted", None),
        ("server.modify.counted", None),
        ("server.add.sent", 15.0),
        ("server.add.counted", 15.0),
        ("host(db).cpu", 0.5),
        ("server(d + e).add.sent + server.bind.sent", 20.0),
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
        ("server.searches", "unknown metric 'searches'"),
        ("readers.search.throughput.p99", "throughput has no statistic"),
        ("readers.search.response_time.p98", "unknown statistic 'p98'"),
    ],
)
def test_faults_of_figures_are_told(text: str, fault: str) -> None:
    with pytest.raises(Fault, match=fault):
        Column.of(text)


@pytest.mark.parametrize(
    "figure",
    [
        *(
            Figure("readers", operation, metric, statistic, 1.5, sample=7)
            for operation in ("search", "outage", "p99", "a.b", "host(x)", "*")
            for metric, statistic in (
                ("throughput", None),
                ("response_time", "p99_9"),
                ("outage", "longest"),
            )
        ),
        Figure("host", "after", "throughput", None, 1.5),
        Figure("run", "search", "throughput", None, 1.5, limited_by=("a", "b")),
        Figure("*", "*", "throughput", None, 1.5, sample=3, kind="run"),
        Figure("ldap://a.b", "*", "cpu", None, 0.5, kind="host", roles=("a", "b")),
        Figure(
            *("ldap://a.b", "*", "mdb_entries[cn=a.b (c),o=d]", "max", 7.0),
            Estimate(7.0, 5.0, 9.0),
            kind="directory",
            read_unit="bytes",
        ),
        Figure("cn=a (b, c/s) of x ldap://y", "*", "z", "min", 1.0, kind="entry"),
        Figure("a + b", "modify_dn", "per_sent", None, None, needs="c", kind="server"),
        Figure("load1", "*", "response_time", "p99", 7.0, sample=9, kind="agent"),
        Figure("load.1", "*", "clock_offset", None, -7.0, kind="agent"),
        Figure(
            *("", "*", "after", None, 3.0, Estimate(3.0, 3.0, math.inf)),
            kind="replication",
        ),
    ],
    ids=lambda figure: figure.name,
)
def test_a_result_gives_the_figures_that_were_written(figure: Figure) -> None:
    assert figures_in({"figures": figures_json([figure])}) == [figure]
