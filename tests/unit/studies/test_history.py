# SPDX-License-Identifier: Apache-2.0
"""Histories of runs: where a level changed, for better or worse, and what with it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldapslam.cli import main
from ldapslam.reports.formats.text import render_text
from ldapslam.studies.history import (
    Run,
    _ticks,
    by_load,
    history_document,
    history_json,
    run_of,
    series_of,
    write_history,
)
from support.figures import result_figures
from support.judged import with_digest

FIRST = datetime(2026, 9, 1, 2, tzinfo=UTC)


def result(
    night: int,
    throughput: float,
    p99_us: float,
    *,
    job: str = "lookups",
    verdict: str = "PASS",
    version: str = "2.6.7",
) -> dict[str, Any]:
    """As result.json has it."""
    began = (FIRST + timedelta(days=night)).isoformat()
    return {
        "run_id": f"{job}-{night}",
        "verdict": verdict,
        "manifest": {
            "job": job,
            "job_hash": "abc",
            "t0_utc": began,
            "planned_agents": ["a", "b"],
            "ldapslam": "0.1.0",
            "servers": {"ldap://one": {"vendor_version": version}},
        },
        "figures": result_figures(
            "readers.search",
            {"throughput": throughput, "p50": 500.0, "p99": p99_us, "errors": 0.0},
        ),
    }


def nights(
    count: int = 30, step_at: int = 20, rise: float = 1.2, seed: int = 1
) -> list[Run]:
    """Throughput varies by 2 %; p99 rises at one night, with a new version."""
    rng = np.random.default_rng(seed)
    found = []
    for night in range(count):
        is_later = night >= step_at
        p99_us = 3000 * rng.normal(1, 0.02) * (rise if is_later else 1)
        version = "2.6.8" if is_later else "2.6.7"
        found.append(result(night, 5000 * rng.normal(1, 0.02), p99_us, version=version))
    return runs_of(*found)


def test_a_step_is_found_with_what_came_with_it() -> None:
    runs = nights()
    [found] = [one for one in series_of(runs[::-1]) if one.changes]
    assert (found.name.title, found.name.short) == ("readers.search", "p99")
    [change] = found.changes
    assert change.run.run_id == "lookups-20"
    assert change.last.run_id == "lookups-19"
    assert change.after / change.before == pytest.approx(1.2, rel=0.03)
    assert found.is_worse(change)
    assert change.also == ("version of server 1: 2.6.7 → 2.6.8",)


def test_a_time_that_doubles_is_found_after_eight_nights() -> None:
    found = sum(
        [change.run.run_id for one in series_of(runs) for change in one.changes]
        == ["lookups-8"]
        for runs in (nights(16, 8, rise=2.0, seed=seed) for seed in range(40))
    )
    assert found >= 38


def runs_of(*results: dict[str, Any]) -> list[Run]:
    return [run for one in results if (run := run_of(one))]


def test_what_does_not_change_has_no_step_and_more_throughput_is_better() -> None:
    assert not [one for one in series_of(nights(rise=1.0)) if one.changes]
    per_s = [5000.0] * 10 + [6000.0] * 10
    runs = runs_of(*(result(night, one, 3000.0) for night, one in enumerate(per_s)))
    [found] = [one for one in series_of(runs) if one.changes]
    assert not found.is_worse(found.changes[0])


def test_invalid_runs_are_shown_but_take_no_part() -> None:
    runs = nights(12)
    [broken] = runs_of(result(12, 1.0, 9e9, verdict="INVALID"))
    series = series_of([*runs, broken])
    assert all(broken not in one.runs for one in series)
    assert "lookups-12" in json.dumps(history_json([*runs, broken], series))


def test_a_run_that_never_began_is_none() -> None:
    made = result(0, 1.0, 1.0)
    made["manifest"]["t0_utc"] = None
    assert runs_of(made) == []


def test_the_page_has_all_jobs_the_changes_first_and_links(tmp_path: Path) -> None:
    other = run_of(result(3, 10.0, 10.0, job="<b>../x"), "runs/1/report.html")
    assert other is not None
    runs = [*nights(), other]
    series = series_of(runs)
    content = history_document(runs, series)
    assert [one.title for one in content.sections] == ["Changes", "<b>../x", "lookups"]
    files = write_history(runs, series, tmp_path)
    assert sorted(path.name for path in files) == [
        "history.html",
        "history.json",
        "history.pdf",
        "history.txt",
    ]
    page = (tmp_path / "history.html").read_text()
    assert '<a href="runs/1/report.html">' in page
    assert "<b>../x" not in page
    assert "2 jobs; 1 change of a figure, for the worse." in page
    text = (tmp_path / "history.txt").read_text()
    assert text.startswith("History of 31 runs\n")
    assert "2.6.7 → 2.6.8" in page


def keep(folder: Path, night: int) -> None:
    folder.mkdir(parents=True)
    made = with_digest(result(night, 1e3, 3e3))
    (folder / "result.json").write_text(json.dumps(made))


def test_the_command_reads_the_results_below_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for night in range(3):
        keep(tmp_path / "kept" / str(night), night)
    # one went elsewhere, and one is there twice
    (tmp_path / "kept" / "0").rename(tmp_path / "elsewhere")
    (tmp_path / "kept" / "0").symlink_to(Path("../elsewhere"))
    (tmp_path / "kept" / "2-too").symlink_to(Path("2"))
    (tmp_path / "kept" / "1" / "report.html").touch()
    (tmp_path / "kept" / "result.json").write_text("[]")
    out = tmp_path / "pages"
    arguments = ["results", "history", str(tmp_path / "kept"), "--out", str(out)]
    assert main.run([*arguments, "--json"]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert [one["run_id"] for one in found["runs"]] == [
        f"lookups-{night}" for night in range(3)
    ]
    assert found["runs"][1]["report"] == "../kept/1/report.html"
    assert "left out" in said.err
    assert main.run([*arguments, "--only-job", "other"]) == 2
    assert "there are no runs" in capsys.readouterr().err


JOB = """
vars: {clients: 4}
name: lookups
targets: {server: "ldap://one"}
run: {duration: 10s}
thresholds: [p99 < 1s]
streams:
  - name: readers
    target: server
    load: {clients: "${clients}"}
    operations: [{search: {base: "dc=example,dc=com"}}]
