# SPDX-License-Identifier: Apache-2.0
"""The commands of README, tutorial and how-tos do what these pages say."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.network import NetworkUnavailable, refuse
from support.pages import ROOT, Page, blocks, missing_line

HOW_TO = ROOT / "docs" / "how-to"
PAGES = [
    ROOT / "README.md",
    ROOT / "docs" / "tutorial.md",
    *sorted(HOW_TO.glob("*.md")),
]
#: Its examples are run by tests/unit/test_docs.py, with --print-job.
COMING_FROM = HOW_TO / "coming-from.md"
#: Pages that take seconds, and need no root; the others are for `make check-full`.
QUICK = {"labs", "security", "studies"}
#: Blocks that cannot run here, each with its reason in the page.
NOT_RUN = 23

WITH_COMMANDS = [
    page
    for page in PAGES
    if page != COMING_FROM
    and any(one.is_commands and "not run" not in one.notes for one in blocks(page))
]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page, id=page.stem, marks=[] if page.stem in QUICK else [pytest.mark.long]
        )
        for page in WITH_COMMANDS
    ],
)
def test_the_commands_of_a_page_do_what_it_says(
    page: Path, tmp_path: Path, slapd_installed: None
) -> None:
    try:
        assert Page(page, tmp_path).run()
    except NetworkUnavailable as error:
        refuse(str(error))


def test_what_is_not_run_has_a_reason_and_is_counted() -> None:
    reasons = [
        block.notes["not run"]
        for page in PAGES
        for block in blocks(page)
        if "not run" in block.notes
    ]
    assert all(len(reason) > 10 for reason in reasons)
    assert len(reasons) == NOT_RUN


@pytest.mark.parametrize(
    ("shown", "said", "missing"),
    [
        (["a 1.5 ms", "…", "b"], "a 2,000 ms\nx\nb\n", None),
        (["b", "a"], "a\nb\n", "a"),
        (["PASS  job"], "FAIL  job\n", "PASS  job"),
        (["0"], "1\n", "0"),
        (["was … above"], "was 3% above\n", None),
        (["errors < 1%"], "errors <= 1%\n", "errors < 1%"),
    ],
)
def test_what_a_page_shows_is_looked_for(
    shown: list[str], said: str, missing: str | None
) -> None:
    assert missing_line(shown, said) == missing
