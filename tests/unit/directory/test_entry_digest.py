# SPDX-License-Identifier: Apache-2.0
"""Digests of entries: equal for what is the same entry, different for anything else."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ldap.dn import escape_dn_chars

from ldapslam.directory.entry_digest import (
    Attributes,
    Fingerprint,
    Rules,
    differing_attributes,
    entry_digest,
    fingerprint,
    normalised_dn,
)

DN = "uid=user.1,ou=people,dc=example,dc=com"
PERSON: Attributes = {
    "objectClass": [b"top", b"person", b"organizationalPerson", b"inetOrgPerson"],
    "uid": [b"user.1"],
    "cn": [b"Ada Allen", b"A. Allen"],
    "sn": [b"Allen"],
    "manager": [b"uid=user.0,ou=people,dc=example,dc=com"],
    "userPassword": [b"{SSHA}one"],
}

values = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\0"),
    min_size=1,
    max_size=12,
)
entries = st.dictionaries(
    values.map(lambda value: f"cn={escape_dn_chars(value)},dc=x"),
    st.dictionaries(
        st.sampled_from(["cn", "sn", "mail", "description"]),
        st.lists(st.binary(max_size=8), min_size=1, max_size=3),
    ),
    max_size=20,
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (DN, "UID=user.1,OU=people,DC=example,DC=com"),
        (DN, "uid=USER.1, ou=People , dc = example,dc=com"),
        (DN, "userid=user.1,organizationalUnitName=people,dc=example,dc=com"),
        (DN, r"uid=user\2E1,ou=people,dc=example,domainComponent=com"),
        (DN, 'uid="user.1",ou=people,dc=example,dc=com'),
        (r"cn=a\,b,dc=x", r"CN=a\2Cb,dc=x"),
        (r"cn=a\3Db,dc=x", "cn=a=b,dc=x"),
        ("cn=1+sn=2,dc=x", "SN=2 + CN=1,dc=x"),
        ("cn=ä  b,dc=x", r"cn=\C3\84 B,dc=x"),
        (r"cn=\20a,dc=x", "cn=a,dc=x"),
    ],
)
def test_spellings_of_a_dn_are_one(one: str, other: str) -> None:
    assert normalised_dn(one) == normalised_dn(other)


@pytest.mark.parametrize(
    "other",
    [
        "uid=user.2,ou=people,dc=example,dc=com",
        "uid=user.1,dc=example,dc=com",
        "cn=user.1,ou=people,dc=example,dc=com",
        r"uid=user.1\,ou=people,dc=example,dc=com",
        "uid=user.1+ou=people,dc=example,dc=com",
        "",
        "no dn at all",
    ],
)
def test_other_dns_are_others(other: str) -> None:
    assert normalised_dn(other) != normalised_dn(DN)


def test_a_dn_of_thousands_of_parts_is_read() -> None:
    dn = ",".join(["cn=a"] * 5_000)
    assert normalised_dn(dn.upper()) == normalised_dn(dn)


@given(st.lists(values, min_size=1, max_size=4))
def test_quick_and_thorough_reading_of_a_dn_agree(parts: list[str]) -> None:
    plain = ",".join(f"cn={escape_dn_chars(part)}" for part in parts)
    # nothing about it is plain: every octet is escaped
    escaped = ",".join(
        "cn=" + "".join(f"\\{octet:02X}" for octet in part.encode()) for part in parts
    )
    assert normalised_dn(plain) == normalised_dn(escaped)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"cn": [b"A. Allen", b"Ada Allen"]},
        {"sn": None, "surname": [b"Allen"]},
        {"sn": None, "SN": [b"Allen"]},
        {"objectClass": [b"INETORGPERSON"]},
        {"objectClass": [b"person", b"inetOrgPerson", b"organizationalPerson"]},
        {"manager": [b"UID=user.0, OU=people,DC=example,dc=com"]},
        {"entryUUID": [b"1-2-3"], "modifyTimestamp": [b"20260101000000Z"]},
        {"memberOf": [b"cn=all,dc=example,dc=com"], "nsUniqueId": [b"1"]},
        {"pwdChangedTime": [b"20260101000000Z"], "pwdHistory": [b"1"]},
        {"nsds5ReplConflict": [b"a b"], "nscpEntryDN": [b"c"], "nsds50ruv": [b"d"]},
        {"description": []},
    ],
)
def test_what_servers_rewrite_does_not_count(
    changes: dict[str, list[bytes] | None],
) -> None:
    assert entry_digest(DN, _changed(changes)) == entry_digest(DN, PERSON)
    assert differing_attributes(PERSON, _changed(changes)) == []


@pytest.mark.parametrize(
    ("changes", "attribute"),
    [
        ({"sn": [b"allen"]}, "sn"),
        ({"sn": [b"Allen "]}, "sn"),
        ({"sn": None}, "sn"),
        ({"cn": [b"Ada Allen"]}, "cn"),
        ({"description": [b""]}, "description"),
        ({"cn;lang-en": [b"Ada"]}, "cn;lang-en"),
        ({"objectClass": [b"inetOrgPerson", b"posixAccount"]}, "objectclass"),
        ({"manager": [b"uid=user.2,ou=people,dc=example,dc=com"]}, "manager"),
        ({"userPassword": [b"{SSHA}two"]}, "userpassword"),
        ({"pwdMaxAge": [b"3600"]}, "pwdmaxage"),
        ({"nsAccountLock": [b"true"]}, "nsaccountlock"),
        ({"nsDS5ReplicaId": [b"1"]}, "nsds5replicaid"),
    ],
)
def test_anything_else_counts_and_is_named(
    changes: dict[str, list[bytes] | None], attribute: str
) -> None:
    changed = _changed(changes)
    assert entry_digest(DN, changed) != entry_digest(DN, PERSON)
    [difference] = differing_attributes(PERSON, changed)
    assert difference.attribute == attribute
    assert set(difference.only_expected) | set(difference.only_found)


def test_entries_are_other_ones_at_another_dn() -> None:
    assert entry_digest(DN, PERSON) != entry_digest(f"ou=x,{DN}", PERSON)


def test_rules_leave_attributes_out() -> None:
    rules = Rules(passwords=False, ignored=frozenset({"Description"}))
    changed = _changed({"userPassword": [b"else"], "description": [b"d"]})
    assert entry_digest(DN, changed, rules) == entry_digest(DN, PERSON, rules)
    assert differing_attributes(PERSON, changed, rules) == []


@given(entries, st.randoms(use_true_random=False))
def test_a_fingerprint_is_of_the_set_of_entries(
    population: dict[str, Attributes], chance: Random
) -> None:
    shuffled = list(population.items())
    chance.shuffle(shuffled)
    whole = fingerprint(population.items(), Rules())
    assert str(fingerprint(shuffled, Rules())) == str(whole)
    assert whole.count == len(population)
    if shuffled:
        assert str(fingerprint(shuffled[1:], Rules())) != str(whole)


def test_a_fingerprint_does_not_change_between_versions() -> None:
    assert str(Fingerprint()) == EMPTY
    assert str(fingerprint([(DN, PERSON)], Rules(passwords=False))) == ONE_PERSON


def _changed(changes: dict[str, list[bytes] | None]) -> Attributes:
    return {
        name: list(values)
        for name, values in {**PERSON, **changes}.items()
        if values is not None
    }


EMPTY = "7250b2c3261d28d318b54f367e242045d84f1409a9029690d21fffe47f0d781a"
ONE_PERSON = "00e66af8642945a1b872477aee4ee5ad3ee48223d417178f1707a6e5311519aa"
