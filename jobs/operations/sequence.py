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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    ValidationInfo,
    WithJsonSchema,
    create_model,
    model_validator,
)

from ldapslam.base.fault import Fault, expected, path_text, unknown
from ldapslam.jobs.fields.context import Reading, names_in
from ldapslam.jobs.fields.result_codes import ResultCode
from ldapslam.jobs.fields.sections import (
    KEY,
    Count,
    Found,
    Kind,
    Name,
    Place,
    PositiveDuration,
    Section,
    Text,
    checked,
    one_or_more,
)
from ldapslam.jobs.fields.texts import AttributeName, checked_pattern
from ldapslam.jobs.operations import OPERATIONS
from ldapslam.jobs.operations.body import OperationBody
from ldapslam.jobs.operations.connection import Abandon, BindOperation
from ldapslam.jobs.operations.controls import Control, misplaced_controls
from ldapslam.jobs.requests.pattern import parse_pattern
from ldapslam.jobs.requests.scope import Scope, with_bounds
from ldapslam.jobs.requests.template import VARIABLE, ValueSource

MAX_REPEAT = 1_000
#: Of a stream: steps of all its sequences, those that are repeated as often as they
#: are, and operations; the engine's (agent/csrc/load/stream.c).
MAX_STEPS = 65_535
MAX_OPERATIONS = 1_024
#: Of one search; the engine's (agent/csrc/load/stream.c).
MAX_CAPTURES = 32
#: What a capture calls the DN of the entry.
ENTRY_DN = "dn"

_VARIABLE_PATTERN = r"^[A-Za-z][A-Za-z0-9_]{0,63}$"
#: What steps of a sequence have and neither pauses nor sequences.
_STEP_KEYS = ("expect", "controls", "let", "capture")
#: Operations that take an entry out of a ledger with `of`.
_ENTRY_KINDS = ("delete", "modify", "compare", "modify_dn")
#: Operations that cannot be abandoned, or of which one would not know the outcome.
_UNABANDONED = ("bind", "unbind", "abandon", "add", "delete", "modify_dn")
#: Patterns of one word: a variable of that name would hide them.
_PATTERN_WORDS = ("random", "timestamp", "unique", "uuid")


def _checked_variable(text: str) -> str:
    if not re.fullmatch(_VARIABLE_PATTERN, text, re.ASCII):
        raise expected(
            "the name of a variable", text, "letters, digits and _, a letter first"
        )
    if text in _PATTERN_WORDS:
        raise Fault(f"the name {text!r} is a pattern", "choose another name")
    return text


