# SPDX-License-Identifier: Apache-2.0
"""A fleet on this host for tests that submit one job after another: a coordinator and
two agents, as processes. Unlike `ldapslam run` it writes no report."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.command_line import Running, ldapslam

AGENTS = 2


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


def start_fleet(
    stack: ExitStack, folder: Path, names: Sequence[str], *agent_options: str
) -> str:
    """Start a coordinator and these agents in a folder; its address."""

    def start(name: str, until: str, *arguments: str | Path) -> str:
        running = stack.enter_context(Running(*arguments, cwd=folder, name=name))
        running.wait_for_text(until)
        return running.stderr

    said = start(
        "coordinator",
        "coordinator on ",
        *("coordinator", "--listen", "127.0.0.1:0"),
        *("--store", folder / "results.sqlite"),
    )
    found = re.search(r"coordinator on (\S+),", said)
    assert found is not None
    for name in names:
        start(
            name,
            "registered",
            *("agent", "--coordinator", found[1], "--name", name),
            *("--spool", folder / name),
            *agent_options,
        )
    return found[1]


@pytest.fixture(scope="session")
def submitting_fleet(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SubmittingFleet]:
    folder = tmp_path_factory.mktemp("submitting")
    names = [f"load{number}" for number in range(AGENTS)]
    with ExitStack() as stack:
        address = start_fleet(stack, folder, names, "--allow-secret", "any")
        yield SubmittingFleet(address, folder)
