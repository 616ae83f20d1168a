# SPDX-License-Identifier: Apache-2.0
"""Operations without a response (RFC 4511): abandon (section 4.11), unbind (4.3)."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from ldapslam.jobs.fields.sections import Duration, Name
from ldapslam.jobs.operations.body import OperationBody
from ldapslam.jobs.requests import ber
from ldapslam.jobs.requests.scope import Scope
from ldapslam.jobs.requests.template import MESSAGE_ID, Node, ValueSource

_ABANDON_REQUEST = 0x50
#: An unbind request, without its messageID.
UNBIND = b"\x42\x00"


class Abandon(OperationBody):
    """Send another operation of the stream, then abandon it. What the server then
    answers, if it does, is not waited for."""

    kind: ClassVar[str] = "abandon"
    action: ClassVar[str] = "abandon"
    response_tag: ClassVar[int] = 0

    of: Name = Field(examples=["search"])
    """name of the operation to send and abandon, usually a search"""
    after_ns: Duration = 0
    """time between the request and its abandoning"""

    def request(self, scope: Scope) -> Node:
        """The abandon request alone: what it abandons is the step before it."""
        return ber.tlv(_ABANDON_REQUEST, ValueSource(MESSAGE_ID))


class Unbind(OperationBody):
    """Unbind: the server closes the connection, the client makes a new one. It has no
    fields: `unbind: {}`."""

    kind: ClassVar[str] = "unbind"
    action: ClassVar[str] = "unbind"
    response_tag: ClassVar[int] = 0

    def request(self, scope: Scope) -> Node:
        return UNBIND
