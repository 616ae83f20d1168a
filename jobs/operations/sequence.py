# SPDX-License-Identifier: Apache-2.0
"""What a stream sends: operations, and sequences of them as one client's session.

Both are sessions to the engine: a plain operation is a session of one request.
`sessions_of` lays a stream's sessions out, with the names that reports call their
requests by; scripts.py compiles them. While a job is validated, each request sees the
variables that were made before it in its session (scope.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    WithJsonSchema,
    create_model,
    model_validator,
)

from ldapslam.base.fault import Fault, expected
from ldapslam.jobs.fields.result_codes import ResultCode
from ldapslam.jobs.fields.sections import (
    Count,
    Kind,
    Name,
    PositiveDuration,
    Section,
    Text,
)
from ldapslam.jobs.fields.texts import AttributeName
from ldapslam.jobs.operations import OPERATIONS
from ldapslam.jobs.operations.abandon import Abandon
from ldapslam.jobs.operations.body import OperationBody
from ldapslam.jobs.operations.controls import Control
from ldapslam.jobs.requests.pattern import parse_pattern
from ldapslam.jobs.requests.scope import Scope, current_scope, known
from ldapslam.jobs.requests.template import compile_template
from ldapslam.jobs.requests.variable_texts import with_bounds

MAX_REPEAT = 1_000
#: Of one search; the engine's (agent/csrc/stream.c).
MAX_CAPTURES = 32
#: What a capture calls the DN of the entry.
ENTRY_DN = "dn"

_VARIABLE_PATTERN = r"^[A-Za-z][A-Za-z0-9_]{0,63}$"
#: Patterns of one word: a variable of that name would hide them.
_PATTERN_WORDS = ("random", "timestamp", "unique", "uuid")

#: The variables of the session that is being validated.
_session: ContextVar[Scope | None] = ContextVar("session", default=None)


def _checked_variable(text: str) -> str:
    if not re.fullmatch(_VARIABLE_PATTERN, text, re.ASCII):
        raise expected(
            "the name of a variable", text, "letters, digits and _, a letter first"
        )
    if text in _PATTERN_WORDS:
        raise Fault(f"the name {text!r} is a pattern", "choose another name")
    return text


def _checked_let(text: str) -> str:
    with_bounds(
        [(0, compile_template(*parse_pattern(text, current_scope().names).nodes))]
    )
    return text


def _captures(value: Any) -> Any:
    if isinstance(value, dict) and len(value) > MAX_CAPTURES:
        raise Fault(
            f"expected at most {MAX_CAPTURES} captures, got {len(value)}",
            "leave out what no later step uses",
        )
    return {value: value} if isinstance(value, str) else value


Variable = Annotated[
    Text,
    AfterValidator(_checked_variable),
    WithJsonSchema({"type": "string", "pattern": _VARIABLE_PATTERN}),
    Kind("name"),
]
LetText = Annotated[Text, AfterValidator(_checked_let), Kind("text")]
Captures = Annotated[
    dict[Variable, AttributeName],
    BeforeValidator(_captures),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {"type": "object", "additionalProperties": {"type": "string"}},
            ]
        }
    ),
    Kind("name or mapping"),
]


class _Request(Section):
    """What operations and the steps of sequences have in common."""

    choice_noun: ClassVar[str] = "operation"

    name_given: Name | None = Field(
        alias="name",
        default=None,
        description="its name in reports and thresholds; the operation's kind if left "
        "out; unique within the stream",
    )
    expect: list[ResultCode] | None = Field(
        default=None,
        min_length=1,
        description="result codes that are no errors, by name or number; what is not "
        "among them is one, success too. Without it, success",
        examples=["[success, noSuchObject]"],
    )
    controls: list[Control] = Field(
        default_factory=list,
        description="request controls, one mapping each, or the name of one that takes "
        "no value",
        examples=["[manage_dsa_it, {assertion: '(cn=a)'}]"],
    )
    let: dict[Variable, LetText] = Field(
        default_factory=dict,
        description="texts that are made before the request, in this order, for use as "
        "[name] in its values and in those of later steps",
        examples=["{user: 'user.[0-999]'}"],
    )
    capture: Captures = Field(
        default_factory=dict,
        description="what later steps use as [name]: the first value of an attribute "
        "of the first entry that the search returns, or its `dn`. Without one, the "
        "search has failed and the session ends",
        examples=["dn"],
    )

    @property
    def body(self) -> OperationBody:
        body: OperationBody = getattr(self, self.kind)
        return body

    @property
    def kind(self) -> str:
        return next(kind for kind in OPERATIONS if getattr(self, kind) is not None)


def _keys(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [key for key in value if isinstance(key, str)] if value else []


@contextmanager
def _in_session(value: Any, scope: Scope) -> Iterator[None]:
    """Within it, the fields of a request may use the variables that it makes itself,
    and afterwards the session has what it captures."""
    given: Mapping[str, Any] = value if isinstance(value, dict) else {}
    lets, captures = given.get("let"), given.get("capture")
    for name in _keys(lets if isinstance(lets, dict) else None):
        scope.define(name)
    try:
        with known(scope):
            yield
    finally:
        for name in _keys(captures if isinstance(captures, (dict, str)) else None):
            scope.define(name)


class _StepFields(_Request):
    """One step of a sequence: exactly one of the kinds below, or a pause."""

    exactly_one: ClassVar[tuple[str, ...]] = (*OPERATIONS, "think")

    think_ns: PositiveDuration | None = Field(
        alias="think",
        default=None,
        description="a pause before the next operation",
    )
    repeat: Annotated[Count, Field(le=MAX_REPEAT)] = Field(
        default=1, description="how often the operation is sent, one after the other"
    )

    @model_validator(mode="wrap")
    @classmethod
    def _after_the_steps_before(
        cls, value: Any, handler: ModelWrapValidatorHandler[_StepFields]
    ) -> _StepFields:
        with _in_session(value, _session.get() or Scope()):
            return handler(value)


def _kinds() -> dict[str, Any]:
    return {
        kind: (body | None, Field(default=None, description=body.summary()))
        for kind, body in OPERATIONS.items()
    }


if TYPE_CHECKING:
    Step = _StepFields
else:
    Step = create_model(
        "Step", __base__=_StepFields, __doc__=_StepFields.__doc__, **_kinds()
    )


class _OperationFields(_Request):
    """One operation of a stream: exactly one of the kinds below, and how often."""

    exactly_one: ClassVar[tuple[str, ...]] = (*OPERATIONS, "sequence")

    weight: Annotated[Count, Field(le=1_000_000)] = Field(
        default=1,
        description="its share among the stream's operations, drawn for each request",
    )
    sequence: list[Step] | None = Field(
        default=None,
        min_length=1,
        description="a client's session: operations that follow one another on one "
        "connection, each when the one before is done. One that fails ends it. A name "
        "of the sequence begins those of its steps",
        examples=["[{search: {base: 'dc=com'}, capture: dn}, {think: 10ms}]"],
    )

    @property
    def kind(self) -> str:
        return "sequence" if self.sequence is not None else super().kind

    @property
    def name(self) -> str:
        """What it is called; reports call the steps of a sequence by their own."""
        return request_name(self.name_given, self.kind)

    @model_validator(mode="wrap")
    @classmethod
    def _as_a_session(
        cls, value: Any, handler: ModelWrapValidatorHandler[_OperationFields]
    ) -> _OperationFields:
        scope = Scope()
        token = _session.set(scope)
        try:
            with _in_session(value, scope):
                return handler(value)
        finally:
            _session.reset(token)


if TYPE_CHECKING:
    Operation = _OperationFields
else:
    Operation = create_model(
        "Operation",
        __base__=_OperationFields,
        __doc__=_OperationFields.__doc__,
        **_kinds(),
    )


@dataclass(frozen=True)
class Request:
    """A request of a session, as reports know it."""

    name: str
    kind: str
    step: _Request
    #: Time before it is sent, after the request before it is done.
    pause_ns: int = 0
    #: How often it is sent, one after the other.
    repeat: int = 1
    #: It is abandoned by the next request, which does not wait for it.
    is_abandoned: bool = False


@dataclass(frozen=True)
class Session:
    """One kind of session of a stream."""

    weight: int
    requests: tuple[Request, ...]


#: Kinds of operations that change the state of their connection.
CONNECTION_KINDS = ("bind", "unbind")


def needs_connection(operation: _OperationFields) -> bool:
    """Whether no other session may use the connection at the same time."""
    if operation.sequence is not None or operation.capture:
        return True
    if operation.kind in CONNECTION_KINDS:
        return True
    return getattr(operation.body, "page_size", None) is not None


def sessions_of(operations: Iterable[_OperationFields]) -> list[Session]:
    """The sessions of a stream's operations, in their order."""
    plain = {
        request_name(operation.name_given, operation.kind): operation
        for operation in operations
        if operation.sequence is None
    }
    return [
        Session(operation.weight, tuple(_requests(operation, plain)))
        for operation in operations
    ]


