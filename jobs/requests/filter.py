# SPDX-License-Identifier: Apache-2.0
r"""Search filters: from their text (RFC 4515) to their BER (RFC 4511 section 4.5.1.7).

    filter     = "(" ( "&" filter* | "|" filter* | "!" filter | item ) ")"
    item       = attribute ( "=" | "~=" | ">=" | "<=" ) value
               | attribute "=" [value] ("*" value)* "*" [value]     presence, substrings
               | [attribute] [":dn"] [":" rule] ":=" value          extensible
    value      = any character but ( ) * \ NUL; these as \HH

Assertion values may hold patterns; attributes and rules may not. The encoding is the
one of libldap's ldap_put_filter, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ldapslam.base.fault import Fault, got
from ldapslam.jobs.requests import ber
from ldapslam.jobs.requests.pattern import MASK_CLASS, Pattern, parse_pattern
from ldapslam.jobs.requests.template import Node

MAX_FILTER_DEPTH = 20
EXAMPLE = "(&(objectClass=person)(uid=user.[0-999]))"

_AND, _OR, _NOT = 0xA0, 0xA1, 0xA2
_SUBSTRINGS, _PRESENT, _EXTENSIBLE = 0xA4, 0x87, 0xA9
_COMPARISON_TAGS = {"=": 0xA3, ">=": 0xA5, "<=": 0xA6, "~=": 0xA8}
_INITIAL, _ANY, _FINAL = 0x80, 0x81, 0x82
_RULE, _TYPE, _MATCH_VALUE, _DN_ATTRIBUTES = 0x81, 0x82, 0x83, 0x84

ATTRIBUTE = r"(?:[A-Za-z][A-Za-z0-9-]*|\d+(?:\.\d+)+)(?:;[A-Za-z0-9-]+)*"
_ITEM = re.compile(rf"({ATTRIBUTE})(=|~=|>=|<=)(.*)", re.DOTALL | re.ASCII)
_EXTENSIBLE_ITEM = re.compile(
    rf"({ATTRIBUTE})?(:[dD][nN])?(?::([A-Za-z][A-Za-z0-9-]*|\d+(?:\.\d+)+))?:=(.*)",
    re.DOTALL | re.ASCII,
)
_ESCAPE = re.compile(r"\\(.{0,2})", re.DOTALL)
_HEX_PAIR = re.compile("[0-9A-Fa-f]{2}")


def compile_filter(text: str, names: Mapping[str, int] | None = None) -> Node:
    """The filter's BER, with placeholders for its patterns."""
    pattern = parse_pattern(text, names)
    parser = _Parser(pattern, text)
    node, end = parser.filter(0, 1)
    if end != len(pattern.masked):
        raise parser.fault(end, f"{got(pattern.masked[end:])} follows the filter's end")
    return node


