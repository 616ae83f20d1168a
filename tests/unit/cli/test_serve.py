# SPDX-License-Identifier: Apache-2.0
"""What a coordinator says of itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from ldapslam.base.errors import ConfigError
from ldapslam.cli.serve.serve import agent_command, coordinator_command
from ldapslam.coordinator import server

URL = "postgresql://u:hunter2@db/x"


def test_a_coordinator_uses_the_password_of_its_store_and_does_not_say_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used = []

    def run_coordinator(
        listen: list[str],
        store: str,
        *,
        on_ready: Callable[[Sequence[str]], None],
        **_: object,
    ) -> None:
        used.append(store)
        on_ready(listen)

    monkeypatch.setattr(server, "run_coordinator", run_coordinator)
    ended = CliRunner().invoke(coordinator_command, ["--store", URL])
    assert ended.exit_code == 0, ended.output
    assert used == [URL]
    assert "store postgresql://u:***@db/x" in ended.output
    assert "hunter2" not in ended.output


@pytest.mark.parametrize(
    ("written", "used"),
    [
        ('"127.0.0.1:1"', ["127.0.0.1:1"]),
        ('["127.0.0.1:1", "[::1]:2"]', ["127.0.0.1:1", "[::1]:2"]),
    ],
)
def test_what_may_be_repeated_is_one_value_or_a_list_in_a_settings_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, written: str, used: list[str]
) -> None:
    found: list[str] = []
    monkeypatch.setattr(
        server, "run_coordinator", lambda listen, *_, **__: found.extend(listen)
    )
    file = tmp_path / "coordinator.toml"
    file.write_text(f"listen = {written}\nstore = '{tmp_path}/results.sqlite'\n")
    ended = CliRunner().invoke(coordinator_command, ["--config", str(file)])
    assert ended.exit_code == 0, ended.output
    assert found == used


def test_a_label_has_one_value() -> None:
    labels = ("--label", "site=a", "--label", "site=b")
    refused = CliRunner().invoke(agent_command, labels).exception
    assert isinstance(refused, ConfigError)
    assert "'site' is given twice: 'a' and 'b'" in str(refused)
