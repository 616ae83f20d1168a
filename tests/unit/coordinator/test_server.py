# SPDX-License-Identifier: Apache-2.0
"""What a call that fails answers."""

from __future__ import annotations

import asyncio
import logging

import pytest

from ldapslam.base.errors import ExitCode
from ldapslam.coordinator.security.guard import errors_to
from ldapslam.proto.common_pb2 import Failure
from ldapslam.transport.codec import FAILURE_KEY
from ldapslam.transport.messages import error_of
from support.call_context import CallContext, Refused


def test_a_defect_of_ours_is_an_internal_error_to_the_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    context = CallContext()

    async def call() -> None:
        async with errors_to(context):
            raise KeyError("agent")

    with caplog.at_level(logging.CRITICAL), pytest.raises(Refused):
        asyncio.run(call())
    assert context.refusal == "the coordinator failed: KeyError: 'agent'"
    error = error_of(Failure.FromString(context.metadata[FAILURE_KEY]))
    assert error.exit_code is ExitCode.INTERNAL
