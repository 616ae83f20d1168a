# SPDX-License-Identifier: Apache-2.0
"""What to do about a result code that a job does not expect: for `check`, which meets
it before the run, and for the reasons of a verdict. Pure."""

from __future__ import annotations

import re

_LIMITS = (
    "the search may have no index, or find more than the server allows {who}: index "
    "the attributes of its filter, narrow it, or raise the limit"
)
#: Result code -> remedy; {who}: the identity, {what}: what is not there, {check}: what
#: to look at.
_REMEDIES = {
    3: "the server's time limit, or the search's, is over: " + _LIMITS,
    4: _LIMITS,
    8: "the server wants TLS or a stronger bind: `tls: {{start_tls: true}}`",
    10: "the server refers to another one; writes go to a supplier: choose the "
    "stream's target",
    11: _LIMITS,
    12: "the server does not know a critical control of `controls`",
    13: "the server wants TLS: `tls: {{start_tls: true}}`, or ldaps://",
    16: "the entries do not have the attribute, or the value, that is deleted",
    17: "the server's schema does not have an attribute of the request",
    20: "the entries have that value already: draw another, or `replace` it",
    21: "a value does not fit its attribute's syntax",
    34: r"check the DNs: a comma within a value is `\,`, and `dn::` of LDIF is base64",
    32: "{what} is not there, or {who} may not see it: {check}",
    48: "the server wants another bind than this one: `bind`, or -D",
    49: "wrong passwords, locked accounts, or entries that do not exist: check the "
    "bind's `dn` and `password`; `let` draws a number that is in both",
    50: "{who} may not do that: change the server's access rules, or `bind` as "
    "somebody else (-D)",
    51: "the server has too much to do: less load, or fewer connections",
    53: "the server refuses: it may be read-only, ask for an index "
    "(nsslapd-require-index), or for TLS",
    65: "the entry lacks an attribute that its object classes need, or has one too "
    "many",
    68: "entries of these DNs exist: draw others, such as [unique]",
}
#: How servers refuse the value of a rehearsal before they look who writes it.
UNTOLD = frozenset((18, 19, 21))
#: Who sends the requests of a stream whose binds change its connections' identity.
BOUND_BEFORE = "the user bound before"
#: What is not there, and what to look at.
_MISSING = {
    "search": ("the base", "check `base`, or -b"),
    "add": ("the parent", "check the DNs of the entries"),
}
_ENTRY = (
    "the entry",
    "draw DNs that the directory has, such as `-e '[file:dns.txt]'`",
)
_SIZE_LIMIT, _STRONGER_AUTH = 4, 8
#: A range of numbers as they are, without zeros after '%'; `[[` is no pattern.
_UNPADDED = re.compile(r"(?<!\[)\[(-?\d+[-:]-?(\d+)(?:x\d+)?)\]")
_NOTHING_FOUND = (
    "is this the data that the job is for, and may its identity search each attribute "
    "of the filter?"
)


def remedy_of(code: int, kind: str, who: str, size_limit: int = 0) -> str:
    """For an operation of this kind, sent as `who`; empty where none is known.
    `size_limit`: the request's own one."""
    if code == _SIZE_LIMIT and size_limit:
        return (
            f"the search's own limit of {size_limit} entries (`size_limit`, -z) ended "
            "them; where it is meant so, expect: [success, sizeLimitExceeded], or "
            "--expect sizeLimitExceeded"
        )
    if code == _STRONGER_AUTH and who == "anonymous" and kind != "bind":
        return "anonymous may not do that: `bind`, or -D DN -y FILE"
    what, check = _MISSING.get(kind, _ENTRY)
    return _REMEDIES.get(code, "").format(what=what, check=check, who=who)


def empty_remedy(about: str, references: int = 0) -> str:
    """For searches of this text that found nothing; `references`: how many continuation
    references came."""
    if references:
        return f"{references:,} references came instead: search the servers they name"
    found = _UNPADDED.search(about)
    if found is None:
        return _NOTHING_FOUND
    # wider than most of the numbers: of [1-1000] than all but the last
    digits = len(found[2]) + (found[2].strip("0") != "1")
    padded = f"[{found[1]}%{'0' * digits}] writes {digits} digits"
    return f"{_NOTHING_FOUND} '{found[0]}' writes no leading zeros, {padded}"
