# SPDX-License-Identifier: Apache-2.0
"""The list of mutants follows the code: `make mutate` finds each of them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "mutation"))

from run import ROOT, mutants


def test_each_mutant_has_its_place_and_its_tests() -> None:
    found = mutants(())
    assert len(found) > 100
    for one in found:
        assert one.was != one.becomes
        for test in one.tests:
            assert (ROOT / test.partition("::")[0]).exists(), test
