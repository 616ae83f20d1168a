# SPDX-License-Identifier: Apache-2.0
"""`ldapslam results verify`: of runs here, of a coordinator's, and of a file alone."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from ldapslam.agent._engine import Responder
from ldapslam.cli import main
from ldapslam.studies.runner import Ended, Journal
from support.busy_host import VALIDITY
from support.command_line import check_ldapslam, ldapslam

JOB = (
    VALIDITY
    + """\
name: verified
targets: {{directory: "{uri}"}}
run: {{duration: 1s, interval: 250ms}}
streams:
  - name: readers
    target: directory
    load: {{clients: 2, think_time: 2ms}}
    operations:
      - search: {{base: "dc=example,dc=com", filter: "(uid=user.[0-999])"}}
thresholds: ["readers.search.response_time.p50 < 1s"]
"""
)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run on this host."""
    folder = tmp_path_factory.mktemp("verified")
    responder = Responder()
    responder.start()
    (folder / "job.yaml").write_text(JOB.format(uri=responder.uri))
    check_ldapslam("run", "job.yaml", "--out", "run", cwd=folder)
    return folder / "run"


@pytest.fixture
def run(original: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(original, tmp_path / "run"))


def test_a_run_of_this_host_is_what_was_judged(run: Path) -> None:
    digest = json.loads((run / "result.json").read_text())["digest"]
    assert f"SHA-256 {digest['sha256']}, not signed" in " ".join(
        (run / "report.txt").read_text().split()
    )
    ended = check_ldapslam("results", "verify", run, cwd=run)
    assert digest["sha256"] in ended.stdout
    assert "interval_report" in ended.stdout
    assert "result.json" in ended.stdout
    assert "signed   not" in ended.stdout
    check_ldapslam("report", run, "--out", "again", cwd=run)
    same = (run / "again" / "result.json").read_text()
    assert same == (run / "result.json").read_text()
    alone = check_ldapslam("results", "verify", "again", "--json", cwd=run)
    found = json.loads(alone.stdout)
    assert (found["sha256"], found["checked"]) == (digest["sha256"], ["result.json"])


def _sql(statement: str) -> Callable[[Path], None]:
    def change(run: Path) -> None:
        with sqlite3.connect(run / "results.sqlite") as connection:
            assert connection.execute(statement).rowcount > 0
        connection.close()

    return change


def _text(old: str, new: str) -> Callable[[Path], None]:
    def change(run: Path) -> None:
        path = run / "result.json"
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new, 1))

    return change


_ONE_BYTE = (
    "UPDATE interval_report SET packed = CAST("
    "substr(packed, 1, 20) || x'00' || substr(packed, 22) AS BLOB) WHERE sequence = 1"
)
_THRESHOLD = "UPDATE run SET plan = replace(plan, 'p50 < 1s', 'p50 < 2s')"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        pytest.param(
            _sql(_ONE_BYTE),
            "is not what was judged: interval_report has other",
            id="interval",
        ),
        pytest.param(
            _sql("UPDATE run SET verdict = 'FAIL'"),
            "the verdict was PASS of run",
            id="verdict",
        ),
        pytest.param(
            _text('"value": ', '"value": 1'),
            "is not what was judged: result.json has",
            id="result",
        ),
        pytest.param(
            _sql("UPDATE run SET digest = NULL"), "has no digest", id="no-digest"
        ),
    ],
)
def test_an_altered_run_is_refused(
    run: Path,
    change: Callable[[Path], None],
    named: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    change(run)
    code = main.run(["results", "verify", str(run)])
    said = capsys.readouterr()
    assert (code, said.out) == (3, "")
    assert named in " ".join(said.err.split())


def test_the_file_itself_may_be_named(run: Path) -> None:
    """Of it alone: without its digest it tells nothing."""
    file = run / "result.json"
    ended = check_ldapslam("results", "verify", file, cwd=run)
    assert "checked  result.json\n" in ended.stdout
    result = json.loads(file.read_text())
    del result["digest"]
    file.write_text(json.dumps(result))
    ended = ldapslam("results", "verify", file, cwd=run)
    assert (ended.returncode, ended.stdout) == (3, "")
    assert "has no digest" in ended.stderr
    assert "somebody removed it" in ended.stderr
    file.write_text("garbage")
    ended = ldapslam("results", "verify", file, cwd=run)
    assert "hint: give the folder of a run, or its result.json" in ended.stderr


def test_the_folder_of_a_study_stands_for_its_runs(
    original: Path, tmp_path: Path
) -> None:
    """One line each; the exit code is that of the worst."""
    study = tmp_path / "study"
    journal = Journal(study, {"study": "s"})
    for number, verdict in enumerate(("PASS", "PASS", "")):
        name = f"0-{number}-0"
        ended = Ended(0, number, 0, name, 0, verdict, "", 1.0, {})
        journal.add(ended)
        if verdict:
            shutil.copytree(original, journal.runs / name)
    found = check_ldapslam("results", "verify", "study", cwd=tmp_path)
    assert found.stdout.splitlines() == [
        "0-0-0: what was judged: PASS, not signed",
        "0-1-0: what was judged: PASS, not signed",
    ]
    _sql(_THRESHOLD)(journal.runs / "0-0-0")
    found = ldapslam("results", "verify", study, "--json", cwd=tmp_path)
    wrong, right = json.loads(found.stdout)["runs"]
    assert found.returncode == 3
    assert "job has other content" in wrong["error"]["message"]
    assert right["verdict"] == "PASS"
    shutil.rmtree(journal.runs / "0-0-0")
    found = ldapslam("results", "verify", study, cwd=tmp_path)
    assert found.returncode == 3
    assert found.stdout.splitlines()[0].startswith("0-0-0: no run ")


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("gate.json", '{"runs": []}', 2),
        *(("gate.json", text, 3) for text in ("[]", "{", '{"runs": [1]}')),
        *(
            ("result.json", text, 3)
            for text in ("", "[]", "{", '{"digest": 1}', '{"digest": {}}')
        ),
    ],
)
def test_a_file_that_is_no_result_is_not_verified(
    tmp_path: Path,
    name: str,
    text: str,
    code: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / name).write_text(text)
    assert main.run(["results", "verify", str(tmp_path)]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err
