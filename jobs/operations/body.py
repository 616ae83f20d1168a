# SPDX-License-Identifier: Apache-2.0
"""What every operation of a job file has in common, and the types of their fields.

An operation becomes a request in two steps: its fields are checked when the job file is
read, each where it stands; `compile` makes what the engine is told, with the variables
of the script that the operation is a step of.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    BeforeValidator,
    WithJsonSchema,
    model_validator,
)

from ldapslam.jobs import ber
from ldapslam.jobs.dn import parse_dn
from ldapslam.jobs.fault import expected
from ldapslam.jobs.filter import ATTRIBUTE, compile_filter
from ldapslam.jobs.pattern import parse_pattern
from ldapslam.jobs.scope import Scope, current_scope
from ldapslam.jobs.sections import Kind, Section, Text
from ldapslam.jobs.template import Node, Template, compile_template

_ATTRIBUTE = re.compile(ATTRIBUTE, re.ASCII)
_CONTROLS = 0xA0


Order = Literal["fifo", "lifo", "random"]


class Let(NamedTuple):
    """A variable that is drawn before the request: its text is LIT and VAL only."""

    variable: int
    template: Template


class Take(NamedTuple):
    """The request's entry comes out of the ledger of the add operation `of`."""

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
    #: Variable with the DN that is in the ledger after success: in the operation's own
    #: (add) or in the one of `take`; -1: none.
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

    @model_validator(mode="after")
    def _must_compile(self) -> OperationBody:
        self.compile(current_scope())
        return self


def message(request: Node, controls: Sequence[Node] = ()) -> Template:
    """The template of what follows the messageID (RFC 4511 section 4.1.1)."""
    if not controls:
        return compile_template(request)
    return compile_template(request, ber.tlv(_CONTROLS, *controls))


def nodes(text: str, scope: Scope) -> tuple[Node, ...]:
    """The parts of a value pattern."""
    return parse_pattern(text, scope.names).nodes


def dn_nodes(text: str, scope: Scope) -> tuple[Node, ...]:
    """The parts of a DN with patterns."""
    return parse_dn(text, scope.names).nodes


def _checked_dn(text: str) -> str:
    parse_dn(text, current_scope().names)
    return text


def _checked_entry_dn(text: str) -> str:
    if not text.strip():
        raise expected("the DN of an entry", text)
    return _checked_dn(text)


def _checked_filter(text: str) -> str:
    compile_filter(text, current_scope().names)
    return text


def _checked_attribute(text: str) -> str:
    if not _ATTRIBUTE.fullmatch(text):
        raise expected("an attribute such as 'cn' or 'cn;lang-de'", text)
    return text


def _checked_selector(text: str) -> str:
    if text not in ("*", "+", "1.1") and not _ATTRIBUTE.fullmatch(
        text.removeprefix("@")
    ):
        raise expected(
            "an attribute, '*' (all), '+' (operational) or '1.1' (none)", text
        )
    return text


def _values(value: Any) -> list[str]:
    """One value or a list of values; whole numbers stand for their digits."""
    if value is None:
        return []
    return [_value(item) for item in (value if isinstance(value, list) else [value])]


def _value(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        hint = None
        if isinstance(value, bool):
            hint = f"an LDAP boolean is written '{str(value).upper()}', in quotes"
        elif isinstance(value, float):
            hint = f"put it in quotes: '{value}'"
        raise expected("a value: text or a whole number", value, hint)
    parse_pattern(value, current_scope().names)
    return value


#: The DN of an entry; its values may hold patterns.
EntryDn = Annotated[Text, AfterValidator(_checked_entry_dn), Kind("DN")]
#: A DN that may be empty (the root DSE).
BaseDn = Annotated[Text, AfterValidator(_checked_dn), Kind("DN")]
FilterText = Annotated[Text, AfterValidator(_checked_filter), Kind("filter")]
AttributeName = Annotated[Text, AfterValidator(_checked_attribute), Kind("attribute")]
AttributeSelector = Annotated[
    Text, AfterValidator(_checked_selector), Kind("attribute")
]
#: Values of an attribute; each may hold patterns.
Values = Annotated[
    list[str],
    BeforeValidator(_values),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": ["string", "integer", "null"]},
                {"type": "array", "items": {"type": ["string", "integer"]}},
            ]
        }
    ),
    Kind("value or list of values"),
]
