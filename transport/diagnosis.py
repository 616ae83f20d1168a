# SPDX-License-Identifier: Apache-2.0
"""Explains why a coordinator could not be reached: one handshake with Python's TLS
shows whether the peer speaks TLS, is trusted, and takes our certificate."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator

from ldapslam.base.address import is_unix, split_host_port
from ldapslam.base.errors import ConfigError, CoordinatorUnreachable
from ldapslam.transport.codec import rpc_errors
from ldapslam.transport.credentials import TlsFiles

_TIMEOUT_S = 2.0
#: A plain-text peer's answers to a handshake.
_NO_TLS = ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF", "RECORD_LAYER_FAILURE")


@contextlib.contextmanager
def explained_errors(address: str, files: TlsFiles | None) -> Iterator[None]:
    """`rpc_errors`, which says more of a coordinator that cannot be reached."""
    try:
        with rpc_errors(address):
            yield
    except CoordinatorUnreachable as error:
        raise explained(error, files) from error


def explained(
    error: CoordinatorUnreachable, files: TlsFiles | None
) -> CoordinatorUnreachable:
    """The same error with the reason, when TLS is the reason."""
    if is_unix(error.address):
        return error
    try:
        found = _reason(error.address, files)
    except (OSError, ValueError, ConfigError):
        return error
    if found is None:
        return error
    detail, hint = found
    return CoordinatorUnreachable(error.address, detail, hint=hint)


def _reason(address: str, files: TlsFiles | None) -> tuple[str, str] | None:
    """What is wrong, and the remedy; OSError when nobody listens there."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if files is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context.load_verify_locations(files.authority)
        context.load_cert_chain(files.certificate, files.key)
        # as gRPC does: an authority need not be a root
        context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    context.set_alpn_protocols(["h2"])
    host, port = split_host_port(address)
    failure: ssl.SSLError | None = None
    is_ended = False
    with socket.create_connection((host, port), timeout=_TIMEOUT_S) as plain:
        plain.settimeout(_TIMEOUT_S)
        try:
            with context.wrap_socket(plain, server_hostname=host) as stream:
                # the peer judges our certificate after the handshake: a frame, an
                # alert, or nothing
                is_ended = not stream.recv(1)
        except ssl.SSLError as error:
            failure = error
        except ConnectionError:
            # ended in the handshake: not TLS
            failure = ssl.SSLError(0, "UNEXPECTED_EOF")
    if files is None:
        return _without_files(failure)
    return _with_files(failure, is_ended)


def _without_files(failure: ssl.SSLError | None) -> tuple[str, str] | None:
    if failure is not None and _is_plain(failure):
        return None
    return (
        "it wants TLS, and there is no certificate here",
        "give --tls, a folder of `ldapslam fleet pki issue`; plain text is refused",
    )


def _with_files(failure: ssl.SSLError | None, is_ended: bool) -> tuple[str, str] | None:
    if is_ended:
        return _not_taken("it closed the connection")
    if failure is None:
        return None
    if isinstance(failure, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not good: {failure.verify_message}",
            "is ca.pem that of this fleet, and the address one that the coordinator's "
            "certificate was issued for (--host)?",
        )
    if _is_plain(failure):
        return (
            "it speaks plain text, and there are certificates here, so plain text is "
            "refused",
            "start the coordinator with --pki or --tls",
        )
    return _not_taken((failure.reason or str(failure)).replace("_", " ").lower())


def _not_taken(how: str) -> tuple[str, str]:
    return (
        f"it does not take the certificate: {how}",
        "is it of this fleet's authority, with all that are between them behind it in "
        "cert.pem? `ldapslam fleet pki list` shows what has expired",
    )


def _is_plain(failure: ssl.SSLError) -> bool:
    # only OpenSSL's errors have a reason
    reason = getattr(failure, "reason", "")
    text = f"{reason} {failure}".upper().replace(" ", "_")
    return any(sign in text for sign in _NO_TLS)
