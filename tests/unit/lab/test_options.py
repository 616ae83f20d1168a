# SPDX-License-Identifier: Apache-2.0
"""Settings of a lab by name: placed, or refused with the remedy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.lab.options import DS389, SLAPD, Option, placed


def test_settings_are_placed_in_the_order_given() -> None:
    chosen = [("index", "cn eq"), ("Threads", "8"), ("index", "sn eq")]
    assert placed(chosen, SLAPD, "slapd") == {
        "database": [("index", "cn eq"), ("index", "sn eq")],
        "global": [("threads", "8")],
    }


def test_short_names_stand_for_the_servers_own() -> None:
    chosen = [("cachesize", "512MiB"), ("nsslapd-dncachememsize", "1000000")]
    assert placed(chosen, DS389, "389-DS") == {
        "backend": [
            ("nsslapd-cachememsize", "536870912"),
            ("nsslapd-dncachememsize", "1000000"),
        ]
    }


def test_a_flag_is_there_or_not() -> None:
    assert placed([("dbnosync", "on")], SLAPD, "slapd") == {
        "database": [("dbnosync", "")]
    }
    assert placed([("dbnosync", "off")], SLAPD, "slapd") == {}


@pytest.mark.parametrize(
    ("table", "server", "name", "value", "message", "hint"),
    [
        (SLAPD, "slapd", "thread", "8", "no setting", "did you mean 'threads'?"),
        (SLAPD, "slapd", "cachesize", "1GiB", "no setting", "mdb has no cache"),
        (DS389, "389-DS", "nsslapd-cachemesize", "1", "no setting", "cachememsize'?"),
        (DS389, "389-DS", "cachesize", "1 acre", "a size such as", "MiB"),
        (SLAPD, "slapd", "maxsize", "", "a value in one line", "maxsize=VALUE"),
        (SLAPD, "slapd", "index", "a\nb c", "a value in one line", "index=VALUE"),
        (SLAPD, "slapd", "dbnosync", "yes", "'on' or 'off'", ""),
    ],
)
def test_what_cannot_be_set_is_refused_with_the_remedy(
    table: dict[str, Option],
    server: str,
    name: str,
    value: str,
    message: str,
    hint: str,
) -> None:
    with pytest.raises(ConfigError) as caught:
        placed([(name, value)], table, server)
    assert message in str(caught.value)
    assert hint in (caught.value.hint or "")


def test_each_setting_is_documented() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "labs.md"
    documented = set(re.findall(r"`([\w-]+)`", page.read_text()))
    assert set(SLAPD) | set(DS389) <= documented
