# SPDX-License-Identifier: Apache-2.0
"""A generator at fault makes the run INVALID, and leaves the directory's time true."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from ldapslam.base.errors import ExitCode
from support.command_line import COMMAND, environment
from support.engine import start_responder
from support.figures import value_of
from support.processes import processes_below
from support.truth import record_of

pytestmark = pytest.mark.accuracy

_RATE_PER_S = 1000
_JOB = """
name: stopped-generator
targets: {{server: "{uri}"}}
run: {{duration: 4s, interval: 500ms}}
streams:
  - name: load
    target: server
    load: {{rate: {rate}/s, arrivals: constant, connections: 500, in_flight: 1}}
    operations:
      - search: {{base: "dc=example,dc=com", filter: "(uid=user.[0-999])", scope: sub}}
"""


def engine_process(parent: int) -> psutil.Process:
    """The process below `parent` that runs the engine."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for process in processes_below(parent, "ldapslam.agent.engine.process"):
            return process
        time.sleep(0.01)
    raise AssertionError("there is no engine process")


def test_engine_stopped_for_300_ms_makes_the_run_invalid(tmp_path: Path) -> None:
    server = start_responder(delays=[(1, 10_000_000)], record_capacity=100_000)
    job = tmp_path / "job.yaml"
    job.write_text(_JOB.format(uri=server.uri, rate=_RATE_PER_S))
    command = [*COMMAND, "run", str(job), "--out", str(tmp_path / "out")]
    with subprocess.Popen(
        command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as run:
        while server.counts()["search"] < _RATE_PER_S and run.poll() is None:
            time.sleep(0.001)
        engine = engine_process(run.pid)
        engine.send_signal(signal.SIGSTOP)
        time.sleep(0.3)
        engine.send_signal(signal.SIGCONT)
        _, log = run.communicate(timeout=60)
    assert run.returncode == ExitCode.INVALID, log.decode()
    result: dict[str, Any] = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["verdict"] == "INVALID"
    broken = [rule["name"] for rule in result["rules"] if not rule["passed"]]
    assert "send_lag" in broken

    counts = result["streams"]["load"]["search"]
    assert counts["completed"] == counts["scheduled"] == 4 * _RATE_PER_S
    # 300 of 4,000 arrivals were due in the stop: their send lag is up to 300 ms
    assert 200_000 < value_of(result, "load.search.send_lag.p99") < 350_000
    # ten or so were in flight: their answers came in time and were read late
    assert value_of(result, "load.search.receive_lag.max") > 250_000
    record = np.sort(record_of(server))
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        theirs_us = record[int(share * record.size)] / 1e3
        ours_us = value_of(result, f"load.search.service_time.{name}")
        assert abs(ours_us - theirs_us) <= max(0.01 * theirs_us, 30)
