# SPDX-License-Identifier: Apache-2.0
"""`data generate`: the entries of a template file as LDIF."""

from __future__ import annotations

import os
from typing import Any

import click

from ldapslam.base.errors import ConfigError
from ldapslam.cli.command import command
from ldapslam.cli.console import put_result, wants_json
from ldapslam.cli.data.load_progress import EntryProgress, told_if_interrupted
from ldapslam.cli.options import FILE, grouped, option, parse_pair
from ldapslam.dataset.generate import (
    STDOUT,
    Generated,
    Generation,
    example_templates,
    generate,
)

_MAX_ENTRIES = 1 << 60


@command("generate")
@click.argument("template")
@option(
    "--entries N",
    "Entries of the template's first counted kind, such as persons of `people`.",
    type=click.IntRange(0, _MAX_ENTRIES),
)
@option(
    "-o --out output FILE",
    "File for the LDIF, which replaces an existing one; stdout when left out.",
    type=FILE,
    default=STDOUT,
)
@option(
    "--seed N",
    "The same seed makes the same bytes.",
    type=click.IntRange(0, (1 << 63) - 1),
    default=1,
)
@option(
    "--constant constants NAME=VALUE",
    "Stands in for a `define` of the template; repeatable.",
    multiple=True,
    parse=parse_pair,
)
@option(
    "--max-per-template N",
    "A preview: at most N entries of a template below each entry.",
    type=click.IntRange(1, _MAX_ENTRIES),
)
@option("--first-names FILE", "A first name on each line.", type=FILE)
@option("--last-names FILE", "A last name on each line.", type=FILE)
@grouped(
    "Lists for load generators",
    option(
        "--dn-file FILE",
        "Also write the DNs, without those of branches, one on each line.",
        type=FILE,
    ),
    option(
        "--bind-file FILE",
        "Also write DN, tab and userPassword of each entry that has one.",
        type=FILE,
    ),
)
def generate_command(**given: Any) -> None:
    """Make the entries of TEMPLATE, a file or the name of an example template.

    The same template and seed make the same bytes, for slapadd, ldif2db and
    `ldapslam data load`. `ldapslam describe templates` explains the notation.

    \b
      ldapslam data generate people --entries 6000000 -o people.ldif
      ldapslam data generate people --entries 1000 --dn-file dns.txt -o people.ldif
      ldapslam data generate my.template --max-per-template 2
    """
    given["constants"] = dict(given["constants"])
    threads = min(256, len(os.sched_getaffinity(0)))
    wanted = Generation(**given, threads=threads)
    _check(wanted)
    rest = "stdout has a part of the entries"
    rest = "no file was made" if wanted.output != STDOUT else rest
    with told_if_interrupted(rest), EntryProgress() as progress:

        def show(entries: int, total: int, _: int) -> None:
            progress.show(f"{entries:,} of {total:,} entries", entries / total)

        generated = generate(wanted, show)
    _put(wanted, generated)


# in the help, the names as they are when it is shown
generate_command.epilog = f"Example templates: {', '.join(example_templates())}."


def _check(wanted: Generation) -> None:
    if wants_json() and wanted.output == STDOUT:
        raise ConfigError("--json and the LDIF both want stdout", hint="add -o FILE")
    paths = [wanted.output, wanted.dn_file, wanted.bind_file]
    named = [str(path) for path in paths if path is not None]
    for path in named:
        if named.count(path) > 1 and path != os.devnull:
            raise ConfigError(
                f"two outputs go to {path!r}", hint="name a file for each"
            )


def _put(wanted: Generation, generated: Generated) -> None:
    rate_per_s = generated.entries / max(generated.duration_s, 1e-9)
    document = {
        "output": str(wanted.output),
        "entries": generated.entries,
        "size_bytes": generated.size_bytes,
        "duration_s": round(generated.duration_s, 3),
        "entries_per_s": round(rate_per_s),
    }
    said = (
        f"{generated.entries:,} entries, {generated.size_bytes:,} bytes in "
        f"{generated.duration_s:.1f} s ({rate_per_s:,.0f} entries/s)"
    )
    put_result(document, said=said)
