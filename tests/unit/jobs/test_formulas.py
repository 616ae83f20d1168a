# SPDX-License-Identifier: Apache-2.0
"""Thresholds on servers, hosts and arithmetic: what they say, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from ldapslam.base.fault import Fault
from ldapslam.jobs.fields.formulas import (
    BYTES,
    NONE,
    RATE,
    SECONDS,
    Convergence,
    Figure,
    Formula,
    Number,
    Reading,
    Requests,
    Unit,
    parse_criterion,
)
from ldapslam.jobs.fields.thresholds import Threshold, parse_subject


def formula(text: str) -> Formula:
    found = parse_criterion(text)
    assert isinstance(found, Formula)
    return found


@pytest.mark.parametrize(
    ("text", "terms", "limit", "unit"),
    [
        ("host(db).cpu < 80%", (Reading("host", "db", "cpu", "mean"),), 0.8, NONE),
        (
            "directory(db).entry_cache_hits[cn=a b,o=c].max >= 5/s",
            (Reading("directory", "db", "entry_cache_hits[cn=a b,o=c]", "max"),),
            5.0,
            RATE,
        ),
        (
            "process(db).memory_resident < 2GiB",
            (Reading("process", "db", "memory_resident", "mean"),),
            2.0 * 1024**3,
            BYTES,
        ),
        (
            "host(db).network_sent < 10MB/s",
            (Reading("host", "db", "network_sent", "mean"),),
            1e7,
            Unit(-1, 1),
        ),
        (
            "server.search / agents.search <= 1.01",
            (Requests("server", "search"), Requests("agents", "search")),
            1.01,
            NONE,
        ),
        ("replication.after < 30s", (Convergence(),), 30.0, SECONDS),
        (
            "readers.search.p99 - 2 * modify.p50 < 5ms",
            (
                Figure(parse_subject("readers.search.p99")),
                Number(2.0),
                Figure(parse_subject("modify.p50")),
            ),
            0.005,
            SECONDS,
        ),
        (
            "errors / 2 < 1%",
            (Figure(parse_subject("errors")), Number(2.0)),
            0.01,
            NONE,
        ),
    ],
)
def test_a_formula_has_terms_and_a_limit_in_base_units(
    text: str, terms: tuple[Any, ...], limit: float, unit: Unit
) -> None:
    found = formula(f" {text} ")
    assert found.expression == text
    assert found.terms == terms
    assert found.limit == pytest.approx(limit)
    assert found.unit == unit


@pytest.mark.parametrize("statistic", ["", ".mean"])
def test_a_reading_may_have_to_be_missed_for_some_time(statistic: str) -> None:
    found = formula(f"host(db).cpu{statistic} < 80% for 10s")
    assert (found.limit, found.hold_ns) == (0.8, 10_000_000_000)


@pytest.mark.parametrize(
    "text",
    [
        "search.p99 < 5ms",
        "*.*.errors < 1%",
        "search.p99 per server < 5ms",
        "search.p99 < 5ms for 10s, abort",
        "server.search.p99 < 5ms",
    ],
)
def test_what_has_no_arithmetic_is_a_plain_threshold(text: str) -> None:
    assert isinstance(parse_criterion(text), Threshold)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("host(db).cpu", "it has no comparison"),
        ("hosts(db).cpu < 80%", "unknown monitor 'hosts'"),
        ("host(db).cpu.p99 < 80%", "unknown statistic 'p99'"),
        ("host(db) < 80%", "does not name what is read of a role"),
        ("host(db).cpu < fast", "expected a duration"),
        ("host(db).cpu < 10MB/m", "is not a size per second"),
        ("host(db).cpu host(b).cpu < 1", "expected terms with an operator"),
        ("host(db).cpu / < 1", "expected terms with an operator"),
        ("1 + 2 < 3", "it names no figure"),
        ("search.p99 / modify.p99 < 5ms", "it is a number or a share, and '5ms' is a"),
        ("search.p99 + throughput < 5ms", "a time and a rate cannot be added up"),
        ("search.p99 * search.p99 < 5ms", "a figure of a unit that has no name"),
        ("replication.after < 5/s", "it is a time, and '5/s' is a rate"),
        ("search.q99 / 2 < 5ms", "'search.q99' does not name a stream"),
        ("host(a).cpu / host(b).cpu < 2 for 10s", "or one reading without a statistic"),
        ("host(db).load.max < 8 for 10s", "or one reading without a statistic"),
        ("replication.after < 5s for 10s", "or one reading without a statistic"),
        ("host(db).cpu < 80% for ever", "expected a duration"),
        ("host(db).cpu < 80%, abort", "`abort` is for figures of operations alone"),
        ("host(db).cpu per server < 80%", "`per` is for figures of operations alone"),
        ("(search.p99 / search.p50 < 3", "parentheses are for roles alone"),
        ("(search.p99 + search.p50) / 2 < 3ms", "parentheses are for roles alone"),
    ],
)
def test_broken_formula_says_what_is_wrong(text: str, problem: str) -> None:
    with pytest.raises(Fault) as caught:
        parse_criterion(text)
    assert problem in caught.value.reason
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("supplier.cpu < 80%", "'host(supplier).cpu' or 'process(supplier).cpu'"),
        ("host(a).cpu / 2 < 1 for 10s", "leave `for` out: it is about the whole"),
        ("host(db).cpu < 80% for 5s, abort", "write 'host(db).cpu < 80% for 5s'"),
    ],
)
def test_a_formula_that_goes_too_far_has_a_remedy(text: str, hint: str) -> None:
    with pytest.raises(Fault) as caught:
        parse_criterion(text)
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "value", "shown"),
    [
        ("host(db).cpu < 80%", 0.123456, "12.35%"),
        ("host(a).cpu / host(b).cpu < 2", 1.5, "1.5"),
        ("replication.after < 30s", 2.5, "2.500s"),
        ("search.p99 / 2 < 5ms", 0.0025, "2.500ms"),
        ("process(db).cpu / throughput < 1us", 0.000116, "116.000us"),
        ("directory(db).search_completed > 5/s", 1234.5, "1,234.5/s"),
        ("process(db).memory_resident < 2GiB", 3 << 20, "3 MiB"),
        ("host(db).network_sent < 10MB/s", 3 << 20, "3 MiB/s"),
    ],
)
def test_its_value_is_shown_with_its_unit(text: str, value: float, shown: str) -> None:
    assert formula(text).format(value) == shown
    assert formula(text).format(None) == "no data"
