# SPDX-License-Identifier: Apache-2.0
"""The delete operation (RFC 4511 section 4.8)."""

from __future__ import annotations

from typing import ClassVar

from ldapslam.jobs.operations.body import EntryBody
from ldapslam.jobs.requests import ber
from ldapslam.jobs.requests.scope import Scope
from ldapslam.jobs.requests.template import Node

_DEL_REQUEST = 0x4A


class Delete(EntryBody):
    """Delete one entry, by its DN or one that this run has added."""

    kind: ClassVar[str] = "delete"
    response_tag: ClassVar[int] = 0x6B

    def request_for(self, entry: tuple[Node, ...], scope: Scope) -> Node:
        return ber.tlv(_DEL_REQUEST, *entry)
