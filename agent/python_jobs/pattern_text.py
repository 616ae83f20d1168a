# SPDX-License-Identifier: Apache-2.0
"""Value patterns as texts, for clients that the engine does not drive.

The patterns are those of the job file (jobs/requests/pattern.py), and mean the same;
what needs the engine (files, variables, timestamps) is refused.
"""

from __future__ import annotations

import bisect
import itertools
import random
import uuid

from ldapslam.jobs.requests import template
from ldapslam.jobs.requests.pattern import is_hole, parse_pattern
from ldapslam.jobs.requests.template import Ref, ValueSource

_MAX_ZIPF = 1_000_000
#: The range of a GAUSS is six standard deviations.
_DEVIATIONS = 6


class PatternText:
    """One pattern; `begin` once, then a text from each `next`."""

    def __init__(self, text: str) -> None:
        pattern = parse_pattern(text)
        self._masked = pattern.masked
        self._holes = [_Hole(source) for source in pattern.sources]
        self._random = random.Random(0)
        self._at = 0
        self._total = 1

    def begin(self, generator: random.Random, number: int, total: int) -> None:
        """Draw from `generator`, as client `number` of `total`: values in turn are
        dealt so that the clients as a whole have each once."""
        self._random = generator
        self._at, self._total = number, total

    def next(self) -> str:
        texts: list[str] = []
        given: dict[int, str] = {}
        for hole in self._holes:
            texts.append(hole.text(self._random, self._at, given))
        self._at += self._total
        holes = iter(texts)
        return "".join(next(holes) if is_hole(c) else c for c in self._masked)


class _Hole:
    def __init__(self, source: ValueSource | Ref) -> None:
        self._source = source
        self._sums: list[float] = []
        if isinstance(source, ValueSource):
            if source.kind not in _TEXTS:
                raise ValueError(
                    "patterns of files, variables and timestamps need the engine; "
                    "this client is another program"
                )
            if source.kind == template.ZIPF:
                self._sums = _zipf_sums(source)

    def text(self, generator: random.Random, at: int, given: dict[int, str]) -> str:
        """The next text; `given` has those of this pattern before it, by source."""
        if isinstance(self._source, Ref):
            return given[id(self._source.target)]
        text = given[id(self._source)] = self._drawn(self._source, generator, at)
        return text

    def _drawn(self, source: ValueSource, generator: random.Random, at: int) -> str:
        if source.kind == template.RANDOM_STRING:
            letters = source.data.decode("utf-8")
            length = generator.randint(source.lo, max(source.lo, source.hi))
            return "".join(generator.choices(letters, k=length))
        if source.kind == template.UUID:
            return str(uuid.UUID(int=generator.getrandbits(128), version=4))
        number = self._number(source, generator, at)
        digits = str(abs(number)).zfill(source.width)
        return f"-{digits}" if number < 0 else digits

    def _number(self, source: ValueSource, generator: random.Random, at: int) -> int:
        if source.kind == template.UNIQUE:
            return source.lo + source.step * at
        members = abs(source.hi - source.lo) // source.step + 1
        step = source.step if source.lo <= source.hi else -source.step
        return source.lo + step * self._member(source, generator, at, members)

    def _member(
        self, source: ValueSource, generator: random.Random, at: int, members: int
    ) -> int:
        if source.kind == template.SEQUENCE:
            return at % members
        if source.kind == template.ZIPF:
            return bisect.bisect_left(self._sums, generator.random() * self._sums[-1])
        if source.kind == template.GAUSS:
            while True:
                drawn = generator.gauss(members / 2, members / _DEVIATIONS)
                if 0 <= drawn < members:
                    return int(drawn)
        if source.kind == template.HOT:
            hot = min(max(1, round(source.a * members)), members)
            if generator.random() < source.b or hot == members:
                return generator.randrange(hot)
            return generator.randrange(hot, members)
        return generator.randrange(members)


def _zipf_sums(source: ValueSource) -> list[float]:
    members = source.hi - source.lo + 1
    if members > _MAX_ZIPF:
        raise ValueError(f"[zipf] of {members:,} numbers needs the engine")
    return list(itertools.accumulate((k + 1) ** -source.a for k in range(members)))


_TEXTS = frozenset(
    {
        template.UNIFORM,
        template.SEQUENCE,
        template.RANDOM_STRING,
        template.ZIPF,
        template.GAUSS,
        template.HOT,
        template.UUID,
        template.UNIQUE,
    }
)
