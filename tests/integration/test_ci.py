# SPDX-License-Identifier: Apache-2.0
"""configs/ci, executed: the shell script for real, and the steps of each system in a
shell, with what that system sets."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ldapslam.agent._engine import Responder
from support.gates import GATE_JOB

ROOT = Path(__file__).parents[2]
CI = ROOT / "configs" / "ci"
LDAPSLAM = Path(sys.executable).with_name("ldapslam")
#: Stands for a gate: notes its arguments, leaves results where there are none ($CODE 6
#: and 9: none, or not all of them), ends with $CODE.
STUB = """\
#!/bin/sh
printf '%s\\n' "$@" > "$NOTES"
mkdir -p "$OUT"
[ ! -e "$OUT/results.sqlite" ] || exit 2
[ "$CODE" != 6 ] || exit 6
touch "$OUT/results.sqlite"
[ "$CODE" != 9 ] || exit 9
echo '# the summary' > "$OUT/gate.md"
touch "$OUT/junit.xml"
echo '{"schema": "ldapslam-gate/1", "answer": "cannot tell"}' > "$OUT/gate.json"
exit "$CODE"
"""


@pytest.fixture
def stub(tmp_path: Path) -> Path:
    path = tmp_path / "stub"
    path.write_text(STUB)
    path.chmod(0o755)
    return path


def shell(
    command: str, folder: Path, variables: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", command],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.long
def test_the_script_runs_a_gate_and_ends_with_its_exit_code(
    tmp_path: Path, stub: Path
) -> None:
    (tmp_path / "gate.yaml").write_text(GATE_JOB)
    quick, slow = (Responder(delays=[(1, ms * 1_000_000)]) for ms in (1, 4))
    quick.start()
    slow.start()
    summary = tmp_path / "summary.md"
    variables = {
        "JOB": "gate.yaml",
        "OLD": quick.uri,
        "NEW": slow.uri,
        "TOLERANCE": "20%\nerrors=1%",
        "LDAPSLAM": str(LDAPSLAM),
        "GITHUB_STEP_SUMMARY": str(summary),
    }
    try:
        ended = shell(str(CI / "gate.sh"), tmp_path, variables)
    finally:
        quick.stop()
        slow.stop()
    found = json.loads((tmp_path / "gate" / "gate.json").read_text())
    # on a machine that is busy with other tests, it may not be able to tell
    codes = {"regression": 1, "cannot tell": 3}
    assert ended.returncode == codes[found["answer"]], ended.stderr
    assert summary.read_text() == (tmp_path / "gate" / "gate.md").read_text()
    assert found["answer"] in (tmp_path / "gate" / "badge.svg").read_text()
    assert stat.S_IMODE((tmp_path / "gate").stat().st_mode) == 0o700
    # the next one ends without an answer: nothing is left that may be taken for one
    more = {"LDAPSLAM": str(stub), "NOTES": str(tmp_path / "notes"), "CODE": "6"}
    again = shell(str(CI / "gate.sh"), tmp_path, {**variables, **more, "OUT": "gate"})
    assert again.returncode == 6, again.stderr
    assert [one.name for one in (tmp_path / "gate").iterdir()] == [".gate.sh"]
    assert summary.read_text().count("## gate of gate") == 1


@pytest.mark.parametrize("code", ["0", "6", "9"])
def test_the_script_removes_what_an_earlier_gate_left(
    tmp_path: Path, stub: Path, code: str
) -> None:
    """Also where it was interrupted; and what is not a gate's stays."""
    variables = {
        "JOB": "my job.yaml",
        "OUT": "of/the gate",
        "LDAPSLAM": str(stub),
        "NOTES": str(tmp_path / "notes"),
    }
    first = shell(str(CI / "gate.sh"), tmp_path, {**variables, "CODE": code})
    assert first.returncode == int(code), first.stderr
    spool = tmp_path / "of" / "the gate" / "spool" / "local-1"
    spool.mkdir(parents=True)
    kept = spool.parents[1] / "mine.txt"
    kept.touch()
    second = shell(str(CI / "gate.sh"), tmp_path, {**variables, "CODE": "0"})
    assert second.returncode == 0, second.stderr
    assert (kept.exists(), spool.exists()) == (True, False)
    ledger = spool / "ledgers" / "run-1" / "readers-0-0.ledger"
    ledger.parent.mkdir(parents=True)
    ledger.touch()
    third = shell(str(CI / "gate.sh"), tmp_path, {**variables, "CODE": "0"})
    assert (third.returncode, ledger.exists()) == (2, True)
    assert "hint: ldapslam run --cleanup RUN" in third.stderr
    assert not (tmp_path / "of" / "the gate" / "junit.xml").exists()


