# SPDX-License-Identifier: Apache-2.0
"""The one-line commands: search, add, modify, delete, bind, compare and mix.

Each composes a job of its options and runs it as `run` runs a job file; --print-job
prints that file instead.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from ldapslam.cli.composed_job import ComposedJob
from ldapslam.cli.console import put
from ldapslam.cli.one_line_operations import (
    MIXED,
    add_body,
    bind_body,
    changes,
    put_binds_beside,
    put_search_and_bind,
    search_body,
)
from ldapslam.cli.one_line_options import (
    EXTRA_PLACES,
    Options,
    common_options,
    compose,
    extras,
    put_operation,
)
from ldapslam.cli.option_words import in_words_of_options
from ldapslam.jobs.errors import ExitCode

_Command = TypeVar("_Command", bound=Callable[..., Any])
_OPERATION = "streams[0].operations"


@in_words_of_options()
def run_composed(job: ComposedJob, given: Options) -> ExitCode:
    """Run the job, or print it, as --print-job says."""
    overrides: Sequence[str] = given["overrides"]
    job.head = (
        f"ldapslam {shlex.join(_arguments())}",
        "`ldapslam run` takes this file; `ldapslam job describe` explains it.",
    )
    if given["print_job"]:
        job.load(overrides)
        put(job.text().rstrip("\n"))
        return ExitCode.PASS
    from ldapslam.cli.local_run import run_locally

    return run_locally(
        job, given["agents"], overrides, given["out"], as_json=given["as_json"]
    )


def _arguments() -> list[str]:
    """The command line, for the head of the file."""
    arguments = click.get_current_context().obj.arguments
    return [argument for argument in arguments if argument != "--print-job"]


def _options(
    *options: Callable[[_Command], _Command],
) -> Callable[[_Command], _Command]:
    def add(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


_base_option = click.option(
    *("-b", "--base"), metavar="DN", required=True, help="Where to search; patterns."
)
_filter_option = click.option(
    *("-f", "--filter"),
    metavar="FILTER",
    default="(objectClass=*)",
    show_default=True,
    help="Which entries; patterns such as (uid=user.[0-9999]).",
)
_scope_option = click.option(
    *("-s", "--scope"), metavar="SCOPE", help="base, one, sub (the default), children."
)
_entry_option = click.option(
    *("-b", "--entry", "entry"),
    metavar="DN",
    required=True,
    help="The entry; patterns such as uid=user.[0-9999],ou=people,….",
)
_attributes_option = click.option(
    *("-a", "--attribute", "attributes"),
    metavar="NAME,…",
    multiple=True,
    help="Attributes to return; repeatable.",
)
_credentials_option = click.option(
    "--credentials",
    metavar="TEXT",
    help="Passwords of a test population; patterns. Never a real password: arguments "
    "and job files are not secret.",
)


@click.command("search")
@_options(
    _base_option,
    _scope_option,
    _filter_option,
    _attributes_option,
    click.option("-z", "--size-limit", metavar="N", type=int, help="Most entries."),
    click.option("-l", "--time-limit", metavar="TIME", help="Of the server: 5s."),
    click.option(
        "--deref", metavar="WHEN", help="Aliases: never, searching, finding, always."
    ),
    click.option("--types-only", is_flag=True, help="Names without values."),
    click.option(
        "--page-size", metavar="N", type=int, help="Page through all of the result."
    ),
    click.option(
        "--sort", metavar="KEY,…", help="Sorted by the server: sn,-givenName:rule."
    ),
    common_options,
)
def search_command(uris: tuple[str, ...], **given: Any) -> ExitCode:
    """Search, as searchrate and lb do.

    \b
      ldapslam search ldap://ds1 -b dc=example,dc=com -f '(uid=user.[0-9999])'
      ldapslam search ldap://ds1 -b ou=people,… -r 500 -d 60s --threshold 'p99 < 20ms'
      ldapslam search ldap://ds1 ldap://ds2 -b … -c 64 -D cn=admin,… -y FILE --print-job
    """
    job = compose("search", uris, given)
    body, places = search_body(given)
    for name, option in (
        ("size_limit", "-z"),
        ("time_limit", "-l"),
        ("deref", "--deref"),
        ("page_size", "--page-size"),
    ):
        if given[name] is not None:
            body[name] = given[name]
            places[name] = option
    if given["types_only"]:
        body["types_only"] = True
    more = extras(given, "search")
    if given["sort"] is not None:
        more.setdefault("controls", []).append(
            {"server_side_sort": given["sort"].split(",")}
        )
    _put(job, 0, "search", body, places, more)
    return run_composed(job, given)


@click.command("modify")
@_options(
    _entry_option,
    click.option(
        *("-a", "--attribute", "attributes"),
        metavar="NAME",
        multiple=True,
        help="Replaced by the value of --value; repeatable.",
    ),
    click.option(
        "--value",
        metavar="TEXT",
        default="[random:10]",
        show_default=True,
        help="New value of -a; patterns.",
    ),
    click.option(
        "--replace", metavar="NAME=TEXT", multiple=True, help="Replace by a value."
    ),
    click.option("--add", metavar="NAME=TEXT", multiple=True, help="Add a value."),
    click.option(
        "--delete", metavar="NAME[=TEXT]", multiple=True, help="Delete it or a value."
    ),
    click.option(
        "--increment", metavar="NAME=N", multiple=True, help="Increment (RFC 4525)."
    ),
    common_options,
)
def modify_command(uris: tuple[str, ...], **given: Any) -> ExitCode:
    """Modify entries, as modrate does.

    \b
      ldapslam modify ldap://ds1 -b uid=user.[0-9999],ou=people,… -a description
      ldapslam modify ldap://ds1 -b … --replace 'mail=[random:8]@example.com' -r 50
    """
    job = compose("modify", uris, given)
    body: dict[str, Any] = {"dn": given["entry"]}
    places = {"dn": "-b"}
    wanted = changes(given)
    if not wanted:
        raise click.UsageError("say what to modify: -a NAME, or --replace NAME=TEXT")
    for change, attributes in wanted.items():
        body[change] = attributes
        places[change] = f"--{change}"
    if given["attributes"] and not given["replace"]:
        places["replace"] = "-a"
    _put(job, 0, "modify", body, places, extras(given, "modify"))
    return run_composed(job, given)


@click.command("add")
@_options(
    click.option(
        *("-b", "--entry", "entry"), metavar="DN", help="The new entry; patterns."
    ),
    click.option(
        *("-e", "--set-attribute", "attributes"),
        metavar="NAME=TEXT",
        multiple=True,
        help="With -b: an attribute of it; repeatable, also for further values.",
    ),
    click.option(
        "--template", metavar="FILE", help="Entries of a template (MakeLDIF's tags)."
    ),
    click.option("--under", metavar="DN", help="With --template: their parent."),
    click.option("--keep", is_flag=True, help="Leave the entries there afterwards."),
    common_options,
)
def add_command(uris: tuple[str, ...], **given: Any) -> ExitCode:
    """Add entries, as addrate does; they are removed at the end.

    \b
      ldapslam add ldap://ds1 --template person.template --under ou=people,… -n 10000
      ldapslam add ldap://ds1 -b cn=[unique],ou=people,… -e objectClass=person -e sn=x
    """
    job = compose("add", uris, given)
    body, places = add_body(given)
    if given["keep"]:
        body["clean_up"] = False
    _put(job, 0, "add", body, places, extras(given, "add"))
    return run_composed(job, given)


@click.command("delete")
@_options(_entry_option, common_options)
def delete_command(uris: tuple[str, ...], **given: Any) -> ExitCode:
    """Delete entries that are there; nothing brings them back.

    \b
      ldapslam delete ldap://ds1 -b uid=user.[0:9999],ou=people,… -n 10000
    """
    job = compose("delete", uris, given)
    _put(
        job, 0, "delete", {"dn": given["entry"]}, {"dn": "-b"}, extras(given, "delete")
    )
    return run_composed(job, given)


@click.command("compare")
@_options(
    _entry_option,
    click.option(
        *("-a", "--attribute", "attribute"),
        metavar="NAME",
        required=True,
        help="Its attribute.",
    ),
    click.option("--value", metavar="TEXT", required=True, help="With this; patterns."),
    common_options,
)
def compare_command(uris: tuple[str, ...], **given: Any) -> ExitCode:
    """Compare an attribute of entries with a value.

    \b
      ldapslam compare ldap://ds1 -b uid=user.[0-9999],ou=people,… -a sn --value Smith
    """
    job = compose("compare", uris, given)
    body = {
        "dn": given["entry"],
        "attribute": given["attribute"],
        "value": given["value"],
    }
    places = {"dn": "-b", "attribute": "-a", "value": "--value"}
    _put(job, 0, "compare", body, places, extras(given, "compare"))
    return run_composed(job, given)


@click.command("bind")
@_options(
    click.option(
        *("-b", "--base", "base"),
        metavar="DN",
        help="Who binds; patterns. With -f: where they are searched first.",
    ),
    click.option(
        *("-f", "--filter"),
        metavar="FILTER",
        help="Search first, then bind as the entry found, as authrate does.",
    ),
    _scope_option,
    _credentials_option,
    click.option("--anonymous", is_flag=True, help="Bind anonymously."),
    click.option(
        "--mechanism", metavar="MECH", help="SASL binds; -b is then the authcid."
    ),
    common_options,
)
def bind_command(uris: tuple[str, ...], **given: Any) -> ExitCode:
    """Bind as the load itself, or search and bind, as authrate does.

    \b
      ldapslam bind ldap://ds1 -b uid=user.[0-9999],ou=people,… --credentials password
      ldapslam bind ldap://ds1 -b ou=people,… -f '(uid=user.[0-9999])' --credentials …
    """
    job = compose("bind", uris, given)
    if given["filter"] is not None:
        put_search_and_bind(job, given)
    else:
        body, places = bind_body(given)
        _put(job, 0, "bind", body, places, extras(given, "bind"))
    return run_composed(job, given)


def _weight(name: str) -> Callable[[_Command], _Command]:
    return click.option(
        f"--{name}", metavar="W", type=int, help=f"Weight of {name.replace('-', ' ')}."
    )


@click.command("mix")
@_options(
    *map(
        _weight, ("search", "compare", "modify", "add", "delete", "modify-dn", "bind")
    ),
    click.option("-b", "--base", metavar="DN", help="Of searches: where; patterns."),
    _scope_option,
    _filter_option,
    _attributes_option,
    click.option(
        *("-e", "--entry", "entry"),
        metavar="DN",
        help="Of modifies, compares and binds: the entry; patterns.",
    ),
    click.option(
        "--modify-attribute",
        metavar="NAME",
        default="description",
        show_default=True,
        help="Of modifies: what is replaced.",
    ),
    click.option(
        "--value",
        metavar="TEXT",
        default="[random:10]",
        show_default=True,
        help="Of modifies: its new value; patterns.",
    ),
    click.option(
        "--compare-with", metavar="NAME=TEXT", help="Of compares: attribute and value."
    ),
    _credentials_option,
    click.option("--template", metavar="FILE", help="Of adds: the entries' template."),
    click.option("--under", metavar="DN", help="Of adds: the entries' parent."),
    common_options,
)
def mix_command(uris: tuple[str, ...], **given: Any) -> ExitCode:
    """Mix operations by weight, as SLAMD's MixedLoad does.

    Deletes and renames take entries that this run has added. Binds go over connections
    of their own.

    \b
      ldapslam mix ldap://ds1 --search 10 -b dc=example,dc=com -f '(uid=user.[0-9999])'
          --modify 1 -e uid=user.[0-9999],ou=people,… -D cn=admin,… -y FILE
      ldapslam mix ldap://ds1 --add 1 --delete 1 --template person.template --under …
    """
    weights = {
        kind: given[kind]
        for kind in ("search", "compare", "modify", "add", "delete", "modify_dn")
        if given[kind] is not None
    }
    if not weights and given["bind"] is None:
        raise click.UsageError("give weights, such as --search 10 --modify 1")
    if not weights:
        raise click.UsageError("a mix of binds alone is `ldapslam bind`")
    job = compose("mix", uris, given)
    for number, (kind, weight) in enumerate(weights.items()):
        body, places = MIXED[kind](given)
        _put(job, number, kind, body, places, {"weight": weight, **extras(given, kind)})
        job.places[f"{_OPERATION}[{number}].weight"] = f"--{kind.replace('_', '-')}"
    if given["bind"] is not None:
        put_binds_beside(job, given, sum(weights.values()))
    return run_composed(job, given)


def _put(
    job: ComposedJob,
    number: int,
    kind: str,
    body: dict[str, Any],
    places: dict[str, str],
    more: dict[str, Any],
) -> None:
    operation = {kind: body, **more}
    of_body = {f"{kind}.{name}": option for name, option in places.items()}
    put_operation(job, number, operation, {**of_body, **EXTRA_PLACES})
