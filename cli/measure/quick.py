# SPDX-License-Identifier: Apache-2.0
"""`quick`: search, add, modify, delete and bind without a job file.

Each composes a job of its options and runs it as `run` runs a job file, but writes the
report as text and result.json only; --print-job prints that file instead.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import click

from ldapslam.base.errors import ExitCode
from ldapslam.cli.command import command
from ldapslam.cli.composed_job import ComposedJob
from ldapslam.cli.measure.quick_options import (
    Options,
    compose,
    in_words_of_options,
    quick_options,
)
from ldapslam.cli.options import flag, option
from ldapslam.cli.submission import print_job
from ldapslam.jobs.fields.sections import Place

_PATTERNS = "patterns such as uid=user.[0-9999],ou=people,…."


@in_words_of_options()
def run_composed(job: ComposedJob, given: Options) -> ExitCode:
    """Run the job, or print it, as --print-job says."""
    overrides: Sequence[str] = given["overrides"]
    arguments = click.get_current_context().obj.arguments
    shown = [argument for argument in arguments if argument != "--print-job"]
    job.head = (
        f"ldapslam {shlex.join(shown)}",
        "`ldapslam run` takes this file; `ldapslam describe` explains it.",
    )
    if given["print_job"]:
        return print_job(job, overrides, given["out"])
    from ldapslam.cli.measure.local_run import run_locally

    return run_locally(job, given["agents"], overrides, given["out"], is_quick=True)


#: Where the job has its operation.
_PATH: Place = ("streams", 0, "operations", 0)
#: Key -> its value, which is left out where it is empty, and its option.
Fields = Mapping[str, tuple[Any, str]]


def _run_operation(
    kind: str, uris: tuple[str, ...], given: Options, fields: Fields
) -> ExitCode:
    """Run a job of one operation with these fields."""
    job = compose(kind, uris, given)
    _put(job, (*_PATH, kind), fields)
    _put_expected(job, _PATH, given)
    return run_composed(job, given)


def _put(job: ComposedJob, path: Place, fields: Fields) -> None:
    for key, (value, words) in fields.items():
        if value not in (None, []):
            job.put((*path, key), value, words)


def _put_expected(job: ComposedJob, path: Place, given: Options) -> None:
    """Set the result codes that are no failures; the job file's list is complete."""
    if codes := _names(given["expect"]):
        numbers = [int(code) if code.isdecimal() else code for code in codes]
        job.put((*path, "expect"), ["success", *numbers], "--expect")


def _search_fields(given: Options) -> Fields:
    return {name: (given[name], f"-{name[0]}") for name in ("base", "scope", "filter")}


def _grouped(texts: Sequence[str]) -> dict[str, str | list[str]]:
    """Return the value, or values, of each name of `-a NAME=TEXT`."""
    values: dict[str, list[str]] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f"-a: expected NAME=TEXT, got {text!r}")
        values.setdefault(name, []).append(value)
    return {name: v[0] if len(v) == 1 else v for name, v in values.items()}


def _names(texts: Sequence[str]) -> list[str]:
    return [name for text in texts for name in re.split("[, ]+", text) if name]


_base_option = option("-b --base DN", "Where to search; patterns.", required=True)
_filter_option = option(
    "-f --filter FILTER",
    "Which entries; patterns such as (uid=user.[0-9999]).",
    default="(objectClass=*)",
)
_scope_option = option("-s --scope SCOPE", "base, one, sub (the default), children.")
_entry_option = option("-e --entry DN", f"The entry; {_PATTERNS}", required=True)
_attributes_option = option(
    "-a --attribute attributes NAME,…",
    "Attributes to return; repeatable.",
    multiple=True,
)
_credentials_option = option(
    "--credentials TEXT",
    "Passwords of a test population; patterns. Never a real password: arguments and "
    "job files are not secret.",
)


@command("search")
@quick_options(
    _base_option,
    _scope_option,
    _filter_option,
    _attributes_option,
)
def search_command(uris: tuple[str, ...], **given: Any) -> ExitCode:
    """Search, as searchrate and lb do.

    \b
      ldapslam quick search ldap://ds1 -b dc=example,dc=com -f '(uid=user.[0-9999])'
      ldapslam quick search ldap://ds1 -b dc=… -r 500/s -d 60s --threshold 'p99 < 20ms'
      ldapslam quick search ldap://ds1 ldap://ds2 -b … -D cn=admin,… -y FILE --print-job
    """
    attributes = (_names(given["attributes"]), "-a")
    fields = {**_search_fields(given), "attributes": attributes}
    return _run_operation("search", uris, given, fields)


