# SPDX-License-Identifier: Apache-2.0
"""Values that differ by a number, as `new` proposes a pattern for them."""

from __future__ import annotations

import pytest

from ldapslam.cli.job_files.first_job import _pattern_of


@pytest.mark.parametrize(
    ("values", "pattern"),
    [
        (["user.3", "user.12", "user.0"], "user.[0-12]"),
        (["emp00001", "emp00499"], "emp[1-499%00000]"),
        (["1@a.de", "20@a.de"], "[1-20]@a.de"),
        (["AT-07-1", "AT-07-2"], "AT-07-[1-2]"),
        # nothing that one pattern draws
        (["emp1", "emp01"], ""),
        (["emp1", "anna"], ""),
        (["a1", "b2"], ""),
        (["a[1", "a[2"], ""),
        (["emp1"], ""),
        ([], ""),
    ],
)
def test_numbered_values_have_a_pattern(values: list[str], pattern: str) -> None:
    assert _pattern_of(values) == pattern
