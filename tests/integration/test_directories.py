# SPDX-License-Identifier: Apache-2.0
"""The directories that the workload tests load: what they count and what they keep."""

from __future__ import annotations

from support.directory import PEOPLE, Directory, differences

PERSON = "uid=user.7,ou=people,dc=example,dc=com"


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
