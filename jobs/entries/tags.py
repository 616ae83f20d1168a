# SPDX-License-Identifier: Apache-2.0
"""The tags of entry templates: those of MakeLDIF that make sense for single entries.

A value of a template is taken apart into parts: nodes of a request template, references
to other attributes, and tags that say whether the value is there at all. entry_template
puts the parts of an entry together.
"""

from __future__ import annotations

import base64
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ldapslam.base.fault import Fault, did_you_mean, expected
from ldapslam.jobs.entries.names import FIRST, LAST
from ldapslam.jobs.requests.pattern import parse_pattern
from ldapslam.jobs.requests.pattern_kinds import CHARSETS
from ldapslam.jobs.requests.template import (
    CERTAIN_PPM,
    FILE_RANDOM,
    FILE_SEQUENCE,
    MAX_VALUE_BYTES,
    MAX_VARIABLE_BYTES,
    RANDOM_STRING,
    SEQUENCE,
    UNIFORM,
    UNIQUE,
    UUID,
    Node,
    ValueSource,
    choice,
)

#: For `ldapslam job describe`.
NOTATION = """\
Entry templates, in the notation of MakeLDIF: a text file of templates, with an
empty line after each.

    define NAME=TEXT       [NAME] stands for the text from here on
    template: NAME         begins a template
    extends: NAME          the lines of another one come first
    rdnAttr: ATTRIBUTE     what the RDN is made of; a+b for several
    ATTRIBUTE: VALUE       a value; several lines for several values
    # …                    a comment; templates begin after the branches, if any

In values, besides value patterns:

    {ATTRIBUTE}            the attribute's value
    {ATTRIBUTE:N}          its first N bytes, whole characters
    <presence:P>           the line is there for P percent of the entries
    <ifpresent:ATTRIBUTE>  the line is there if the attribute is;
                           <ifpresent:ATTRIBUTE:VALUE> if it has this value
    <ifabsent:…>           the contrary
    <first> <last>         a first and a last name, at random
    <dn> <rdn> <parentdn>  of the entry
    <random:alpha:N>       N random letters; also alphanumeric, hex, base64
    <random:alpha:N:M>     N to M of them
    <random:chars:SET:N>   of a set; also with :M
    <random:numeric:N>     N digits; <random:numeric:LO:HI> a number,
                           <random:numeric:LO:HI:N> padded to N digits
    <random:telephone>     a telephone number
    <random:month>         a month; <random:month:N> its first N letters
    <guid>                 a UUID
    <sequential>           0, 1, 2, … over the whole fleet; <sequential:START>
    <entryNumber>          a number that comes once in the whole run
    <list:A,B,C>           one of them; with weights, of all, <list:A:3,B:1>
    <file:PATH>            a line of a file at random, <file:PATH:sequential> in
                           turn; relative to the template
    <base64:TEXT>          a constant in base64; <base64:CHARSET:TEXT>
    <loop:LO:HI>           repeats the line with each number
    \\< \\{ \\[ \\\\            the character itself
"""

_MONTHS = (
    "January February March April May June July August September October November "
    "December"
).split()
_MAX_LOOP = 1_000
_ALPHABETS = ("alpha", "alphanumeric", "hex", "base64")
#: MakeLDIF's tags of whole trees, of code, and those for which DNs are rewritten.
_UNSUPPORTED = {
    "_dn": "<dn> is the DN as it is",
    "_parentdn": "<parentdn> is the DN as it is",
    "ancestordn": "write the DN out: an add has one parent",
    "_ancestordn": "write the DN out: an add has one parent",
    "parent": "the parent of an added entry is not known",
    "csvfield": "put the values in a file, one on each line: <file:PATH>",
    "exec": "nothing is executed: put its output in a file, <file:PATH>",
    "custom": "code is not loaded from templates",
}

_TOKEN = re.compile(r"\\([<{\[\\>}\]])|<([^<>]*)>|\{([^{}]*)\}")
_WEIGHTED = re.compile(r"(.*)[:;](\d+)", re.DOTALL)


@dataclass(frozen=True)
class Reference:
    """The value of another attribute, or its first bytes."""

    attribute: str
    #: 0: all.
    limit: int = 0


@dataclass(frozen=True)
class Name:
    """One of the entry's names."""

    #: 'dn', 'rdn' or 'parentdn'.
    which: str


class TreePart:
    """A part that only the values of whole trees have: see population_tags."""


@dataclass(frozen=True)
class Condition:
    """The value is there if an attribute is, or is not, or has a value."""

    attribute: str
    value: str | None
    present: bool


Part = Node | Reference | Name | TreePart
#: Parsers of tags by name: of the arguments and the whole tag, for faults.
Tags = Mapping[str, Callable[[Sequence[str], str], tuple[Part, ...]]]


