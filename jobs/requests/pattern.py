# SPDX-License-Identifier: Apache-2.0
"""Value patterns: texts with placeholders that are filled in for each request.

A pattern is parsed before the text around it: `masked` is the text with one private
character per placeholder, so that the grammars of filters and DNs need not know of
patterns, and `unmask` turns any piece of it back into constants and placeholders.

Each kind of placeholder has a parser, which makes the engine's value source of it. What
the engine would refuse is a Fault here, so that a job that loads also compiles there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone

from ldapslam.base.fault import Fault, UnknownName, did_you_mean, got, one_of
from ldapslam.jobs.requests import template
from ldapslam.jobs.requests.template import (
    MAX_VALUE_BYTES,
    MAX_VALUES,
    Node,
    ValueSource,
)

#: RFC 4517 section 3.3.13.
_GENERALIZED_TIME = re.compile(
    r"(\d{4})(\d{2})(\d{2})(\d{2})(?:(\d{2})(\d{2})?)?(?:[.,](\d{1,9}))?"
    r"(?:Z|([+-])(\d{2})(\d{2})?)",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

_TIME_FORMATS = {
    "generalized": template.GENERALIZED,
    "milliseconds": template.MILLISECONDS,
    "seconds": template.SECONDS,
}


def parse_generalized_time(text: str) -> int:
    """Milliseconds after 1970."""
    fault = Fault(
        f"expected a generalized time, got {got(text)}",
        "such as 20180102030405.678Z (RFC 4517)",
    )
    match = _GENERALIZED_TIME.fullmatch(text)
    if match is None:
        raise fault
    *parts, fraction, sign, hours, minutes = match.groups()
    # The fraction is one of the smallest unit that is given.
    unit_ms = 1000 if parts[5] else 60_000 if parts[4] else 3_600_000
    digits = fraction or "0"
    fraction_ms = int(int(digits) * unit_ms // 10 ** len(digits))
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    try:
        zone = timezone(-offset if sign == "-" else offset)
        digits = "".join(part or "00" for part in parts)
        local = datetime.strptime(digits, "%Y%m%d%H%M%S").replace(tzinfo=zone)
        when = local.astimezone(UTC)
    except (ValueError, OverflowError):
        raise fault from None
    return (when - _EPOCH) // _MILLISECOND + fraction_ms


_INT64 = range(-(1 << 63), 1 << 63)
_MAX_MEMBERS = (1 << 63) - 1
#: Numbers that a double counts exactly; of the distributions that are not uniform.
_MAX_DRAWN_MEMBERS = 1 << 53
_MAX_EXPONENT = 64
_MAX_DIGITS = 64

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_DIGITS = "0123456789"
#: Names for sets of characters; MakeLDIF has the same.
CHARSETS = {
    "alphabet": _LETTERS,
    "alpha": _LETTERS,
    "numeric": _DIGITS,
    "alphanumeric": _LETTERS + _DIGITS,
    "hex": _DIGITS + "abcdef",
    "base64": _LETTERS.upper() + _LETTERS + _DIGITS + "+/",
}

_FORMAT = r"(?:%(?P<format>.*))?"
_BOUNDS = r"(?P<lo>-?\d+)-(?P<hi>-?\d+)"
_SHARE = r"\d+(?:\.\d+)?%?"

SUPPORTED = (
    "[lo-hi], [lo..end), [lo:hi], [lo:end), [lo:hixN], […%0000], [random:N], "
    "[random:N:chars], [file:PATH], "
    "[sequentialfile:PATH], [timestamp], [uuid], [zipf:lo-hi:s], "
    "[gauss:lo-hi], [hot:lo-hi:share:fraction], [unique], [name]"
)
_HINT = f"known patterns: {SUPPORTED}; a bracket itself is [[ or ]]"
#: What `[word]` may be that is no name.
_WORDS = ("timestamp", "unique", "uuid")
_NO_NAMES = "a name is made by `let`, or by a `capture` in a step before"
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclass(frozen=True)
class _Found:
    """A body that has the form of its kind."""

    shown: str
    match: re.Match[str]
    names: Mapping[str, int]

    def __getitem__(self, group: str) -> str:
        return self.match[group] or ""

    def fault(self, what: str, hint: str) -> Fault:
        return Fault(f"expected {what}, got {got(self.shown)}", hint)

    def width(self) -> int:
        """Least number of digits: the zeros after '%'."""
        zeros = self.match["format"]
        if zeros is None:
            self.refuse_zeros()
            return 0
        if not re.fullmatch("0+", zeros):
            raise self.fault("a number format of zeros after '%'", "four digits: %0000")
        if len(zeros) > _MAX_DIGITS:
            raise Fault(
                f"expected at most {_MAX_DIGITS} digits, got {len(zeros)}",
                "such as %0000",
            )
        return len(zeros)

    def refuse_zeros(self) -> None:
        """In front of a bound: they are no format."""
        ends = self.match.groupdict()
        texts = [ends[end] for end in ("lo", "hi") if ends.get(end)]
        if not any(re.match("-?0[0-9]", text) for text in texts):
            return
        width = max(len(text.lstrip("-")) for text in texts)
        plain = self.shown
        for text in texts:
            plain = plain.replace(text, re.sub("^(-?)0+(?=[0-9])", r"\1", text), 1)
        padded = plain.replace("]", f"%{'0' * width}]", 1)
        raise self.fault(
            "a range without leading zeros",
            f"write {padded} for numbers of {width} digits, or {plain}",
        )

    def bounds(self) -> tuple[int, int]:
        lo, hi = _integer(self["lo"]), _integer(self["hi"])
        if lo is None or hi is None:
            raise self.fault(
                "numbers of 64 bits",
                "from -9223372036854775808 to 9223372036854775807",
            )
        return lo, hi

    def rising_bounds(self, most: int) -> tuple[int, int]:
        lo, hi = self.bounds()
        if lo > hi:
            raise self.fault(
                "a range from low to high",
                f"write {self.shown.replace(f'{lo}-{hi}', f'{hi}-{lo}', 1)}",
            )
        if hi - lo >= most:
            power = most.bit_length() - (most & (most - 1) == 0)
            raise self.fault(
                f"a range of less than 2^{power} numbers", f"such as {lo}-{lo + 999}"
            )
        return lo, hi

    def share(self, group: str) -> float:
        """0.2 or 20%."""
        text = self[group]
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)


def _integer(text: str) -> int | None:
    """A number of 64 bits. int() has an error of its own for thousands of digits."""
    digits = text.lstrip("-").lstrip("0") or "0"
    number = int(digits) if len(digits) < 20 else 1 << 64
    if text.startswith("-"):
        number = -number
    return number if number in _INT64 else None


def _range(found: _Found) -> ValueSource:
    if found["step"]:
        raise Fault(
            f"a random range has no step, got {got(found.shown)}",
            f"in turn: [{found['lo']}:{found['hi']}x{found['step']}]",
        )
    lo, hi = found.rising_bounds(_MAX_MEMBERS)
    return ValueSource(template.UNIFORM, lo, hi, width=found.width())


def _sequence(found: _Found) -> ValueSource:
    lo, hi = found.bounds()
    step = _integer(found["step"] or "1")
    if step is None or step < 1:
        raise found.fault("a step above zero", f"such as [{lo}:{hi}x10]")
    if abs(hi - lo) // step >= _MAX_MEMBERS:
        raise found.fault(
            "a range of less than 2^63 numbers", f"such as [{lo}:{lo + 999}]"
        )
    return ValueSource(template.SEQUENCE, lo, hi, step, found.width())


def _random(found: _Found) -> ValueSource:
    count = _integer(found["count"])
    charset = found.match["charset"] or "alphabet"
    if count is None or not 0 < count <= MAX_VALUE_BYTES:
        raise found.fault(
            f"1 to {MAX_VALUE_BYTES} random characters", "such as [random:8]"
        )
    charset = CHARSETS.get(charset, charset)
    if not charset.isascii() or len(charset) > 256:
        raise found.fault(
            "at most 256 ASCII characters to choose from",
            "such as [random:8:0123456789abcdef], or a set: "
            + ", ".join(sorted(CHARSETS)),
        )
    return ValueSource(template.RANDOM_STRING, lo=count, data=charset.encode())


def _file(found: _Found) -> ValueSource:
    in_turn = found["how"] in ("sequential", "stream")
    # UnboundID's are URLs: file:///tmp/names.txt
    path = re.sub("^//(?=/)", "", found["path"])
    if "\0" in path:
        raise found.fault("a path without a NUL", "such as [file:names.txt]")
    kind = template.FILE_SEQUENCE if in_turn else template.FILE_RANDOM
    return ValueSource(kind, data=path.encode())


def _timestamp(found: _Found) -> ValueSource:
    lo = hi = 0
    if found.match["min"] is not None:
        lo = parse_generalized_time(found["min"])
        hi = parse_generalized_time(found["max"])
        if lo >= hi:
            raise found.fault("a time `min` before the time `max`", "swap them")
    time_format = _TIME_FORMATS[found["time_format"] or "generalized"]
    return ValueSource(template.TIMESTAMP, lo, hi, time_format)


def _uuid(_: _Found) -> ValueSource:
    return ValueSource(template.UUID)


def _zipf(found: _Found) -> ValueSource:
    lo, hi = found.rising_bounds(_MAX_DRAWN_MEMBERS)
    exponent = float(found["s"])
    if not 0 < exponent <= _MAX_EXPONENT:
        raise found.fault(
            f"an exponent above 0 and at most {_MAX_EXPONENT}",
            f"such as [zipf:{lo}-{hi}:1.1]",
        )
    return ValueSource(template.ZIPF, lo, hi, width=found.width(), a=exponent)


def _gauss(found: _Found) -> ValueSource:
    lo, hi = found.rising_bounds(_MAX_DRAWN_MEMBERS)
    return ValueSource(template.GAUSS, lo, hi, width=found.width())


def _hot(found: _Found) -> ValueSource:
    lo, hi = found.rising_bounds(_MAX_DRAWN_MEMBERS)
    share, fraction = found.share("share"), found.share("fraction")
    hint = f"such as [hot:{lo}-{hi}:20%:80%]"
    if lo == hi:
        raise found.fault(
            "a range of at least two numbers", "such as [hot:0-999:20%:80%]"
        )
    if not 0 < share < 1:
        raise found.fault("a share of the numbers between 0 and 1", hint)
    if not 0 <= fraction <= 1:
        raise found.fault("a fraction of the draws from 0 to 1", hint)
    return ValueSource(template.HOT, lo, hi, width=found.width(), a=share, b=fraction)


def _unique(found: _Found) -> ValueSource:
    return ValueSource(template.UNIQUE, width=found.width())


def _parent(found: _Found) -> ValueSource:
    name = found["name"]
    if name not in found.names:
        raise _unknown(name, found.shown, found.names)
    return ValueSource(template.PARENT, lo=found.names[name])


@dataclass(frozen=True)
class _Kind:
    form: str
    body: re.Pattern[str]
    make: Callable[[_Found], ValueSource]


def _kind(form: str, body: str, make: Callable[[_Found], ValueSource]) -> _Kind:
    return _Kind(form, re.compile(body, re.ASCII | re.DOTALL), make)


_FILE = r"(?P<how>(?:random|sequential|stream)?)file:(?P<path>.+)"

_KINDS = {
    "random": _kind(
        "[random:N] or [random:N:chars]",
        r"random:(?P<count>\d+)(?::(?P<charset>.+))?",
        _random,
    ),
    "file": _kind("[file:PATH]", _FILE, _file),
    "randomfile": _kind("[randomfile:PATH]", _FILE, _file),
    "sequentialfile": _kind("[sequentialfile:PATH]", _FILE, _file),
    "streamfile": _kind("[streamfile:PATH]", _FILE, _file),
    "timestamp": _kind(
        "[timestamp], [timestamp:format=F] or [timestamp:min=T1:max=T2:format=F] with "
        f"F {one_of(list(_TIME_FORMATS))}",
        r"timestamp(?::min=(?P<min>[^:]*):max=(?P<max>[^:]*))?"
        rf"(?::format=(?P<time_format>{'|'.join(_TIME_FORMATS)}))?",
        _timestamp,
    ),
    "uuid": _kind("[uuid]", "uuid", _uuid),
    "zipf": _kind(
        "[zipf:lo-hi:s]", rf"zipf:{_BOUNDS}:(?P<s>\d+(?:\.\d+)?){_FORMAT}", _zipf
    ),
    "gauss": _kind("[gauss:lo-hi]", rf"gauss:{_BOUNDS}{_FORMAT}", _gauss),
    "hot": _kind(
        "[hot:lo-hi:share:fraction]",
        rf"hot:{_BOUNDS}:(?P<share>{_SHARE}):(?P<fraction>{_SHARE}){_FORMAT}",
        _hot,
    ),
    "unique": _kind("[unique]", f"unique{_FORMAT}", _unique),
    "parent": _kind("[parent:name]", r"parent:(?P<name>.+)", _parent),
}
_STEP = r"(?:x(?P<step>-?\d+))?"
_NUMBERS = (
    _kind("[lo-hi]", rf"{_BOUNDS}{_STEP}{_FORMAT}", _range),
    _kind("[lo:hi]", rf"{_BOUNDS.replace(')-(', '):(')}{_STEP}{_FORMAT}", _sequence),
)


def parse_placeholder(body: str, names: Mapping[str, int]) -> ValueSource:
    """The value source of the text between two brackets. The name of a variable takes
    precedence over a kind's."""
    shown = f"[{body}]"
    if body in names:
        return ValueSource(template.VARIABLE, lo=names[body])
    for numbers in _NUMBERS:
        if match := numbers.body.fullmatch(body):
            return numbers.make(_Found(shown, match, names))
    word = _WORD.match(body)
    if word is None:
        bounds = re.fullmatch(r"(-?\d+) ?(\.\.|,|;) ?(-?\d+)", body)
        hint = f"write [{bounds[1]}-{bounds[3]}]" if bounds else _HINT
        if bounds and bounds[2] == "..":
            hint += f", or [{bounds[1]}..{bounds[3]}) to leave out {bounds[3]}"
        raise Fault(f"expected a pattern, got {got(shown)}", hint)
    kind = _KINDS.get(word[0])
    if kind is None:
        raise _unknown(word[0], shown, names)
    match = kind.body.fullmatch(body)
    if match is None:
        raise Fault(f"expected {kind.form}, got {got(shown)}", _HINT)
    return kind.make(_Found(shown, match, names))


