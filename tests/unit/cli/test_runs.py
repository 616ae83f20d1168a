# SPDX-License-Identifier: Apache-2.0
"""Where commands find runs, and what they say of one that has not ended."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ldapslam.base.errors import (
    AmbiguousRun,
    ConfigError,
    CoordinatorUnreachable,
    LdapSlamError,
    RunNotFound,
)
from ldapslam.cli.client import Client
from ldapslam.cli.console import Invocation
from ldapslam.cli.main import cli
from ldapslam.cli.measure.local_run import _Results
from ldapslam.coordinator.runs.status import stored_status
from ldapslam.results.store import FOLDER_STORE, Store
from ldapslam.studies.study_folder import JOURNAL, RUNS
from support.store import Scenario, fill, run_record

SMALL = Scenario(measure_s=2, searches_per_s=20)
NOBODY = "127.0.0.1:1"
FIRST, SECOND = "20260301-120000-aaaaaa", "20260301-130000-bbbbbb"


def create_run(store: Path, run_id: str, state: str = "finished") -> None:
    with Store.open(store) as opened:
        scenario = replace(SMALL, run={"state": state, "run_id": run_id})
        opened.create_run(run_record(scenario))


def listed(*options: str) -> list[str]:
    """The ids of the runs that `list` has."""
    return [
        one["run_id"] for one in json.loads(ended("list", "--json", *options).stdout)
    ]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with two runs of `ldapslam run`, one of which was killed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LDAPSLAM_COORDINATOR", raising=False)
    monkeypatch.setattr("ldapslam.cli.runs._listens", lambda _: False)
    for run_id, state in ((FIRST, "finished"), (SECOND, "running")):
        create_run(tmp_path / "ldapslam-runs" / run_id / FOLDER_STORE, run_id, state)
    unfinished = tmp_path / "ldapslam-runs" / "unfinished-1" / FOLDER_STORE
    with Store.open(unfinished):
        pass
    return tmp_path


def call(*arguments: str) -> Result:
    return ended("report", *arguments, "--format", "json", "--json")


def ended(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments, obj=Invocation())


def reported(*arguments: str) -> tuple[str, bool, str]:
    """Run, whether it is partial, and what was said about it."""
    result = call(*arguments)
    assert result.exit_code == 0, result.exception
    document = json.loads(result.stdout)
    [file] = document["files"]
    assert json.loads(Path(file).read_text())["run_id"] == document["run_id"]
    return document["run_id"], document["partial"], result.stderr


def test_a_run_of_this_folder_is_found_by_the_beginning_of_its_id() -> None:
    assert reported(FIRST[:11]) == (FIRST, False, "")
    assert Path(f"ldapslam-runs/{FIRST}/result.json").is_file()


def test_a_run_that_has_not_ended_has_a_partial_report() -> None:
    run_id, is_partial, said = reported(f"ldapslam-runs/{SECOND}")
    assert (run_id, is_partial) == (SECOND, True)
    assert "has not ended (it is running): its report is partial" in said


def test_without_a_coordinator_the_latest_is_the_latest_of_this_folder() -> None:
    run_id, _, said = reported("latest")
    assert run_id == SECOND
    assert f"the latest run here: ldapslam-runs/{SECOND}\n" in said


def test_a_killed_run_is_not_the_latest_for_ever(folder: Path) -> None:
    killed = folder / "ldapslam-runs" / "unfinished-2" / FOLDER_STORE
    between = "20260301-123000-cccccc"
    create_run(killed, between, "running")
    assert listed() == [SECOND, between, FIRST]
    assert listed("--local", "--limit", "1") == [SECOND]
    assert reported("latest")[0] == SECOND


@pytest.mark.parametrize(
    "command",
    [
        "list",
        "show latest",
        f"fleet watch {FIRST}",
        "report latest",
        f"results verify {FIRST}",
        "results history",
    ],
)
def test_a_coordinator_that_is_named_is_asked_and_nobody_else(command: str) -> None:
    result = ended(*command.split(), "--coordinator", NOBODY)
    assert isinstance(result.exception, CoordinatorUnreachable)


def test_a_listening_coordinator_is_for_what_this_folder_has_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ldapslam.cli.runs._listens", lambda _: True)
    monkeypatch.setattr("ldapslam.cli.runs.Client.runs", lambda *_: [])

    def run_of_coordinator(client: Client, run: str) -> None:
        raise RuntimeError(run)

    monkeypatch.setattr("ldapslam.cli.runs.Client.run", run_of_coordinator)
    assert len(listed()) == 2
    shown = ended("list", "--json").stderr
    assert "--coordinator 127.0.0.1:7400 shows those of" in shown
    assert "shows those of" not in ended("list", "--json", "--local").stderr
    assert str(ended("show", "2999").exception) == "2999"
    (folder / "ldapslam-runs").rename(folder / "away")
    assert listed() == []
    latest = ended("show", "latest")
    assert str(latest.exception) == "latest"
    assert "the latest run of the coordinator at 127.0.0.1:7400" in latest.stderr


def test_the_history_without_a_place_is_of_the_runs_of_the_coordinator_that_listens(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "ldapslam-runs").rename(folder / "away")
    monkeypatch.setattr("ldapslam.cli.runs._listens", lambda _: True)
    with Store.open(folder / "coordinator.sqlite") as store:
        run_id = fill(store, SMALL)
        store.set_verdict(run_id, "PASS")
        status = stored_status(store.run(run_id))
        monkeypatch.setattr(Client, "runs", lambda *_: [status])
        monkeypatch.setattr(Client, "fetch", lambda _, run: store.export_run(run))
        result = ended("results", "history", "--json")
        assert [one["run_id"] for one in json.loads(result.stdout)["runs"]] == [run_id]
        other = ended("results", "history", "--only-job", "other")
        assert "there are no runs" in str(other.exception)


@pytest.mark.parametrize("run", ["latest", SECOND[:11], f"ldapslam-runs/{SECOND}"])
def test_a_run_of_this_folder_is_shown(run: str) -> None:
    result = ended("show", run, "--json")
    assert json.loads(result.stdout)["run_id"] == SECOND


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (f"fleet watch {SECOND}", "was left in state 'running'"),
        (f"fleet cancel {FIRST}", "is not under way"),
        ("show 1999", "`ldapslam list` shows the runs of ldapslam-runs"),
        ("show somewhere/else", "name one that `ldapslam run` or"),
        ("show latest --local --store x", "--store and --local name different"),
    ],
)
def test_what_cannot_be_done_with_a_run_is_explained(command: str, said: str) -> None:
    error = ended(*command.split()).exception
    assert isinstance(error, LdapSlamError)
    assert said in f"{error}: {error.hint}"


def test_a_variable_says_whose_latest_run_is_meant_and_no_id_needs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LDAPSLAM_COORDINATOR", NOBODY)
    assert isinstance(call("latest").exception, CoordinatorUnreachable)
    assert reported(FIRST)[0] == FIRST


def test_the_beginning_of_several_ids_is_ambiguous() -> None:
    result = call("20260301")
    assert isinstance(result.exception, AmbiguousRun)
    assert FIRST in str(result.exception.hint)
    assert SECOND in str(result.exception.hint)


def test_a_store_that_is_named_is_read_and_no_folder(folder: Path) -> None:
    path = folder / "all.sqlite"
    with Store.open(path) as store:
        run_id = fill(store, SMALL)
    assert reported("latest", "--store", str(path))[0] == run_id
    assert reported(run_id[:10], "--store", str(path))[0] == run_id
    assert isinstance(call(FIRST, "--store", str(path)).exception, RunNotFound)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the browser was told to open; there is a display, and no ssh."""
    for name in ("BROWSER", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DISPLAY", ":0")
    found: list[str] = []

    def open_page(uri: str) -> bool:
        found.append(uri)
        return True

    monkeypatch.setattr("webbrowser.open", open_page)
    return found


def test_the_report_of_a_run_is_written_and_opened(
    folder: Path, opened: list[str]
) -> None:
    page = folder / "ldapslam-runs" / FIRST / "report.html"
    result = ended("report", "--open", FIRST)
    assert result.stdout == f"{page.relative_to(folder)}\n"
    assert page.is_file()
    assert opened == [page.as_uri()]


def test_a_page_that_was_made_while_the_run_went_on_is_made_again(
    folder: Path, opened: list[str]
) -> None:
    path, run_id = folder / "all.sqlite", "20260401-120000-dddddd"
    create_run(path, run_id, "running")
    first = ended("report", "--open", run_id, "--store", str(path))
    assert "its report is partial" in first.stderr
    page = folder / "ldapslam-runs" / run_id / "report.html"
    page.write_text("partial")
    ended("report", "--open", run_id, "--store", str(path))
    assert page.read_text() != "partial"
    assert opened == [page.as_uri()] * 2


def test_the_page_of_a_study_is_opened(folder: Path, opened: list[str]) -> None:
    page = folder / "mine" / "study.html"
    page.parent.mkdir()
    page.touch()
    ended("report", "--open", "mine")
    assert opened == [page.as_uri()]


@pytest.mark.parametrize(
    ("variable", "value"),
    [("DISPLAY", ""), ("SSH_CONNECTION", "10.0.0.1 1 10.0.0.2 22")],
)
def test_where_there_is_no_display_the_path_is_all(
    opened: list[str], monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    result = ended("report", "--open", FIRST)
    assert opened == []
    assert result.stdout.endswith("report.html\n")
    assert "no display" in result.stderr


def test_a_run_whose_results_went_elsewhere_is_the_latest_of_this_folder(
    folder: Path,
) -> None:
    last = "20260301-140000-dddddd"
    results = _Results(Path("elsewhere"))
    create_run(results.folder / FOLDER_STORE, last)
    assert listed()[0] == last  # also while it goes
    results.keep(last)
    assert reported("latest")[0] == last
    assert Path("elsewhere/result.json").is_file()
    (folder / "elsewhere").rename(folder / "moved")
    assert reported("latest")[0] == SECOND


def test_a_link_never_shows_a_later_run_as_the_one_it_was_made_for() -> None:
    """As after `rm -rf elsewhere` between two runs with `--out elsewhere`."""
    ids = "20260301-140000-dddddd", "20260301-150000-eeeeee"
    for run_id in ids:
        results = _Results(Path("elsewhere"))
        create_run(results.folder / FOLDER_STORE, run_id)
        results.keep(run_id)
        assert reported(run_id)[0] == run_id
        Path("elsewhere").rename(f"was-{run_id}")
    Path(f"was-{ids[1]}").rename("elsewhere")
    assert listed() == [ids[1], SECOND, FIRST]
    assert isinstance(call(ids[0]).exception, RunNotFound)


def test_the_link_of_a_killed_run_shows_no_later_run_twice() -> None:
    later = "20260301-140000-dddddd"
    for is_killed in (True, False):
        results = _Results(Path("elsewhere"))
        create_run(results.folder / FOLDER_STORE, later)
        if is_killed:
            Path("elsewhere").rename("was")
    results.keep(later)
    assert listed() == [later, SECOND, FIRST]


def test_a_run_that_did_not_begin_leaves_neither_folder_nor_link(folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    with _Results(folder / "elsewhere") as results:
        assert results.folder.is_dir()
    assert sorted(folder.rglob("*")) == before


def test_a_run_of_a_study_is_the_studys(folder: Path) -> None:
    study = folder / "study"
    (study / RUNS).mkdir(parents=True)
    (study / JOURNAL).touch()
    before = sorted((folder / "ldapslam-runs").iterdir())
    _Results(study / RUNS / "0001").keep("20260301-140000-dddddd")
    assert sorted((folder / "ldapslam-runs").iterdir()) == before


@pytest.mark.parametrize("command", ["report", "compare"])
def test_a_folder_of_many_runs_is_not_one_of_them(folder: Path, command: str) -> None:
    """Of a gate, say: the last one is no more meant than another."""
    for run_id in (FIRST, SECOND):
        create_run(folder / "gate" / FOLDER_STORE, run_id)
    given = (FIRST,) if command == "compare" else ()
    result = ended(command, *given, "./gate")
    assert isinstance(result.exception, ConfigError)
    assert "has 2 runs" in str(result.exception)
    assert "--store gate/results.sqlite" in (result.exception.hint or "")
    # reports do not go to the folder of the run here that has this id
    out = ("--out", "reports", "--format", "json") if command == "report" else ()
    named = ended(command, SECOND, *given, "--store", "./gate/results.sqlite", *out)
    assert not isinstance(named.exception, ConfigError)
