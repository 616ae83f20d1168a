# SPDX-License-Identifier: Apache-2.0
"""Distinguished names (RFC 4514): the syntax check, and names with patterns.

Spaces after a comma are accepted, as RFC 2253 and every server do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ldapslam.base.fault import Fault, got
from ldapslam.jobs.requests.pattern import MASK_CLASS, Pattern, parse_pattern
from ldapslam.jobs.requests.template import (
    FILES,
    PARENT,
    RANDOM_STRING,
    VARIABLE,
    ValueSource,
)

_ATTRIBUTE_TYPE = r"(?:[A-Za-z][A-Za-z0-9-]*|\d+(?:\.\d+)+)"
_HEX_STRING = r"#(?:[0-9A-Fa-f]{2})+"
_STRING = r'(?! *#)(?:[^,+"\\<>;\0]|\\(?:[ "#+,;<=>\\]|[0-9A-Fa-f]{2}))*'
_AVA = re.compile(rf" *{_ATTRIBUTE_TYPE} *= *(?:{_HEX_STRING}|{_STRING})", re.ASCII)
_WHOLE = re.compile(rf" *([{MASK_CLASS}]) *(?=,|$)")
_WHOLE_RDNS = (VARIABLE, PARENT, *FILES)
_PART = re.compile(r" *([^=+]+?) *= *((?:[^\\+]|\\.?)*?) *(?:\+|\Z)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_SPECIAL = frozenset(b',+"\\<>;=#\0')
#: The RDNs of trees that are the server itself.
_COMMON_NAME = ("cn", "commonname", "2.5.4.3")
_OWN_TREES = ("config", "monitor", "schema", "subschema")


def check_dn(text: str) -> str:
    """The text, if it is a DN without patterns; the empty DN is one."""
    _check(text, text)
    return text


def parse_dn(text: str, names: Mapping[str, int] | None = None) -> Pattern:
    """The pattern of a DN whose values may hold patterns. The text of a variable is
    escaped where it stands in a value; in the place of an RDN a variable, a parent or a
    line of a file stands for RDNs as they are."""
    pattern = parse_pattern(text, names)
    whole = _check(pattern.masked, text)
    for character in whole:
        source = pattern.source(character)
        if source.kind not in _WHOLE_RDNS:
            raise _bad_part(pattern.masked, pattern.masked.index(character), text)
    for source in pattern.sources:
        special = _SPECIAL.intersection(source.data)
        if source.kind == RANDOM_STRING and special:
            raise Fault(
                f"character {chr(min(special))!r} cannot be drawn into a DN unescaped",
                "take it out of the pattern's characters",
            )

    def escaped(character: str, source: ValueSource) -> ValueSource:
        if source.kind == VARIABLE and character not in whole:
            return replace(source, width=1)
        return source

    return pattern.changed(escaped)


def plain_dn(dn: str) -> str:
    """A DN in lower case without spaces around its commas, equals and plus signs."""
    return re.sub(r"\s*([,+=])\s*", r"\1", dn.strip().lower())


def split_rdn(dn: str) -> tuple[str, str]:
    """The first RDN of a DN, and the DN of its parent."""
    match = re.match(r"(?:[^\\,]|\\.)*", dn, re.DOTALL)
    end = match.end() if match else 0
    return dn[:end], dn[end + 1 :]


def is_of_server(dn: str) -> bool | None:
    """Whether a DN that may have patterns names an entry of the server itself, not of
    its data: configuration, schema, figures, root DSE. None: the patterns decide."""
    if not dn.strip():
        return True
    last, rest = "", dn.rpartition("]")[2]
    is_whole = rest == dn
    while rest:
        last, rest = split_rdn(rest)
        is_whole |= bool(rest)
    if not (is_whole and (values := rdn_values(last))):
        return None
    return any(
        name.lower() in _COMMON_NAME and value.lower() in _OWN_TREES
        for name, value in values
    )


def rdn_values(dn: str) -> list[tuple[str, str]]:
    """Attributes and values of a DN's first RDN, without escapes."""
    return [
        (name, b"".join(map(_octets, pieces(value))).decode(errors="replace"))
        for name, value in rdn_parts(split_rdn(dn)[0])
    ]


def rdn_parts(rdn: str) -> list[tuple[str, str]]:
    """Attributes and values of an RDN, with their escapes."""
    return _PART.findall(rdn)


def pieces(value: str) -> Iterator[str | bytes]:
    """Yield a value's texts as they stand, and between them what was escaped."""
    end = 0
    for escape in _ESCAPE.finditer(value):
        yield value[end : escape.start()]
        yield bytes.fromhex(escape[1]) if escape[1] else escape[2].encode()
        end = escape.end()
    yield value[end:]


def _octets(piece: str | bytes) -> bytes:
    return piece.encode() if isinstance(piece, str) else piece


def _check(masked: str, text: str) -> str:
    """The placeholders that stand in the place of an RDN."""
    whole = ""
    start = 0
    while masked:
        if match := _WHOLE.match(masked, start):
            whole += match[1]
        else:
            match = _AVA.match(masked, start)
        if match is None:
            raise _bad_part(masked, start, text)
        if match.end() == len(masked):
            break
        if masked[match.end()] not in ",+":
            raise _bad_part(masked, start, text)
        start = match.end() + 1
    return whole


def _bad_part(masked: str, start: int, text: str) -> Fault:
    part = re.split(r"(?<!\\),", masked[start:])[0].strip()
    part = re.sub(f"[{MASK_CLASS}]", "[…]", part)
    hint = "such as 'uid=user.1,ou=people,dc=example,dc=com' (RFC 4514)"
    if not part:
        problem = "it has an empty part; is there a comma too many?"
    elif "=" not in part:
        problem = f"{got(part)} has no '='"
        if start:
            hint = rf"a comma within a value is written '\,'; {hint}"
    else:
        problem = f'{got(part)} has a character that needs a \\ before it (,+"\\<>;)'
    return Fault(
        f"expected a DN, got {got(text)}: {problem}",
        hint,
    )
