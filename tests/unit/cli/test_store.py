# SPDX-License-Identifier: Apache-2.0
"""`results backup` and `results prune`: what they say, and what they refuse."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ldapslam.base.errors import ConfigError, NoStore
from ldapslam.cli.main import cli
from ldapslam.coordinator.security.ownership import owned_store
from ldapslam.results import audit
from ldapslam.results.audit import AuditRecord
from ldapslam.results.records import utc_text
from ldapslam.results.store import Store
from support.store import Scenario, run_record


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Runs that ended 1, 10 and 100 days ago, and one that goes."""
    path = tmp_path / "results.sqlite"
    with Store.open(path) as store:
        for days in (1, 10, 100):
            ended = utc_text(datetime.now(UTC) - timedelta(days=days))
            record = replace(
                run_record(Scenario()),
                run_id=f"run-{days}",
                submitted_utc=ended,
                finished_utc=ended,
            )
            store.create_run(record)
        live = replace(
            run_record(Scenario()),
            run_id="live",
            state="running",
            submitted_utc="2020-01-01T00:00:00.000000Z",
            finished_utc=None,
        )
        store.create_run(live)
    return path


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["results", *map(str, arguments)])


def result(*arguments: str | Path) -> dict[str, Any]:
    ended = call(*arguments, "--json")
    assert ended.exit_code == 0, ended.exception
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def ids(path: Path) -> set[str]:
    with Store.open(path) as store:
        return {run.run_id for run in store.runs()}


def test_a_dry_prune_says_how_large_the_store_is_and_what_is_in_it(path: Path) -> None:
    found = result("prune", "--dry-run", "--store", path)
    assert (found["runs"], found["removed"]) == ([], False)
    assert found["store"]["runs"] == {"finished": 3, "running": 1}
    assert found["store"]["size_bytes"] > 50_000
    shown = call("prune", "--dry-run", "--store", path).stdout
    assert "runs       4 (3 finished, 1 running)" in shown.splitlines()


@pytest.mark.parametrize(
    ("options", "gone"),
    [
        (["--keep-for", "90d"], {"run-100"}),
        (["--keep-for", "36h"], {"run-10", "run-100"}),
        (["--keep-for", "1w"], {"run-10", "run-100"}),
        (["--keep-runs", "1"], {"run-10", "run-100"}),
        (["--keep-runs", "0"], {"run-1", "run-10", "run-100"}),
        (["--keep-for", "5d", "--keep-runs", "2"], {"run-100"}),
    ],
)
def test_prune_removes_what_is_not_kept_and_never_a_live_run(
    path: Path, options: list[str], gone: set[str]
) -> None:
    before = ids(path)
    shown = result("prune", *options, "--dry-run", "--store", path)
    assert ({run["run_id"] for run in shown["runs"]}, shown["removed"]) == (gone, False)
    assert ids(path) == before
    done = call("prune", *options, "--store", path)
    assert {line.split()[0] for line in done.stdout.splitlines()} == gone
    assert f"{len(gone)} run" in done.stderr
    assert ids(path) == before - gone


def test_prune_shortens_the_audit_log_only_when_told_to_and_leaves_a_trace(
    path: Path,
) -> None:
    with Store.open(path) as store:
        for days in (400, 100, 1):
            at_utc = utc_text(datetime.now(UTC) - timedelta(days=days))
            record = AuditRecord(at_utc, "ann", "local", "", "submit", f"run-{days}")
            audit.add(store, record)
    assert result("prune", "--keep-runs", "0", "--store", path)["audit_entries"] == 0
    shown = result("prune", "--keep-audit", "30d", "--dry-run", "--store", path)
    assert shown["audit_entries"] == 2
    ended = call("prune", "--keep-audit", "30d", "--store", path)
    assert "0 runs, 2 entries of the audit log removed" in ended.stderr
    with Store.open(path) as store:
        kept = [(one.number, one.action, one.subject) for one in audit.newest(store)]
    assert kept == [(4, "prune", "audit"), (3, "submit", "run-1")]
    assert result("prune", "--keep-audit", "30d", "--store", path)["audit_entries"] == 0
    with Store.open(path) as store:
        assert len(audit.newest(store)) == 2


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--keep-for", "90"],
        ["--keep-audit", "90"],
        ["--keep-for", "3m"],
        ["--keep-for", "-1d"],
    ],
)
def test_prune_without_a_rule_it_understands_removes_nothing(
    path: Path, options: list[str]
) -> None:
    assert isinstance(call("prune", *options, "--store", path).exception, ConfigError)
    assert len(ids(path)) == 4


def test_prune_and_backup_work_while_a_coordinator_has_the_store(
    path: Path, tmp_path: Path
) -> None:
    """And only without one the space comes back."""
    copy = tmp_path / "copy.sqlite"
    with Store.open(path) as store, owned_store(store):
        ended = call("prune", "--keep-for", "90d", "--store", path)
        assert "is in use by a coordinator)" in ended.stderr
        assert result("backup", "-o", copy, "--store", path)["file"] == str(copy)
    assert ids(copy) == {"run-1", "run-10", "live"}
    ended = call("prune", "--keep-runs", "0", "--store", path)
    assert "2 runs removed" in ended.stderr
    assert "in use" not in ended.stderr
    assert result("prune", "--dry-run", "--store", path)["store"]["free_bytes"] == 0


@pytest.mark.parametrize(
    "line", ["prune --dry-run", "prune --keep-for 1d", "backup -o x"]
)
@pytest.mark.parametrize("form", ["{}", "sqlite:///{}"])
def test_a_store_that_is_not_there_is_not_made(
    tmp_path: Path, line: str, form: str
) -> None:
    path = tmp_path / "nosuch.sqlite"
    ended = call(*line.split(), "--store", form.format(path))
    assert isinstance(ended.exception, NoStore)
    assert list(tmp_path.iterdir()) == []
