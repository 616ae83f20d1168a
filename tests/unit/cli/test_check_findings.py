# SPDX-License-Identifier: Apache-2.0
"""What `check` makes of its samples: warnings with remedies, and a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from ldapslam.cli.measure.check import _is_hopeless, _server_line
from ldapslam.cli.measure.check_findings import (
    expected_requests,
    findings,
    too_few_intervals,
    untried,
)
from ldapslam.cli.measure.check_samples import Met
from ldapslam.cli.measure.check_tables import samples_table
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.model import Job
from ldapslam.reports.formats.text import render_table
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
            "`ldapslam new`",
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
            "the median of the searches is 101.",
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
