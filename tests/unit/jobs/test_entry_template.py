# SPDX-License-Identifier: Apache-2.0
"""Entry templates: what their tags become, and the faults of broken ones."""

from __future__ import annotations

from typing import Any

import pytest

from ldapslam.base.fault import Fault
from ldapslam.jobs.operations.add import ComposedEntry, choose, compose, parse_templates
from ldapslam.jobs.operations.body import OperationPlan
from ldapslam.jobs.requests import ber
from ldapslam.jobs.requests.scope import Scope
from ldapslam.jobs.requests.template import (
    LIST,
    ValueSource,
    compile_template,
)
from support.compiled import filled, filled_variables

UNDER = "ou=people,dc=com"
HEAD = "template: person\nrdnAttr: uid\nobjectClass: person\n"


def composed(lines: str, under: str = UNDER, head: str = HEAD) -> ComposedEntry:
    templates = parse_templates(head + lines, "dir/t.template")
    return compose(choose(templates, None), under, Scope())


def made(
    lines: str,
    texts: list[str] | None = None,
    present: list[bool] | None = None,
    **more: Any,
) -> tuple[str, dict[str, list[str]]]:
    """DN and attributes of an entry, with these texts in the holes: those of the lets
    first, then those of the attributes."""
    entry = composed(lines, **more)
    compiled = OperationPlan(
        "", "add", 0, compile_template(*entry.attributes), lets=entry.lets
    )
    content = filled(compiled, texts or [], present=present)
    known, _ = filled_variables(compiled, texts or [], {})
    return known[entry.dn], attributes_in(content)


def attributes_in(message: bytes) -> dict[str, list[str]]:
    attributes: dict[str, list[str]] = {}
    for tag, attribute in parts(parts(message)[0][1])[1:]:
        (name_tag, name), (values_tag, values) = parts(attribute)
        assert (tag, name_tag, values_tag) == (ber.SEQUENCE, ber.OCTET_STRING, ber.SET)
        attributes[name.decode()] = [text.decode() for _, text in parts(values)]
    return attributes


def parts(content: bytes) -> list[tuple[int, bytes]]:
    """Tags and contents of the TLVs that follow one another."""
    found = []
    while content:
        length, start = content[1], 2
        if length & 0x80:
            start += length & 0x7F
            length = int.from_bytes(content[2:start], "big")
        found.append((content[0], content[start : start + length]))
        content = content[start + length :]
    return found


def test_entry_has_its_attributes_in_order_and_its_name() -> None:
    dn, attributes = made("sn: b\nsn: c\nuid: user.1\ncn: a\n")
    assert dn == f"uid=user.1,{UNDER}"
    assert list(attributes.items()) == [
        ("objectClass", ["person"]),
        ("sn", ["b", "c"]),
        ("uid", ["user.1"]),
        ("cn", ["a"]),
    ]


def test_what_is_referred_to_is_drawn_once() -> None:
    dn, attributes = made(
        "givenName: <first>\nsn: <last>\ncn: {givenName} {SN}\n"
        "initials: {givenname:1}<random:chars:XYZ:1>{sn:1}\nuid: {givenName:3}.{sn}\n",
        # givenName, sn, the letter
        ["Álvaro", "Ng", "Y"],
    )
    # á takes two bytes
    assert dn == f"uid=Ál.Ng,{UNDER}"
    assert attributes["cn"] == ["Álvaro Ng"]
    assert attributes["uid"] == ["Ál.Ng"]
    # its first byte alone is no character
    assert attributes["initials"] == ["YN"]


def test_rdn_is_escaped_and_may_have_several_parts() -> None:
    dn, attributes = made(
        "cn: a, \\<b\\>\nsn: <list:x+y>\n",
        ["x+y"],
        head="template: t\nrdnAttr: cn+sn\n",
    )
    assert dn == f"cn=a\\, \\<b\\>+sn=x\\+y,{UNDER}"
    assert attributes == {"cn": ["a, <b>"], "sn": ["x+y"]}


def test_names_of_the_entry_stand_in_values() -> None:
    dn, attributes = made(
        "uid: u\ndescription: <dn> <rdn> <parentdn>\n", ["7"], under="ou=[0-9],dc=com"
    )
    assert dn == "uid=u,ou=7,dc=com"
    assert attributes["description"] == ["uid=u,ou=7,dc=com uid=u ou=7,dc=com"]


def sources(line: str) -> list[ValueSource]:
    """What the values of one attribute draw from."""
    entry = composed(f"uid: x\n{line}\n")
    return list(compile_template(*entry.attributes).values)


