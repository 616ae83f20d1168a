# SPDX-License-Identifier: Apache-2.0
"""The answer to an unknown option or command: a right hint, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from ldapslam.base.errors import ExitCode
from ldapslam.cli import main
from ldapslam.cli.hints import tables

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