def _unknown(word: str, shown: str, names: Mapping[str, int]) -> Fault:
    if word in ("http", "https"):
        return Fault(
            f"{got(shown)}: values are not read over the network",
            "download the file and name it: [file:PATH]",
        )
    # a word alone is a name more often than a pattern that lacks its arguments
    is_bare = ":" not in shown
    hint = did_you_mean(word, [*(_WORDS if is_bare else _KINDS), *names])
    if not hint.startswith("did"):
        hint = _HINT
        if names:
            hint = f"known names: {', '.join(sorted(names))}; {_HINT}"
        elif is_bare:
            hint = f"{_NO_NAMES}; {_HINT}"
    return UnknownName(f"unknown pattern or name {word!r} in {got(shown)}", hint)


# Supplementary Private Use Area-A: no directory string has a use for it.
_FIRST_MASK = 0xF0000
_LAST_MASK = 0xFFFFD
MASK_CLASS = f"{chr(_FIRST_MASK)}-{chr(_LAST_MASK)}"

_HALF_OPEN = (
    r"(?P<before>(?:[a-z]+:)?-?\d+)(?P<mark>\.\.|:)(?P<end>-?\d+)(?P<after>[^\[\]()]*)"
)
_TOKEN = re.compile(
    rf"\[\[|\]\]|\[{_HALF_OPEN}\)|\[(?P<body>[^\[\]]*)\]|[\[\]]", re.ASCII
)


