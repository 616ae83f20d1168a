# SPDX-License-Identifier: Apache-2.0
"""One wrong value, before it has a position.

Parsers raise `Fault`; load.py makes `base.errors.JobError` of it, with file, line,
column and field. A `ValueError`, so that pydantic collects it.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

_SHOWN_CHARACTERS = 60

#: At 0.75, "port" would mean "sort", and "count" would mean "out".
_LIKENESS = 0.76


class Fault(ValueError):
    """A value cannot be used. `reason` is lower case, without a full stop."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


class Faults(Fault):
    """Several of them at once: see `Collected`."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("; ".join(fault.reason for fault in faults), faults[0].hint)
        #: Each with its own hint.
        self.faults = tuple(faults)


class UnknownName(Fault):
    """A word that stands for nothing here."""


class Collected:
    """Faults that do not keep others from being looked for.

    found = Collected()
    for line in lines:
        with found.each():
            check(line)
    found.stop()
    """

    def __init__(self) -> None:
        self._faults: dict[str, Fault] = {}

    def __bool__(self) -> bool:
        return bool(self._faults)

    @contextmanager
    def each(self) -> Iterator[None]:
        try:
            yield
        except Fault as fault:
            self.add(fault)

    def add(self, fault: Fault) -> None:
        """Equal faults are kept once."""
        for one in fault.faults if isinstance(fault, Faults) else (fault,):
            self._faults.setdefault(one.reason, one)

    def stop(self) -> None:
        """Raise the faults, if any."""
        faults = list(self._faults.values())
        if len(faults) > 1:
            raise Faults(faults)
        if faults:
            raise faults[0]


def expected(what: str, value: Any, hint: str | None = None) -> Fault:
    """The usual form: expected *what*, got *value*."""
    return Fault(f"expected {what}, got {got(value)}", hint)


def got(value: Any) -> str:
    """A value as the reader of a job file knows it, shortened."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, (list, tuple)):
        return "a list" if value else "an empty list"
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf"
    # show a backslash as it is written: filters and DNs have many
    text = repr(value).replace("\\\\", "\\")
    if len(text) > _SHOWN_CHARACTERS:
        text = f"{text[:_SHOWN_CHARACTERS]}…"
    return text


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known name that a misspelt word means; case, dashes and underscores do
    not count, and letters may be exchanged."""
    names = {_folded(name): name for name in known}
    folded = _folded(word)
    exchanged = [name for name in names if sorted(name) == sorted(folded)]
    matches = exchanged or difflib.get_close_matches(folded, names, 1, _LIKENESS)
    return names[matches[0]] if matches else None


def _folded(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def did_you_mean(word: str, known: Iterable[str], noun: str = "keys") -> str:
    """A hint with the nearest known word, or with all of them."""
    words = sorted(known)
    if not words:
        return f"there are no {noun} here: leave it out"
    if meant := closest(word, words):
        return f"did you mean {meant!r}?"
    return f"known {noun}: {', '.join(words)}"


def unknown(
    noun: str, name: str, known: Iterable[str], plural: str = "", where: str = ""
) -> Fault:
    """No `noun` has this name; `where` says more of it."""
    hint = did_you_mean(name, known, plural or f"{noun}s")
    return Fault(f"unknown {noun} {name!r}{where}", hint)


def one_of(words: Sequence[str]) -> str:
    """'a', 'a or b', 'a, b or c'."""
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last


def path_text(path: Iterable[str | int]) -> str:
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text
