# SPDX-License-Identifier: Apache-2.0
"""One name for one thing: an option means the same in every command that has it."""

from __future__ import annotations

from collections import defaultdict

import click

from ldapslam.cli.main import cli
from support.commands import LEAVES, options, shown_options

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
