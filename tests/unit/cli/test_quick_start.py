# SPDX-License-Identifier: Apache-2.0
"""What short commands import: neither gRPC nor a database nor what draws."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from ldapslam.cli.command_tree import Commands, short_help
from ldapslam.cli.main import cli

_HEAVY = ("grpc", "jinja2", "matplotlib", "numpy", "sqlalchemy", "typst")
_PROGRAM = f"""
import sys
from ldapslam.cli.main import run
try:
    status = run(sys.argv[1:])
except SystemExit as ended:
    status = ended.code or 0
found = [name for name in {_HEAVY} if name in sys.modules]
sys.exit(f"imported {{found}}" if found else status)
"""
_JOB = Path(__file__).parents[3] / "configs" / "jobs" / "search.yaml"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--version",),
        ("--help",),
        ("run", "--help"),
        ("check", "--help"),
        ("check", "--offline", str(_JOB)),
        ("quick", "search", "--help"),
        ("new", "--help"),
        ("describe", "run"),
    ],
    ids=" ".join,
)
def test_short_commands_import_nothing_heavy(arguments: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["fleet status", "list", "submit"])
def test_what_asks_a_coordinator_imports_no_database(command: str) -> None:
    program = _PROGRAM.replace(repr(_HEAVY), repr(_HEAVY[1:]))  # gRPC it needs
    done = subprocess.run(
        [sys.executable, "-c", program, *command.split(), "--help"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_a_gate_that_is_refused_imports_no_database_and_nothing_that_draws() -> None:
    heavy = ("jinja2", "matplotlib", "scipy.stats", "scipy.optimize", "sqlalchemy")
    program = _PROGRAM.replace(repr(_HEAVY), repr(heavy))
    sides = ("--old", "ldap://one", "--new", "ldap://one")
    done = subprocess.run(
        [sys.executable, "-c", program, "gate", str(_JOB), *sides],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    assert "the old side and the new one are the same" in done.stderr


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
