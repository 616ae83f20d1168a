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
from ldapslam.studies.runner import Ended, Journal
from support.command_line import ldapslam

JOB = """\
name: verified
targets: {{directory: "{uri}"}}
run: {{duration: 2s, interval: 500ms}}
# these tests share the machine with others
validity: {{stall: 5s, disturbed_intervals: 100%, send_lag_p99: 1s, loop_share: 100%}}
streams:
  - name: readers
    target: directory
    load: {{clients: 2, think_time: 2ms}}
    operations:
      - search: {{base: "dc=example,dc=com", filter: "(uid=user.[0-999])"}}
thresholds: ["readers.search.response_time.p50 < 1s"]
"""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run on this host."""
    folder = tmp_path_factory.mktemp("verified")
    responder = Responder()
    responder.start()
    (folder / "job.yaml").write_text(JOB.format(uri=responder.uri))
    ended = ldapslam("run", "job.yaml", "--out", "run", cwd=folder)
    assert ended.returncode == 0, ended.stderr
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
    ended = ldapslam("results", "verify", run, cwd=run)
    assert ended.returncode == 0, ended.stderr
    assert digest["sha256"] in ended.stdout
    assert "interval_report" in ended.stdout
    assert "result.json" in ended.stdout
    assert "signed   not" in ended.stdout
    again = ldapslam("report", run, "--out", "again", cwd=run)
    assert again.returncode == 0, again.stderr
    same = (run / "again" / "result.json").read_text()
    assert same == (run / "result.json").read_text()
    alone = ldapslam("results", "verify", "again", "--json", cwd=run)
    assert alone.returncode == 0, alone.stderr
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
_SERVER = "UPDATE run SET manifest = replace(manifest, 'servers', 'servers2')"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        pytest.param(_sql(_ONE_BYTE), "interval_report has other", id="interval"),
        pytest.param(_sql(_THRESHOLD), "job has other content", id="threshold"),
        pytest.param(_sql(_SERVER), "manifest has other content", id="server"),
        pytest.param(
            _sql("UPDATE run SET verdict = 'FAIL'"),
            "the verdict was PASS of run",
            id="verdict",
        ),
        pytest.param(
            _sql("DELETE FROM interval_report WHERE sequence = 2"),
            "interval_report has 4 rows, it had 5",
            id="row",
        ),
        pytest.param(
            _sql("UPDATE run SET digest = '{}'"), "the digest is none", id="no-digest"
        ),
        pytest.param(
            _sql("UPDATE run SET digest = replace(digest, 'PASS', 'FAIL')"),
            "not that of its document",
            id="digest",
        ),
        pytest.param(_text('"count": ', '"count": 1'), "result.json has", id="result"),
        pytest.param(_text('"verdict": "PASS"', '"verdict": "FAIL"'), "", id="word"),
    ],
)
def test_an_altered_run_is_refused(
    run: Path, change: Callable[[Path], None], named: str
) -> None:
    change(run)
    ended = ldapslam("results", "verify", run, cwd=run)
    assert ended.returncode == 3
    assert "is not what was judged" in ended.stderr
    assert named in ended.stderr
    assert ended.stdout == ""


def test_the_report_of_an_altered_run_is_invalid(run: Path) -> None:
    _sql(_THRESHOLD)(run)
    ended = ldapslam("report", run, "--format", "text", cwd=run)
    assert ended.returncode == 0, ended.stderr
    text = (run / "report.txt").read_text()
    assert "INVALID" in text
    assert "the stored run is not what was judged: job has other content" in text


def test_what_has_no_digest_is_not_verified(run: Path) -> None:
    _sql("UPDATE run SET digest = NULL")(run)
    ended = ldapslam("results", "verify", run, cwd=run)
    assert (ended.returncode, ended.stdout) == (3, "")
    assert "has no digest" in ended.stderr


def test_the_file_itself_may_be_named(run: Path) -> None:
    """Of it alone: without its digest it tells nothing."""
    file = run / "result.json"
    ended = ldapslam("results", "verify", file, cwd=run)
    assert ended.returncode == 0, ended.stderr
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
    found = ldapslam("results", "verify", "study", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
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
    ("text", "code"), [('{"runs": []}', 2), ("[]", 3), ("{", 3), ('{"runs": [1]}', 3)]
)
def test_a_gate_without_runs_is_told(tmp_path: Path, text: str, code: int) -> None:
    (tmp_path / "gate.json").write_text(text)
    ended = ldapslam("results", "verify", tmp_path, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (code, "")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"digest": 1}', '{"digest": {}}'])
def test_a_file_that_is_no_result_is_not_verified(tmp_path: Path, text: str) -> None:
    (tmp_path / "result.json").write_text(text)
    ended = ldapslam("results", "verify", tmp_path, cwd=tmp_path)
    assert ended.returncode == 3
    assert "result.json" in ended.stderr
