# SPDX-License-Identifier: Apache-2.0
"""The context of a call, as gRPC gives it to a method."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn


class Refused(Exception):
    """What gRPC raises in a call that is refused."""


class CallContext:
    """Keeps what the call is refused with."""

    def __init__(self) -> None:
        self.code: object = None
        self.refusal = ""
        self.metadata: dict[str, Any] = {}

    async def abort(
        self, code: object, text: str = "", metadata: Iterable[Any] = ()
    ) -> NoReturn:
        self.code, self.refusal, self.metadata = code, text, dict(metadata)
        raise Refused(text)
