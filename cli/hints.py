# SPDX-License-Identifier: Apache-2.0
"""The hint after an option that does not exist: right, or not given.

The options of other LDAP tools, with what replaces them here, are in other_tools.toml.
"""

from __future__ import annotations

import importlib.resources
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import click

from ldapslam.base.fault import closest

_DATA = "other_tools.toml"
_PAGE = "docs/how-to/coming-from.md"
#: The tool that makes LDIF; the others send requests.
_MAKER = "MakeLDIF"
#: Second columns that are not the name of a replacement.
_IN_WORDS = {"–": "has no counterpart here", "the default": "is the default here"}


def with_hint(error: click.NoSuchOption) -> click.UsageError:
    """Return the error with the option that was meant, where that is known."""
    if error.ctx is None:
        return error
    hint = _option_hint(error.ctx, error.option_name)
    text = f"No such option: {error.option_name}. {hint}".rstrip()
    return click.UsageError(text, error.ctx)


def _option_hint(context: click.Context, option: str) -> str:
    long_names = [name for name in _options_of(context) if name.startswith("--")]
    if option.startswith("--") and (meant := closest(option, long_names)):
        return f"Did you mean {meant}?"
    return counterparts(context.command, option)


def _options_of(context: click.Context) -> list[str]:
    return [
        name
        for parameter in context.command.params
        if isinstance(parameter, click.Option) and not parameter.hidden
        for name in (*parameter.opts, *parameter.secondary_opts)
    ]


@dataclass(frozen=True)
class Row:
    """Names of options or parameters of another tool, and what replaces them here."""

    names: str
    here: str
    remarks: str

    @property
    def options(self) -> frozenset[str]:
        """The names that are options by themselves, without a word behind them."""
        names = re.split("[,;] *", re.sub(r" *\(.*?\)", "", self.names))
        return frozenset(_folded(name) for name in names if _OPTION.fullmatch(name))


_OPTION = re.compile(r"--?[A-Za-z][\w-]*", re.ASCII)


def _folded(option: str) -> str:
    """Long options of these tools are equal without regard to case and dashes."""
    if not option.startswith("--"):
        return option
    return "--" + re.sub("[-_]", "", option.lower())


@cache
def tables() -> Mapping[str, Sequence[Row]]:
    """Return the rows of each tool."""
    text = importlib.resources.files(__package__).joinpath(_DATA).read_text("utf-8")
    return {
        tool: [Row(*row) for row in table["rows"]]
        for tool, table in tomllib.loads(text).items()
    }


def counterparts(command: click.Command, option: str) -> str:
    """Return what replaces an option of other tools in this command, and the page that
    has them all; empty if no tool has the option, or the command has no counterpart."""
    tools_by_text: dict[str, list[str]] = {}
    for tool, rows in tables().items():
        if _is_comparable(command, tool):
            matches = [row for row in rows if _folded(option) in row.options]
            # with several meanings, only the page can say which one it is
            if len(matches) == 1 and (text := _replacement(command, matches[0])):
                tools_by_text.setdefault(text, []).append(f"{tool}'s")
    if not tools_by_text:
        return ""
    texts = (
        f"{' and '.join(tools)} {option} {text}"
        for text, tools in tools_by_text.items()
    )
    return f"{'; '.join(texts)}: see {_PAGE}."


def _is_comparable(command: click.Command, tool: str) -> bool:
    if tool == _MAKER:
        return command.name == "generate"
    return any(
        isinstance(parameter, click.Argument) and parameter.name == "uris"
        for parameter in command.params
    )


def _replacement(command: click.Command, row: Row) -> str:
    """Return a row's second column without the options that the command lacks."""
    if row.here in _IN_WORDS:
        return _IN_WORDS[row.here]
    own = {name for parameter in command.params for name in parameter.opts}
    parts = [part.strip("`") for part in row.here.split(", ")]
    parts = [part for part in parts if part in own or not part.startswith("-")]
    return f"is {', '.join(parts)} here" if parts else ""
