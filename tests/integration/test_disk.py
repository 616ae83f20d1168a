# SPDX-License-Identifier: Apache-2.0
"""Bounded disks: what is refused before a run, and what happens when room runs out."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from ldapslam.agent.admission.admit import room_for
from ldapslam.agent.admission.limits import AgentLimits
from ldapslam.base.errors import FleetError
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.plan import agent_plan
from support.fake_ldap import FakeLdap, answer
from support.fleet import FleetOfProcesses, fake_engine, job_text
from support.intervals import stored_intervals
from support.network import in_small_file_system

_MIB = 1 << 20
_KIB = 1 << 10


def limits(**values: int) -> str:
    return AgentLimits(**values).to_json()  # type: ignore[arg-type]


def test_a_run_that_may_outgrow_the_room_of_its_agent_is_refused_with_figures(
    fleet: FleetOfProcesses,
) -> None:
    small = fleet.folder / "spool" / "small"
    logs = fleet.folder / "spool" / "quota" / "logs"
    for folder in (small, logs):
        folder.mkdir(parents=True)
    fleet.prefixes["small"] = in_small_file_system(str(small), 5 * _MIB)
    for number in range(205):
        path = logs / f"engine-a-{number:03d}.log"
        path.write_text("old")
        os.utime(path, (number, number))
    with FakeLdap(answer) as server:
        fleet.start_coordinator()
        fleet.start_agent("quota", limits=limits(spool_quota_bytes=500 * _KIB))
        fleet.start_agent("small")
        fleet.wait_for_agents("quota", "small")
        for name, figures, remedy in (
            ("quota", "the quota is 500 KiB", "raise `spool-quota`"),
            ("small", "and a reserve of 4 MiB", "make room there"),
        ):
            agents = {"names": [name]}
            run_id = fleet.submit(job_text(server.uri, duration="60s", agents=agents))
            failure = fleet.wait_for(run_id, "failed").failure
            assert failure.error_class == "FleetError"
            assert "too little room in its spool" in failure.message
            assert figures in failure.message
            assert remedy in json.loads(failure.values_json)["hint"]
        assert server.connections == 0
        # one that keeps less back for want of a coordinator fits
        short = job_text(
            server.uri,
            duration="1s",
            coordinator_timeout="1s",
            agents={"names": ["quota"]},
        )
        fleet.wait_for(fleet.submit(short), "finished")
    # of the logs of engines, the newest are kept
    kept = sorted(path.name for path in logs.glob("engine-a-*.log"))
    assert "engine-a-004.log" not in kept
    assert "engine-a-204.log" in kept
    assert len(kept) <= 201


def test_a_run_that_may_fill_the_coordinators_disk_is_refused(
    fleet: FleetOfProcesses,
) -> None:
    folder = fleet.folder / "store"
    folder.mkdir()
    fleet.store = folder / "results.sqlite"
    fleet.prefixes["coordinator"] = in_small_file_system(str(folder), 20 * _MIB)
    fleet.start("a", engine=fake_engine())
    with pytest.raises(FleetError, match="too little room in its store") as refused:
        fleet.submit(job_text(duration="10m"))  # 3,001 reports
    assert refused.value.exit_code == 5
    fleet.wait_for(fleet.submit(job_text(duration="400ms")), "finished")


def test_a_spool_whose_quota_is_used_up_ends_the_run_and_loses_nothing(
    fleet: FleetOfProcesses,
) -> None:
    fleet.start_coordinator()
    # the fake engine asks nobody for leave, so that its reports outgrow the quota
    quota = limits(spool_quota_bytes=_KIB)
    fleet.start_agent("a", engine=fake_engine(), limits=quota)
    fleet.wait_for_agents("a")
    run_id = fleet.submit(job_text(duration="120s"))
    fleet.wait_for_load(run_id)
    # nobody takes reports now, and nobody says that he is gone
    coordinator = fleet.processes["coordinator"].pid
    os.kill(coordinator, signal.SIGSTOP)
    try:
        fleet.wait_until(
            lambda: "quota of 1 KiB" in (fleet.folder / "a.log").read_text(), "quota"
        )
        fleet.wait_until(lambda: not fleet.engine_pids("a"), "the end of the load")
    finally:
        os.kill(coordinator, signal.SIGCONT)
    status = fleet.wait_for(run_id, "failed")
    assert "is full" in status.state_detail
    assert "quota" in status.state_detail
    fleet.wait_for_delivery("a")
    indexes = fleet.reported(run_id)["a"]
    assert indexes == list(range(len(indexes)))
    with fleet.opened_store() as store:
        assert [record.final for record in stored_intervals(store, run_id)][-1]


def test_reports_of_a_real_run_are_no_larger_than_the_room_that_was_asked_for(
    fleet: FleetOfProcesses,
) -> None:
    with FakeLdap(answer) as server:
        text = job_text(server.uri, duration="4s", clients=8)
        fleet.start("a")
        run_id = fleet.submit(text)
        fleet.wait_for_load(run_id)
        coordinator = fleet.processes["coordinator"].pid
        os.kill(coordinator, signal.SIGSTOP)
        spool = fleet.folder / "spool" / "a"
        try:
            fleet.wait_until(lambda: fleet.undelivered("a") >= 5, "reports")
            sizes = [_size(path) for path in spool.glob("*.report")]
        finally:
            os.kill(coordinator, signal.SIGCONT)
        fleet.wait_for(run_id, "finished", "failed")
    plan = agent_plan(load_job_text(text, file="job", base=None), 0, 1, seed=1)
    room = room_for(plan, workers=1, coordinator_timeout_ns=10**9)
    largest = max(sizes)
    # above what is written, and not so far above that honest runs are refused
    assert 2000 < largest < room.report_bytes < 20 * largest


def _size(path: Path) -> int:
    """0: it was delivered meanwhile."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
