# SPDX-License-Identifier: Apache-2.0
"""Room for what a run will bring into the store: the arithmetic, and the refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from ldapslam.base.errors import FleetError
from ldapslam.coordinator.run_queue import (
    COUNTED_INTERVALS,
    OPERATION_BYTES,
    REPORT_BYTES,
    RESERVE_BYTES,
    STREAM_BYTES,
    check_store_room,
    need_of,
)
from ldapslam.jobs.load import load_job, load_job_text
from ldapslam.jobs.plan import ReportRoom
from ldapslam.jobs.planning import run_plan
from ldapslam.results.store import Store
from ldapslam.results.upkeep import file_bytes, room_bytes
from support.fleet import job_text
from support.store import Scenario, fill, run_record


@pytest.mark.parametrize(
    ("duration", "agents", "reports"),
    [
        # 5 intervals of 200 ms and the drain
        ("1s", 1, 6),
        ("1s", 3, 18),
        ("1h", 2, 36_002),
    ],
)
def test_each_agent_brings_a_report_of_each_interval_and_of_its_drain(
    duration: str, agents: int, reports: int
) -> None:
    job = load_job_text(job_text(duration=duration), file="job", base=None)
    need = need_of(run_plan(job), agents)
    assert need == ReportRoom(REPORT_BYTES + OPERATION_BYTES + STREAM_BYTES, reports)


def test_a_run_that_ends_with_its_counts_needs_no_room_for_a_day() -> None:
    job = load_job(Path(__file__).parents[3] / "configs/jobs/import.yaml")
    need = need_of(run_plan(job), 2)
    assert need.reports == 2 * (COUNTED_INTERVALS + 1)


def test_a_run_that_ends_with_its_log_needs_no_room_for_a_day_either() -> None:
    log = {
        "name": "log",
        "target": "replica",
        "type": "replay",
        "load": {"connections": 4, "speed": "max"},
        "options": {"logs": ["access.log"]},
    }
    job = load_job_text(job_text(duration="10h", streams=[log]), file="job", base=None)
    assert need_of(run_plan(job), 2).reports == 2 * (COUNTED_INTERVALS + 1)


NEED = ReportRoom(report_bytes=1 << 20, reports=10)
ENOUGH = (10 << 20) + RESERVE_BYTES


@pytest.mark.parametrize("free_bytes", [ENOUGH, None])
def test_a_run_that_fits_is_taken_and_so_is_one_of_which_nothing_is_known(
    free_bytes: int | None,
) -> None:
    check_store_room(NEED, free_bytes=free_bytes, store="results.sqlite")


def test_too_little_room_is_refused_with_figures_and_remedy() -> None:
    with pytest.raises(FleetError) as caught:
        check_store_room(NEED, free_bytes=ENOUGH - 1, store="results.sqlite")
    assert "10 MiB (10 reports of 1 MiB)" in str(caught.value)
    assert "the disk of 'results.sqlite' has 26 MiB left" in str(caught.value)
    assert "results prune" in str(caught.value.hint)


def test_the_estimate_is_above_what_a_run_brings_and_not_far_above(
    tmp_path: Path,
) -> None:
    sizes = []
    for seconds in (3, 23):
        scenario = Scenario(agents=("a",), measure_s=seconds)
        path = tmp_path / f"{seconds}.sqlite"
        with Store.open(path) as store:
            assert (room_bytes(store) or 0) > 0
            fill(store, scenario)
        # closed: the log beside the file is part of the reserve
        sizes.append(file_bytes(path))
    brought = (sizes[1] - sizes[0]) / 20
    asked = need_of(run_record(Scenario()).plan, 1).report_bytes
    assert brought < asked < 3 * brought


def test_of_a_store_without_a_file_nothing_is_known() -> None:
    with Store.open("sqlite://") as store:
        assert room_bytes(store) is None