def test_the_script_hands_each_line_on_as_one_argument(
    tmp_path: Path, stub: Path
) -> None:
    variables = {
        "JOB": "my job.yaml",
        "OLD": "/opt/old server\n  users=2000",
        "NEW": "/opt/new\n\n",
        "SET": "run.warm_up=1s\nbind={dn: cn=a b}",
        "VAR": "users=500",
        "ALLOW_DIFFERENCES": "yes",
        "LAB": "slapd",
        "LDAPSLAM": str(stub),
        "NOTES": str(tmp_path / "notes"),
        "OUT": "gate",
        "CODE": "3",
    }
    assert shell(str(CI / "gate.sh"), tmp_path, variables).returncode == 3
    lines = (tmp_path / "notes").read_text().splitlines()
    assert lines == [
        *("gate", "my job.yaml", "--out", "gate", "--time", "5m", "--lab", "slapd"),
        "--allow-differences",
        *("--old", "/opt/old server", "--old", "users=2000", "--new", "/opt/new"),
        *("--set", "run.warm_up=1s", "--set", "bind={dn: cn=a b}"),
        *("--var", "users=500"),
    ]
    wrong = {**variables, "ALLOW_DIFFERENCES": "maybe"}
    ended = shell(str(CI / "gate.sh"), tmp_path, wrong)
    assert (ended.returncode, "expected yes or no" in ended.stderr) == (2, True)
    ended = shell(str(CI / "gate.sh"), tmp_path, {})
    assert ended.returncode != 0
    assert "set JOB to the path of a job file" in ended.stderr


def test_the_script_refuses_a_folder_of_others(tmp_path: Path, stub: Path) -> None:
    variables = {"JOB": "j", "LDAPSLAM": str(stub), "NOTES": "notes", "CODE": "0"}
    for name in ("gate.json", "results.sqlite", "job.yaml"):
        folder = tmp_path / f"of {name}"
        folder.mkdir()
        (folder / name).write_text('"ldapslam-gate/1"')
        out = {"OUT": folder.name}
        ended = shell(str(CI / "gate.sh"), tmp_path, {**variables, **out})
        assert ended.returncode == 2
        assert "hint: name another folder with OUT" in ended.stderr
        assert [one.name for one in folder.iterdir()] == [name]
    assert not (tmp_path / "notes").exists()


