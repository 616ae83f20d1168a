# SPDX-License-Identifier: Apache-2.0
"""What to do about a result code that a job does not expect: for `check`, which meets
it before the run, and for the reasons of a verdict. Pure."""

from __future__ import annotations

_LIMITS = (
    "the search may have no index, or find more than the server allows {who}: index "
    "the attributes of its filter, narrow it, or raise the limit"
)
#: Result code -> remedy; {who}: the identity, {what}: what is not there, {check}: what
#: to look at.
_REMEDIES = {
    3: "the server's time limit, or the search's, is over: " + _LIMITS,
    4: _LIMITS + "; with `size_limit` in the search, expect: [success, "
    "sizeLimitExceeded]",
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
    32: "{what} is not there, or {who} may not see it: {check}",
    48: "the server wants another bind than this one: `bind`, or -D",
    49: "wrong passwords, or entries that do not exist: check the bind's `dn` and "
    "`password`",
    50: "{who} may not do that: change the server's access rules, or `bind` as "
    "somebody else (-D)",
    51: "the server has too much to do: less load, or fewer connections",
    53: "the server refuses: it may be read-only, ask for an index "
    "(nsslapd-require-index), or for TLS",
    65: "the entry lacks an attribute that its object classes need, or has one too "
    "many",
    68: "entries of these DNs exist: draw others, such as [unique]",
}
#: What is not there, and what to look at.
_MISSING = {
    "search": ("the base", "check `base`, or -b"),
    "add": ("the parent", "check the DNs of the entries"),
}
_ENTRY = ("the entry", "draw DNs that the directory has")


def remedy_of(code: int, kind: str, who: str) -> str:
    """For an operation of this kind, sent as `who`; empty where none is known."""
    what, check = _MISSING.get(kind, _ENTRY)
    return _REMEDIES.get(code, "").format(what=what, check=check, who=who)
