# SPDX-License-Identifier: Apache-2.0
"""What is written for users is true: commands, exit codes, links and jobs."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import jsonschema
import pytest
import yaml

from ldapslam import __version__
from ldapslam.base.errors import ExitCode
from ldapslam.cli.main import cli, run
from ldapslam.jobs.fields.sections import Section, field_of, sections_in
from ldapslam.jobs.load import load_job, load_job_text
from ldapslam.jobs.model import Job
from ldapslam.jobs.schema import job_schema, schema_text
from ldapslam.jobs.types import job_types
from ldapslam.studies.points import files_of, load_points, points_of
from ldapslam.studies.study_file import load_study, study_schema
from support.bad_jobs import bad_jobs, job_file
from support.commands import COMMANDS, options, shown_options
from support.pages import blocks
from support.result_schema import result_schema

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    *(ROOT / "README.md", ROOT / "CONTRIBUTING.md"),
    *sorted((ROOT / "docs").rglob("*.md")),
]
STUDIES = sorted((ROOT / "configs" / "studies").glob("*.yaml"))
JOBS = sorted((ROOT / "configs" / "jobs").glob("*.yaml"))


def test_each_command_and_each_option_has_help() -> None:
    without = [name for name, command in COMMANDS.items() if not command.help]
    without += [
        f"{name} {option.opts[0]}"
        for name, command in COMMANDS.items()
        for option in shown_options(command)
        if not option.help
    ]
    assert without == []


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
    if "axes" in document:
        (tmp_path / "study.yaml").write_text(block)
        study = load_study(tmp_path / "study.yaml")
        names = {*study.vars, *study.axes}
        assert points_of(study, dict.fromkeys(files_of(study), names))
    elif "targets" in document and "streams" in document:
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


_LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)")


def anchors(page: Path) -> set[str]:
    """As code hosts make them of headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", text, re.M)
    }


def test_each_link_within_the_repository_leads_somewhere() -> None:
    """On a code host; `make site` looks at those of the site."""
    broken = []
    for path in DOCUMENTS:
        for link, anchor in _LINK.findall(path.read_text()):
            to = path.parent / link if link else path
            if not to.exists() or (anchor and anchor not in anchors(to)):
                broken.append(f"{path.name}: {link}#{anchor}")
    assert broken == []


def test_the_change_log_knows_the_version() -> None:
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text()


COMING_FROM = ROOT / "docs" / "how-to" / "coming-from.md"


def command_lines() -> list[str]:
    """The examples of the page for those who come from other tools."""
    blocks = re.findall(r"^```sh\n(.*?)^```", COMING_FROM.read_text(), re.M | re.S)
    return [line for block in blocks for line in block.splitlines()]


@pytest.mark.parametrize("line", [one for one in command_lines() if " LOG " not in one])
def test_each_example_for_those_who_come_from_other_tools_makes_a_job(
    line: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "configs", "configs")
    for block in blocks(COMING_FROM):
        if name := block.notes.get("file"):
            Path(name).write_text(block.text)
    words = [*shlex.split(line)[1:], "--print-job", "--out", "printed.yaml"]
    assert run(words) == ExitCode.PASS, capsys.readouterr().err
    printed = Path("printed.yaml").read_text()
    assert load_job_text(printed, file="printed", base=tmp_path)


def equivalents() -> Iterator[str]:
    """What that page has in code, in the second column of its tables."""
    for row in re.findall(r"^\|[^|]+\|(.+)\|$", COMING_FROM.read_text(), re.M):
        yield from re.findall(r"`([^`]+)`", row)


def options_of(command: click.Command) -> set[str]:
    return {
        name
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
    }


OPTIONS = options_of(cli).union(*map(options_of, COMMANDS.values()))


def test_each_option_for_those_who_come_from_other_tools_exists() -> None:
    named = {one.split()[0] for one in equivalents() if one.startswith("-")}
    assert len(named) > 40
    assert named <= OPTIONS


DECISIONS = ROOT / "docs" / "dev" / "decisions.md"
TROUBLESHOOTING = ROOT / "docs" / "how-to" / "troubleshooting.md"


def messages() -> list[str]:
    """What the page quotes: the first column of its tables."""
    rows = re.findall(r"^\| `(.+?)`.* \|", TROUBLESHOOTING.read_text(), re.M)
    assert len(rows) > 30
    return rows


