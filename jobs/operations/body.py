# SPDX-License-Identifier: Apache-2.0
"""What every operation of a job file has in common.

An operation becomes a request in two steps: its fields are checked when the job file is
read, each where it stands; `compile` makes what the engine is told, with the variables
of the script that the operation is a step of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

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
#: Number of a variable that is not there.
NO_VARIABLE = -1


@dataclass(frozen=True)
class OperationPlan:
    """One operation of a stream, as the engine takes it, by these names. Variables are
    those of a session of the script that it is a step of (scope.py)."""

    #: In reports.
    name: str
    #: Its key in the job file.
    kind: str
    #: Tag of the protocolOp that ends the operation (RFC 4511); 0: no response.
    response_tag: int
    template: Template
    #: Result codes that count as succeeded, and those that count as expected.
    success_codes: tuple[int, ...] = (0,)
    expected_codes: tuple[int, ...] = ()
    #: Variables and the texts that they get before each request, in order.
    lets: tuple[Let, ...] = ()
    #: Variables and the attributes whose first value they get of the first entry; the
    #: empty attribute is the entry's DN.
    captures: tuple[tuple[int, bytes], ...] = ()
    #: Holds the cookie of paged results; the operation is repeated until it is empty.
    cookie_variable: int = NO_VARIABLE
    #: 'request', 'unbind' or 'abandon'.
    action: str = "request"
    #: False: the session goes on without waiting for the response.
    awaits: bool = True
    #: A bind in several steps: mechanism and the variables of authcid, password,
    #: authzid and credentials.
    sasl: tuple[str, int, int, int, int] | None = None
    #: The ledger of added entries: its number within the stream, the variables with
    #: the DN to note after success and with the DN to take out before, and in which
    #: order ('fifo', 'lifo', 'random'). An entry that still exists by its DN goes back.
    ledger: int = 0
    ledger_put: int = NO_VARIABLE
    ledger_take: int = NO_VARIABLE
    ledger_order: str = "fifo"
    #: Name of the add operation whose ledger it is; None: its own.
    ledger_of: str | None = None
    #: It stands in for a write, and changes nothing (OperationBody.rehearse).
    is_rehearsal: bool = False


class OperationBody(Section):
    """The fields of one kind of operation, and how they become a request."""

    #: Key in the job file, and name in reports.
    kind: ClassVar[str]
    #: Tag of the protocolOp that ends the operation (RFC 4511); 0: no response.
    response_tag: ClassVar[int]
    #: Result codes that are a success without being named by `expect`.
    success_codes: ClassVar[tuple[int, ...]] = (0,)
    action: ClassVar[str] = "request"
    #: Later steps of a session need what it has changed.
    is_needed_done: ClassVar[bool] = False

    @property
    def about(self) -> str:
        """Which entries it is about, in the words of the job file, for reports."""
        return ""

    def request(self, scope: Scope) -> Node:
        """The protocolOp."""
        raise NotImplementedError

    def compile(self, scope: Scope, controls: Sequence[Node] = ()) -> OperationPlan:
        """The operation as a step of the script that the scope belongs to; hidden
        variables are taken from it. `controls` are those of the job file."""
        return self.planned(self.request(scope), controls)

    def rehearse(
        self, scope: Scope, controls: Sequence[Node] = ()
    ) -> OperationPlan | None:
        """What may be sent in its place to a directory that is not to be changed;
        None: nothing."""
        return self.compile(scope, controls)

    def planned(
        self, request: Node, controls: Sequence[Node], **fields: Any
    ) -> OperationPlan:
        """The message of a protocolOp (RFC 4511 section 4.1.1), with further fields."""
        parts = (request, ber.tlv(_CONTROLS, *controls)) if controls else (request,)
        return OperationPlan(
            name=self.kind,
            kind=self.kind,
            response_tag=self.response_tag,
            template=compile_template(*parts),
            success_codes=self.success_codes,
            action=self.action,
            **fields,
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
    that no other session works on"""
    order: Order = "fifo"
    """which of the entries of `of`: the oldest, the newest or any"""

    @property
    def about(self) -> str:
        return self.dn or f"entries of {self.of}"

    def request_for(self, entry: tuple[Node, ...], scope: Scope) -> Node:
        """The protocolOp on the entry of this DN."""
        raise NotImplementedError

    def compile(self, scope: Scope, controls: Sequence[Node] = ()) -> OperationPlan:
        if self.of is None:
            request = self.request_for(dn_nodes(self.dn or "", scope), scope)
            return self.planned(request, controls)
        taken = self.taken(scope)
        entry = variable(taken["ledger_take"])
        return self.planned(self.request_for((entry,), scope), controls, **taken)

    def rehearse(
        self, scope: Scope, controls: Sequence[Node] = ()
    ) -> OperationPlan | None:
        return self.compile(scope, controls) if self.of is None else None

    def taken(self, scope: Scope) -> dict[str, Any]:
        """The fields of an operation whose entry comes out of a ledger."""
        return {
            "ledger_of": self.of,
            "ledger_order": self.order,
            "ledger_take": scope.hidden(),
        }


def variable(number: int) -> Node:
    """The text of a session's variable."""
    return ValueSource(VARIABLE, lo=number)


def nodes(text: str, scope: Scope) -> tuple[Node, ...]:
    """The parts of a value pattern."""
    return parse_pattern(text, scope.names).nodes


def dn_nodes(text: str, scope: Scope) -> tuple[Node, ...]:
    """The parts of a DN with patterns."""
    return parse_dn(text, scope.names).nodes
