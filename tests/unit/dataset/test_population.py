# SPDX-License-Identifier: Apache-2.0
"""Template files of whole populations: structure, faults, programs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldapslam.base.fault import Fault, Faults
from ldapslam.dataset.population import (
    NO_NAMES,
    NO_PARENT,
    PopulationNode,
    PopulationProgram,
    ProgramSettings,
    build_population,
    compile_population,
)
from ldapslam.jobs.entries.template_file import parse_file
from ldapslam.jobs.operations.add import choose, compose, parse_templates
from ldapslam.jobs.requests.dn import rdn_values
from ldapslam.jobs.requests.scope import Scope

HEAD = "branch: ou=people,dc=com\nsubordinateTemplate: person:5\n\n"
BELOW = "branch: dc=com\nsubordinateTemplate: "
NAMED_BY_CN = f"{HEAD}template: person\nrdnAttr: cn\n"
PERSON = "template: person\nrdnAttr: uid\nuid: u<sequential>\n"
OUTPUTS = ("ldif", "dns", "binds")


def built(text: str, **settings: int) -> list[PopulationNode]:
    return build_population(parse_file(text, "t"), **settings)


def entries(population: list[PopulationNode]) -> int:
    return sum(node.total for node in population)


def compiled(text: str, seed: int = 1) -> PopulationProgram:
    settings = ProgramSettings(seed, "first", "last", OUTPUTS)
    return compile_population(built(text), settings)


def test_nodes_are_branches_and_templates_where_they_are_used() -> None:
    text = (
        "branch: dc=com\nsubordinateTemplate: unit:3\n\n"
        "branch: ou=more,dc=com\nsubordinateTemplate: person:7\n\n"
        "template: unit\nrdnAttr: ou\nou: <sequential>\nsubordinateTemplate: person:5\n"
        f"\n{PERSON}"
    )
    population = built(text)
    assert [
        (node.name, node.parent, node.count, node.total, node.first_index)
        for node in population
    ] == [
        ("dc=com", None, 1, 1, 0),
        ("unit", 0, 3, 3, 0),
        ("person", 1, 5, 15, 0),
        ("ou=more,dc=com", None, 1, 1, 0),
        ("person", 3, 7, 7, 15),
    ]
    assert entries(population) == 27
    assert entries(built(text, max_per_template=2)) == 1 + 2 * 3 + 1 + 2
    assert [node.parent for node in compiled(text).nodes] == [
        NO_PARENT,
        0,
        1,
        NO_PARENT,
        3,
    ]


def test_count_of_nothing_is_no_node() -> None:
    assert entries(built(HEAD.replace(":5", ":0") + PERSON)) == 1


def test_seeds_differ_by_template_and_seed() -> None:
    text = HEAD + PERSON
    one, two = compiled(text, 1), compiled(text, 2)
    seeds = [node.seed for program in (one, two) for node in program.nodes]
    assert len(set(seeds)) == 4
    assert one == compiled(text, 1)


def test_names_are_numbered_over_all_templates() -> None:
    text = (
        "branch: dc=com\nsubordinateTemplate: a:10\nsubordinateTemplate: b:20\n"
        "subordinateTemplate: a:30\n\n"
        "template: a\nrdnAttr: cn\ncn: <first>\n\ntemplate: b\nrdnAttr: cn\ncn: {sn}\n"
        "sn: <base64:<last>>\n"
    )
    program = compiled(text)
    assert [node.first_name for node in program.nodes] == [0, 0, 10, 30]
    assert {program.first_names, program.last_names} == {0, 1}
    assert compiled(HEAD + PERSON).first_names == NO_NAMES


@pytest.mark.parametrize(
    ("dn", "expected"),
    [
        ("dc=example,dc=com", [("dc", "example")]),
        ("cn=a\\, b \\+ c+uid = x ,dc=com", [("cn", "a, b + c"), ("uid", "x")]),
        ("cn=Zo\\c3\\ab,dc=com", [("cn", "Zoë")]),
        ("cn=x\\ ,dc=com", [("cn", "x ")]),
        ("cn=x\\\\ ,dc=com", [("cn", "x\\")]),
    ],
)
def test_values_of_an_rdn(dn: str, expected: list[tuple[str, str]]) -> None:
    assert rdn_values(dn) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "t has no branch"),
        ("uid: x", "t:1: expected 'template: NAME' first, got 'uid: x'"),
        ("branch: x", "t:1: expected a DN, got 'x'"),
        ("branch: ", "t:1: the branch has no DN"),
        ("branch: dc=com\nno colon", "t:2: expected ATTRIBUTE: VALUE"),
        ("branch: dc=com\nx:: YQ==", "t:2: expected ATTRIBUTE: VALUE, got base64"),
        ("branch: dc=com\n\nbranch: DC=com", "t:3: the branch 'DC=com' is given twice"),
        (
            "branch: ou=a,dc=com\n\nbranch: dc=com",
            "t:1: the branch 'ou=a,dc=com' stands before 'dc=com'",
        ),
        (f"{BELOW}person", "t:2: expected subordinateTemplate: NAME:COUNT"),
        (f"{BELOW}person:many", "t:2: expected subordinateTemplate: NAME:COUNT"),
        (f"{BELOW}persom:5\n\n{PERSON}", "t:2: unknown template 'persom'"),
        (
            f"{HEAD}{PERSON}subordinateTemplate: person:1\n",
            "t:7: templates are below themselves",
        ),
        (
            f"{HEAD}{PERSON}subordinateTemplate: b:1152921504606846975\n\n"
            "template: b\nrdnAttr: cn\ncn: x\n",
            "t:7: the tree has more than",
        ),
        (
            f"{HEAD}template: person\nuid: x",
            "t:4: the template 'person' has no",
        ),
        (f"{NAMED_BY_CN}uid: x", "t:4: the RDN's attribute 'cn' is not in every entry"),
        (f"{NAMED_BY_CN}cn: <presence:5>x", "t:4: the RDN's attribute 'cn' is not in"),
        (f"{NAMED_BY_CN}cn: <loop:1:2>", "t:6: 'cn' is repeated"),
    ],
)
def test_broken_file_is_a_fault_with_its_line(text: str, reason: str) -> None:
    with pytest.raises(Fault) as caught:
        compiled(text)
    assert caught.value.reason.startswith(reason)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<exec:ls>", "the tag <exec> is not supported"),
        ("<custom:a.B>", "the tag <custom> is not supported"),
        ("<frist>", "unknown tag <frist>"),
        ("<ancestrdn:1>", "unknown tag <ancestrdn:1>"),
        ("<first:2>", "expected a tag of the form <first>"),
        ("<last:2>", "expected a tag of the form <last>"),
        ("<sequential:x>", "expected a number of at least 0"),
        ("<sequential:1:maybe>", "expected a tag of the form <sequential:START>"),
        ("<entryNumber:2>", "expected a tag of the form <entryNumber>"),
        ("<_dn:1>", "expected a tag of the form <_dn>"),
        ("<_parentdn:1>", "expected a tag of the form <_parentdn>"),
        ("<ancestordn>", "expected a tag of the form <ancestordn:N>"),
        ("<ancestordn:0>", "expected a number of at least 1"),
        ("<ancestordn:32>", "expected at most 31 levels"),
        ("<ancestordn:4>", "nothing is 4 levels above"),
        ("<parent>", "expected a tag of the form <parent:ATTRIBUTE>"),
        ("<parent:ou:x>", "expected a number of at least 1"),
        ("<parent:oou>", "unknown attribute 'oou' of 'ou=people,dc=com'"),
        ("{parent:uo:3}", "unknown attribute 'uo' of 'ou=people,dc=com'"),
        ("{udi}", "unknown attribute 'udi'"),
        ("<csvfield:0>", "the tag <csvfield> is not supported"),
        ("<loop>", "expected a tag of the form <loop:LO:HI>"),
        ("<loop:5:4>", "expected a loop from low to high"),
        ("<loop:1:2:3>", "expected a tag of the form <loop:LO:HI>"),
        ("<loop:1:2><loop:1:2>", "expected one <loop:…> or <pick:…> in a line"),
        ("<pick:5>", "expected a tag of the form <pick"),
        ("<pick:5:4:9>", "expected <pick:MIN:MAX:N> with MIN up to MAX"),
        ("<base64:<presence:5>x>", "a condition stands within <base64:"),
        ("<base64:latin-1:{uid}>", "<base64:latin-1:{uid}> has tags"),
        ("<base64:<frist>>", "unknown tag <frist>"),
        ("[timestamp]", "the time of day is not the same each time"),
        ("[nobody]", "unknown pattern or name 'nobody'"),
        ("{description}", "values depend on each other in a circle"),
        ("<ifpresent:description>x", "values depend on each other in a circle"),
    ],
)
def test_broken_value_is_a_fault_with_its_line(text: str, reason: str) -> None:
    with pytest.raises(Fault) as caught:
        compiled(f"{HEAD}{PERSON}description: {text}\n")
    place, _, rest = caught.value.reason.partition(": ")
    assert rest.startswith(reason)
    assert place == ("t:4" if "circle" in reason else "t:7")
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("<exec:ls>", "nothing is executed"),
        ("<custom:a.B>", "code is not loaded"),
        ("<frist>", "did you mean 'first'?"),
        ("<ancestordn:4>", "the branch is 'ou=people"),
        ("<parent:oou>", "did you mean 'ou'"),
        ("{udi}", "did you mean 'uid'"),
        ("<csvfield:0>", "put the column in a file"),
        ("[timestamp]", "give a range"),
    ],
)
def test_hint_of_a_broken_value_says_what_to_write(text: str, hint: str) -> None:
    with pytest.raises(Fault) as caught:
        compiled(f"{HEAD}{PERSON}description: {text}\n")
    assert hint in (caught.value.hint or "")


def test_name_in_a_circle_is_a_fault() -> None:
    with pytest.raises(Fault, match="in a circle: dn -> uid -> dn"):
        compiled(f"{HEAD}template: person\nrdnAttr: uid\nuid: <dn>\n")
    with pytest.raises(Fault, match="in a circle: dn -> uid -> cn -> uid"):
        compiled(f"{HEAD}template: person\nrdnAttr: uid\nuid: {{cn}}\ncn: {{uid}}\n")


def test_branch_has_no_parent_to_refer_to() -> None:
    with pytest.raises(Fault, match=r"t:2: a value of the parent"):
        compiled("branch: dc=com\ndescription: <parent:uid>\n")
    with pytest.raises(Fault, match=r"t:2: nothing is 1 levels above"):
        compiled("branch: dc=com\ndescription: <parentdn>\n")


def test_entries_stand_in_for_a_count_that_is_there_or_left_out() -> None:
    for head in (HEAD, HEAD.replace(":5", "")):
        parsed = parse_file(head + PERSON, "t", {}, 9)
        assert parsed.branches[0].below[0].count == 9
    with pytest.raises(Fault, match="t has no subordinateTemplate whose count"):
        parse_file("branch: dc=com\n", "t", {}, 9)


def test_unknown_constant_is_a_fault() -> None:
    with pytest.raises(Fault, match="unknown constant 'sufix' of t") as caught:
        parse_file("define suffix=dc=com\n", "t", {"sufix": "dc=org"})
    assert caught.value.hint == "did you mean 'suffix'?"


def reasons(text: str) -> list[str]:
    """All that is wrong with a template file."""
    with pytest.raises(Fault) as caught:
        compiled(text)
    fault = caught.value
    found = fault.faults if isinstance(fault, Faults) else (fault,)
    return [f"{one.reason} ({one.hint})" for one in found]


def test_a_constant_that_is_not_there_has_the_nearest_one_as_a_hint() -> None:
    text = f"define suffix=dc=com\ndefine people=3\n\n{HEAD}{PERSON}"
    text = text.replace("people,dc=com", "people,[sufix]").replace(":5", ":[peple]")
    text += "description: in [sufix]\n"
    first, second, third = reasons(text)
    assert first.startswith("t:4: no constant 'sufix' is defined above this line")
    assert first.endswith("(did you mean 'suffix'?)")
    assert second.endswith("(did you mean 'people'?)")
    assert third.endswith("(did you mean 'suffix'?)")
    (value,) = reasons(f"define suffix=dc=com\n{HEAD}{PERSON}description: in [sufix]\n")
    assert "unknown pattern or name 'sufix'" in value
    assert value.endswith("(did you mean 'suffix'?)")


def test_all_faults_are_told_at_once() -> None:
    found = reasons(
        "branch: dc=com\nsubordinateTemplate: nobody:1\nsubordinateTemplate: a:2\n\n"
        "branch: ou=x,dc=com\nsubordinateTemplate: b:2\n\n"
        "template: a\nrdnAttr: cn\ncn: <sequential>\nsn: <frist>\nl: <pick:1>\n\n"
        "template: b\ncn: x\n"
    )
    assert [one.partition(": ")[0] for one in found] == ["t:2", "t:11", "t:12", "t:14"]
    # nothing keeps the others from being found
    found = reasons(
        "branch: ou=x,[suffix]\nsubordinateTemplate: a:[n]\n\n"
        "template: a\nrdnAttr: cn\ncn: <sequential>\nsn: <frist>\n"
        "givenName: x\nl: {givenNme}\nou: <ifpresent:no>{no}\n"
    )
    assert [one.partition(": ")[0] for one in found] == ["t:1", "t:2", "t:7", "t:9"]
    assert found[-1].endswith("(did you mean 'givenname'?)")
    # what follows a line that is out of place is of it
    found = reasons("cn: x\nsn: y\n\nbranch: dc=com\nnonsense\n")
    assert [one.partition(": ")[0] for one in found] == ["t:1", "t:5"]


_LINES = st.lists(
    st.text("abcuid:<>{}[]\\ \n5presntlof", max_size=30)
    | st.sampled_from(
        [
            "branch: dc=com",
            "branch: ou=a,dc=com",
            "template: a",
            "template: b",
            "extends: a",
            "rdnAttr: uid",
            "subordinateTemplate: a:5",
            "subordinateTemplate: b:2",
            "uid: {cn}",
            "cn: <ifpresent:uid><presence:5>x",
            "sn: <base64:{uid}>",
            "sn: <loop:1:3> {parent:uid}",
            "define x=<first>",
            "",
        ]
    ),
    max_size=16,
)


def compose_all(text: str) -> None:
    """Make an add of each of the templates."""
    for name in (templates := parse_templates(text, "t")):
        compose(choose(templates, name), "dc=com", Scope())


@given(_LINES)
def test_any_text_is_entries_or_a_fault(lines: list[str]) -> None:
    faults: list[Fault] = []
    text = "\n".join(lines)
    for work in (compiled, compose_all):
        try:
            work(text)
        except Fault as fault:
            faults.append(fault)
    assert all(fault.reason.startswith("t") and fault.hint for fault in faults)
