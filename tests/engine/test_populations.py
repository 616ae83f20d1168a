# SPDX-License-Identifier: Apache-2.0
"""What the generator makes of templates: tags, trees, side files, equal bytes."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ldapslam.base.errors import ConfigError
from ldapslam.dataset.generate import Generation, example_templates, generate
from support.generated import (
    BRANCH,
    PERSON,
    SEQUENTIAL,
    generated,
    parse_ldif,
    people,
    values,
)
from support.golden import Compare

#: Fewer than the members of a large group.
FEW = 1000


@pytest.mark.parametrize("name", example_templates())
def test_ready_template_makes_the_reviewed_entries(
    name: str, tmp_path: Path, golden: Compare
) -> None:
    constants = {
        "users": "25",
        **({"large": "3", "small_groups": "2"} if name == "groups" else {}),
        **({"groups": "2"} if name == "posix" else {}),
        **({"size": "3", "teams": "2", "departments": "2"} if name == "nested" else {}),
    }
    output = tmp_path / "out.ldif"
    generate(Generation(name, output=output, constants=constants, max_per_template=3))
    golden(f"data/{name}.ldif", output.read_text("utf-8"))


@pytest.mark.parametrize("name", example_templates())
def test_parents_come_first_and_no_dn_twice(name: str, tmp_path: Path) -> None:
    output = tmp_path / "out.ldif"
    generate(Generation(name, output=output, entries=FEW))
    entries = parse_ldif(output.read_bytes())
    seen: set[str] = {"dc=com"}
    for dn, attributes in entries:
        assert dn not in seen
        assert re.split(r"(?<!\\),", dn, maxsplit=1)[1] in seen
        seen.add(dn)
        for attribute, found in attributes.items():
            assert len(set(found)) == len(found), f"{dn}: {attribute}"


@pytest.mark.parametrize("name", example_templates())
def test_bytes_do_not_depend_on_threads_or_side_files(
    name: str, tmp_path: Path
) -> None:
    made = set()
    for threads in (1, 2, 3, 7):
        more: dict[str, Any] = {}
        if threads > 2:
            more = {
                "dn_file": tmp_path / "dns",
                "bind_file": tmp_path / "binds",
            }
        output = tmp_path / "out.ldif"
        wanted = Generation(name, output=output, entries=FEW, threads=threads, **more)
        done = generate(wanted)
        assert done.size_bytes == output.stat().st_size
        assert done.entries == len(re.findall(rb"^dn:", output.read_bytes(), re.M))
        made.add(output.read_bytes())
    assert len(made) == 1


def test_seed_decides_what_is_drawn(tmp_path: Path) -> None:
    lines = SEQUENTIAL + "sn: <random:alpha:8>\n"
    first, again, other = (
        values(people(tmp_path, lines, seed=seed), "sn") for seed in (1, 1, 2)
    )
    assert first == again
    assert not set(first) & set(other)


def test_entry_is_the_same_however_many_there_are(tmp_path: Path) -> None:
    lines = SEQUENTIAL + "sn: <random:alpha:8>\n"
    assert people(tmp_path, lines, 7) == people(tmp_path, lines, 2000)[:7]


def test_line_draws_the_same_whatever_refers_to_it(tmp_path: Path) -> None:
    lines = SEQUENTIAL + "sn: <random:alpha:8>\n"
    alone = values(people(tmp_path, lines), "sn")
    entries = people(tmp_path, lines + "cn: {sn}\n")
    assert values(entries, "sn") == alone == values(entries, "cn")


# Trees.

_TREE = """\
define suffix=dc=example,dc=com
branch: [suffix]

branch: ou=staff,[suffix]
description: <list:the staff>
subordinateTemplate: unit:3

template: unit
rdnAttr: ou
objectClass: organizationalUnit
ou: unit <sequential>, <list:North,South,East,West>
l: <random:alpha:6>
subordinateTemplate: person:2
subordinateTemplate: device:1

template: person
rdnAttr: uid+sn
objectClass: person
uid: u<sequential>
sn: <random:alpha:4>
st: {parent:l} {parent:l:2} <parent:ou>
description: <parentdn>|<ancestordn:1>|<ancestordn:2>|<ancestordn:3>|<ancestordn:4>
roomNumber: <_dn>|<_parentdn>|<_ancestordn:2>|<rdn>
subordinateTemplate: device:1

