# SPDX-License-Identifier: Apache-2.0
"""The one-line commands: search, add, modify, delete, bind and mix.

Each composes a job of its options and runs it as `run` runs a job file; --print-job
prints that file instead.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import click

from ldapslam.base.errors import ExitCode
from ldapslam.cli.console import add_options, put
from ldapslam.cli.measure.composed_job import ComposedJob
from ldapslam.cli.measure.one_line_options import (
    BINDS,
    EXTRA_PLACES,
    Options,
    common_options,
    compose,
    extras,
    in_words_of_options,
    put_operation,
)

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
    from ldapslam.cli.measure.local_run import run_locally

    return run_locally(
        job, given["agents"], overrides, given["out"], as_json=given["as_json"]
    )


def _arguments() -> list[str]:
    """The command line, for the head of the file."""
    arguments = click.get_current_context().obj.arguments
    return [argument for argument in arguments if argument != "--print-job"]


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
@add_options(
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
@add_options(
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
@add_options(
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
@add_options(_entry_option, common_options)
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


@click.command("bind")
@add_options(
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
@add_options(
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


#: The body of an operation, and the option that each field of it comes from.
Body = tuple[dict[str, Any], dict[str, str]]


def search_body(given: Options) -> Body:
    _need(given, "search", base="-b")
    body: dict[str, Any] = {"base": given["base"]}
    if given["scope"] is not None:
        body["scope"] = given["scope"]
    body["filter"] = given["filter"]
    names = _names(given["attributes"])
    if names:
        body["attributes"] = names
    places = {"base": "-b", "scope": "-s", "filter": "-f", "attributes": "-a"}
    return body, places


def _modify_body(given: Options) -> Body:
    _need(given, "modify", entry="-e")
    replace = {given["modify_attribute"]: given["value"]}
    places = {
        "dn": "-e",
        "replace": "--modify-attribute",
        f"replace.{given['modify_attribute']}": "--value",
    }
    return {"dn": given["entry"], "replace": replace}, places


def _compare_body(given: Options) -> Body:
    _need(given, "compare", entry="-e", compare_with="--compare-with")
    attribute, value = _pair("--compare-with", given["compare_with"])
    body = {"dn": given["entry"], "attribute": attribute, "value": value}
    return body, {
        "dn": "-e",
        "attribute": "--compare-with",
        "value": "--compare-with",
    }


def add_body(given: Options) -> Body:
    entry = given["entry"] if "keep" in given else None  # `mix` has another use for it
    if given["template"] is not None:
        if entry is not None:
            raise click.UsageError("-b and --template: give one of them")
        _need(given, "add", under="--under")
        body: dict[str, Any] = {"template": given["template"], "under": given["under"]}
        return body, {"template": "--template", "under": "--under"}
    if entry is None or not given["attributes"]:
        needed = "-b DN and -e NAME=TEXT, or " if "keep" in given else ""
        raise click.UsageError(f"adds need {needed}--template FILE and --under DN")
    attributes: dict[str, Any] = {}
    for text in given["attributes"]:
        name, value = _pair("-e", text)
        attributes.setdefault(name, []).append(value)
    flat = {name: v[0] if len(v) == 1 else v for name, v in attributes.items()}
    return {"dn": entry, "entry": flat}, {"dn": "-b", "entry": "-e"}


def _delete_body(given: Options) -> Body:
    _need(given, "delete", add="--add")
    return {"of": "add"}, {"of": "--delete"}


def _modify_dn_body(given: Options) -> Body:
    _need(given, "modify-dn", add="--add")
    return {"of": "add", "new_rdn": "cn=[unique]"}, {"of": "--modify-dn"}


MIXED: dict[str, Callable[[Options], Body]] = {
    "search": search_body,
    "compare": _compare_body,
    "modify": _modify_body,
    "add": add_body,
    "delete": _delete_body,
    "modify_dn": _modify_dn_body,
}


def bind_body(given: Options) -> Body:
    if given.get("anonymous"):
        return {"anonymous": True}, {}
    option = "-e" if "entry" in given else "-b"
    dn = given["entry" if "entry" in given else "base"]
    if given.get("mechanism") is not None:
        sasl = {"mechanism": given["mechanism"]}
        if dn is not None:
            sasl["authcid"] = dn
        if given["credentials"] is not None:
            sasl["password"] = given["credentials"]
        return {"sasl": sasl}, {
            "sasl.mechanism": "--mechanism",
            "sasl.authcid": option,
            "sasl.password": "--credentials",
        }
    if dn is None or given["credentials"] is None:
        other = ", or --anonymous" if "anonymous" in given else ""
        raise click.UsageError(f"binds need {option} DN and --credentials TEXT{other}")
    body = {"dn": dn, "password": given["credentials"]}
    return body, {"dn": option, "password": "--credentials"}


def put_search_and_bind(job: ComposedJob, given: Options) -> None:
    if given["base"] is None or given["credentials"] is None:
        raise click.UsageError("-f needs -b DN and --credentials TEXT")
    if given["anonymous"] or given["mechanism"] is not None:
        raise click.UsageError("-f is for simple binds as the entries found")
    search: dict[str, Any] = {"base": given["base"], "filter": given["filter"]}
    search["attributes"] = ["1.1"]
    if given["scope"] is not None:
        search["scope"] = given["scope"]
    steps = [
        {"search": search, "capture": {"found": "dn"}},
        {
            "bind": {"dn": "[found]", "password": given["credentials"]},
            **extras(given, "bind"),
        },
    ]
    places = {
        "sequence[0].search.base": "-b",
        "sequence[0].search.filter": "-f",
        "sequence[0].search.scope": "-s",
        "sequence[1].bind.password": "--credentials",
        "sequence[1].expect": "--expect",
        "sequence[1].controls": "-J",
    }
    put_operation(job, 0, {"sequence": steps}, places)


def put_binds_beside(job: ComposedJob, given: Options, others: int) -> None:
    """A second stream: a bind would change whom its connection's requests act as."""
    load = job.tree["streams"][0]["load"]
    if "rate" not in load.get("open", {}):
        raise click.UsageError(
            "--bind beside other operations needs a rate (-r): binds have connections "
            "of their own, and closed loops would not keep the weights"
        )
    body, places = bind_body(given)
    total = others + given["bind"]
    match = re.fullmatch(r"([\d.]+)([kM]?)/([smh])", load["open"]["rate"])
    if match is not None and given["bind"] > 0:
        rate = load["open"]["rate"]
        load["open"]["rate"] = _part(match, others, total)
        binds = {**load["open"], "rate": _part(match, given["bind"], total)}
        binds.pop("in_flight", None)
        job.comments["streams"] = (
            f"{rate} in all: {others} of {total} arrivals go to the first stream, "
            f"{given['bind']} to the binds, which have connections of their own"
        )
    else:
        binds = dict(load["open"])  # its rate is at fault, and will be found to be
    stream: dict[str, Any] = {"name": BINDS, "target": "directory"}
    stream["load"] = {"open": binds}
    for key in ("connection", "request_timeout"):
        if key in job.tree["streams"][0]:
            stream[key] = job.tree["streams"][0][key]
    if given["count"] is not None:
        of_binds = given["count"] * given["bind"] // total
        job.tree["streams"][0]["count"] = given["count"] - of_binds
        stream["count"] = of_binds
    stream["operations"] = [{"bind": body, **extras(given, "bind")}]
    job.put(("streams", 1), stream, "")
    job.places["streams[1].load.open.rate"] = "-r"
    for name, option in places.items():
        job.places[f"streams[1].operations[0].bind.{name}"] = option


