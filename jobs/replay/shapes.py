# SPDX-License-Identifier: Apache-2.0
"""Shapes of filters and DNs, and what their values look like.

A filter's shape is the filter with a hole for each assertion value, a DN's the same
with its RDN values; values that say what kind of entry is meant (objectClass=person)
belong to the shape. What was found in a hole is then a constant, a range of numbers
within a text, or a list of values, which becomes a feed.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

#: Stands for a value in a shape; no log line has it.
HOLE = "\0"

#: Values of these are part of the shape.
_KINDS = frozenset(("objectclass", "objectcategory", "entrydn"))
_ITEM = re.compile(r"\(([^()=~<>:!&|]+)(~=|>=|<=|:[^()=]*:=|=)([^()]*)\)")
_RDN_VALUE = re.compile(r"(?<==)((?:[^\\,+]|\\.)*)")
_NUMBERED = re.compile(r"(\D*?)(\d{1,15})(\D*)", re.DOTALL)
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2})")

#: Fewer distinct values than this are a feed rather than a range.
_LEAST_OF_A_RANGE = 8
#: A range of which less was seen than this is not one of keys.
_LEAST_DENSITY = 1e-5
#: The busiest hundredth of the keys gets more than this: how often each came matters.
_SKEWED = 0.2
_SEQUENTIAL = 0.8


@dataclass
class Hole:
    """The values that were seen in one place, in the order in which they came."""

    values: list[str] = field(default_factory=list)

    def add(self, value: str) -> None:
        self.values.append(value)


@dataclass(frozen=True)
class Finding:
    """What stands in a hole: a pattern or a constant; or a feed, if it has lines."""

    pattern: str
    evidence: str = ""
    feed: tuple[str, ...] = ()


def filter_shape(text: str) -> tuple[str, list[str]]:
    """The filter with holes, and the values, as the log has them."""
    values: list[str] = []

    def hole(match: re.Match[str]) -> str:
        attribute, comparison, value = match.groups()
        if comparison == "=" and (value == "*" or attribute.lower() in _KINDS):
            return match[0]
        pieces = value.split("*") if comparison == "=" else [value]
        values.extend(piece for piece in pieces if piece)
        held = "*".join(HOLE if piece else "" for piece in pieces)
        return f"({attribute}{comparison}{held})"

    return _ITEM.sub(hole, text), values


def dn_shape(text: str) -> tuple[str, list[str]]:
    """The DN with holes, and the values of its RDNs."""
    values: list[str] = []

    def hole(match: re.Match[str]) -> str:
        values.append(match[0])
        return HOLE

    return _RDN_VALUE.sub(hole, text), values


def find(hole: Hole) -> Finding:
    """What the values of a hole have in common."""
    values = hole.values
    counts = Counter(values)
    if len(counts) == 1:
        return Finding(literal(values[0]))
    seen = f"{len(counts):,} distinct in {len(values):,}"
    if numbered := _range(values, counts):
        return numbered
    return Finding("", seen, tuple(values))


def _range(values: Sequence[str], counts: Counter[str]) -> Finding | None:
    """Values that are one text but for a number in it."""
    if len(counts) < _LEAST_OF_A_RANGE:
        return None
    parts = {value: _NUMBERED.fullmatch(value) for value in counts}
    matches = [match for match in parts.values() if match is not None]
    if len(matches) < len(counts):
        return None
    around = {(match[1], match[3]) for match in matches}
    if len(around) > 1:
        return None
    digits = [match[2] for match in matches]
    padded = any(text.startswith("0") and len(text) > 1 for text in digits)
    if padded and len({len(text) for text in digits}) > 1:
        return None
    numbers = [int(text) for text in digits]
    lo, hi = min(numbers), max(numbers)
    if len(counts) / (hi - lo + 1) < _LEAST_DENSITY:
        return None
    busiest = counts.most_common(max(1, len(counts) // 100))
    share = sum(count for _, count in busiest) / len(values)
    if len(counts) >= 100 and share > _SKEWED:
        return None
    in_turn = _in_turn([int(match[2]) for v in values if (match := parts[v])])
    width = f"%{'0' * len(digits[0])}" if padded else ""
    before, after = around.pop()
    pattern = f"[{lo}{':' if in_turn else '-'}{hi}{width}]"
    how = "in turn" if in_turn else "at random"
    return Finding(
        f"{literal(before)}{pattern}{literal(after)}",
        f"{len(counts):,} distinct in {len(values):,}, {lo} to {hi} {how}",
    )


def _in_turn(numbers: Sequence[int]) -> bool:
    steps = sum(b == a + 1 for a, b in itertools.pairwise(numbers))
    return len(numbers) > 1 and steps / (len(numbers) - 1) > _SEQUENTIAL


def literal(text: str) -> str:
    """Text that stands for itself in a pattern."""
    return text.replace("[", "[[").replace("]", "]]")


def fill(shape: str, patterns: Sequence[str]) -> str:
    """A shape with its holes filled."""
    pieces = [literal(piece) for piece in shape.split(HOLE)]
    filled = pieces[0]
    for pattern, piece in zip(patterns, pieces[1:], strict=True):
        filled += pattern + piece
    return filled


def feed_of_filter(values: Sequence[str]) -> bytes | None:
    """A feed's lines: assertion values with their escapes undone; None where a value
    cannot stand on a line."""
    lines = [
        _ESCAPE.sub(lambda match: bytes.fromhex(match[1].decode()), value.encode())
        for value in values
    ]
    if any(b"\n" in line or b"\r" in line or not line for line in lines):
        return None
    return b"\n".join(lines) + b"\n"
