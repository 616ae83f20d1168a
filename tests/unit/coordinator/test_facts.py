# SPDX-License-Identifier: Apache-2.0
"""Facts of agents: kept as they are, or refused."""

from __future__ import annotations

import json

import pytest

from ldapslam.coordinator.runs.ingest import COORDINATOR_FACTS, agent_facts
from ldapslam.transport.messages import ProtocolError

FACTS = {
    "host": {"cores": 4},
    "targets": [{"uri": "ldap://ds1", "addresses": ["10.0.0.1"]}],
    "control_operations": {"ldap://ds1": {"bind": 1}},
    "clean_up": {"entries": 2, "left": 0, "seconds": 0.5, "error": None},
    "notes": {"imports": [{"entries": 1}]},
    "realtime": True,
}


def test_facts_of_the_right_shape_are_kept() -> None:
    assert agent_facts(json.dumps(FACTS)) == FACTS
    assert agent_facts("") == {}


def test_what_only_the_coordinator_knows_is_not_taken_from_an_agent() -> None:
    claimed = {**FACTS, **dict.fromkeys(COORDINATOR_FACTS, 0)}
    assert agent_facts(json.dumps(claimed)) == FACTS


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"realtime": NaN}',
        '{"x": 1e999}',
        '{"host": "mars"}',
        '{"targets": {}}',
        '{"targets": ["ldap://ds1"]}',
        '{"targets": [{"uri": 5}]}',
        '{"control_operations": []}',
        '{"control_operations": {"ldap://ds1": 5}}',
        '{"control_operations": {"ldap://ds1": {"bind": -1}}}',
        '{"control_operations": {"ldap://ds1": {"bind": true}}}',
        '{"notes": []}',
        '{"notes": {"imports": {}}}',
        '{"notes": {"imports": [1]}}',
        '{"x": "\\ud800"}',
        '{"clean_up": []}',
        '{"clean_up": {"left": "all"}}',
        '{"clean_up": {"seconds": "long"}}',
        '{"clean_up": {"error": 5}}',
        '{"x": ' + "[" * 9 + "]" * 9 + "}",
        '{"x": "' + "y" * (1 << 20) + '"}',
    ],
    ids=lambda text: text[:40],
)
def test_facts_that_a_reader_would_stumble_over_are_refused(text: str) -> None:
    with pytest.raises(ProtocolError):
        agent_facts(text)