@dataclass
class Value:
    """A value of a template, taken apart."""

    parts: list[Part] = field(default_factory=list)
    ppm: int = CERTAIN_PPM
    conditions: list[Condition] = field(default_factory=list)

    @property
    def constant(self) -> bytes | None:
        """Its text, if that is the same for every entry."""
        texts = [part for part in self.parts if isinstance(part, bytes)]
        return b"".join(texts) if len(texts) == len(self.parts) else None


def parse_values(text: str, names: Mapping[str, int], folder: str) -> list[Value]:
    """The values of a template's line: one, or one for each turn of a loop. `folder` is
    the template's, which files are relative to."""
    loops = re.findall(r"<loop:(\d+):(\d+)>", text, re.IGNORECASE)
    if not loops:
        return [parse_value(text, names, folder)]
    low, high = int(loops[0][0]), int(loops[0][1])
    if len(loops) > 1 or not low <= high < low + _MAX_LOOP:
        raise expected(f"one <loop:LO:HI> of at most {_MAX_LOOP} turns", text)
    return [
        parse_value(
            re.sub(r"<loop:\d+:\d+>", str(number), text, flags=re.IGNORECASE),
            names,
            folder,
        )
        for number in range(low, high + 1)
    ]


def parse_value(
    text: str, names: Mapping[str, int], folder: str, tags: Tags | None = None
) -> Value:
    """One value; `tags` are known besides those of an add, and before them."""
    value = Value()
    end = 0
    for token in _TOKEN.finditer(text):
        value.parts += parse_pattern(text[end : token.start()], names).nodes
        end = token.end()
        if token[1]:
            value.parts.append(token[1].encode())
        elif token[2] is not None:
            _tag(token[2], value, folder, tags or {})
        else:
            value.parts += _reference(token[3], tags or {})
    value.parts += parse_pattern(text[end:], names).nodes
    return value


def _reference(body: str, tags: Tags) -> tuple[Part, ...]:
    attribute, _, limit = body.partition(":")
    key = attribute.strip().lower()
    if key == "parent" and "parent" in tags and limit and not limit.isdigit():
        return tags["parent"](limit.split(":"), body)
    bytes_count = min(parse_count(limit, body), MAX_VARIABLE_BYTES) if limit else 0
    return (Reference(key, bytes_count),)


def _tag(body: str, value: Value, folder: str, tags: Tags) -> None:
    name, *arguments = body.split(":")
    name = name.strip().lower()
    if name in tags:
        value.parts += tags[name](arguments, body)
    elif name in _UNSUPPORTED:
        raise Fault(f"the tag <{name}> is not supported", _UNSUPPORTED[name])
    elif name == "presence":
        value.ppm = _percentage(arguments, body)
    elif name in ("ifpresent", "ifabsent"):
        expect_form(1 <= len(arguments) <= 2, body, f"<{name}:ATTRIBUTE>")
        attribute, wanted = arguments[0].lower(), ":".join(arguments[1:]) or None
        value.conditions.append(Condition(attribute, wanted, name == "ifpresent"))
    elif name in ("dn", "rdn", "parentdn"):
        expect_form(not arguments, body, f"<{name}>")
        value.parts.append(Name(name))
    elif name == "file":
        value.parts.append(_file(arguments, body, folder))
    elif name in _TAGS:
        value.parts += _TAGS[name](arguments, body)
    else:
        known = (*_TAGS, "presence", "ifpresent", "ifabsent", "dn", "rdn", "parentdn")
        hint = did_you_mean(name, (*known, *tags, "file", "loop"), "tags")
        raise Fault(f"unknown tag <{body}>", f"{hint}; a < itself is \\<")


def expect_form(is_right: bool, body: str, form: str) -> None:
    if not is_right:
        raise expected(f"a tag of the form {form}", f"<{body}>")


def parse_count(text: str, body: str, least: int = 1) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20) or not (
        least <= int(text) <= 1 << 62
    ):
        raise expected(f"a number of at least {least} in <{body}>", text)
    return int(text)


def _percentage(arguments: Sequence[str], body: str) -> int:
    text = arguments[0] if len(arguments) == 1 else ""
    if not re.fullmatch(r"\d{1,3}(\.\d{1,4})?", text) or float(text) > 100:
        raise expected("a tag of the form <presence:PERCENT>", f"<{body}>")
    return round(float(text) * CERTAIN_PPM / 100)


