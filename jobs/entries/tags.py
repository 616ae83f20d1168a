# SPDX-License-Identifier: Apache-2.0
"""The tags of entry templates, MakeLDIF's and more: values taken apart into parts.

A part is a node of a program (template.py) or something that entry.py resolves: a
reference to another attribute, a name of the entry, of its ancestors, of a person.
Conditions and loops belong to the whole value.
"""

from __future__ import annotations

import base64
import codecs
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ldapslam.base.fault import Fault, did_you_mean, expected
from ldapslam.jobs.requests.pattern import CHARSETS, parse_pattern
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
    Loop,
    Node,
    Number,
    Place,
    Placed,
    ValueSource,
    choice,
)

_MONTHS = (
    "January February March April May June July August September October November "
    "December"
).split()
_ALPHABETS = ("alpha", "alphanumeric", "hex", "base64")
_MAX_DEPTH = 31
#: Where <sequential> ends.
_LAST_NUMBER = (1 << 63) - 2
_UNSUPPORTED = {
    "exec": "nothing is executed: put its output in a file, <file:PATH>",
    "custom": "code is not loaded from templates",
    "csvfield": "put the column in a file, a value on each line: "
    "<file:PATH:sequential>",
}

_BASE64 = re.compile(r"(?<!\\)<base64:((?:[^<>]|<[^<>]*>)*)>", re.IGNORECASE)
_TOKEN = re.compile(r"\\([<{\[\\>}\]])|<([^<>]*)>|\{([^{}]*)\}")
_PLACEHOLDERS = re.compile(r"[<{\[]")
_WEIGHTED = re.compile(r"(.*)[:;](\d+)", re.DOTALL)


@dataclass(frozen=True)
class Reference:
    """The value of another attribute, or its first bytes."""

    attribute: str
    #: 0: all.
    limit: int = 0


@dataclass(frozen=True)
class Rdn:
    """The entry's RDN."""


@dataclass(frozen=True)
class AncestorDn:
    """The DN of an ancestor, or with 0 the entry's own."""

    levels: int
    has_underscores: bool = False


@dataclass(frozen=True)
class ParentValue:
    attribute: str
    #: Most bytes; 0: all.
    limit: int


@dataclass(frozen=True)
class PersonName:
    #: FIRST or LAST.
    place: Place


@dataclass(frozen=True)
class Encoded:
    """Parts in base64."""

    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Condition:
    """The value is there if an attribute is, or is not, or has a value."""

    attribute: str
    value: str | None
    present: bool


Part = Node | Reference | Rdn | AncestorDn | ParentValue | PersonName | Encoded


@dataclass
class Value:
    """A value of a template, taken apart."""

    parts: list[Part] = field(default_factory=list)
    ppm: int = CERTAIN_PPM
    conditions: list[Condition] = field(default_factory=list)
    #: The loop of the line, without its parts.
    loop: Loop | None = None

    @property
    def constant(self) -> bytes | None:
        """Its text, if that is the same for every entry."""
        texts = [part for part in self.parts if isinstance(part, bytes)]
        return b"".join(texts) if len(texts) == len(self.parts) else None

    @property
    def is_certain(self) -> bool:
        """Whether the line has no condition."""
        return self.ppm >= CERTAIN_PPM and not self.conditions


def all_parts(parts: Sequence[Part]) -> Iterator[Part]:
    """The parts, with those within base64."""
    for part in parts:
        yield part
        if isinstance(part, Encoded):
            yield from all_parts(part.parts)


def parse_value(text: str, names: Mapping[str, int], folder: str) -> Value:
    """The value of a template's line; a Fault says what is wrong. Patterns may use the
    variables `names`; files are relative to `folder`, the template's."""
    value = Value()
    end = 0
    for match in _BASE64.finditer(text):
        _parse(text[end : match.start()], value, names, folder)
        value.parts.append(_base64(match[1], value, names, folder))
        end = match.end()
    _parse(text[end:], value, names, folder)
    return value


def _parse(text: str, value: Value, names: Mapping[str, int], folder: str) -> None:
    """Adds the parts of a text without base64."""
    end = 0
    for token in _TOKEN.finditer(text):
        value.parts += parse_pattern(text[end : token.start()], names).nodes
        end = token.end()
        if token[1]:
            value.parts.append(token[1].encode())
        elif token[2] is not None:
            _tag(token[2], value, folder)
        else:
            value.parts.append(_reference(token[3]))
    value.parts += parse_pattern(text[end:], names).nodes


def _base64(
    body: str, value: Value, names: Mapping[str, int], folder: str
) -> bytes | Encoded:
    charset, colon, rest = body.partition(":")
    if colon and _is_charset(charset):
        if not _PLACEHOLDERS.search(rest):
            try:
                return base64.b64encode(rest.encode(charset))
            except ValueError:
                raise expected(
                    f"a text in the charset {charset!r}", f"<base64:{body}>"
                ) from None
        if codecs.lookup(charset).name != "utf-8":
            raise Fault(
                f"<base64:{body}> has tags, which are UTF-8, and a charset",
                "leave the charset out",
            )
        body = rest
    inner = Value(loop=value.loop)
    _parse(body, inner, names, folder)
    if not inner.is_certain:
        raise Fault(
            f"a condition stands within <base64:{body}>", "put it before the tag"
        )
    value.loop = inner.loop
    constant = inner.constant
    if constant is not None:
        return base64.b64encode(constant)
    return Encoded(tuple(inner.parts))