def _checked_let(text: str, info: ValidationInfo) -> str:
    with_bounds([Scope().let(*parse_pattern(text, names_in(info)).nodes)])
    return checked_pattern(text, info)


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
    begins_session: ClassVar[bool] = False

    name_given: Name | None = Field(alias="name", default=None)
    """its name in reports and thresholds; the operation's kind if left out; unique
    within the stream"""
    expect: list[ResultCode] | None = Field(
        default=None, min_length=1, examples=["[success, noSuchObject]"]
    )
    """result codes that are no errors, by name or number; what is not among them is
    one, success too. Without it, success"""
    controls: list[Control] = Field(
        default_factory=list, examples=["[manage_dsa_it, {assertion: '(cn=a)'}]"]
    )
    """request controls, one mapping each, or the name of one that takes no value"""
    let: dict[Variable, LetText] = Field(
        default_factory=dict, examples=["{user: 'user.[0-999]'}"]
    )
    """texts that are made before the request, in this order, for use as [name] in its
    values and in those of later steps"""
    capture: Captures = Field(default_factory=dict, examples=["dn"])
    """what later steps use as [name]: the first value of an attribute of the first
    entry that the search returns, or its `dn`. Without one, the search has failed and
    the session ends"""

    @property
    def body(self) -> OperationBody:
        body: OperationBody = getattr(self, self.kind)
        return body

    @property
    def kind(self) -> str:
        return next(kind for kind in OPERATIONS if getattr(self, kind) is not None)

    @model_validator(mode="wrap")
    @classmethod
    def _in_session(
        cls,
        value: Any,
        handler: ModelWrapValidatorHandler[Self],
        info: ValidationInfo,
    ) -> Self:
        """The fields of a request may use the variables that it makes itself; later
        requests of the session have what it captures."""
        reading = Reading.of(info)
        scope = Scope() if cls.begins_session else reading.scope
        given: Mapping[str, Any] = value if isinstance(value, dict) else {}
        lets, captures = given.get("let"), given.get("capture")
        for name in lets if isinstance(lets, dict) else ():
            scope.define(name)
        try:
            with reading.within(scope):
                return handler(value)
        finally:
            for name in one_or_more(
                captures if isinstance(captures, str | dict) else ()
            ):
                scope.define(name)

    @checked
    def _variables_are_made_before_their_use(self, reading: Reading) -> Iterator[Found]:
        names = reading.scope.names
        for index, (name, text) in enumerate(self.let.items()):
            later = {names[other]: other for other in list(self.let)[index:]}
            sources = parse_pattern(text, names).sources
            used = [
                later[source.lo]
                for source in sources
                if isinstance(source, ValueSource)
                and source.kind == VARIABLE
                and source.lo in later
            ]
            if name in used:
                hint = "a text cannot have itself in it"
                yield ("let", name), Fault(f"[{name}] is not made yet", hint)
            elif used:
                hint = f"write {used[0]} above {name}"
                yield ("let", name), Fault(f"[{used[0]}] is not made yet", hint)

    @checked
    def _captures_are_of_searches(self) -> Iterator[Found]:
        if self.capture and self.kind in OPERATIONS and self.kind != "search":
            reason = f"{self.kind} returns no entry to capture from"
            yield ("capture", KEY), Fault(reason, "capture of a search")

    @checked
    def _controls_are_for_the_operation(self) -> Iterator[Found]:
        if self.kind in OPERATIONS:
            for index, fault in misplaced_controls(self.kind, self.body, self.controls):
                yield ("controls", index), fault


class _StepFields(_Request):
    """One step of a sequence: exactly one of the kinds below, or a pause."""

    exactly_one: ClassVar[tuple[str, ...]] = (*OPERATIONS, "think")

    think_ns: PositiveDuration | None = None
    """a pause before the next operation"""
    repeat: Annotated[Count, Field(le=MAX_REPEAT)] = 1
    """how often the operation is sent, one after the other"""

    @property
    def kind(self) -> str:
        return "think" if self.think_ns is not None else super().kind

    @checked
    def _pause_is_nothing_else(self) -> Iterator[Found]:
        if self.think_ns is None:
            return
        keys = [key for key in _STEP_KEYS if getattr(self, key)]
        keys += ["name"] if self.name_given else []
        keys += ["repeat"] if self.repeat != 1 else []
        if keys:
            yield (keys[0], KEY), Fault(f"a pause has no {keys[0]!r}", "leave it out")

    @checked
    def _unbind_is_sent_once(self) -> Iterator[Found]:
        if self.kind == "unbind" and self.repeat != 1:
            yield ("repeat", KEY), Fault("an unbind cannot be repeated", "leave it out")


def _with_kinds(name: str, base: type[_Request]) -> type[_Request]:
    kinds: dict[str, Any] = {
        kind: (body | None, Field(default=None, description=body.summary()))
        for kind, body in OPERATIONS.items()
    }
    return create_model(name, __base__=base, __doc__=base.__doc__, **kinds)


if TYPE_CHECKING:
    Step = _StepFields
else:
    Step = _with_kinds("Step", _StepFields)


