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


@pytest.mark.parametrize(
    ("lets", "bounds"),
    [
        pytest.param([(variable(0),)], [[MAX_VARIABLE_BYTES]], id="alone"),
        pytest.param(
            [
                (letters(10), b"-", letters(5)),
                (b"cn=", variable(0), b",", variable(7)),
            ],
            [[], [16, MAX_VARIABLE_BYTES - 4 - 16]],
            id="made before, of a known length",
        ),
        pytest.param(
            [(b"cn=", variable(0, escaped=True))],
            [[(MAX_VARIABLE_BYTES - 3) // 3]],
            id="three times as long with its escapes",
        ),
        pytest.param(
            [(letters(44), variable(1), ValueSource(PARENT, lo=2))],
            [[1000, 1000]],
            id="captured texts share what is left",
        ),
        pytest.param(
            [(ValueSource(FILE_RANDOM, data=b"names.txt"),), (variable(0), b"x")],
            [[], [MAX_VARIABLE_BYTES - 1]],
            id="a line of a file",
        ),
    ],
)
def test_texts_are_bounded_by_what_is_left(
    lets: list[tuple[Node, ...]], bounds: list[list[int]]
) -> None:
    assert bounds_of(*enumerate(lets)) == bounds


@pytest.mark.parametrize(
    "lets",
    [
        [(letters(2000),), (variable(0), variable(0))],
        [(letters(2043), variable(1), variable(2))],
    ],
    ids=["too long however short the others are", "no room for a captured one"],
)
def test_text_that_cannot_fit_is_a_fault(lets: list[tuple[Node, ...]]) -> None:
    with pytest.raises(Fault, match="at most 2044 bytes"):
        bounds_of(*enumerate(lets))


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
