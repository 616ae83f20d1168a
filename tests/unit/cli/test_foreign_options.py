# SPDX-License-Identifier: Apache-2.0
"""Every option of other tools is answered with what stands for it here."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from ldapslam.cli import foreign_options
from ldapslam.cli.foreign_line import refuse_habits
from ldapslam.cli.foreign_options import Row, meant, tables
from ldapslam.cli.main import cli


def context_of(*words: str) -> click.Context:
    context = click.Context(cli)
    for word in words:
        assert isinstance(context.command, click.Group)
        command = context.command.get_command(context, word)
        assert command is not None
        context = click.Context(command, context, word)
    return context


def answered(option: str, *words: str, value: str = "") -> str:
    """Empty where the command has the option."""
    context = context_of(*words)
    if option in foreign_options.options_of(context.command):
        return ""
    answer = meant(context, option, value)
    assert answer, f"{option} is not answered"
    return answer


def options_in(row: Row) -> Iterator[tuple[str, str]]:
    """An option as it is typed, and its value."""
    for key in sorted(row.keys):
        option, _, word = key.partition(" ")
        if not option.startswith("-"):
            option = f"--{option}"
        yield option, word


ROWS = [(tool, row) for tool, rows in tables().items() for row in rows]


@pytest.mark.parametrize(("tool", "row"), ROWS, ids=str)
def test_each_option_of_each_table_is_answered(tool: str, row: Row) -> None:
    commands = [["data", "generate"]]
    if tool != "makeldif":
        commands = [["search"], ["modify"], ["bind"], ["mix"], ["run"], ["check"]]
    for words in commands:
        for option, value in options_in(row):
            answer = answered(option, *words, value=value)
            if answer and words != ["run"] and words != ["check"]:
                meant_here = re.split("[`,]+", row.here)
                is_named = [text.strip() in answer for text in meant_here]
                assert row.here == "–" or any(is_named), (words, option, answer)


def test_the_tables_have_options() -> None:
    assert set(tables()) == set(foreign_options.TOOLS)
    without = [row.names for tool, row in ROWS if not row.keys and tool != "slamd"]
    in_words = ["entries that -e add has added", "lb base", "lb passmod", "lb test"]
    assert without == in_words


@pytest.mark.parametrize("word", foreign_options.ONE_LINE)
@pytest.mark.parametrize("command", ["run", "check", "submit", "capacity"])
def test_each_option_of_a_one_line_command_is_answered_by_those_of_a_job(
    word: str, command: str
) -> None:
    general = foreign_options.options_of(context_of("search").command)
    for option in foreign_options.options_of(context_of(word).command):
        answer = answered(option, command)
        assert not answer or option not in general or "docs/" not in answer


@pytest.mark.parametrize(
    ("option", "answer"),
    [
        ("-e esearch,random", "the command of that operation (ldclt); -b DN"),
        ("-e abandon", "`streams.operations.abandon`"),
        ("-e bindonly,randombinddn", "`streams.operations.let`"),
    ],
)
def test_words_of_ldclts_option_have_meanings_of_their_own(
    option: str, answer: str
) -> None:
    name, value = option.split()
    assert answer in answered(name, "search", value=value)


@pytest.mark.parametrize(
    ("typed", "answer"),
    [("-rate=50/s", "--rate"), ("-duration", "--duration"), ("-workers", "-c N")],
)
def test_a_long_option_with_one_dash_is_answered(typed: str, answer: str) -> None:
    context = context_of("search")
    with pytest.raises(click.NoSuchOption) as error:
        refuse_habits(context, ["ldap://ds1", "-b", "dc=x", "-r5/s", typed, "1"])
    assert answer in str(meant(context, error.value.option_name))


@pytest.mark.parametrize(
    "words", ["-Dcn=admin -bdc=x -fuid=1", "-b dc=x -- -rate", "-ZZ -vvv -n100"]
)
def test_short_options_with_their_values_are_none_of_those(words: str) -> None:
    refuse_habits(context_of("search"), words.split())
