# SPDX-License-Identifier: Apache-2.0
"""The output of `check`: the plan of a job, warnings, remedies, a table of samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from ldapslam.agent.monitoring.reading import Monitor
from ldapslam.cli.measure.check import _is_hopeless, _server_line
from ldapslam.cli.measure.check_findings import (
    expected_requests,
    findings,
    too_few_intervals,
    untried,
)
from ldapslam.cli.measure.check_plan import explain
from ldapslam.cli.measure.check_samples import Met
from ldapslam.cli.measure.check_servers import _unread
from ldapslam.cli.measure.check_tables import samples_table
from ldapslam.jobs.fields.thresholds import parse_threshold
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.model import Job
from ldapslam.reports.formats.text import render_table
from ldapslam.results.records import Metric
from support.histograms import histogram_of

WHO = "cn=reader,dc=com"
JOB = """\
name: sampled
targets: {server: [ldap://a, ldap://b]}
run: {duration: 100s}
streams:
  - name: some
    target: server
    load: {clients: 4}
    operations:
      - search: {base: dc=com, filter: "(&(uid=[0-9])(!(cn>=a)))"}
      - modify: {dn: "uid=[0-9]", replace: {sn: a}}
      - add: {dn: "uid=new.[unique]", entry: {objectClass: device}}
      - delete: {of: add}
      - modify_dn: {dn: "uid=[0-9]", new_rdn: uid=x}
      - extended: {oid: 1.2.3}
      - sequence:
          - {name: gone, delete: {dn: "uid=[0-9]"}}
          - {name: after, compare: {dn: "uid=a", attribute: cn, value: a}}
      - bind: {dn: "uid=[0-9]", password: a}
"""
REHEARSED = ("add", "modify", "delete", "modify_dn")


def job(**changes: str) -> Job:
    text = JOB
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return load_job_text(text, file="sampled.yaml", base=None)


def met(
    kind: str,
    codes: Mapping[int, int] | None = None,
    *,
    server: str = "ldap://a",
    success: tuple[int, ...] = (0, 16),
    ms: float = 1.0,
    **counts: int,
) -> Met:
    codes = Counter(codes or {0: 10})
    completed = codes.total()
    unexpected = {code: n for code, n in codes.items() if code not in success}
    totals = Counter(
        completed=completed,
        succeeded=completed - sum(unexpected.values()),
        sent=completed,
    )
    return Met(
        "some",
        kind,
        kind,
        server,
        is_rehearsal=kind in REHEARSED,
        counts=totals + Counter(counts),
        codes=codes,
        unexpected=Counter(unexpected),
        times=histogram_of([int(ms * 1e6)] * completed),
    )


def warnings(*samples: Met) -> list[str]:
    return list(findings(job().streams[0], samples, WHO))


@pytest.mark.parametrize(
    ("bind_dn", "told"),
    [
        (None, "as anonymous, without TLS; server: OpenLDAP, version not readable: -D"),
        ("cn=x", "cn=x may read it neither in the root DSE nor in cn=Monitor"),
    ],
)
def test_a_hidden_version_is_told_with_who_asked(
    bind_dn: str | None, told: str
) -> None:
    line = _server_line(
        {"uri": "a", "bind_dn": bind_dn, "tls": False, "vendor_name": "OpenLDAP"}
    )
    assert told in line
    assert ("-D" in line) is (bind_dn is None)


@pytest.mark.parametrize(
    ("sample", "told", "remedy"),
    [
        (
            met("search", empty=6),
            "6 of 10 searches found nothing",
            "is this the data",
        ),
        (
            met("search", {32: 10}),
            "10 of 10 requests ended with noSuchObject (32)",
            f"the base is not there, or {WHO} may not see it",
        ),
        (met("modify", {32: 2, 16: 8}), "2 of 10", "the entry is not there"),
        (met("add", {32: 10}), "10 of 10", "the parent is not there"),
        (met("search", {4: 10}), "sizeLimitExceeded (4)", "or raise the limit"),
        (met("search", {11: 10}), "adminLimitExceeded (11)", "index"),
        (met("search", {53: 10}), "unwillingToPerform (53)", "nsslapd-require-index"),
        (met("search", {50: 10}), "insufficientAccessRights (50)", f"{WHO} may not do"),
        (met("modify", {50: 10}), "insufficientAccessRights", f"{WHO} may not do that"),
        (met("delete", {50: 10}), "insufficient", "perhaps not delete either"),
        (met("modify", {10: 10}), "referral (10)", "writes go to a supplier"),
        (
            met("modify", {34: 10}),
            "invalidDNSyntax (34)",
            r"a value is `\,`",
        ),
        (met("modify", {8: 10}), "strongerAuthRequired (8)", "start_tls: true"),
        (met("bind", {49: 10}), "invalidCredentials (49)", "`password`"),
        (met("search", {13: 10}), "confidentialityRequired", "tls: {start_tls: true}"),
        (met("search", {80: 10}), "10 of 10 requests ended with other (80)", ""),
        (
            met("modify", {0: 10}, success=(16,)),
            "10 of 10 requests ended with success (0)",
            "--samples 0",
        ),
        (met("search", timed_out=3), "3 requests had no response in time", "index"),
        (
            met("search", ms=101, entries=10),
            "the median of the searches is 101 ms",
            "has the server an index of uid, cn?",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_sample_that_promises_trouble_is_told(
    sample: Met, told: str, remedy: str
) -> None:
    (warning,) = warnings(sample)
    assert warning.startswith(f"some.{sample.operation}: ")
    assert told in warning
    assert remedy in warning
    assert "ldap://a" not in warning  # there is no other server


@pytest.mark.parametrize(
    "sample",
    [
        met("search", entries=10),
        met("search", entries=5, empty=5),
        met("search", ms=101, entries=1_000),
        met("modify", {16: 10}),
        # refused because of the value that a rehearsal makes up
        met("modify", {21: 10}),
        met("modify", {18: 5, 19: 5}),
        met("search", {0: 5, 4: 5}, success=(0, 4)),
    ],
    ids=("found", "half", "slow", "none to delete", "no value", "types", "expected"),
)
def test_nothing_is_said_of_one_that_does_not(sample: Met) -> None:
    assert warnings(sample) == []


def test_the_servers_are_named_where_they_are_not_all() -> None:
    (warning,) = warnings(
        met("search", {0: 10}, empty=9),
        met("search", {0: 10}, server="ldap://b", entries=10),
    )
    assert "9 of 10 searches found nothing on ldap://a: " in warning
    (warning,) = warnings(
        met("search", {32: 10}), met("search", {32: 4, 0: 6}, server="ldap://b")
    )
    assert "14 of 20 requests ended with noSuchObject (32): " in warning


def test_a_range_without_leading_zeros_is_named_where_nothing_is_found() -> None:
    padded = job(**{"uid=[0-9])(": "uid=[0-9%00])("}).streams[0]
    (warning,) = findings(job().streams[0], [met("search", empty=9)], WHO)
    assert "'[0-9]' writes no leading zeros, [0-9%00] writes 2 digits" in warning
    (warning,) = findings(padded, [met("search", empty=9)], WHO)
    assert "leading zeros" not in warning


def test_what_was_not_tried_says_why() -> None:
    tried = ["search", "modify", "add", "modify_dn", "gone", "bind"]
    assert untried(job().streams[0], tried) == {
        "delete": "its entries are those that the run adds",
        "extended": "it may change something",
        "after": "it follows what was not done",
    }


CLOSED = """\
name: closed
targets: {server: ldap://a}
run: {duration: 100s, warm_up: 10s}
thresholds: [search.p99 < 1s]
streams:
  - name: some
    target: server
    load: {clients: 4, think_time: 5ms}
    operations:
      - {weight: 3, search: {base: dc=com}}
      - sequence:
          - compare: {dn: uid=a, attribute: cn, value: a}
          - think: 12ms
          - {name: again, compare: {dn: uid=a, attribute: cn, value: a}, repeat: 2}
"""


def test_requests_of_a_closed_loop_are_expected_by_the_times_of_the_samples() -> None:
    closed = load_job_text(CLOSED, file="closed.yaml", base=None)
    stream = closed.streams[0]
    samples = [
        met("search", ms=2),
        met("compare", ms=4),
        Met(**{**vars(met("compare", ms=4)), "operation": "again"}),
    ]
    # a session takes 5 ms + 3/4 * 2 + 1/4 * (4 + 12 + 2 * 4) = 12.5 ms
    sessions = 4 * 100 / 0.0125
    assert expected_requests(closed, stream, samples) == pytest.approx(
        {
            ("some", "search"): 0.75 * sessions,
            ("some", "compare"): 0.25 * sessions,
            ("some", "again"): 0.5 * sessions,
        },
        rel=1e-3,
    )
    assert expected_requests(closed, stream, samples[:2]) == {}


@pytest.mark.parametrize(
    ("interval", "threshold", "is_told"),
    [
        ("20s", "some.search.p99 < 1s", False),
        ("25s", "some.search.p99 < 1s", True),
        ("25s", "some.*.errors < 1%", False),
    ],
)
def test_too_few_intervals_for_a_percentile_are_told(
    interval: str, threshold: str, is_told: bool
) -> None:
    text = JOB.replace("100s", f"100s, interval: {interval}")
    text += f'thresholds: ["{threshold}"]\n'
    found = list(too_few_intervals(load_job_text(text, file="few.yaml", base=None)))
    assert ["has 4 intervals" in one for one in found] == [True] * is_told


def _rows(lines: list[str]) -> list[str]:
    (rule,) = (n for n, line in enumerate(lines) if line.startswith("---"))
    return lines[rule + 1 :]


def text_of(*samples: Met, **why: Any) -> list[str]:
    return render_table(samples_table("some", samples, why)).splitlines()


def test_a_table_has_a_row_for_each_operation_and_server() -> None:
    lines = text_of(
        met("search", {0: 8, 32: 2}, empty=3, entries=20),
        met("modify", {16: 6, 32: 4}),
        met("add", {16: 10}),
        met("delete", {18: 10}, unresolved=1),
        extended="it may change something",
    )
    assert lines[0] == "Samples of some"
    search, modify, *_ = [line.split() for line in _rows(lines)]
    assert search[:6] == ["search", "10", "8", "success,", "2", "noSuchObject"]
    assert search[7:9] == ["2.00", "3"]
    assert modify[2:6] == ["6", "may", "be", "modified,"]
    # a refusal's time says nothing of the write's
    assert modify[-4:] == ["–", "–", "–", "–"]
    text = "\n".join(lines)
    assert "10 parents are there" in text
    assert "10 entries are there, 1 without a response" in text
    assert "extended was not tried: it may change something." in text
    assert "Rehearsed, not sent: modify, add, delete: by a modify" in text
    assert "ldap://" not in text
    two = text_of(met("search"), met("search", server="ldap://b"))
    assert [line.split()[1] for line in _rows(two)] == ["ldap://a", "ldap://b"]


def test_a_server_that_takes_a_rehearsal_may_have_changed_something() -> None:
    """As slapd does with the overlay translucent."""
    assert "Nothing was changed" in "\n".join(text_of(met("modify", {16: 10})))
    text = "\n".join(text_of(met("modify", {0: 1, 16: 9}, success=(16,))))
    assert "Nothing was changed" not in text
    assert "A server took it" in text


@pytest.mark.parametrize(
    ("codes", "is_rehearsal", "is_hopeless"),
    [
        ({50: 2}, True, True),
        ({32: 2}, False, True),
        # of the value, before the server looks who writes it
        ({50: 1, 21: 1}, True, False),
        ({21: 2}, False, True),
        ({}, False, False),
    ],
)
def test_an_operation_of_which_no_sample_ends_well_is_hopeless(
    codes: dict[int, int], is_rehearsal: bool, is_hopeless: bool
) -> None:
    met = Met("some", "add", "add", "ldap://a", is_rehearsal)
    met.codes.update(codes)
    met.counts["sent"] = sum(codes.values())
    assert _is_hopeless(met.document()) is is_hopeless


# Output on a job before any server is asked.


PLANNED = """\
name: planned
targets:
  supplier: ldap://s
  replica: [ldap://a, ldap://b, ldap://c]
bind: {dn: "cn=all", password: {env: P}}
run: {duration: 60s, ramp_up: 5s, warm_up: 15s, drain: 3s}
agents: {count: 3}
streams:
  - name: readers
    target: replica
    load: {clients: 8}
    operations: [{search: {base: ""}}]
  - name: sessions
    target: supplier
    bind: {sasl: {mechanism: PLAIN, authcid: one, password: {env: P}, authzid: "u:two"}}
    load: {rate: 30/s, connections: 5}
    operations:
      - {weight: 2, search: {base: ""}}
      - sequence:
          - {name: found, search: {base: ""}}
          - {compare: {dn: cn=a, attribute: cn, value: a}, repeat: 3}
"""


def planned(*overrides: str) -> Job:
    return load_job_text(PLANNED, file="planned.yaml", base=None, overrides=overrides)


def lines(*overrides: str) -> list[str]:
    return list(explain(planned(*overrides)))


def test_the_length_is_that_of_all_phases_and_what_may_follow() -> None:
    assert lines()[1] == (
        "takes 80s: ramp_up 5s, warm_up 15s, measure 1m; then up to 3s of drain"
    )
    verified = lines("verify.replication.within=40s")
    assert verified[1].endswith("then up to 3s of drain and 40s for the replicas")
    counted = lines("streams.readers.count=9", "streams.sessions.count=9")
    assert counted[1].startswith("takes 80s at most, as it ends when its streams")


@pytest.mark.parametrize(
    ("overrides", "who"),
    [
        ((), ["cn=all", "SASL PLAIN one u:two"]),
        (("bind=null",), ["anonymous", "SASL PLAIN one u:two"]),
    ],
)
def test_each_stream_says_as_whom(overrides: tuple[str, ...], who: list[str]) -> None:
    told = [line for line in lines(*overrides) if line.startswith("stream ")]
    for line, identity in zip(told, who, strict=True):
        assert f", as {identity}; " in line


def test_the_load_of_each_server_and_agent_is_told() -> None:
    # sessions have (2 * 1 + 1 * 4) / 3 = 2 requests: 60/s
    assert [line for line in lines() if line.startswith("load ")] == [
        "load on each of ldap://a, ldap://b: readers 3 clients",
        "load on ldap://c: readers 2 clients",
        "load on ldap://s: sessions 60 requests/s over 5 connections",
        "load of each of 3 agents, at most: readers 3 clients; "
        "sessions 24 requests/s over 2 connections",
    ]


def test_the_highest_rate_is_one_that_is_measured() -> None:
    stages = "[{rate: 1/s, for: 30s}, {ramp_to: 41/s, for: 40s}]"
    load = f"{{stages: {stages}, connections: 5}}"
    (told,) = (
        one for one in lines(f"streams.sessions.load={load}") if "loop, up" in one
    )
    assert "up to 31/s constant" in told


def test_of_many_servers_with_the_same_load_some_are_named() -> None:
    uris = ", ".join(f"ldap://r{n}" for n in range(8))
    told = lines(f"targets.replica=[{uris}]")
    assert (
        "load on each of ldap://r0, ldap://r1, ldap://r2 and 5 more: readers 1 client"
        in told
    )


def test_nothing_is_said_of_servers_where_there_is_one() -> None:
    text = PLANNED.replace("target: replica", "target: supplier")
    text = text.replace("agents: {count: 3}\n", "")
    one = load_job_text(text, file="one.yaml", base=None)
    assert not any(line.startswith("load ") for line in explain(one))


@pytest.mark.parametrize(
    ("metric", "hint"),
    [
        ("newest_change_age", None),
        ("newest_change_age[dc=x]", None),
        ("readings", None),
        ("newest_chnge_age", "did you mean 'newest_change_age[dc=x]'?"),
        ("speed", "docs/reference/telemetry.md has all"),
    ],
)
def test_a_threshold_is_of_what_a_server_has(metric: str, hint: str | None) -> None:
    monitor = Monitor("replica", 0)
    monitor.about = {"kind": "directory", "serves": {"replica": ("ldap://a",)}}
    monitor.metrics = (Metric("newest_change_age[dc=x]", "s", "gauge"),)
    for subject, expected in (("replica", hint), ("supplier", None)):
        threshold = parse_threshold(f"directory({subject}).{metric} < 5")
        assert _unread(threshold, [monitor]) == expected
