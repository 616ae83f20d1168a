# SPDX-License-Identifier: Apache-2.0
"""The two outputs: results on stdout, human text on stderr; and how an error reads."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import Any

import click

from ldapslam.jobs.errors import JobErrors, LdapSlamError


@dataclass
class Invocation:
    """What main() must know of the command that it runs; the context's `obj`."""

    #: `--json` was given: stdout is one JSON document, also when the command fails.
    json: bool = False


def _note_json(context: click.Context, _: click.Parameter, value: bool) -> bool:
    if value:
        context.ensure_object(Invocation).json = True
    return value


#: The option of every command that has a result.
json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    callback=_note_json,
    help="Print the result as one JSON document.",
)


def say(text: str) -> None:
    """Text for people."""
    click.echo(text, err=True)


def put(text: str) -> None:
    """A line of the result."""
    try:
        click.echo(text)
    except BrokenPipeError:
        # Its reader has gone, as in `ldapslam list | head -1`: no fault of the command,
        # whose exit code stays its own.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def put_json(document: Any) -> None:
    """The result of a command that was called with --json."""
    put(json.dumps(document, ensure_ascii=False, indent=2))


def complain(error: LdapSlamError) -> None:
    """What went wrong, and the remedy on a line of its own."""
    faults: tuple[LdapSlamError, ...] = (error,)
    if isinstance(error, JobErrors):
        faults = error.faults
    for fault in faults:
        say(str(fault))
        if fault.hint:
            say(f"hint: {fault.hint}")
    if len(faults) > 1:
        say(f"{len(faults)} faults")


def error_document(error: LdapSlamError) -> dict[str, Any]:
    """What stdout holds when a command called with --json fails."""
    document = error.to_dict()
    document["hint"] = error.hint
    document["exit_code"] = int(error.exit_code)
    return {"error": document}


def us_text(value_us: float | None) -> str:
    """A time for a table: three or four figures and a unit; a dash for no value."""
    if value_us is None:
        return "–"
    if value_us < 1_000:
        return f"{value_us:.0f} µs"
    if value_us < 1_000_000:
        return f"{value_us / 1_000:.2f} ms"
    return f"{value_us / 1_000_000:.2f} s"
