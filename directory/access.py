# SPDX-License-Identifier: Apache-2.0
"""Connections with python-ldap, set up as a stream's are: TLS, then the bind.

For everything but the engine. An error names the cause and the remedy; only the
preflight finds out why TLS failed.

A connection to addresses that were checked before (addresses.py) is made here and
handed to libldap, and libldap is kept from making another one by the name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time
from collections.abc import Callable
from typing import Any

import ldap
import ldap.sasl
from ldap.ldapobject import SimpleLDAPObject

from ldapslam.base.errors import (
    BindRejected,
    TargetError,
    TargetUnreachable,
    TlsHandshakeFailed,
)
from ldapslam.base.fault import Fault
from ldapslam.base.uri import host_and_port
from ldapslam.jobs.connection_settings import ConnectionSettings
from ldapslam.jobs.requests.pattern import parse_generalized_time

_CLOSE_LIMIT_S = 5.0
_CLOSE_INTERVAL_S = 0.0005
#: tcpi_state, the first byte of TCP_INFO: both sides have closed (TIME_WAIT as well).
_TCP_CLOSE = 7
#: RFC 4511 4.3, under a message ID that no request before it had.
_UNBIND_REQUEST = bytes.fromhex("30 08 02 04 7fffffff 42 00")
#: Where nobody listens: where libldap would go by itself when a connection is lost.
_NOWHERE = "ldapi://%2Fdev%2Fnull%2Fnowhere"
_CONNECT_HINTS = {
    errno.ECONNREFUSED: "is the directory running, and does it listen on the port in "
    "`targets`?",
    errno.ENOENT: "no such socket: is slapd running with this ldapi:// URI in -h?",
    errno.EACCES: "the user who connects may not use this socket",
    errno.ENOTSOCK: "the path is not a socket; write / as %2F in an ldapi:// URI",
    errno.EHOSTUNREACH: "no route from the host that connects",
    errno.ENETUNREACH: "no route from the host that connects",
    errno.ETIMEDOUT: "does a firewall drop what is sent to the directory?",
}
_BIND_HINTS = {
    ldap.INVALID_CREDENTIALS: "check `bind.dn` and the password that `bind.password` "
    "names; servers answer so for an unknown DN too",
    ldap.CONFIDENTIALITY_REQUIRED: "the server wants TLS before a bind: use ldaps:// "
    "or `tls: {start_tls: true}`",
    ldap.STRONG_AUTH_REQUIRED: "the server wants a stronger bind, or TLS before it: "
    "try `tls: {start_tls: true}`",
    ldap.INAPPROPRIATE_AUTH: "the server refuses this kind of bind: without `bind` in "
    "the job it is anonymous",
    ldap.UNWILLING_TO_PERFORM: "the server does not allow this bind; is anonymous "
    "access disabled, or the account locked?",
    ldap.NO_SUCH_OBJECT: "the entry of `bind.dn` does not exist",
    ldap.INVALID_DN_SYNTAX: "`bind.dn` is not a DN to this server",
}


def connect(
    uri: str,
    access: ConnectionSettings,
    *,
    new: Callable[..., Any] = SimpleLDAPObject,
    note_request: Callable[[str], None] = lambda kind: None,
    is_measured: bool = False,
) -> Any:
    """A bound connection, made by `new`; note_request hears the kind of each request.
    A measured one is made at once; before others, a TLS port must answer a handshake.

    Raises TargetUnreachable, TlsHandshakeFailed or BindRejected. A SASL bind counts as
    one request, though its mechanism may take more.
    """
    timeout_s = access.connect_timeout_ns / 1e9
    addresses = access.addresses.get(uri, "")
    is_dialled = bool(addresses) and uri.startswith("ldap:")  # ldaps:// is libldap's
    if uri.startswith("ldaps:") and not is_measured:
        _await_handshake(uri, addresses, timeout_s)
    connection = _dialled(uri, addresses, timeout_s, new) if is_dialled else new(uri)
    try:
        connection.set_option(ldap.OPT_PROTOCOL_VERSION, 3)
        connection.set_option(ldap.OPT_REFERRALS, ldap.OPT_OFF)
        connection.set_option(ldap.OPT_NETWORK_TIMEOUT, timeout_s)
        connection.set_option(ldap.OPT_TIMEOUT, timeout_s)
        # a security layer would be in the way of `unbind_and_wait`
        connection.set_option(ldap.OPT_X_SASL_SSF_MAX, 0)
        _set_tls(connection, uri, access)
        if access.tls.start_tls:
            note_request("extended")
            try:
                connection.start_tls_s()
            except ldap.LDAPError as error:
                raise TlsHandshakeFailed(uri, error_text(error)) from error
        note_request("bind")
        _bind(connection, uri, access)
        if is_dialled:
            # libldap reconnects by itself, and must not find the server by its name
            connection.set_option(ldap.OPT_URI, _NOWHERE)
    except BaseException:
        with contextlib.suppress(ldap.LDAPError):
            connection.unbind_s()
        raise
    return connection


def _dialled(
    uri: str, addresses: str, timeout_s: float, new: Callable[..., Any]
) -> Any:
    """A python-ldap object connected to the first of the addresses that accepts."""
    connected = dial(uri, addresses, timeout_s)
    connected.setblocking(True)  # libldap waits in its reads and writes
    fileno = connected.detach()
    try:
        return new(uri, fileno=fileno)
    except BaseException:
        socket.close(fileno)
        raise


#: Addresses of a host -> the address that accepted last.
_accepted: dict[str, str] = {}


def dial(uri: str, addresses: str, timeout_s: float) -> socket.socket:
    """A connection to the first of the addresses that accepts; TargetUnreachable, by
    the address that accepted before: this host may have no way to the others."""
    failure = TargetUnreachable(uri, "it has no address")
    for text in addresses.split():
        address, _, port = text.rpartition("/")
        try:
            connection = socket.create_connection((address, int(port)), timeout_s)
        except OSError as error:
            if _accepted.get(addresses, text) == text:
                failure = not_connected(uri, f"{address} port {port}", error, timeout_s)
        else:
            _accepted[addresses] = text
            return connection
    raise failure


def _await_handshake(uri: str, addresses: str, timeout_s: float) -> None:
    """See that the server answers a ClientHello, or closes; else TargetUnreachable.
    libldap has no limit for that: it reads again and again, without a pause."""
    import ssl

    host, port = host_and_port(uri)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    hello = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), hello).do_handshake()
    with dial(uri, addresses or f"{host}/{port}", timeout_s) as connection:
        try:
            connection.sendall(hello.read())
            connection.recv(1)
        except TimeoutError as error:
            text = f"the TLS handshake was not answered within {timeout_s:g} s"
            raise TargetUnreachable(uri, text, hint="is this a TLS port?") from error
        except OSError:
            return  # libldap hears the same


def not_connected(
    uri: str, place: str, error: OSError, timeout_s: float
) -> TargetUnreachable:
    """The error of a server to which no connection was made."""
    why, code = (error.strerror or str(error)).lower(), error.errno
    if isinstance(error, TimeoutError):
        why, code = f"no answer within {timeout_s:g} s", errno.ETIMEDOUT
    hint = _CONNECT_HINTS.get(code or 0)
    failure = TargetUnreachable(uri, f"connect to {place}: {why}", hint=hint)
    failure.__cause__ = error
    return failure


def unbind_and_wait(connection: Any) -> bool:
    """Unbind, and wait until the server has closed the connection, for no longer than
    it may take to connect: it has counted the unbind by then. Return False when the
    connection was lost before."""
    try:
        # a duplicate outlives what libldap closes
        stream = socket.socket(fileno=os.dup(connection.get_option(ldap.OPT_DESC)))
        timeout_s = connection.get_option(ldap.OPT_NETWORK_TIMEOUT)
    except (OSError, ldap.LDAPError):
        with contextlib.suppress(ldap.LDAPError):
            connection.unbind_s()
        return False
    limit_s = min(timeout_s or _CLOSE_LIMIT_S, _CLOSE_LIMIT_S)
    with stream, contextlib.suppress(OSError, ldap.LDAPError):
        if stream.family == socket.AF_UNIX:
            # the server's close cannot be seen after libldap's shutdown
            stream.settimeout(limit_s)
            stream.sendall(_UNBIND_REQUEST)
            while stream.recv(4096):
                pass
        connection.unbind_s()
        end_s = time.monotonic() + limit_s
        while stream.family != socket.AF_UNIX and time.monotonic() < end_s:
            # libldap has shut both directions down: a read would end at once
            info = stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
            if info[0] == _TCP_CLOSE:
                break
            time.sleep(_CLOSE_INTERVAL_S)
    return True


def _set_tls(connection: Any, uri: str, access: ConnectionSettings) -> None:
    demand = ldap.OPT_X_TLS_DEMAND if access.tls.verify else ldap.OPT_X_TLS_NEVER
    files = (
        (ldap.OPT_X_TLS_CACERTFILE, access.tls.ca_file),
        (ldap.OPT_X_TLS_CERTFILE, access.tls.cert_file),
        (ldap.OPT_X_TLS_KEYFILE, access.tls.key_file),
    )
    try:
        for option, name in files:
            if name is not None:
                connection.set_option(option, name)
        connection.set_option(ldap.OPT_X_TLS_REQUIRE_CERT, demand)
        # the options above count from the next context on
        connection.set_option(ldap.OPT_X_TLS_NEWCTX, 0)
    except (ldap.LDAPError, ValueError) as error:
        raise TlsHandshakeFailed(uri, "the files of `tls` cannot be used") from error


def _bind(connection: Any, uri: str, access: ConnectionSettings) -> None:
    try:
        if access.bind.mechanism is not None:
            values = {
                ldap.sasl.CB_AUTHNAME: access.bind.authcid or "",
                ldap.sasl.CB_PASS: access.bind.secret,
                ldap.sasl.CB_USER: access.bind.authzid or "",
            }
            sasl = ldap.sasl.sasl(values, access.bind.mechanism)
            connection.sasl_interactive_bind_s("", sasl)
        else:
            connection.simple_bind_s(access.bind.dn or "", access.bind.secret)
    except ldap.LDAPError as error:
        code, text = result_code_of(error), error_text(error)
        if code > 0:
            hint = _BIND_HINTS.get(type(error))
            raise BindRejected(uri, access.bind.dn, code, text, hint=hint) from error
        if uri.startswith("ldaps:"):
            raise TlsHandshakeFailed(uri, text) from error
        if isinstance(error, ldap.TIMEOUT):
            timeout_s = access.connect_timeout_ns / 1e9
            text = f"the bind was not answered within {timeout_s:g} s"
        hint = None
        is_silent = isinstance(error, (ldap.SERVER_DOWN, ldap.TIMEOUT))
        if is_silent and access.addresses.get(uri):  # it has accepted the connection
            tls_uri = uri.replace("ldap://", "ldaps://")
            hint = "is it an LDAP server that listens there? If the port is for TLS, "
            hint += f"write {tls_uri}"
        raise TargetUnreachable(uri, text, hint=hint) from error


def _values(error: ldap.LDAPError) -> dict[str, Any]:
    first = error.args[0] if error.args else None
    return first if isinstance(first, dict) else {}


def result_code_of(error: ldap.LDAPError) -> int:
    """The LDAP result code, or below zero one of libldap's own."""
    # a time-out of python-ldap has no arguments, its class has the number
    code = _values(error).get("result", getattr(error, "errnum", -1))
    return int(code)


def diagnostic_message_of(error: ldap.LDAPError) -> bytes:
    """In UTF-8; empty without one."""
    return str(_values(error).get("info") or "").encode(errors="replace")


def error_text(error: ldap.LDAPError) -> str:
    """What the server or libldap says, in one line."""
    values = _values(error)
    words = (values.get("desc") or type(error).__name__, values.get("info"))
    return ": ".join(" ".join(str(word).split()) for word in words if word)


def target_error(
    uri: str, what: str, error: ldap.LDAPError, hint: str | None = None
) -> TargetError:
    """The error of a server that refuses `what`, or does not answer."""
    code, text = result_code_of(error), error_text(error)
    if code < 0:
        return TargetUnreachable(uri, text)
    reason = f"target {uri!r} does not let {what}: {text} ({code})"
    return TargetError(reason, hint=hint)


def parse_time(text: str) -> float | None:
    """Seconds since 1970 of a server's generalizedTime; None: it is none."""
    try:
        return parse_generalized_time(text) / 1e3
    except Fault:
        return None
