# SPDX-License-Identifier: Apache-2.0
"""The modify operation (RFC 4511 section 4.6; increment: RFC 4525)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    model_serializer,
    model_validator,
)

from ldapslam.jobs.fields.texts import AttributeName, SomeValues, Values
from ldapslam.jobs.operations.body import EntryBody, nodes
from ldapslam.jobs.requests import ber
from ldapslam.jobs.requests.scope import Scope
from ldapslam.jobs.requests.template import Node

_MODIFY_REQUEST = 0x66
_CHANGES = {"add": 0, "delete": 1, "replace": 2, "increment": 3}


class Modify(EntryBody):
    """Modify one entry. The changes are sent in the order in which the file has them,
    and within each the attributes and values too."""

    kind: ClassVar[str] = "modify"
    response_tag: ClassVar[int] = 0x67
    at_least_one: ClassVar[tuple[str, ...]] = tuple(_CHANGES)

    add: dict[AttributeName, SomeValues] = Field(default_factory=dict)
    """attribute and the value or values to add; patterns allowed"""
    delete: dict[AttributeName, Values] = Field(default_factory=dict)
    """attribute and the value or values to delete; an empty list deletes the whole
    attribute"""
    replace: dict[AttributeName, Values] = Field(default_factory=dict)
    """attribute and its new value or values; an empty list removes it"""
    increment: dict[AttributeName, int] = Field(default_factory=dict)
    """attribute and the number to add to its value (RFC 4525)"""

    _order: tuple[str, ...] = PrivateAttr(default=tuple(_CHANGES))

    @model_validator(mode="wrap")
    @classmethod
    def _keep_order(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        modify = handler(value)
        if isinstance(value, dict):
            modify._order = tuple(key for key in value if key in _CHANGES)
        return modify

    @model_serializer(mode="plain")
    def _in_order(self) -> dict[str, Any]:
        target = {"dn": self.dn} if self.of is None else {"of": self.of}
        if "order" in self.model_fields_set:
            target["order"] = self.order
        return {
            **target,
            **{change: getattr(self, change) for change in self._order},
        }

    def request_for(self, entry: tuple[Node, ...], scope: Scope) -> Node:
        return ber.tlv(
            _MODIFY_REQUEST,
            ber.octet_string(*entry),
            ber.tlv(
                ber.SEQUENCE,
                *(
                    _change(change, attribute, values, scope)
                    for change in self._order
                    for attribute, values in getattr(self, change).items()
                ),
            ),
        )


def _change(change: str, attribute: str, values: list[str] | int, scope: Scope) -> Node:
    texts = [str(values)] if isinstance(values, int) else values
    return ber.tlv(
        ber.SEQUENCE,
        ber.integer(_CHANGES[change], ber.ENUMERATED),
        ber.tlv(
            ber.SEQUENCE,
            ber.octet_string(attribute.encode()),
            ber.tlv(
                ber.SET,
                *(ber.octet_string(*nodes(text, scope)) for text in texts),
            ),
        ),
    )
