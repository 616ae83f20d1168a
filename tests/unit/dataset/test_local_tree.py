# SPDX-License-Identifier: Apache-2.0
"""Files and templates as trees to compare."""

from __future__ import annotations

from pathlib import Path

import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.dataset.generate import Generation, generate
from ldapslam.dataset.local_tree import first_dn, ldif_tree, template_tree

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
