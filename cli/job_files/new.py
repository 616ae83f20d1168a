# SPDX-License-Identifier: Apache-2.0
"""`new`: a job file for a directory, a copy of an example, or the load of a log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ldapslam.base.errors import ExitCode
from ldapslam.cli.command import command
from ldapslam.cli.console import put_result, put_text, say
from ldapslam.cli.job_files.examples import COMMANDS, example_named, write_example
from ldapslam.cli.measure.quick_options import (
    connection_options,
    in_words_of_options,
)
from ldapslam.cli.options import FILE, add_options, flag, grouped, option

_FOR_DIRECTORY = "a job for a directory"
_OF_LOG = "a job of a log"

_directory_options = grouped(
    "Job for a directory",
    option("-b --base DN", "Where to look for entries; else the first suffix."),
    option(
        "--attribute NAME",
        "What to search by; else uid, sAMAccountName, mail or cn, or the attribute of "
        "the entries' RDNs: one that most of them have.",
    ),
    option(
        "-r --rate RATE", "Searches per second, in an open loop: 50/s.", default="50/s"
    ),
    option("-d --duration TIME", "Length of the measurement.", default="30s"),
    option(
        "--sample N",
        "Most entries that are read.",
        type=click.IntRange(1),  # 0 is no limit in LDAP
        default=2_000,
    ),
)
_log_options = grouped(
    "Job of a log",
    flag(
        "--log",
        "The arguments are the files of a log of OpenLDAP (loglevel stats) or 389-DS, "
        "and URIs of the directory to load.",
    ),
    flag(
        "--trace",
        "Send the log's requests again, each at its time, on its connection; without "
        "it, the job has the same kinds of requests at the same rate.",
    ),
    option(
        "--credentials TEXT",
        "Bind as the log's DNs, with this password: that of a test population, never a "
        "real one.",
    ),
)
#: Names of the options that only one kind of job has.
_OPTIONS = {
    _FOR_DIRECTORY: ("base", "attribute", "rate", "duration", "sample"),
    _OF_LOG: ("trace", "credentials"),
}


@command("new")
@click.argument("sources", metavar="URI|EXAMPLE|LOG…", nargs=-1, required=True)
@option(
    "-o --out output FILE",
    "The job file; stdout when left out, or -. Files that it names go to its folder.",
    parse=lambda path: None if path == Path("-") else path,
    type=FILE,
)
@add_options(_directory_options, _log_options, connection_options)
@in_words_of_options()
def new_command(
    sources: tuple[str, ...], output: Path | None, log: bool, **given: Any
) -> ExitCode:
    """Write a job file for the directory at URI, or of EXAMPLE, or of LOG….

    For a directory, reads a sample of its entries, changes nothing, and makes a job
    that searches for them one by one. `ldapslam describe` lists the examples.

    \b
      ldapslam new ldap://ds1.example.com -o first.yaml
      ldapslam new ldaps://ds1 -o first.yaml -D uid=me,… -y FILE --ca-file ca.pem
      ldapslam new open-loop -o open-loop.yaml
      ldapslam new --log access access.2026* ldap://test1 -o job.yaml
    """
    if log:
        from ldapslam.cli.job_files.from_log import new_from_log

        _refuse_options_of(_FOR_DIRECTORY)
        return new_from_log(sources, output, given)
    _refuse_options_of(_OF_LOG)
    if len(sources) > 1:
        raise click.UsageError(
            f"expected one URI or EXAMPLE, got {len(sources)}: -o FILE is the job file"
        )
    [source] = sources
    if "://" in source:
        from ldapslam.cli.job_files.first_job import new_for_directory

        return new_for_directory(source, output, given)
    _refuse_options_of(_FOR_DIRECTORY)
    return _copy_example(source, output)


def _refuse_options_of(kind: str) -> None:
    """Raise a UsageError for an option that only another kind of job has."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        is_given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if name in _OPTIONS[kind] and is_given:
            name = max(parameter.opts, key=len)
            raise click.UsageError(f"{name} is for {kind}")


def _copy_example(name: str, output: Path | None) -> ExitCode:
    if Path(name).is_file():
        raise click.UsageError(f"{name!r} is a file: --log takes the files of a log")
    example = example_named(name)
    if output is None:
        put_text(example.read_text("utf-8"))
        return ExitCode.PASS
    paths = [str(path) for path in dict.fromkeys(write_example(example, output))]
    put_result({"files": paths}, paths)
    say(f"next: ldapslam {COMMANDS[example.parent.name]} {output}")
    return ExitCode.PASS
