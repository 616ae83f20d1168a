# SPDX-License-Identifier: Apache-2.0
"""The example jobs of a supplier under write and replicas under read, at lab size: what
agents sent is what every server counted, and all servers hold the same afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from ldapslam.base.errors import ExitCode
from support.lab import Lab
from support.labs import ds389_trio_is_long
from support.submitting import SubmittingFleet

JOBS = Path(__file__).parents[2] / "configs" / "jobs"

#: Job, and what is set beside servers and sizes.
SCENARIOS = {
    "adds": ("replicas-adds", []),
    "add-modify-delete": (
        "replicas-writes",
        ["streams.writers.operations.1.weight=1"],
    ),
    "writes-1-2-1": ("replicas-writes", []),
    "mix-10-1-1-1": ("replicas-mix", []),
}
#: The one that is run always.
SHORT = "mix-10-1-1-1"


def settings(lab: Lab, own: list[str]) -> list[str]:
    first, second = (one.uri for one in lab.replicas)
    return [
        f"targets.supplier={lab.supplier.uri}",
        f"targets.replica1={first}",
        f"targets.replica2={second}",
        f"targets.replica3={second}",
        f"bind.password={{file: {lab.admin_password_file}}}",
        *("vars.users=1000", "vars.think_time=5ms", "agents.count=2"),
        *("run.duration=2s", "run.ramp_up=200ms", "run.warm_up=300ms"),
        "run.interval=500ms",
        "monitors=[{directory: supplier}, {directory: replica1}, "
        "{directory: replica2}]",
        "verify={replication: {within: 60s}}",
        "validity={disturbed_intervals: 100%, send_lag_p99: 1s, run_queue_share: 100%}",
        *own,
    ]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(one, marks=() if one == SHORT else pytest.mark.long)
        for one in SCENARIOS
    ],
)
@ds389_trio_is_long
def test_books_balance_and_replicas_have_what_was_written(
    trio: Lab, submitting_fleet: SubmittingFleet, name: str
) -> None:
    trio.wait_in_sync(60)
    job, own = SCENARIOS[name]
    code, result = submitting_fleet.submit(JOBS / f"{job}.yaml", *settings(trio, own))
    assert code == ExitCode.PASS, result["reasons"]
    assert result["books"].keys() == {one.uri for one in trio.servers}
    differences = {
        (uri, kind): line["difference"]
        for uri, book in result["books"].items()
        for kind, line in book.items()
    }
    unknown = {key for key, value in differences.items() if value is None}
    # a 389-DS supplier connects anew now and then: a bind, and what the replica can
    of_suppliers = {
        (one.uri, kind)
        for one in trio.replicas
        if trio.kind == "389ds"
        for kind in ("bind", "search")
    }
    for uri, _ in of_suppliers:
        assert 0 <= differences[uri, "search"] <= 2 * differences[uri, "bind"]
    assert {kind for _, kind in unknown} <= (
        {"abandon", "extended", "unbind"} if trio.kind == "389ds" else set()
    )
    assert {
        key: value
        for key, value in differences.items()
        if value and key not in of_suppliers
    } == {}
    replication = result["replication"]
    assert replication["converged"]
    assert replication["content"]["difference_count"] == 0
    assert len(set(replication["content"]["entries"].values())) == 1
    assert result["books"][trio.supplier.uri]["add"]["server"] > 5
