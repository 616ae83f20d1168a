# SPDX-License-Identifier: Apache-2.0
"""How the children of a local fleet are brought to their end."""

from __future__ import annotations

import signal
from dataclasses import fields
from pathlib import Path

import pytest

from ldapslam.agent.run import DRAIN_SLACK_NS
from ldapslam.agent.settings import AgentSettings
from ldapslam.cli import local_fleet
from ldapslam.cli.local_fleet import LocalFleet
from ldapslam.coordinator import server
from ldapslam.jobs.model import Run


class Child:
    """As much of a Fork as is needed; notes what is done to it."""

    def __init__(self, name: str, notes: list[str], *, hangs: bool = False) -> None:
        self.name, self.notes, self.hangs = name, notes, hangs

    def send_signal(self, number: signal.Signals) -> None:
        is_killed = number is signal.SIGKILL
        self.hangs = self.hangs and not is_killed
        self.notes.append(f"{self.name} {'killed' if is_killed else 'terminated'}")

    def wait(self, timeout_s: float | None = None) -> int | None:
        if self.hangs:
            return None
        self.notes.append(f"{self.name} ended")
        return 0


def stop(*children: Child) -> None:
    fleet = LocalFleet("unix:/nowhere", Path())
    fleet._children = [(child.name, child) for child in children]  # type: ignore[misc]
    fleet.stop()


def test_all_agents_have_ended_before_the_coordinator_is_asked_to() -> None:
    notes: list[str] = []
    stop(*(Child(name, notes) for name in ("coordinator", "one", "two")))
    assert notes == [
        *("one terminated", "two terminated", "one ended", "two ended"),
        *("coordinator terminated", "coordinator ended"),
    ]


def test_a_child_that_hangs_is_killed_and_the_others_end_in_order() -> None:
    notes: list[str] = []
    stop(
        Child("coordinator", notes),
        Child("one", notes, hangs=True),
        Child("two", notes),
    )
    assert "one killed" in notes
    assert not {"two killed", "coordinator killed"} & {*notes}
    assert notes[-1] == "coordinator ended"


def test_children_get_the_time_that_they_take_to_drain() -> None:
    grace_s = local_fleet._END_GRACE_S
    assert grace_s > server._DRAIN_TIMEOUT_S + server._STOP_GRACE_S

    [leave] = [each for each in fields(AgentSettings) if each.name == "leave_timeout_s"]
    job_grace_ns = Run.model_fields["drain_ns"].get_default()
    assert grace_s > (job_grace_ns + DRAIN_SLACK_NS) / 1e9 + leave.default


@pytest.mark.parametrize("count", [0, 1])
def test_a_fleet_that_is_not_complete_can_be_stopped(count: int) -> None:
    notes: list[str] = []
    stop(*[Child("coordinator", notes)][:count])
    assert len(notes) == 2 * count
