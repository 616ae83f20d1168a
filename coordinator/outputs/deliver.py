# SPDX-License-Identifier: Apache-2.0
"""One delivery of a notification: an HTTP request, or a mail. Blocks; for threads.

The other side is hostile like any other: a delivery ends within its time whatever the
other side does, reads little, follows no redirect and uses no proxy. The address that
was checked is the one that is dialled: the name is not looked up again.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import ipaddress
import smtplib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Literal
from urllib.parse import unquote, urlsplit

from ldapslam.base.errors import ConfigError
from ldapslam.base.secrets import SecretRef

#: From the first byte to the last.
DELIVERY_LIMIT_S = 20.0

#: Of one step: dialling, one read.
_STEP_TIMEOUT_S = 10.0
#: How a mail server greets.
_READY = 220
#: Worth another attempt: the receiver is busy, or not quite there.
_PASSING_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})

#: Whether an address may be dialled.
Permit = Callable[[str], bool]


class DeliveryFailed(Exception):
    """Why; `is_final` when another attempt would end the same."""

    def __init__(self, why: str, *, is_final: bool = False) -> None:
        super().__init__(why)
        self.is_final = is_final


@dataclass(frozen=True, slots=True)
class MailServer:
    host: str
    port: int
    #: From whom mails are.
    sender: str
    #: starttls; implicit: TLS from the first byte; none.
    tls: Literal["starttls", "implicit", "none"] = "starttls"
    user: str | None = None
    password: SecretRef | None = None


@dataclass(frozen=True)
class Allowed:
    """Where the URLs of submissions may lead beside public addresses."""

    #: Names of hosts, lower case.
    hosts: frozenset[str] = frozenset()
    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()

    def permit(self, host: str) -> Permit:
        """What may be dialled for a URL with this host."""
        if host.lower() in self.hosts:
            return lambda _: True
        return self._is_permitted

    def _is_permitted(self, address: str) -> bool:
        found = ipaddress.ip_address(address.partition("%")[0])
        if isinstance(found, ipaddress.IPv6Address):
            # ::ffff:127.0.0.1, and what gateways make of 2002::/16 and 64:ff9b::/96
            inner = found.ipv4_mapped or found.sixtofour or _translated(found)
            found = inner if inner is not None else found
        if any(found in network for network in self.networks):
            return True
        if isinstance(found, ipaddress.IPv6Address) and found not in _UNICAST:
            # whatever else there is leads into somebody's own network
            return False
        return found.is_global and not found.is_multicast


#: All that is given to networks that are everybody's.
_UNICAST = ipaddress.IPv6Network("2000::/3")
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")


def _translated(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if address not in _TRANSLATED:
        return None
    return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)


def parse_allowed(texts: tuple[str, ...]) -> Allowed:
    """Hosts and networks as options name them."""
    hosts, networks = set(), []
    for text in texts:
        try:
            networks.append(ipaddress.ip_network(text, strict=False))
        except ValueError:
            if "/" in text or ":" in text or not text:
                raise ConfigError(
                    f"--notify-allow: expected a host or a network, got {text!r}",
                    hint="such as hooks.example.com or 10.1.0.0/16",
                ) from None
            hosts.add(text.lower())
    return Allowed(frozenset(hosts), tuple(networks))


@dataclass(eq=False)
class Cutoff:
    """Ends a delivery from another thread, by shutting its socket down."""

    limit_s: float
    _socket: socket.socket | None = None
    _is_over: bool = False
    _guard: threading.Lock = field(default_factory=threading.Lock)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        timer = threading.Timer(self.limit_s, self.end)
        timer.daemon = True
        timer.start()
        try:
            yield
        except (OSError, ValueError, http.client.HTTPException, smtplib.SMTPException):
            if self._is_over:
                raise DeliveryFailed(f"not done within {self.limit_s:g} s") from None
            raise
        finally:
            timer.cancel()
            with self._guard:
                if self._socket is not None:
                    self._socket.close()

    def watch(self, opened: socket.socket) -> socket.socket:
        with self._guard:
            self._socket = opened
            if self._is_over:
                opened.close()
        return opened

    def end(self) -> None:
        with self._guard:
            self._is_over = True
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    # also of a TLS socket: nothing is said, it just ends
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    cutoff: Cutoff,
    permit: Permit | None = None,
) -> None:
    """POST once; DeliveryFailed unless the receiver takes it (2xx)."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    is_tls = parts.scheme == "https"
    port = parts.port or (443 if is_tls else 80)
    path = parts.path or "/"
    if parts.query:
        path += f"?{parts.query}"
    sent = {**headers, "Content-Length": str(len(body)), "Connection": "close"}
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        token = base64.b64encode(pair.encode()).decode()
        sent["Authorization"] = f"Basic {token}"
    with _failures(), cutoff.running():
        connection = http.client.HTTPConnection(host, port, timeout=_STEP_TIMEOUT_S)
        with contextlib.closing(connection):
            dialled = _dial(host, port, permit, cutoff)
            connection.sock = _in_tls(dialled, host, cutoff) if is_tls else dialled
            connection.request("POST", path, body, sent)
            status = connection.getresponse().status
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise DeliveryFailed(
            f"it answered {status}: redirects are not followed", is_final=True
        )
    raise DeliveryFailed(
        f"it answered {status}", is_final=status not in _PASSING_STATUS
    )