def test_file_is_relative_to_the_template() -> None:
    (source,) = sources("description: <file:../names.txt>")
    assert source.data == b"names.txt"
    (source,) = sources("description: <file:/data/names.txt>")
    assert source.data == b"/data/names.txt"


@pytest.mark.parametrize(
    ("text", "choices"),
    [
        ("<list:a,b c,d>", [(b"a", 1), (b"b c", 1), (b"d", 1)]),
        ("<list:a;3,b;1>", [(b"a", 3), (b"b", 1)]),
        ("<list:a:x,b:y>", [(b"a:x", 1), (b"b:y", 1)]),
    ],
)
def test_list_may_have_weights(text: str, choices: list[tuple[bytes, int]]) -> None:
    (source,) = sources(f"description: {text}")
    assert source.kind == LIST
    assert list(source.choices) == choices


@pytest.mark.parametrize("text", ["<list:a:3,b>", "<list:a:3,b:x>", "<list:a:1.5,b:1>"])
def test_a_weight_that_is_none_is_a_fault(text: str) -> None:
    with pytest.raises(Fault, match="a weight behind each text") as caught:
        sources(f"description: {text}")
    assert "such as " in str(caught.value.hint)


def test_constants_loops_and_escapes_are_filled_in() -> None:
    _, attributes = made(
        "uid: u\nmail: {uid}@[domain]\nseeAlso: \\<x\\> \\{y\\} \\[z\\] \\\\\n"
        "description: <base64:hello>\nstreet: No. <loop:2:4>\n"
        "title: <base64:latin-1:\u00fc>\n",
        head=f"define short=ex\ndefine domain=[short].com\n\n# people\n\n{HEAD}",
    )
    assert attributes["mail"] == ["u@ex.com"]
    assert attributes["seeAlso"] == ["<x> {y} [z] \\"]
    assert attributes["description"] == ["aGVsbG8="]
    assert attributes["street"] == ["No. 2", "No. 3", "No. 4"]
    assert attributes["title"] == ["/A=="]


CONDITIONS = """\
uid: u
l: <presence:30>Berlin
st: BE<ifpresent:l>
street: <ifpresent:st><presence:50>Main
c: <ifpresent:l:Berlin>DE
o: <ifpresent:l:Paris>FR
fax: <ifabsent:pager>1
ou: <ifabsent:uid>2
mail: a
mail: <presence:50>b
title: <presence:100>yes
host: <presence:0>no
"""


@pytest.mark.parametrize(
    ("present", "names", "mails"),
    [
        # whether l is there; the second mail; street's own condition
        ([True, True, True], "l st street c", ["a", "b"]),
        ([True, False, False], "l st c", ["a"]),
        ([False, False, True], "", ["a"]),
    ],
)
def test_what_hangs_on_a_chance_comes_with_it(
    present: list[bool], names: str, mails: list[str]
) -> None:
    _, attributes = made(CONDITIONS, present=present)
    always = {"objectClass", "uid", "fax", "mail", "title"}
    assert set(attributes) == always | set(names.split())
    assert attributes["mail"] == mails


def test_reference_to_what_is_not_there_is_empty() -> None:
    lines = (
        "uid: u\nl: <presence:50>Bonn\nst: {l}\nc: <ifabsent:l>none\n"
        "street: in {l:2}\no: <ifpresent:l:Bonn><ifpresent:uid:u>yes\n"
    )
    dn, attributes = made(lines, present=[True])
    assert dn == f"uid=u,{UNDER}"
    assert (attributes["l"], attributes["st"], attributes["o"]) == (
        ["Bonn"],
        ["Bonn"],
        ["yes"],
    )
    assert attributes["street"] == ["in Bo"]
    assert "c" not in attributes
    _, attributes = made(lines, present=[False])
    assert not {"l", "st", "o"} & set(attributes)
    assert (attributes["street"], attributes["c"]) == (["in "], ["none"])


def test_value_that_is_drawn_may_be_a_condition_and_be_encoded() -> None:
    lines = (
        "uid: u\nl: <list:Bonn,Rome>\nc: <ifpresent:l:Bonn>DE\n"
        "st: <ifabsent:l:Bonn>x\ndescription: <base64:{l}>\n"
    )
    _, attributes = made(lines, ["Bonn"])
    assert (attributes["c"], attributes["description"]) == (["DE"], ["Qm9ubg=="])
    _, attributes = made(lines, ["Rome"])
    assert attributes["st"] == ["x"]
    assert "c" not in attributes


def test_value_that_is_empty_is_left_out() -> None:
    lines = "uid: u\ndescription: <list:,a>\ntitle: x\ntitle:\nou: <file:names>\n"
    _, attributes = made(lines, ["", "b"])
    assert "description" not in attributes
    assert (attributes["title"], attributes["ou"]) == (["x"], ["b"])


