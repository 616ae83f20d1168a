# SPDX-License-Identifier: Apache-2.0
"""What the shell offers behind the words of a line."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from click.shell_completion import ShellComplete

from ldapslam.base.errors import FleetError
from ldapslam.cli import client
from ldapslam.cli.main import cli
from ldapslam.jobs.describe import describe
from ldapslam.lab import standing


def offered(*line: str) -> list[str]:
    """For a line whose last word is unfinished, as the shell's script asks."""
    shell = ShellComplete(cli, {}, "ldapslam", "_LDAPSLAM_COMPLETE")
    *words, unfinished = line
    return [item.value for item in shell.get_completions(words, unfinished)]


class FakeClient:
    """A coordinator with two runs, an agent and a schedule."""

    def __init__(self, address: str) -> None:
        if address != "there:1":
            raise FleetError(f"nothing at {address}")

    def __enter__(self) -> FakeClient:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def runs(self, limit: int) -> list[SimpleNamespace]:
        return [SimpleNamespace(run_id=f"2026-{n}") for n in (2, 1)][:limit]

    def agents(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(name="load1")]

    def schedules(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(name="nightly", schedule_id="s-1")]


@pytest.fixture(autouse=True)
def _coordinator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # its methods: modules that are imported meanwhile keep the class
    for name, method in vars(FakeClient).items():
        if callable(method):
            monkeypatch.setattr(client.Client, name, method)
    monkeypatch.setenv("LDAPSLAM_COORDINATOR", "there:1")
    monkeypatch.chdir(tmp_path)


def test_runs_are_those_of_the_coordinator() -> None:
    assert offered("show", "") == ["latest", "2026-2", "2026-1"]
    assert offered("fleet", "watch", "2026-2") == ["2026-2"]


def test_without_a_coordinator_nothing_is_offered_or_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert offered("show", "--coordinator", "gone:1", "2") == []
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "command", [("report",), ("results", "verify"), ("compare", "latest")]
)
def test_reports_are_of_runs_of_this_folder_too(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    for name, file in (("2026-8", "results.sqlite"), ("2026-9", "notes")):
        folder = tmp_path / "ldapslam-runs" / name
        folder.mkdir(parents=True)
        (folder / file).touch()
    assert offered(*command, "2026-") == ["2026-8", "2026-2", "2026-1"]


def test_names_of_agents_and_schedules() -> None:
    assert offered("fleet", "agents", "l") == ["load1"]
    assert offered("fleet", "schedule", "set", "") == ["nightly"]


def test_names_of_labs(monkeypatch: pytest.MonkeyPatch) -> None:
    labs = [{"name": "lab"}, {"name": "other"}]
    monkeypatch.setattr(standing, "descriptions", lambda: labs)
    assert offered("lab", "down", "") == ["lab", "other"]


def test_topics_are_those_that_describe_explains() -> None:
    found = offered("describe", "")
    assert {"run", "streams.load.stages", "types.burst", "patterns"} <= set(found)
    for topic in found[::7]:
        assert describe(topic)
    assert offered("describe", "streams.load.s") == ["streams.load.stages"]


def test_variables_are_those_of_the_job_on_the_line(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("vars: {users: 1000, base: 'dc=a'}\n")
    (tmp_path / "job.yaml").write_text("extends: base.yaml\nvars: {users: 5}\n")
    assert offered("run", "job.yaml", "--var", "") == ["users=5", "base=dc=a"]
    changed = ("gate", "--var", "users=6", "job.yaml", "--var", "b")
    assert offered(*changed) == ["base=dc=a"]
    assert offered("run", "--var", "") == []
    assert offered("run", "none.yaml", "--var", "") == []


def test_a_job_is_a_file() -> None:
    shell = ShellComplete(cli, {}, "ldapslam", "_LDAPSLAM_COMPLETE")
    assert [one.type for one in shell.get_completions(["submit"], "")] == ["file"]