@pytest.mark.parametrize(
    ("code", "cannot_tell", "ends"),
    [(0, "fail", 0), (1, "warn", 1), (3, "fail", 3), (3, "warn", 0), (3, "", 2)],
)
def test_the_composite_action(
    tmp_path: Path, stub: Path, code: int, cannot_tell: str, ends: int
) -> None:
    action = yaml.safe_load((CI / "github" / "action.yml").read_text())
    inputs = {name: one.get("default", "") for name, one in action["inputs"].items()}
    # of jobs, of a matrix, of attempts: artifacts of one name are an error of upload
    assert "${{ github.job }}-${{ strategy.job-index }}" in inputs["name"]
    assert inputs["cannot-tell"] == "fail"
    inputs |= {"job": "search.yaml", "old": "a", "new": "b", "cannot-tell": cannot_tell}
    inputs |= {"set": "run.warm_up=1s", "var": "users=5", "allow-differences": "true"}
    install, gate, keep = action["runs"]["steps"]
    # the package that it installs is this one
    named = re.findall(r"\$GITHUB_ACTION_PATH/\S+(?=\")", install["run"])
    action_folder = str(CI / "github")
    paths = [Path(one.replace("$GITHUB_ACTION_PATH", action_folder)) for one in named]
    needed = [ROOT / ".ci" / "system-packages", ROOT]
    assert [one.resolve() for one in paths] == needed
    program = tmp_path / "ldapslam" / "bin" / "ldapslam"
    program.parent.mkdir(parents=True)
    program.symlink_to(stub)
    step = {name: _filled(value, inputs) for name, value in gate["env"].items()}
    output = tmp_path / "output"
    variables = {
        **step,
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_ACTION_PATH": str(CI / "github"),
        "GITHUB_OUTPUT": str(output),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "NOTES": str(tmp_path / "notes"),
        "CODE": str(code),
    }
    ended = shell(gate["run"], tmp_path, variables)
    assert ended.returncode == ends, ended.stderr
    assert ("::warning " in ended.stdout) == ((code, cannot_tell) == (3, "warn"))
    if ends == 2:
        assert "::error::cannot-tell: expected fail or warn" in ended.stdout
        return
    said = (tmp_path / "notes").read_text().splitlines()
    assert "--allow-differences" in said
    assert said[-4:] == ["--set", "run.warm_up=1s", "--var", "users=5"]
    assert output.read_text() == "answer=cannot tell\n"
    assert (tmp_path / "summary.md").read_text() == "# the summary\n"
    assert keep["if"] == "always() && steps.gate.outcome != 'skipped'"
    assert _filled(keep["with"]["path"], inputs) == "gate"
    assert keep["with"]["name"] == "${{ inputs.name }}"
    assert keep["with"]["overwrite"] is True


def _filled(text: str, inputs: Mapping[str, str]) -> str:
    return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda one: inputs[one[1]], text)


def test_the_gitlab_job(tmp_path: Path, stub: Path) -> None:
    job = yaml.safe_load((CI / "gitlab.yml").read_text())[".ldapslam-gate"]
    (tmp_path / ".ldapslam" / "bin").mkdir(parents=True)
    (tmp_path / ".ldapslam" / "bin" / "ldapslam").symlink_to(stub)
    (tmp_path / "ldapslam").symlink_to(ROOT)
    # a user's own before_script would take the place of a template's
    assert "before_script" not in job
    *install, gate = job["script"]
    assert [one.split()[-1] for one in install] == [
        "python3",
        ".ldapslam",
        '"./$LDAPSLAM_SOURCE"',
    ]
    variables = {
        **job["variables"],
        "JOB": "search.yaml",
        "NOTES": str(tmp_path / "notes"),
        "CODE": "3",
    }
    ended = shell(gate, tmp_path, variables)
    assert ended.returncode == job["allow_failure"]["exit_codes"] == 3
    assert (tmp_path / job["variables"]["OUT"] / "gate.md").exists()
    assert job["artifacts"]["reports"]["junit"] == "$OUT/junit.xml"


def test_the_jenkins_stage(tmp_path: Path, stub: Path) -> None:
    text = (CI / "Jenkinsfile").read_text()
    variables: dict[str, Any] = dict(re.findall(r"(\w+) = '([^']*)'", text))
    (tmp_path / ".ldapslam" / "bin").mkdir(parents=True)
    (tmp_path / ".ldapslam" / "bin" / "ldapslam").symlink_to(stub)
    (tmp_path / "ldapslam").symlink_to(ROOT)
    [script] = re.findall(r"sh\(script: '([^']*)'", text)
    notes = tmp_path / "notes"
    # two builds in a workspace that is kept, and one that ends without an answer
    for code in (1, 0, 6):
        more = {**variables, "NOTES": str(notes), "CODE": str(code)}
        assert shell(script, tmp_path, more).returncode == code
    assert "--lab\nslapd\n" in notes.read_text()
    assert not (tmp_path / "gate" / "junit.xml").exists()
    assert text.count("{") == text.count("}")
    # nothing is published by a build whose gate never began
    assert "post {" not in text
    assert text.index("gate.sh'") < text.index('testResults: "${OUT}/junit.xml"')
