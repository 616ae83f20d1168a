# SPDX-License-Identifier: Apache-2.0
"""BER and template programs."""

from __future__ import annotations

import base64
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldapslam.base.fault import Fault
from ldapslam.jobs.requests import ber, template
from ldapslam.jobs.requests.template import (
    UNIQUE,
    Base64,
    Node,
    OptionalGroup,
    Tlv,
    ValueSource,
    choice,
    compile_template,
    first_unique,
    fold,
    number_uniques,
)
from support.template_program import encode_message

HOLE = ValueSource(template.UNIFORM, 0, 9)
CSRC = Path(__file__).parents[3] / "agent" / "csrc"


@pytest.mark.parametrize(
    ("value", "octets"),
    [
        (0, "020100"),
        (127, "02017f"),
        (128, "02020080"),
        (255, "020200ff"),
        (256, "02020100"),
        (-1, "0201ff"),
        (-128, "020180"),
        (-129, "0202ff7f"),
        ((1 << 31) - 1, "02047fffffff"),
    ],
)
def test_integer_has_the_fewest_octets(value: int, octets: str) -> None:
    assert ber.integer(value) == bytes.fromhex(octets)


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_integer_keeps_its_value(value: int) -> None:
    encoded = ber.integer(value)
    assert isinstance(encoded, bytes)
    assert encoded[1] == len(encoded) - 2
    assert int.from_bytes(encoded[2:], "big", signed=True) == value


@pytest.mark.parametrize(
    ("count", "octets"),
    [(0, "00"), (127, "7f"), (128, "8180"), (256, "820100"), (65536, "83010000")],
)
def test_length_has_the_fewest_octets(count: int, octets: str) -> None:
    assert ber.length(count) == bytes.fromhex(octets)


def test_constant_contents_are_folded_to_one_literal() -> None:
    node = ber.tlv(0x30, ber.octet_string(b"a"), ber.boolean(True), ber.tlv(0x31))
    assert node == bytes.fromhex("3008" + "040161" + "0101ff" + "3100")


def test_constants_around_a_hole_are_folded() -> None:
    node = ber.tlv(
        0x30, ber.octet_string(b"a"), ber.octet_string(b"x", HOLE), b"\x05\x00"
    )
    program = compile_template(node)
    assert program.program == (
        b"\x03\x30"
        b"\x01\x03\x00\x00\x00\x04\x01a"
        b"\x03\x04"
        b"\x01\x01\x00\x00\x00x"
        b"\x02\x00\x00"
        b"\x04"
        b"\x01\x02\x00\x00\x00\x05\x00"
        b"\x04"
    )
    assert program.values == (HOLE,)


def nodes(depth: int) -> st.SearchStrategy[Node]:
    leaf: st.SearchStrategy[Node] = st.one_of(
        st.binary(max_size=4).map(lambda content: ber.octet_string(content)),
        st.just(ber.octet_string(b"<", HOLE, b">")),
    )
    if depth == 0:
        return leaf
    inner = st.lists(nodes(depth - 1), max_size=4)
    return st.one_of(
        leaf,
        inner.map(lambda parts: ber.tlv(0x30, *parts)),
        inner.map(lambda parts: ber.tlv(0x31, *parts, least=7)),
        inner.map(lambda parts: OptionalGroup(500_000, tuple(parts))),
        inner.map(lambda parts: Base64(tuple(parts))),
    )


def filled(
    node: Node, texts: Iterator[str], present: Iterator[bool], number: int = 0
) -> bytes:
    """The node's BER, straight from the tree."""
    match node:
        case bytes():
            return node
        case ValueSource():
            return next(texts).encode()
        case template.Number():
            return b"%d" % number
        case OptionalGroup(parts=parts):
            is_there = next(present)
            content = b"".join(filled(part, texts, present, number) for part in parts)
            return content if is_there else b""
        case Base64(parts=parts):
            content = b"".join(filled(part, texts, present, number) for part in parts)
            return base64.b64encode(content)
        case Tlv(tag=tag, parts=parts, least=least):
            content = b"".join(filled(part, texts, present, number) for part in parts)
            if len(content) < least:
                return b""
            return bytes([tag]) + ber.length(len(content)) + content
    raise AssertionError(node)


@given(node=nodes(4), bits=st.integers(0, (1 << 16) - 1))
def test_program_makes_what_the_tree_says(node: Node, bits: int) -> None:
    present = [bool(bits >> i % 16 & 1) for i in range(500)]
    program = compile_template(node)
    texts = [str(number) for number in range(len(program.values))]
    message = encode_message(program, 1, texts, present)
    expected = b"\x02\x01\x01" + filled(node, iter(texts), iter(present))
    assert message == b"\x30" + ber.length(len(expected)) + expected


