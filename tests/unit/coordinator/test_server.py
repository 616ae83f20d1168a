# SPDX-License-Identifier: Apache-2.0
"""What a call that fails answers."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, NoReturn

import grpc
import pytest

from ldapslam.base.errors import ExitCode
from ldapslam.coordinator.security.guard import errors_to
from ldapslam.proto.common_pb2 import Failure
from ldapslam.transport.codec import FAILURE_KEY
from ldapslam.transport.messages import error_of


class Aborted(Exception):
    pass


class Context:
    """Keeps what the call is refused with."""

    async def abort(
        self, code: grpc.StatusCode, text: str, metadata: tuple[Any, ...]
    ) -> NoReturn:
        self.text, self.metadata = text, dict(metadata)
        raise Aborted


def test_a_defect_of_ours_is_an_internal_error_to_the_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    context = Context()

    async def call() -> None:
        async with errors_to(context):
            raise KeyError("agent")

    with caplog.at_level(logging.CRITICAL), pytest.raises(Aborted):
        asyncio.run(call())
    assert context.text == "the coordinator failed: KeyError: 'agent'"
    error = error_of(Failure.FromString(context.metadata[FAILURE_KEY]))
    assert error.exit_code is ExitCode.INTERNAL
