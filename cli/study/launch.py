# SPDX-License-Identifier: Apache-2.0
"""Runs of a study: each a process that runs `ldapslam run` or `ldapslam submit`."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from ldapslam.base.errors import ExitCode
from ldapslam.base.files import part_of
from ldapslam.base.process import Fork
from ldapslam.cli.measure.fork import fork_command
from ldapslam.studies.points import Point
from ldapslam.studies.runner import RESULT, Launch


def runs_of(base: Path, coordinator: str | None) -> Launch:
    """Runs of the points' jobs, found from `base`: by the fleet of a coordinator, which
    keeps them, or on this host, each with a coordinator and agents of its own."""

    def on_this_host(point: Point, folder: Path, log: Path) -> int:
        arguments = ["run", *job_of(point), "--out", str(folder)]
        if point.agents is not None:
            arguments += ["--agents", str(point.agents)]
        if point.made_of:
            arguments += ["--made-of", json.dumps(point.made_of)]
        return _run(arguments, Path(os.devnull), log)

    def by_fleet(point: Point, folder: Path, log: Path) -> int:
        arguments = ["submit", *job_of(point), "--wait", "--json"]
        if point.agents is not None:
            arguments += ["--set", f"agents={{count: {point.agents}}}"]
        folder.mkdir(mode=0o700)
        answer = part_of(folder / RESULT)
        code = _run([*arguments, "--coordinator", str(coordinator)], answer, log)
        if code in (ExitCode.PASS, ExitCode.FAIL, ExitCode.INVALID):
            os.replace(answer, folder / RESULT)
        return code

    def job_of(point: Point) -> list[str]:
        changes = [word for one in point.overrides for word in ("--set", one)]
        return [str(base / point.job), *changes]

    return on_this_host if coordinator is None else by_fleet


def _run(arguments: Sequence[str], out: Path, log: Path) -> int:
    """The exit code of `ldapslam ARGUMENTS…`. Ctrl-C reaches it once, through us."""
    with out.open("wb") as put, log.open("ab") as said:
        child = fork_command(arguments, put, said)
    return _waited(child)


def _waited(child: Fork) -> int:
    wait: Callable[[], int | None] = child.wait
    try:
        code = wait()
    except KeyboardInterrupt:
        child.send_signal(signal.SIGINT)  # its run is cancelled and drains
        try:
            wait()
        except KeyboardInterrupt:
            child.send_signal(signal.SIGINT)
            wait()
        raise
    assert code is not None
    return code
