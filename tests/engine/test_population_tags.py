# SPDX-License-Identifier: Apache-2.0
"""What the generator makes of the tags in a population's lines."""

from __future__ import annotations

import base64
import re
import uuid
from collections import Counter
from pathlib import Path

import pytest

from support.generated import PERSON, SEQUENTIAL, generated, parse_ldif, people, values


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("<random:chars:xyz:4>", "[xyz]{4}"),
        ("<random:chars:xyz:2:4>", "[xyz]{2,4}"),
        ("<random:alpha:5>", "[a-z]{5}"),
        ("<random:alpha:2:9>", "[a-z]{2,9}"),
        ("<random:numeric:6>", "[0-9]{6}"),
        ("<random:numeric:7:12>", "7|8|9|10|11|12"),
        ("<random:numeric:7:12:4>", "00(07|08|09|10|11|12)"),
        ("<random:alphanumeric:5>", "[a-z0-9]{5}"),
        ("<random:hex:3:4>", "[0-9a-f]{3,4}"),
        ("<random:base64:8>", "[A-Za-z0-9+/]{8}"),
        ("<random:telephone>", r"\d{3}-\d{3}-\d{4}"),
        ("<random:month>", "[JFMASOND][a-z]+"),
        ("<random:month:3>", "[JFMASOND][a-z]{2}"),
        ("<list:a,b c,d>", "a|b c|d"),
        ("[7-9]", "[789]"),
        ("[timestamp:min=20200101000000Z:max=20200102000000Z]", r"2020010[12].*Z"),
    ],
)
def test_random_tag(text: str, form: str, tmp_path: Path) -> None:
    drawn = values(people(tmp_path, f"{SEQUENTIAL}sn: {text}\n", 200), "sn")
    assert all(re.fullmatch(form, value or "") for value in drawn)
    assert len(set(drawn)) > 1


def test_guids_are_uuids_of_version_4(tmp_path: Path) -> None:
    drawn = values(people(tmp_path, SEQUENTIAL + "sn: <guid>\n", 500), "sn")
    assert len(set(drawn)) == 500
    assert {uuid.UUID(value or "").version for value in drawn} == {4}


def test_sequences_are_in_order(tmp_path: Path) -> None:
    entries = people(
        tmp_path,
        "uid: u<sequential>\nsn: <sequential:100>\ncn: [1:999%0000]\n"
        "description: <entryNumber>\n",
        600,
    )
    assert values(entries, "uid") == [f"u{n}" for n in range(600)]
    assert values(entries, "sn") == [str(n) for n in range(100, 700)]
    assert values(entries, "cn") == [f"{n:04}" for n in range(1, 601)]
    # the branch is number 0
    assert values(entries, "description") == [str(n) for n in range(1, 601)]


def test_sequence_goes_on_over_parents_unless_it_is_to_begin_anew(
    tmp_path: Path,
) -> None:
    text = (
        "branch: ou=a,dc=com\nsubordinateTemplate: person:2\n\n"
        "branch: ou=b,dc=com\nsubordinateTemplate: person:3\n\n"
        f"{PERSON}uid: <sequential>\nsn: <sequential:5:true>\n"
    )
    entries = parse_ldif(generated(tmp_path, text))
    assert values(entries, "uid") == [None, "0", "1", None, "2", "3", "4"]
    assert values(entries, "sn") == [None, "5", "6", None, "5", "6", "7"]


def test_combinations_of_names_do_not_come_twice(tmp_path: Path) -> None:
    (tmp_path / "first").write_text("Ada\nBo\nÉva\n")
    (tmp_path / "last").write_text("Ng\nLi\nRoe\nFox\n")
    names = {"first_names": tmp_path / "first", "last_names": tmp_path / "last"}
    entries = people(
        tmp_path, "uid: <sequential>\ngivenName: <first>\nsn: <last>\n", 36, **names
    )
    found = list(zip(values(entries, "givenName"), values(entries, "sn"), strict=True))
    assert len(set(found)) == 36
    assert {one for one, _ in found} == {"Ada", "Bo", "Éva"}
    # twelve as they are, then numbered
    assert all((last or "").isalpha() for _, last in found[:12])
    assert all((last or "").endswith("1") for _, last in found[12:24])
    assert all((last or "").endswith("2") for _, last in found[24:])


def test_names_of_two_templates_do_not_meet(tmp_path: Path) -> None:
    text = (
        "branch: dc=com\nsubordinateTemplate: a:500\nsubordinateTemplate: b:500\n\n"
        "template: a\nrdnAttr: cn\ncn: <first> <last>\n\n"
        "template: b\nrdnAttr: cn\ncn: <first> <last>\n"
    )
    entries = parse_ldif(generated(tmp_path, text))
    assert len({dn for dn, _ in entries}) == 1001


