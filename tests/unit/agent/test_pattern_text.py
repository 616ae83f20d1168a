# SPDX-License-Identifier: Apache-2.0
"""Value patterns for clients that are other programs."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest

from ldapslam.agent.python_jobs.pattern_text import PatternText


def texts(pattern: str, count: int, *, number: int = 0, total: int = 1) -> list[str]:
    source = PatternText(pattern)
    source.begin(random.Random(7), number, total)
    return [source.next() for _ in range(count)]


def test_constants_and_brackets_stay() -> None:
    assert texts("ou=[[people]],dc=example", 1) == ["ou=[people],dc=example"]


def test_a_range_is_drawn_evenly_and_padded() -> None:
    drawn = Counter(texts("(uid=user.[7-9%0000])", 3_000))
    assert set(drawn) == {f"(uid=user.000{n})" for n in (7, 8, 9)}
    assert min(drawn.values()) > 850


def test_numbers_in_turn_are_dealt_to_the_clients() -> None:
    dealt = [texts("[10:15]", 4, number=n, total=3) for n in range(3)]
    assert dealt[0] == ["10", "13", "10", "13"]
    assert Counter(text for one in dealt for text in one) == dict.fromkeys(
        ("10", "11", "12", "13", "14", "15"), 2
    )
    assert texts("[5:1x2]", 4) == ["5", "3", "1", "5"]


def test_unique_numbers_come_once_in_the_fleet() -> None:
    dealt = [texts("[unique]", 50, number=n, total=3) for n in range(3)]
    assert len({text for one in dealt for text in one}) == 150


def test_letters_identifiers_and_references() -> None:
    for text in texts("[random:5:abc]-[uuid]-[ref:1]", 20):
        assert re.fullmatch(
            r"([abc]{5})-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-\1", text
        )


def test_uneven_distributions_are_uneven_as_they_should_be() -> None:
    zipf = Counter(texts("[zipf:0-9:1]", 5_000))
    # 1 / H(10) of the draws, with H(10) = 2.929
    assert zipf["0"] / 5_000 == pytest.approx(0.341, abs=0.03)
    assert zipf["0"] / zipf["1"] == pytest.approx(2, rel=0.15)
    hot = [int(text) for text in texts("[hot:0-99:20%:80%]", 5_000)]
    assert sum(n < 20 for n in hot) / 5_000 == pytest.approx(0.8, abs=0.03)
    gauss = [int(text) for text in texts("[gauss:0-99]", 5_000)]
    assert sum(gauss) / 5_000 == pytest.approx(49.5, abs=1)
    # a standard deviation is a sixth of the range
    assert sum(33 <= n <= 66 for n in gauss) / 5_000 == pytest.approx(0.69, abs=0.04)


@pytest.mark.parametrize("pattern", ["[timestamp]", "[file:names.txt]"])
def test_what_needs_the_engine_is_refused_in_words(pattern: str) -> None:
    with pytest.raises(ValueError, match="need the engine"):
        PatternText(pattern)