@command("modify")
@quick_options(
    _entry_option,
    option(
        "-a --attribute attributes NAME=TEXT",
        "Replace the attribute by this value; patterns. Repeatable.",
        multiple=True,
        required=True,
    ),
)
def modify_command(uris: tuple[str, ...], **given: Any) -> ExitCode:
    """Modify entries, as modrate does.

    \b
      ldapslam quick modify ldap://ds1 -e uid=user.[0-9999],ou=people,… -r 50/s
          -a 'description=[random:20]'
    """
    fields = {
        "dn": (given["entry"], "-e"),
        "replace": (_grouped(given["attributes"]), "-a"),
    }
    return _run_operation("modify", uris, given, fields)


@command("add")
@quick_options(
    option("-e --entry DN", "The new entry; patterns."),
    option(
        "-a --attribute attributes NAME=TEXT",
        "With -e: an attribute of it; repeatable, also for further values.",
        multiple=True,
    ),
    option("--template FILE", "Entries of a template (MakeLDIF's tags)."),
    option("--under DN", "With --template: their parent."),
    flag("--keep", "Leave the entries there afterwards."),
)
def add_command(uris: tuple[str, ...], **given: Any) -> ExitCode:
    """Add entries, as addrate does; they are removed at the end.

    \b
      ldapslam quick add ldap://ds1 --template person.template --under ou=… -n 10000
      ldapslam quick add ldap://ds1 -e cn=[unique],ou=… -a objectClass=person -a sn=x
    """
    if given["template"] is not None:
        if given["entry"] is not None:
            raise click.UsageError("-e and --template: give one of them")
        if given["under"] is None:
            raise click.UsageError("--template needs --under DN")
    elif given["entry"] is None or not given["attributes"]:
        raise click.UsageError(
            "adds need -e DN and -a NAME=TEXT, or --template FILE and --under DN"
        )
    fields = {
        "dn": (given["entry"], "-e"),
        "entry": (_grouped(given["attributes"]) or None, "-a"),
        "template": (given["template"], "--template"),
        "under": (given["under"], "--under"),
        "clean_up": (False if given["keep"] else None, "--keep"),
    }
    return _run_operation("add", uris, given, fields)


@command("delete")
@quick_options(_entry_option)
def delete_command(uris: tuple[str, ...], **given: Any) -> ExitCode:
    """Delete entries that are there; nothing brings them back.

    \b
      ldapslam quick delete ldap://ds1 -e uid=user.[0:9999],ou=people,… -n 10000
    """
    return _run_operation("delete", uris, given, {"dn": (given["entry"], "-e")})


@command("bind")
@quick_options(
    option("-e --entry DN", "The DN that binds; patterns."),
    option("-b --base DN", "With -f: the base of the searches before."),
    option(
        "-f --filter FILTER",
        "Search first, then bind as the entry found, as authrate does; each login on a "
        "new connection, without --reconnect-every.",
    ),
    _scope_option,
    _credentials_option,
    flag("--anonymous", "Bind anonymously."),
)
def bind_command(uris: tuple[str, ...], **given: Any) -> ExitCode:
    """Measure binds, or a search and then a bind, as authrate does.

    \b
      ldapslam quick bind ldap://ds1 -e uid=user.[0-999],ou=… --credentials password
      ldapslam quick bind ldap://ds1 -b ou=people,… -f '(uid=[0-999])' --credentials …
    """
    dn, password = (given["entry"], "-e"), (given["credentials"], "--credentials")
    if given["filter"] is None and given["anonymous"]:
        fields: Fields = {"anonymous": (True, "--anonymous")}
        return _run_operation("bind", uris, given, fields)
    if given["filter"] is None:
        if given["entry"] is None or given["credentials"] is None:
            raise click.UsageError(
                "binds need -e DN and --credentials TEXT, or --anonymous"
            )
        return _run_operation("bind", uris, given, {"dn": dn, "password": password})
    if given["base"] is None or given["credentials"] is None:
        raise click.UsageError("-f needs -b DN and --credentials TEXT")
    if given["anonymous"]:
        raise click.UsageError("-f is for simple binds as the entries found")
    job = compose("bind", uris, given)
    if given["reconnect_every"] is None:
        # the next search would be sent as the user who was bound
        job.put(("streams", 0, "connection", "reconnect_every"), 1, "")
    step = (*_PATH, "sequence", 0)
    search = {**_search_fields(given), "attributes": (["1.1"], "")}
    _put(job, (*step, "search"), search)
    job.put((*step, "capture"), {"found": "dn"}, "")
    step = (*_PATH, "sequence", 1)
    _put(job, (*step, "bind"), {"dn": ("[found]", ""), "password": password})
    _put_expected(job, step, given)
    return run_composed(job, given)
