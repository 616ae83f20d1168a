# SPDX-License-Identifier: Apache-2.0
"""The job file explained, and its JSON Schema, from the model's own descriptions.

Plain text of at most 80 columns; the CLI prints it (`ldapslam describe`).
"""

from __future__ import annotations

import textwrap
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from ldapslam.base.errors import ConfigError
from ldapslam.base.fault import did_you_mean
from ldapslam.jobs.fields import thresholds
from ldapslam.jobs.fields.result_codes import NOTATION as RESULT_NOTATION
from ldapslam.jobs.fields.sections import (
    Kind,
    Section,
    default_in_file,
    fields_of,
    kind_of,
    section_in,
    sections_in,
)
from ldapslam.jobs.model import Job
from ldapslam.jobs.types import job_types

_WIDTH = 80
_INDENT = "    "

#: Topic of the keys of the whole job file.
JOB = "job"
#: Topic with the job types, as `types.auth`: what they are, and their options.
TYPES = "types"
#: A topic below one of these is also described by its last word.
_OPERATIONS = "streams.operations"


def _notation(name: str, **lists: Iterable[str]) -> str:
    """The text of a notation, from its file, with lists of names in their places."""
    file = Path(__file__).with_name("notations") / f"{name}.txt"
    text = file.read_text(encoding="utf-8")
    for place, names in lists.items():
        text = text.replace(f"{{{place}}}", ", ".join(names))
    return text


#: How figures are named.
FIGURE_NAMES = _notation(
    "figures",
    statistics=thresholds.STATISTICS,
    of_outages=thresholds.OUTAGE_STATISTICS,
    monitors=thresholds.MONITORS,
)
#: Notations that the fields use.
NOTATIONS = {
    "patterns": _notation("patterns"),
    "templates": _notation("templates"),
    "results": RESULT_NOTATION,
    "thresholds": _notation(
        "thresholds",
        defaults=("\n    ".join(thresholds.DEFAULT_THRESHOLDS),),
        of_servers=thresholds.PARTS["server"],
        of_agents=thresholds.PARTS["agent"],
        of_intervals=thresholds.OF_INTERVALS,
        comparisons=thresholds.COMPARISONS,
    ),
    "figures": FIGURE_NAMES
    + "".join(
        f"\n    {name} ({unit})\n" + textwrap.indent(textwrap.fill(about, 70), " " * 8)
        for name, unit, about in thresholds.figure_rows()
    ),
    "vars": _notation("vars"),
    "extends": _notation("extends"),
}


def topics() -> list[str]:
    """Return what `describe` takes, but for single fields."""
    paths = [path.replace("[]", "") for path in sections_of_jobs() if path]
    words = [
        path.rpartition(".")[2]
        for path in paths
        if path.rpartition(".")[0] in (_OPERATIONS, TYPES)
    ]
    return sorted({*paths, *words, JOB, TYPES, *NOTATIONS})


def sections_of_job() -> list[str]:
    """Return the paths of the sections of a job file, to the second level."""
    paths = [path.replace("[]", "") for path in sections_of_jobs() if path]
    return [one for one in paths if one.count(".") < 2 and not one.startswith(TYPES)]


def describe(topic: str) -> str:
    """Return the text of a section (`streams.load`) and those inside it, of an
    operation (`search`), a type (`auth`), a notation, or a field (`let`,
    `streams.operations.let`)."""
    sections = sections_of_jobs()
    wanted = topic.replace("[]", "").strip(".")
    prefixes = tuple(f"{one}{wanted}." for one in ("", f"{_OPERATIONS}.", f"{TYPES}."))
    chosen = {
        path: section
        for path, section in sections.items()
        if wanted and f"{path.replace('[]', '')}.".startswith(prefixes)
    }
    if wanted == JOB:
        chosen = {"": sections[""]}
    if wanted in NOTATIONS:
        notation = f"{wanted}\n{'-' * len(wanted)}\n{NOTATIONS[wanted]}"
    else:
        notation = ""
    if chosen or notation:
        parts = [_section_text(path, section) for path, section in once(chosen)]
        return "\n".join([*parts, notation]).strip("\n") + "\n"
    if fields := _fields_named(wanted, sections):
        return "\n".join(fields)
    raise ConfigError(
        f"the job file has no section {topic!r}",
        hint=did_you_mean(wanted, topics(), "sections"),
    )


