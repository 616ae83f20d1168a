# SPDX-License-Identifier: Apache-2.0
"""What short commands import: neither gRPC nor a database nor what draws."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import pytest

from ldapslam.cli.command_tree import Commands, short_help
from ldapslam.cli.main import cli
from ldapslam.results.store import Store
from support.store import Scenario, fill

#: gRPC, a database, and what computes and draws.
_HEAVY = "grpc jinja2 matplotlib numpy sqlalchemy typst"
_GATE = "jinja2 matplotlib scipy.stats scipy.optimize sqlalchemy"
_PROGRAM = """
import sys
from ldapslam.cli.main import run
heavy, *arguments = sys.argv[1:]
try:
    status = run(arguments)
except SystemExit as ended:
    status = ended.code or 0
found = [name for name in heavy.split() if name in sys.modules]
sys.exit(f"imported {found}" if found else status)
"""
_JOB = Path(__file__).parents[3] / "configs" / "jobs" / "search.yaml"


@pytest.mark.parametrize(
    ("arguments", "heavy", "code"),
    [
        ("--version", _HEAVY, 0),
        ("--help", _HEAVY, 0),
        ("run --help", _HEAVY, 0),
        ("check --help", _HEAVY, 0),
        ("check --offline JOB", _HEAVY, 0),
        ("quick search --help", _HEAVY, 0),
        ("new --help", _HEAVY, 0),
        ("describe run", _HEAVY, 0),
        # what asks a coordinator needs gRPC
        ("fleet status --help", _HEAVY.removeprefix("grpc "), 0),
        ("list --help", _HEAVY.removeprefix("grpc "), 0),
        ("submit --help", _HEAVY.removeprefix("grpc "), 0),
        # refused, as both sides are the same
        ("gate JOB --old ldap://one --new ldap://one", _GATE, 2),
    ],
)
def test_short_commands_import_nothing_heavy(
    arguments: str, heavy: str, code: int
) -> None:
    _check_imports(arguments.replace("JOB", str(_JOB)).split(), heavy, code)


def test_a_text_report_imports_neither_grpc_nor_what_draws(tmp_path: Path) -> None:
    with Store.open(tmp_path / "results.sqlite") as store:
        fill(store, Scenario(measure_s=3))
    words = ["report", str(tmp_path), "--format", "text"]
    _check_imports(words, "cryptography grpc jinja2 matplotlib numpy.ma rich typst", 0)


def _check_imports(words: Sequence[str], heavy: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, heavy, *words], capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr


def test_the_list_of_commands_says_what_their_help_says() -> None:
    _check_help(cli)


def _check_help(group: click.Command) -> None:
    assert isinstance(group, Commands)
    for name, entry in group.entries.items():
        command = group.get_command(click.Context(group), name)
        assert command is not None
        assert short_help(entry) == command.get_short_help_str(80), name
        if entry.commands:
            _check_help(command)


def test_names_of_commands_are_completed_with_their_help() -> None:
    found = cli.shell_complete(click.Context(cli), "ch")
    assert [(one.value, one.help) for one in found] == [
        ("check", short_help(cli.entries["check"]))
    ]
