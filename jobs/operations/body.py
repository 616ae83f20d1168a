# SPDX-License-Identifier: Apache-2.0
"""What every operation of a job file has in common.

An operation becomes a request in two steps: its fields are checked when the job file is
read, each where it stands; `compile` makes what the engine is told, with the variables
of the script that the operation is a step of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from pydantic import Field

from ldapslam.jobs.fields.context import Reading
from ldapslam.jobs.fields.sections import Name, Section, checked
from ldapslam.jobs.fields.texts import EntryDn
from ldapslam.jobs.requests import ber
from ldapslam.jobs.requests.dn import parse_dn
from ldapslam.jobs.requests.pattern import parse_pattern
from ldapslam.jobs.requests.scope import Let, Scope
from ldapslam.jobs.requests.template import (
    VARIABLE,
    Node,
    Template,
    ValueSource,
    compile_template,
)

_CONTROLS = 0xA0


Order = Literal["fifo", "lifo", "random"]


class Take(NamedTuple):
    """The request's entry comes out of the ledger of the add operation `of`. It goes
    back there if it still exists by the same DN."""

    of: str
    order: Order
    #: Gets the DN, before the lets are drawn.
    variable: int


class SaslVariables(NamedTuple):
    """Where the engine finds and leaves what a bind of several steps needs; -1: none.
    The lets fill in the first three; the request has the credentials as a variable."""

    mechanism: str
    authcid: int
    password: int
    authzid: int
    credentials: int


@dataclass(frozen=True)
class Compiled:
    """What the engine is told of one operation (Engine.add_operation)."""

    template: Template
    #: Tag of the protocolOp that ends the operation (RFC 4511); 0: no response.
    response_tag: int
    #: Result codes that are a success without being named by `expect`.
    success_codes: tuple[int, ...] = (0,)
    action: Literal["request", "unbind", "abandon"] = "request"
    #: False: the session goes on without waiting for the response.
    awaits: bool = True
    #: Hidden lets of the request, in this order, after those of the job file.
    lets: tuple[Let, ...] = ()
    sasl: SaslVariables | None = None
    #: Holds the paging cookie; -1: the search is not paged.
    cookie_variable: int = -1
    take: Take | None = None
    #: Variable with a DN that is new in the ledger after success: in the operation's
    #: own (add) or in the one of `take` (modify DN); -1: none.
    put: int = -1


class OperationBody(Section):
    """The fields of one kind of operation, and how they become a request."""

    #: Key in the job file, and name in reports.
    kind: ClassVar[str]
    #: Tag of the protocolOp that ends the operation (RFC 4511); 0: no response.
    response_tag: ClassVar[int]
    #: Result codes that are a success without being named by `expect`.
    success_codes: ClassVar[tuple[int, ...]] = (0,)

    def request(self, scope: Scope) -> Node:
        """The protocolOp."""
        raise NotImplementedError

    def compile(
        self, scope: Scope | None = None, controls: Sequence[Node] = ()
    ) -> Compiled:
        """The operation as a step of the script that the scope belongs to; hidden
        variables are taken from it. `controls` are those of the job file."""
        return Compiled(
            template=message(self.request(scope or Scope()), controls),
            response_tag=self.response_tag,
            success_codes=self.success_codes,
        )

    @checked
    def _must_compile(self, reading: Reading) -> None:
        self.compile(reading.scope.copy())


class EntryBody(OperationBody):
    """An operation on one entry: the one that `dn` names, or one of those that an add
    operation of the stream has added."""

    exactly_one: ClassVar[tuple[str, ...]] = ("dn", "of")

    dn: EntryDn | None = Field(
        default=None, examples=["uid=user.[0-999],ou=people,dc=example,dc=com"]
    )
    """the entry; patterns allowed"""
    of: Name | None = Field(default=None, examples=["add"])
    """name of an add operation of the stream: an entry that it added in this run and
    that nobody else works on"""
    order: Order = "fifo"
    """which of the entries of `of`: the oldest, the newest or any"""

    def request_for(self, entry: tuple[Node, ...], scope: Scope) -> Node:
        """The protocolOp on the entry of this DN."""
        raise NotImplementedError

    def compile(
        self, scope: Scope | None = None, controls: Sequence[Node] = ()
    ) -> Compiled:
        scope = scope or Scope()
        if self.of is None:
            request = self.request_for(dn_nodes(self.dn or "", scope), scope)
            take = None
        else:
            take = Take(self.of, self.order, scope.hidden())
            request = self.request_for((variable(take.variable),), scope)
        return Compiled(
            template=message(request, controls),
            response_tag=self.response_tag,
            success_codes=self.success_codes,
            take=take,
        )


def message(request: Node, controls: Sequence[Node] = ()) -> Template:
    """The template of what follows the messageID (RFC 4511 section 4.1.1)."""
    if not controls:
        return compile_template(request)
    return compile_template(request, ber.tlv(_CONTROLS, *controls))


def variable(number: int) -> Node:
    """The text of a session's variable."""
    return ValueSource(VARIABLE, lo=number)


def nodes(text: str, scope: Scope) -> tuple[Node, ...]:
    """The parts of a value pattern."""
    return parse_pattern(text, scope.names).nodes


def dn_nodes(text: str, scope: Scope) -> tuple[Node, ...]:
    """The parts of a DN with patterns."""
    return parse_dn(text, scope.names).nodes
