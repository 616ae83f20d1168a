# SPDX-License-Identifier: Apache-2.0
"""The names that a pattern may use as [name], and a session's variables behind them.

A session is one run through a script (a plain operation is a script of one step). Its
variables are numbered from 0; each holds one text. A `let`, a `capture`, the DN that a
ledger gives and the hidden parts of a request (a paging cookie, SASL credentials) each
take one. `Scope` hands the numbers out, in the order in which the job file defines
names, so that validation and plan agree.

While a job file is validated, context.py has the scope of the session at hand.

The engine's variables have a fixed size. A text made of patterns alone has a bound that
is known. What a search returns has none: where such a text is part of another one, as
much of it is taken as the variable holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ldapslam.base.fault import Fault
from ldapslam.jobs.requests.template import (
    FILES,
    MAX_VARIABLE_BYTES,
    PARENT,
    PLAIN,
    UNDERSCORES,
    VARIABLE,
    Node,
    Template,
    Tlv,
    ValueSource,
    compile_template,
)


class Let(NamedTuple):
    """A variable that is drawn before a request: its text has no structure."""

    variable: int
    template: Template


@dataclass
class Scope:
    """Made by who composes a script: one for all of its steps, in their order."""

    #: The variable of each name that a pattern may use from here on.
    names: dict[str, int] = field(default_factory=dict)
    #: Variables so far, those without a name too: the session's size.
    variables: int = 0

    def define(self, name: str) -> int:
        """The variable of a `let` or `capture`; a repeated step gets the same one."""
        if name not in self.names:
            self.names[name] = self.hidden()
        return self.names[name]

    def hidden(self) -> int:
        """A variable that no pattern can name."""
        self.variables += 1
        return self.variables - 1

    def let(self, *nodes: Node) -> Let:
        """A hidden variable with the text of these nodes."""
        return Let(self.hidden(), compile_template(*nodes))

    def copy(self) -> Scope:
        """What is defined in the copy stays unknown here."""
        return Scope(dict(self.names), self.variables)

    def drawn_once(self, *nodes: Node) -> tuple[tuple[Node, ...], tuple[Let, ...]]:
        """The nodes with hidden variables in place of what is drawn, and the lets that
        draw them: for a request that is sent more than once."""
        lets: list[Let] = []

        def once(node: Node) -> Node:
            match node:
                case ValueSource() if node.kind not in (VARIABLE, PARENT):
                    lets.append(self.let(node))
                    return ValueSource(VARIABLE, lo=lets[-1].variable)
                case Tlv(tag=tag, parts=parts):
                    return Tlv(tag, tuple(map(once, parts)))
                case _:
                    return node

        return tuple(map(once, nodes)), tuple(lets)


#: Bytes of a DN for one of its value, at the most: NUL is escaped as \\00.
_ESCAPED = 3


def with_bounds(lets: Iterable[Let]) -> list[Let]:
    """The texts of a request's variables, in order, each of a length that a variable
    holds; a Fault when one of them is longer however short the captured ones are."""
    bounds: dict[int, int] = {}
    bounded: list[Let] = []
    for variable, template in lets:
        values = tuple(_known(value, bounds) for value in template.values)
        constant = template.constant_bytes + sum(
            _length(value) for value in values if not _is_open(value)
        )
        weights = sum(_factor(value) for value in values if _is_open(value))
        for _ in range(template.base64s):  # as if it held all of the text
            constant, weights = 4 * (constant + 2) // 3, -(-4 * weights // 3)
        if constant + weights > MAX_VARIABLE_BYTES:
            raise Fault(
                f"expected a text of at most {MAX_VARIABLE_BYTES} bytes, "
                f"got up to {constant + weights}",
                "make its patterns shorter",
            )
        if weights:
            room = (MAX_VARIABLE_BYTES - constant) // weights
            values = tuple(
                replace(value, hi=room) if _is_open(value) else value
                for value in values
            )
        elif not any(value.kind in FILES for value in values):
            bounds[variable] = constant
        bounded.append(Let(variable, replace(template, values=values)))
    return bounded


def _known(value: ValueSource, bounds: dict[int, int]) -> ValueSource:
    if _is_open(value) and bounds.get(value.lo):
        return replace(value, hi=bounds[value.lo])
    return value


def _is_open(value: ValueSource) -> bool:
    """Whether it is a variable's text of unknown length."""
    return value.kind in (VARIABLE, PARENT) and not value.hi


def _factor(value: ValueSource) -> int:
    is_escaped = value.kind == VARIABLE and value.width not in (PLAIN, UNDERSCORES)
    return _ESCAPED if is_escaped else 1


def _length(value: ValueSource) -> int:
    """Bound of a value that is not open."""
    if value.kind in (VARIABLE, PARENT):
        return value.hi * _factor(value)
    return value.max_bytes
