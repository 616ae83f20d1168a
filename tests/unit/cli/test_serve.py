# SPDX-License-Identifier: Apache-2.0
"""What a coordinator says of itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from click.testing import CliRunner

from ldapslam.cli.serve import coordinator_command
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