class _OperationFields(_Request):
    """One operation of a stream: exactly one of the kinds below, and how often."""

    exactly_one: ClassVar[tuple[str, ...]] = (*OPERATIONS, "sequence")
    begins_session: ClassVar[bool] = True

    weight: Annotated[Count, Field(le=1_000_000)] = 1
    """its share among the stream's operations, drawn for each request"""
    sequence: list[Step] | None = Field(
        default=None,
        min_length=1,
        examples=["[{search: {base: 'dc=com'}, capture: dn}, {think: 10ms}]"],
    )
    """a client's session: operations that follow one another on one connection, each
    when the one before is done. One that fails ends it. A name of the sequence begins
    those of its steps"""

    @property
    def kind(self) -> str:
        return "sequence" if self.sequence is not None else super().kind

    @property
    def name(self) -> str:
        """What it is called; reports call the steps of a sequence by their own."""
        return request_name(self.name_given, self.kind)

    @checked
    def _sequence_has_steps_alone(self) -> Iterator[Found]:
        if self.sequence is None:
            return
        for key in _STEP_KEYS:
            if getattr(self, key):
                fault = Fault(f"a sequence has no {key!r}", "write it at its steps")
                yield (key, KEY), fault

    @checked
    def _steps_follow_one_another(self) -> Iterator[Found]:
        steps = self.sequence or []
        for index, step in enumerate(steps):
            place = ("sequence", index)
            is_last = index == len(steps) - 1
            if step.think_ns is not None and (index == 0 or is_last):
                edge = "begins" if index == 0 else "ends"
                reason = f"a sequence {edge} with an operation, got a pause"
                hint = "the pause between sessions is load.think_time"
                yield place, Fault(reason, hint)
            if step.kind == "unbind" and not is_last:
                reason = "nothing can follow an unbind in its sequence"
                fault = Fault(reason, "make it the last step")
                yield ("sequence", index + 1), fault


if TYPE_CHECKING:
    Operation = _OperationFields
else:
    Operation = _with_kinds("Operation", _OperationFields)


class Request(NamedTuple):
    """An operation or a step of a sequence, as reports know it."""

    #: In the stream.
    place: Place
    name: str
    kind: str
    step: _Request
    is_step: bool
    #: Time before it is sent, after the request before it is done.
    pause_ns: int = 0
    #: How often it is sent, one after the other.
    repeat: int = 1
    #: It is abandoned by the next request, which does not wait for it.
    is_abandoned: bool = False

    @property
    def is_paged(self) -> bool:
        return getattr(self.step.body, "page_size", None) is not None

    @property
    def of(self) -> str | None:
        """The operation that it names."""
        return getattr(self.step.body, "of", None)

    @property
    def names(self) -> list[str]:
        """Those that reports have of it."""
        if self.kind == "abandon" and self.of:
            return [self.name, abandoned_name(self.name, self.of)]
        return [self.name]


@dataclass(frozen=True)
class Session:
    """One kind of session of a stream."""

    weight: int
    requests: tuple[Request, ...]


def placed(operations: Iterable[_OperationFields]) -> Iterator[Request]:
    """Yield the operations of a stream, and the steps of its sequences."""
    for index, operation in enumerate(operations):
        place: Place = ("operations", index)
        if operation.sequence is None:
            yield Request(place, operation.name, operation.kind, operation, False)
        pause_ns = 0
        for n, step in enumerate(operation.sequence or ()):
            if step.think_ns is not None:
                pause_ns += step.think_ns
                continue
            name = request_name(step.name_given, step.kind, operation.name_given)
            at = (*place, "sequence", n)
            yield Request(at, name, step.kind, step, True, pause_ns, step.repeat)
            pause_ns = 0


def check_names(operations: Iterable[_OperationFields]) -> Iterator[Found]:
    """Names that two operations of a stream have."""
    taken: dict[str, Place] = {}
    for one in placed(operations):
        for name in one.names:
            if name in taken:
                reason = f"the name {name!r} is taken by {path_text(taken[name])}"
                hint = "give each operation of the stream its own `name`"
                yield one.place, Fault(reason, hint)
            taken.setdefault(name, one.place)


def check_others(operations: Iterable[_OperationFields]) -> Iterator[Found]:
    """Operations that name another one of their stream with `of`."""
    requests = list(placed(operations))
    adds = [one.name for one in requests if one.kind == "add"]
    filled = _filled(requests)
    plain = {one.name: one for one in requests if not one.is_step}
    for one in requests:
        fault, of = None, one.of
        if of is None:
            continue
        if one.kind in _ENTRY_KINDS and of not in adds:
            fault = unknown("add operation", of, adds)
            if not adds:
                fault.hint = "give the stream an add operation"
        elif one.kind in _ENTRY_KINDS and of not in filled:
            fault = Fault(
                f"{of!r} comes after a step that takes an entry: there would be none",
                "put the add before it, or outside the sequence",
            )
        elif one.kind == "abandon":
            fault = _abandoning(of, plain)
        if fault:
            yield (*one.place, one.kind, "of"), fault


