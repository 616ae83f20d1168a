# SPDX-License-Identifier: Apache-2.0
"""The whole content of a directory, to be compared entry by entry."""

from __future__ import annotations

from collections.abc import Iterator

import ldap
import pytest

from support.lab import Lab

Tree = dict[str, dict[str, list[bytes]]]


def tree(lab: Lab) -> Tree:
    """DN -> user attributes of every entry of the supplier."""
    found = lab.search(lab.supplier, lab.suffix, ldap.SCOPE_SUBTREE, ["*"])
    return {
        dn: {name: sorted(values) for name, values in attributes.items()}
        for dn, attributes in found.items()
    }


@pytest.fixture
def tree_before(lab: Lab) -> Iterator[Tree]:
    """The lab's tree, which is the same again after the test."""
    before = tree(lab)
    yield before
    assert tree(lab) == before
