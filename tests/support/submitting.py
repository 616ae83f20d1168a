# SPDX-License-Identifier: Apache-2.0
"""A fleet on this host for tests that submit one job after another: a coordinator and
two agents, as processes. Unlike `ldapslam run` it writes no report."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.command_line import Running, ldapslam

_AGENTS = 2


@dataclass(frozen=True)
class SubmittingFleet:
    """Where jobs are submitted."""

    address: str
    folder: Path

    def submit(self, job: Path, *settings: str) -> tuple[int, dict[str, Any]]:
        """Exit code and result of the job, with `--set` settings, once it has run."""
        options = [word for one in settings for word in ("--set", one)]
        options += ["--wait", "--json", "--coordinator", self.address]
        ended = ldapslam("submit", job, *options, cwd=self.folder)
        assert ended.stdout, ended.stderr
        return ended.returncode, json.loads(ended.stdout)


@pytest.fixture(scope="session")
def submitting_fleet(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SubmittingFleet]:
    folder = tmp_path_factory.mktemp("submitting")
    with ExitStack() as stack:
        store = folder / "results.sqlite"
        coordinator = stack.enter_context(
            Running(
                *("coordinator", "--listen", "127.0.0.1:0", "--store", store),
                cwd=folder,
                name="coordinator",
            )
        )
        coordinator.wait_for_text("coordinator on ")
        found = re.search(r"coordinator on (\S+),", coordinator.stderr)
        assert found is not None
        for number in range(_AGENTS):
            name = f"load{number}"
            agent = stack.enter_context(
                Running(
                    *("agent", "--coordinator", found[1], "--name", name),
                    *("--spool", folder / name, "--allow-secret", "any"),
                    cwd=folder,
                    name=name,
                )
            )
            agent.wait_for_text("registered")
        yield SubmittingFleet(found[1], folder)