@cache
def texts_in_code() -> list[str]:
    """Every text of the product but docstrings, without the values put in."""
    found = []
    packages = [path.parent for path in ROOT.glob("[a-z]*/__init__.py")]
    for path in (one for package in packages for one in package.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        docstrings = {
            id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                parts = [one for one in node.values if isinstance(one, ast.Constant)]
                found.append("".join(str(part.value) for part in parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                if id(node) not in docstrings:
                    found.append(re.sub(r"{[^}]*}", "", node.value))
    return found


def has_in_order(text: str, parts: Sequence[str]) -> bool:
    place = 0
    for part in parts:
        place = text.find(part, place)
        if place < 0:
            return False
        place += len(part)
    return True


def is_of_code(message: str) -> bool:
    parts = [part for part in re.split(r"\s*…\s*", message) if part]
    return any(has_in_order(text, parts) for text in texts_in_code())


def test_each_message_that_is_explained_is_one_of_the_code() -> None:
    assert [message for message in messages() if not is_of_code(message)] == []


#: Of dsctl, pytest, searchrate, pip and podman; and click's own.
OTHERS_OPTIONS = {
    *("--generic", "--chaos-seed", "--update-golden", "--variableRateData", "--help"),
    *("--no-deps", "--no-binary", "--only-binary", "--require-hashes"),
    *("--network", "--ulimit", "--attr", "--do-it"),
}


def test_each_option_in_the_documents_exists() -> None:
    unknown = {
        path.name: named - OTHERS_OPTIONS - OPTIONS
        for path in DOCUMENTS
        # the first names options of other tools, the second options that were removed
        if path not in (COMING_FROM, DECISIONS)
        and (named := set(re.findall(_LONG_OPTION, path.read_text())))
    }
    assert {name: options for name, options in unknown.items() if options} == {}


_LONG_OPTION = r"(?<![\w-])--[A-Za-z][A-Za-z-]+"


def command_of(words: Sequence[str]) -> tuple[click.Command, Sequence[str]]:
    """The command that a line begins with, and its arguments."""
    found: click.Command = cli
    while words and isinstance(found, click.Group):
        inner = found.get_command(click.Context(found), words[0])
        if inner is None:
            break
        found, words = inner, words[1:]
    return found, words


def command_lines_of(text: str) -> list[str]:
    """The lines of `ldapslam` in a document's code, without that word."""
    code = [
        *re.findall(r"^ *```(?:sh|console)\n(.*?)^ *```", text, re.M | re.S),
        *re.findall(r"^    .*", text, re.M),
    ]
    whole = "\n".join(code).replace("\\\n", " ")
    return re.findall(r"^ *(?:\$ )?ldapslam (.+)$", whole, re.M)


def is_right(line: str) -> bool:
    """Whether the command of a line of `ldapslam` exists and has the line's options."""
    words = re.sub(r"\s+#.*|'[^']*'", " ", line).split()
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    command, rest = command_of(words)
    if isinstance(command, click.Group) and rest and re.match(r"[a-z]", rest[0]):
        return False
    given = {word.partition("=")[0] for word in rest if word.startswith("--")}
    return given <= {*options_of(command), "--help"}


def test_each_command_line_in_the_documents_is_right() -> None:
    wrong = [
        f"{path.name}: {line}"
        for path in DOCUMENTS
        for line in command_lines_of(path.read_text())
        if not is_right(line)
    ]
    assert wrong == []


def test_each_command_that_a_text_names_is_right() -> None:
    """In documents, messages, help texts and comments, within backticks."""
    packages = [path.parent for path in ROOT.glob("[a-z]*/__init__.py")]
    code = [path for package in packages for path in package.rglob("*.py")]
    configs = [*(ROOT / "configs").rglob("*.yaml")]
    wrong, count = [], 0
    for path in (*DOCUMENTS, *code, *configs):
        # a text goes on in the next line: of a comment, or of adjacent literals
        text = re.sub(r'"\n\s*f?"|\n\s*#:? ', " ", path.read_text("utf-8"))
        lines = re.findall(r"`(?:\$ )?ldapslam\s+([^`]+)`", text)
        wrong += [f"{path.name}: {line}" for line in lines if not is_right(line)]
        count += len(lines)
    assert count > 200
    assert wrong == []


def test_each_option_that_a_help_text_names_is_one_of_its_command() -> None:
    """Those of other commands stand within backticks, after the command."""
    wrong = []
    for name, command in [("ldapslam", cli), *COMMANDS.items()]:
        helps = [one.help or "" for one in options(command)]
        for text in (command.help or "", *helps):
            named = re.findall(_LONG_OPTION, re.sub(r"`[^`]*`", "", text))
            if not {*named} <= {*options_of(command), "--help"}:
                wrong.append(f"{name}: {text}")
    assert wrong == []


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


# The manual pages are what the commands' help makes them.


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


# configs/schema is what the models say, and editors find it from each example.


CONFIGS = Path(__file__).resolve().parents[2] / "configs"
SCHEMAS = {"job": job_schema, "study": study_schema}
EXAMPLES = [
    pytest.param(path, kind, id=path.stem)
    for kind, folder in (("job", "jobs"), ("study", "studies"))
    for path in sorted((CONFIGS / folder).glob("*.yaml"))
]

STUDY = """\
name: faulty
job: search.yaml
axes: {clients: [1, 2]}
"""
BAD_STUDIES = {
    "unknown key": "repeat: 3",
    "unit": "settle: 5",
    "order": "order: shuffled",
    "repeats": "repeats: 0",
    "axis without values": "axes: {clients: []}",
    "axis of two kinds": "axes: {clients: {values: [1], variants: {a: {x: 1}}}}",
    "unknown key of an axis": "axes: {clients: {value: [1]}}",
    "axis of a text": "axes: {clients: many}",
    "name of an axis": "axes: {many clients: [1]}",
    "literal password": "bind: {dn: cn=admin, password: secret}",
    "hook without command": "before: {timeout: 5s}",
    "hook as text": "before: ./restart.sh",
    "job of two kinds": "jobs: {a: a.yaml}",
    "lab of another server": "lab: {server: active-directory}",
    "table without columns": "table: {title: some}",
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_schema_in_the_repository_is_the_models(name: str) -> None:
    kept = (CONFIGS / "schema" / f"{name}.json").read_text()
    now = schema_text(SCHEMAS[name]())
    assert kept == now, (
        f"run `ldapslam describe --schema {name} >configs/schema/{name}.json`"
    )


@pytest.mark.parametrize(
    "schema", [job_schema, study_schema, result_schema], ids=["job", "study", "result"]
)
def test_a_schema_is_one_and_has_an_absolute_id(schema: Any) -> None:
    made = schema()
    jsonschema.Draft202012Validator.check_schema(made)
    assert re.fullmatch(r"urn:ldapslam:\w+:1", made["$id"])


@pytest.mark.parametrize(("path", "kind"), EXAMPLES)
def test_each_example_names_its_schema_and_meets_it(path: Path, kind: str) -> None:
    text = path.read_text()
    named = re.match(r"# yaml-language-server: \$schema=(\S+)\n", text)
    assert named is not None
    schema = path.parent / named[1]
    assert schema.resolve() == CONFIGS / "schema" / f"{kind}.json"
    validator = jsonschema.Draft202012Validator(json.loads(schema.read_text()))
    validator.validate(yaml.safe_load(text))


@pytest.mark.parametrize("fault", BAD_STUDIES)
def test_an_editor_marks_a_faulty_study(fault: str) -> None:
    validator = jsonschema.Draft202012Validator(study_schema())
    good = yaml.safe_load(STUDY)
    validator.validate(good)
    assert not validator.is_valid({**good, **yaml.safe_load(BAD_STUDIES[fault])})


def test_an_editor_marks_every_unknown_key_and_every_wrong_top_of_a_job() -> None:
    validator = jsonschema.Draft202012Validator(job_schema())
    cases = bad_jobs()
    unknown = {
        name for name, case in cases.items() if ": unknown key" in case["faults"]
    }
    assert "type-with-bad-options" in unknown
    for name in (*sorted(unknown), "empty", "only-comments", "list-at-top"):
        content = yaml.safe_load(job_file(cases[name]))
        assert not validator.is_valid(content), name
