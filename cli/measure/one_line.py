# SPDX-License-Identifier: Apache-2.0
"""The one-line commands: search, add, modify, delete, bind and mix.

Each composes a job of its options and runs it as `run` runs a job file; --print-job
prints that file instead.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import click

from ldapslam.base.errors import ExitCode
from ldapslam.cli.command import command
from ldapslam.cli.composed_job import ComposedJob
from ldapslam.cli.measure.one_line_options import (
    Options,
    compose,
    in_words_of_options,
    one_line_options,
    option_of,
)
from ldapslam.cli.options import flag, option
from ldapslam.cli.submission import print_job
from ldapslam.jobs.operations.controls import BARE_CONTROLS, CONTROLS

_PATTERNS = "patterns such as uid=user.[0-9999],ou=people,…."
_SUCCESSES = {"compare": ("compareFalse", "compareTrue")}


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
        return print_job(job, overrides)
    from ldapslam.cli.measure.local_run import run_locally

    return run_locally(
        job, given["agents"], overrides, given["out"], as_json=given["as_json"]
    )


@dataclass
class _Operation:
    """One operation of a job under construction; its fields come from options."""

    job: ComposedJob
    given: Options
    kind: str
    path: tuple[str | int, ...] = ("streams", 0, "operations", 0)

    def need(self, *names: str) -> None:
        """UsageError when one of these options was not given."""
        missing = [option_of(name) for name in names if self.given[name] is None]
        if missing:
            kind = self.kind.replace("_", "-")
            raise click.UsageError(f"{kind} needs {' and '.join(missing)}")

    def set(self, name: str, words: str, value: Any, *inner: str) -> None:
        """Set a field of the body; `words` is its option as typed."""
        self.job.put((*self.path, self.kind, name, *inner), value, words)

    def take(self, *names: str) -> None:
        """Set fields to the values of the options of the same names, where given."""
        for name in names:
            value = self.given.get(name)
            if value is not None and value is not False:
                self.set(name, option_of(name), value)

    def finish(self, weight: int | None = None, **more: Any) -> None:
        """Set the fields next to the body: weight, --expect and -J."""
        if weight is not None:
            self.job.put((*self.path, "weight"), weight, option_of(self.kind))
        # the job file's list is complete: it has the successes too
        codes = [
            int(code) if code.isdecimal() else code
            for code in _names(self.given["expect"])
        ]
        if codes:
            more["expect"] = [*_SUCCESSES.get(self.kind, ("success",)), *codes]
        if controls := [_control(text) for text in self.given["controls"]]:
            more["controls"] = [*controls, *more.get("controls", ())]
        for name, value in more.items():
            words = {"expect": "--expect", "controls": "-J"}.get(name, "")
            self.job.put((*self.path, name), value, words)


def _control(text: str) -> dict[str, Any] | str:
    """A control as searchrate has it, or a name that job files know."""
    if text in CONTROLS:
        return text
    match = re.fullmatch(
        r"([\d.]+)(?::(true|false|yes|no|critical|))?(?::(:?)(.*))?", text, re.I
    )
    if match is None:
        raise click.UsageError(
            f"-J: expected OID[:critical[:value]], got {text!r}: such as "
            "2.16.840.1.113730.3.4.2:true; without a value also by name: "
            f"{', '.join(BARE_CONTROLS)}"
        )
    control: dict[str, Any] = {"oid": match[1]}
    if match[2]:
        control["critical"] = match[2].lower() in ("true", "yes", "critical")
    if match[4] is not None:
        control["value"] = f"base64:{match[4]}" if match[3] else match[4]
    return control


def _search(op: _Operation) -> None:
    op.need("base")
    op.take("base", "scope", "filter")
    if names := _names(op.given["attributes"]):
        op.set("attributes", "-a", names)
    op.take("size_limit", "time_limit", "deref", "page_size", "types_only")


def _modify(op: _Operation) -> None:
    """The changes in the order of the job file's keys."""
    given = op.given
    op.set("dn", "-e", given["entry"])
    for text in given["attributes"]:
        if "=" in text:
            raise click.UsageError(
                f"-a is a name, whose value is --value: write --replace {text!r}"
            )
    replaced = [(name, given["value"]) for name in _names(given["attributes"])]
    replaced += [_pair("--replace", text) for text in given["replace"]]
    increments = [_pair("--increment", text) for text in given["increment"]]
    for name, value in increments:
        if not re.fullmatch(r"-?\d+", value):
            raise click.UsageError(
                f"--increment: expected NAME=N, got {f'{name}={value}'!r}"
            )
    changes = {
        "add": _grouped(_pair("--add-value", text) for text in given["add_value"]),
        "delete": _grouped(text.partition("=")[::2] for text in given["delete_value"]),
        "replace": _grouped(replaced),
        "increment": {name: int(value) for name, value in increments},
    }
    for text in given["delete_value"]:
        if "=" not in text:  # the whole attribute
            changes["delete"][text].remove("")
    if not any(changes.values()):
        raise click.UsageError("say what to modify: -a NAME, or --replace NAME=TEXT")
    for change, attributes in changes.items():
        words = {
            "add": "--add-value",
            "delete": "--delete-value",
            "replace": "--replace" if given["replace"] else "-a",
            "increment": "--increment",
        }[change]
        if attributes:
            op.set(change, words, attributes)


