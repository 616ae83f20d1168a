# SPDX-License-Identifier: Apache-2.0
"""One wrong value, before it has a position.

Parsers raise `Fault`; load.py makes `base.errors.JobError` of it, with file, line,
column and field. A `ValueError`, so that pydantic collects it.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

_SHOWN_CHARACTERS = 60

#: What others call it -> our words, of which a place has one.
_SAME_AS = {
    "attributes": ("entry",),
    "avg": ("mean",),
    "average": ("mean",),
    "base_object": ("base",),
    "bind_dn": ("dn",),
    "binddn": ("dn",),
    "ca": ("ca_file",),
    "cacert": ("ca_file",),
    "concurrency": ("clients",),
    "connections": ("clients",),
    "dropped_iterations": ("errors",),
    "duration": ("for",),
    "error_rate": ("errors",),
    "failures": ("errors",),
    "host": ("targets",),
    "hosts": ("targets",),
    "http_req_duration": ("response_time",),
    "http_reqs": ("throughput",),
    "insecure": ("verify",),
    "latency": ("response_time",),
    "maxvus": ("connections",),
    "median": ("p50",),
    "onelevel": ("one",),
    "preallocatedvus": ("connections",),
    "qps": ("throughput",),
    "rps": ("throughput",),
    "server": ("targets",),
    "servers": ("targets",),
    "single": ("one",),
    "subtree": ("sub",),
    "target": ("targets", "ramp_to"),
    "threads": ("clients",),
    "tps": ("throughput",),
    "uri": ("targets",),
    "uris": ("targets",),
    "url": ("targets",),
    "user": ("dn",),
    "username": ("dn",),
    "users": ("clients",),
    "vus": ("clients", "connections"),
}


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


def our_word(word: str, known: Collection[str]) -> str | None:
    """What a word of others is here, among those that are known."""
    meant = _SAME_AS.get(word.lower(), ())
    return next((one for one in meant if one in known), None)


def did_you_mean(word: str, known: Iterable[str], noun: str = "keys") -> str:
    """A hint with the nearest known word, or with all of them."""
    words = sorted(known)
    if not words:
        return f"there are no {noun} here: leave it out"
    folded = {other.lower().replace("-", "_"): other for other in words}
    if (meant := our_word(word, words)) is not None:
        return f"did you mean {meant!r}?"
    close = difflib.get_close_matches(
        word.lower().replace("-", "_"), folded, n=1, cutoff=0.6
    )
    if close:
        return f"did you mean {folded[close[0]]!r}?"
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
