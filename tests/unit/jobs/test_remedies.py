# SPDX-License-Identifier: Apache-2.0
"""What to do about result codes, and about searches that find nothing."""

from __future__ import annotations

import pytest

from ldapslam.jobs.fields.remedies import empty_remedy, remedy_of


@pytest.mark.parametrize(
    ("code", "kind", "who", "size_limit", "told"),
    [
        (8, "modify", "anonymous", 0, "`bind`, or -D DN -y FILE"),
        (8, "modify", "cn=a,dc=com", 0, "the server wants TLS or a stronger bind"),
        (4, "search", "cn=a", 20, "--expect sizeLimitExceeded"),
        (4, "search", "cn=a", 0, "than the server allows cn=a"),
        (32, "modify", "cn=a", 0, "[file:dns.txt]"),
    ],
)
def test_a_code_has_a_remedy(
    code: int, kind: str, who: str, size_limit: int, told: str
) -> None:
    assert told in remedy_of(code, kind, who, size_limit)


def test_files_of_dns_are_no_remedy_for_a_missing_base() -> None:
    assert "[file:dns.txt]" not in remedy_of(32, "search", "cn=a")


@pytest.mark.parametrize(
    ("about", "told"),
    [
        ("(uid=user.[1-5000]) at and below dc=com", "[1-5000%00000]"),
        ("(uid=user.[1-1000]) below dc=com", "[1-1000%0000]"),
        ("(uid=user.[0:999x3]) below dc=com", "[0:999x3%0000]"),
        ("(uid=user.[1-5000%00000]) at dc=com", ""),
        ("(uid=[zipf:1-9:2][random:3]) at dc=com", ""),
        ("(uid=[[1-5000]]) at dc=com", ""),
    ],
)
def test_a_range_without_a_width_may_lack_leading_zeros(about: str, told: str) -> None:
    remedy = empty_remedy(about)
    assert f"{told} writes" in remedy if told else remedy == ""
