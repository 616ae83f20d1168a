# SPDX-License-Identifier: Apache-2.0
"""The tags that only whole populations have, besides those of entry_tags.

An entry of a population has ancestors, siblings and a number: <parent:…>,
<ancestordn:…> and <sequential> are of those. A line with <loop:…> or <pick:…> is many
values, made by the generator one after the other. MakeLDIF's <exec> and <custom> are
not supported.
"""

from __future__ import annotations

import base64
import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from ldapslam.base.fault import Fault, expected
from ldapslam.jobs.entries.tags import (
    Part,
    Tags,
    TreePart,
    Value,
    expect_form,
    parse_count,
    parse_value,
)
from ldapslam.jobs.requests.template import (
    CERTAIN_PPM,
    MAX_VARIABLE_BYTES,
    SEQUENCE,
    UNIQUE,
    ValueSource,
)

#: For `ldapslam job describe`.
NOTATION = """\
Populations: what `ldapslam data generate` makes of a template file, besides
the above.

    branch: DN             begins an entry that is there once; lines of
                           attributes may follow. Without objectClass it gets
                           that of its RDN
    subordinateTemplate: NAME:N
                           in a branch or a template: N entries of a template
                           below each entry

    <first> <last>         together: no combination comes twice; numbered once
                           all have been had
    <sequential>           0, 1, 2, … among the entries of the template;
                           <sequential:START>; <sequential:START:true> begins
                           anew below each parent
    <entryNumber>          a number that comes once in the whole population
    <ancestordn:N>         the DN of the ancestor N levels above; 1: the parent
    <_dn> <_parentdn> <_ancestordn:N>
                           the same with underscores in the place of commas
    <parent:ATTRIBUTE>     the parent's value, also {parent:ATTRIBUTE}; of both
                           the first N bytes with :N
    <csvfield:N>           of the row of --csv that has the entry's number
                           among those of its template; 0 is the first field,
                           names are those of --csv-header
    <base64:TEXT>          TEXT may hold tags and {attributes}
    <loop:LO:HI>           repeats the line with each number; <loop:N>: 0 to
                           N - 1
    <pick:COUNT:N>         repeats the line with COUNT different numbers below
                           N, at random, or with all of fewer; <pick:MIN:MAX:N>:
                           MIN to MAX of them

{attribute} is the attribute's first value, empty if that is not there. A line
whose value is empty is left out.
"""

_BASE64 = re.compile(r"(?<!\\)<base64:((?:[^<>]|<[^<>]*>)*)>", re.IGNORECASE)
_HOLES = re.compile(r"[<{\[]")
_MAX_DEPTH = 31


class Place(IntEnum):
    """Which number stands for the place of a value in its sequence: enum
    slam_ldif_place."""

    DRAWN = 0
    INDEX = 1
    SIBLING = 2
    POSITION = 3
    FIRST = 4
    LAST = 5


@dataclass(frozen=True)
class Placed(TreePart):
    """The text of a source in turn, by the entry's number."""

    source: ValueSource
    place: Place


@dataclass(frozen=True)
class PersonName(TreePart):
    """A line of the file of first or last names."""

    #: FIRST or LAST.
    place: Place


@dataclass(frozen=True)
class AncestorDn(TreePart):
    """The DN of an ancestor, or with 0 the entry's own."""

    levels: int
    has_underscores: bool


@dataclass(frozen=True)
class ParentValue(TreePart):
    attribute: str
    #: Most bytes; 0: all.
    limit: int


@dataclass(frozen=True)
class CsvField(TreePart):
    #: Its number, or its name in the header.
    field: str


@dataclass(frozen=True)
class Base64(TreePart):
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Turns(TreePart):
    """The number of a turn of the line's loop."""

    #: First number of a loop; None: different numbers are picked from those below `to`.
    first: int | None
    #: Least and most turns.
    least: int
    most: int
    to: int = 0


def parse_population_value(text: str, folder: str) -> Value:
    """The value of a line of a template or a branch; a Fault says what is wrong."""
    value = Value()
    end = 0
    for match in _BASE64.finditer(text):
        _join(value, parse_value(text[end : match.start()], {}, folder, TAGS))
        value.parts.append(_base64(match[1], folder))
        end = match.end()
    _join(value, parse_value(text[end:], {}, folder, TAGS))
    if sum(isinstance(part, Turns) for part in all_parts(value.parts)) > 1:
        raise expected("one <loop:…> or <pick:…> in a line", text)
    return value


def all_parts(parts: Sequence[Part]) -> list[Part]:
    """The parts, with those within base64."""
    found: list[Part] = []
    for part in parts:
        found.append(part)
        if isinstance(part, Base64):
            found += all_parts(part.parts)
    return found


def turns_of(value: Value) -> Turns | None:
    """The loop of a value's line."""
    found = [part for part in all_parts(value.parts) if isinstance(part, Turns)]
    return found[0] if found else None


def _join(value: Value, more: Value) -> None:
    value.parts += more.parts
    value.conditions += more.conditions
    if more.ppm != CERTAIN_PPM:
        value.ppm = more.ppm


