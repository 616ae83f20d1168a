# SPDX-License-Identifier: Apache-2.0
"""The extended operation (RFC 4511 section 4.12): by OID, and the usual ones."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from ldapslam.base.fault import Fault
from ldapslam.jobs.fields.sections import Kind, Section, checked
from ldapslam.jobs.fields.texts import Octets, Oid, PatternText, parse_octets
from ldapslam.jobs.operations.body import OperationBody, nodes
from ldapslam.jobs.requests import ber
from ldapslam.jobs.requests.scope import Scope
from ldapslam.jobs.requests.template import Node

_EXTENDED_REQUEST = 0x77
_REQUEST_NAME, _REQUEST_VALUE = 0x80, 0x81
_USER_IDENTITY, _OLD_PASSWORD, _NEW_PASSWORD = 0x80, 0x81, 0x82

PASSWORD_MODIFY = "1.3.6.1.4.1.4203.1.11.1"
WHO_AM_I = "1.3.6.1.4.1.4203.1.11.3"
_START_TLS = "1.3.6.1.4.1.1466.20037"


def _not_start_tls(text: str) -> str:
    if text == _START_TLS:
        raise Fault(
            "StartTLS cannot be sent as load: the connection would break",
            "connections start TLS with `tls: {start_tls: true}`",
        )
    return text


class PasswordModify(Section):
    """Password modify (RFC 3062). Without `user`, for whom the connection is bound as;
    without `new`, the server makes a password."""

    user: PatternText | None = None
    """whose password, usually a DN; patterns allowed"""
    old: PatternText | None = None
    """the present password; patterns allowed"""
    new: PatternText | None = None
    """the new password; patterns allowed"""

    def request_value(self, scope: Scope) -> tuple[Node, ...] | None:
        fields = (
            (_USER_IDENTITY, self.user),
            (_OLD_PASSWORD, self.old),
            (_NEW_PASSWORD, self.new),
        )
        parts = [
            ber.tlv(tag, *nodes(text, scope))
            for tag, text in fields
            if text is not None
        ]
        return (ber.sequence(*parts),) if parts else None


class Extended(OperationBody):
    """An extended operation."""

    kind: ClassVar[str] = "extended"
    response_tag: ClassVar[int] = 0x78
    exactly_one: ClassVar[tuple[str, ...]] = ("oid", "password_modify", "who_am_i")

    oid: Annotated[Oid, AfterValidator(_not_start_tls)] | None = Field(
        default=None, examples=[WHO_AM_I]
    )
    """the operation's OID"""
    value: Octets | None = None
    """the request value of `oid`: text with patterns, hex:… or base64:…"""
    password_modify: PasswordModify | None = None
    """password modify (RFC 3062)"""
    who_am_i: Annotated[Literal[True] | None, Kind("true")] = None
    """who am I (RFC 4532)"""

    @checked
    def _value_of_an_oid(self) -> None:
        if self.value is not None and self.oid is None:
            raise Fault("`value` goes with `oid`", "leave `value` out")

    def request(self, scope: Scope) -> Node:
        oid, value = self.oid or "", None
        if self.password_modify is not None:
            oid, value = PASSWORD_MODIFY, self.password_modify.request_value(scope)
        elif self.who_am_i:
            oid = WHO_AM_I
        elif self.value is not None:
            value = parse_octets(self.value, scope.names)
        return ber.tlv(
            _EXTENDED_REQUEST,
            ber.tlv(_REQUEST_NAME, oid.encode()),
            b"" if value is None else ber.tlv(_REQUEST_VALUE, *value),
        )