def test_certain_and_impossible_parts_are_folded_away() -> None:
    never = OptionalGroup(0, (HOLE,))
    certain = OptionalGroup(template.CERTAIN_PPM, (b"b", never, HOLE))
    assert fold([b"a", certain, OptionalGroup(1, ()), b"c"]) == (b"ab", HOLE, b"c")
    assert fold([OptionalGroup(1, (b"a", b"b"))]) == (OptionalGroup(1, (b"ab",)),)


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ([], "a weight above zero"),
        ([(b"a", 0)], "a weight above zero"),
        ([(b"a", 1 << 32)], "a weight from 0"),
        ([(bytes(65_537), 1)], "a text of at most"),
        ([(bytes(65_536), 1)] * 16, "a list of at most"),
    ],
)
def test_list_beyond_the_engines_limits_is_a_fault(
    choices: list[tuple[bytes, int]], reason: str
) -> None:
    with pytest.raises(Fault, match=reason):
        choice(choices)


def test_unique_sources_of_a_run_draw_from_numbers_of_their_own() -> None:
    one = compile_template(HOLE, ValueSource(UNIQUE))
    two = compile_template(ValueSource(UNIQUE), ValueSource(UNIQUE, width=4))
    first, second = number_uniques([one, two])
    assert first.values == (HOLE, ValueSource(UNIQUE, lo=0, step=3))
    assert second.values == (
        ValueSource(UNIQUE, lo=1, step=3),
        ValueSource(UNIQUE, lo=2, step=3, width=4),
    )
    assert second.program == two.program


def test_the_unique_numbers_of_two_runs_have_as_many_digits_and_do_not_meet() -> None:
    runs = [f"20261127-0505{n:02}-50a8cd" for n in range(60)]
    firsts = sorted(map(first_unique, runs))
    assert {len(str(first)) for first in firsts} == {16}
    # a run that draws ten thousand million of them would meet the next one
    assert all(b - a > 10**10 for a, b in itertools.pairwise(firsts))
    # the next digit is exact in a double, for who reads them as one
    assert firsts[-1] + 10**12 < 2**53
    one = compile_template(ValueSource(UNIQUE), ValueSource(UNIQUE))
    (numbered,) = number_uniques([one], firsts[0])
    assert numbered.values == (
        ValueSource(UNIQUE, lo=firsts[0], step=2),
        ValueSource(UNIQUE, lo=firsts[0] + 1, step=2),
    )


def test_nesting_beyond_the_engines_limit_is_a_fault() -> None:
    node: Node = HOLE
    for _ in range(template.MAX_DEPTH):
        node = ber.tlv(0x30, node)
    compile_template(node)
    with pytest.raises(Fault, match="32 levels"):
        compile_template(ber.tlv(0x30, node))
    with pytest.raises(Fault, match="32 levels"):
        compile_template(OptionalGroup(1, (node,)))


@pytest.mark.parametrize(
    ("header", "name", "limit"),
    [
        ("template/template.h", "SLAM_TEMPLATE_DEPTH_MAX", template.MAX_DEPTH),
        ("template/values.h", "SLAM_VARIABLE_MAX", template.MAX_VARIABLE_BYTES),
        ("template/values.c", "LIST_MAX", template.MAX_LIST_BYTES),
        ("template/template.h", "SLAM_TEMPLATE_PDU_MAX", template.MAX_REQUEST_BYTES),
        ("template/values.h", "SLAM_VALUE_MAX_LEN", template.MAX_VALUE_BYTES),
    ],
)
def test_limits_are_those_of_the_engine(header: str, name: str, limit: int) -> None:
    text = (CSRC / header).read_text()
    definition = re.search(rf"#define {name} \(?(\d+)u?(?: << (\d+)\))?", text)
    assert definition is not None
    assert int(definition[1]) << int(definition[2] or 0) == limit


def test_codes_and_forms_are_those_of_the_engine() -> None:
    codes = re.findall(
        r"SLAM_CODE_(\w+) = (0x\w+)", (CSRC / "template/template.h").read_text()
    )
    forms = re.findall(
        r"SLAM_FORM_(\w+) = (\d+)", (CSRC / "template/text.h").read_text()
    )
    places = re.findall(
        r"SLAM_PLACE_(\w+) = (\d+)", (CSRC / "template/template.h").read_text()
    )
    assert (len(codes), len(forms), len(places)) == (19, 3, 5)
    for name, number in (*codes, *forms):
        assert getattr(template, name) == int(number, 0)
    assert {place.name: place.value for place in template.Place} == {
        name: int(number) for name, number in places
    }


def test_kinds_are_numbered_as_in_the_engine() -> None:
    text = (CSRC / "template/values.h").read_text()
    kinds = dict(re.findall(r"SLAM_VALUE_(\w+) = (\d+)", text))
    kinds["RANDOM_STRING"] = kinds.pop("STRING")
    assert {name: getattr(template, name) for name in kinds} == {
        name: int(number) for name, number in kinds.items()
    }
    assert sorted(map(int, kinds.values())) == list(range(15))