def _base64(body: str, folder: str) -> bytes | Base64:
    charset, colon, rest = body.partition(":")
    if colon and _is_charset(charset):
        if not _HOLES.search(rest):
            return base64.b64encode(rest.encode(charset))
        if codecs.lookup(charset).name != "utf-8":
            raise Fault(
                f"<base64:{body}> has tags, which are UTF-8, and a charset",
                "leave the charset out",
            )
        body = rest
    inner = parse_value(body, {}, folder, TAGS)
    if inner.conditions or inner.ppm != CERTAIN_PPM:
        raise Fault(
            f"a condition stands within <base64:{body}>", "put it before the tag"
        )
    constant = inner.constant
    if constant is not None:
        return base64.b64encode(constant)
    return Base64(tuple(inner.parts))


def _is_charset(name: str) -> bool:
    try:
        return isinstance("".encode(name), bytes)
    except (LookupError, ValueError):  # such as a NUL in the name
        return False


def _first(arguments: Sequence[str], body: str) -> tuple[Part, ...]:
    expect_form(not arguments, body, "<first>")
    return (PersonName(Place.FIRST),)


def _last(arguments: Sequence[str], body: str) -> tuple[Part, ...]:
    expect_form(not arguments, body, "<last>")
    return (PersonName(Place.LAST),)


def _sequential(arguments: Sequence[str], body: str) -> tuple[Part, ...]:
    resets = arguments[1].lower() if len(arguments) == 2 else "false"
    expect_form(
        len(arguments) <= 2 and resets in ("true", "false"),
        body,
        "<sequential:START> or <sequential:START:true>",
    )
    start = parse_count(arguments[0], body, 0) if arguments else 0
    place = Place.SIBLING if resets == "true" else Place.INDEX
    return (Placed(ValueSource(SEQUENCE, start, (1 << 63) - 2), place),)


def _entry_number(arguments: Sequence[str], body: str) -> tuple[Part, ...]:
    expect_form(not arguments, body, "<entryNumber>")
    return (Placed(ValueSource(UNIQUE), Place.POSITION),)


def _underscored_dn(arguments: Sequence[str], body: str) -> tuple[Part, ...]:
    expect_form(not arguments, body, "<_dn>")
    return (AncestorDn(0, True),)


def _underscored_parent_dn(arguments: Sequence[str], body: str) -> tuple[Part, ...]:
    expect_form(not arguments, body, "<_parentdn>")
    return (AncestorDn(1, True),)


def _ancestor_dn(arguments: Sequence[str], body: str) -> tuple[Part, ...]:
    expect_form(len(arguments) == 1, body, "<ancestordn:N>")
    levels = parse_count(arguments[0], body)
    if levels > _MAX_DEPTH:
        raise expected(f"at most {_MAX_DEPTH} levels in <{body}>", levels)
    return (AncestorDn(levels, body.lstrip().startswith("_")),)


def _parent(arguments: Sequence[str], body: str) -> tuple[Part, ...]:
    expect_form(
        1 <= len(arguments) <= 2 and bool(arguments[0].strip()),
        body,
        "<parent:ATTRIBUTE>",
    )
    limit = parse_count(arguments[1], body) if len(arguments) == 2 else 0
    attribute = arguments[0].strip().lower()
    return (ParentValue(attribute, min(limit, MAX_VARIABLE_BYTES)),)


def _csv_field(arguments: Sequence[str], body: str) -> tuple[Part, ...]:
    expect_form(len(arguments) == 1 and bool(arguments[0]), body, "<csvfield:N>")
    return (CsvField(arguments[0].strip()),)


def _loop(arguments: Sequence[str], body: str) -> tuple[Part, ...]:
    expect_form(1 <= len(arguments) <= 2, body, "<loop:LO:HI>")
    if len(arguments) == 1:
        turns = parse_count(arguments[0], body)
        return (Turns(0, turns, turns),)
    low, high = (parse_count(text, body, 0) for text in arguments)
    if low > high:
        raise expected(f"a loop from low to high in <{body}>", f"{low}:{high}")
    return (Turns(low, high - low + 1, high - low + 1),)


def _pick(arguments: Sequence[str], body: str) -> tuple[Part, ...]:
    expect_form(2 <= len(arguments) <= 3, body, "<pick:COUNT:N>")
    *counts, to = (parse_count(text, body, 0) for text in arguments)
    if counts[0] > counts[-1]:
        raise expected(f"<pick:MIN:MAX:N> with MIN up to MAX in <{body}>", counts[0])
    return (Turns(None, min(counts[0], to), min(counts[-1], to), to),)


TAGS: Tags = {
    "first": _first,
    "last": _last,
    "sequential": _sequential,
    "entrynumber": _entry_number,
    "_dn": _underscored_dn,
    "_parentdn": _underscored_parent_dn,
    "ancestordn": _ancestor_dn,
    "_ancestordn": _ancestor_dn,
    "parent": _parent,
    "csvfield": _csv_field,
    "loop": _loop,
    "pick": _pick,
}
