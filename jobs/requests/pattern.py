# SPDX-License-Identifier: Apache-2.0
"""Value patterns: texts with holes that are filled anew for every request.

A pattern is parsed before the text around it: `masked` is the text with one private
character per hole, so that the grammars of filters and DNs need not know of patterns,
and `unmask` turns any piece of it back into constants and holes. What may stand between
two brackets is pattern_kinds.py's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ldapslam.base.fault import Fault
from ldapslam.jobs.requests.pattern_kinds import parse_hole
from ldapslam.jobs.requests.template import MAX_VALUES, Node, Ref, ValueSource

#: For `ldapslam job describe`.
NOTATION = """\
Value patterns, in the notation of the UnboundID LDAP SDK. They may stand in
DNs, in the assertion values of filters and in attribute values.

    [lo-hi]            a number from lo to hi at random
    [lo:hi]            the numbers lo to hi in turn, then again; downwards where
                       lo is above hi. The fleet as a whole sends each once a
                       round
    [lo:hixN]          the same in steps of N
    […%0000]           numbers padded with zeros, here to four digits; after any
                       kind of number
    [random:N]         N random lower-case letters
    [random:N:chars]   N characters, each at random from chars, or from a set:
                       alphabet (or alpha: a to z), numeric, alphanumeric, hex,
                       base64. UnboundID has no such names: to draw from the
                       letters h, e and x, write them in another order
    [file:PATH]        a line of a file at random; relative to the job file, and
                       sent along to the agents; [randomfile:PATH] is the same
    [sequentialfile:PATH]  its lines in turn, then again; the fleet as a whole
                       sends each once a round; [streamfile:PATH] is the same
    [timestamp]        now, such as 20180102030405.678Z
    [timestamp:format=F]   F: generalized, milliseconds or seconds (after 1970),
                       or of yyyy MM dd HH mm ss SSS 'text' and punctuation
    [timestamp:min=T1:max=T2]  a time between two at random (given like
                       20180102030405Z), also with :format=F after it
    [uuid]             a random UUID
    [ref:N]            what the Nth pattern of this text has become

and beyond UnboundID's:

    [zipf:lo-hi:s]     lo often, the others ever more rarely: number k of them
                       with a probability proportional to 1 / k^s; s above 0
    [gauss:lo-hi]      normally distributed about the middle of lo to hi, which
                       are three standard deviations away from it
    [hot:lo-hi:share:fraction]   this fraction of the draws from this share of
                       the numbers, which is the lowest: [hot:0-999:20%:80%]
    [unique]           a number that comes once in the whole run
    [name]             a `let` or `capture` of this name; in a DN it may also
                       stand for whole RDNs: cn=child,[dn]
    [parent:name]      the parent of the DN of this name

    [[ and ]]          a bracket
"""

# Supplementary Private Use Area-A: no directory string has a use for it.
_FIRST_MASK = 0xF0000
_LAST_MASK = 0xFFFFD
MASK_CLASS = f"{chr(_FIRST_MASK)}-{chr(_LAST_MASK)}"

_TOKEN = re.compile(r"\[\[|\]\]|\[([^\[\]]*)\]|[\[\]]")


@dataclass(frozen=True)
class Pattern:
    """A text with holes; `masked` has one private character per member of `sources`."""

    masked: str
    sources: tuple[ValueSource | Ref, ...]
    #: Where each character of `masked`, and its end, is in the text.
    origins: tuple[int, ...]

    def unmask(self, masked: str) -> tuple[Node, ...]:
        """Constants (UTF-8) and holes of a piece of `masked`, in order."""
        nodes: list[Node] = []
        for piece in re.split(f"([{MASK_CLASS}])", masked):
            if is_hole(piece):
                nodes.append(self.source(piece))
            elif piece:
                nodes.append(piece.encode())
        return tuple(nodes)

    def source(self, character: str) -> ValueSource | Ref:
        """What fills the hole of a private character."""
        return self.sources[ord(character) - _FIRST_MASK]

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.unmask(self.masked)

    def changed(self, change: Callable[[str, ValueSource], ValueSource]) -> Pattern:
        """With other sources in the holes: change(private character, source)."""
        new = {
            id(source): change(chr(_FIRST_MASK + index), source)
            for index, source in enumerate(self.sources)
            if isinstance(source, ValueSource)
        }
        sources = tuple(
            Ref(new[id(source.target)], source.limit)
            if isinstance(source, Ref)
            else new[id(source)]
            for source in self.sources
        )
        return replace(self, sources=sources)


def is_hole(character: str) -> bool:
    return len(character) == 1 and _FIRST_MASK <= ord(character) <= _LAST_MASK


def parse_pattern(text: str, names: Mapping[str, int] | None = None) -> Pattern:
    """Splits a text into constants and holes; a Fault says which bracket is wrong.
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
    sources: list[ValueSource | Ref] = []
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
        elif len(sources) > _LAST_MASK - _FIRST_MASK:
            raise Fault(f"expected at most {MAX_VALUES} patterns, got more")
        else:
            masked += chr(_FIRST_MASK + len(sources))
            sources.append(parse_hole(token[1], names or {}, sources))
    origins += range(end, len(text) + 1)
    return Pattern(masked + text[end:], tuple(sources), tuple(origins))
