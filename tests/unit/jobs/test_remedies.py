# SPDX-License-Identifier: Apache-2.0
"""What to do about result codes, and about searches that find nothing."""

from __future__ import annotations

import pytest

from ldapslam.jobs.fields.remedies import empty_remedy, remedy_of


@pytest.mark.parametrize(
    ("who", "told"),
    [
        ("anonymous", "anonymous may not do that: `bind`, or -D DN -y FILE"),
        ("cn=a,dc=com", "the server wants TLS or a stronger bind"),
    ],
)
def test_stronger_auth_is_a_bind_for_anonymous_and_tls_for_others(
    who: str, told: str
) -> None:
    assert remedy_of(8, "modify", who).startswith(told)


def test_a_limit_of_the_search_itself_comes_before_those_of_the_server() -> None:
    own = remedy_of(4, "search", "cn=a", size_limit=20)
    assert own.startswith("the search's own limit of 20 entries (`size_limit`, -z)")
    assert "--expect sizeLimitExceeded" in own
    assert "than the server allows cn=a" in remedy_of(4, "search", "cn=a")


def test_a_missing_entry_names_files_of_dns() -> None:
    assert "[file:dns.txt]" in remedy_of(32, "modify", "cn=a")
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
