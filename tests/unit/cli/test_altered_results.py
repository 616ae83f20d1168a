# SPDX-License-Identifier: Apache-2.0
"""What somebody altered counts nowhere: baselines, histories, comparisons, studies."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ldapslam.base.errors import LdapSlamError
from ldapslam.cli import main
from ldapslam.proto.fields import OPERATION_COUNTERS
from ldapslam.reports.formats.render import result_json
from ldapslam.results.packing import digest_of, pack, unpack
from ldapslam.results.store import Store
from ldapslam.studies.baseline import FEWEST
from ldapslam.studies.runner import Ended, Journal
from support.judged import judge
from support.store import Scenario, fill

IDS = [f"20260301-12000{number}-run" for number in range(FEWEST)]
#: Fails no rule, and has no threshold that may be uncertain.
GOOD = ("readers.search.response_time.p50 < 1s",)


def gate_in(folder: Path, **scenario: Any) -> Path:
    """A gate that says that all runs of its new side count."""
    folder.mkdir()
    runs = []
    with Store.open(folder / "results.sqlite") as store:
        for run_id in IDS:
            fields: dict[str, Any] = {"measure_s": 3, "thresholds": GOOD, **scenario}
            fill(store, Scenario(run={"run_id": run_id}, **fields))
            verdict = judge(store, run_id).verdict
            runs.append({"side": "new", "run_id": run_id, "verdict": verdict})
    told = {"counts": True, "other_cpu_share": 0.0}
    gate = {
        "sides": {"old": "a", "new": "b"},
        "answer": "no regression",
        "runs": [{**one, **told} for one in runs],
    }
    (folder / "gate.json").write_text(json.dumps(gate))
    return folder


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gate_in(tmp_path_factory.mktemp("altered") / "gate")


@pytest.fixture
def gate(sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy that a test may alter."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(sound, tmp_path / "gate"))


def saved(*runs: object, store: Path | None = None) -> int:
    where = ["--store", str(store)] if store else []
    return main.run(["results", "baseline", "it.json", *map(str, runs), *where])


def test_a_sound_gate_becomes_a_baseline(gate: Path) -> None:
    assert saved(gate) == 0
    assert len(json.loads(Path("it.json").read_text())["runs"]) == FEWEST


def _divide_counts(connection: sqlite3.Connection) -> None:
    """A third of all requests, wherever they are counted."""
    query = "SELECT rowid, packed FROM interval_report"
    for row, packed in connection.execute(query).fetchall():
        snapshot = unpack(packed)
        for one in snapshot.operations:
            for name in OPERATION_COUNTERS:
                setattr(one, name, getattr(one, name) // 3)
        content = pack(snapshot)
        connection.execute(
            "UPDATE interval_report SET packed = ?, digest = ? WHERE rowid = ?",
            [content, digest_of(content), row],
        )


def _sql(statement: str) -> Callable[[sqlite3.Connection], object]:
    return lambda connection: connection.execute(statement)


_ALTERATIONS = {
    "counts": _divide_counts,
    "document": _sql("UPDATE run SET digest = replace(digest, 'judged_utc', 'at')"),
    "no digest": _sql("UPDATE run SET digest = NULL"),
    "null digest": _sql("UPDATE run SET digest = 'null'"),
    "never judged": _sql("UPDATE run SET digest = NULL, verdict = NULL"),
    "other's digest": _sql(
        "UPDATE run SET digest = (SELECT digest FROM run ORDER BY run_id LIMIT 1), "
        "seed = '7'"
    ),
}


@pytest.fixture(params=_ALTERATIONS)
def altered(gate: Path, request: pytest.FixtureRequest) -> Path:
    with sqlite3.connect(gate / "results.sqlite") as connection:
        _ALTERATIONS[request.param](connection)
    connection.close()
    return gate


def test_altered_runs_are_in_no_baseline_comparison_and_history(
    altered: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert saved(altered) == 2
    assert not Path("it.json").exists()
    store = altered / "results.sqlite"
    assert saved(*IDS, store=store) == 2
    sides = [",".join(IDS[:2]), ",".join(IDS[2:])]
    compare = ["compare", *sides, "--store", str(store), "--include-invalid"]
    assert main.run(compare) == 4
    capsys.readouterr()
    code = main.run(["results", "history", "--store", str(store), "--json"])
    runs = json.loads(capsys.readouterr().out).get("runs", [])
    assert not [one for one in runs if one["verdict"] != "INVALID"]
    assert code == (0 if runs else 2)


def test_a_gate_cannot_say_that_an_invalid_run_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    gate = gate_in(tmp_path / "busy", busy_share=0.99)
    assert saved(gate) == 2


@pytest.mark.parametrize("text", ["[]", "{", "\xff", '{"runs": 1}', '{"runs": [{}]}'])
def test_a_gate_that_is_none_is_told(gate: Path, text: str) -> None:
    (gate / "gate.json").write_text(text, "latin-1")
    assert saved(gate) == 3


def _change(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new, 1)


def _without_digest(text: str) -> str:
    content = json.loads(text)
    del content["digest"]
    return json.dumps(content)


def _faster(text: str) -> str:
    content = json.loads(text)
    content["streams"]["readers"]["search"]["throughput_per_s"] /= 3
    return json.dumps(content)


_CHANGES = {
    "verdict": _change('"verdict": "PASS"', '"verdict": "FAIL"'),
    "figure": _faster,
    "job": _change("directory-mix", "another"),
    "run": _change(IDS[0], IDS[1]),
    "date": _change("2026-03-01T12:00:02", "2026-03-02T12:00:02"),
    "no digest": _without_digest,
    "no JSON": lambda text: text[:-9],
    "deep": lambda _: "[" * 200_000,
}


#: A run of a study, which has passed.
ENDED = Ended(0, 1, 1, "001-1-1", 0, "PASS", "", 1.0, {})


@pytest.fixture
def study(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "study", {"study": "s"})


@pytest.fixture
def result(gate: Path, study: Journal) -> Path:
    """The result of the study's run."""
    path = study.runs / "001-1-1" / "result.json"
    path.parent.mkdir()
    with Store.open(gate / "results.sqlite") as store:
        path.write_text(result_json(judge(store, IDS[0])))
    return path


def history(result: Path) -> int:
    return main.run(["results", "history", str(result), "--out", "pages"])


def test_a_sound_result_is_in_histories_and_studies(
    study: Journal, result: Path
) -> None:
    assert study.result(ENDED) == json.loads(result.read_text())
    assert history(result) == 0


@pytest.mark.parametrize("change", _CHANGES.values(), ids=_CHANGES)
def test_an_altered_result_is_in_no_history_and_no_study(
    study: Journal,
    result: Path,
    change: Callable[[str], str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    result.write_text(change(result.read_text()))
    assert history(result) == 2
    assert "left out" in capsys.readouterr().err
    with pytest.raises(LdapSlamError):
        study.result(ENDED)


def test_a_journal_says_what_its_results_say(study: Journal, result: Path) -> None:
    """Neither a better verdict, nor one without a result."""
    failed = replace(ENDED, verdict="FAIL")
    with pytest.raises(LdapSlamError, match="says PASS"):
        study.result(failed)
    result.unlink()
    with pytest.raises(LdapSlamError):
        study.result(failed)
