# SPDX-License-Identifier: Apache-2.0
"""Thresholds: what they say, and whether figures meet them."""

from __future__ import annotations

from typing import Any

import pytest

from ldapslam.base.fault import Fault
from ldapslam.jobs.fields.thresholds import (
    DEFAULT_THRESHOLDS,
    parse_threshold,
    share_of,
)
from ldapslam.reports.typeset import limit_text


@pytest.mark.parametrize(
    ("text", "value", "shown"),
    [
        ("a.b.response_time.p99 < 5ms", 4000.0, "4 ms"),
        ("a.b.throughput > 5/s", 4000.0, "4,000/s"),
        ("a.b.errors < 5%", 0.00012, "0.012%"),
        ("a.b.errors < 5%", 0.0, "0%"),
        ("a.*.elapsed < 5s", 3_250_000.0, "3.25 s"),
        ("a.*.elapsed < 2m", 3_250_000.0, "3.25 s"),
        ("a.b.response_time.p99 < 500us", 68.0, "68 us"),
        ("a.b.response_time.p99 <= 1s for 10s", 68.0, "0.000068 s"),
        ("host(db).cpu < 80%", 0.123456, "12.35%"),
        ("process(db).cpu_per_operation < 200us", 116.0, "116 us"),
        ("directory(db).threads.max >= 5/s", 1234.5, "1,234/s"),
        ("process(db).memory_resident < 2GiB", 3 << 20, "0.00293 GiB"),
        ("host(db).network_sent < 10MB/s", 3 << 20, "3.146 MB/s"),
        ("server.modify_dn.per_sent <= 1.01", 1.5, "1.5"),
        ("replication.after < 30s", 2.5e6, "2.5 s"),
        ("agent.busy_share < 80%", 0.5, "50%"),
        ("a.b.response_time.p99 < 5ms", 4999.9, "4.9999 ms"),
        ("a.b.response_time.p99 < 5ms", 5000.1, "5.0001 ms"),
        ("a.b.errors < 0.3%", 0.1 + 0.2 - 0.297, "0.3%"),
        ("server.search.sent >= 1000", 12345, "12,345"),
    ],
)
def test_value_is_shown_with_its_unit(text: str, value: float, shown: str) -> None:
    assert limit_text(parse_threshold(text), value) == shown


def test_value_that_is_missing_is_said_to_be() -> None:
    assert limit_text(parse_threshold("a.b.errors < 5%"), None) == "no data"


def test_parts_of_a_threshold_are_known() -> None:
    threshold = parse_threshold(" readers.*.send_lag.p99_9 <= 1ms ")
    assert threshold.expression == "readers.*.send_lag.p99_9 <= 1ms"
    assert (threshold.subject, threshold.part) == ("readers", "*")
    assert (threshold.metric, threshold.statistic) == ("send_lag", "p99_9")
    assert (threshold.comparison, threshold.limit, threshold.limit_unit) == (
        "<=",
        1000.0,
        "us",
    )


