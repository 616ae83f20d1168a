# SPDX-License-Identifier: Apache-2.0
"""Digests of entries: equal for what is the same entry, different for anything else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ldap.dn import escape_dn_chars

from ldapslam.base.errors import TargetError
from ldapslam.directory.comparison import Comparison, compare
from ldapslam.directory.entry_digest import (
    Attributes,
    Fingerprint,
    Rules,
    differing_attributes,
    entry_digest,
    fingerprint,
    normalised_dn,
)
from ldapslam.directory.fingerprint import differences, record_of, rules_of

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


# Trees and records of populations compared: each difference is counted and named.


class MemoryTree:
    def __init__(self, entries: Mapping[str, Attributes], name: str = "tree") -> None:
        self.name = name
        self._entries = dict(entries)
        #: How often all of it was read.
        self.readings = 0

    def entries(self) -> Iterator[tuple[str, Attributes]]:
        self.readings += 1
        return iter(self._entries.items())

    def names(self) -> Iterator[str]:
        self.readings += 1
        return iter(self._entries)

    def pick(self, dns: Iterable[str]) -> Iterator[tuple[str, Attributes]]:
        keys = {normalised_dn(dn) for dn in dns}
        return (
            item for item in self._entries.items() if normalised_dn(item[0]) in keys
        )


def person(number: int, **changes: bytes) -> tuple[str, Attributes]:
    attributes = {"uid": f"u{number}".encode(), "sn": b"Same", **changes}
    return f"uid=u{number},dc=x", {name: [value] for name, value in attributes.items()}


PEOPLE = dict(person(number) for number in range(2_500))


def found(result: Comparison, kind: str) -> list[str]:
    return sorted(one.dn for one in result.named if one.kind == kind)


def test_equal_trees_are_read_once() -> None:
    expected = MemoryTree(PEOPLE)
    other = MemoryTree({dn.upper(): entry for dn, entry in reversed(PEOPLE.items())})
    result = compare(expected, other)
    assert result.is_equal
    assert result.compared == len(PEOPLE)
    assert str(result.expected) == str(result.found)
    assert (expected.readings, other.readings) == (1, 1)


@pytest.mark.parametrize("sample", [None, len(PEOPLE)])
def test_each_difference_is_named(sample: int | None) -> None:
    changed = {**PEOPLE, **dict([person(8, sn=b"Else")])}
    del changed["uid=u7,dc=x"]
    changed["uid=new,dc=x"] = {}
    result = compare(MemoryTree(PEOPLE), MemoryTree(changed), sample=sample)
    assert (result.missing, result.extra, result.different) == (1, 1, 1)
    assert found(result, "missing") == ["uid=u7,dc=x"]
    assert found(result, "extra") == ["uid=new,dc=x"]
    [different] = [one for one in result.named if one.kind == "different"]
    assert different.dn == "uid=u8,dc=x"
    [attribute] = different.attributes
    assert attribute.attribute == "sn"
    assert (attribute.only_expected, attribute.only_found) == ((b"Same",), (b"Else",))


def test_an_entry_that_a_file_has_twice_is_one() -> None:
    twice = {**PEOPLE, "UID=u7,dc=x": PEOPLE["uid=u7,dc=x"]}
    assert compare(MemoryTree(twice), MemoryTree(PEOPLE)).is_equal
    fewer = {dn: entry for dn, entry in PEOPLE.items() if dn != "uid=u7,dc=x"}
    assert compare(MemoryTree(twice), MemoryTree(fewer)).missing == 1


def test_names_are_bounded_and_counts_are_not() -> None:
    other = dict(person(number, sn=b"Else") for number in range(1_250, 3_750))
    result = compare(MemoryTree(PEOPLE), MemoryTree(other), named=3)
    assert (result.missing, result.extra, result.different) == (1_250, 1_250, 1_250)
    assert len(result.named) == 9


@pytest.mark.parametrize("sample", [None, 10])
def test_empty_trees(sample: int | None) -> None:
    nothing = MemoryTree({})
    assert compare(nothing, nothing, sample=sample).is_equal
    assert compare(nothing, MemoryTree(PEOPLE), sample=sample).extra == len(PEOPLE)
    assert compare(MemoryTree(PEOPLE), nothing, sample=sample).missing == len(PEOPLE)


def test_a_sample_is_drawn_by_its_seed() -> None:
    changed = dict(person(number, sn=b"Else") for number in range(2_500))
    backwards = MemoryTree(dict(reversed(PEOPLE.items())))

    def drawn(expected: MemoryTree, seed: int) -> list[str]:
        result = compare(expected, MemoryTree(changed), sample=5, seed=seed, named=100)
        assert (result.compared, result.different) == (5, 5)
        return found(result, "different")

    assert drawn(MemoryTree(PEOPLE), 1) == drawn(backwards, 1)
    assert drawn(backwards, 1) != drawn(backwards, 2)


def test_what_is_no_longer_different_is_named_all_the_same() -> None:
    class Mended(MemoryTree):
        def pick(self, dns: Iterable[str]) -> Iterator[tuple[str, Attributes]]:
            return MemoryTree(PEOPLE).pick(dns)

    changed = Mended({**PEOPLE, **dict([person(8, sn=b"Else")])})
    result = compare(MemoryTree(PEOPLE), changed)
    assert result.different == 1
    [different] = result.named
    assert (different.dn, different.attributes) == ("uid=u8,dc=x", ())


def test_a_sample_that_cannot_be_read_is_an_error() -> None:
    class Hidden(MemoryTree):
        def pick(self, dns: Iterable[str]) -> Iterator[tuple[str, Attributes]]:
            return super().pick(list(dns)[1:])

    with pytest.raises(TargetError, match="of a sample of 5 entries 4 could be read"):
        compare(MemoryTree(PEOPLE), Hidden(PEOPLE), sample=5)


numbers = st.sets(st.integers(0, 60))


@given(expected=numbers, other=numbers, changed=numbers)
def test_counts_are_those_of_sets(
    expected: set[int], other: set[int], changed: set[int]
) -> None:
    left = dict(person(number) for number in expected)
    right = dict(
        person(number, sn=b"Else" if number in changed else b"Same") for number in other
    )
    result = compare(MemoryTree(left), MemoryTree(right), Rules(), named=100)
    assert result.missing == len(expected - other)
    assert result.extra == len(other - expected)
    assert result.different == len(expected & other & changed)
    assert result.compared == len(expected & other)
    assert result.is_equal == (left == right)
    assert (str(result.expected) == str(result.found)) == result.is_equal
    for kind, which in (
        ("missing", expected - other),
        ("extra", other - expected),
        ("different", expected & other & changed),
    ):
        assert found(result, kind) == sorted(f"uid=u{number},dc=x" for number in which)


def people(count: int) -> dict[str, dict[str, list[bytes]]]:
    return {
        f"uid=u{n},dc=example": {
            "objectClass": [b"person"],
            "sn": [b"%d" % n],
            "description": [b"old"],
            "userPassword": [b"secret"],
        }
        for n in range(count)
    }


def test_the_order_and_the_spelling_of_entries_do_not_count() -> None:
    entries = people(500)
    record = record_of(MemoryTree(entries), "dc=example", sample=20)
    assert record is not None
    assert (record.entries, len(record.sample)) == (500, 20)
    assert record.fingerprint == str(fingerprint(entries.items(), rules_of(())))
    turned = {
        dn.replace("uid=", "UID = ").upper(): of
        for dn, of in reversed(list(entries.items()))
    }
    other = record_of(MemoryTree(turned), "dc=example", sample=20)
    assert other is not None
    assert other.fingerprint == record.fingerprint
    assert {digest for _, digest in other.sample} == {d for _, d in record.sample}
    assert list(differences(record, MemoryTree(turned))) == []


def test_what_is_missing_or_another_is_named() -> None:
    entries = people(50)
    record = record_of(MemoryTree(entries), "dc=example")
    assert record is not None
    assert len(record.sample) == 50
    del entries["uid=u7,dc=example"]
    entries["uid=u8,dc=example"]["sn"] = [b"other"]
    entries["uid=u9,dc=example"]["userPassword"] = [b"{SSHA}other"]
    assert sorted(differences(record, MemoryTree(entries))) == [
        ("uid=u7,dc=example", False),
        ("uid=u8,dc=example", True),
    ]


@pytest.mark.parametrize(
    ("ignored", "attribute"), [("Description", "description"), ("surname", "sn")]
)
def test_attributes_that_are_ignored_by_any_of_their_names_may_change(
    ignored: str, attribute: str
) -> None:
    entries = people(5)
    record = record_of(MemoryTree(entries), "dc=example", ignored=(ignored,))
    assert record is not None
    entries["uid=u1,dc=example"][attribute] = [b"new"]
    assert list(differences(record, MemoryTree(entries))) == []


def test_one_entry_in_two_spellings_is_sampled_once() -> None:
    entries = {"cn=a b,dc=x": {"cn": [b"a b"]}, "CN=A  B, DC=x": {"cn": [b"a b"]}}
    record = record_of(MemoryTree(entries), "dc=x")
    assert record is not None
    assert (record.entries, len(record.sample)) == (2, 1)
    twice = replace(record, sample=tuple((dn, record.sample[0][1]) for dn in entries))
    assert list(differences(twice, MemoryTree(dict([entries.popitem()])))) == []


def test_nothing_has_no_record() -> None:
    assert record_of(MemoryTree({}), "dc=example") is None