template: device
rdnAttr: cn
objectClass: device
cn: d<sequential>
owner: <parentdn>
"""


def test_tree_refers_to_what_is_above(tmp_path: Path) -> None:
    entries = parse_ldif(generated(tmp_path, _TREE))
    assert len(entries) == 2 + 3 * (1 + 2 * 2 + 1)
    by_dn = dict(entries)
    staff = "ou=staff,dc=example,dc=com"
    assert by_dn[staff]["description"] == ["the staff"]
    assert by_dn[staff]["objectClass"] == ["top", "organizationalUnit"]
    for dn, attributes in entries:
        above = re.split(r"(?<!\\),", dn, maxsplit=1)[1]
        if attributes["objectClass"] == ["device"]:
            assert attributes["owner"] == [above]
        if attributes["objectClass"] != ["person"]:
            continue
        unit = by_dn[above]
        town, name = unit["l"][0], unit["ou"][0]
        assert above == f"ou={name},{staff}".replace(", ", "\\, ")
        assert attributes["st"] == [f"{town} {town[:2]} {name}"]
        assert attributes["description"] == [
            f"{above}|{above}|{staff}|dc=example,dc=com|dc=com"
        ]
        rdn = f"uid={attributes['uid'][0]}+sn={attributes['sn'][0]}"
        assert dn.startswith(rdn + ",")
        assert attributes["roomNumber"] == [
            "|".join(
                [
                    dn.replace(",", "_"),
                    above.replace(",", "_"),
                    staff.replace(",", "_"),
                    rdn,
                ]
            )
        ]
    names = [one["cn"][0] for _, one in entries if one["objectClass"] == ["device"]]
    # below persons first, then below units: numbered by template all the same
    assert sorted(names) == sorted(f"d{n}" for n in range(9))


def test_branch_is_what_its_rdn_says(tmp_path: Path) -> None:
    text = "".join(
        f"branch: {dn}\n\n"
        for dn in ("dc=com", "o=a\\, b,dc=com", "c=DE,dc=com", "l=Bonn+st=NW,dc=com")
    )
    text += "branch: ou=x,dc=com\nobjectClass: top\ndescription: [mine]\n\n"
    entries = dict(parse_ldif(generated(tmp_path, "define mine=yes\n" + text)))
    assert entries == {
        "dc=com": {"objectClass": ["top", "domain"], "dc": ["com"]},
        "o=a\\, b,dc=com": {"objectClass": ["top", "organization"], "o": ["a, b"]},
        "c=DE,dc=com": {"objectClass": ["top", "country"], "c": ["DE"]},
        "l=Bonn+st=NW,dc=com": {
            "objectClass": ["top", "locality"],
            "l": ["Bonn"],
            "st": ["NW"],
        },
        "ou=x,dc=com": {"objectClass": ["top"], "description": ["yes"], "ou": ["x"]},
    }


def test_template_extends_with_what_is_below_it(tmp_path: Path) -> None:
    text = (
        "branch: dc=com\nsubordinateTemplate: special:1\n\n"
        "template: base\nrdnAttr: cn\ncn: c\nsubordinateTemplate: leaf:2\n\n"
        "template: special\nextends: base\nsn: s\n\n"
        "template: leaf\nrdnAttr: cn\ncn: leaf<sequential>\n"
    )
    assert [dn for dn, _ in parse_ldif(generated(tmp_path, text))] == [
        "dc=com",
        "cn=c,dc=com",
        "cn=leaf0,cn=c,dc=com",
        "cn=leaf1,cn=c,dc=com",
    ]


def test_preview_has_few_of_each(tmp_path: Path) -> None:
    text = BRANCH.format(count=1 << 50) + PERSON + SEQUENTIAL
    assert len(parse_ldif(generated(tmp_path, text, max_per_template=2))) == 3


@pytest.mark.parametrize(("count", "constant"), [("100", "7"), ("[users]", "33")])
def test_entries_stand_in_for_the_first_count(
    count: str, constant: str, tmp_path: Path
) -> None:
    text = (
        f"define users=7\n{BRANCH.format(count=count)}{PERSON}{SEQUENTIAL}sn: [users]\n"
    )
    entries = parse_ldif(generated(tmp_path, text, entries=33))[1:]
    assert len(entries) == 33
    assert set(values(entries, "sn")) == {constant}


def test_constants_can_be_given(tmp_path: Path) -> None:
    text = "define a=1\ndefine b=[a]-x\nbranch: dc=com\ndescription: [a] [b]\n"
    ((_, attributes),) = parse_ldif(generated(tmp_path, text, constants={"a": "9"}))
    assert attributes["description"] == ["9 9-x"]


# Side files and CSV.


def test_side_files_have_a_line_for_each_entry(tmp_path: Path) -> None:
    paths = {name: tmp_path / name for name in ("dn_file", "bind_file")}
    entries = people(
        tmp_path,
        SEQUENTIAL + "userPassword: <presence:50>p {uid}\n",
        40,
        **paths,
    )
    assert paths["dn_file"].read_text().splitlines() == [dn for dn, _ in entries]
    assert paths["bind_file"].read_text().splitlines() == [
        f"{dn}\t{one['userPassword'][0]}"
        for dn, one in entries
        if "userPassword" in one
    ]


# Files.


def test_unfinished_files_are_removed_and_old_ones_kept(tmp_path: Path) -> None:
    (tmp_path / "test.ldif").write_text("old")
    text = BRANCH.format(count=5000) + PERSON + "uid: <file:none>\n"
    with pytest.raises(ConfigError, match="cannot read"):
        generated(tmp_path, text)
    text = BRANCH.format(count=100_000) + PERSON + SEQUENTIAL
    with pytest.raises(ConfigError, match="No space left"):
        generated(tmp_path, text, dn_file=Path("/dev/full"))
    assert (tmp_path / "test.ldif").read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"test.ldif", "test.template"}


@pytest.mark.parametrize("place", ["missing/out.ldif", "."])
def test_place_that_cannot_be_written_is_told(place: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        generate(Generation("people", output=tmp_path / place, entries=1))


def test_memory_does_not_grow_with_the_entries(tmp_path: Path) -> None:
    def peak_kib(count: int) -> int:
        pid = os.fork()
        if pid == 0:
            wanted = Generation("people", output=Path("/dev/null"), entries=count)
            generate(wanted)
            os._exit(0)
        _, status, usage = os.wait4(pid, 0)
        assert status == 0
        return usage.ru_maxrss

    assert peak_kib(400_000) < peak_kib(1_000) + 4_096


# Whatever is drawn, and wherever: what python-ldap reads is what was meant.

_TEXTS = st.text(
    st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp")),
    min_size=1,
    max_size=12,
)


@given(st.lists(_TEXTS, min_size=1, max_size=8), st.integers(1, 3))
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_text_is_read_as_it_was(
    tmp_path: Path, texts: list[str], threads: int
) -> None:
    (tmp_path / "texts").write_text("\n".join(texts) + "\n", "utf-8")
    entries = people(
        tmp_path,
        "uid: <sequential>\nsn: <file:texts:sequential>\ncn: x{sn}x\n",
        len(texts),
        threads=threads,
    )
    assert values(entries, "sn") == texts
    assert values(entries, "cn") == [f"x{text}x" for text in texts]


_TAGS = [
    "<first>",
    "<last>",
    "<dn>",
    "<_dn>",
    "<rdn>",
    "<parentdn>",
    "<ancestordn:2>",
    "<parent:l>",
    "{parent:l:2}",
    "<sequential:3:true>",
    "<entryNumber>",
    "<presence:50>",
    "<ifpresent:l>",
    "<ifabsent:sn:b>",
    "<ifpresent:cn:b>",
    "<list:a,b>",
    "<random:alpha:1:3>",
    "<guid>",
    "<base64:{sn}<last>>",
    "<loop:1:3>",
    "<pick:1:2:5>",
    "{sn}",
    "{cn:1}",
    "{uid}",
    "[1-9]",
    "é",
    " ",
    "b",
]
_TEXT = st.lists(st.sampled_from(_TAGS), min_size=1, max_size=4).map("".join)
_ATTRIBUTES = st.lists(
    st.tuples(st.sampled_from(["cn", "sn", "l", "st"]), _TEXT), max_size=6
)


@given(_ATTRIBUTES, _ATTRIBUTES)
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_what_is_no_fault_is_rendered(
    tmp_path: Path, above: list[tuple[str, str]], below: list[tuple[str, str]]
) -> None:
    def lines(attributes: list[tuple[str, str]]) -> str:
        return "".join(f"{name}: {text}\n" for name, text in attributes)

    text = (
        "branch: ou=a,dc=com\nl: town\nsubordinateTemplate: a:300\n\n"
        f"template: a\nrdnAttr: uid\nuid: a<sequential>\n{lines(above)}"
        "subordinateTemplate: b:2\n\n"
        f"template: b\nrdnAttr: uid\nuid: b<sequential>\n{lines(below)}"
    )
    faults: list[str] = []
    made: list[bytes] = []
    try:
        made += [generated(tmp_path, text, threads=threads) for threads in (1, 3)]
    except ConfigError as error:
        faults.append(str(error))
    # a fault has its line: it is not the engine that refuses
    assert all(re.search(r"test\.template:\d+: ", fault) for fault in faults), faults
    if made:
        entries = parse_ldif(made[0])
        assert made[0] == made[1]
        assert len({dn for dn, _ in entries}) == len(entries) == 1 + 300 * 3
