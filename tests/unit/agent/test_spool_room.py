# SPDX-License-Identifier: Apache-2.0
"""Room for what a run may leave in a spool: the arithmetic, and the refusals."""

from __future__ import annotations

import pytest

from ldapslam.agent.admission.admit import (
    OPERATION_BYTES,
    REPORT_BYTES,
    RESERVE_BYTES,
    STREAM_BYTES,
    WORKER_BYTES,
    check_room,
    room_for,
)
from ldapslam.base.errors import FleetError
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.plan import AgentPlan, ReportRoom, agent_plan
from support.fleet import job_text

S = 1_000_000_000


def plan_of(duration: str) -> AgentPlan:
    """One stream, one operation, intervals of 200 ms."""
    job = load_job_text(job_text(duration=duration), file="job", base=None)
    return agent_plan(job, 0, 1, seed=1)


@pytest.mark.parametrize(
    ("duration", "grace_ns", "reports"),
    [
        # 5 intervals and the drain: the run is shorter than the grace
        ("1s", 60 * S, 6),
        # 300 intervals within the grace, one more, and the drain
        ("1h", 60 * S, 302),
        ("1h", 0, 2),
    ],
)
def test_reports_that_may_wait_are_those_of_the_lease(
    duration: str, grace_ns: int, reports: int
) -> None:
    room = room_for(plan_of(duration), 2, grace_ns)
    size = REPORT_BYTES + OPERATION_BYTES + STREAM_BYTES + 2 * WORKER_BYTES
    assert room == ReportRoom(size, reports)
    assert room.needed_bytes == size * reports


ROOM = ReportRoom(report_bytes=1 << 20, reports=10)
NEEDED = 10 << 20


@pytest.mark.parametrize(
    ("free_bytes", "quota_bytes", "words"),
    [
        (NEEDED + RESERVE_BYTES, None, None),
        (NEEDED + RESERVE_BYTES - 1, None, "the disk of '/spool' has 14 MiB left"),
        (1 << 40, NEEDED, None),
        (1 << 40, NEEDED - 1, "the quota is 10 MiB"),
        (0, NEEDED - 1, "the quota"),
    ],
)
def test_too_little_room_is_refused_with_figures_and_remedy(
    free_bytes: int, quota_bytes: int | None, words: str | None
) -> None:
    def check() -> None:
        check_room(
            ROOM,
            free_bytes=free_bytes,
            quota_bytes=quota_bytes,
            agent="a1",
            folder="/spool",
        )

    if words is None:
        check()
        return
    with pytest.raises(FleetError) as caught:
        check()
    assert words in str(caught.value)
    assert "10 MiB (10 reports of 1 MiB)" in str(caught.value)
    assert "coordinator_timeout" in str(caught.value.hint)
