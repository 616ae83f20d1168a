# SPDX-License-Identifier: Apache-2.0
"""States of replication: what slapd and 389-DS say, and who is behind."""

from __future__ import annotations

import pytest

from ldapslam.agent.replication_state import (
    GENERATION,
    State,
    are_equal,
    behind,
    context_csn_state,
    ruv_state,
)

FIRST = "20260301120000.000000Z#000000#001#000000"
LATER = "20260301120000.000001Z#000000#001#000000"
OTHER = "20260301110000.000000Z#000000#002#000000"


def test_contextcsn_has_a_state_for_each_server_id() -> None:
    assert context_csn_state([FIRST, OTHER]) == {"001": FIRST, "002": OTHER}
    assert context_csn_state([LATER, FIRST]) == {"001": LATER}
    assert context_csn_state(["none of them"]) == {}


def test_a_ruv_has_the_last_csn_of_each_replica_that_has_written() -> None:
    values = [
        "{replicageneration} 65e1a3f1000000010000",
        "{replica 1 ldap://ds1:389} 65e1a3f2000000010000 65e1a4f2000100010000",
        "{replica 2} 65e1a3f2000000020000 65e1a3f2000300020000 65e1a3f3",
        "{replica 3 ldap://ds3:389}",
    ]
    assert ruv_state(values) == {
        GENERATION: "65e1a3f1000000010000",
        "1": "65e1a4f2000100010000",
        "2": "65e1a3f2000300020000",
    }


@pytest.mark.parametrize(
    ("states", "equal", "lacking"),
    [
        pytest.param({"a": {"1": "5"}, "b": {"1": "5"}}, True, {}, id="equal"),
        pytest.param(
            {"a": {"1": "5"}, "b": {"1": "4"}}, False, {"b": ["1"]}, id="behind"
        ),
        pytest.param({"a": {"1": "5"}, "b": {}}, False, {"b": ["1"]}, id="silent"),
        pytest.param(
            {"a": {"1": "5", "2": "1"}, "b": {"1": "4", "2": "3"}},
            False,
            {"a": ["2"], "b": ["1"]},
            id="each lacks something",
        ),
        pytest.param({"a": {}, "b": {}}, False, {}, id="none says anything"),
    ],
)
def test_servers_are_equal_or_some_are_behind(
    states: dict[str, State], equal: bool, lacking: dict[str, list[str]]
) -> None:
    assert are_equal(states) is equal
    assert behind(states) == lacking
