# SPDX-License-Identifier: Apache-2.0
"""Our errors as gRPC statuses and back, and the settings of both ends of a channel.

A refusal has a status code, the error's text, and the whole error as a Failure in the
trailing metadata, of which our clients make an equal error. Callers use `rpc_errors`:
no grpc.RpcError leaves them.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from ldapslam.base.errors import (
    AccessRefused,
    AmbiguousRun,
    ConfigError,
    CoordinatorUnreachable,
    EngineError,
    FleetError,
    JobError,
    JobErrors,
    LdapSlamError,
    ReportError,
    RunError,
    RunNotFound,
    StoreError,
    TargetError,
)
from ldapslam.proto import common_pb2 as pb
from ldapslam.transport.messages import (
    MAX_MESSAGE_BYTES,
    ProtocolError,
    checked,
    error_of,
    failure_message,
)

_log = logging.getLogger(__name__)

_Message = TypeVar("_Message", bound=Message)

_SYSTEM_ERRORS = frozenset(map(os.strerror, errno.errorcode))
#: In gRPC's text of a failed connection -> what it means.
_SIGNS = {
    "DNS resolution failed": "its name cannot be resolved",
    "andshake": "the TLS handshake failed",
    "onnect": "no connection could be made",
}

#: How a call ends that has not failed in our code -> what it means.
_ENDS = {
    grpc.StatusCode.DEADLINE_EXCEEDED: "no answer in time",
    grpc.StatusCode.CANCELLED: "the call was ended",
    grpc.StatusCode.UNIMPLEMENTED: "it does not know this call: it is of another "
    "version, or no coordinator",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "a message was larger than may be sent",
}

#: The call was ended, or its client has gone.
CallEnded = grpc.aio.BaseError

FAILURE_KEY = "ldapslam-failure-bin"

#: Metadata beyond gRPC's 8 KiB needs both sides' consent.
_MAX_METADATA_BYTES = 1024 * 1024
_MAX_STATUS_CHARACTERS = 1000

#: so_reuseport would let two coordinators share one port.
CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_metadata_size", _MAX_METADATA_BYTES),
    ("grpc.absolute_max_metadata_size", _MAX_METADATA_BYTES),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ("grpc.so_reuseport", 0),
    # a proxy named in the environment is for the web, not for the fleet
    ("grpc.enable_http_proxy", 0),
)

# Most specific class first.
_STATUS_OF: tuple[tuple[type[LdapSlamError], grpc.StatusCode], ...] = (
    (JobError, grpc.StatusCode.INVALID_ARGUMENT),
    (JobErrors, grpc.StatusCode.INVALID_ARGUMENT),
    (ConfigError, grpc.StatusCode.INVALID_ARGUMENT),
    (RunNotFound, grpc.StatusCode.NOT_FOUND),
    (AmbiguousRun, grpc.StatusCode.INVALID_ARGUMENT),
    (StoreError, grpc.StatusCode.UNAVAILABLE),
    (AccessRefused, grpc.StatusCode.PERMISSION_DENIED),
    (FleetError, grpc.StatusCode.FAILED_PRECONDITION),
    (TargetError, grpc.StatusCode.FAILED_PRECONDITION),
    (RunError, grpc.StatusCode.ABORTED),
    (ReportError, grpc.StatusCode.INTERNAL),
    (EngineError, grpc.StatusCode.INTERNAL),
    (LdapSlamError, grpc.StatusCode.UNKNOWN),
)


def status_of(
    error: LdapSlamError,
) -> tuple[grpc.StatusCode, str, tuple[tuple[str, bytes], ...]]:
    failure = failure_message(error).SerializeToString()
    text = str(error)[:_MAX_STATUS_CHARACTERS]
    code = next(code for cls, code in _STATUS_OF if isinstance(error, cls))
    return code, text, ((FAILURE_KEY, failure),)


def error_of_rpc(error: grpc.RpcError, address: str) -> LdapSlamError:
    """The error of a failed call. Without a Failure the call did not reach our code."""
    for key, value in error.trailing_metadata() or ():
        if key == FAILURE_KEY:
            try:
                return error_of(checked(pb.Failure.FromString(value)))
            except (DecodeError, ProtocolError):
                return ProtocolError("a refusal cannot be read")
    code, details = error.code(), error.details() or ""
    _log.debug("%s: %s: %s", address, code.name, details)
    return CoordinatorUnreachable(address, _in_words(code, details))


def _in_words(code: grpc.StatusCode, details: str) -> str:
    """Why a call did not arrive: gRPC's own texts are for those who know its code."""
    if code is not grpc.StatusCode.UNAVAILABLE:
        return _ENDS.get(code, "it failed to answer; its log may say more")
    reason = details.rpartition(": ")[2]
    if reason in _SYSTEM_ERRORS:
        return reason[0].lower() + reason[1:]
    for sign, words in _SIGNS.items():
        if sign in details:
            return words
    return "the connection ended"


@contextmanager
def rpc_errors(address: str) -> Iterator[None]:
    """Within, a failed call raises our error in place of grpc.RpcError."""
    try:
        yield
    except grpc.RpcError as error:
        raise error_of_rpc(error, address) from error


def readable(message: _Message | None, address: str) -> _Message:
    """What `address` sent; gRPC's asyncio gives None for what it cannot parse."""
    if message is None:
        raise CoordinatorUnreachable(address, "what it sent cannot be read")
    return checked(message)
