# SPDX-License-Identifier: Apache-2.0
"""Studies against studies, point by point."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.cli import main
from ldapslam.reports.comparing.tables import document_of
from ldapslam.reports.formats.render import result_json
from ldapslam.results.facts import Manifest
from ldapslam.results.store import Store
from ldapslam.studies.answer import answer_of
from ldapslam.studies.comparisons import compared_studies, comparisons
from ldapslam.studies.points import points_of
from ldapslam.studies.report import answer_json, study_document
from ldapslam.studies.runner import Ended, Journal
from ldapslam.studies.study_file import Study
from support.judged import judge
from support.store import Scenario, fill

#: Enough intervals for an interval of the throughput, too few requests for a p99.
SMALL: dict[str, Any] = {
    "agents": ("load1",),
    "measure_s": 6,
    "searches_per_s": 60,
    "thresholds": (),
}


def study(
    folder: Path,
    clients: Sequence[int],
    repeats: int = 1,
    manifest: Manifest | None = None,
    **identity: Any,
) -> Path:
    """A study's folder with a run of each point and repeat."""
    lines: list[dict[str, Any]] = [{"study": {"name": "clients", **identity}}]
    for point, value in enumerate(clients):
        for repeat in range(repeats):
            name = f"{point + 1:03d}-{repeat + 1}-1"
            (folder / "runs" / name).mkdir(parents=True)
            store = folder / "runs" / name / "results.sqlite"
            with Store.open(str(store)) as results:
                run_id = f"20260301-120000-{folder.name}-{point}{repeat}"
                made = {} if manifest is None else {"manifest": manifest}
                run = Scenario(**SMALL, run={"run_id": run_id, **made})
                summary = judge(results, fill(results, run))
            store.with_name("result.json").write_text(result_json(summary))
            ended = Ended(
                point, repeat + 1, 1, name, 0, "PASS", "", 1.0, {"clients": value}
            )
            lines.append(asdict(ended))
    text = "".join(json.dumps(one) + "\n" for one in lines)
    (folder / "runs.jsonl").write_text(text)
    return folder


def test_points_that_both_have_are_compared(tmp_path: Path) -> None:
    old = study(tmp_path / "old", [1, 4, 16], repeats=2)
    new = study(tmp_path / "new", [4, 16, 64])
    found = compared_studies({"A": old, "B": new})
    assert [one.label for one in found.made] == ["clients=4", "clients=16"]
    assert {one.label: one.why for one in found.left_out} == {
        "clients=1": "B has no such point",
        "clients=64": "A has no such point",
    }
    sides = found.made[0].comparison.sides
    assert [(side.name, len(side.runs)) for side in sides] == [("A", 2), ("B", 1)]


def test_the_command_takes_folders_of_studies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = study(tmp_path / "old", [1, 4]), study(tmp_path / "new", [4])
    arguments = ["compare", str(old), str(new), "--include-invalid"]
    assert main.run(arguments) == 0
    out = capsys.readouterr().out
    assert "clients=1  B has no such point" in out
    assert "\nclients=4\n" in out
    assert main.run([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    [point] = document["points"]
    assert [one["values"] for one in document["left_out"]] == [{"clients": 1}]
    assert point["values"] == {"clients": 4}
    assert point["baseline"] == "A"
    other = study(tmp_path / "other", [2])
    assert main.run(["compare", str(old), str(other)]) == 4
    assert "no point has valid runs" in capsys.readouterr().err


def test_a_line_that_is_being_written_is_not_read(tmp_path: Path) -> None:
    old, new = study(tmp_path / "old", [1]), study(tmp_path / "new", [1])
    with (new / "runs.jsonl").open("a") as out:
        out.write('{"point": 1, "rep')
    assert len(compared_studies({"A": old, "B": new}).made) == 1
    (new / "runs.jsonl").write_text("{}\n[]\n")
    with pytest.raises(ConfigError, match="cannot be read"):
        compared_studies({"A": old, "B": new})


def test_all_points_are_one_family_of_tests(tmp_path: Path) -> None:
    old = study(tmp_path / "old", [1, 4], repeats=2)
    new = study(tmp_path / "new", [1, 4], repeats=2)
    found = compared_studies({"A": old, "B": new}).made
    tested = [
        sum(finding.change is not None for finding in one.comparison.findings)
        for one in found
    ]
    assert tested[0] > 0
    assert {one.comparison.tests for one in found} == {sum(tested)}
    document = document_of(found[0].comparison)
    assert document["method"]["tests"] == sum(tested)


def test_runs_of_a_fleet_are_named_not_passed_over(tmp_path: Path) -> None:
    """Their folders have a result, and no store."""
    old = study(tmp_path / "old", [1, 4])
    fleet = study(tmp_path / "fleet", [1, 4])
    for store in fleet.rglob("results.sqlite"):
        store.unlink()
    found = compared_studies({"A": old, "B": fleet})
    assert not found.made
    assert [one.label for one in found.left_out] == ["clients=1", "clients=4"]
    assert "coordinator's store" in found.left_out[0].why


def test_the_comparison_of_an_axis_says_what_it_lacks(tmp_path: Path) -> None:
    folder = study(tmp_path / "one", [1, 4, 16], repeats=2)
    for store in (folder / "runs").glob("003-*/results.sqlite"):
        store.unlink()
    axis = Study.model_validate(
        {"name": "one", "job": "j.yaml", "axes": {"clients": [1, 4, 16]}}
        | {"repeats": 2, "compare": "clients"}
    )
    points = points_of(axis, {"j.yaml": ["clients"]})
    journal = Journal(folder, {"name": "clients"})
    answer = answer_of(axis, points, journal)
    found = comparisons(answer, journal, in_lab=False)
    [made] = found.made
    assert [side.name for side in made.comparison.sides] == ["1", "4"]
    [lacks] = found.left_out
    assert lacks.label == "clients=16"
    [caution] = study_document(answer, found).cautions
    assert caution.startswith("Not compared: clients=16: no run in this folder")
    assert answer_json(answer, found)["not_compared"] == [
        {"values": {"clients": 16}, "why": lacks.why}
    ]


@pytest.mark.parametrize("in_lab", [True, False])
def test_where_the_servers_of_labs_were_is_no_difference(
    tmp_path: Path, in_lab: bool
) -> None:
    def made(name: str, port: int) -> Path:
        uri = f"ldap://localhost:{port}"
        settings = {"olcDbDirectory": f"/tmp/{name}", "olcThreads": 16}
        return study(
            tmp_path / name,
            [1],
            lab=in_lab,
            manifest=Manifest.parsed(
                {
                    "overrides": [f'targets.one=["{uri}"]', "run.warm_up=1s"],
                    "servers": {uri: {}},
                    "observations": {uri: {"facts": {"settings": settings}}},
                }
            ),
        )

    folders = {"A": made("old", 3891), "B": made("new", 3892)}
    [point] = compared_studies(folders).made
    differs = document_of(point.comparison)["differences"]
    expected = {"changes of the job", "server 1 · settings · olcDbDirectory"}
    assert set(differs) == (set() if in_lab else expected)
