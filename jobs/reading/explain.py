# SPDX-License-Identifier: Apache-2.0
"""pydantic's complaints in the words of the job file.

Faults that the field types raise themselves pass through; pydantic's own kinds of
errors become "expected what, got what". Every fault gets a hint, at the least what its
field is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from ldapslam.base.fault import Fault, did_you_mean, expected
from ldapslam.jobs.fields.sections import (
    UNION_TAG,
    Section,
    field_of,
    field_text,
    fields_of,
    section_in,
)
from ldapslam.jobs.model import Job
from ldapslam.jobs.reading.tree import Finding, Path


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
        return Finding(path[:-1], _missing_key(path, root), at_key=True)
    raised = context.get("error")
    if isinstance(raised, Fault):
        return Finding(path, raised, at_key)
    return Finding(path, _fault(kind, value, context, detail["msg"]), at_key)


def _fault(kind: str, value: Any, context: Mapping[str, Any], message: str) -> Fault:
    hint: str | None = None
    if kind == "literal_error":
        return expected(context["expected"].replace("'", "").lower(), value)
    if kind == "string_pattern_mismatch":
        hint = "letters, digits, - and _, beginning with a letter or digit; at most 64"
        return expected("a name", value, hint)
    if kind in ("model_type", "dict_type", "model_attributes_type"):
        return expected("a mapping", value)
    if kind == "list_type":
        hint = "write [ ] around it" if isinstance(value, str) else None
        return expected("a list", value, hint)
    if kind.startswith("int_"):
        hint = "without quotes" if isinstance(value, str) and value.isdigit() else None
        return expected("a whole number", value, hint)
    if kind in ("too_short", "string_too_short"):
        return expected("at least one item" if kind == "too_short" else "text", value)
    limits = {
        "greater_than_equal": ("at least", "ge"),
        "greater_than": ("more than", "gt"),
        "less_than_equal": ("at most", "le"),
        "less_than": ("less than", "lt"),
    }
    if kind in limits:
        words, bound = limits[kind]
        return expected(f"{words} {context[bound]}", value)
    return expected(message[:1].lower() + message[1:], value)


def _unknown_key(path: Path, value: Any, root: type[Section]) -> Fault:
    section, key = _section_at(path[:-1], root), str(path[-1])
    known = [name for name, _ in fields_of(section)] if section else []
    if section and section.choice_noun != "key" and isinstance(value, dict):
        noun = section.choice_noun
        hint = did_you_mean(key, section.exactly_one, f"{noun}s")
        return Fault(f"unknown {noun} {key!r}", hint)
    return Fault(f"unknown key {key!r}", did_you_mean(key, known))


def _missing_key(path: Path, root: type[Section]) -> Fault:
    return Fault(f"the key {str(path[-1])!r} is missing", field_hint(path, root))


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
            section = _section_of(info, isinstance(after, int)) if info else None
    return section


def _section_of(info: FieldInfo, of_item: bool) -> type[Section] | None:
    inner = info.annotation
    return section_in(inner, of_item) or section_in(inner)