def with_closed_ranges(text: str) -> str:
    """Return a valid pattern with closed ranges in place of half-open ranges."""
    return _TOKEN.sub(
        lambda token: token[0] if token["end"] is None else f"[{_body(token)}]", text
    )


def _body(token: re.Match[str]) -> str | None:
    """Return the text between the brackets, of a half-open range that of the closed
    one; None for a bracket without a partner."""
    if token["end"] is None:
        return token["body"]
    start = token["before"] + ("-" if token["mark"] == ".." else ":")
    lo = _integer(token["before"].rpartition(":")[2])
    end = _integer(token["end"])
    if lo is None or end is None:
        return start + token["end"] + token["after"]
    if lo >= end:
        raise Fault(
            f"expected a range with a number in it, got {got(token[0])}",
            f"{end} is not in the range: it ends before",
        )
    # a leading zero stays: it is a fault of the range
    width = len(token["end"]) if token["end"].startswith("0") else 0
    return f"{start}{end - 1:0{width}}{token['after']}"


@dataclass(frozen=True)
class Pattern:
    """A text with placeholders: in `masked` a private character for each source."""

    masked: str
    sources: tuple[ValueSource, ...]
    #: Where each character of `masked`, and its end, is in the text.
    origins: tuple[int, ...]

    def unmask(self, masked: str) -> tuple[Node, ...]:
        """Constants (UTF-8) and placeholders of a piece of `masked`, in order."""
        nodes: list[Node] = []
        for piece in re.split(f"([{MASK_CLASS}])", masked):
            if is_placeholder(piece):
                nodes.append(self.source(piece))
            elif piece:
                nodes.append(piece.encode())
        return tuple(nodes)

    def source(self, character: str) -> ValueSource:
        """What fills the placeholder of a private character."""
        return self.sources[ord(character) - _FIRST_MASK]

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.unmask(self.masked)

    def changed(self, change: Callable[[str, ValueSource], ValueSource]) -> Pattern:
        """With other sources in the placeholders: change(private character, source)."""
        sources = tuple(
            change(chr(_FIRST_MASK + index), source)
            for index, source in enumerate(self.sources)
        )
        return replace(self, sources=sources)


