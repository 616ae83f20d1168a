# SPDX-License-Identifier: Apache-2.0
"""Every text of a variable fits into it, whatever the texts that it is made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldapslam.base.fault import Fault
from ldapslam.jobs.requests.scope import Let, with_bounds
from ldapslam.jobs.requests.template import (
    FILE_RANDOM,
    MAX_VARIABLE_BYTES,
    PARENT,
    RANDOM_STRING,
    VARIABLE,
    Base64,
    Node,
    OptionalGroup,
    Template,
    ValueSource,
    compile_template,
)
from support.template_program import Run


def letters(count: int) -> ValueSource:
    return ValueSource(RANDOM_STRING, lo=count, data=b"a")


def variable(number: int, *, escaped: bool = False) -> ValueSource:
    return ValueSource(VARIABLE, lo=number, width=int(escaped))


def longest(template: Template) -> int:
    """Bound of a text without files: that of its longest texts."""
    texts: list[str] = []
    for value in template.values:
        if value.kind in (VARIABLE, PARENT):
            escaped = value.kind == VARIABLE and value.width == 1
            length = (value.hi or MAX_VARIABLE_BYTES) * (3 if escaped else 1)
        else:
            length = value.max_bytes
        texts.append("x" * length)
    return len(Run(template, texts, iter(()), {}).text)


def bounds_of(*lets: tuple[int, tuple[Node, ...]]) -> list[list[int]]:
    """Of each text, how much of each of its variables may be taken; 0: all."""
    bounded = with_bounds(
        Let(number, compile_template(*nodes)) for number, nodes in lets
    )
    return [
        [value.hi for value in template.values if value.kind in (VARIABLE, PARENT)]
        for _, template in bounded
    ]


def test_text_alone_may_be_as_long_as_a_variable() -> None:
    assert bounds_of((1, (variable(0),))) == [[MAX_VARIABLE_BYTES]]


def test_text_that_was_made_before_has_the_length_that_is_known() -> None:
    made = (0, (letters(10), b"-", letters(5)))
    assert bounds_of(made, (1, (b"cn=", variable(0), b",", variable(7)))) == [
        [],
        [16, MAX_VARIABLE_BYTES - 4 - 16],
    ]


def test_escapes_may_make_a_text_three_times_as_long() -> None:
    assert bounds_of((1, (b"cn=", variable(0, escaped=True)))) == [
        [(MAX_VARIABLE_BYTES - 3) // 3]
    ]


def test_captured_texts_share_what_is_left() -> None:
    parts = (letters(44), variable(0), ValueSource(PARENT, lo=1))
    assert bounds_of((2, parts)) == [[1000, 1000]]


def test_line_of_a_file_has_no_known_length() -> None:
    line = (0, (ValueSource(FILE_RANDOM, data=b"names.txt"),))
    assert bounds_of(line, (1, (variable(0), b"x"))) == [
        [],
        [MAX_VARIABLE_BYTES - 1],
    ]


def test_text_that_is_too_long_however_short_the_others_are_is_a_fault() -> None:
    with pytest.raises(Fault, match="at most 2044 bytes, got up to 4000"):
        bounds_of((0, (letters(2000),)), (1, (variable(0), variable(0))))


def test_text_that_leaves_no_room_for_a_captured_one_is_a_fault() -> None:
    with pytest.raises(Fault, match="at most 2044 bytes"):
        bounds_of((0, (letters(2043), variable(0), variable(1))))


parts = st.lists(
    st.binary(max_size=40)
    | st.integers(1, 700).map(letters)
    | st.builds(variable, st.integers(0, 5), escaped=st.booleans())
    | st.integers(0, 5).map(lambda number: ValueSource(PARENT, lo=number))
    | st.just(OptionalGroup(500_000, (b"sometimes", letters(4))))
    | st.just(Base64((b"secret", letters(7), variable(2)))),
    max_size=8,
).map(lambda nodes: (letters(3), *nodes))


@given(st.lists(st.tuples(st.integers(0, 5), parts), max_size=6))
def test_bounded_texts_fit_and_are_otherwise_unchanged(
    lets: list[tuple[int, tuple[Node, ...]]],
) -> None:
    compiled = [Let(number, compile_template(*nodes)) for number, nodes in lets]
    try:
        bounded = with_bounds(compiled)
    except Fault:
        return  # known texts alone are too long
    assert [number for number, _ in bounded] == [number for number, _ in compiled]
    for (_, before), (_, after) in zip(compiled, bounded, strict=True):
        assert longest(after) <= MAX_VARIABLE_BYTES
        assert after.program == before.program
        assert [value.kind for value in after.values] == [
            value.kind for value in before.values
        ]
