# SPDX-License-Identifier: Apache-2.0
"""`data generate`: the entries of a template file as LDIF."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ldapslam.base.errors import ConfigError, ExitCode
from ldapslam.base.fault import Fault
from ldapslam.cli.console import json_option, put_json, say
from ldapslam.cli.data.load_progress import EntryProgress, told_if_interrupted
from ldapslam.dataset.generate import (
    STDOUT,
    Generated,
    Generation,
    example_templates,
    generate,
)
from ldapslam.dataset.population import FilterLine, parse_filter_types

_MAX_ENTRIES = 1 << 60
_FILE = click.Path(path_type=Path, dir_okay=False)
_Command = TypeVar("_Command", bound=Callable[..., Any])


def _file_option(name: str, help: str) -> Callable[[_Command], _Command]:
    return click.option(name, type=_FILE, metavar="FILE", help=help)


def _constants(
    _: click.Context, __: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    constants = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name:
            raise ConfigError(
                f"--constant: expected NAME=VALUE, got {value!r}",
                hint="such as --constant suffix=dc=test",
            )
        constants[name] = text
    return constants


def _filters(
    context: click.Context, _: click.Parameter, values: tuple[str, ...]
) -> tuple[FilterLine, ...]:
    length = context.params["substring_length"]
    try:
        return tuple(
            FilterLine(attribute, kind, length)
            for value in values
            for attribute, kind in parse_filter_types(value)
        )
    except Fault as fault:
        raise ConfigError(f"--filter: {fault.reason}", hint=fault.hint) from None


@click.command("generate")
@click.argument("template")
@click.option(
    *("-n", "--entries"),
    type=click.IntRange(0, _MAX_ENTRIES),
    metavar="N",
    help="The first count of the template becomes N; where it is a constant, that.",
)
@click.option(
    *("-o", "--output"),
    type=_FILE,
    default=STDOUT,
    metavar="FILE",
    help="Where the LDIF goes; stdout when left out.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, (1 << 63) - 1),
    default=1,
    show_default=True,
    help="The same seed makes the same bytes.",
)
@click.option(
    "--threads",
    type=click.IntRange(1, 256),
    default=lambda: min(256, len(os.sched_getaffinity(0))),
    show_default="one for each CPU",
    help="The bytes do not depend on it.",
)
@click.option(
    "--constant",
    "constants",
    multiple=True,
    callback=_constants,
    metavar="NAME=VALUE",
    help="Stands in for a `define` of the template; repeatable.",
)
@click.option(
    "--max-per-template",
    type=click.IntRange(1, _MAX_ENTRIES),
    metavar="N",
    help="A preview: at most N entries of a template below each entry.",
)
@click.option(
    "--skip-branches", is_flag=True, help="Leave the entries of branches out."
)
@_file_option("--first-names", "A first name on each line.")
@_file_option("--last-names", "A last name on each line.")
@_file_option(
    "--dn-file", "Also write the DNs, without those of branches, one on each line."
)
@_file_option(
    "--bind-file", "Also write DN, tab and userPassword of each entry that has one."
)
@_file_option("--filter-file", "Also write the filters of --filter, one on each line.")
@click.option(
    "--substring-length",
    type=click.IntRange(1, 1000),
    default=3,
    show_default=True,
    is_eager=True,  # --filter wants it
    metavar="N",
    help="Characters in each substring of --filter.",
)
@click.option(
    "--filter",
    "filters",
    multiple=True,
    callback=_filters,
    metavar="ATTRIBUTE:TYPE,…",
    help="For each entry that has it, filters of these types: eq, subInitial, subAny, "
    "subFinal; sub is all three. Repeatable.",
)
@_file_option("--csv", "The rows that <csvfield:N> is of.")
@click.option(
    "--csv-delimiter", default=",", show_default=True, help="Between its fields."
)
@click.option(
    "--csv-header",
    "csv_has_header",
    is_flag=True,
    help="Its first line names the fields.",
)
@json_option
def generate_command(as_json: bool, **given: Any) -> ExitCode:
    """Make the entries of TEMPLATE, a file or the name of a example template.

    The same template and seed make the same bytes, for slapadd, ldif2db and
    `ldapslam data load`. `ldapslam job describe templates` explains the notation.

    \b
      ldapslam data generate people -n 6000000 -o people.ldif
      ldapslam data generate people -n 1000 --dn-file dns.txt --bind-file binds.txt \\
          --filter-file filters.txt --filter uid:eq --filter cn:sub -o people.ldif
      ldapslam data generate my.template --max-per-template 2
    """
    del given["substring_length"]  # in `filters` by now
    wanted = Generation(**given)
    _check(wanted, as_json=as_json)
    rest = "stdout has a part of the entries"
    rest = "no file was made" if wanted.output != STDOUT else rest
    with told_if_interrupted(rest), EntryProgress() as progress:

        def show(entries: int, total: int, _: int) -> None:
            progress.show(f"{entries:,} of {total:,} entries", entries / total)

        generated = generate(wanted, show)
    _put(wanted, generated, as_json=as_json)
    return ExitCode.PASS


# in the help, the names as they are when it is shown
generate_command.epilog = f"Example templates: {', '.join(example_templates())}."


def _check(wanted: Generation, *, as_json: bool) -> None:
    if as_json and wanted.output == STDOUT:
        raise ConfigError("--json and the LDIF both want stdout", hint="add -o FILE")
    if bool(wanted.filters) != (wanted.filter_file is not None):
        raise ConfigError(
            "--filter and --filter-file go together",
            hint="such as --filter-file filters.txt --filter uid:eq",
        )
    if len(wanted.csv_delimiter) != 1:
        raise ConfigError(
            f"--csv-delimiter: expected one character, got {wanted.csv_delimiter!r}",
            hint="such as --csv-delimiter ';'",
        )
    paths = [
        wanted.output,
        wanted.dn_file,
        wanted.bind_file,
        wanted.filter_file,
    ]
    named = [str(path) for path in paths if path is not None]
    for path in named:
        if named.count(path) > 1 and path != os.devnull:
            raise ConfigError(
                f"two outputs go to {path!r}", hint="name a file for each"
            )


def _put(wanted: Generation, generated: Generated, *, as_json: bool) -> None:
    rate_per_s = generated.entries / max(generated.duration_s, 1e-9)
    if as_json:
        put_json(
            {
                "output": str(wanted.output),
                "entries": generated.entries,
                "size_bytes": generated.size_bytes,
                "duration_s": round(generated.duration_s, 3),
                "entries_per_s": round(rate_per_s),
            }
        )
        return
    say(
        f"{generated.entries:,} entries, {generated.size_bytes:,} bytes in "
        f"{generated.duration_s:.1f} s ({rate_per_s:,.0f} entries/s)"
    )