class _Parser:
    def __init__(self, pattern: Pattern, text: str) -> None:
        self.pattern = pattern
        self.masked = pattern.masked
        self.text = text

    def fault(self, at: int, problem: str) -> Fault:
        problem = re.sub(f"[{MASK_CLASS}]", "[…]", problem)
        place = f"character {self.pattern.origins[at] + 1}"
        hint = f"such as {EXAMPLE!r} (RFC 4515)"
        if re.fullmatch(r"[\w;.-]+[~<>]?=[^()]*", self.text, re.ASCII):  # of ldapsearch
            hint = f"write ({self.text})"
        return Fault(
            f"expected a filter, got {got(self.text)}: {place}: {problem}", hint
        )

    def filter(self, at: int, depth: int) -> tuple[Node, int]:
        """The filter that begins at `at`, and where it ends."""
        if self.masked[at : at + 1] != "(":
            raise self.fault(at, "a '(' is missing here")
        if depth > MAX_FILTER_DEPTH:
            raise self.fault(at, f"nested more than {MAX_FILTER_DEPTH} levels deep")
        kind = self.masked[at + 1 : at + 2]
        if kind in ("&", "|", "!") and kind:
            return self.combination(kind, at, depth)
        end = self.item_end(at + 1)
        return self.item(self.masked[at + 1 : end], at + 1), end + 1

    def combination(self, kind: str, at: int, depth: int) -> tuple[Node, int]:
        start, opened = at, self.pattern.origins[at] + 1
        at, members = at + 2, []
        while self.masked[at : at + 1] == "(":
            member, at = self.filter(at, depth + 1)
            members.append(member)
        if self.masked[at : at + 1] != ")":
            raise self.fault(at, f"the '(' of character {opened} is not closed here")
        if kind == "!" and len(members) != 1:
            raise self.fault(start, f"'!' takes one filter, got {len(members)}")
        tag = {"&": _AND, "|": _OR, "!": _NOT}[kind]
        return ber.tlv(tag, *members), at + 1

    def item_end(self, at: int) -> int:
        for end in range(at, len(self.masked)):
            if self.masked[end] == ")":
                return end
            if self.masked[end] == "(":
                why = "a '(' inside a value is written \\28"
                if end == at:
                    why = "'((' is not of a filter: write one '(', or (&(…)(…))"
                raise self.fault(end, why)
        raise self.fault(len(self.masked), "a ')' is missing here")

    def item(self, item: str, at: int) -> Node:
        if match := _ITEM.fullmatch(item):
            attribute, comparison, value = match.groups()
            name = ber.octet_string(attribute.encode())
            if comparison == "=" and value == "*":
                return ber.tlv(_PRESENT, attribute.encode())
            if comparison == "=" and "*" in value:
                return ber.tlv(
                    _SUBSTRINGS, name, self.substrings(value, at + match.start(3))
                )
            assertion = ber.octet_string(*self.value(value, at + match.start(3)))
            return ber.tlv(_COMPARISON_TAGS[comparison], name, assertion)
        match = _EXTENSIBLE_ITEM.fullmatch(item)
        if match and (match[1] or match[3]):
            return self.extensible(match, at)
        if re.search(f"^[^=]*[{MASK_CLASS}]", item):
            raise self.fault(at, "a pattern may stand in values only")
        raise self.fault(at, f"{got(item)} is not of the form attribute=value")

    def substrings(self, value: str, at: int) -> Node:
        if "**" in value:
            at += value.index("**")
            raise self.fault(at, "'**' has nothing between its asterisks")
        pieces = value.split("*")
        tags = [_INITIAL, *[_ANY] * (len(pieces) - 2), _FINAL]
        parts: list[Node] = []
        for tag, piece in zip(tags, pieces, strict=True):
            if piece:
                parts.append(ber.tlv(tag, *self.value(piece, at)))
            at += len(piece) + 1
        return ber.tlv(ber.SEQUENCE, *parts)

    def extensible(self, match: re.Match[str], at: int) -> Node:
        attribute, dn, rule, value = match.groups()
        parts: list[Node] = []
        if rule:
            parts.append(ber.tlv(_RULE, rule.encode()))
        if attribute:
            parts.append(ber.tlv(_TYPE, attribute.encode()))
        parts.append(ber.tlv(_MATCH_VALUE, *self.value(value, at + match.start(4))))
        if dn:
            parts.append(ber.boolean(True, _DN_ATTRIBUTES))
        return ber.tlv(_EXTENSIBLE, *parts)

    def value(self, value: str, at: int) -> tuple[Node, ...]:
        """Content octets of an assertion value, escapes undone."""
        if "*" in value:
            at += value.index("*")
            raise self.fault(at, "a '*' inside this value is written \\2a")
        nodes: list[Node] = []
        end = 0
        for escape in _ESCAPE.finditer(value):
            if not _HEX_PAIR.fullmatch(escape[1]):
                raise self.fault(
                    at + escape.start(),
                    f"{got(escape[0])} is not an escape: two hex digits follow '\\'",
                )
            nodes += self.pattern.unmask(value[end : escape.start()])
            nodes.append(bytes.fromhex(escape[1]))
            end = escape.end()
        return (*nodes, *self.pattern.unmask(value[end:]))
