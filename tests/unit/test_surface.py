# SPDX-License-Identifier: Apache-2.0
"""How much there is to know and to maintain stays within the limits of surface.yaml."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from ldapslam.cli.main import cli
from ldapslam.jobs.schema import job_schema
from support.commands import LEAVES

ROOT = Path(__file__).resolve().parents[2]
LIMITS_FILE = Path(__file__).with_name("surface.yaml")
LIMITS: dict[str, dict[str, Any]] = yaml.safe_load(LIMITS_FILE.read_text())


def long_options() -> set[str]:
    """Return the distinct long options of all commands, hidden options too."""
    return {
        name
        for command in (cli, *LEAVES.values())
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
        if name.startswith("--")
    }


def count_properties(schema: Any) -> int:
    """Return the number of keys that a JSON Schema describes, at any depth."""
    if isinstance(schema, list):
        return sum(map(count_properties, schema))
    if not isinstance(schema, dict):
        return 0
    return len(schema.get("properties", ())) + sum(
        map(count_properties, schema.values())
    )


def count_words() -> int:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    pages += (ROOT / "docs").rglob("*.md")
    return sum(len(page.read_text().split()) for page in pages)


def count_lines(folder: str) -> int:
    """Return the lines of a folder's Python or C, without blank lines, generated
    modules and tests."""
    suffixes = (".c", ".h") if folder == "agent/csrc" else (".py",)
    return sum(
        1
        for path in (ROOT / folder).rglob("*")
        if path.suffix in suffixes and "_pb2" not in path.name
        if "test" not in path.relative_to(ROOT).parts
        for line in path.read_text().splitlines()
        if line.strip()
    )


@cache
def measured() -> dict[str, int]:
    folders = [path.parent.name for path in ROOT.glob("*/__init__.py")]
    return {
        "commands at the top": len(cli.list_commands(click.Context(cli))),
        "commands": len(LEAVES),
        "long options": len(long_options()),
        "job keys": count_properties(job_schema()),
        "words of documents": count_words(),
        **{f"lines of {one}": count_lines(one) for one in (*folders, "agent/csrc")},
    }


def test_everything_that_is_measured_has_a_limit() -> None:
    assert sorted(LIMITS) == sorted(measured())
    assert [name for name, entry in LIMITS.items() if not entry.get("why")] == []


@pytest.mark.parametrize("name", LIMITS)
def test_the_surface_is_within_its_limit(name: str) -> None:
    value, limit = measured()[name], LIMITS[name]["limit"]
    assert value <= limit, (
        f"{name}: {value}, the limit is {limit}. Remove something, or raise the limit "
        f"in {LIMITS_FILE.name} in the same commit, with the reason"
    )
