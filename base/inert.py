# SPDX-License-Identifier: Apache-2.0
"""Texts of other hosts, made harmless where they are shown, and JSON where it is read.

A directory's diagnostic message, an agent's reason or an entry's name may hold what a
terminal obeys (escape sequences), what changes the direction of a line, what no parser
of XML takes, or what a spreadsheet takes for a formula.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from typing import Any

# C0 without tab and line feed, DEL, C1, separators of lines, marks of direction, and
# what XML has no place for
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e"
    "\u2066-\u2069\ufffe\uffff]"
)
_FORMULA = tuple("=+-@\t")


def inert(text: str) -> str:
    """For terminals and logs: such characters as `\\u001b`, in JSON texts too."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def one_line(text: str) -> str:
    """The same, with a space for each line break."""
    return text if text.isprintable() else inert(" ".join(text.splitlines()))


def one_line_texts(value: Any, several_lines: Collection[str] = ()) -> Any:
    """A JSON value with texts of one line, but for those below the keys
    `several_lines`."""
    match value:
        case str():
            return one_line(value)
        case list():
            return [one_line_texts(one, several_lines) for one in value]
        case dict():
            return {
                one_line(key): one
                if key in several_lines
                else one_line_texts(one, several_lines)
                for key, one in value.items()
            }
    return value


def inert_cell(text: str) -> str:
    """For CSV: a text that a spreadsheet would compute begins with an apostrophe."""
    shown = inert(text)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown


def parse_json(
    text: str | bytes, *, number: Callable[[str], object] | None = None
) -> Any:
    """Return the value of a text; ValueError without one. `number` reads numbers that
    are no integers, and NaN and infinities."""
    try:
        return json.loads(text, parse_float=number, parse_constant=number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
