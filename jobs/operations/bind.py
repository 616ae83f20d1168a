# SPDX-License-Identifier: Apache-2.0
"""The bind operation as the load (RFC 4511 section 4.2, RFC 4513).

Its passwords stand in the job file, with patterns: they belong to a test population.
How connections are set up is another matter: see jobs/fields/connection.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from ldapslam.base.fault import Fault
from ldapslam.jobs.fields.connection import (
    SINGLE_STEP,
    Mechanism,
    check_authzid,
    check_properties,
)
from ldapslam.jobs.fields.sections import Kind, Section, checked
from ldapslam.jobs.fields.texts import EntryDn, PatternText
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
from ldapslam.jobs.requests.template import Node

_BIND_REQUEST = 0x60
_SIMPLE, _SASL = 0x80, 0xA3
_VERSION = 3


def _some(text: str) -> str:
    if not text:
        # RFC 4513 section 5.1.2: servers may take it for an anonymous bind.
        raise Fault(
            "expected a password, got ''",
            "a bind with an empty password authenticates nobody: {anonymous: true}",
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
    """whom to act as, as 'dn:…' or 'u:…'; patterns allowed; without it, as oneself"""

    @checked
    def _properties(self) -> None:
        check_properties(self.mechanism, self.authcid, self.password, None)


class BindOperation(OperationBody):
    """Bind, as the load itself. The connection then acts as whom it was bound as."""

    kind: ClassVar[str] = "bind"
    response_tag: ClassVar[int] = 0x61
    exactly_one: ClassVar[tuple[str, ...]] = ("dn", "anonymous", "sasl")

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
        if self.dn is not None and self.password is None:
            raise Fault(
                "the key 'password' is missing",
                "password: that of `dn`; without any, {anonymous: true}",
            )
        if self.dn is None and self.password is not None:
            raise Fault(
                "a password belongs to a simple bind", "give `dn` too, or leave it out"
            )

    def request(self, scope: Scope) -> Node:
        if self.sasl is None:
            return self._simple(scope)
        return _sasl(self.sasl.mechanism, _credentials(self.sasl, scope))

    def _simple(self, scope: Scope) -> Node:
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
        request = _sasl(sasl.mechanism, (variable(credentials),))
        variables = (sasl.mechanism, *texts, credentials)
        return self.planned(request, controls, lets=tuple(lets), sasl=variables)


def simple_bind(dn: Iterable[Node], password: Iterable[Node]) -> Node:
    return ber.tlv(
        _BIND_REQUEST,
        ber.integer(_VERSION),
        ber.octet_string(*dn),
        ber.tlv(_SIMPLE, *password),
    )


def _sasl(mechanism: str, credentials: tuple[Node, ...]) -> Node:
    return ber.tlv(
        _BIND_REQUEST,
        ber.integer(_VERSION),
        ber.octet_string(),
        ber.tlv(
            _SASL,
            ber.octet_string(mechanism.encode()),
            ber.octet_string(*credentials),
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
