# SPDX-License-Identifier: Apache-2.0
"""The report of a study: its reasons and cautions, its figures, its date."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ldapslam.cli.outcome import put_report
from ldapslam.reports.document import BAD, CAUTION, GOOD, NOTHING, Table
from ldapslam.reports.formats.text import render_text
from ldapslam.reports.typeset import figure_text
from ldapslam.studies.answer import Answer, PointAnswer, Run
from ldapslam.studies.points import Point, points_of
from ldapslam.studies.report import study_document, write_study
from ldapslam.studies.runner import Ended
from ldapslam.studies.study_file import Study, StudyTable
from support.invocation import with_json

STUDY = Study.model_validate(
    {"name": "s", "job": "j.yaml", "axes": {"clients": [1, 4]}, "repeats": 2}
)

ONE, FOUR = points_of(STUDY, {"j.yaml": ["clients"]})


def run(verdict: str, repeat: int, attempt: int = 1, *, per_s: float = 100.0) -> Run:
    ended = Ended(0, repeat, attempt, "f", 0, verdict, "", 1.0, {})
    why = f"{verdict} {repeat}.{attempt}"
    figures = {"r.search.throughput": per_s, "r.search.errors": 0.000123}
    finished = f"2026-03-01T12:0{repeat}:0{attempt}.000000+00:00"
    return Run(ended, "id", (why,), figures, ("r.search",), finished)


def point(of: Point, *runs: Run) -> PointAnswer:
    return PointAnswer(of, runs)


def test_the_reasons_are_of_what_makes_the_verdict() -> None:
    """Not of an attempt that was made again; and of a point that passes, but lacks a
    repeat."""
    failing = point(ONE, run("FAIL", 1), run("INVALID", 2), run("PASS", 2, 2))
    lacking = point(FOUR, run("PASS", 1), run("INVALID", 2), run("INVALID", 2, 2))
    answer = Answer(STUDY, (failing, lacking), missing=1, waiting=0)
    document = study_document(answer)
    assert document.verdict == "INVALID"
    assert document.reasons == (
        "clients=4: 1 of 2 runs without a valid result: INVALID 2.2",
        "clients=1: 1 of 2 runs FAIL: FAIL 1.1",
    )


def test_invalid_is_not_shown_as_a_failure() -> None:
    runs = run("FAIL", 1), run("INVALID", 2), run("PASS", 2, 2)
    document = study_document(Answer(STUDY, (point(ONE, *runs),), 0, 0))
    assert document.statement == (
        "2 of 3 runs are valid, the others were repeated; 1 of 1 points FAIL."
    )
    (table,) = document.sections[-1].blocks
    assert isinstance(table, Table)
    verdicts = [row[3] for row in table.rows]
    assert [(one.text, one.tone) for one in verdicts] == [
        ("FAIL", BAD),
        ("INVALID", CAUTION),
        ("PASS", GOOD),
    ]


def test_many_reasons_do_not_push_the_answer_off_its_page() -> None:
    points = [point(ONE, run("FAIL", 1)) for _ in range(30)]
    reasons = study_document(Answer(STUDY, tuple(points), 0, 0)).reasons
    assert len(reasons) == 11
    assert reasons[-1] == "and 20 more: see the runs"


@pytest.mark.parametrize(("other", "is_told"), [(104.0, False), (130.0, True)])
def test_runs_of_a_point_that_differ_are_told_of(other: float, is_told: bool) -> None:
    points = (
        point(ONE, run("PASS", 1), run("PASS", 2, per_s=other)),
        point(FOUR, run("PASS", 1), run("PASS", 2)),
    )
    cautions = study_document(Answer(STUDY, points, 0, 0)).cautions
    assert [one.endswith("at clients=1: 100 to 130/s.") for one in cautions] == [
        True
    ] * is_told


def test_the_command_shows_what_has_to_be_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of = point(ONE, run("PASS", 1), run("PASS", 2, per_s=130.0))
    document = study_document(Answer(STUDY, (of,), 0, 0))
    for as_json in (False, True):
        with with_json(as_json):
            put_report(document, {}, [tmp_path / "study.txt"])
        shown = capsys.readouterr()
        out = shown.err if as_json else shown.out
        assert "\n  ! Runs of a point differ by more than 10 %" in out


def test_small_shares_of_errors_are_not_shown_as_none() -> None:
    answer = Answer(STUDY, (point(ONE, run("PASS", 1)),), 0, 0)
    assert "0.0123" in render_text(study_document(answer))
    shown = [figure_text(one) for one in (0.0, 234.56, 12.3456, 0.5, 0.00012)]
    assert shown == ["0", "234.6", "12.35", "0.5", "0.00012"]


@pytest.mark.parametrize(
    ("runs", "date"),
    [([run("PASS", 1), run("PASS", 2)], b"/CreationDate(D:20260301120201Z"), ([], b"")],
    ids=["runs", "none"],
)
def test_the_date_of_a_report_is_that_of_its_last_run(
    tmp_path: Path, runs: list[Run], date: bytes
) -> None:
    answer = Answer(STUDY, (point(ONE, *runs),), 0, waiting=2 - len(runs))
    write_study(answer, tmp_path)
    pdf = (tmp_path / "study.pdf").read_bytes()
    assert date in pdf
    assert (b"/CreationDate" in pdf) == bool(runs)
    write_study(answer, tmp_path)
    assert (tmp_path / "study.pdf").read_bytes() == pdf
    said = "the last ended 2026-03-01 12:02 UTC"
    assert (said in (tmp_path / "study.txt").read_text("utf-8")) == bool(runs)


def test_reasons_of_many_points_are_short() -> None:
    late = "a stream sent too late: 12 ms, limit 2 ms (limit ≤ 1 ms; give agents CPUs)"
    made = [replace(run("INVALID", 1), reasons=(late, "and another"))]
    for count, is_short in ((2, False), (3, True)):
        points = tuple(point(ONE, *made) for _ in range(count))
        reason = study_document(Answer(STUDY, points, count, 0)).reasons[0]
        assert ("limit ≤" in reason) != is_short
        assert reason.endswith("limit 2 ms; and 1 more") == is_short


def test_figures_stand_beside_their_runs_and_what_was_published(tmp_path: Path) -> None:
    """Three of them; a fourth has a table of its own."""
    name = "r.search.throughput"
    columns = {title: name for title in ("a", "b", "c", "d")}
    published: Any = [{"clients": 1, "d": [7.0, 9.0]}, {"clients": 9, "a": 5}]
    table = StudyTable(title="Rates", columns=columns, published=published)
    study = STUDY.model_copy(update={"table": table})
    runs = run("PASS", 1), run("PASS", 2, per_s=130.0)
    answer = Answer(study, (point(ONE, *runs), point(FOUR, *runs)), 0, 0)
    section = study_document(answer).sections[0]
    shown = [one for one in section.blocks if isinstance(one, Table)]
    assert [one.caption for one in shown] == ["Rates", "Rates, continued"]
    assert [[cell.text for cell in row] for row in shown[1].rows] == [
        ["1", "115", "100, 130", "8 (7, 9)"],
        ["4", "115", "100, 130", NOTHING],
        ["9", "not run", NOTHING, NOTHING],
    ]
    write_study(answer, tmp_path)
    assert "<svg" in (tmp_path / "study.html").read_text()