"""


def of_job(night: int, *overrides: str, text: str = JOB) -> dict[str, Any]:
    made = result(night, 1e3, 3e3)
    made["manifest"] |= {
        "job_text": text,
        "job_hash": f"{overrides}{text}",
        "overrides": list(overrides),
    }
    return made


def named(*results: dict[str, Any]) -> list[str]:
    return [one.job for one in by_load(runs_of(*results))]


def test_runs_of_unlike_loads_are_series_of_their_own() -> None:
    found = named(of_job(0), of_job(1, "vars.clients=64"), of_job(2))
    assert found == [
        "lookups (clients 4)",
        "lookups (clients 64)",
        "lookups (clients 4)",
    ]
    assert len(set(named(of_job(0), of_job(1, "run.duration=20s")))) == 2
    many = "run.duration=20s", "run.warm_up=1s", "run.drain=1s", "run.interval=2s"
    results = of_job(0), of_job(1, *many), of_job(2)
    runs = [f"lookups (as run {one['run_id']})" for one in results]
    assert named(*results) == [*runs[:2], runs[0]]
    # of what cannot be read the hash tells, and there is nothing to name it by
    assert len(set(named(of_job(0), of_job(1, text="name: [")))) == 2


def test_where_servers_are_and_how_a_run_is_judged_is_no_other_load() -> None:
    changes = 'targets.server="ldap://two:1389"', "thresholds=[p99 < 2s]", "seed=7"
    assert named(of_job(0), of_job(1, *changes)) == ["lookups"] * 2


def test_runs_of_studies_are_left_out_unless_they_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = tmp_path / "study-clients"
    for number, folder in enumerate((study / "runs" / "001-1-1", tmp_path / "night")):
        keep(folder, number)
    (study / "runs.jsonl").touch()

    def shown(place: Path) -> list[str]:
        out = str(tmp_path / "pages")
        assert main.run(["results", "history", str(place), "--out", out, "--json"]) == 0
        said = capsys.readouterr()
        left_out = "1 runs of studies and searches" in said.err
        assert left_out == (place == tmp_path)
        return [one["run_id"] for one in json.loads(said.out)["runs"]]

    assert shown(tmp_path) == ["lookups-1"]
    assert shown(study) == ["lookups-0"]


def test_a_history_without_a_change_says_so_and_fits_a_page() -> None:
    made = [result(night, 5000.0 + night % 2, 3000.0) for night in range(12)]
    for one in made:
        one["figures"] |= {
            name.replace("search", other): figure
            for other in ("modify", "compare", "add")
            for name, figure in one["figures"].items()
        }
    runs = runs_of(*made)
    content = history_document(runs, series_of(runs))
    assert content.sections[0].blocks[0].kind == "paragraph"
    assert ("First run", "2026-09-01 02:00 UTC") in content.facts
    text = render_text(content)
    assert "No change was found" in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_history_of_minutes_has_times_and_of_weeks_days() -> None:
    noon_s = datetime(2026, 9, 1, 12, 0, 30, tzinfo=UTC).timestamp()
    minutes = dict(_ticks(noon_s, noon_s + 100))
    assert list(minutes.values()) == ["2026-09-01 12:00", "12:01", "12:02"]
    assert [round(day * 86_400) for day in minutes] == [-30, 30, 90]
    weeks = list(_ticks(noon_s, noon_s + 20 * 86_400))
    assert [label for _, label in weeks] == [
        f"2026-09-{day:02d}" for day in (1, 5, 9, 13, 17, 21)
    ]


def test_a_figure_that_is_always_0_has_no_chart() -> None:
    runs = runs_of(*(result(night, 900.0, 2000.0) for night in range(3)))
    charts = [place.title for place in history_document(runs, series_of(runs)).charts()]
    assert "throughput (/s)" in charts
    assert "errors (%)" not in charts
