# SPDX-License-Identifier: Apache-2.0
"""The unbind operation (RFC 4511 section 4.3): the end of a connection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from ldapslam.jobs.operations.body import Compiled, OperationBody
from ldapslam.jobs.requests.scope import Scope
from ldapslam.jobs.requests.template import Node

_UNBIND_REQUEST = b"\x42\x00"


class Unbind(OperationBody):
    """Unbind: the server closes the connection, the client makes a new one. It has no
    fields: `unbind: {}`."""

    kind: ClassVar[str] = "unbind"
    response_tag: ClassVar[int] = 0

    def request(self, scope: Scope) -> Node:
        return _UNBIND_REQUEST

    def compile(
        self, scope: Scope | None = None, controls: Sequence[Node] = ()
    ) -> Compiled:
        return replace(super().compile(scope, controls), action="unbind")
