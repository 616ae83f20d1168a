# SPDX-License-Identifier: Apache-2.0
"""Job types at work: the raw tree of a job, with `type` and `options` written out, and
the target of streams where the job has one only.

This happens before the job is checked as a whole, so that what a type makes is checked
as what a person writes. A fault in what was made is shown where its cause is written:
at the option of the same key, else at the type.

`explain` puts pydantic's errors in the words of the job file: "expected this, got
that", with a hint, at the least what the field is for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ldapslam.base.fault import (
    Fault,
    closest,
    did_you_mean,
    expected,
    got,
    one_of,
    unknown,
)
from ldapslam.jobs.fields.context import Reading
from ldapslam.jobs.fields.sections import (
    UNION_TAG,
    Section,
    field_of,
    field_text,
    fields_of,
    keys_of,
    section_in,
)
from ldapslam.jobs.model import Job
from ldapslam.jobs.reading import extension, variables
from ldapslam.jobs.reading.tree import Finding, Path, Tree
from ldapslam.jobs.types import job_types
from ldapslam.jobs.types.base import JobType


def explain(detail: ErrorDetails, root: type[Section] = Job) -> Finding:
    """A finding of one of pydantic's complaints; paths begin at `root`."""
    path = tuple(
        step
        for step in detail["loc"]
        if step != "[key]" and not str(step).startswith(UNION_TAG)
    )
    at_key = "[key]" in detail["loc"]
    value, kind = detail["input"], detail["type"]
    context: dict[str, Any] = detail.get("ctx", {})
    if kind == "extra_forbidden":
        return Finding(path, _unknown_key(path, value, root), at_key=True)
    if kind == "missing":
        fault = Fault(f"the key {str(path[-1])!r} is missing", field_hint(path, root))
        return Finding(path[:-1], fault, at_key=True)
    raised = context.get("error")
    if isinstance(raised, Fault):
        return Finding(path, raised, at_key)
    fault = _fault(kind, value, context, detail["msg"])
    if path and isinstance(value, int) and kind.startswith(("model", "dict")):
        section, key = _section_at(path, root), path[-1]
        if section and isinstance(key, str) and field_of(section, "count"):
            fault.hint = f"write {key}: {{count: {value}}}"
    return Finding(path, fault, at_key)


#: In a list that was written as one text: a name of an attribute or of a stream.
_PLAIN_WORD = re.compile(r"[\w;.-]+", re.ASCII)
#: Pydantic's type of an error -> what was expected.
_WANTED = {
    **dict.fromkeys(("model_type", "dict_type", "model_attributes_type"), "a mapping"),
    "too_short": "at least one item",
    "string_too_short": "text",
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
}


def _fault(kind: str, value: Any, context: Mapping[str, Any], message: str) -> Fault:
    hint: str | None = None
    if kind == "literal_error":
        words = context["expected"].replace("'", "").lower()
        meant = (
            closest(value, re.findall(r"\w+", words))
            if isinstance(value, str)
            else None
        )
        hint = f"write {meant}" if meant else None
        return expected(words.removesuffix(" "), value, hint)
    if kind == "string_pattern_mismatch":
        hint = "letters, digits, - and _, beginning with a letter or digit; at most 64"
        return expected("a name", value, hint)
    if kind in _WANTED:
        return expected(_WANTED[kind].format(**context), value)
    if kind == "list_type":
        if isinstance(value, str):
            words = value.replace(",", " ").split()
            are_plain = len(words) > 1 and all(map(_PLAIN_WORD.fullmatch, words))
            hint = f"write [{', '.join(words)}]" if are_plain else "write [ ] around it"
        return expected("a list", value, hint)
    if kind.startswith("int_"):
        number = (
            re.match(r"\s*(\d+)(?![\d.])", value) if isinstance(value, str) else None
        )
        hint = f"write {number[1]}, without quotes or a unit" if number else None
        return expected("a whole number", value, hint)
    return expected(message[:1].lower() + message[1:], value)


def _unknown_key(path: Path, value: Any, root: type[Section]) -> Fault:
    section, key = _section_at(path[:-1], root), str(path[-1])
    known = list(keys_of(section)) if section else []
    if section is Job:
        known += (extension.KEY, variables.KEY)
    if section and section.choice_noun != "key" and isinstance(value, dict):
        return unknown(section.choice_noun, key, section.exactly_one)
    if "=" in key and value is None:
        return Fault(
            f"unknown key {key!r}",
            "quote a DN within { }, where a comma ends a value that is not quoted",
        )
    fault = unknown("key", key, known)
    if section and closest(key, known) is None:
        above = _section_at(path[:-2], root) if len(path) > 2 else None
        if inner := _section_with(section, key):
            fault.hint = f"it is a key of `{inner}`: {inner}: {{{key}: …}}"
            if len(path) == 1:
                fault.hint += f", or --set {inner}.{key}=…"
        elif above and field_of(above, key):
            fault.hint = (
                f"it is a key one level up: write it beside `{path[-2]}`, not in it"
            )
        elif root is Job and (written := _in_run_or_load(key)):
            fault.hint = written
        elif section.attributes_key:
            holder = section.attributes_key
            fault.hint = (
                f"attributes stand below `{holder}`: {holder}: {{{key}: …}}; "
                f"{did_you_mean(key, known)}"
            )
    return fault


