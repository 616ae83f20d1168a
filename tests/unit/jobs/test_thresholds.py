# SPDX-License-Identifier: Apache-2.0
"""Thresholds: what they say, and whether figures meet them."""

from __future__ import annotations

from typing import Any

import pytest

from ldapslam.base.fault import Fault
from ldapslam.jobs.fields.thresholds import (
    error_share,
    evaluate,
    parse_threshold,
    times_lacking,
)


def figures(**changes: Any) -> dict[str, Any]:
    return {
        "completed": 100,
        "succeeded": 100,
        "failed": 0,
        "throughput_per_s": 10.0,
        "response_time_us": {"p99": 4000.0, "mean": 500.0, "p99_99": None},
        **changes,
    }


RESULT = {
    "streams": {
        "readers": {
            "search": figures(),
            "root": figures(response_time_us={"p99": 9000.0}, throughput_per_s=3.0),
        },
        "writers": {
            "modify": figures(completed=90, failed=9, timed_out=8, unresolved=2),
            "idle": figures(completed=0, throughput_per_s=0.0, response_time_us={}),
        },
        "sessions": {
            "bind": figures(completed=80, succeeded=60, expected=20, abandoned=20),
            "unbind": figures(kind="unbind", response_time_us={"p99": None}),
        },
    },
    "connections": {
        "readers": {"connect_time_us": {"p95": 2500.0}, "elapsed_s": 12.5},
        "writers": {"connect_time_us": {"p95": None}, "elapsed_s": None},
        "sessions": {"connect_time_us": {"p95": 7000.0}, "elapsed_s": 3.0},
    },
}


@pytest.mark.parametrize(
    ("text", "value", "passed"),
    [
        ("readers.search.response_time.p99 < 5ms", 4000.0, True),
        ("readers.search.response_time.p99 < 4ms", 4000.0, False),
        ("readers.search.response_time.p99 <= 4ms", 4000.0, True),
        ("readers.search.response_time.p99 > 3999us", 4000.0, True),
        ("readers.search.response_time.p99 >= 4000001ns", 4000.0, False),
        ("readers.search.response_time.mean<1ms", 500.0, True),
        # The worst of both: the largest for <, the smallest for >.
        ("readers.*.response_time.p99 < 5ms", 9000.0, False),
        ("*.search.response_time.p99 < 5ms", 4000.0, True),
        ("readers.*.throughput > 5/s", 3.0, False),
        ("readers.*.throughput >= 180/m", 3.0, True),
        # (9 + 8 + 2) of 90 + 8 + 2 sent
        ("writers.modify.errors < 20%", 0.19, True),
        ("writers.modify.errors < 19%", 0.19, False),
        ("readers.*.errors <= 0%", 0.0, True),
        # No figure: not met, whichever way the comparison goes.
        ("readers.search.response_time.p99_99 < 5ms", None, False),
        ("readers.search.service_time.p99 < 5ms", None, False),
        ("writers.idle.response_time.p99 < 5ms", None, False),
        ("writers.idle.errors <= 100%", None, False),
        ("writers.*.errors < 100%", None, False),
        ("nobody.search.errors < 1%", None, False),
        ("writers.idle.throughput > 0.1/s", 0.0, False),
        # 20 of 80 completed and 20 abandoned
        ("sessions.bind.expected < 30%", 0.2, True),
        ("sessions.bind.errors <= 0%", 0.0, True),
        ("writers.modify.timed_out < 10%", 0.08, True),
        ("writers.modify.unresolved < 1%", 0.02, False),
        # Nothing comes back after an unbind: it has no times, though it has a rate.
        ("sessions.*.response_time.p99 < 5ms", 4000.0, True),
        ("sessions.unbind.response_time.p99 < 5ms", None, False),
        ("sessions.unbind.throughput > 5/s", 10.0, True),
        # Of streams.
        ("readers.*.connect_time.p95 < 3ms", 2500.0, True),
        ("*.*.connect_time.p95 < 1s", None, False),
        ("sessions.*.elapsed < 5s", 3e6, True),
        ("writers.*.elapsed < 5s", None, False),
    ],
)
def test_threshold_is_met_or_not(text: str, value: float | None, passed: bool) -> None:
    assert evaluate(parse_threshold(text), RESULT) == (value, passed)


