# SPDX-License-Identifier: Apache-2.0
"""How a local run ends: the children of its fleet, what it prints and writes."""

from __future__ import annotations

import signal
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn

import pytest

from ldapslam.agent.run import DRAIN_SLACK_NS
from ldapslam.agent.settings import AgentSettings
from ldapslam.base.errors import ExitCode
from ldapslam.cli import main
from ldapslam.cli.measure import local_fleet
from ldapslam.cli.measure.local_fleet import LocalFleet
from ldapslam.cli.measure.local_run import report_run
from ldapslam.coordinator import server
from ldapslam.jobs.model import Run
from ldapslam.reports.charts import charts
from ldapslam.reports.formats.render import FILES
from ldapslam.results.store import Store
from support.store import Scenario, fill


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


# What a run prints and writes when it has ended, and in which order.


STORE = "results.sqlite"
FAILED = Scenario(measure_s=3, thresholds=("readers.search.response_time.p50 < 1ns",))


@pytest.fixture
def run_id(tmp_path: Path) -> str:
    """A run that has failed, in the store of its folder."""
    with Store.open(tmp_path / STORE) as store:
        return fill(store, FAILED)


def test_an_interrupt_after_the_verdict_leaves_it_and_whole_files(
    run_id: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    printed = []

    def interrupt(*_: Any) -> NoReturn:
        printed.append(capsys.readouterr().out)
        raise KeyboardInterrupt

    monkeypatch.setattr(charts, "draw", interrupt)
    assert report_run(tmp_path, run_id, is_quick=False) == ExitCode.FAIL
    assert printed[0].startswith("FAIL  ")
    drawn = {"report.html", "report.pdf"}
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {STORE, *FILES.values()} - drawn
    assert "`ldapslam report " in capsys.readouterr().err
    with Store.open(tmp_path, read_only=True) as store:
        assert store.run(run_id).verdict == "FAIL"


def test_a_quick_run_leaves_the_charts_to_report(run_id: str, tmp_path: Path) -> None:
    assert report_run(tmp_path, run_id, is_quick=True) == ExitCode.FAIL
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {STORE, "report.txt", "result.json"}
    assert main.run(["report", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {STORE, *FILES.values()}
