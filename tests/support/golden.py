# SPDX-License-Identifier: Apache-2.0
"""Golden files: what the code makes, compared with what was reviewed and committed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden"

Compare = Callable[[str, str], None]


@pytest.fixture
def golden(update_golden: bool) -> Compare:
    """compare(name, text): equal to tests/golden/NAME, or written with the option."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if update_golden:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        assert path.is_file(), f"no {path}; make it with --update-golden"
        assert text == path.read_text("utf-8")

    return compare
