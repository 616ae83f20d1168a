# SPDX-License-Identifier: Apache-2.0
"""Records of populations: the same of whatever source; what is missing or another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ldapslam.directory.entry_digest import Attributes, fingerprint, normalised_dn
from ldapslam.directory.fingerprint import differences, record_of, rules_of

Entries = dict[str, dict[str, list[bytes]]]


class Held:
    """A tree in memory."""

    name = "held"

    def __init__(self, entries: Entries) -> None:
        self._entries = entries

    def entries(self) -> Iterator[tuple[str, Attributes]]:
        yield from self._entries.items()

    def names(self) -> Iterator[str]:
        yield from self._entries

    def pick(self, dns: Iterable[str]) -> Iterator[tuple[str, Attributes]]:
        by_key = {normalised_dn(dn): dn for dn in self._entries}
        for dn in dns:
            if (found := by_key.get(normalised_dn(dn))) is not None:
                yield found, self._entries[found]


def people(count: int) -> Entries:
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
    record = record_of(Held(entries), "dc=example", sample=20)
    assert record is not None
    assert (record.entries, len(record.sample)) == (500, 20)
    assert record.fingerprint == str(fingerprint(entries.items(), rules_of(())))
    turned = {
        dn.replace("uid=", "UID = ").upper(): of
        for dn, of in reversed(list(entries.items()))
    }
    other = record_of(Held(turned), "dc=example", sample=20)
    assert other is not None
    assert other.fingerprint == record.fingerprint
    assert {digest for _, digest in other.sample} == {d for _, d in record.sample}
    assert list(differences(record, Held(turned))) == []


def test_what_is_missing_or_another_is_named() -> None:
    entries = people(50)
    record = record_of(Held(entries), "dc=example")
    assert record is not None
    assert len(record.sample) == 50
    del entries["uid=u7,dc=example"]
    entries["uid=u8,dc=example"]["sn"] = [b"other"]
    entries["uid=u9,dc=example"]["userPassword"] = [b"{SSHA}other"]
    assert sorted(differences(record, Held(entries))) == [
        ("uid=u7,dc=example", False),
        ("uid=u8,dc=example", True),
    ]


def test_attributes_that_are_ignored_may_change() -> None:
    entries = people(5)
    record = record_of(Held(entries), "dc=example", ignored=("Description",))
    assert record is not None
    entries["uid=u1,dc=example"]["description"] = [b"new"]
    assert list(differences(record, Held(entries))) == []


def test_one_entry_in_two_spellings_is_sampled_once() -> None:
    entries = {"cn=a b,dc=x": {"cn": [b"a b"]}, "CN=A  B, DC=x": {"cn": [b"a b"]}}
    record = record_of(Held(entries), "dc=x")
    assert record is not None
    assert (record.entries, len(record.sample)) == (2, 1)
    twice = replace(record, sample=tuple((dn, record.sample[0][1]) for dn in entries))
    assert list(differences(twice, Held(dict([entries.popitem()])))) == []


def test_an_attribute_is_ignored_by_any_of_its_names() -> None:
    entries = people(3)
    record = record_of(Held(entries), "dc=example", ignored=("surname",))
    assert record is not None
    entries["uid=u1,dc=example"]["sn"] = [b"new"]
    assert list(differences(record, Held(entries))) == []


def test_nothing_has_no_record() -> None:
    assert record_of(Held({}), "dc=example") is None
