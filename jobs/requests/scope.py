# SPDX-License-Identifier: Apache-2.0
"""The names that a pattern may use as [name], and a session's variables behind them.

A session is one run through a script (a plain operation is a script of one step). Its
variables are numbered from 0; each holds one text. A `let`, a `capture`, the DN that a
ledger gives and the hidden parts of a request (a paging cookie, SASL credentials) each
take one. `Scope` hands the numbers out, in the order in which the job file defines
names, so that validation and plan agree.

While a job file is validated, context.py has the scope of the session at hand.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ldapslam.jobs.requests.template import (
    PARENT,
    VARIABLE,
    Node,
    Ref,
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
        """The variable of a `let` or a `capture`; the same one when it is given a
        second time, as in a step that is repeated."""
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
        variables: dict[int, int] = {}

        def once(node: Node) -> Node:
            match node:
                case ValueSource() if node.kind not in (VARIABLE, PARENT):
                    lets.append(self.let(node))
                    variables[id(node)] = lets[-1].variable
                    return ValueSource(VARIABLE, lo=lets[-1].variable)
                case Ref(target=target, limit=limit) if id(target) in variables:
                    return ValueSource(VARIABLE, lo=variables[id(target)], hi=limit)
                case Tlv(tag=tag, parts=parts):
                    return Tlv(tag, tuple(map(once, parts)))
                case _:
                    return node

        return tuple(map(once, nodes)), tuple(lets)
