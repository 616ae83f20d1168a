# SPDX-License-Identifier: Apache-2.0
"""Golden files: what the code makes, compared with what was reviewed and committed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden"

_SVG = re.compile(r"<svg\b.*?</svg>", re.DOTALL)
_STYLE = re.compile(r"<style>.*?</style>", re.DOTALL)
_SCRIPT = re.compile(r"<script>.*?</script>", re.DOTALL)
_HASH = re.compile(r"sha256-[A-Za-z0-9+/=]+")

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


def without_drawings(html: str) -> str:
    """A page without what depends on matplotlib's version, its style and its script."""
    for form, short in ((_SVG, "<svg/>"), (_STYLE, "<style/>"), (_SCRIPT, "<script/>")):
        html = form.sub(short, html)
    return _HASH.sub("sha256-…", html)
