# SPDX-License-Identifier: Apache-2.0
"""A real 389 Directory Server with the tree of `ldapslam.lab`: people and
administrator by the same names as slapd's, so that one job file serves both servers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from ldapslam.lab import LabError
from ldapslam.lab.ds389.programs import find_programs
from support.lab import Lab

DS389_ENTRIES = 1_000


@pytest.fixture(scope="session")
def ds389_installed() -> None:
    """Skip the test without 389-DS, with the reason; in CI that is a failure."""
    try:
        find_programs()
    except LabError as error:
        reason = f"{error} ({error.hint})"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def ds389(ds389_installed: None) -> Iterator[Lab]:
    """A server with 1,000 people, shared by the whole session: leave it as it was."""
    with Lab(server="389ds", entries=DS389_ENTRIES) as lab:
        yield lab
