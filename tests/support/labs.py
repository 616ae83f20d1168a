# SPDX-License-Identifier: Apache-2.0
"""A supplier and two replicas with 1,000 people, of each server.

Shared by the whole session: what a test writes, or breaks on a replica, it must mend.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from support.lab import FAST, Lab

TRIO_ENTRIES = 1_000


@pytest.fixture(scope="session")
def slapd_trio(slapd_installed: None) -> Iterator[Lab]:
    with Lab(replicas=2, entries=TRIO_ENTRIES, choices=FAST) as lab:
        yield lab


@pytest.fixture(scope="session")
def ds389_trio(ds389_installed: None) -> Iterator[Lab]:
    with Lab(server="389ds", replicas=2, entries=TRIO_ENTRIES) as lab:
        yield lab


@pytest.fixture(params=["slapd", "ds389"])
def trio(request: pytest.FixtureRequest) -> Lab:
    """Each of them in turn."""
    return cast(Lab, request.getfixturevalue(f"{request.param}_trio"))


#: For what servers have little part in: `make test` has it with slapd.
ds389_trio_is_long = pytest.mark.parametrize(
    "trio", ["slapd", pytest.param("ds389", marks=pytest.mark.long)], indirect=True
)