def _abandoning(of: str, plain: Mapping[str, Request]) -> Fault | None:
    other = plain.get(of)
    if other is None:
        names = [name for name, one in plain.items() if one.kind not in _UNABANDONED]
        fault = unknown("operation", of, names)
        if not names:
            fault.hint = "give the stream a search of that name, outside sequences"
        return fault
    if other.kind in _UNABANDONED or other.is_paged:
        what = "a paged search" if other.is_paged else other.kind
        return Fault(f"{what} cannot be abandoned", "name a search (RFC 4511 4.11)")
    return None


def _filled(requests: Iterable[Request]) -> set[str]:
    """Adds that a session comes to without an entry: they are what begins."""
    taking: set[Place] = set()
    names: set[str] = set()
    for one in requests:
        session = one.place[:2]
        if one.kind in _ENTRY_KINDS and one.of is not None:
            taking.add(session)
        elif one.kind == "add" and session not in taking:
            names.add(one.name)
    return names


def check_length(operations: Iterable[_OperationFields]) -> Iterator[Found]:
    """More operations or steps than the engine takes."""
    number = steps = 0
    for one in placed(operations):
        requests = 2 if one.kind == "abandon" else 1
        number += requests
        steps += requests * one.repeat
    for what, most, got, hint in (
        ("operations", MAX_OPERATIONS, number, "take more streams"),
        ("steps", MAX_STEPS, steps, "repeat steps less often, or take more streams"),
    ):
        if got > most:
            reason = f"expected at most {most} {what} in a stream, got {got}"
            yield ("operations",), Fault(reason, hint)


#: Kinds of operations that change the state of their connection.
CONNECTION_KINDS = ("bind", "unbind")


def needs_connection(operations: Iterable[_OperationFields]) -> str | None:
    """What needs a connection that no other session uses at the same time."""
    reason = None
    for one in placed(operations):
        if one.is_step:
            reason = "a sequence"
        elif one.kind in CONNECTION_KINDS:
            reason = f"the operation {one.name!r}"
        elif one.step.capture:
            reason = f"the capture of {one.name!r}"
        elif one.is_paged:
            reason = f"the pages of {one.name!r}"
    return reason


def sessions_of(operations: Iterable[_OperationFields]) -> list[Session]:
    """The sessions of a stream's operations, in their order."""
    operations = list(operations)
    plain = {one.name: one for one in placed(operations) if not one.is_step}
    return [
        Session(operation.weight, tuple(_requests(operation, plain)))
        for operation in operations
    ]


def identity_change(
    operations: Iterable[_OperationFields], own_dn: str | None
) -> tuple[str, str] | None:
    """A bind that leaves its connection to another identity than the stream's, and a
    request that a later session then makes as that; None where there is no such one.

    `own_dn`: whom connections are bound as; empty: anonymous; None: by SASL."""
    leaves = inherits = None
    for session in sessions_of(operations):
        last, has_bound = None, False
        for one in session.requests:
            if one.kind in CONNECTION_KINDS:
                last, has_bound = _stranger(one, own_dn), True
            elif one.kind != "abandon" and not has_bound:
                inherits = inherits or one.name
        leaves = leaves or last
    return (leaves, inherits) if leaves and inherits else None


def _stranger(request: Request, own_dn: str | None) -> str | None:
    """The name of a bind as somebody else."""
    body = request.step.body
    if not isinstance(body, BindOperation):
        return None
    dn = "" if body.anonymous else body.dn
    is_own = dn is not None and own_dn is not None and dn.lower() == own_dn.lower()
    return None if is_own else request.name


def request_name(given: str | None, kind: str, sequence: str | None = None) -> str:
    """What reports call a request: its own name, or one made of its kind."""
    return given or (f"{sequence}-{kind}" if sequence else kind)


def abandoned_name(name: str, of: str) -> str:
    """What reports call the request that the abandon operation `name` gives up."""
    return f"{name}-{of}"


def _requests(
    operation: _OperationFields, plain: Mapping[str, Request]
) -> Iterator[Request]:
    for one in placed([operation]):
        body = one.step.body
        if not isinstance(body, Abandon):
            yield one
            continue
        name = abandoned_name(one.name, body.of)
        abandoned = plain[body.of]._replace(name=name, is_abandoned=True)
        for number in range(one.repeat):
            yield abandoned._replace(pause_ns=0 if number else one.pause_ns)
            yield one._replace(pause_ns=body.after_ns, repeat=1)
