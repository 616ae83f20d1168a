# SPDX-License-Identifier: Apache-2.0
"""A command line with options that the command does not have: all of them are answered
at once, and those of a one-line command with the line that does the same."""

from __future__ import annotations

import contextlib
import difflib
import io
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ldapslam.base.errors import LdapSlamError
from ldapslam.cli.console import Invocation
from ldapslam.cli.foreign_options import (
    ONE_LINE,
    TOOLS,
    Row,
    has_uris,
    in_words_of_job,
    is_long_by_one_dash,
    meant,
    options_of,
    place_option,
    rows_of,
)

if TYPE_CHECKING:
    from ldapslam.jobs.model import Job

_HELP = ("-h", "--help")
#: How the data says that nothing stands for an option, and that it has no value.
_LEFT_OUT = ("–", "the default", "leave it out")
_NO_ARGUMENT = "a password is no argument"

#: What others call it -> our words for it, of which a group has the first.
_SAME_WITHIN = {
    "create": ("new", "up", "issue"),
    "init": ("new",),
    "list": ("examples", "status"),
    "ls": ("list", "examples", "status"),
    "show": ("describe", "status", "list"),
    "start": ("up",),
    "stop": ("down",),
}


@dataclass(frozen=True)
class Piece:
    """An option of a line with its value, or an argument, whose `name` is empty."""

    name: str
    value: str | None
    #: None where the command has no such option.
    parameter: click.Parameter | None = None

    @property
    def is_foreign(self) -> bool:
        # a hidden one is there to be refused
        is_hidden = getattr(self.parameter, "hidden", False)
        return bool(self.name) and (self.parameter is None or is_hidden)


def refuse_habits(context: click.Context, words: Sequence[str]) -> None:
    """For what click takes for something else, or without a remedy: a long option with
    one dash, -h HOST, and a coordinator's HOST:PORT as an argument."""
    if isinstance(context.command, click.Group):
        if words and not words[0].startswith("-"):
            inner = context.command.get_command(context, words[0])
            if inner is None:
                raise click.UsageError(_no_command(context, words[0]), context)
            refuse_habits(click.Context(inner, context, words[0]), words[1:])
        return
    line = list(pieces(context.command, words))
    if context.command.name == "gate":
        _refuse_habits_of_gates(context, line)
    for piece in line:
        if piece.parameter is None and (
            piece.name == "-h" or is_long_by_one_dash(context.command, piece.name)
        ):
            raise click.NoSuchOption(piece.name, ctx=context)
        place = place_option(context.command)
        if place and not piece.name and re.fullmatch(r"\S+:\d+", str(piece.value)):
            raise click.UsageError(f"write {place} {piece.value}", context)


def _refuse_habits_of_gates(context: click.Context, line: Iterable[Piece]) -> None:
    if any(one.name == "--junit" for one in line):
        what = "junit.xml is in the folder of the results: write --out DIR"
        raise click.UsageError(what, context)
    words = (str(one.value) for one in line if not one.name)
    if uris := [one for one in words if "://" in one]:
        what = f"a server is a side: write --old {uris[0]} --new {uris[-1]}"
        raise click.UsageError(what, context)


def _no_command(context: click.Context, word: str) -> str:
    assert isinstance(context.command, click.Group)
    known = context.command.list_commands(context)
    same = [one for one in _SAME_WITHIN.get(word, ()) if one in known]
    meant = [*same, *difflib.get_close_matches(word, known, 1)]
    hint = f"there are {', '.join(known)}"
    if meant:
        hint = f"did you mean `{context.command_path} {meant[0]}`?"
    return f"no command '{context.command_path} {word}': {hint}"


def pieces(command: click.Command, words: Sequence[str]) -> Iterator[Piece]:
    """A line as click reads it. The value of an option that the command does not have
    is the word behind it, if it looks like one."""
    options, rest = options_of(command), list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            yield from (Piece("", one) for one in rest)
            return
        if not word.startswith("-") or word == "-":
            yield Piece("", word)
            continue
        value: str | None
        if word.startswith("--") or is_long_by_one_dash(command, word):
            name, _, value = word.partition("=")
        else:
            name, value = word[:2], word[2:]
        parameter = options.get(name)
        has_value = _is_value(rest[:1])
        if name in _HELP and not (name == "-h" and has_uris(command) and has_value):
            continue
        if _is_flag(command, name, parameter):
            if value and len(name) == 2:  # further ones behind the same dash
                rest.insert(0, f"-{value}")
            value = None
        elif not value:
            takes = rest and (parameter is not None or has_value)
            value = rest.pop(0) if takes else None
        yield Piece(name, value, parameter)


def _is_value(following: Sequence[str]) -> bool:
    """Whether the next word can be the value of an option that nobody knows."""
    return not any(re.match(r"[-(]|ldap[si]?://", word) for word in following or ("-",))


def _is_flag(
    command: click.Command, name: str, parameter: click.Parameter | None
) -> bool:
    if isinstance(parameter, click.Option):
        return parameter.is_flag or parameter.count
    rows = rows_of(command, name, "")
    return bool(rows) and all(row.here in _LEFT_OUT for _, row in rows)


