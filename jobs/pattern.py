# SPDX-License-Identifier: Apache-2.0
"""Value patterns: texts with holes that are filled anew for every request.

A pattern is parsed before the text around it: `masked` is the text with one private
character per hole, so that the grammars of filters and DNs need not know of patterns,
and `unmask` turns any piece of it back into constants and holes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ldapslam.jobs.fault import Fault, got
from ldapslam.jobs.template import (
    MAX_VALUE_BYTES,
    MAX_VALUES,
    RANDOM_STRING,
    SEQUENCE,
    UNIFORM,
    VARIABLE,
    Node,
    ValueSource,
)

#: For `ldapslam job describe`.
NOTATION = """\
Value patterns, in the notation of the UnboundID LDAP SDK. They may stand in
DNs, in the assertion values of filters and in attribute values.

    [lo-hi]            a number from lo to hi at random
    [lo:hi]            the numbers lo to hi in turn, then again; the fleet as a
                       whole sends each once a round
    [lo:hixN]          the same in steps of N
    [lo-hi%0000]       numbers padded with zeros, here to four digits; also
                       [lo:hi%0000] and [lo:hixN%0000]
    [random:N]         N random lower-case letters
    [random:N:chars]   N characters, each at random from chars
    [[ and ]]          a bracket
"""

SUPPORTED = "[lo-hi], [lo:hi], [lo:hixN], …%0000], [random:N], [random:N:chars]"

# Supplementary Private Use Area-A: no directory string has a use for it.
_FIRST_MASK = 0xF0000
_LAST_MASK = 0xFFFFD
MASK_CLASS = f"{chr(_FIRST_MASK)}-{chr(_LAST_MASK)}"

_TOKEN = re.compile(r"\[\[|\]\]|\[([^\[\]]*)\]|[\[\]]")
_RANGE = re.compile(r"(-?\d+)([-:])(-?\d+)(?:x(-?\d+))?(?:%(.*))?", re.ASCII)
_RANDOM = re.compile(r"random:(\d+)(?::(.+))?", re.ASCII | re.DOTALL)
_OTHER_KIND = re.compile(r"[A-Za-z]+")
_INT64 = range(-(1 << 63), 1 << 63)
_MAX_MEMBERS = (1 << 63) - 1
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Pattern:
    """A text with holes; `masked` has one private character per member of `sources`."""

    masked: str
    sources: tuple[ValueSource, ...]
    #: Where each character of `masked`, and its end, is in the text.
    origins: tuple[int, ...]

    def unmask(self, masked: str) -> tuple[Node, ...]:
        """Constants (UTF-8) and holes of a piece of `masked`, in order."""
        nodes: list[Node] = []
        for piece in re.split(f"([{MASK_CLASS}])", masked):
            if len(piece) == 1 and _FIRST_MASK <= ord(piece) <= _LAST_MASK:
                nodes.append(self.sources[ord(piece) - _FIRST_MASK])
            elif piece:
                nodes.append(piece.encode())
        return tuple(nodes)

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.unmask(self.masked)


def parse_pattern(text: str, names: Mapping[str, int] | None = None) -> Pattern:
    """Splits a text into constants and holes; a Fault says which bracket is wrong.
    `names` are those of the variables that [name] may stand for, and their numbers."""
    if match := re.search(f"[{MASK_CLASS}]", text):
        raise Fault(
            f"expected no private-use character, got U+{ord(match[0]):X}",
            "leave it out: patterns are worked on with these characters",
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
        elif token[1] is None:
            raise Fault(
                f"bracket {token[0]!r} at character {token.start() + 1} has no partner",
                f"write {token[0] * 2!r} for the character itself",
            )
        else:
            masked += chr(_FIRST_MASK + len(sources))
            sources.append(_source(token[1], names or {}))
    if len(sources) > _LAST_MASK - _FIRST_MASK:
        raise Fault(f"expected at most {MAX_VALUES} patterns, got {len(sources)}")
    origins += range(end, len(text) + 1)
    return Pattern(masked + text[end:], tuple(sources), tuple(origins))


def _source(body: str, names: Mapping[str, int]) -> ValueSource:
    if body in names:
        return ValueSource(VARIABLE, lo=names[body])
    shown = f"[{body}]"
    if match := _RANGE.fullmatch(body):
        return _range(shown, match)
    if match := _RANDOM.fullmatch(body):
        return _random(shown, match)
    kind = _OTHER_KIND.match(body)
    if kind and kind[0] != "random":
        raise Fault(
            f"unknown pattern kind {kind[0]!r} in {got(shown)}",
            f"known patterns: {SUPPORTED}; a bracket itself is [[ or ]]",
        )
    raise Fault(
        f"expected a pattern, got {got(shown)}",
        f"known patterns: {SUPPORTED}; a bracket itself is [[ or ]]",
    )


def _range(shown: str, match: re.Match[str]) -> ValueSource:
    lo, hi, step = int(match[1]), int(match[3]), int(match[4] or 1)
    kind = UNIFORM if match[2] == "-" else SEQUENCE
    if lo not in _INT64 or hi not in _INT64:
        raise Fault(
            f"expected numbers of 64 bits, got {got(shown)}",
            "from -9223372036854775808 to 9223372036854775807",
        )
    if lo > hi:
        raise Fault(
            f"expected a range from low to high, got {got(shown)}",
            f"write [{hi}{match[2]}{lo}]",
        )
    if match[4] and kind == UNIFORM:
        raise Fault(
            f"a random range has no step, got {got(shown)}",
            f"in turn: [{lo}:{hi}x{step}]",
        )
    if not 0 < step < 1 << 63:
        raise Fault(
            f"expected a step above zero, got {got(shown)}", f"such as [{lo}:{hi}x10]"
        )
    if (hi - lo) // step >= _MAX_MEMBERS:
        raise Fault(
            f"expected a range of less than 2^63 numbers, got {got(shown)}",
            f"such as [{lo}{match[2]}{lo + 999}]",
        )
    width = 0
    if match[5] is not None:
        width = len(match[5])
        if not re.fullmatch("0+", match[5]):
            raise Fault(
                f"expected a number format of zeros after '%', got {got(shown)}",
                "four digits: %0000",
            )
        if width > 64:
            raise Fault(f"expected at most 64 digits, got {width}", "such as %0000")
    return ValueSource(kind, lo, hi, step, width)


def _random(shown: str, match: re.Match[str]) -> ValueSource:
    count, charset = int(match[1]), match[2] or _LETTERS
    if not 0 < count <= MAX_VALUE_BYTES:
        raise Fault(
            f"expected 1 to {MAX_VALUE_BYTES} random characters, got {got(shown)}",
            "such as [random:8]",
        )
    if not charset.isascii() or len(charset) > 256:
        raise Fault(
            f"expected at most 256 ASCII characters to choose from, got {got(shown)}",
            "such as [random:8:0123456789abcdef]",
        )
    return ValueSource(RANDOM_STRING, lo=count, data=charset.encode())
