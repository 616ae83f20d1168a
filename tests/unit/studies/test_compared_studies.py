# SPDX-License-Identifier: Apache-2.0
"""Studies against studies, point by point."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.cli import main
from ldapslam.results.store import Store
from ldapslam.studies.comparisons import compared_studies
from support.store import Scenario, fill


def study(folder: Path, clients: Sequence[int], repeats: int = 1) -> Path:
    """A study's folder with a run of each point and repeat."""
    lines: list[dict[str, Any]] = [{"study": {"name": "clients"}}]
    for point, value in enumerate(clients):
        for repeat in range(repeats):
            name = f"{point + 1:03d}-{repeat + 1}-1"
            (folder / "runs" / name).mkdir(parents=True)
            store = folder / "runs" / name / "results.sqlite"
            with Store.open(str(store)) as results:
                run_id = f"20260301-120000-{folder.name}-{point}{repeat}"
                fill(results, Scenario(run={"run_id": run_id}))
            lines.append(
                {
                    "point": point,
                    "repeat": repeat + 1,
                    "attempt": 1,
                    "folder": name,
                    "exit_code": 0,
                    "verdict": "PASS",
                    "error": "",
                    "lasted_s": 1.0,
                    "values": {"clients": value},
                }
            )
    text = "".join(json.dumps(one) + "\n" for one in lines)
    (folder / "runs.jsonl").write_text(text)
    return folder


def test_points_that_both_have_are_compared(tmp_path: Path) -> None:
    old = study(tmp_path / "old", [1, 4, 16], repeats=2)
    new = study(tmp_path / "new", [4, 16, 64])
    found = compared_studies({"A": old, "B": new})
    assert [one.label for one in found] == ["clients=4", "clients=16"]
    sides = found[0].comparison.sides
    assert [(side.name, len(side.runs)) for side in sides] == [("A", 2), ("B", 1)]


def test_the_command_takes_folders_of_studies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = study(tmp_path / "old", [1, 4]), study(tmp_path / "new", [4])
    arguments = ["compare", str(old), str(new), "--include-invalid"]
    assert main.run(arguments) == 0
    assert capsys.readouterr().out.startswith("clients=4\n")
    assert main.run([*arguments, "--json"]) == 0
    [point] = json.loads(capsys.readouterr().out)["points"]
    assert point["values"] == {"clients": 4}
    assert point["baseline"] == "A"
    other = study(tmp_path / "other", [2])
    assert main.run(["compare", str(old), str(other)]) == 4
    assert "no point has valid runs" in capsys.readouterr().err


def test_a_line_that_is_being_written_is_not_read(tmp_path: Path) -> None:
    old, new = study(tmp_path / "old", [1]), study(tmp_path / "new", [1])
    with (new / "runs.jsonl").open("a") as out:
        out.write('{"point": 1, "rep')
    assert len(compared_studies({"A": old, "B": new})) == 1
    (new / "runs.jsonl").write_text("{}\n[]\n")
    with pytest.raises(ConfigError, match="cannot be read"):
        compared_studies({"A": old, "B": new})