def answered(error: click.NoSuchOption, arguments: Sequence[str]) -> click.UsageError:
    """The error with all that is to be known; `arguments` are those of the line."""
    context = error.ctx
    if context is None:
        return error
    if isinstance(context.command, click.Group):
        if not any("://" in word for word in arguments):
            return error
        text = f"{error.message} No command: did you mean `ldapslam search URI …`?"
        return click.UsageError(text, context)
    line = list(pieces(context.command, _behind(context, arguments)))
    foreign = list(dict.fromkeys(one for one in line if one.is_foreign))
    if error.option_name not in (one.name for one in foreign):
        foreign.append(Piece(error.option_name, None))
    # a value that one tool alone knows says which one it is
    known = [
        {tool for tool, _ in rows_of(context.command, one.name, one.value or "")}
        for one in foreign
    ]
    tools = [tool for tool in TOOLS if all(tool in some for some in known)]
    job = _job_of(context.command, line)
    answers: dict[str | None, list[str]] = {}
    for one in foreign:
        answer = meant(context, one.name, one.value or "", tools or TOOLS)
        if answer and job:
            answer = in_words_of_job(answer, one.value or "", job)
        names = answers.setdefault(answer, [])
        names += [one.name] * (one.name not in names)
    if len(foreign) == 1:
        [answer] = answers
        if answer is None:
            return error
        text = f"{error.message} Here: {answer}"
    else:
        text = "No such options. Here:"
        for answer, names in answers.items():
            text += f"\n  {', '.join(names)}: {answer or 'nothing'}"
    return click.UsageError(text + _whole_line(context, line, tools), context)


def whole_line(root: click.Context, name: str, tool: str, words: Sequence[str]) -> str:
    """What to add to a message: the line of a tool, by our command that does the same;
    empty where there is none."""
    assert isinstance(root.command, click.Group)
    command = root.command.get_command(root, name)
    if command is None or name not in ONE_LINE:
        return ""
    context = click.Context(command, root, name)
    tools = [tool] if tool in TOOLS else list(TOOLS)
    return _whole_line(context, list(pieces(command, words)), tools)


def _whole_line(
    context: click.Context, line: Sequence[Piece], tools: Iterable[str]
) -> str:
    written = {_written(context, line, tool) for tool in tools} - {None}
    works = [words for words in written if words and _works(context, words)]
    if len(works) != 1:
        return ""
    return f"\nThe whole line: ldapslam {shlex.join(works[0])}"


def _job_of(command: click.Command, line: Iterable[Piece]) -> Job | None:
    """The job that a line names, if it has no fault."""
    if "job_file" not in {one.name for one in command.params}:
        return None
    from ldapslam.jobs.load import load_job

    for piece in line:
        if not piece.name:
            with contextlib.suppress(LdapSlamError, OSError):
                return load_job(Path(str(piece.value)))
    return None


def _behind(context: click.Context, arguments: Sequence[str]) -> list[str]:
    """The words behind the command's name."""
    rest = list(arguments)
    for name in context.command_path.split()[1:]:
        rest = rest[rest.index(name) + 1 :] if name in rest else rest
    return rest


def _rows(context: click.Context, piece: Piece, tool: str) -> list[tuple[str, Row]]:
    return rows_of(context.command, piece.name, piece.value or "", [tool])


def _written(
    context: click.Context, line: Iterable[Piece], tool: str
) -> tuple[str, ...] | None:
    """A line of another tool for one of our one-line commands; None where the table
    does not say all of it."""
    if context.command.name not in ONE_LINE:
        return None
    server: dict[str, str] = {}
    words: list[str] = []
    uris: list[str] = []
    for piece in line:
        if not piece.name:
            if "://" in str(piece.value):
                uris += str(piece.value).split()
            else:  # ldapsearch has the filter, then attributes
                option = "-a" if "-f" in words else "-f"
                words += [option, str(piece.value)]
        elif piece.is_foreign:
            rows = _rows(context, piece, tool)
            option_words = (
                _server_or_words(context, piece, rows[0][1], server)
                if len(rows) == 1
                else None
            )
            if option_words is None:
                return None
            words += option_words
        else:
            words += _own(piece.name, piece.value, piece.parameter)
    return (str(context.command.name), *_uris(uris, server), *words)


def _server_or_words(
    context: click.Context, piece: Piece, row: Row, server: dict[str, str]
) -> list[str] | None:
    """The words for an option; one of the server's is noted in `server`."""
    is_tls = row.here.startswith("an ldaps://")
    if is_tls or row.here in _LEFT_OUT:
        if is_tls:
            server["scheme"] = "ldaps"
        return None if piece.value else []  # perhaps it is an argument
    if row.here.startswith("ldap://HOST"):
        if piece.value is not None:  # else the URI is the next word
            server["port" if "p" in piece.name[:3] else "host"] = piece.value
        return []
    options = options_of(context.command)
    names = [name for name in re.findall("`(-[^`]*)`", row.here) if name in options]
    if not names or (piece.name == "-W" and piece.value):  # it asks: no value
        return None
    if row.remarks.startswith(_NO_ARGUMENT):
        return [names[0], str(options[names[0]].metavar)]
    unit = "s" if "with its unit" in row.remarks else ""
    return _own(names[0], piece.value, options[names[0]], unit)


def _own(
    name: str, value: str | None, parameter: click.Parameter | None, unit: str = ""
) -> list[str]:
    """An option of ours, whose number has the unit that it has elsewhere."""
    if value is None:
        return [name]
    if re.fullmatch(r"\d+", value):
        metavar = getattr(parameter, "metavar", "")
        value += "/s" if metavar == "RATE" else "s" if name == "-l" else unit
    return [name, value]


def _uris(uris: Sequence[str], server: dict[str, str]) -> list[str]:
    if not server or len(uris) > 1:
        return list(uris)
    [uri] = uris or [f"{server.get('scheme', 'ldap')}://{server.get('host', '')}"]
    return [f"{uri}:{server['port']}" if "port" in server else uri]


def _works(context: click.Context, words: Sequence[str]) -> bool:
    root, silence = context.find_root().command, io.StringIO()
    given = (*words, "--print-job")
    try:
        with contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
            code = root.main(
                list(given),
                prog_name="ldapslam",
                standalone_mode=False,
                obj=Invocation(given),
            )
    except (LdapSlamError, click.ClickException):
        return False
    return not code
