# SPDX-License-Identifier: Apache-2.0
"""The directories that the workload tests load: what they count and what they keep."""

from __future__ import annotations

import ldap
import pytest

from support.directory import PEOPLE, Directory, differences

PERSON = "uid=user.7,ou=people,dc=example,dc=com"


def test_directory_counts_the_operations_of_others_alone(directory: Directory) -> None:
    before = directory.counts()
    connection = ldap.initialize(directory.uri)
    connection.simple_bind_s(PERSON, "password")
    connection.search_s(PERSON, ldap.SCOPE_BASE)
    assert connection.compare_s(PERSON, "sn", b"Allen")
    with pytest.raises(ldap.INSUFFICIENT_ACCESS):
        connection.delete_s(PERSON)
    assert connection.whoami_s().endswith(PERSON)
    connection.unbind_s()
    after = directory.counts()
    assert {kind: after[kind] - before[kind] for kind in after} == {
        **dict.fromkeys(after, 0),
        **dict.fromkeys(("bind", "search", "compare", "delete"), 1),
        **dict.fromkeys(("extended", "unbind"), 1),
    }


def test_tree_is_as_it_was_unless_something_was_done(directory: Directory) -> None:
    before = directory.tree()
    assert len(before) == PEOPLE + 2
    assert before[PERSON]["entryuuid"]
    assert differences(before, directory.tree()) == []
    assert differences(before, {**before, "uid=x": {}}) == ["uid=x: was left"]
    changed = {**before, PERSON: {**before[PERSON], "sn": [b"Else"]}}
    assert differences(before, changed) == [
        f"{PERSON}: sn: [b'Allen'] became [b'Else']"
    ]