def _random(arguments: Sequence[str], body: str) -> tuple[Node, ...]:
    kind, *rest = arguments or ("",)
    kind = kind.lower()
    if kind == "numeric":
        return (_random_number(rest, body),)
    if kind == "telephone":
        expect_form(not rest, body, "<random:telephone>")
        three, four = _digits(3), _digits(4)
        return (three, b"-", _digits(3), b"-", four)
    if kind == "month":
        expect_form(len(rest) <= 1, body, "<random:month:N>")
        length = parse_count(rest[0], body) if rest else None
        return (choice([(month[:length].encode(), 1) for month in _MONTHS]),)
    if kind == "chars":
        expect_form(len(rest) >= 2, body, "<random:chars:SET:N>")
        charset, rest = rest[0], rest[1:]
        expect_form(0 < len(charset) <= 256, body, "<random:chars:SET:N>")
    elif kind in _ALPHABETS:
        charset = CHARSETS[kind]
    else:
        raise expected(
            "a tag <random:KIND:…> with alpha, numeric, alphanumeric, hex, base64, "
            "chars, telephone or month",
            f"<{body}>",
        )
    expect_form(1 <= len(rest) <= 2, body, f"<random:{kind}:…:N> or …:N:M>")
    low = parse_count(rest[0], body)
    high = parse_count(rest[-1], body)
    if not low <= high <= MAX_VALUE_BYTES or not charset.isascii():
        raise expected(f"1 to {MAX_VALUE_BYTES} ASCII characters", f"<{body}>")
    return (ValueSource(RANDOM_STRING, low, high, data=charset.encode()),)


def _random_number(arguments: Sequence[str], body: str) -> ValueSource:
    expect_form(1 <= len(arguments) <= 3, body, "<random:numeric:LO:HI:DIGITS>")
    if len(arguments) == 1:
        return _digits(parse_count(arguments[0], body))
    low, high = parse_count(arguments[0], body, 0), parse_count(arguments[1], body, 0)
    width = parse_count(arguments[2], body) if len(arguments) == 3 else 0
    if low > high or width > 64:
        raise expected("a number from low to high, of at most 64 digits", f"<{body}>")
    return ValueSource(UNIFORM, low, high, width=width)


def _digits(count: int) -> ValueSource:
    if count > MAX_VALUE_BYTES:
        raise expected(f"at most {MAX_VALUE_BYTES} digits", count)
    return ValueSource(RANDOM_STRING, count, count, data=b"0123456789")


def _sequential(arguments: Sequence[str], body: str) -> tuple[Node, ...]:
    expect_form(len(arguments) <= 1, body, "<sequential:START>")
    start = parse_count(arguments[0], body, 0) if arguments else 0
    return (ValueSource(SEQUENCE, start, (1 << 63) - 2),)


def _list(arguments: Sequence[str], body: str) -> tuple[Node, ...]:
    texts = ":".join(arguments).split(",")
    weighted = [_WEIGHTED.fullmatch(text) for text in texts]
    choices = [(text.encode(), 1) for text in texts]
    if all(weighted):
        choices = [(match[1].encode(), int(match[2])) for match in weighted if match]
    elif any(weighted):
        wrong = texts[weighted.index(None)]
        raise Fault(
            f"expected a weight behind each text of <{body}> or behind none, got "
            f"{wrong!r}",
            f"such as {wrong.partition(':')[0]}:1",
        )
    expect_form(bool(body.partition(":")[2]), body, "<list:A,B,C>")
    return (choice(choices),)


def _file(arguments: Sequence[str], body: str, folder: str) -> ValueSource:
    order = arguments[-1].lower() if len(arguments) == 2 else "random"
    expect_form(
        1 <= len(arguments) <= 2
        and bool(arguments[0])
        and order in ("random", "sequential"),
        body,
        "<file:PATH> or <file:PATH:sequential>",
    )
    path = posixpath.normpath(posixpath.join(folder, arguments[0]))
    kind = FILE_SEQUENCE if order == "sequential" else FILE_RANDOM
    return ValueSource(kind, data=path.encode())


def _base64(arguments: Sequence[str], body: str) -> tuple[Node, ...]:
    expect_form(bool(arguments), body, "<base64:TEXT>")
    charset, text = "utf-8", ":".join(arguments)
    if len(arguments) > 1:
        charset, text = arguments[0], ":".join(arguments[1:])
    try:
        return (base64.b64encode(text.encode(charset)),)
    except (LookupError, ValueError):  # such as a NUL in the name
        raise expected(f"a text in the charset {charset!r}", f"<{body}>") from None


def _plain(form: str, *nodes: Node) -> Callable[[Sequence[str], str], tuple[Node, ...]]:
    def make(arguments: Sequence[str], body: str) -> tuple[Node, ...]:
        expect_form(not arguments, body, form)
        return nodes

    return make


_TAGS: dict[str, Callable[[Sequence[str], str], tuple[Node, ...]]] = {
    "first": _plain("<first>", choice([(name.encode(), 1) for name in FIRST])),
    "last": _plain("<last>", choice([(name.encode(), 1) for name in LAST])),
    "guid": _plain("<guid>", ValueSource(UUID)),
    "entrynumber": _plain("<entryNumber>", ValueSource(UNIQUE)),
    "random": _random,
    "sequential": _sequential,
    "list": _list,
    "base64": _base64,
}
