# SPDX-License-Identifier: Apache-2.0
"""A stream's operations compiled: what the engine is told of them, and its sessions.

Everything here is the same for all agents of a run. `compile_streams` takes all streams
at once because the values of [unique] are unique over all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ldapslam.jobs.fields.result_codes import outcome_codes
from ldapslam.jobs.model import Stream
from ldapslam.jobs.operations.add import Add
from ldapslam.jobs.operations.body import NO_VARIABLE, OperationPlan
from ldapslam.jobs.operations.connection import UNBIND
from ldapslam.jobs.operations.controls import UPDATES
from ldapslam.jobs.operations.sequence import ENTRY_DN, Request, Session, sessions_of
from ldapslam.jobs.replay.options import KINDS
from ldapslam.jobs.requests.pattern import parse_pattern
from ldapslam.jobs.requests.scope import Let, Scope, with_bounds
from ldapslam.jobs.requests.template import (
    FILES,
    Template,
    ValueSource,
    compile_template,
    number_uniques,
)

#: Of a rehearsal: whose entry it is, and as whom.
_REHEARSED_CONTROLS = ("manage_dsa_it", "proxied_authorization")


@dataclass(frozen=True)
class ScriptPlan:
    """A session: operations of the stream that follow one another on one connection.
    A plain operation is a script of one step."""

    #: Its share among the stream's scripts.
    weight: int
    #: Number of an operation of the stream, and the pause before it in ns.
    steps: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Scripts:
    """What a stream sends."""

    operations: tuple[OperationPlan, ...] = ()
    scripts: tuple[ScriptPlan, ...] = ()
    #: Of a session.
    variables: int = 0
    #: Ledgers by the name of the add operation whose entries they hold, in the order
    #: of their numbers, and whether what is left in them is deleted after the run.
    ledgers: Mapping[str, bool] | None = None

    @property
    def templates(self) -> Iterator[Template]:
        for operation in self.operations:
            yield from (text for _, text in operation.lets)
            yield operation.template


def compile_streams(
    streams: Iterable[Stream],
    places: Mapping[str, Path],
    unique_from: int = 0,
    *,
    is_rehearsal: bool = False,
) -> list[Scripts]:
    """Return what each stream sends; files of values are found in `places`, by name.
    Unique numbers begin at `unique_from`. A rehearsal has a request in place of each
    write that changes nothing (OperationBody.rehearse): a session ends before a write
    that has none, and after a write that later steps need; it may have no step."""
    compiled = [
        _REPLAYED if stream.trace else _Stream(stream, is_rehearsal).compile()
        for stream in streams
    ]
    texts = [text for one in compiled for text in one.templates]
    numbered = number_uniques(texts, unique_from)
    located = (_located(template, places) for template in numbered)

    def finished(operation: OperationPlan) -> OperationPlan:
        """With the next templates, in the order of `Scripts.templates`."""
        lets = tuple(Let(number, next(located)) for number, _ in operation.lets)
        return replace(operation, lets=lets, template=next(located))

    return [
        replace(one, operations=tuple(map(finished, one.operations)))
        for one in compiled
    ]


def _located(template: Template, places: Mapping[str, Path]) -> Template:
    def located(value: ValueSource) -> ValueSource:
        if value.kind not in FILES:
            return value
        name = value.data.decode()
        return replace(value, data=str(places.get(name, name)).encode())

    return replace(template, values=tuple(map(located, template.values)))


class _Stream:
    """One stream while it is compiled."""

    def __init__(self, stream: Stream, is_rehearsal: bool) -> None:
        self._sessions = [] if stream.python else sessions_of(stream.operations)
        self._operations: list[OperationPlan] = []
        self._variables = 0
        self._is_rehearsal = is_rehearsal
        self._ledgers = {} if is_rehearsal else _ledgers(self._sessions)

    def compile(self) -> Scripts:
        scripts = [self._script(session) for session in self._sessions]
        return Scripts(
            tuple(self._operations), tuple(scripts), self._variables, self._ledgers
        )

    def _script(self, session: Session) -> ScriptPlan:
        scope = Scope()
        steps: list[tuple[int, int]] = []
        numbers: dict[str, int] = {}
        for request in session.requests:
            if request.name not in numbers:
                operation = self._operation(request, scope)
                if operation is None:
                    break
                numbers[request.name] = len(self._operations)
                self._operations.append(operation)
            number = numbers[request.name]
            steps.append((number, request.pause_ns))
            steps += [(number, 0)] * (request.repeat - 1)
            is_rehearsed = self._operations[number].is_rehearsal
            if is_rehearsed and request.step.body.is_needed_done:
                break
        self._variables = max(self._variables, scope.variables)
        return ScriptPlan(session.weight, tuple(steps))

    def _operation(self, request: Request, scope: Scope) -> OperationPlan | None:
        step = request.step
        lets: list[Let] = []
        for name, text in step.let.items():
            template = compile_template(*parse_pattern(text, scope.names).nodes)
            lets.append(Let(scope.define(name), template))
        compiled = self._compiled(request, scope)
        if compiled is None:
            return None
        captures = tuple(
            (scope.define(name), b"" if attribute == ENTRY_DN else attribute.encode())
            for name, attribute in step.capture.items()
        )
        success_codes, expected_codes = outcome_codes(
            compiled.success_codes, None if compiled.is_rehearsal else step.expect
        )
        ledger = compiled.ledger_of or request.name
        numbers = list(self._ledgers)
        return replace(
            compiled,
            name=request.name,
            success_codes=success_codes,
            expected_codes=expected_codes,
            lets=tuple(with_bounds((*lets, *compiled.lets))),
            captures=captures,
            awaits=not request.is_abandoned,
            ledger=numbers.index(ledger) if ledger in numbers else 0,
            ledger_put=compiled.ledger_put if ledger in numbers else NO_VARIABLE,
        )

    def _compiled(self, request: Request, scope: Scope) -> OperationPlan | None:
        step = request.step
        if not self._is_rehearsal:
            controls = [control.node(scope) for control in step.controls]
            return step.body.compile(scope, controls)
        is_rehearsed = request.kind in UPDATES
        controls = [
            control.node(scope)
            for control in step.controls
            if not is_rehearsed or control.key in _REHEARSED_CONTROLS
        ]
        return step.body.rehearse(scope, controls)


def _replayed() -> Scripts:
    """What a replay may send: its trace has the requests and names these operations."""
    placeholder = compile_template(UNBIND)
    return Scripts(
        tuple(
            OperationPlan(
                name=kind,
                kind=kind,
                response_tag=tag,
                template=placeholder,
                success_codes=success_codes,
                action="request" if tag else "unbind",
            )
            for kind, (tag, success_codes) in KINDS.items()
        ),
        tuple(ScriptPlan(1, ((number, 0),)) for number in range(len(KINDS))),
    )


_REPLAYED = _replayed()


def _ledgers(sessions: Sequence[Session]) -> dict[str, bool]:
    """The add operations whose entries are noted, and whether they are cleaned up."""
    requests = [request for session in sessions for request in session.requests]
    taken = {getattr(request.step.body, "of", None) for request in requests}
    return {
        request.name: request.step.body.clean_up
        for request in requests
        if isinstance(request.step.body, Add)
        and (request.step.body.clean_up or request.name in taken)
    }