def _add(op: _Operation) -> None:
    _put_entry(op)
    if op.given.get("keep"):
        op.set("clean_up", "--keep", False)


def _put_entry(op: _Operation) -> None:
    given = op.given
    has_entry = "keep" in given  # `mix` has another use for --entry
    entry = given["entry"] if has_entry else None
    if given["template"] is not None:
        if entry is not None:
            raise click.UsageError("-e and --template: give one of them")
        op.need("under")
        op.take("template", "under")
        return
    if entry is None or not given["attributes"]:
        needed = "--template FILE and --under DN"
        if has_entry:
            raise click.UsageError(f"adds need -e DN and -a NAME=TEXT, or {needed}")
        raise click.UsageError(
            f"adds need {needed}: -e and -a are of the other operations of a mix; FILE "
            "has the attributes a line each, below `template: NAME` and `rdnAttr: cn` "
            "(docs/reference/templates.md)"
        )
    values = _grouped(_pair("-a", text) for text in given["attributes"])
    op.set("dn", "-e", entry)
    flat = {name: v[0] if len(v) == 1 else v for name, v in values.items()}
    op.set("entry", "-a", flat)


def _bind(op: _Operation) -> None:
    given = op.given
    dn, password, words = given["entry"], given["credentials"], "-e"
    if given.get("anonymous"):
        op.take("anonymous")
    elif given.get("mechanism") is not None:
        op.set("sasl", "--mechanism", given["mechanism"], "mechanism")
        if dn is not None:
            op.set("sasl", words, dn, "authcid")
        if password is not None:
            op.set("sasl", "--credentials", password, "password")
    elif dn is None or password is None:
        other = ", or --anonymous" * ("anonymous" in given)
        raise click.UsageError(f"binds need {words} DN and --credentials TEXT{other}")
    else:
        op.set("dn", words, dn)
        op.set("password", "--credentials", password)


def _mixed_modify(op: _Operation) -> None:
    op.need("entry")
    name, value = op.given["modify_attribute"], op.given["value"]
    op.set("dn", "-e", op.given["entry"])
    op.set("replace", "--modify-attribute", {name: value})
    op.set("replace", "--value", value, name)


def _compare(op: _Operation) -> None:
    op.need("entry", "compare_with")
    attribute, value = _pair("--compare-with", op.given["compare_with"])
    op.set("dn", "-e", op.given["entry"])
    op.set("attribute", "--compare-with", attribute)
    op.set("value", "--compare-with", value)


def _delete(op: _Operation) -> None:
    op.need("add")
    op.set("of", "--delete", "add")


def _modify_dn(op: _Operation) -> None:
    op.need("add")
    op.set("of", "--modify-dn", "add")
    op.set("new_rdn", "--modify-dn", "cn=[unique]")


_MIXED: dict[str, Callable[[_Operation], None]] = {
    "search": _search,
    "compare": _compare,
    "modify": _mixed_modify,
    "add": _add,
    "delete": _delete,
    "modify_dn": _modify_dn,
}


def _pair(words: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"{words}: expected NAME=TEXT, got {text!r}")
    return name, value


