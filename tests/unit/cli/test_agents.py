# SPDX-License-Identifier: Apache-2.0
"""`agents`: what is shown of an agent, and of one that says little or nonsense."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ldapslam.base.errors import FleetError
from ldapslam.cli.fleet import agents as command
from ldapslam.proto import operator_pb2 as pb
from ldapslam.proto.agent_pb2 import HostLoad

BUSY = pb.AgentStatus(
    name="load1",
    state="assigned",
    build="0.4.0",
    labels={"site": "a", "rack": "3"},
    silent_ns=400_000_000,
    clock_offset_ns=-212_000,
    clock_offset_bound_ns=43_400,
    run_ids=["20261121-a1"],
    max_runs=2,
    restricted=True,
    limits_json='{"targets": ["10.1.0.0/16:389"], "max_connections": 20000}',
    host_facts_json='{"cores": 8, "kernel": "Linux 6.1", "nothing": null}',
    load=HostLoad(
        cpu_utilisation=0.614,
        memory_available_bytes=3 << 30,
        spool_free_bytes=5 << 30,
        spool_bytes=2048,
        spool_reports=7,
    ),
)
#: It has only just come.
BARE = pb.AgentStatus(name="load2", state="idle", silent_ns=0)


class FakeClient:
    def __init__(self, address: str) -> None:
        self.address = address

    def __enter__(self) -> FakeClient:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def agents(self) -> list[pb.AgentStatus]:
        return [BUSY, BARE]


@pytest.fixture(autouse=True)
def _no_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "Client", FakeClient)


def agents(*arguments: str) -> Result:
    return CliRunner().invoke(command.agents_command, arguments)


def test_all_are_listed_each_in_a_line() -> None:
    _, busy, bare = agents().stdout.splitlines()
    for text in (
        *("assigned, restricted", "1/2 20261121-a1", "61% CPU, 7 reports wait"),
        *("-0.212 ms ± 0.043", "10.1.0.0/16:389; 20,000 connections", "rack=3 site=a"),
    ):
        assert text in busy, text
    assert "not known yet" in bare
    assert "0/1" in bare


def test_one_is_shown_with_all_that_is_known() -> None:
    shown = agents("load1").stdout
    for line in ("spool          7 reports wait (2 KiB)", "host           cores 8"):
        assert line in shown
    assert "nothing" not in shown
    assert agents("load2").exit_code == 0


def test_an_unknown_one_is_an_error_of_the_fleet() -> None:
    result = agents("load3")
    assert isinstance(result.exception, FleetError)
    assert "load3" in str(result.exception)


def test_json_has_numbers_and_opened_documents() -> None:
    shown: list[dict[str, Any]] = json.loads(agents("--json").stdout)
    busy, bare = shown
    assert busy["load"]["memory_available_bytes"] == 3 << 30
    assert busy["load"]["spool_reports"] == 7
    assert busy["limits"]["max_connections"] == 20_000
    assert busy["clock_offset_ns"] == -212_000
    assert "clock_offset_ns" not in bare
    assert json.loads(agents("load1", "--json").stdout) == busy
