# SPDX-License-Identifier: Apache-2.0
"""Texts of patterns that the engine's machine draws for clients in Python."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from ldapslam.agent._engine import Text
from ldapslam.jobs.requests import ber
from ldapslam.jobs.requests.pattern import parse_pattern
from ldapslam.jobs.requests.template import (
    VARIABLE,
    Node,
    ValueSource,
    compile_template,
)


def text_of(*nodes: Node, number: int = 0, total: int = 1) -> Text:
    return Text(compile_template(*nodes), seed=7, number=number, total=total)


def texts(pattern: str, count: int, *, number: int = 0, total: int = 1) -> list[str]:
    text = text_of(*parse_pattern(pattern).nodes, number=number, total=total)
    return [text.next().decode() for _ in range(count)]


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


def test_letters_and_identifiers() -> None:
    for text in texts("[random:5:abc]-[uuid]", 20):
        assert re.fullmatch(r"[abc]{5}-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", text)


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(ValueError, match="no TLVs and no variables"):
        text_of(ber.octet_string(ValueSource(0, 1, 2)))
    with pytest.raises(ValueError, match="no TLVs and no variables"):
        text_of(ValueSource(VARIABLE))
    with pytest.raises(ValueError, match="need a registry of feeds"):
        texts("[file:names.txt]", 1)
    with pytest.raises(ValueError, match="for a client"):
        texts("[1-2]", 1, number=3, total=3)
