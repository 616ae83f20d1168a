# SPDX-License-Identifier: Apache-2.0
"""BER and template programs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldapslam.jobs import ber, template
from ldapslam.jobs.fault import Fault
from ldapslam.jobs.template import Node, ValueSource, compile_template
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
    return st.one_of(
        leaf,
        st.lists(nodes(depth - 1), max_size=4).map(lambda parts: ber.tlv(0x30, *parts)),
    )


def filled(node: Node, texts: list[str]) -> bytes:
    """The node's BER, straight from the tree."""
    if isinstance(node, bytes):
        return node
    if isinstance(node, ValueSource):
        return texts.pop(0).encode()
    content = b"".join(filled(part, texts) for part in node.parts)
    return bytes([node.tag]) + ber.length(len(content)) + content


@given(node=nodes(4))
def test_program_makes_what_the_tree_says(node: Node) -> None:
    program = compile_template(node)
    texts = [str(number) for number in range(len(program.values))]
    message = encode_message(program, 1, texts)
    expected = b"\x02\x01\x01" + filled(node, texts)
    assert message == b"\x30" + ber.length(len(expected)) + expected


def test_nesting_beyond_the_engines_limit_is_a_fault() -> None:
    node: Node = HOLE
    for _ in range(template.MAX_DEPTH):
        node = ber.tlv(0x30, node)
    compile_template(node)
    with pytest.raises(Fault, match="32 levels"):
        compile_template(ber.tlv(0x30, node))


@pytest.mark.parametrize(
    ("header", "name", "limit"),
    [
        ("op.h", "SLAM_OP_MAX_DEPTH", template.MAX_DEPTH),
        ("op.h", "SLAM_OP_MAX_VALUES", template.MAX_VALUES),
        ("op.h", "SLAM_OP_MAX_PDU", template.MAX_REQUEST_BYTES),
        ("values.h", "SLAM_VALUE_MAX_LEN", template.MAX_VALUE_BYTES),
    ],
)
def test_limits_are_those_of_the_engine(header: str, name: str, limit: int) -> None:
    text = (CSRC / header).read_text()
    definition = re.search(rf"#define {name} \(?(\d+)u?(?: << (\d+)\))?", text)
    assert definition is not None
    assert int(definition[1]) << int(definition[2] or 0) == limit
