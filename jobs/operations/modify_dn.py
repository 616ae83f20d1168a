# SPDX-License-Identifier: Apache-2.0
"""The modify DN operation (RFC 4511 section 4.9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, ValidationInfo

from ldapslam.base.fault import expected
from ldapslam.jobs.fields.context import names_in
from ldapslam.jobs.fields.sections import Flag
from ldapslam.jobs.fields.texts import BaseDn, EntryDn
from ldapslam.jobs.operations.body import (
    Compiled,
    EntryBody,
    Take,
    dn_nodes,
    message,
    variable,
)
from ldapslam.jobs.requests import ber
from ldapslam.jobs.requests.dn import parse_dn, split_rdn
from ldapslam.jobs.requests.scope import Scope
from ldapslam.jobs.requests.template import PARENT, Node, ValueSource

_MOD_DN_REQUEST = 0x6C
_NEW_SUPERIOR = 0x80


def _one_rdn(text: str, info: ValidationInfo) -> str:
    if split_rdn(parse_dn(text, names_in(info)).masked)[1]:
        raise expected("a single RDN", text, "the rest of the DN is `new_superior`")
    return text


class ModifyDn(EntryBody):
    """Rename one entry or move it below another. With `of`, the run goes on to know
    the entry by its new DN. `modrdn` is accepted for `modify_dn`."""

    kind: ClassVar[str] = "modify_dn"
    response_tag: ClassVar[int] = 0x6D

    new_rdn: Annotated[EntryDn, AfterValidator(_one_rdn)] = Field(
        examples=["uid=renamed.[unique]"]
    )
    """its new RDN; patterns allowed"""
    delete_old_rdn: Flag = True
    """remove the old RDN's value from the entry"""
    new_superior: BaseDn | None = None
    """DN of its new parent; patterns allowed; without it, it stays where it is"""

    def request_for(self, entry: tuple[Node, ...], scope: Scope) -> Node:
        superior = (
            None if self.new_superior is None else dn_nodes(self.new_superior, scope)
        )
        return self._request(entry, dn_nodes(self.new_rdn, scope), superior)

    def _request(
        self,
        entry: tuple[Node, ...],
        rdn: tuple[Node, ...],
        superior: tuple[Node, ...] | None,
    ) -> Node:
        return ber.tlv(
            _MOD_DN_REQUEST,
            ber.octet_string(*entry),
            ber.octet_string(*rdn),
            ber.boolean(self.delete_old_rdn),
            b"" if superior is None else ber.tlv(_NEW_SUPERIOR, *superior),
        )

    def compile(
        self, scope: Scope | None = None, controls: Sequence[Node] = ()
    ) -> Compiled:
        if self.of is None:
            return super().compile(scope, controls)
        # The new DN is needed twice, so its parts are drawn before the request.
        scope = scope or Scope()
        take = Take(self.of, self.order, scope.hidden())
        lets = [scope.let(*dn_nodes(self.new_rdn, scope))]
        rdn = lets[0].variable
        superior: tuple[Node, ...] | None = None
        parent: Node = ValueSource(PARENT, lo=take.variable)
        if self.new_superior is not None:
            lets.append(scope.let(*dn_nodes(self.new_superior, scope)))
            parent = variable(lets[-1].variable)
            superior = (parent,)
        # Below the root there is no comma.
        above = (b",", parent) if self.new_superior != "" else ()
        lets.append(scope.let(variable(rdn), *above))
        request = self._request((variable(take.variable),), (variable(rdn),), superior)
        return Compiled(
            template=message(request, controls),
            response_tag=self.response_tag,
            lets=tuple(lets),
            take=take,
            put=lets[-1].variable,
        )
