# SPDX-License-Identifier: Apache-2.0
"""The two outputs: results on stdout, human text on stderr; and how an error reads."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import click

from ldapslam.base.errors import ConfigError, ConfigErrors, JobErrors, LdapSlamError
from ldapslam.base.files import errors_of, part_of
from ldapslam.base.inert import inert, parse_json
from ldapslam.base.log_format import is_json
from ldapslam.reports.document import format_figure

_LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


@dataclass
class Invocation:
    """A call of ldapslam, with the options that all commands have; a context's `obj`.

    main() uses it as a context manager: its end closes the file of `-o`.
    """

    #: The words after `ldapslam`.
    arguments: tuple[str, ...] = ()
    #: `--quiet` was given: only results and errors are printed.
    quiet: bool = False
    #: `--json` was given: stdout is one JSON document, also when the command fails.
    json: bool = False
    #: How often `--verbose` was given.
    verbosity: int = 0
    #: The path of `-o`, where the command has no option of its own for it.
    output: str | None = None
    _exits: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    def begin(self) -> None:
        """Set the log level, and send stdout to the file of `-o`; ConfigError."""
        level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(self.verbosity, 2)]
        logging.basicConfig(level=level, format=_LOG_FORMAT)
        if self.output not in (None, "-"):
            self.write_to(Path(self.output))

    def write_to(self, path: Path) -> None:
        """Send stdout to a file, whose old content goes at the end; ConfigError."""
        self._exits.enter_context(_stdout_to(path))


@contextlib.contextmanager
def _stdout_to(path: Path) -> Iterator[None]:
    """Write to a file beside it first, so that a command can read what it replaces, and
    one that prints nothing replaces nothing. A device or FIFO is written itself."""
    is_special = path.exists() and not path.is_file()
    part = path if is_special else part_of(path)
    with errors_of(path), part.open("w", encoding="utf-8") as file:
        try:
            with contextlib.redirect_stdout(file):
                yield
            file.flush()
            if file.tell() and not is_special:
                os.replace(part, path)
        finally:
            if not is_special:
                part.unlink(missing_ok=True)


def write_output_to(path: Path) -> None:
    """Send what the command prints to a file; ConfigError."""
    _invocation().write_to(path)


def say(text: str) -> None:
    """Text for people, unless they want none; if it cannot be written, the command goes
    on."""
    if not is_quiet():
        _write(text)


def is_quiet() -> bool:
    """Whether `--quiet` was given."""
    return _invocation().quiet


def wants_json() -> bool:
    """Whether `--json` was given."""
    return _invocation().json


def _invocation() -> Invocation:
    context = click.get_current_context(silent=True)
    invocation = context.obj if context is not None else None
    return invocation if isinstance(invocation, Invocation) else Invocation()


def _write(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # no reader, disk full; closed
        click.echo(inert(text), err=True)


def announce(text: str) -> None:
    """What a server says when it begins or fails: to people, or a line of its log."""
    if is_json():
        logging.getLogger("ldapslam").info("%s", text)
    else:
        _write(text)


def put(text: str, *, is_styled: bool = False) -> None:
    """A line of the result; a styled one has escape sequences of our own."""
    try:
        click.echo(text if is_styled else inert(text))
    except BrokenPipeError:
        # Its reader has gone, as in `ldapslam list | head -1`: no fault of the command,
        # whose exit code stays its own.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        raise ConfigError(
            f"the output cannot be written: {error.strerror}", hint="is the disk full?"
        ) from error


def put_json(document: Any) -> None:
    """The result of a command that was called with --json."""
    put(json.dumps(document, ensure_ascii=False, indent=2))


def put_result(
    document: Any,
    lines: Iterable[str] = (),
    *,
    said: str = "",
) -> None:
    """Print a command's result: a document with --json, else the lines, then `said`."""
    if wants_json():
        put_json(document)
        return
    for line in lines:
        put(line)
    if said:
        say(said)


def put_text(text: str) -> None:
    """Print a text; with --json, a document that has it."""
    put_result({"text": text}, [text.rstrip("\n")])


def complain(error: LdapSlamError) -> None:
    """An error and its hint. It may come from another host: never raises."""
    faults = _faults(error)
    for fault in faults:
        _write(str(fault))
        if hint := _hint(fault):
            _write(f"hint: {hint}")
    if len(faults) > 1:
        _write(f"{len(faults)} faults")


def error_document(error: LdapSlamError) -> dict[str, Any]:
    """What stdout holds when a command called with --json fails; never raises."""
    document: dict[str, Any] = {"class": type(error).__name__, "message": str(error)}
    try:
        document = parse_json(json.dumps(error.to_dict(), default=str))
    except (AttributeError, TypeError, ValueError, RecursionError):
        document["values"] = {}
    document["hint"] = _hint(error)
    document["exit_code"] = exit_code_of(error)
    return {"error": document}


def exit_code_of(error: LdapSlamError) -> int:
    """By the kind of error alone: its values may be another host's."""
    return int(type(error).exit_code)


def _faults(error: LdapSlamError) -> Sequence[LdapSlamError]:
    faults = (
        getattr(error, "faults", ())
        if isinstance(error, JobErrors | ConfigErrors)
        else ()
    )
    if not isinstance(faults, list | tuple):
        return (error,)
    return [fault for fault in faults if isinstance(fault, LdapSlamError)] or (error,)


def _hint(error: LdapSlamError) -> str | None:
    hint = getattr(error, "hint", None)
    return hint if isinstance(hint, str) and hint else None


def us_text(value_us: float | None) -> str:
    """A time as in reports; a dash for none."""
    if value_us is None:
        return "–"
    is_there = value_us < math.inf
    return f"{format_figure(value_us / 1_000)} ms" if is_there else "no answer"
