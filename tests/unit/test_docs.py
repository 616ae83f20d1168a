# SPDX-License-Identifier: Apache-2.0
"""What is written for users is true: commands, exit codes, links and jobs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest
import yaml

from ldapslam.base.errors import EXIT_CODE_MEANING, ExitCode
from ldapslam.cli.main import cli, run
from ldapslam.jobs.fields.sections import Section, field_of, sections_in
from ldapslam.jobs.load import load_job, load_job_text
from ldapslam.jobs.model import Job
from ldapslam.jobs.types import job_types
from ldapslam.reports.rules.rules import RULES
from ldapslam.reports.summarise import summarise
from ldapslam.results.store import Store
from ldapslam.studies.points import files_of, load_points, points_of
from ldapslam.studies.study_file import load_study
from support.store import Scenario, fill

ROOT = Path(__file__).resolve().parents[2]
COMMANDS_PAGE = ROOT / "docs" / "reference" / "commands.md"
DOCUMENTS = [
    *(ROOT / "README.md", ROOT / "CONTRIBUTING.md"),
    *sorted((ROOT / "docs").rglob("*.md")),
]
STUDIES = sorted((ROOT / "configs" / "studies").glob("*.yaml"))
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
def test_each_yaml_block_in_the_documents_loads(block: str, tmp_path: Path) -> None:
    document = yaml.safe_load(block)
    if "study" in document:
        (tmp_path / "study.yaml").write_text(block)
        study = load_study(tmp_path / "study.yaml")
        names = {*study.vars, *study.axes}
        assert points_of(study, dict.fromkeys(files_of(study), names))
    elif "job" in document:
        load_job_text(block, file="document", base=None)


@pytest.mark.parametrize("in_lab", [False, True])
@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_each_ready_study_loads_with_the_job_of_each_point(
    path: Path, in_lab: bool
) -> None:
    study = load_study(path, in_lab=in_lab)
    assert study.name == path.stem
    for point in load_points(study, path):
        load_job(path.parent / point.job, point.overrides)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_each_link_within_the_repository_leads_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", path.read_text())
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_each_validity_rule_is_documented_with_its_default_limit() -> None:
    with Store.open("sqlite://") as store:
        rules = summarise(store, fill(store, Scenario())).rules
    assert len(rules) == len(RULES)
    page = (ROOT / "docs" / "explanation" / "measuring.md").read_text()
    row = r"^\| `(\w+)` \| (.+) \| (.+) \| (generator|evidence|target) \|$"
    rows = re.findall(row, page, re.MULTILINE)
    # how many agents there must be depends on the run
    limits = {"agents_present": "all planned"}
    assert rows == [
        (rule.name, rule.title, limits.get(rule.name, rule.limit), rule.cause)
        for rule in rules
    ]


def test_the_change_log_knows_the_version() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    version = re.search(r'^version = "(.+)"', project, re.MULTILINE)
    assert version is not None
    assert f"## {version[1]}" in (ROOT / "CHANGELOG.md").read_text()


COMING_FROM = ROOT / "docs" / "how-to" / "coming-from.md"


def command_lines() -> list[str]:
    """The examples of the page for those who come from other tools."""
    blocks = re.findall(r"^```sh\n(.*?)^```", COMING_FROM.read_text(), re.M | re.S)
    return [line for block in blocks for line in block.splitlines()]


@pytest.mark.parametrize("line", [one for one in command_lines() if " LOG " not in one])
def test_each_example_for_those_who_come_from_other_tools_makes_a_job(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    words = shlex.split(line)[1:]
    assert run([*words, "--print-job"]) == ExitCode.PASS, capsys.readouterr().err
    assert load_job_text(capsys.readouterr().out, file="printed", base=ROOT)


def equivalents() -> Iterator[str]:
    """What that page has in code, in the second column of its tables."""
    for row in re.findall(r"^\|[^|]+\|(.+)\|$", COMING_FROM.read_text(), re.M):
        yield from re.findall(r"`([^`]+)`", row)


def options_of(group: click.Group) -> Iterator[str]:
    for word in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), word)
        assert command is not None
        if isinstance(command, click.Group):
            yield from options_of(command)
        for option in command.params:
            yield from option.opts


def test_each_option_for_those_who_come_from_other_tools_exists() -> None:
    known = set(options_of(cli))
    named = {one.split()[0] for one in equivalents() if one.startswith("-")}
    assert len(named) > 40
    assert named <= known


#: Of dsctl, pytest, searchrate, pip and podman; and click's own.
OTHERS_OPTIONS = {
    *("--generic", "--chaos-seed", "--update-golden", "--variableRateData", "--help"),
    *("--no-deps", "--no-binary", "--only-binary", "--require-hashes"),
    *("--network", "--ulimit"),
}


@pytest.mark.parametrize(
    "path",
    [one for one in DOCUMENTS if one != COMING_FROM],
    ids=lambda path: path.name,
)
def test_each_option_in_the_documents_exists(path: Path) -> None:
    named = set(re.findall(r"(?<![\w-])--[A-Za-z][A-Za-z-]+", path.read_text()))
    assert named - OTHERS_OPTIONS <= set(options_of(cli))


def has_field(section: type[Section], path: Sequence[str]) -> bool:
    info = field_of(section, path[0])
    if info is None:
        return False
    inner = [one for one, _ in sections_in(info.annotation)]
    return len(path) == 1 or any(has_field(one, path[1:]) for one in inner)


def test_each_key_for_those_who_come_from_other_tools_exists() -> None:
    named = {one for one in equivalents() if re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", one)}
    assert len(named) > 15
    for path in (one.split(".") for one in named):
        if path[0] == "types":
            options = job_types()[path[1]].Options
            assert len(path) == 2 or has_field(options, path[2:]), path
        else:
            assert has_field(Job, path), path
