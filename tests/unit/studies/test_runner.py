# SPDX-License-Identifier: Apache-2.0
"""The runner of a study: retries, hooks, what is kept, what is put back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.studies.answer import answer_of, estimate_of
from ldapslam.studies.points import Point, Turn
from ldapslam.studies.runner import Journal, Runner, alone_in, is_settled
from ldapslam.studies.study_file import Hook, Study
from support.figures import result_figures
from support.judged import with_digest

POINT = Point({"clients": 5})
STUDY = Study.model_validate(
    {"name": "s", "job": "j", "axes": {"clients": [5]}, "repeats": 3}
)


class Runs:
    """Stands for `ldapslam run`: gives these verdicts, '' without a result."""

    def __init__(self, *verdicts: str, throughput: float = 100.0) -> None:
        self.verdicts = list(verdicts)
        self.throughput = throughput

    def __call__(self, point: Point, folder: Path, log: Path) -> int:
        verdict = self.verdicts.pop(0)
        if not verdict:
            log.write_text("target 'ldap://x' cannot be reached\nhint: start it\n")
            return 6
        if verdict == "Ctrl-C":
            return 130
        folder.mkdir()
        self.throughput += 1
        values = {"throughput": self.throughput, "errors": 0.0, "p99": None}
        result = {
            "run_id": folder.name,
            "verdict": verdict,
            "reasons": ["late"] * (verdict == "INVALID"),
            "figures": result_figures("s.search", values),
        }
        (folder / "result.json").write_text(json.dumps(with_digest(result)))
        return {"PASS": 0, "FAIL": 1, "INVALID": 3}[verdict]


def runner_of(
    folder: Path, runs: Runs, before: Hook | None = None, after: Hook | None = None
) -> Runner:
    journal = Journal(folder, {"study": "s"})
    return Runner(journal, runs, lambda _: None, before=before, after=after)


def verdicts(runner: Runner, turns: Sequence[Turn], attempts: int = 2) -> list[str]:
    for turn in turns:
        while not is_settled(runner.journal.attempts(turn), attempts):
            runner.run(turn, POINT)
    return [one.verdict for one in runner.journal.ended]


TURNS = [Turn(0, repeat) for repeat in (1, 2, 3)]


def test_invalid_runs_are_repeated_up_to_the_limit(tmp_path: Path) -> None:
    runs = Runs("PASS", "INVALID", "FAIL", "INVALID", "")
    runner = runner_of(tmp_path, runs)
    assert verdicts(runner, TURNS) == ["PASS", "INVALID", "FAIL", "INVALID", ""]
    answer = answer_of(STUDY, [POINT], runner.journal)
    (point,) = answer.points
    assert (answer.verdict, answer.missing, point.verdict) == ("INVALID", 1, "FAIL")
    # only valid runs count
    assert point.operations == ("s.search",)
    assert point.figures["s.search.throughput"].of_runs == (101.0, 103.0)
    assert "s.search.response_time.p99" not in point.figures
    assert point.runs[-1].ended.error == "target 'ldap://x' cannot be reached"


def test_the_first_reason_of_each_run_is_told(tmp_path: Path) -> None:
    runner = runner_of(tmp_path, Runs("PASS", "INVALID", ""))
    said = [runner.journal.why(runner.run(TURNS[0], POINT)) for _ in range(3)]
    assert said == ["", ": late", ": target 'ldap://x' cannot be reached"]


def test_an_interrupted_study_goes_on_behind_its_last_run(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        verdicts(runner_of(tmp_path, Runs("PASS", "Ctrl-C")), TURNS)
    # a run that was killed has left a folder and half a line
    (tmp_path / "runs" / "001-2-1").mkdir()
    with (tmp_path / "runs.jsonl").open("a") as journal:
        journal.write('{"point": 0, "rep')
    runner = runner_of(tmp_path, Runs("PASS", "PASS"))
    assert verdicts(runner, TURNS) == ["PASS"] * 3
    again = Journal(tmp_path, {"study": "s"})
    assert [(one.repeat, one.attempt) for one in again.ended] == [
        (1, 1),
        (2, 1),
        (3, 1),
    ]


def test_a_folder_of_another_study_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    Journal(folder, {"study": "s"})
    (tmp_path / "study-2").mkdir()
    with pytest.raises(ConfigError, match="the runs of another search") as refused:
        Journal(folder, {"study": "t"}, "search")
    assert f"--out {tmp_path / 'study-3'}" in str(refused.value.hint)


def test_a_study_that_was_killed_in_its_first_line_begins(tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_text('{"study": {"st')
    assert Journal(tmp_path, {"study": "s"}).ended == []
    assert Journal(tmp_path, {"study": "s"}).ended == []


def test_one_process_works_in_the_folder_of_a_study(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    with alone_in(folder):
        with pytest.raises(ConfigError, match="another process is making the runs"):
            with alone_in(folder, wait_s=0):
                pass
    with alone_in(folder):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_hooks_know_their_point_and_fail_their_run(tmp_path: Path) -> None:
    script = 'echo "$AXIS_CLIENTS $LDAPSLAM_POINT" > "$0"; exit $1'
    told = tmp_path / "told"
    before = Hook(command=["sh", "-c", script, str(told), "0"])
    runner = runner_of(tmp_path / "a", Runs("PASS"), before=before)
    assert verdicts(runner, TURNS[:1]) == ["PASS"]
    assert told.read_text() == "5 clients=5\n"
    for command, error in (
        (
            ["sh", "-c", "echo no disk; exit 3"],
            "the command 'sh' ended with 3: no disk",
        ),
        (["/nowhere"], "the command '/nowhere' cannot be run"),
        (["sleep", "60"], "the command 'sleep' was ended after 50ms"),
    ):
        hook = Hook(command=command, timeout="50ms" if "60" in command else "1m")
        runner = runner_of(tmp_path / command[-1][-3:], Runs(), before=hook)
        assert verdicts(runner, TURNS[:1], attempts=1) == [""]
        assert error in runner.journal.ended[0].error


def test_what_the_command_after_a_run_says_counts(tmp_path: Path) -> None:
    runner = runner_of(tmp_path, Runs("PASS"), after=Hook(command=["false"]))
    assert verdicts(runner, TURNS[:1], attempts=1) == [""]


def test_intervals_are_students_t_over_runs() -> None:
    found = estimate_of([20498.0, 19736.0, 20971.0])
    assert found.value == pytest.approx(20401.667, abs=1e-3)
    # half = 4.302653 * s / sqrt(3), s = 623.1
    assert found.interval is not None
    mean, low, high = found.interval
    assert high - mean == pytest.approx(1547.8, abs=1.0)
    assert mean - low == pytest.approx(1547.8, abs=1.0)
    assert estimate_of([5.0]).interval is None
    assert (estimate_of([1.0, 100.0]).interval or (0.0, -1.0))[1] == 0.0