@pytest.mark.parametrize(("under", "texts"), [(UNDER, []), ("ou=[1-9],dc=com", ["7"])])
def test_names_above_the_entry(under: str, texts: list[str]) -> None:
    lines = "uid: u\nou: <_dn>|<_parentdn>|<ancestordn:2>|<_ancestordn:1>\n"
    _, attributes = made(lines, texts, under=under)
    ou = "7" if texts else "people"
    above = f"ou={ou}_dc=com"
    assert attributes["ou"] == [f"uid=u_{above}|{above}|dc=com|{above}"]


def test_probability_is_in_millionths() -> None:
    entry = composed("uid: u\nl: <presence:0.25>x\n")
    assert b"\x05\xc4\x09\x00\x00" in compile_template(*entry.attributes).program


def test_template_extends_others_and_skips_branches() -> None:
    text = (
        "branch: dc=com\nobjectClass: top\nsubordinateTemplate: person:5\n\n"
        "template: base\nrdnAttr: cn\nobjectClass: top\ncn: c\n\n"
        "template: person\nextends: base\nrdnAttr: sn\nsn: s\n"
    )
    templates = parse_templates(text, "t")
    assert list(templates) == ["base", "person"]
    entry = compose(choose(templates, "person"), UNDER, Scope())
    compiled = OperationPlan(
        "", "add", 0, compile_template(*entry.attributes), lets=entry.lets
    )
    assert attributes_in(filled(compiled)) == {
        "objectClass": ["top"],
        "cn": ["c"],
        "sn": ["s"],
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "t: expected a template, got none"),
        ("template: a\nuid: x\n\ntemplate: a", "t:4: the template 'a' is given twice"),
        ("template: a\nuid: x", "t:1: the template 'a' has no rdnAttr"),
        ("template: a\nextends: b", "t:1: cannot extend 'b'"),
        ("template: a\nextends: a", "t:1: cannot extend 'a'"),
    ],
)
def test_broken_template_is_a_fault_with_its_line(text: str, reason: str) -> None:
    with pytest.raises(Fault) as caught:
        compose(choose(parse_templates(text, "t"), None), UNDER, Scope())
    assert caught.value.reason.startswith(reason)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<ancestordn:4>", "nothing is 4 levels above this entry"),
        ("<parent:ou>", "an add does not know the values of the parent"),
        ("<sequential:1:true>", "numbers that begin again below each parent"),
        ("<presence:101>", "expected a tag of the form <presence:PERCENT>"),
        ("<presence>", "expected a tag of the form <presence:PERCENT>"),
        ("<random:alpha:0>", "expected a number of at least 1"),
        ("<random:alpha:9:2>", "expected 1 to 65536 ASCII characters"),
        ("<random:chars:abc>", "expected a tag of the form <random:chars:SET:N>"),
        ("<random:greek:2>", "expected a tag <random:KIND:…>"),
        ("<random:numeric:9:2>", "expected a number from low to high"),
        ("<list:>", "expected a tag of the form <list:A,B,C>"),
        ("<list:a:0>", "expected a list with a weight above zero"),
        ("<file:>", "expected a tag of the form <file:PATH>"),
        ("<file:a:backwards>", "expected a tag of the form <file:PATH>"),
        ("<random:chars::3>", "expected a tag of the form <random:chars:SET:N>"),
        ("<base64:latin-1:ł>", "expected a text in the charset 'latin-1'"),
        ("{nobody}", "unknown attribute 'nobody'"),
        ("{cn:x}", "expected a number of at least 1"),
        ("<ifpresent>", "expected a tag of the form <ifpresent:ATTRIBUTE>"),
        ("[5", "bracket '['"),
    ],
)
def test_broken_value_is_a_fault_with_its_line(text: str, reason: str) -> None:
    with pytest.raises(Fault) as caught:
        composed(f"uid: u\ncn: <first>\nrare: <presence:5>r\ndescription: {text}\n")
    place, _, rest = caught.value.reason.partition(": ")
    assert rest.startswith(reason)
    assert place == "dir/t.template:7"
    assert caught.value.hint


def test_template_of_several_is_chosen_by_name() -> None:
    templates = parse_templates("template: a\ncn: x\n\ntemplate: b\ncn: y\n", "t")
    with pytest.raises(Fault, match="t has 2 templates") as caught:
        choose(templates, None)
    assert caught.value.hint == "choose one by `template_name`: a, b"
    with pytest.raises(Fault, match="unknown template 'c'"):
        choose(templates, "c")
    assert choose(templates, "b").name == "b"