def send_mail(server: MailServer, message: EmailMessage, *, cutoff: Cutoff) -> None:
    """Hand a mail to the server; DeliveryFailed unless it takes it."""
    password = _password(server)
    with _failures(), cutoff.running():
        smtp = _Smtp(server, cutoff)
        try:
            code, text = smtp.connect(server.host, server.port)
            if code != _READY:
                raise smtplib.SMTPConnectError(code, text)
            if server.tls == "starttls":
                smtp.ehlo()
                smtp.starttls(context=ssl.create_default_context())
                if smtp.sock is not None:
                    cutoff.watch(smtp.sock)
            if server.user is not None and password is not None:
                smtp.login(server.user, password)
            smtp.send_message(message)
            with contextlib.suppress(OSError, smtplib.SMTPException):
                smtp.quit()  # it has the mail
        finally:
            smtp.close()


class _Smtp(smtplib.SMTP):
    """Dials as all deliveries do."""

    def __init__(self, server: MailServer, cutoff: Cutoff) -> None:
        self._server, self._cutoff = server, cutoff
        super().__init__(timeout=_STEP_TIMEOUT_S)
        # of the certificate that STARTTLS shows
        self._host = server.host

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        dialled = _dial(host, port, None, self._cutoff)
        if self._server.tls == "implicit":
            return _in_tls(dialled, host, self._cutoff)
        return dialled


def _password(server: MailServer) -> str | None:
    if server.password is None:
        return None
    try:
        return server.password.resolve().decode()
    except (ConfigError, UnicodeDecodeError) as error:
        raise DeliveryFailed(f"the mail server's password: {error}") from error


def _dial(host: str, port: int, permit: Permit | None, cutoff: Cutoff) -> socket.socket:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
    if permit is not None:
        refused = [address for address in addresses if not permit(address)]
        if refused:
            raise DeliveryFailed(
                f"{host} is {refused[0]}, where submissions may not send to; the "
                "coordinator's --notify-allow would permit it",
                is_final=True,
            )
    failure: OSError = OSError(f"{host} has no address")
    for address in addresses:
        try:
            opened = socket.create_connection((address, port), _STEP_TIMEOUT_S)
        except OSError as error:
            failure = error
            continue
        return cutoff.watch(opened)
    raise failure


def _in_tls(dialled: socket.socket, host: str, cutoff: Cutoff) -> socket.socket:
    context = ssl.create_default_context()
    opened = context.wrap_socket(
        dialled, server_hostname=host, do_handshake_on_connect=False
    )
    cutoff.watch(opened)
    opened.do_handshake()
    return opened


@contextlib.contextmanager
def _failures() -> Iterator[None]:
    """Whatever goes wrong as DeliveryFailed, without what the URL or mail holds."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        raise DeliveryFailed(
            f"its certificate is not trusted: {error.verify_message}", is_final=True
        ) from error
    except smtplib.SMTPRecipientsRefused as error:
        codes = [code for code, _ in error.recipients.values()]
        raise DeliveryFailed(
            f"the recipient was refused: {codes[0]}", is_final=min(codes) >= 500
        ) from error
    except smtplib.SMTPNotSupportedError as error:
        raise DeliveryFailed(f"the mail server: {error}", is_final=True) from error
    except smtplib.SMTPResponseException as error:
        raise DeliveryFailed(
            f"the mail server answered {error.smtp_code}",
            is_final=error.smtp_code >= 500,
        ) from error
    except (OSError, http.client.HTTPException, smtplib.SMTPException) as error:
        what = getattr(error, "strerror", None) or type(error).__name__
        raise DeliveryFailed(f"{what}") from error
    except ValueError as error:
        # http.client and email refuse what does not fit into a header
        raise DeliveryFailed(
            f"it cannot be sent: {type(error).__name__}", is_final=True
        ) from error
