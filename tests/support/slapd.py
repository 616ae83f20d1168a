# SPDX-License-Identifier: Apache-2.0
"""Fixtures with a real slapd; without one, tests skip here and fail in CI."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from ldapslam.lab import LabError
from ldapslam.lab.slapd.slapd import find_programs
from support.lab import Lab

LAB_ENTRIES = 1_000


@pytest.fixture(scope="session")
def slapd_installed() -> None:
    """Skip the test without slapd, with the reason; in CI that is a failure."""
    try:
        find_programs()
    except LabError as error:
        reason = f"{error} ({error.hint})"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def lab(slapd_installed: None) -> Iterator[Lab]:
    """A supplier and one replica with 1,000 entries, shared by the whole session:
    load it, do not break it."""
    with Lab(replicas=1, entries=LAB_ENTRIES) as lab:
        yield lab
