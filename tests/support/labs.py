# SPDX-License-Identifier: Apache-2.0
"""Real servers with 1,000 people and the same administrator: slapd and 389-DS.

Shared by the whole session: what a test writes, or breaks on a replica, it must mend.
Without a server its tests skip here, with the reason, and fail in CI.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

import pytest

from ldapslam.lab import LabError
from ldapslam.lab.ds389 import programs
from ldapslam.lab.slapd import slapd
from support.lab import FAST, Lab
from support.network import refuse

LAB_ENTRIES = TRIO_ENTRIES = 1_000


def _skip_without(find_programs: Callable[[], object]) -> None:
    try:
        find_programs()
    except LabError as error:
        refuse(f"{error} ({error.hint})")


@pytest.fixture(scope="session")
def slapd_installed() -> None:
    _skip_without(slapd.find_programs)


@pytest.fixture(scope="session")
def ds389_installed() -> None:
    _skip_without(programs.find_programs)


@pytest.fixture(scope="session")
def lab(slapd_installed: None) -> Iterator[Lab]:
    """A supplier and one replica: load it, do not break it."""
    with Lab(replicas=1, entries=LAB_ENTRIES) as lab:
        yield lab


@pytest.fixture(scope="session")
def ds389(ds389_installed: None) -> Iterator[Lab]:
    with Lab(server="389ds", entries=LAB_ENTRIES) as lab:
        yield lab


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
