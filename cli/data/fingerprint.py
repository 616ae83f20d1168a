# SPDX-License-Identifier: Apache-2.0
"""`data fingerprint`: one line for a whole population, and its record for jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ldapslam.base.errors import ConfigError, ExitCode
from ldapslam.cli.console import json_option, put, put_json, say
from ldapslam.cli.data.directory_access import directory_access
from ldapslam.cli.data.load_progress import EntryProgress
from ldapslam.cli.data.source import source_tree, template_options
from ldapslam.cli.measure.one_line_options import connection_options
from ldapslam.cli.option_words import in_words_of_options
from ldapslam.directory.fingerprint import SAMPLE, record_of
from ldapslam.jobs.fields.population import MAX_SAMPLE


@click.command("fingerprint")
@click.argument("source", metavar="SOURCE")
@connection_options
@click.option(
    *("-b", "--base"),
    metavar="DN",
    help="Of what is at this DN and below: that of the first entry of a file, the "
    "naming context of a server that has one.",
)
@template_options()
@click.option(
    "--ignore",
    "ignored",
    metavar="NAME",
    multiple=True,
    help="An attribute to leave out, such as one that jobs modify. Repeatable.",
)
@click.option(
    "--save",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the population's record, which a job names: `population: {file: …}`.",
)
@click.option(
    "--sample",
    metavar="N",
    type=click.IntRange(1, MAX_SAMPLE),
    default=SAMPLE,
    show_default=True,
    help="Entries in the record, which a run looks for on each server.",
)
@json_option
@in_words_of_options()
def fingerprint_command(source: str, as_json: bool, **given: Any) -> ExitCode:
    """Print the fingerprint of the entries of SOURCE, without passwords.

    That is a file of LDIF, a template of `data generate` or a server's URI. The same
    entries have the same fingerprint, in any order, wherever they are.

    \b
      ldapslam data fingerprint people.ldif --save people.population
      ldapslam data fingerprint people -n 10000
      ldapslam data fingerprint ldap://ds1 -D cn=admin,dc=example,dc=com -y password.txt
    """
    with (
        source_tree(source, given, directory_access) as (tree, base),
        EntryProgress() as bar,
    ):
        record = record_of(
            tree,
            base,
            ignored=given["ignored"],
            sample=given["sample"],
            progress=lambda entries: bar.show(f"{source}: {entries:,} entries"),
        )
    if record is None:
        raise ConfigError(
            f"{source} has nothing at or below {base!r}",
            hint="is -b spelt as the entries' DNs are, and may the user read them?",
        )
    if (path := given["save"]) is not None:
        try:
            path.write_text(record.to_text(), encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"the record cannot be written to {str(path)!r}: {error.strerror}"
            ) from error
        say(f"{path} has {len(record.sample):,} of {record.entries:,} entries")
    if as_json:
        put_json(
            {
                "base": base,
                "fingerprint": {
                    "sha256": record.fingerprint,
                    "entries": record.entries,
                },
                "ignored": list(record.ignored),
            }
        )
    else:
        put(f"fingerprint {record.fingerprint} of {record.entries:,} entries")
    return ExitCode.PASS