def is_placeholder(character: str) -> bool:
    return len(character) == 1 and _FIRST_MASK <= ord(character) <= _LAST_MASK


def parse_pattern(text: str, names: Mapping[str, int] | None = None) -> Pattern:
    """Split a text at its placeholders; a Fault says which bracket is wrong.
    `names` are those of the variables that [name] may stand for, and their numbers."""
    if match := re.search(f"[{MASK_CLASS}]", text):
        raise Fault(
            f"expected no private-use character, got U+{ord(match[0]):X}",
            "leave it out: patterns are worked on with these characters",
        )
    if match := re.search("[\ud800-\udfff]", text):
        raise Fault(
            f"expected a character, got the surrogate U+{ord(match[0]):X}",
            "in YAML, write characters beyond U+FFFF as they are or as \\U0001F600",
        )
    sources: list[ValueSource] = []
    masked, end = "", 0
    origins: list[int] = []
    for token in _TOKEN.finditer(text):
        masked += text[end : token.start()]
        origins += range(end, token.start() + 1)
        end = token.end()
        if token[0] in ("[[", "]]"):
            masked += token[0][0]
        elif (body := _body(token)) is None:
            raise Fault(
                f"bracket {token[0]!r} at character {token.start() + 1} has no partner",
                f"write {token[0] * 2!r} for the character itself",
            )
        elif len(sources) > _LAST_MASK - _FIRST_MASK:
            raise Fault(f"expected at most {MAX_VALUES} patterns, got more")
        else:
            masked += chr(_FIRST_MASK + len(sources))
            sources.append(parse_placeholder(body, names or {}))
    origins += range(end, len(text) + 1)
    return Pattern(masked + text[end:], tuple(sources), tuple(origins))