def _section_with(section: type[Section], key: str) -> str | None:
    """Return the name of the first inner section that has the key."""
    inner = [(name, section_in(info.annotation)) for name, info in fields_of(section)]
    return next((name for name, one in inner if one and key in keys_of(one)), None)


def _in_run_or_load(key: str) -> str | None:
    """Return a hint for a key of `run` or of a stream's load, wherever it stands."""
    for name, where, owner in (
        ("run", ("run",), "the job"),
        ("load", ("streams", 0, "load"), "a stream"),
    ):
        if key in keys_of(_section_at(where, Job) or Section):
            return f"it is a key of {owner}'s `{name}`: {name}: {{{key}: …}}"
    return None


def field_hint(path: Path, root: type[Section] = Job) -> str | None:
    """What the innermost field of a path is for, from its description."""
    while path:
        section = _section_at(path[:-1], root)
        if section and field_of(section, str(path[-1])):
            return field_text(section, str(path[-1]))
        path = path[:-1]
    return None


def _section_at(path: Path, root: type[Section]) -> type[Section] | None:
    section: type[Section] | None = root
    for step, after in zip(path, [*path[1:], None], strict=False):
        if isinstance(step, str) and section is not None:
            info = field_of(section, step)
            inner = info.annotation if info else None
            section = section_in(inner, isinstance(after, int)) or section_in(inner)
    return section


def expand_types(tree: Tree, reading: Reading) -> None:
    """Write every stream of the tree out; faults become findings of the tree."""
    streams = tree.data.get("streams") if isinstance(tree.data, dict) else None
    if not isinstance(streams, list):
        return
    # streams may be aliases of one another: each becomes a mapping of its own
    tree.data = {**tree.data, "streams": list(streams)}
    targets = tree.data.get("targets")
    only = {"target": next(iter(targets))} if _is_one(targets) else {}
    for index, stream in enumerate(streams):
        if isinstance(stream, dict):
            stream = {**only, **stream}
            expanded = _expanded(tree, reading, ("streams", index), stream)
            tree.data["streams"][index] = expanded


def _is_one(targets: Any) -> bool:
    return isinstance(targets, dict) and len(targets) == 1


def _expanded(
    tree: Tree, reading: Reading, path: Path, stream: Mapping[str, Any]
) -> dict[str, Any]:
    plain = {k: value for k, value in stream.items() if k not in ("type", "options")}
    name, raw = stream.get("type"), stream.get("options")
    if name is None:
        if raw is not None:
            hint = f"did you forget `type`? known: {', '.join(sorted(job_types()))}"
            fault = Fault("a stream without a `type` has no options", hint)
            tree.findings.append(Finding((*path, "options"), fault, at_key=True))
        return plain
    job_type = job_types().get(name) if isinstance(name, str) else None
    if job_type is None:
        tree.findings.append(Finding((*path, "type"), _unknown(name)))
        return plain
    for key in job_type.sets:
        if key in stream:
            fault = Fault(
                f"the type {name!r} sets {key!r} itself", "remove one of the two"
            )
            tree.findings.append(Finding((*path, key), fault, at_key=True))
    made = _made(tree, reading, path, job_type, raw, plain)
    for key in made:
        tree.made[(*path, key)] = path
    return {**plain, **made}


def _unknown(name: Any) -> Fault:
    if not isinstance(name, str):
        return expected("the name of a job type", name, one_of(sorted(job_types())))
    return unknown("job type", name, job_types())


def _made(
    tree: Tree,
    reading: Reading,
    path: Path,
    job_type: type[JobType[Any]],
    raw: Any,
    stream: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the keys that the type makes of its options; none when they are wrong."""
    where = (*path, "options")
    content = {} if raw is None else raw
    try:
        options = job_type.Options.model_validate(content, context=reading)
    except ValidationError as error:
        for detail in error.errors():
            inner, fault, at_key, position = explain(detail, job_type.Options)
            fault.hint = fault.hint or field_hint(inner, job_type.Options)
            tree.findings.append(Finding((*where, *inner), fault, at_key, position))
        return {}
    targets = tree.data.get("targets")
    targets = targets if isinstance(targets, dict) else {}
    try:
        made: Any = job_type().expand_among(options, stream, targets)
    except Fault as fault:
        tree.findings.append(Finding(where, fault))
        return {}
    except Exception as error:
        defect = f"{type(error).__name__}: {error}"
    else:
        if isinstance(made, dict) and all(isinstance(key, str) for key in made):
            return made
        defect = f"expected keys of the stream, got {got(made)}"
    # of the type, perhaps a third party's: the job may be right
    source = f"{job_type.__module__}.{job_type.__qualname__}"
    reason = f"the job type {job_type.name!r} failed: {defect}"
    failed = Fault(reason, f"a defect of {source}: tell whoever wrote it")
    tree.findings.append(Finding((*path, "type"), failed))
    return {}
