# SPDX-License-Identifier: Apache-2.0
"""Operations about the connection or another request rather than an entry (RFC 4511).

Bind (section 4.2, RFC 4513), unbind (4.3), abandon (4.11) and extended (4.12): by OID,
and the usual ones. The passwords of binds stand in the job file, with patterns: they
belong to a test population. How connections are set up is in fields/connection.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from ldapslam.base.fault import Fault
from ldapslam.jobs.fields.connection import (
    SINGLE_STEP,
    Mechanism,
    check_authzid,
    check_properties,
)
from ldapslam.jobs.fields.sections import Duration, Kind, Name, Section, checked
from ldapslam.jobs.fields.texts import EntryDn, Octets, Oid, PatternText, parse_octets
from ldapslam.jobs.operations.body import (
    NO_VARIABLE,
    OperationBody,
    OperationPlan,
    dn_nodes,
    nodes,
    variable,
)
from ldapslam.jobs.requests import ber
from ldapslam.jobs.requests.scope import Let, Scope
from ldapslam.jobs.requests.template import MESSAGE_ID, Node, ValueSource

_BIND_REQUEST = 0x60
_SIMPLE, _SASL = 0x80, 0xA3
_VERSION = 3


def _some(text: str) -> str:
    if not text:
        # RFC 4513 section 5.1.2: servers may take it for an anonymous bind.
        raise Fault(
            "expected a password, got ''",
            "a bind with an empty password is anonymous: {anonymous: true}",
        )
    return text


class BindSasl(Section):
    """A SASL bind. EXTERNAL, PLAIN and ANONYMOUS are one request; for the others each
    step is a request, and the response time is that of the whole."""

    mechanism: Mechanism = Field(examples=["PLAIN"])
    """its registered name; one that takes several steps needs its plug-in of libsasl on
    the agents"""
    authcid: PatternText | None = None
    """whose password it is; patterns allowed"""
    password: PatternText | None = None
    """the password; patterns allowed"""
    authzid: Annotated[PatternText, AfterValidator(check_authzid)] | None = None
    """the identity to act as, 'dn:…' or 'u:…'; patterns allowed; without it, the one
    that is bound"""

    @checked
    def _properties(self) -> None:
        check_properties(self.mechanism, self.authcid, self.password, None)


class BindOperation(OperationBody):
    """Bind, as the load itself. The connection then has this identity."""

    kind: ClassVar[str] = "bind"
    response_tag: ClassVar[int] = 0x61
    exactly_one: ClassVar[tuple[str, ...]] = ("dn", "anonymous", "sasl")
    needs: ClassVar[Mapping[str, str]] = {"dn": "password"}

    dn: EntryDn | None = Field(
        default=None, examples=["uid=user.[0-999],ou=people,dc=example,dc=com"]
    )
    """the identity of a simple bind; patterns allowed; `password` goes with it"""
    password: Annotated[PatternText, AfterValidator(_some)] | None = Field(
        default=None, examples=["password"]
    )
    """its password; patterns allowed"""
    anonymous: Annotated[Literal[True] | None, Kind("true")] = None
    """an anonymous bind"""
    sasl: BindSasl | None = None
    """a SASL bind"""

    @checked
    def _password_goes_with_dn(self) -> None:
        if self.dn is None and self.password is not None:
            raise Fault(
                "a password belongs to a simple bind", "give `dn` too, or leave it out"
            )

    @property
    def about(self) -> str:
        return f"SASL {self.sasl.mechanism}" if self.sasl else self.dn or "anonymous"

    def request(self, scope: Scope) -> Node:
        if self.sasl is not None:
            credentials = ber.octet_string(*_credentials(self.sasl, scope))
            return _sasl(self.sasl.mechanism, credentials)
        password = nodes(self.password or "", scope)
        return simple_bind(dn_nodes(self.dn or "", scope), password)

    def compile(self, scope: Scope, controls: Sequence[Node] = ()) -> OperationPlan:
        sasl = self.sasl
        if sasl is None or sasl.mechanism in SINGLE_STEP:
            return super().compile(scope, controls)
        lets: list[Let] = []

        def drawn(text: str | None) -> int:
            if text is None:
                return NO_VARIABLE
            lets.append(scope.let(*nodes(text, scope)))
            return lets[-1].variable

        texts = (drawn(sasl.authcid), drawn(sasl.password), drawn(sasl.authzid))
        credentials = scope.hidden()
        # with its tag and length, as it may be absent (RFC 4513, 5.2.1.1)
        request = _sasl(sasl.mechanism, variable(credentials))
        variables = (sasl.mechanism, *texts, credentials)
        return self.planned(request, controls, lets=tuple(lets), sasl=variables)


def simple_bind(dn: Iterable[Node], password: Iterable[Node]) -> Node:
    return ber.tlv(
        _BIND_REQUEST,
        ber.integer(_VERSION),
        ber.octet_string(*dn),
        ber.tlv(_SIMPLE, *password),
    )


def _sasl(mechanism: str, credentials: Node) -> Node:
    return ber.tlv(
        _BIND_REQUEST,
        ber.integer(_VERSION),
        ber.octet_string(),
        ber.tlv(
            _SASL,
            ber.octet_string(mechanism.encode()),
            credentials,
        ),
    )


def _credentials(sasl: BindSasl, scope: Scope) -> tuple[Node, ...]:
    """Those of a mechanism of a single step. Empty ones are there too: where there are
    none, the server asks for them by saslBindInProgress (14)."""
    authcid, authzid = sasl.authcid, sasl.authzid
    if sasl.mechanism == "PLAIN":  # RFC 4616
        parts = (authzid or "", authcid or "", sasl.password or "")
        texts = [nodes(part, scope) for part in parts]
        return (*texts[0], b"\0", *texts[1], b"\0", *texts[2])
    # RFC 4422 appendix A: the authzid; RFC 4505: the trace.
    text = authzid if sasl.mechanism == "EXTERNAL" else authcid
    return nodes(text or "", scope)


_ABANDON_REQUEST = 0x50
#: An unbind request, without its messageID.
UNBIND = b"\x42\x00"


class Abandon(OperationBody):
    """Send another operation of the stream, then abandon it. What the server then
    answers, if it does, is not waited for."""

    kind: ClassVar[str] = "abandon"
    action: ClassVar[str] = "abandon"
    response_tag: ClassVar[int] = 0

    of: Name = Field(examples=["search"])
    """name of the operation to send and abandon, usually a search"""
    after_ns: Duration = 0
    """time between the request and its abandoning"""

    def request(self, scope: Scope) -> Node:
        """The abandon request alone: what it abandons is the step before it."""
        return ber.tlv(_ABANDON_REQUEST, ValueSource(MESSAGE_ID))


class Unbind(OperationBody):
    """Unbind: the server closes, the client reconnects. No fields: `unbind: {}`."""

    kind: ClassVar[str] = "unbind"
    action: ClassVar[str] = "unbind"
    response_tag: ClassVar[int] = 0

    def request(self, scope: Scope) -> Node:
        return UNBIND


_EXTENDED_REQUEST = 0x77
_REQUEST_NAME, _REQUEST_VALUE = 0x80, 0x81
_USER_IDENTITY, _OLD_PASSWORD, _NEW_PASSWORD = 0x80, 0x81, 0x82

PASSWORD_MODIFY = "1.3.6.1.4.1.4203.1.11.1"
WHO_AM_I = "1.3.6.1.4.1.4203.1.11.3"
_START_TLS = "1.3.6.1.4.1.1466.20037"


def _not_start_tls(text: str) -> str:
    if text == _START_TLS:
        raise Fault(
            "StartTLS cannot be sent as load: the connection would break",
            "connections start TLS with `tls: {start_tls: true}`",
        )
    return text


class PasswordModify(Section):
    """Password modify (RFC 3062). Without `user`, of the identity that is bound;
    without `new`, the server makes a password."""

    user: PatternText | None = None
    """whose password, usually a DN; patterns allowed"""
    old: PatternText | None = None
    """the present password; patterns allowed"""
    new: PatternText | None = None
    """the new password; patterns allowed"""

    def request_value(self, scope: Scope) -> tuple[Node, ...] | None:
        fields = (
            (_USER_IDENTITY, self.user),
            (_OLD_PASSWORD, self.old),
            (_NEW_PASSWORD, self.new),
        )
        parts = [
            ber.tlv(tag, *nodes(text, scope))
            for tag, text in fields
            if text is not None
        ]
        return (ber.sequence(*parts),) if parts else None


class Extended(OperationBody):
    """An extended operation."""

    kind: ClassVar[str] = "extended"
    response_tag: ClassVar[int] = 0x78
    exactly_one: ClassVar[tuple[str, ...]] = ("oid", "password_modify", "who_am_i")
    needs: ClassVar[Mapping[str, str]] = {"value": "oid"}

    oid: Annotated[Oid, AfterValidator(_not_start_tls)] | None = Field(
        default=None, examples=[WHO_AM_I]
    )
    """the operation's OID"""
    value: Octets | None = None
    """the request value of `oid`: text with patterns, hex:… or base64:…"""
    password_modify: PasswordModify | None = None
    """password modify (RFC 3062)"""
    who_am_i: Annotated[Literal[True] | None, Kind("true")] = None
    """who am I (RFC 4532)"""

    def rehearse(
        self, scope: Scope, controls: Sequence[Node] = ()
    ) -> OperationPlan | None:
        # what an operation does is not known by its OID
        is_harmless = self.who_am_i or self.oid == WHO_AM_I
        return self.compile(scope, controls) if is_harmless else None

    def request(self, scope: Scope) -> Node:
        oid, value = self.oid or "", None
        if self.password_modify is not None:
            oid, value = PASSWORD_MODIFY, self.password_modify.request_value(scope)
        elif self.who_am_i:
            oid = WHO_AM_I
        elif self.value is not None:
            value = parse_octets(self.value, scope.names)
        return ber.tlv(
            _EXTENDED_REQUEST,
            ber.tlv(_REQUEST_NAME, oid.encode()),
            b"" if value is None else ber.tlv(_REQUEST_VALUE, *value),
        )