def _is_charset(name: str) -> bool:
    try:
        return isinstance("".encode(name), bytes)
    except (LookupError, ValueError):  # such as a NUL in the name
        return False


def _reference(body: str) -> Part:
    attribute, _, limit = body.partition(":")
    key = attribute.strip().lower()
    if key == "parent" and limit and not limit.isdigit():
        return _parent(limit.split(":"), body)[0]
    bytes_count = min(parse_count(limit, body), MAX_VARIABLE_BYTES) if limit else 0
    return Reference(key, bytes_count)


def _tag(body: str, value: Value, folder: str) -> None:
    name, *arguments = body.split(":")
    name = name.strip().lower()
    if name in _UNSUPPORTED:
        raise Fault(f"the tag <{name}> is not supported", _UNSUPPORTED[name])
    if name == "presence":
        value.ppm = _percentage(arguments, body)
    elif name in ("ifpresent", "ifabsent"):
        expect_form(1 <= len(arguments) <= 2, body, f"<{name}:ATTRIBUTE>")
        attribute, wanted = arguments[0].lower(), ":".join(arguments[1:]) or None
        value.conditions.append(Condition(attribute, wanted, name == "ifpresent"))
    elif name in ("loop", "pick"):
        if value.loop is not None:
            raise expected("one <loop:…> or <pick:…> in a line", f"<{body}>")
        value.loop = (_loop if name == "loop" else _pick)(arguments, body)
        value.parts.append(Number())
    elif name == "file":
        value.parts.append(_file(arguments, body, folder))
    elif name in _TAGS:
        value.parts += _TAGS[name](arguments, body)
    else:
        known = (*_TAGS, "presence", "ifpresent", "ifabsent", "file", "loop", "pick")
        hint = did_you_mean(name, (*known, "base64"), "tags")
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


def _sequential(arguments: Sequence[str], body: str) -> tuple[Part, ...]:
    resets = arguments[1].lower() if len(arguments) == 2 else "false"
    expect_form(
        len(arguments) <= 2 and resets in ("true", "false"),
        body,
        "<sequential:START> or <sequential:START:true>",
    )
    start = parse_count(arguments[0], body, 0) if arguments else 0
    source = ValueSource(SEQUENCE, start, _LAST_NUMBER)
    return (Placed(source, Place.SIBLING) if resets == "true" else source,)


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


def _loop(arguments: Sequence[str], body: str) -> Loop:
    expect_form(1 <= len(arguments) <= 2, body, "<loop:LO:HI>")
    if len(arguments) == 1:
        turns = parse_count(arguments[0], body)
        return Loop(0, turns, turns, 0, ())
    low, high = (parse_count(text, body, 0) for text in arguments)
    if low > high:
        raise expected(f"a loop from low to high in <{body}>", f"{low}:{high}")
    return Loop(low, high - low + 1, high - low + 1, 0, ())


def _pick(arguments: Sequence[str], body: str) -> Loop:
    expect_form(2 <= len(arguments) <= 3, body, "<pick:COUNT:N>")
    *counts, to = (parse_count(text, body, 0) for text in arguments)
    if counts[0] > counts[-1]:
        raise expected(f"<pick:MIN:MAX:N> with MIN up to MAX in <{body}>", counts[0])
    return Loop(None, min(counts[0], to), min(counts[-1], to), to, ())


def _plain(form: str, part: Part) -> Callable[[Sequence[str], str], tuple[Part, ...]]:
    def make(arguments: Sequence[str], body: str) -> tuple[Part, ...]:
        expect_form(not arguments, body, form)
        return (part,)

    return make


#: Parsers of tags by name: of the arguments and the whole tag, for faults.
_TAGS: dict[str, Callable[[Sequence[str], str], tuple[Part, ...]]] = {
    "first": _plain("<first>", PersonName(Place.FIRST)),
    "last": _plain("<last>", PersonName(Place.LAST)),
    "guid": _plain("<guid>", ValueSource(UUID)),
    "entrynumber": _plain("<entryNumber>", ValueSource(UNIQUE)),
    "rdn": _plain("<rdn>", Rdn()),
    "dn": _plain("<dn>", AncestorDn(0)),
    "parentdn": _plain("<parentdn>", AncestorDn(1)),
    "_dn": _plain("<_dn>", AncestorDn(0, True)),
    "_parentdn": _plain("<_parentdn>", AncestorDn(1, True)),
    "ancestordn": _ancestor_dn,
    "_ancestordn": _ancestor_dn,
    "random": _random,
    "sequential": _sequential,
    "list": _list,
    "parent": _parent,
}
