# SPDX-License-Identifier: Apache-2.0
"""Reads operations of job files, and fills the holes of a compiled operation as a
session of the engine would."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ldapslam.jobs.fields.context import Reading
from ldapslam.jobs.operations import OPERATIONS
from ldapslam.jobs.operations.body import OperationBody, OperationPlan
from ldapslam.jobs.requests.dn import split_rdn
from ldapslam.jobs.requests.scope import Scope
from ldapslam.jobs.requests.template import (
    DN_VALUE,
    PARENT,
    UNDERSCORES,
    VARIABLE,
    Template,
    ValueSource,
)
from support.template_program import Run, encode_message


def operation(kind: str, scope: Scope | None = None, /, **fields: Any) -> OperationBody:
    """Read an operation with the fields of a job file."""
    reading = Reading(scope=scope or Scope())
    return OPERATIONS[kind].model_validate(fields, context=reading)


def filled(
    compiled: OperationPlan,
    texts: Iterable[str] = (),
    *,
    message_id: int = 1,
    variables: dict[int, str] | None = None,
    present: Sequence[bool] | None = None,
) -> bytes:
    """The LDAPMessage, with `texts` in the holes that are drawn, in their order: those
    of the lets first. `variables` are those that others have set."""
    chances = iter(present or ())
    known, drawn = filled_variables(compiled, texts, variables or {}, chances)
    values = [_value(source, known, drawn) for source in compiled.template.values]
    assert next(drawn, None) is None, "there are more texts than holes"
    return encode_message(compiled.template, message_id, values, list(chances), known)


def filled_variables(
    compiled: OperationPlan,
    texts: Iterable[str],
    variables: dict[int, str],
    present: Iterable[bool] = (),
) -> tuple[dict[int, str], Iterator[str]]:
    """The variables after the lets, and the texts that these leave."""
    known, drawn, chances = dict(variables), iter(texts), iter(present)
    for variable, template in compiled.lets:
        known[variable] = _text(template, known, drawn, chances)
    return known, drawn


def _text(
    template: Template,
    known: dict[int, str],
    drawn: Iterator[str],
    chances: Iterator[bool],
) -> str:
    """The text of a let."""
    values = [_value(source, known, drawn) for source in template.values]
    return Run(template, values, chances, known).text.decode()


def _value(source: ValueSource, known: dict[int, str], drawn: Iterator[str]) -> str:
    if source.kind == PARENT:
        return split_rdn(known[source.lo])[1]
    if source.kind != VARIABLE:
        return next(drawn)
    text = known[source.lo].encode()[: source.hi or None].decode(errors="ignore")
    if source.width == UNDERSCORES:
        return text.replace(",", "_")
    if source.width == DN_VALUE:
        return "".join(f"\\{c}" if c in ',+"\\<>;' else c for c in text)
    return text
