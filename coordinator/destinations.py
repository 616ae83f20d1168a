# SPDX-License-Identifier: Apache-2.0
"""Where the end of a run is told: webhooks and mail addresses, as people write them.

    https://hooks.example.com/ldap        http:// on loopback only
    mailto:ops@example.com
    {env: NAME}                           the URL is a secret: a variable of the
    {file: /PATH}                         coordinator's environment, or a file there

Those who submit may name less than who runs the coordinator: it would send their
requests from where it stands. They name no files, only variables made for this
(LDAPSLAM_NOTIFY_…), no URL with a password or a query in it (what they write is stored
as it is), and which addresses such a URL may lead to is decided when it is sent. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

import yaml

from ldapslam.base.address import is_local
from ldapslam.base.errors import ConfigError
from ldapslam.base.secrets import SecretRef

#: Variables that a submission may name begin so.
SUBMITTED_PREFIX = "LDAPSLAM_NOTIFY_"
MAX_SUBMITTED = 8

_MAX_LENGTH = 2048
_ENV = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
# one address: no lists, no names, no header fields
_MAIL = re.compile(r"[A-Za-z0-9.!#$%&'*+/=^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,255}")


@dataclass(frozen=True, slots=True)
class Destination:
    """A webhook or a mail address; exactly one of the first three is given."""

    url: str | None = None
    #: What holds the URL of a webhook, or a mailto: address.
    secret: SecretRef | None = None
    #: Mail address.
    mail: str | None = None
    #: Named by who submitted the run, not by who runs the coordinator.
    is_submitted: bool = False

    def __str__(self) -> str:
        """For logs and events: of a URL the host alone, the rest may be a token."""
        if self.secret is not None:
            return str(self.secret)
        return f"mailto:{self.mail}" if self.mail else shown_url(self.url or "")

    def resolved(self) -> Destination:
        """The same with what its reference holds; ConfigError, which does not say it,
        when that is missing or no destination."""
        if self.secret is None:
            return self
        try:
            text = self.secret.resolve().decode("utf-8").strip()
        except UnicodeDecodeError as error:
            raise ConfigError(f"{self.secret} is no text") from error
        except ConfigError as error:
            raise ConfigError(
                str(error), hint="it is read where the coordinator runs"
            ) from error
        try:
            return _plain(text, is_submitted=self.is_submitted)
        except ConfigError as error:
            raise ConfigError(
                f"{self.secret} holds neither an https URL nor mailto:ADDRESS"
            ) from error


def parse_destination(text: str, *, is_submitted: bool = False) -> Destination:
    """A destination as it is written; ConfigError."""
    text = text.strip()
    if text.startswith("{"):
        return Destination(
            secret=_reference(text, is_submitted), is_submitted=is_submitted
        )
    found = _plain(text, is_submitted=is_submitted)
    if is_submitted and found.url is not None:
        _check_submitted(found.url)
    return found


def submitted_destinations(texts: Iterable[str]) -> tuple[Destination, ...]:
    """Those of a submission; ConfigError when one may not be named there."""
    found = tuple(parse_destination(text, is_submitted=True) for text in texts)
    if len(found) > MAX_SUBMITTED:
        raise ConfigError(
            f"a submission may name {MAX_SUBMITTED} destinations of notifications, "
            f"this one has {len(found)}"
        )
    return found


def shown_url(url: str) -> str:
    """Scheme, host and port; never what follows, and no password."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "a URL"
    rest = "/…" if parts.path.strip("/") or parts.query else ""
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}{port}{rest}"


def secret_reference(text: str) -> SecretRef:
    """`{env: NAME}` or `{file: /PATH}`; ConfigError, which does not show the text:
    it may be the secret itself."""
    return _reference(text, is_submitted=False)


def _reference(text: str, is_submitted: bool) -> SecretRef:
    try:
        data: Any = yaml.safe_load(text)
    except yaml.YAMLError:
        data = None
    if not isinstance(data, dict) or len(data) != 1:
        raise _no_reference()
    ((key, value),) = data.items()
    if key == "env" and isinstance(value, str) and _ENV.fullmatch(value):
        if is_submitted and not value.startswith(SUBMITTED_PREFIX):
            raise ConfigError(
                f"a submission may not name the variable {value}",
                hint=f"variables for this begin with {SUBMITTED_PREFIX}",
            )
        return SecretRef(env=value)
    if key == "file" and isinstance(value, str) and value.startswith("/"):
        if is_submitted:
            raise ConfigError(
                "a submission may not name a file of the coordinator's host",
                hint=f"use {{env: {SUBMITTED_PREFIX}…}}, which its operator sets",
            )
        return SecretRef(file=value)
    raise _no_reference()


def _no_reference() -> ConfigError:
    return ConfigError(
        "expected a reference to a secret",
        hint="write {env: NAME} or {file: /PATH}",
    )


def _plain(text: str, *, is_submitted: bool) -> Destination:
    if len(text) > _MAX_LENGTH or not text.isprintable() or " " in text:
        raise _no_destination()
    scheme, colon, rest = text.partition(":")
    if colon and scheme.lower() == "mailto":
        if not _MAIL.fullmatch(rest):
            raise ConfigError(
                "expected one mail address", hint="write mailto:ops@example.com"
            )
        return Destination(mail=rest, is_submitted=is_submitted)
    parts = _split(text)
    if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        raise ConfigError(
            f"{shown_url(text)}: what is told would be sent in clear",
            hint="write https://…; http:// is for receivers on this host's loopback",
        )
    return Destination(url=text, is_submitted=is_submitted)


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        is_usable = False
    if not is_usable:
        raise _no_destination()
    return parts


def _is_loopback(host: str) -> bool:
    return is_local(f"[{host}]:0" if ":" in host else f"{host}:0")


def _no_destination() -> ConfigError:
    return ConfigError(
        "expected where to send notifications",
        hint="write https://HOST/PATH, mailto:ADDRESS or {env: NAME}",
    )


def _check_submitted(url: str) -> None:
    parts = _split(url)
    if parts.username is not None or parts.query or parts.fragment:
        raise ConfigError(
            f"{shown_url(url)}: a submission's URL may have no user, query or fragment",
            hint="it is stored as it is written; have the coordinator's operator set "
            f"the whole URL in a variable, and name that: {{env: {SUBMITTED_PREFIX}…}}",
        )
