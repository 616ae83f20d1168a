# SPDX-License-Identifier: Apache-2.0
"""Value patterns: which texts have which holes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldapslam.jobs.fault import Fault
from ldapslam.jobs.pattern import parse_pattern
from ldapslam.jobs.template import (
    RANDOM_STRING,
    SEQUENCE,
    UNIFORM,
    Node,
    ValueSource,
)

LETTERS = b"abcdefghijklmnopqrstuvwxyz"


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("plain", [b"plain"]),
        ("", []),
        ("[0-99]", [ValueSource(UNIFORM, 0, 99)]),
        ("[0:99]", [ValueSource(SEQUENCE, 0, 99)]),
        ("[0:1000x5]", [ValueSource(SEQUENCE, 0, 1000, 5)]),
        ("[0-1000%0000]", [ValueSource(UNIFORM, 0, 1000, width=4)]),
        ("[0:1000x5%0000]", [ValueSource(SEQUENCE, 0, 1000, 5, 4)]),
        ("[-5--1]", [ValueSource(UNIFORM, -5, -1)]),
        ("[7-7]", [ValueSource(UNIFORM, 7, 7)]),
        (
            "[-9223372036854775808:9223372036854775807x4]",
            [ValueSource(SEQUENCE, -(1 << 63), (1 << 63) - 1, 4)],
        ),
        ("[random:5]", [ValueSource(RANDOM_STRING, 5, data=LETTERS)]),
        ("[random:4:0:1f-]", [ValueSource(RANDOM_STRING, 4, data=b"0:1f-")]),
        ("user.[0-9]@x", [b"user.", ValueSource(UNIFORM, 0, 9), b"@x"]),
        ("[0-1][0-1]", [ValueSource(UNIFORM, 0, 1), ValueSource(UNIFORM, 0, 1)]),
        ("[[0-9]]", [b"[0-9]"]),
        ("[[[0-9]]]", [b"[", ValueSource(UNIFORM, 0, 9), b"]"]),
        ("ü[1-2]", ["ü".encode(), ValueSource(UNIFORM, 1, 2)]),
    ],
)
def test_pattern_is_split_into_constants_and_holes(
    text: str, nodes: list[Node]
) -> None:
    assert list(parse_pattern(text).nodes) == nodes


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a[0-9", "bracket '[' at character 2 has no partner"),
        ("a]", "bracket ']' at character 2 has no partner"),
        ("[]", "expected a pattern, got '[]'"),
        ("[guid]", "unknown pattern or name 'guid' in '[guid]'"),
        ("[http://x/names.txt]", "'[http://x/names.txt]': values are not read over"),
        ("[5]", "expected a pattern, got '[5]'"),
        ("[9-0]", "expected a range from low to high, got '[9-0]'"),
        ("[-9-9223372036854775807]", "expected a range of less than 2^63 numbers"),
        ("[0-9x2]", "a random range has no step, got '[0-9x2]'"),
        ("[0:9x-1]", "expected a step above zero, got '[0:9x-1]'"),
        ("[0-9%#,##0]", "expected a number format of zeros after '%', got"),
        ("[0-9%]", "expected a number format of zeros after '%', got"),
        ("[random:]", "expected [random:N] or [random:N:chars], got '[random:]'"),
        ("[random:0]", "expected 1 to 65536 random characters"),
        ("[random:3:äö]", "expected at most 256 ASCII characters"),
        ("\U000f0000", r"expected no private-use character, got U+F0000"),
    ],
)
def test_broken_pattern_is_a_fault_with_a_hint(text: str, reason: str) -> None:
    with pytest.raises(Fault) as caught:
        parse_pattern(text)
    assert caught.value.reason.startswith(reason)
    assert caught.value.hint


@given(st.text(st.characters(exclude_categories=["Co", "Cs"])))
def test_doubled_brackets_stand_for_themselves(text: str) -> None:
    escaped = text.replace("[", "[[").replace("]", "]]")
    pattern = parse_pattern(escaped)
    assert b"".join(node for node in pattern.nodes if isinstance(node, bytes)) == (
        text.encode()
    )
    assert pattern.sources == ()


@given(st.text("a[]0-9:x%", max_size=20))
def test_every_masked_character_knows_where_it_was(text: str) -> None:
    try:
        pattern = parse_pattern(text)
    except Fault:
        return
    assert len(pattern.origins) == len(pattern.masked) + 1
    assert list(pattern.origins) == sorted(pattern.origins)
    for character, origin in zip(pattern.masked, pattern.origins, strict=False):
        assert text[origin] == (character if ord(character) < 0xF0000 else "[")


def test_longest_text_of_a_source_is_known() -> None:
    assert ValueSource(UNIFORM, -100, 5).max_bytes == 4
    assert ValueSource(UNIFORM, 0, 5, width=8).max_bytes == 8
    # The sign is not one of the digits: -00000003.
    assert ValueSource(UNIFORM, -3, 5, width=8).max_bytes == 9
    assert ValueSource(RANDOM_STRING, 12, data=b"ab").max_bytes == 12
