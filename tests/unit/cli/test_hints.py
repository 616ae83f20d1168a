# SPDX-License-Identifier: Apache-2.0
"""Options: one name for one thing, and a right hint, or none, to an unknown one."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import click
import pytest

from ldapslam.base.errors import ExitCode
from ldapslam.cli import main
from ldapslam.cli.hints import tables
from ldapslam.cli.main import cli
from support.commands import LEAVES, options, shown_options

PAGE = "docs/how-to/coming-from.md"
#: Line -> the hint; empty: none.
HINTS = {
    # the command's own options
    "quick search --durration 5s": "Did you mean --duration?",
    "quick search --josn": "Did you mean --json?",
    "quick search --think_time 5s": "Did you mean --think-time?",
    "run job.yaml --treshold x": "",
    # options of other tools
    "quick search -A cn": "ldapsearch's -A is streams.operations.search.types_only "
    "here; "
    f"searchrate's and rsearch's -A is -a here: see {PAGE}.",
    "quick search --numThreads 4": f"searchrate's --numThreads is -c here: see {PAGE}.",
    "quick search -H ldap://ds1": "ldapsearch's and ldclt's -H is the argument "
    f"ldap://HOST:PORT here: see {PAGE}.",
    "quick search -x": f"ldapsearch's -x is the default here: see {PAGE}.",
    "quick search -L": "ldapsearch's and rsearch's -L has no counterpart here: "
    f"see {PAGE}.",
    # ldclt's -e has several meanings: the page has them all
    "quick search -e add": "ldapsearch's -e is streams.operations.controls here; "
    f"OpenDJ's -e has no counterpart here: see {PAGE}.",
    "data generate -L x": f"MakeLDIF's -L has no counterpart here: see {PAGE}.",
    "run job.yaml --numThreads 4": "",
    # names that resemble other options, and mean something else
    "list --csv": "",
    "compare a b --html x": "",
    "compare a b --out c": "",
    "lab up --count 3": "",
    "run job.yaml --report html": "",
    "run job.yaml --junit x": "",
    "run job.yaml --format json": "",
    "gate job.yaml --format json": "",
    "quick search --format json": "",
    "quick search --join": "",
    # commands
    "serach": "did you mean `ldapslam quick search`?",
    "describ": "did you mean `ldapslam describe`?",
    "data xyz": "`ldapslam data` has generate, load, verify",
    "lab list": "`ldapslam lab` has up, down, status; did you mean `ldapslam list` or "
    "`ldapslam fleet schedule list`?",
    "frobnicate": "",
}


def test_hints_are_right_or_not_given(capsys: pytest.CaptureFixture[str]) -> None:
    hints = {}
    for line in HINTS:
        assert main.run(line.split()) == ExitCode.USAGE
        error = " ".join(capsys.readouterr().err.partition("Error: ")[2].split())
        is_option = error.startswith("No such option")
        hints[line] = error.partition(". " if is_option else ": ")[2]
    # the last full stop ends an error without a hint
    assert {line: hint.rstrip() for line, hint in hints.items()} == HINTS


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("help", "--help"),
        ("version", "--version"),
        ("version --json", "--json --version"),
        ("-q version", "--version"),
        ("-q help lab", "lab --help"),
        ("-o help help lab", "lab --help"),
        ("help run", "run --help"),
        ("help fleet pki init", "fleet pki init --help"),
    ],
)
def test_help_and_version_are_answered(
    line: str, same: str, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = []
    for words in (line, same):
        assert main.run(words.split()) == ExitCode.PASS
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != ""


def test_the_page_has_each_row_of_the_table() -> None:
    page = (Path(__file__).resolve().parents[3] / PAGE).read_text()
    missing = [
        row
        for rows in tables().values()
        for row in rows
        if f"| {row.names} | {row.here} | {row.remarks} |" not in page
    ]
    assert missing == []


# One name for one thing: an option means the same in every command that has it.


#: More options than this are below headings.
MANY = 16
#: Options whose values are written in several ways, and what they mean in all of them.
SEVERAL_FORMS = {
    "--attribute": "attribute; with its value where nothing else has it",
    "--from": "begin of a range",
    "--lab": "measure servers brought up for that",
    "--offline": "without a running server; with which program, if there are several",
    "--out": "where the result goes: a folder, or the one file",
    "--role": "what a certificate is for",
}


def form(option: click.Option) -> str:
    """What its value is; empty: it has none."""
    if option.is_flag:
        return ""
    if isinstance(option.type, click.Choice):
        return "|".join(map(str, option.type.choices))
    return option.metavar or option.type.name


FORMS: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
LONG_OF: dict[str, set[str]] = defaultdict(set)
for _name, _command in LEAVES.items():
    for _option in (*options(_command), *options(cli)):
        long = max(_option.opts, key=len)
        FORMS[long][form(_option)].append(_name)
        for short in _option.opts:
            LONG_OF[short].add(long)


def test_the_value_of_an_option_is_written_in_one_way() -> None:
    several = {name: dict(forms) for name, forms in FORMS.items() if len(forms) > 1}
    assert several.keys() == SEVERAL_FORMS.keys(), several


def test_a_short_option_stands_for_one_long_one() -> None:
    several = {name: names for name, names in LONG_OF.items() if len(names) > 1}
    assert {name: names for name, names in several.items() if len(name) == 2} == {}


def test_many_options_are_below_headings() -> None:
    without = [
        name
        for name, command in LEAVES.items()
        if len(shown_options(command)) > MANY and not has_headings(command)
    ]
    assert without == []


def has_headings(command: click.Command) -> bool:
    """Whether the help has each option once, below two headings or more."""
    formatter = click.HelpFormatter(width=100)
    context = click.Context(command, help_option_names=["-h", "--help"])
    command.format_options(context, formatter)
    lines = formatter.getvalue().splitlines()
    headings = [line for line in lines if line.endswith(":") and line[0] != " "]
    named = [line for line in lines if line.startswith("  -")]
    return len(headings) > 1 and len(named) == len(shown_options(command)) + 1  # --help
