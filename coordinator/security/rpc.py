# SPDX-License-Identifier: Apache-2.0
"""What the servicers of server.py and its like have in common: our errors as statuses.

Needs no grpc itself: a call's context knows how to end it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any, NoReturn

from ldapslam.base.errors import LdapSlamError
from ldapslam.transport.codec import status_of

_log = logging.getLogger(__name__)

#: grpc.aio.ServicerContext; grpc brings no types.
Context = Any


async def _refuse(context: Context, error: LdapSlamError) -> NoReturn:
    code, text, metadata = status_of(error)
    await context.abort(code, text, metadata)
    raise AssertionError("abort does not return")


@contextlib.asynccontextmanager
async def errors_to(context: Context) -> AsyncIterator[None]:
    """Within, an error refuses the call: ours as it is, another one as our failure."""
    try:
        yield
    except LdapSlamError as error:
        await _refuse(context, error)
    except Exception as error:
        _log.exception("a call failed")
        failure = LdapSlamError(
            f"the coordinator failed: {type(error).__name__}: {error}",
            hint="its log has the traceback; please report it",
        )
        await _refuse(context, failure)
