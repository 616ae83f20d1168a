# SPDX-License-Identifier: Apache-2.0
"""The operations of the one-line commands: from a command's options to the body that
the job file has, and the option behind each of its fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import click

from ldapslam.cli.measure.composed_job import ComposedJob
from ldapslam.cli.measure.one_line_options import BINDS, Options, extras, put_operation

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