def sections_of_jobs() -> dict[str, type[Section]]:
    """Every section of a job file, and the options of each type, by path."""
    types_of_jobs = {
        f"{TYPES}.{name}": one.Options for name, one in job_types().items()
    }
    return dict(_sections(Job, "")) | types_of_jobs


def describe_section(section: type[Section], title: str) -> str:
    """A section and those inside it, such as the study file."""
    found = dict(_sections(section, ""))
    return "\n".join(_section_text(path or title, one) for path, one in once(found))


def once(
    sections: Mapping[str, type[Section]],
) -> Iterator[tuple[str, type[Section]]]:
    """Each section where it stands highest, in their order."""
    highest: dict[type[Section], str] = {}
    for path, section in sections.items():
        other = highest.get(section)
        if other is None or path.count(".") < other.count("."):
            highest[section] = path
    for path, section in sections.items():
        if highest[section] == path:
            yield path, section


def _sections(section: type[Section], path: str) -> Iterator[tuple[str, type[Section]]]:
    """Every section by its path, a section before those inside it."""
    yield path, section
    for key, info in fields_of(section):
        for inner, in_list in sections_in(info.annotation):
            list_mark = "[]" if in_list else ""
            yield from _sections(inner, f"{path}.{key}{list_mark}".lstrip("."))


def _section_text(path: str, section: type[Section]) -> str:
    title = path or "job file"
    lines = [title, "-" * len(title)]
    if path.startswith(f"{TYPES}."):
        job_type = job_types()[path.removeprefix(f"{TYPES}.")]
        lines += [*_wrap(job_type.summary(), ""), "", "Its options:"]
    lines += _wrap(section.summary(), "")
    if section.exactly_one:
        lines += _wrap(f"Give exactly one of {', '.join(section.exactly_one)}.", "")
    if section.at_least_one:
        lines += _wrap(f"Give at least one of {', '.join(section.at_least_one)}.", "")
    for key, info in fields_of(section):
        lines += ["", *_field_lines(key, info)]
    return "\n".join(lines) + "\n"


def _field_lines(key: str, info: FieldInfo) -> list[str]:
    lines = [f"  {key}: {kind_text(info)}{default_text(info)}"]
    lines += _wrap(info.description or "", _INDENT)
    if info.examples and section_in(info.annotation) is None:
        lines.append(f"{_INDENT}such as {info.examples[0]}")
    return lines


def _fields_named(name: str, sections: Mapping[str, type[Section]]) -> list[str]:
    """Every field of this name, or the one of this path, with its section's path."""
    section_path, _, last = name.rpartition(".")
    return [
        "\n".join((path or "job file", *_field_lines(key, info))) + "\n"
        for path, section in once(sections)
        for key, info in fields_of(section)
        if key == last and section_path in ("", path.replace("[]", ""))
    ]


def _wrap(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def kind_text(info: FieldInfo) -> str:
    """What a value is, for people."""
    kind = kind_of(info)
    return kind.name if kind else _kind_of(info.annotation)


def _kind_of(annotation: Any) -> str:
    """What a reader of the job file calls a type."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        kinds = [part.name for part in arguments[1:] if isinstance(part, Kind)]
        return kinds[-1] if kinds else _kind_of(arguments[0])
    if origin in (Union, types.UnionType):
        return " or ".join(_kind_of(one) for one in arguments if one is not type(None))
    if origin is Literal:
        return "|".join(str(one) for one in arguments)
    if origin is list:
        return f"list of {_plural(_kind_of(arguments[0]))}"
    if origin is dict:
        return f"mapping of {_kind_of(arguments[0])} to {_kind_of(arguments[1])}"
    if annotation is int:
        return "whole number"
    return "mapping" if section_in(annotation) else "text"


def _plural(noun: str) -> str:
    return noun if noun.endswith(("s", "text")) else f"{noun}s"


def default_text(info: FieldInfo) -> str:
    """What follows the kind: whether the key must be there, or its default."""
    if info.is_required():
        return ", required"
    value = default_in_file(info)
    if value is None:
        return ""
    return f", default {str(value).lower() if isinstance(value, bool) else value}"