def _grouped(pairs: Any) -> dict[str, Any]:
    """Values by name."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


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
_value_option = option(
    "--value TEXT", "New value of the attribute; patterns.", default="[random:10]"
)
_credentials_option = option(
    "--credentials TEXT",
    "Passwords of a test population; patterns. Never a real password: arguments and "
    "job files are not secret.",
)


@command("search")
@one_line_options(
    _base_option,
    _scope_option,
    _filter_option,
    _attributes_option,
    option("-z --size-limit N", "Most entries.", type=int),
    option("-l --time-limit TIME", "Time limit of the server: 5s."),
    option("--deref WHEN", "Aliases: never, searching, finding, always."),
    flag("--types-only", "Names without values."),
    option("--page-size N", "Page through all of the result.", type=int),
    option("--sort KEY,…", "Sorted by the server: sn,-givenName:rule."),
)
def search_command(uris: tuple[str, ...], **given: Any) -> ExitCode:
    """Search, as searchrate and lb do.

    \b
      ldapslam quick search ldap://ds1 -b dc=example,dc=com -f '(uid=user.[0-9999])'
      ldapslam quick search ldap://ds1 -b dc=… -r 500/s -d 60s --threshold 'p99 < 20ms'
      ldapslam quick search ldap://ds1 ldap://ds2 -b … -D cn=admin,… -y FILE --print-job
    """
    job = compose("search", uris, given)
    op = _Operation(job, given, "search")
    _search(op)
    more: dict[str, Any] = {}
    if given["sort"] is not None:
        more["controls"] = [{"server_side_sort": given["sort"].split(",")}]
    op.finish(**more)
    return run_composed(job, given)


@command("modify")
@one_line_options(
    _entry_option,
    option(
        "-a --attribute attributes NAME,…",
        "Replaced by the value of --value; repeatable.",
        multiple=True,
    ),
    _value_option,
    option("--replace NAME=TEXT", "Replace by a value.", multiple=True),
    option("--add-value NAME=TEXT", "Add a value.", multiple=True),
    option("--delete-value NAME[=TEXT]", "Delete it or a value.", multiple=True),
    option("--increment NAME=N", "Increment (RFC 4525).", multiple=True),
)
def modify_command(uris: tuple[str, ...], **given: Any) -> ExitCode:
    """Modify entries, as modrate does.

    \b
      ldapslam quick modify ldap://ds1 -e uid=user.[0-9999],ou=people,… -a description
      ldapslam quick modify ldap://ds1 -e … --replace 'mail=[random:8]@x.org' -r 50/s
    """
    return _run_one("modify", _modify, uris, given)


@command("add")
@one_line_options(
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
    return _run_one("add", _add, uris, given)


@command("delete")
@one_line_options(_entry_option)
def delete_command(uris: tuple[str, ...], **given: Any) -> ExitCode:
    """Delete entries that are there; nothing brings them back.

    \b
      ldapslam quick delete ldap://ds1 -e uid=user.[0:9999],ou=people,… -n 10000
    """
    return _run_one(
        "delete", lambda op: op.set("dn", "-e", given["entry"]), uris, given
    )


@command("bind")
@one_line_options(
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
    option("--mechanism MECH", "SASL binds; -e is then the authcid."),
)
def bind_command(uris: tuple[str, ...], **given: Any) -> ExitCode:
    """Measure binds, or a search and then a bind, as authrate does.

    \b
      ldapslam quick bind ldap://ds1 -e uid=user.[0-999],ou=… --credentials password
      ldapslam quick bind ldap://ds1 -b ou=people,… -f '(uid=[0-999])' --credentials …
    """
    if given["filter"] is None:
        return _run_one("bind", _bind, uris, given)
    if given["base"] is None or given["credentials"] is None:
        raise click.UsageError("-f needs -b DN and --credentials TEXT")
    if given["anonymous"] or given["mechanism"] is not None:
        raise click.UsageError("-f is for simple binds as the entries found")
    job = compose("bind", uris, given)
    if given["reconnect_every"] is None:
        # the next search would be sent as the user who was bound
        job.put(("streams", 0, "connection", "reconnect_every"), 1, "")
    steps = ("streams", 0, "operations", 0, "sequence")
    no_extras = {"attributes": ["1.1"], "expect": (), "controls": ()}
    search = _Operation(job, {**given, **no_extras}, "search", (*steps, 0))
    _search(search)
    search.finish(capture={"found": "dn"})
    bind = _Operation(job, given, "bind", (*steps, 1))
    bind.set("dn", "", "[found]")
    bind.set("password", "--credentials", given["credentials"])
    bind.finish()
    return run_composed(job, given)


def _run_one(
    kind: str,
    put_fields: Callable[[_Operation], None],
    uris: tuple[str, ...],
    given: Options,
) -> ExitCode:
    """Run a job of one operation."""
    job = compose(kind, uris, given)
    operation = _Operation(job, given, kind)
    put_fields(operation)
    operation.finish()
    return run_composed(job, given)


@command("mix")
@one_line_options(
    *(
        option(
            f"--{kind.replace('_', '-')} W",
            f"Weight of {kind.replace('_', ' ')}.",
            type=int,
        )
        for kind in (*_MIXED, "bind")
    ),
    option("-b --base DN", "Where searches search; patterns."),
    _scope_option,
    _filter_option,
    _attributes_option,
    option("-e --entry DN", "The entry of modifies, compares and binds; patterns."),
    option(
        "--modify-attribute NAME",
        "The attribute that modifies replace.",
        default="description",
    ),
    _value_option,
    option("--compare-with NAME=TEXT", "Attribute and value of compares."),
    _credentials_option,
    option("--template FILE", "Template of the entries of adds."),
    option("--under DN", "Parent of the entries of adds."),
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
    weights = {kind: given[kind] for kind in _MIXED if given[kind] is not None}
    if not weights and given["bind"] is None:
        raise click.UsageError("give weights, such as --search 10 --modify 1")
    if not weights:
        raise click.UsageError("a mix of binds alone is `ldapslam quick bind`")
    job = compose("mix", uris, given)
    for number, (kind, weight) in enumerate(weights.items()):
        path = ("streams", 0, "operations", number)
        operation = _Operation(job, given, kind, path)
        _MIXED[kind](operation)
        operation.finish(weight)
    if given["bind"] is not None:
        _put_bind_stream(job, given, sum(weights.values()))
    return run_composed(job, given)


def _put_bind_stream(job: ComposedJob, given: Options, others: int) -> None:
    """A second stream: binds would change the identity of its connections' requests."""
    first = job.tree["streams"][0]
    load = first["load"]
    if "rate" not in load:
        raise click.UsageError(
            "--bind with other operations needs a rate (-r): binds have connections of "
            "their own, and closed loops would not keep the weights"
        )
    total = others + given["bind"]
    rate = load["rate"]
    match = re.fullmatch(r"([\d.]+)([kM]?)/([smh])", rate)
    binds = dict(load)  # a rate that does not match will be found to be at fault
    if match is not None and given["bind"] > 0:
        load["rate"] = _part(match, others, total)
        binds["rate"] = _part(match, given["bind"], total)
        binds.pop("in_flight", None)
        job.comments["streams"] = (
            f"{rate} in all: {others} of {total} arrivals go to the first stream, "
            f"{given['bind']} to the binds, which have connections of their own"
        )
    stream: dict[str, Any] = {"name": "binds", "target": "directory"}
    stream["load"] = binds
    for key in ("connection", "request_timeout"):
        if key in first:
            stream[key] = first[key]
    if given["count"] is not None:
        stream["count"] = given["count"] * given["bind"] // total
        first["count"] = given["count"] - stream["count"]
    job.put(("streams", 1), {**stream, "operations": []}, "")
    job.options["streams[1].load.rate"] = "-r"
    bind = _Operation(job, given, "bind", ("streams", 1, "operations", 0))
    _bind(bind)
    bind.finish()


def _part(rate: re.Match[str], weight: int, total: int) -> str:
    """A weight's part of a rate; per hour where it would not come out per second."""
    number = Fraction(rate[1]) * {"": 1, "k": 1_000, "M": 1_000_000}[rate[2]]
    per_s = number * weight / total / {"s": 1, "m": 60, "h": 3_600}[rate[3]]
    for unit, seconds in (("s", 1), ("m", 60), ("h", 3_600)):
        scaled = per_s * seconds * 10**6
        if scaled.denominator == 1:
            text = f"{scaled.numerator / 10**6:.6f}".rstrip("0").rstrip(".")
            return f"{text}/{unit}"
    return f"{float(per_s):.6f}/s"
