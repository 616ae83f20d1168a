# SPDX-License-Identifier: Apache-2.0
"""Distinguished names (RFC 4514): the syntax check, and names with patterns.

Spaces after a comma are accepted, as RFC 2253 and every server do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ldapslam.jobs.fault import Fault, got
from ldapslam.jobs.pattern import Pattern, parse_pattern
from ldapslam.jobs.template import RANDOM_STRING

_ATTRIBUTE_TYPE = r"(?:[A-Za-z][A-Za-z0-9-]*|\d+(?:\.\d+)+)"
_HEX_STRING = r"#(?:[0-9A-Fa-f]{2})+"
_STRING = r'(?!#)(?:[^,+"\\<>;\0]|\\(?:[ "#+,;<=>\\]|[0-9A-Fa-f]{2}))*'
_AVA = re.compile(rf" *{_ATTRIBUTE_TYPE} *= *(?:{_HEX_STRING}|{_STRING})", re.ASCII)
_SPECIAL = frozenset(b',+"\\<>;=#\0')


def check_dn(text: str) -> str:
    """The text, if it is a DN without patterns; the empty DN is one."""
    _check(text, text)
    return text


def parse_dn(text: str, names: Mapping[str, int] | None = None) -> Pattern:
    """The pattern of a DN whose values may hold patterns."""
    pattern = parse_pattern(text, names)
    _check(pattern.masked, text)
    for source in pattern.sources:
        special = _SPECIAL.intersection(source.data)
        if source.kind == RANDOM_STRING and special:
            raise Fault(
                f"character {chr(min(special))!r} cannot be drawn into a DN unescaped",
                "take it out of the pattern's characters",
            )
    return pattern


def split_rdn(dn: str) -> tuple[str, str]:
    """The first RDN of a DN, and the DN of its parent."""
    match = re.match(r"(?:[^\\,]|\\.)*", dn, re.DOTALL)
    end = match.end() if match else 0
    return dn[:end], dn[end + 1 :]


def _check(masked: str, text: str) -> None:
    if not masked:
        return
    start = 0
    while True:
        match = _AVA.match(masked, start)
        if match is None:
            raise _bad_part(masked, start, text)
        if match.end() == len(masked):
            return
        if masked[match.end()] not in ",+":
            raise _bad_part(masked, start, text)
        start = match.end() + 1


def _bad_part(masked: str, start: int, text: str) -> Fault:
    part = re.split(r"(?<!\\),", masked[start:])[0].strip()
    if not part:
        problem = "it has an empty part; is there a comma too many?"
    elif "=" not in part:
        problem = f"{got(part)} has no '='"
    else:
        problem = f'{got(part)} has a character that needs a \\ before it (,+"\\<>;)'
    return Fault(
        f"expected a DN, got {got(text)}: {problem}",
        "such as 'uid=user.1,ou=people,dc=example,dc=com' (RFC 4514)",
    )
