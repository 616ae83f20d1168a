# SPDX-License-Identifier: Apache-2.0
"""The list of mutants follows the code: `make mutate` finds each of them."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


def test_each_mutant_has_its_place_and_its_tests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(TESTS / "mutation"))
    found = importlib.import_module("run").mutants(())
    assert len(found) > 100
    for one in found:
        assert one.was != one.becomes
        for test in one.tests:
            assert (TESTS.parent / test.partition("::")[0]).exists(), test
