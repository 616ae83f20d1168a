# SPDX-License-Identifier: Apache-2.0
"""The search operation (RFC 4511 section 4.5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from ldapslam.base import units
from ldapslam.base.fault import expected
from ldapslam.jobs.fields.sections import Duration, Flag
from ldapslam.jobs.fields.texts import AttributeSelector, BaseDn, FilterText
from ldapslam.jobs.operations.body import (
    OperationBody,
    OperationPlan,
    dn_nodes,
    variable,
)
from ldapslam.jobs.operations.controls import paged_results
from ldapslam.jobs.requests import ber
from ldapslam.jobs.requests.filter import compile_filter
from ldapslam.jobs.requests.scope import Scope
from ldapslam.jobs.requests.template import Node

_SEARCH_REQUEST = 0x63
_SCOPES = {"base": 0, "one": 1, "sub": 2, "children": 3}
_SCOPE_TEXTS = {
    "base": "at",
    "one": "one level below",
    "sub": "at and below",
    "children": "below",
}
_DEREF = {"never": 0, "searching": 1, "finding": 2, "always": 3}
_MAX_INT = (1 << 31) - 1


class Search(OperationBody):
    """Search, to its searchResultDone. Entries and references are counted."""

    kind: ClassVar[str] = "search"
    response_tag: ClassVar[int] = 0x65

    base: BaseDn = Field(examples=["ou=people,dc=example,dc=com"])
    """where to search; patterns allowed; empty for the root DSE"""
    scope: Literal["base", "one", "sub", "children"] = "sub"
    """base: the entry itself; one: its children; sub: the entry and all below it;
    children: all below it, where the server knows that scope"""
    filter: FilterText = "(objectClass=*)"
    """which entries (RFC 4515); patterns allowed in values"""
    attributes: list[AttributeSelector] = Field(default_factory=list)
    """attributes to return; '*' all user attributes, '+' all operational ones, '1.1'
    none; an empty list is '*'"""
    size_limit: int = Field(default=0, ge=0, le=_MAX_INT)
    """most entries to return; 0: no limit"""
    time_limit_ns: Duration = 0
    """longest time for the server, in whole seconds; 0s: no limit"""
    deref: Literal["never", "searching", "finding", "always"] = "never"
    """when the server follows aliases"""
    types_only: Flag = False
    """return attribute names without values"""

    @field_validator("time_limit_ns")
    @classmethod
    def _whole_seconds(cls, value: int) -> int:
        if value % units.NS_PER_S or value // units.NS_PER_S > _MAX_INT:
            raise expected(
                "whole seconds", units.format_duration(value), "LDAP counts in seconds"
            )
        return value

    page_size: int | None = Field(default=None, ge=1, le=_MAX_INT, examples=["100"])
    """entries of a page (RFC 2696): the search is repeated until the last page has
    come, each page being one request"""

    @property
    def about(self) -> str:
        where = f"{_SCOPE_TEXTS[self.scope]} {self.base or 'the root DSE'}"
        returned = f", attributes {' '.join(self.attributes)}" * bool(self.attributes)
        return f"{self.filter} {where}{returned}"

    def compile(self, scope: Scope, controls: Sequence[Node] = ()) -> OperationPlan:
        if self.page_size is None:
            return super().compile(scope, controls)
        # The pages after the first one are of the same search: it is drawn once.
        cookie = scope.hidden()
        (request, *others), lets = scope.drawn_once(self.request(scope), *controls)
        page = paged_results(self.page_size, variable(cookie))
        return self.planned(request, (*others, page), lets=lets, cookie_variable=cookie)

    def request(self, scope: Scope) -> Node:
        return search_request(
            dn_nodes(self.base, scope),
            self.scope,
            self.deref,
            compile_filter(self.filter, scope.names),
            self.attributes,
            size_limit=self.size_limit,
            time_limit_s=self.time_limit_ns // units.NS_PER_S,
            types_only=self.types_only,
        )


def search_request(
    base: Iterable[Node],
    scope: str,
    deref: str,
    matched: Node,
    attributes: Iterable[str],
    *,
    size_limit: int = 0,
    time_limit_s: int = 0,
    types_only: bool = False,
) -> Node:
    return ber.tlv(
        _SEARCH_REQUEST,
        ber.octet_string(*base),
        ber.integer(_SCOPES[scope], ber.ENUMERATED),
        ber.integer(_DEREF[deref], ber.ENUMERATED),
        ber.integer(size_limit),
        ber.integer(time_limit_s),
        ber.boolean(types_only),
        matched,
        ber.sequence(*(ber.octet_string(name.encode()) for name in attributes)),
    )
