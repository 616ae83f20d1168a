# SPDX-License-Identifier: Apache-2.0
"""The manual pages are what the commands' help makes them."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import click
import pytest

from ldapslam.cli.main import cli
from support.commands import COMMANDS, shown_options

ROOT = Path(__file__).resolve().parents[2]


def _generator() -> ModuleType:
    path = ROOT / "docs" / "manual.py"
    spec = importlib.util.spec_from_file_location("manual", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generator = _generator()
PAGES: dict[str, str] = generator.pages()


def test_each_command_has_a_page_with_its_options() -> None:
    for name in cli.list_commands(click.Context(cli)):
        page = PAGES[f"ldapslam-{name}.1"]
        for option in shown_options(COMMANDS[f"ldapslam {name}"]):
            assert max(option.opts, key=len).replace("-", "\\-") in page
        assert f".BR ldapslam\\-{name} (1)" in PAGES["ldapslam.1"]


def test_a_page_of_a_group_has_the_commands_below() -> None:
    assert '.SS "ldapslam fleet pki issue"' in PAGES["ldapslam-fleet.1"]


def test_text_that_roff_would_read_as_a_request_is_text() -> None:
    assert generator._text(r".so a\b --x") == r"\&.so a\eb \-\-x"
    assert generator._text("'tis") == r"\&'tis"
    assert list(generator._paragraphs("a\nb\n\n\b\n  c\n  d")) == [
        *("a b", ".PP", ".nf", "  c", "  d", ".fi")
    ]


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
@pytest.mark.parametrize("name", ["ldapslam.1", "ldapslam-run.1", "ldapslam-fleet.1"])
def test_man_formats_a_page_without_a_warning(name: str, tmp_path: Path) -> None:
    page = tmp_path / name
    page.write_text(PAGES[name])
    ended = subprocess.run(
        ["man", "--warnings", "-l", str(page)],
        env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin", "MANPAGER": "cat"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ended.stderr == ""
    assert ended.stdout.startswith("LDAPSLAM")
