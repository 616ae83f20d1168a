# SPDX-License-Identifier: Apache-2.0
"""The list of mutants follows the code: `make mutate` finds each of them."""

from __future__ import annotations

import runpy
from pathlib import Path

MUTATION = Path(__file__).parents[1] / "mutation"


def test_each_mutant_has_its_place_and_its_tests() -> None:
    run = runpy.run_path(str(MUTATION / "run.py"))
    found = run["mutants"](())
    assert len(found) > 100
    for one in found:
        assert one.was != one.becomes
        for test in one.tests:
            assert (run["ROOT"] / test).exists(), test
