# SPDX-License-Identifier: Apache-2.0
"""LDIF read: what RFC 2849 allows, the place of what it does not; files as trees."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import ldif as other_ldif  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldapslam.base.errors import ConfigError
from ldapslam.dataset.generate import Generation, generate
from ldapslam.dataset.ldif import Record, entry_count, ldif_entries, open_ldif, records
from ldapslam.dataset.local_tree import first_dn, ldif_tree, template_tree

FILE = b"""version: 1

# a comment
#  that is folded
 here
dn: dc=example,dc=com
objectClass: organization
objectclass: dcObject
o: Example
dc: example
description: a long
  line
 , folded

dn:: Y249w4RybmUsZGM9ZXhhbXBsZSxkYz1jb20=
changetype: add
cn:: w4RybmU=
sn:Allen
title:
description: one\x20
"""


def read(text: bytes) -> list[Record]:
    return list(records(io.BytesIO(text), "file"))


def test_entries_are_read() -> None:
    first, second = read(FILE)
    assert first.dn == "dc=example,dc=com"
    assert first.attributes == {
        "objectClass": [b"organization", b"dcObject"],
        "o": [b"Example"],
        "dc": [b"example"],
        "description": [b"a long line, folded"],
    }
    assert second.dn == "cn=Ärne,dc=example,dc=com"
    assert second.attributes == {
        "cn": ["Ärne".encode()],
        "sn": [b"Allen"],
        "title": [b""],
        "description": [b"one "],
    }


@pytest.mark.parametrize(
    "text",
    [FILE, FILE.replace(b"\n", b"\r\n"), b"\n\n" + FILE + b"\n\n\n", FILE[:-1]],
    ids=["as it is", "CRLF", "blank lines around", "no line end"],
)
def test_line_ends_and_blank_lines_do_not_count(text: bytes) -> None:
    assert [(one.dn, one.attributes) for one in read(text)] == [
        (one.dn, one.attributes) for one in read(FILE)
    ]


def test_records_have_their_lines() -> None:
    first, second = read(FILE)
    assert FILE.splitlines()[first.line - 1] == b"# a comment"
    assert FILE.splitlines()[second.line - 1].startswith(b"dn:: ")
    assert first.text + b"\n" + second.text == FILE.removeprefix(b"version: 1\n\n")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"dn: dc=x\n\ndn: dc=y\ndc x\n", "file:4: expected `name: value`, got 'dc x'"),
        (b"dc: x\n", "file:1: expected `dn:` first, got 'dc: x'"),
        (b"dn: dc=x\nchangetype: modify\n", "file:2: expected an entry, got a change"),
        (b"dn: dc=x\ndc:: ?\n", "file:2: the base64 is wrong"),
        (b"dn: dc=x\ndc:< file:///etc/passwd\n", "file:2: a value by URL is not read"),
        (b"dn:: /w==\n", "file:1: the DN is no UTF-8"),
        (b" dn: dc=x\n", "file:1: a continuation line has no line before it"),
        (b"version: 2\n", "file:1: expected version 1, got '2'"),
        (b"dn: dc=x\n-\n", "file:2: expected `name: value`, got '-'"),
    ],
)
def test_faults_are_told_by_line(text: bytes, fault: str) -> None:
    with pytest.raises(ConfigError) as error:
        read(text)
    assert str(error.value).startswith(fault)
    assert error.value.hint


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["cn", "description", "jpegPhoto;binary", "x-a"]),
            st.lists(st.binary(max_size=200), min_size=1, max_size=3),
            min_size=1,
        ),
        max_size=5,
    )
)
def test_reads_what_another_writer_wrote(entries: list[dict[str, list[bytes]]]) -> None:
    text = io.StringIO()
    writer = other_ldif.LDIFWriter(text)
    for number, entry in enumerate(entries):
        writer.unparse(f"cn={number},dc=x", entry)
    found = read(text.getvalue().encode())
    assert [(one.dn, one.attributes) for one in found] == [
        (f"cn={number},dc=x", entry) for number, entry in enumerate(entries)
    ]


def test_packed_files_are_read_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "people.ldif.gz"
    path.write_bytes(gzip.compress(FILE))
    with open_ldif(path) as stream:
        assert stream.read() == FILE
    assert [dn for dn, _ in ldif_entries(path)] == [one.dn for one in read(FILE)]
    assert entry_count(path) == 2
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ConfigError, match="cannot be read"):
        list(ldif_entries(path))


def test_unreadable_files_are_told(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none", "No such file"), (tmp_path, "directory")):
        with pytest.raises(ConfigError, match=reason):
            list(ldif_entries(path))


# Files and templates as trees to compare.


DNS = ["dc=x", "ou=a,dc=x", "cn=1,ou=a,dc=x", "cn=2,OU=A, dc=x", "ou=ba,dc=x"]


@pytest.fixture
def ldif(tmp_path: Path) -> Path:
    path = tmp_path / "people.ldif"
    path.write_text("".join(f"dn: {dn}\nx: 1\n\n" for dn in DNS))
    return path


def test_a_tree_is_what_is_below_its_base(ldif: Path) -> None:
    assert list(ldif_tree(ldif).names()) == DNS
    tree = ldif_tree(ldif, "ou=A,dc=x")
    assert list(tree.names()) == DNS[1:4]
    assert list(tree.entries()) == [(dn, {"x": [b"1"]}) for dn in DNS[1:4]]
    picked = ldif_tree(ldif).pick(["CN=2,ou=a,dc=x", "cn=3,dc=x"])
    assert [dn for dn, _ in picked] == ["cn=2,OU=A, dc=x"]


def test_a_tree_may_be_all_below_its_first_entry(ldif: Path) -> None:
    assert first_dn(ldif) == "dc=x"
    tree, base = ldif_tree(ldif).below_first()
    assert (base, list(tree.names())) == ("dc=x", DNS)
    ldif.write_text(ldif.read_text().replace("dn: dc=x\n", "dn: ou=c,dc=x\n"))
    tree, base = ldif_tree(ldif).below_first()
    assert base == "ou=c,dc=x"
    with pytest.raises(ConfigError, match="'ou=a,dc=x' is not below") as error:
        list(tree.entries())
    assert "-b" in str(error.value.hint)


def test_no_entries_are_no_tree(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(ConfigError, match="has no entries"):
        first_dn(tmp_path / "empty")


def test_a_template_is_what_it_makes(tmp_path: Path) -> None:
    wanted = Generation("people", tmp_path / "people.ldif", entries=3_000, threads=2)
    generate(wanted)
    whole = list(ldif_tree(wanted.output).entries())
    assert len(whole) > 3_000
    tree = template_tree(wanted)
    assert list(tree.entries()) == whole
    # as often as wanted, and not to its end either
    assert next(tree.names()) == whole[0][0]
    assert [dn for dn, _ in tree.pick([whole[-1][0]])] == [whole[-1][0]]


def test_a_template_that_is_wrong_is_told(tmp_path: Path) -> None:
    path = tmp_path / "wrong.template"
    path.write_text("branch: dc=x\nnonsense\n")
    with pytest.raises(ConfigError, match=r"wrong\.template"):
        list(template_tree(Generation(str(path))).entries())