def request_name(given: str | None, kind: str, sequence: str | None = None) -> str:
    """What reports call a request: its own name, or one made of its kind."""
    return given or (f"{sequence}-{kind}" if sequence else kind)


def abandoned_name(name: str, of: str) -> str:
    """What reports call the request that the abandon operation `name` gives up."""
    return f"{name}-{of}"


def _requests(
    operation: _OperationFields, plain: Mapping[str, _OperationFields]
) -> Iterator[Request]:
    if operation.sequence is None:
        name = request_name(operation.name_given, operation.kind)
        yield from _sent(name, operation, plain)
        return
    pause_ns = 0
    for step in operation.sequence:
        if step.think_ns is not None:
            pause_ns += step.think_ns
            continue
        name = request_name(step.name_given, step.kind, operation.name_given)
        yield from _sent(name, step, plain, pause_ns, step.repeat)
        pause_ns = 0


def _sent(
    name: str,
    step: _Request,
    plain: Mapping[str, _OperationFields],
    pause_ns: int = 0,
    repeat: int = 1,
) -> Iterator[Request]:
    body = step.body
    if not isinstance(body, Abandon):
        yield Request(name, step.kind, step, pause_ns, repeat)
        return
    other = plain[body.of]
    abandoned = abandoned_name(name, body.of)
    for number in range(repeat):
        yield Request(
            abandoned,
            other.kind,
            other,
            pause_ns if number == 0 else 0,
            is_abandoned=True,
        )
        yield Request(name, step.kind, step, body.after_ns)