@pytest.mark.parametrize(
    ("text", "per", "hold_ns", "aborts"),
    [
        ("search.p99 < 5ms", "", 0, False),
        ("search.p99 per server < 5ms", "server", 0, False),
        ("errors per agent < 5%", "agent", 0, False),
        ("search.p99 < 5ms for 10s", "", 10_000_000_000, False),
        ("throughput > 5/s  for 1m ,abort", "", 60_000_000_000, True),
    ],
)
def test_a_threshold_may_be_of_parts_or_of_a_time(
    text: str, per: str, hold_ns: int, aborts: bool
) -> None:
    found = parse_threshold(text)
    assert (found.per, found.hold_ns, found.aborts) == (per, hold_ns, aborts)
    assert found.expression == text


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("errors < 1%", "*.*.errors < 1%"),
        ("p99 < 5ms", "*.*.response_time.p99 < 5ms"),
        ("p99.9 < 5ms", "*.*.response_time.p99_9 < 5ms"),
        ("search.p99 < 5ms", "*.search.response_time.p99 < 5ms"),
        ("readers.search.p99 < 5ms", "readers.search.response_time.p99 < 5ms"),
        ("readers.search.p99.9 < 5ms", "readers.search.response_time.p99_9 < 5ms"),
        ("service_time.mean < 5ms", "*.*.service_time.mean < 5ms"),
        ("search.send_lag.max < 5ms", "*.search.send_lag.max < 5ms"),
        ("modify.throughput > 5/s", "*.modify.throughput > 5/s"),
        ("readers.elapsed < 5s", "readers.*.elapsed < 5s"),
        ("outage.longest < 5s", "*.*.outage.longest < 5s"),
        ("readers.outage.share < 5%", "readers.*.outage.share < 5%"),
    ],
)
def test_what_is_left_out_stands_for_all(text: str, whole: str) -> None:
    def about(text: str) -> tuple[Any, ...]:
        one = parse_threshold(text)
        return one.subject, one.part, one.metric, one.statistic, one.limit

    assert about(text) == about(whole)
    assert parse_threshold(text).expression == text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a.b.c.p99 < 1ms", "unknown metric 'c'"),
        ("share < 1%", "'share' does not name"),
        ("", "it has no comparison"),
        ("a.b.errors = 1%", "unknown comparison '='"),
        ("a.b.response_time.p99.5 < 1ms", "unknown statistic 'p99_5'"),
        ("a*.b.errors < 1%", "'a*' is not a name"),
        ("a.b.elapsed < 1s", "elapsed is a metric of the stream, not of 'b'"),
        ("a.*.elapsed.p99 < 1s", "elapsed has no statistic 'p99'"),
        ("a.*.tls_time < 1s", "tls_time needs one statistic"),
        ("a.b.tls_time.p99 < 1s", "tls_time is a metric of the stream"),
        ("a.b.errors < 1ms", "expected a percentage such as '98%', got '1ms'"),
        ("a.b.throughput > 5", "expected a rate such as '500/s' or '10k/s', got '5'"),
        ("a.b.errors < 1% and more", "expected a percentage"),
        ("search.p99 < 5ms, abort", "'abort' needs a time"),
        ("search.p99 < 5ms for ever", "expected a duration"),
        ("search.p99 > 5ms for 10s", "times need a percentile and an upper"),
        ("search.mean < 5ms for 10s", "times need a percentile and an upper"),
        ("goodput > 5/s for 10s", "intervals have no goodput"),
        ("search.p99 per server < 5ms for 10s", "does not go with 'per server'"),
        ("search.p99 per host < 5ms", "'host' is not a part of an operation"),
        ("throughput per agent > 5/s", "throughput is not known per agent"),
        ("search.mean per server < 5ms", "times need a percentile"),
        ("search.p99 / search.p50 < 3", "'p99 / search' is not a name"),
        ("search.p98 < 5ms", "unknown statistic 'p98'"),
        ("search.p99 < 5ms per server", "'per server' stands before the comparison"),
        ("agent.load < 80%", "unknown metric 'load'"),
        ("host(db).cpu", "it has no comparison"),
        ("hosts(db).cpu < 80%", "unknown subject 'hosts'"),
        ("stream(db).errors < 80%", "unknown subject 'stream'"),
        ("host(db).load.p99 < 80%", "unknown statistic 'p99'"),
        ("host(db).cpu.max < 80%", "cpu has no statistic 'max'"),
        ("agent(a).load < 80%", "unknown metric 'load'"),
        ("agent(a).response_time < 8ms", "response_time needs one statistic"),
        ("host(db) < 80%", "does not name"),
        ("run.p99 < 5ms", "unknown metric 'p99' of run"),
        ("host(a).cpu / host(b).cpu < 2", "unknown metric 'cpu / host(b).cpu'"),
        ("host(db).cpu per server < 80%", "cpu is not known per server"),
        ("host(db).load < fast", "expected a duration"),
        ("host(db).network_sent < 10MB/m", "is not a size per second"),
        ("process(db).cpu < 5ms", "it is a number or a share, and '5ms' is a time"),
        ("host(db).cpu_per_operation < 80%", "expected a duration"),
        ("replication.after < 5/s", "expected a duration"),
        ("server.sort.per_sent < 2", "unknown kind of requests 'sort'"),
        ("host(db).load.max < 8 for 10s", "or a reading without a statistic"),
        ("replication.after < 5s for 10s", "or a reading without a statistic"),
        ("host(db).cpu_per_operation < 5ms for 9s", "or a reading without a stat"),
        ("host(db).cpu < 80% for ever", "expected a duration"),
        ("host(db).cpu < 80% for 5s, abort", "`abort` is only for figures"),
    ],
)
def test_broken_threshold_says_what_is_wrong(text: str, problem: str) -> None:
    with pytest.raises(Fault) as caught:
        parse_threshold(text)
    assert problem in caught.value.reason
    assert caught.value.hint


