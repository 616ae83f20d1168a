# SPDX-License-Identifier: Apache-2.0
"""Value patterns: which texts have which holes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldapslam.base.fault import Fault
from ldapslam.jobs.requests.pattern import parse_pattern, with_closed_ranges
from ldapslam.jobs.requests.template import (
    FILE_RANDOM,
    FILE_SEQUENCE,
    GAUSS,
    GENERALIZED,
    HOT,
    MILLISECONDS,
    PARENT,
    RANDOM_STRING,
    SECONDS,
    SEQUENCE,
    TIMESTAMP,
    UNIFORM,
    UNIQUE,
    UUID,
    VARIABLE,
    ZIPF,
    Node,
    ValueSource,
    compile_template,
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
        ("[0..100)", [ValueSource(UNIFORM, 0, 99)]),
        ("[-5..0)", [ValueSource(UNIFORM, -5, -1)]),
        ("[0:100)", [ValueSource(SEQUENCE, 0, 99)]),
        ("[0:100x5%000)", [ValueSource(SEQUENCE, 0, 99, 5, 3)]),
        ("[0..100%0000)", [ValueSource(UNIFORM, 0, 99, width=4)]),
        ("[zipf:0..100:1.1)", [ValueSource(ZIPF, 0, 99, a=1.1)]),
        (
            "[gauss:0..9)[hot:0..9:1%:9%)",
            [ValueSource(GAUSS, 0, 8), ValueSource(HOT, 0, 8, a=0.01, b=0.09)],
        ),
        ("([0..9))", [b"(", ValueSource(UNIFORM, 0, 8), b")"]),
        ("[[0..9)", [b"[0..9)"]),
        ("[file:../1..2).txt]", [ValueSource(FILE_RANDOM, data=b"../1..2).txt")]),
        (
            "[-9223372036854775808:9223372036854775807x4]",
            [ValueSource(SEQUENCE, -(1 << 63), (1 << 63) - 1, 4)],
        ),
        ("[random:5]", [ValueSource(RANDOM_STRING, 5, data=LETTERS)]),
        ("[random:4:0:1f-]", [ValueSource(RANDOM_STRING, 4, data=b"0:1f-")]),
        ("[random:4:hex]", [ValueSource(RANDOM_STRING, 4, data=b"0123456789abcdef")]),
        ("[random:80:alphabet]", [ValueSource(RANDOM_STRING, 80, data=LETTERS)]),
        ("[random:4:xeh]", [ValueSource(RANDOM_STRING, 4, data=b"xeh")]),
        ("[9:0]", [ValueSource(SEQUENCE, 9, 0)]),
        ("[9:-9x3%00]", [ValueSource(SEQUENCE, 9, -9, 3, 2)]),
        ("[file:n.txt]", [ValueSource(FILE_RANDOM, data=b"n.txt")]),
        ("[randomfile:a b/n.txt]", [ValueSource(FILE_RANDOM, data=b"a b/n.txt")]),
        ("[file:///tmp/n]", [ValueSource(FILE_RANDOM, data=b"/tmp/n")]),
        ("[sequentialfile:n]", [ValueSource(FILE_SEQUENCE, data=b"n")]),
        ("[streamfile:n]", [ValueSource(FILE_SEQUENCE, data=b"n")]),
        ("[timestamp]", [ValueSource(TIMESTAMP, step=GENERALIZED)]),
        ("[timestamp:format=generalized]", [ValueSource(TIMESTAMP, step=GENERALIZED)]),
        (
            "[timestamp:format=milliseconds]",
            [ValueSource(TIMESTAMP, step=MILLISECONDS)],
        ),
        (
            "[timestamp:min=19700101000001Z:max=197001010100+0030:format=seconds]",
            [ValueSource(TIMESTAMP, 1000, 1_800_000, SECONDS)],
        ),
        (
            "[timestamp:min=1970010100.5Z:max=19700101013000.123Z]",
            [ValueSource(TIMESTAMP, 1_800_000, 5_400_123, GENERALIZED)],
        ),
        ("[uuid]", [ValueSource(UUID)]),
        ("[unique]", [ValueSource(UNIQUE)]),
        ("[unique%00000000]", [ValueSource(UNIQUE, width=8)]),
        ("[zipf:0-99:1.1]", [ValueSource(ZIPF, 0, 99, a=1.1)]),
        ("[zipf:-5-5:1%000]", [ValueSource(ZIPF, -5, 5, width=3, a=1)]),
        ("[gauss:0-99%00]", [ValueSource(GAUSS, 0, 99, width=2)]),
        ("[hot:0-99:0.2:0.8]", [ValueSource(HOT, 0, 99, a=0.2, b=0.8)]),
        ("[hot:0-99:20%:80%%00]", [ValueSource(HOT, 0, 99, width=2, a=0.2, b=0.8)]),
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
        ("a]", "bracket ']' at character 2 has no partner"),
        ("[]", "expected a pattern, got '[]'"),
        ("[guid]", "unknown pattern or name 'guid' in '[guid]'"),
        ("[5]", "expected a pattern, got '[5]'"),
        ("[5..5)", "expected a range with a number in it, got '[5..5)'"),
        ("[0..9]", "expected a pattern, got '[0..9]'"),
        ("[0-9)", "bracket '[' at character 1 has no partner"),
        ("[0..0100)", "expected a range without leading zeros"),
        ("[0..9223372036854775809)", "expected numbers of 64 bits"),
        ("[-9-9223372036854775807]", "expected a range of less than 2^63 numbers"),
        ("[0-9x2]", "a random range has no step, got '[0-9x2]'"),
        ("[0-9%#,##0]", "expected a number format of zeros after '%', got"),
        ("[random:]", "expected [random:N] or [random:N:chars], got '[random:]'"),
        ("[random:3:äö]", "expected at most 256 ASCII characters"),
        ("[random:99999999999999999999]", "expected 1 to 65536 random characters"),
        ("[file:]", "expected [file:PATH], got '[file:]'"),
        ("[sequentialfile]", "expected [sequentialfile:PATH], got"),
        ("[timestamp:format=]", "expected [timestamp], [timestamp:format=F] or"),
        ("[timestamp:format=yyyy]", "expected [timestamp], [timestamp:format=F] or"),
        ("[timestamp:min=1970:max=1971]", "expected a generalized time, got '1970'"),
        ("[timestamp:min=20181301000000Z:max=2019010100Z]", "expected a generalized"),
        ("[timestamp:min=2019010100Z:max=2018010100Z]", "expected a time `min` before"),
        (
            "[timestamp:max=2018010100Z]",
            "expected [timestamp], [timestamp:format=F] or",
        ),
        ("[zipf:0-9]", "expected [zipf:lo-hi:s], got '[zipf:0-9]'"),
        ("[zipf:9-0:1]", "expected a range from low to high, got '[zipf:9-0:1]'"),
        ("[zipf:0-9007199254740992:1]", "expected a range of less than 2^53 numbers"),
        ("[gauss:0-9%#]", "expected a number format of zeros after '%', got"),
        ("[hot:0-9:0:1]", "expected a share of the numbers between 0 and 1, got"),
        ("[hot:0-9:100%:1]", "expected a share of the numbers between 0 and 1, got"),
        ("[hot:0-9:1%:101%]", "expected a fraction of the draws from 0 to 1, got"),
        ("[hot:5-5:1%:1%]", "expected a range of at least two numbers, got"),
        ("[parent:x]", "unknown pattern or name 'x' in '[parent:x]'"),
        ("a\ud800", "expected a character, got the surrogate U+D800"),
        ("\U000f0000", r"expected no private-use character, got U+F0000"),
    ],
)
def test_broken_pattern_is_a_fault_with_a_hint(text: str, reason: str) -> None:
    with pytest.raises(Fault) as caught:
        parse_pattern(text)
    assert caught.value.reason.startswith(reason)
    assert caught.value.hint


def test_half_open_ranges_are_rewritten_as_closed_ones() -> None:
    text = "(|(uid=[0..9))(cn=[[1..2)[zipf:0..9:1.1)[file:a..b])"
    assert with_closed_ranges(text) == (
        "(|(uid=[0-8])(cn=[[1..2)[zipf:0-8:1.1][file:a..b])"
    )


def test_name_of_a_variable_is_a_pattern_and_goes_before_a_kind() -> None:
    names = {"who": 3, "uuid": 4}
    assert parse_pattern("[who]/[uuid]/[parent:who]", names).nodes == (
        ValueSource(VARIABLE, lo=3),
        b"/",
        ValueSource(VARIABLE, lo=4),
        b"/",
        ValueSource(PARENT, lo=3),
    )


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("[wo]", "did you mean 'who'?"),
        ("[parent:hwo]", "did you mean 'who'?"),
        ("[squentialfile:x]", "did you mean 'sequentialfile'?"),
        ("[zzz]", "known names: who; known patterns: [lo-hi], "),
    ],
)
def test_unknown_name_is_told_with_the_nearest(text: str, hint: str) -> None:
    with pytest.raises(Fault, match="unknown pattern or name") as caught:
        parse_pattern(text, {"who": 0})
    assert str(caught.value.hint).startswith(hint)


def test_files_of_a_template_are_named_once_in_order() -> None:
    pattern = parse_pattern("[file:b][sequentialfile:a][file:b]")
    assert compile_template(*pattern.nodes).files == ("b", "a")


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