@pytest.mark.parametrize(
    ("text", "value", "shown"),
    [
        ("a.b.response_time.p99 < 5ms", 4000.0, "4.000ms"),
        ("a.b.throughput > 5/s", 4000.0, "4,000.0/s"),
        ("a.b.errors < 5%", 0.00012, "0.012%"),
        ("a.b.errors < 5%", 0.0, "0%"),
        ("a.*.elapsed < 5s", 3_250_000.0, "3.250s"),
    ],
)
def test_value_is_shown_with_its_unit(text: str, value: float, shown: str) -> None:
    assert parse_threshold(text).format(value) == shown


def test_value_that_is_missing_is_said_to_be() -> None:
    assert parse_threshold("a.b.errors < 5%").format(None) == "no data"


def test_times_that_lack_a_statistic_are_found() -> None:
    result: Any = RESULT
    search = result["streams"]["readers"]["search"]["response_time_us"]
    lacking = parse_threshold("readers.search.response_time.p99_99 < 5ms")
    assert times_lacking(lacking, RESULT) == [search]
    assert (
        times_lacking(parse_threshold("*.search.response_time.p99 < 1s"), RESULT) == []
    )
    assert times_lacking(parse_threshold("*.*.errors < 1%"), RESULT) == []
    connect = parse_threshold("*.*.connect_time.p95 < 1s")
    assert times_lacking(connect, RESULT) == [{"p95": None}]


def test_parts_of_a_threshold_are_known() -> None:
    threshold = parse_threshold(" readers.*.send_lag.p99_9 <= 1ms ")
    assert threshold.expression == "readers.*.send_lag.p99_9 <= 1ms"
    assert (threshold.stream, threshold.operation) == ("readers", "*")
    assert (threshold.metric, threshold.statistic) == ("send_lag", "p99_9")
    assert (threshold.comparison, threshold.limit, threshold.unit) == (
        "<=",
        1000.0,
        "us",
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it has no comparison"),
        ("a.b.errors 1%", "it has no comparison"),
        ("a.b.errors = 1%", "unknown comparison '='"),
        ("a.b.errors == 1%", "unknown comparison '=='"),
        ("a.b < 1%", "'a.b' does not name a stream, operation and metric"),
        ("a.b.latency.p99 < 1ms", "unknown metric 'latency'"),
        ("a.b.response_time < 1ms", "response_time needs one statistic"),
        ("a.b.response_time.p99.5 < 1ms", "response_time needs one statistic"),
        ("a.b.response_time.p98 < 1ms", "unknown statistic 'p98'"),
        ("a.b.errors.p99 < 1%", "errors has no statistic 'p99'"),
        ("a*.b.errors < 1%", "'a*' is not a name"),
        ("a.b.elapsed < 1s", "elapsed is a metric of the stream, not of 'b'"),
        ("a.*.elapsed.p99 < 1s", "elapsed has no statistic 'p99'"),
        ("a.*.tls_time < 1s", "tls_time needs one statistic"),
        ("a.b.tls_time.p99 < 1s", "tls_time is a metric of the stream"),
        ("a.b.errors < 1ms", "expected a percentage such as '98%', got '1ms'"),
        ("a.b.throughput > 5", "expected a rate such as '500/s' or '10k/s', got '5'"),
        ("a.b.response_time.p99 < ", "expected a duration such as"),
        ("a.b.errors < 1% and more", "expected a percentage"),
    ],
)
def test_broken_threshold_says_what_is_wrong(text: str, problem: str) -> None:
    with pytest.raises(Fault) as caught:
        parse_threshold(text)
    assert problem in caught.value.reason
    assert caught.value.hint


def test_share_of_errors_counts_what_was_sent_and_did_not_succeed() -> None:
    assert error_share({"completed": 0, "failed": 0}) is None
    assert error_share({"completed": 10, "failed": 1}) == 0.1
    assert error_share({"completed": 8, "failed": 0, "timed_out": 2}) == 0.2