PER_ENTRY = "entry_cache_hits[cn=a b,o=c]"


@pytest.mark.parametrize(
    ("text", "name", "limit", "unit"),
    [
        ("host(db).cpu < 80%", ("host", "db", "*", "cpu", None), 0.8, "1"),
        ("host.cpu < 80%", ("host", "*", "*", "cpu", None), 0.8, "1"),
        ("host.load < 8", ("host", "*", "*", "load", "mean"), 8.0, "1"),
        ("server.per_sent < 2", ("server", "*", "*", "per_sent", None), 2.0, "1"),
        (
            "process(ldap://a:1).cpu_per_operation < 200us",
            ("process", "ldap://a:1", "*", "cpu_per_operation", None),
            *(200.0, "us"),
        ),
        (
            f"directory(db).{PER_ENTRY}.max >= 5/s",
            ("directory", "db", "*", PER_ENTRY, "max"),
            *(5.0, "per_s"),
        ),
        (
            "process(db).memory_resident < 2GiB",
            ("process", "db", "*", "memory_resident", "mean"),
            *(2.0 * 1024**3, "bytes"),
        ),
        (
            "host(db).network_sent < 10MB/s",
            ("host", "db", "*", "network_sent", "mean"),
            *(1e7, "bytes_per_s"),
        ),
        (
            "server.modify_dn.per_sent <= 1.01",
            ("server", "*", "modify_dn", "per_sent", None),
            *(1.01, "1"),
        ),
        (
            "server(db).*.counted > 9",
            ("server", "db", "*", "counted", None),
            *(9.0, "count"),
        ),
        (
            "agent(load1).response_time.p99 < 5ms",
            ("agent", "load1", "*", "response_time", "p99"),
            *(5000.0, "us"),
        ),
        (
            "replication.after < 30s",
            ("replication", "*", "*", "after", None),
            *(3e7, "us"),
        ),
    ],
)
def test_a_threshold_may_be_about_servers_and_agents(
    text: str, name: tuple[str, ...], limit: float, unit: str
) -> None:
    threshold = parse_threshold(f" {text} ")
    place = threshold.kind, threshold.subject, threshold.part
    assert (*place, threshold.metric, threshold.statistic) == name
    assert (threshold.expression, threshold.limit_unit) == (text, unit)
    assert threshold.limit == pytest.approx(limit)


@pytest.mark.parametrize("statistic", ["", ".mean"])
def test_a_reading_may_have_to_be_missed_for_some_time(statistic: str) -> None:
    threshold = parse_threshold(f"host(db).load{statistic} < 8 for 10s")
    assert (threshold.limit, threshold.hold_ns) == (8, 10_000_000_000)


def test_a_stream_may_be_named_like_what_is_read() -> None:
    for text in ("server.search.p99 < 5ms", "host.search.p99 < 5ms"):
        threshold = parse_threshold(text)
        assert threshold.is_of_stream
        assert threshold.subject == text.partition(".")[0]


def test_the_cpu_of_a_role_is_that_of_a_host_or_a_process() -> None:
    with pytest.raises(Fault) as caught:
        parse_threshold("supplier.cpu < 80%")
    expected = "write 'host(supplier).cpu' or 'process(supplier).cpu'"
    assert caught.value.hint == expected


def test_share_of_errors_counts_what_was_sent_and_did_not_succeed() -> None:
    assert share_of("errors", {"completed": 0, "failed": 0}) is None
    assert share_of("errors", {"completed": 10, "failed": 1}) == 0.1
    assert share_of("errors", {"completed": 8, "timed_out": 2}) == 0.2
    assert share_of("errors", {"completed": 8, "dropped": 2}) == 0.2


def test_default_thresholds_are_thresholds() -> None:
    for text in DEFAULT_THRESHOLDS:
        assert parse_threshold(text).expression == text
