# SPDX-License-Identifier: Apache-2.0
"""`compare`: sides of runs, exit codes and both outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ldapslam.base.errors import ExitCode
from ldapslam.cli import main
from ldapslam.results.store import Store
from support.judged import judge
from support.store import Scenario, fill

IDS = [f"20260301-12000{number}-run" for number in range(5)]
INVALID = IDS[4]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four runs that are alike, and one that is INVALID."""
    path = tmp_path_factory.mktemp("compared") / "results.sqlite"
    with Store.open(path) as store:
        for run_id in IDS:
            lost = frozenset({("load2", 4)} if run_id == INVALID else ())
            run = {"run_id": run_id}
            fill(store, Scenario(run=run, measure_s=3, thresholds=(), lost=lost))
            judge(store, run_id)
    return path


def compare(store: Path, *arguments: str) -> int:
    return main.run(["compare", *arguments, "--store", str(store)])


def test_repeats_are_compared_with_repeats(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = [",".join(IDS[:2]), ",".join(IDS[2:4])]
    assert compare(store, *sides, "--json") == ExitCode.PASS
    result = json.loads(capsys.readouterr().out)
    assert [len(side["runs"]) for side in result["sides"]] == [2, 2]
    assert result["differing_repeats"] == []
    findings = {(one["operation"], one["metric"]): one for one in result["findings"]}
    assert {"throughput", "mean", "p50", "p99"} < {name for _, name in findings}
    assert findings["readers.search", "p50"]["sample"] == "runs"
    assert compare(store, *sides) == ExitCode.PASS
    assert "readers.search, against A" in capsys.readouterr().out


def test_a_side_without_a_valid_run_has_an_exit_code(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(store, IDS[0], INVALID) == 4
    said = capsys.readouterr()
    assert "INVALID, left out" in said.out
    assert "--include-invalid" in said.err


@pytest.mark.parametrize(
    ("runs", "message"),
    [(IDS[:1], "two sides are needed"), (IDS[:1] * 2, "is named twice")],
)
def test_what_is_no_comparison_is_refused(
    store: Path,
    runs: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert compare(store, *runs) == ExitCode.USAGE
    assert message in capsys.readouterr().err
