# SPDX-License-Identifier: Apache-2.0
"""`compare` on runs against a real slapd: sides, exit codes and both outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command_line import ldapslam
from support.lab import Lab

#: Nobody may read cn=config or cn=Monitor anonymously, so its counts are not known.
WATCHED = """\
name: watched
targets: {{directory: "{uri}"}}
run: {{duration: 1s, interval: 250ms}}
monitors: [{{directory: directory}}]
streams:
  - name: load
    target: directory
    load: {{clients: 1, think_time: 5ms}}
    operations:
      - search: {{base: "dc=example,dc=com", scope: base}}
"""


@pytest.fixture(scope="module")
def folders(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Four runs that end by their count, and one that is INVALID."""
    folder = tmp_path_factory.mktemp("compared")
    found = [folder / f"run{n}" for n in range(4)]
    search = ("-b", "dc=example,dc=com", "-f", "(uid=user.[0-999])")
    for run in found:
        ended = ldapslam(
            *("quick", "search", lab.supplier.uri, *search, "-c", "2", "-n", "1000"),
            *("--out", run),
            cwd=folder,
        )
        assert ended.returncode in (0, 3), ended.stderr
    (folder / "job.yaml").write_text(WATCHED.format(uri=lab.supplier.uri))
    invalid = folder / "invalid"
    ended = ldapslam("run", folder / "job.yaml", "--out", invalid, cwd=folder)
    assert ended.returncode == 3, ended.stderr
    return [*found, invalid]


def test_repeats_are_compared_with_repeats(folders: list[Path]) -> None:
    sides = [",".join(map(str, folders[:2])), ",".join(map(str, folders[2:4]))]
    # a busy machine is honestly found unfit
    ended = ldapslam("compare", *sides, "--include-invalid", "--json")
    assert ended.returncode == 0, ended.stderr
    result = json.loads(ended.stdout)
    assert [len(side["runs"]) for side in result["sides"]] == [2, 2]
    assert result["differing_repeats"] == []
    findings = {(one["operation"], one["metric"]): one for one in result["findings"]}
    total = findings["load", "total_time"]
    assert total["sample"] == "runs"
    assert total["ratio"]["ci95"][0] < total["ratio"]["value"]
    assert 0 < total["p"] <= total["adjusted_p"] <= 1
    elapsed_s = [one["connections"]["load"]["elapsed_s"] for one in result["runs"]]
    assert total["old"]["runs"] == pytest.approx(elapsed_s[:2], abs=1e-6)
    assert {"throughput", "mean", "p50", "p99"} < {name for _, name in findings}

    text = ldapslam("compare", *sides, "--include-invalid").stdout
    assert "total time of load" in text
    assert "could not be read" in text
    assert max(map(len, text.splitlines())) <= 112


def test_a_side_without_a_valid_run_has_an_exit_code(folders: list[Path]) -> None:
    ended = ldapslam("compare", folders[0], folders[4])
    assert ended.returncode == 4
    assert "INVALID, left out" in ended.stdout
    assert "server 1 · cn=config" in ended.stdout
    assert "--include-invalid" in ended.stderr


@pytest.mark.parametrize(
    ("places", "message"),
    [((0,), "two sides are needed"), ((0, 0), "is named twice")],
)
def test_what_is_no_comparison_is_refused(
    folders: list[Path], places: tuple[int, ...], message: str
) -> None:
    ended = ldapslam("compare", *(folders[place] for place in places))
    assert ended.returncode == 2
    assert message in ended.stderr
