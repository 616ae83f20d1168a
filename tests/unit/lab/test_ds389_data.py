# SPDX-License-Identifier: Apache-2.0
"""LDIF for 389-DS: equal on all servers, or broken on one."""

from __future__ import annotations

import base64
import gzip
from pathlib import Path

import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.lab.ds389.data import write_replicated
from ldapslam.lab.ldif_lines import suffix_of, write_plain
from ldapslam.lab.server import LabError
from support.lab import write_broken

SOURCE = """\
version: 1
# a comment
 that goes on

dn: dc=example,
 dc=com
objectClass: domain
dc: example
contextCSN: 20240101000000.000000Z#000000#000#000000
entryCSN: 2024010100
 0000.000000Z#000000#000#000000

DN:: Y249w6ksZGM9ZXhhbXBsZSxkYz1jb20=
objectClass: person
cn: \u00e9
sn: Long
description;vucsn-1: first
description;vdcsn-2;deleted: gone
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.ldif"
    path.write_text(SOURCE)
    return path


def test_the_suffix_is_the_first_entrys_dn(source: Path) -> None:
    assert suffix_of(source) == "dc=example,dc=com"


def test_a_file_without_entries_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.ldif"
    empty.write_text("version: 1\n\n# nothing\n")
    with pytest.raises(ConfigError, match="has no entries"):
        suffix_of(empty)
    empty.write_text("objectClass: person\n")
    with pytest.raises(ConfigError, match=r"empty\.ldif:1: expected `dn:` first"):
        suffix_of(empty)


@pytest.mark.parametrize(
    "suffix", ['o="x"', "o=a\nmoduleload /tmp/x.so", "o=a\\,b", "o=%ds_bename%"]
)
def test_a_suffix_that_would_break_a_configuration_is_refused(
    suffix: str, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.ldif"
    bad.write_text(f"dn:: {base64.b64encode(suffix.encode()).decode()}\no: x\n")
    with pytest.raises(ConfigError, match="a lab's suffix has no"):
        suffix_of(bad)


def test_entries_have_ids_and_the_suffix_the_positions_of_its_suppliers(
    source: Path, tmp_path: Path
) -> None:
    target = tmp_path / "target.ldif"
    write_replicated(source, target, ["ldap://localhost:1", "ldap://localhost:2"])
    suffix, vector, person = target.read_text().strip().split("\n\n")
    assert suffix.startswith("dn: dc=example,dc=com\nobjectClass: domain\n")
    assert "CSN" not in suffix
    assert "nsUniqueId: 6c646170-736c616d-00000000-00000000\n" in suffix
    assert suffix.count("\naci: ") == 2
    assert "nsds50ruv: {replica 1 ldap://localhost:1}\n" in vector
    assert "nsds50ruv: {replica 2 ldap://localhost:2}\n" in vector
    assert person.endswith("nsUniqueId: 6c646170-736c616d-00000000-00000001")


def test_without_suppliers_nothing_is_replicated(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.ldif"
    write_replicated(source, target, [])
    assert "nsds50ruv" not in target.read_text()


def test_an_entry_is_removed_or_changed(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.ldif"
    dn = "CN=\u00e9,dc=example,dc=com"
    write_broken(source, target, dn, None)
    assert "sn: Long" not in target.read_text()

    write_broken(source, target, dn, "description")
    changed = base64.b64encode(b"first0").decode()
    lines = target.read_text().splitlines()
    assert f"description;vucsn-1:: {changed}" in lines
    assert "description;vdcsn-2;deleted: gone" in lines


def test_what_is_not_there_cannot_be_broken(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.ldif"
    with pytest.raises(LabError, match="no entry 'cn=x'"):
        write_broken(source, target, "cn=x", None)
    with pytest.raises(LabError, match="has no mail"):
        write_broken(source, target, "cn=\u00e9,dc=example,dc=com", "mail")


def test_a_plain_copy_has_no_version_and_no_comments(
    source: Path, tmp_path: Path
) -> None:
    target = tmp_path / "target.ldif"
    write_plain(source, target)
    first, second = target.read_text().strip().split("\n\n")
    assert first.splitlines()[0] == "dn: dc=example,dc=com"
    assert second.splitlines()[0] == "DN:: Y249w6ksZGM9ZXhhbXBsZSxkYz1jb20="


def test_a_packed_file_is_read_as_it_is(source: Path, tmp_path: Path) -> None:
    packed = tmp_path / "packed.ldif.gz"
    packed.write_bytes(gzip.compress(source.read_bytes()))
    assert suffix_of(packed) == suffix_of(source)
    plain, unpacked = tmp_path / "plain.ldif", tmp_path / "unpacked.ldif"
    write_plain(source, plain)
    write_plain(packed, unpacked)
    assert unpacked.read_bytes() == plain.read_bytes()