def _part(rate: re.Match[str], weight: int, total: int) -> str:
    """A weight's part of a rate; per hour where it would not come out per second."""
    number = Fraction(rate[1]) * {"": 1, "k": 1_000, "M": 1_000_000}[rate[2]]
    per_s = number * weight / total / {"s": 1, "m": 60, "h": 3_600}[rate[3]]
    for unit, seconds in (("s", 1), ("m", 60), ("h", 3_600)):
        scaled = per_s * seconds * 10**6
        if scaled.denominator == 1:
            return (
                f"{scaled.numerator / 10**6:.6f}".rstrip("0").rstrip(".") + f"/{unit}"
            )
    return f"{float(per_s):.6f}/s"


def changes(given: Options) -> dict[str, dict[str, Any]]:
    """The changes of a modify, in the order of the job file's keys."""
    changes: dict[str, dict[str, Any]] = {}
    for text in given["add"]:
        name, value = _pair("--add", text)
        changes.setdefault("add", {}).setdefault(name, []).append(value)
    for text in given["delete"]:
        name, equals, value = text.partition("=")
        values = changes.setdefault("delete", {}).setdefault(name, [])
        values += [value] if equals else []
    replaced = [(name, given["value"]) for name in _names(given["attributes"])]
    replaced += [_pair("--replace", text) for text in given["replace"]]
    for name, value in replaced:
        changes.setdefault("replace", {}).setdefault(name, []).append(value)
    for text in given["increment"]:
        name, value = _pair("--increment", text)
        if not re.fullmatch(r"-?\d+", value):
            raise click.UsageError(f"--increment: expected NAME=N, got {text!r}")
        changes.setdefault("increment", {})[name] = int(value)
    return changes


def _pair(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"{option}: expected NAME=TEXT, got {text!r}")
    return name, value


def _names(texts: Sequence[str]) -> list[str]:
    return [name for text in texts for name in re.split("[, ]+", text) if name]


def _need(given: Options, operation: str, **options: str) -> None:
    missing = [option for name, option in options.items() if given[name] is None]
    if missing:
        raise click.UsageError(f"{operation} needs {' and '.join(missing)}")
