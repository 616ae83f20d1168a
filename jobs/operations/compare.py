# SPDX-License-Identifier: Apache-2.0
"""The compare operation (RFC 4511 section 4.10)."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from ldapslam.jobs.fields.texts import AttributeName, OneValue
from ldapslam.jobs.operations.body import EntryBody, nodes
from ldapslam.jobs.requests import ber
from ldapslam.jobs.requests.scope import Scope
from ldapslam.jobs.requests.template import Node

_COMPARE_REQUEST = 0x6E
_COMPARE_FALSE, _COMPARE_TRUE = 5, 6


class Compare(EntryBody):
    """Compare one attribute of one entry with a value. compareTrue and compareFalse are
    both a success; `expect` can ask for one of them."""

    kind: ClassVar[str] = "compare"
    response_tag: ClassVar[int] = 0x6F
    success_codes: ClassVar[tuple[int, ...]] = (_COMPARE_FALSE, _COMPARE_TRUE)

    attribute: AttributeName = Field(examples=["departmentNumber"])
    """the attribute to compare"""
    value: OneValue = Field(examples=["[1-99]"])
    """the value to compare it with; patterns allowed"""

    def request_for(self, entry: tuple[Node, ...], scope: Scope) -> Node:
        return ber.tlv(
            _COMPARE_REQUEST,
            ber.octet_string(*entry),
            ber.tlv(
                ber.SEQUENCE,
                ber.octet_string(self.attribute.encode()),
                ber.octet_string(*nodes(self.value, scope)),
            ),
        )
