# SPDX-License-Identifier: Apache-2.0
"""What a run prints and writes when it has ended, and in which order."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest

from ldapslam.base.errors import ExitCode
from ldapslam.cli import main
from ldapslam.cli.measure.local_run import report_run
from ldapslam.reports.charts import charts
from ldapslam.reports.formats.render import FILES
from ldapslam.results.store import Store
from support.store import Scenario, fill

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