def test_list_is_drawn_by_weight(tmp_path: Path) -> None:
    drawn = Counter(
        values(people(tmp_path, SEQUENTIAL + "sn: <list:a:7,b:2,c:1>\n", 8_000), "sn")
    )
    for value, share in (("a", 0.7), ("b", 0.2), ("c", 0.1)):
        assert abs(drawn[value] / 8_000 - share) < 0.03


def test_presence_is_a_share_and_others_hang_on_it(tmp_path: Path) -> None:
    entries = people(
        tmp_path,
        SEQUENTIAL + "l: <presence:30><list:Bonn,Rome>\nst: <ifpresent:l>with\n"
        "c: <ifabsent:l>without\no: <ifpresent:l:Rome>rome\n"
        "ou: <ifabsent:l:Rome>not rome\ntitle: <presence:50>{l} {st}\n"
        "never: <presence:0>x\nnor: <ifpresent:never>x\nyes: <ifabsent:never>x\n",
        5000,
    )
    towns = values(entries, "l")
    assert 0.27 < sum(town is not None for town in towns) / 5000 < 0.33
    for _, attributes in entries:
        town = attributes.get("l", [None])[0]
        assert ("st" in attributes) == (town is not None)
        assert ("c" in attributes) == (town is None)
        assert ("o" in attributes) == (town == "Rome")
        assert ("ou" in attributes) == (town != "Rome")
        if "title" in attributes:
            assert attributes["title"] == [f"{town} with" if town else " "]
        assert "yes" in attributes
        assert not {"never", "nor"} & set(attributes)


def test_one_value_of_several_may_be_missing(tmp_path: Path) -> None:
    entries = people(
        tmp_path,
        SEQUENTIAL + "mail: a\nmail: <presence:50>b\nsn: <ifpresent:mail:b>both\n",
        200,
    )
    found = Counter((tuple(one["mail"]), one.get("sn", [""])[0]) for _, one in entries)
    assert set(found) == {(("a",), ""), (("a", "b"), "both")}


def test_file_gives_lines(tmp_path: Path) -> None:
    (tmp_path / "towns").write_text("Bonn\nKöln\nRome\n")
    entries = people(
        tmp_path, SEQUENTIAL + "l: <file:towns>\nst: <file:towns:sequential>\n", 60
    )
    assert set(values(entries, "l")) == {"Bonn", "Köln", "Rome"}
    assert values(entries, "st") == ["Bonn", "Köln", "Rome"] * 20


def test_references_and_their_first_bytes(tmp_path: Path) -> None:
    ((dn, attributes),) = people(
        tmp_path,
        "cn: {givenName:2}{sn:1} {missing}\nuid: {cn}\ngivenName: Zoë\nsn: <list:Ngô>\n"
        "missing: <presence:0>x\n",
        1,
    )
    assert attributes["cn"] == ["ZoN "]
    assert dn == "uid=ZoN\\ ,ou=people,dc=com"
    ((_, attributes),) = people(
        tmp_path,
        "uid: x\nsn: <list:Ngô>\ncn: {sn:3}\ngivenName: Zoë\nl: {givenname:3}\n",
        1,
    )
    assert attributes["cn"] == ["Ng"]  # ô has two bytes
    assert attributes["l"] == ["Zo"]


@pytest.mark.parametrize("text", ["hé", ":ab", "trailing ", "x" * 100])
def test_base64_of_what_is_drawn(text: str, tmp_path: Path) -> None:
    ((_, attributes),) = people(
        tmp_path,
        f"uid: u\nsn: <list:{text}>\ncn: (<base64:{{sn}}>)\n"
        f"l: <base64:utf-8:{{sn}}!>\nst: <base64:{text}>\n",
        1,
    )
    assert base64.b64decode(attributes["cn"][0][1:-1]).decode() == text
    assert base64.b64decode(attributes["l"][0]).decode() == f"{text}!"
    if ":" not in text:
        assert base64.b64decode(attributes["st"][0]).decode() == text


def test_loop_repeats_its_line(tmp_path: Path) -> None:
    ((_, attributes),) = people(
        tmp_path, "uid: u\nmember: cn=<loop:8:11>,<dn>\nowner: <loop:3>\n", 1
    )
    assert attributes["member"] == [
        f"cn={n},uid=u,ou=people,dc=com" for n in range(8, 12)
    ]
    assert attributes["owner"] == ["0", "1", "2"]


def test_picked_values_are_different(tmp_path: Path) -> None:
    entries = people(tmp_path, SEQUENTIAL + "member: u<pick:3:9:20>\n", 300)
    counts = Counter(len(one["member"]) for _, one in entries)
    assert set(counts) == set(range(3, 10))
    drawn = Counter(value for _, one in entries for value in one["member"])
    assert set(drawn) == {f"u{n}" for n in range(20)}
    assert all(len(set(one["member"])) == len(one["member"]) for _, one in entries)
