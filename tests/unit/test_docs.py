# SPDX-License-Identifier: Apache-2.0
"""What is written for users is true: commands, exit codes, links and jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from ldapslam.cli.main import cli
from ldapslam.jobs.errors import EXIT_CODE_MEANING, ExitCode
from ldapslam.jobs.load import load_job, load_job_text
from ldapslam.reports.results.store import Store
from ldapslam.reports.rules import RULES
from ldapslam.reports.summary import summarise
from support.store import Scenario, fill

ROOT = Path(__file__).resolve().parents[2]
COMMANDS_PAGE = ROOT / "docs" / "commands.md"
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
JOBS = sorted((ROOT / "configs" / "jobs").glob("*.yaml"))


def commands(group: click.Group, prefix: str = "ldapslam") -> Iterator[tuple[str, str]]:
    """Every command with its full name, and its help."""
    context = click.Context(group)
    for word in group.list_commands(context):
        command = group.get_command(context, word)
        assert command is not None
        yield f"{prefix} {word}", command.help or ""
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix} {word}")


COMMANDS = dict(commands(cli))


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_and_is_documented(command: str) -> None:
    assert COMMANDS[command]
    assert command in COMMANDS_PAGE.read_text()


@pytest.mark.parametrize("command", COMMANDS)
def test_each_option_has_help(command: str) -> None:
    found: click.Command = cli
    for word in command.split()[1:]:
        assert isinstance(found, click.Group)
        inner = found.get_command(click.Context(found), word)
        assert inner is not None
        found = inner
    without = [
        option.name
        for option in found.params
        if isinstance(option, click.Option) and not option.hidden and not option.help
    ]
    assert without == []


@pytest.mark.parametrize("code", ExitCode)
def test_each_exit_code_is_documented(code: ExitCode) -> None:
    row = rf"^\| *{int(code)} *\| *(.*?) *\|$"
    [documented] = re.findall(row, COMMANDS_PAGE.read_text(), re.M)
    # The page may say more, but nothing else.
    assert documented.startswith(EXIT_CODE_MEANING[code])


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)
def test_each_ready_job_loads(path: Path) -> None:
    assert load_job(path).name == path.stem


def fenced(language: str) -> Iterator[tuple[str, str]]:
    for path in DOCUMENTS:
        for number, block in enumerate(
            re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.M | re.S)
        ):
            yield f"{path.name}-{number}", block


@pytest.mark.parametrize(
    "block", [pytest.param(text, id=name) for name, text in fenced("yaml")]
)
def test_each_yaml_block_in_the_documents_loads(block: str) -> None:
    document = yaml.safe_load(block)
    if "job" in document:
        load_job_text(block, file="document", base=None)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_each_link_within_the_repository_leads_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", path.read_text())
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_each_validity_rule_is_documented_with_its_default_limit() -> None:
    with Store.open("sqlite://") as store:
        rules = summarise(store, fill(store, Scenario())).rules
    assert len(rules) == len(RULES)
    page = (ROOT / "docs" / "measuring.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \|$", page, re.MULTILINE)
    # how many agents there must be depends on the run
    limits = {"agents_present": "all planned"}
    assert rows == [
        (rule.name, rule.title, limits.get(rule.name, rule.limit)) for rule in rules
    ]


def test_the_change_log_knows_the_version() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    version = re.search(r'^version = "(.+)"', project, re.MULTILINE)
    assert version is not None
    assert f"## {version[1]}" in (ROOT / "CHANGELOG.md").read_text()
