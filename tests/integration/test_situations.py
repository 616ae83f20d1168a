# SPDX-License-Identifier: Apache-2.0
"""Situations of a run, each made for real, and what a careful engineer would call them:
the verdict, its exit code, and the cause that the reasons name.

The target is the responder of canned answers where the situation needs one that
hangs, dies or takes its time on request, and slapd elsewhere.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from ldapslam.agent._engine import Responder
from ldapslam.base.errors import ExitCode
from ldapslam.lab import Lab
from support.command_line import TIMEOUT_S, Running

MS = 1_000_000
CODES = {"PASS": ExitCode.PASS, "FAIL": ExitCode.FAIL, "INVALID": ExitCode.INVALID}

_JOB = """\
job: situation
targets: {{server: "{uri}"}}
run: {{duration: 5s, interval: 200ms, drain: 2s}}
seed: 1
{bind}
streams:
  - name: load
    target: server
    load: {load}
    operations: {operations}
thresholds: {thresholds}
# other work on the machine is not what these situations are about
validity: {{disturbed_intervals: 50%, loop_share: 100%, send_lag_p99: 50ms, {validity}}}
"""

OPEN = "{open: {rate: 400/s, arrivals: poisson, connections: 16}}"
CLOSED = "{closed: {clients: 4, think_time: 5ms}}"
SEARCH = '[search: {base: "dc=example,dc=com", filter: "(uid=user.[0-999])"}]'
P99 = "load.search.response_time.p99 < 100ms"
LENIENT = "load.search.response_time.p99 < 1s"


@dataclass(frozen=True)
class Result:
    verdict: str
    code: int
    reasons: str
    content: dict[str, Any]


def run_against(
    uri: str,
    folder: Path,
    load: str,
    *,
    operations: str = SEARCH,
    thresholds: tuple[str, ...] = (),
    validity: str = "",
    bind: str = "",
    meanwhile: Callable[[psutil.Process], None] = lambda _: None,
    is_loaded: Callable[[], bool] = lambda: True,
) -> Result:
    """`meanwhile` begins with the load."""
    job = folder / "job.yaml"
    job.write_text(
        _JOB.format(
            uri=uri,
            load=load,
            operations=operations,
            thresholds=json.dumps(thresholds),
            validity=validity,
            bind=f"bind: {bind}" if bind else "",
        )
    )
    with Running("run", job, "--json", cwd=folder) as run:
        deadline_s = time.monotonic() + TIMEOUT_S
        while not is_loaded():
            assert run.process.poll() is None, run.stderr
            assert time.monotonic() < deadline_s
            time.sleep(0.02)
        meanwhile(psutil.Process(run.process.pid))
        code = run.process.wait(TIMEOUT_S)
        assert run.stdout, run.stderr
        content = json.loads(run.stdout)
    return Result(content["verdict"], code, "; ".join(content["reasons"]), content)


def hang(responder: Responder, for_s: float) -> None:
    time.sleep(1.0)
    responder.pause()
    time.sleep(for_s)
    responder.resume()


def die(responder: Responder) -> None:
    time.sleep(1.0)
    responder.stop()


def stop_engines(command: psutil.Process, for_s: float) -> None:
    """All of the command's processes stand still."""
    time.sleep(1.0)
    processes = [*command.children(recursive=True), command]
    for process in processes:
        process.suspend()
    time.sleep(for_s)
    for process in processes:
        process.resume()


@pytest.mark.parametrize(
    ("load", "delay_ms", "thresholds", "act", "verdict", "says"),
    [
        pytest.param(OPEN, 1, (LENIENT,), None, "PASS", "", id="healthy, open"),
        pytest.param(CLOSED, 1, (LENIENT,), None, "PASS", "", id="healthy, closed"),
        pytest.param(OPEN, 150, (P99,), None, "FAIL", "above the limit", id="slow"),
        pytest.param(
            "{open: {rate: 400/s, connections: 2, in_flight: 1, max_backlog: 50}}",
            10,
            (),
            None,
            "FAIL",
            "overloaded: ",
            id="overloaded",
        ),
        pytest.param(
            OPEN, 1, (), lambda r, _: hang(r, 2.6), "FAIL", "unavailable", id="hangs"
        ),
        pytest.param(
            CLOSED,
            1,
            (),
            lambda r, _: hang(r, 2.6),
            "FAIL",
            "unavailable",
            id="hangs, closed",
            marks=pytest.mark.long,
        ),
        pytest.param(
            OPEN,
            1,
            (P99,),
            lambda r, _: hang(r, 0.5),
            "FAIL",
            "above the limit",
            id="hangs for too short a time to be an outage, but not for a p99",
            marks=pytest.mark.long,
        ),
        pytest.param(
            CLOSED, 1, (), lambda r, _: die(r), "FAIL", "unavailable", id="dies, closed"
        ),
        pytest.param(
            OPEN,
            1,
            (),
            lambda r, _: die(r),
            "FAIL",
            "unavailable",
            id="dies",
            marks=pytest.mark.long,
        ),
        pytest.param(
            OPEN,
            1,
            (P99,),
            lambda _, c: stop_engines(c, 0.5),
            "INVALID",
            "sent too late",
            id="generator stood still",
        ),
        pytest.param(
            OPEN,
            1,
            ("load.search.response_time.p50 < 100ms",),
            lambda _, c: stop_engines(c, 0.1),
            "PASS",
            "",
            id="generator stood still, for no matter",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "{open: {rate: 2000k/s, connections: 64, max_backlog: 1000}}",
            0,
            (),
            None,
            "INVALID",
            "an agent was disturbed",
            id="beyond the generator",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_situation_gets_its_verdict(
    tmp_path: Path,
    load: str,
    delay_ms: int,
    thresholds: tuple[str, ...],
    act: Callable[[Responder, psutil.Process], None] | None,
    verdict: str,
    says: str,
) -> None:
    responder = Responder(delays=[(1, delay_ms * MS)] if delay_ms else [])
    responder.start()
    result = run_against(
        responder.uri,
        tmp_path,
        load,
        thresholds=thresholds,
        meanwhile=lambda command: act(responder, command) if act else None,
        is_loaded=lambda: responder.counts()["search"] > 10,
    )
    assert (result.verdict, result.code) == (verdict, CODES[verdict]), result.reasons
    assert says in result.reasons


@pytest.mark.parametrize(
    ("operations", "thresholds", "verdict", "says"),
    [
        pytest.param(
            '[search: {base: "dc=example,dc=com", filter: "(uid=nobody.[0-9])"}]',
            (),
            "FAIL",
            "searches found nothing",
            id="data that is not there",
        ),
        pytest.param(
            '[search: {base: "dc=example,dc=com", scope: base}, '
            'modify: {dn: "uid=nobody.[0-9],dc=example,dc=com", '
            "replace: {description: x}}]",
            (P99,),
            "FAIL",
            "noSuchObject",
            id="half of it fails",
        ),
        pytest.param(
            '[search: {base: "dc=example,dc=com", scope: base}]',
            (LENIENT, "load.*.errors <= 0%"),
            "PASS",
            "",
            id="healthy",
        ),
        pytest.param(
            '[search: {base: "dc=example,dc=com", scope: base}]',
            ("load.search.throughput > 380/s",),
            "PASS",
            "",
            id="a rate that is reached",
            marks=pytest.mark.long,
        ),
        pytest.param(
            '[search: {base: "dc=example,dc=com", scope: base}]',
            ("load.search.throughput > 500/s",),
            "FAIL",
            "threshold failed: load.search.throughput",
            id="a rate that is not",
            marks=pytest.mark.long,
        ),
        pytest.param(
            '[search: {base: "dc=example,dc=com", scope: base}]',
            ("load.search.response_time.p99.99 < 100ms",),
            "INVALID",
            "a longer run",
            id="too short a run",
        ),
    ],
)
def test_a_situation_of_slapd_gets_its_verdict(
    slapd_trio: Lab,
    tmp_path: Path,
    operations: str,
    thresholds: tuple[str, ...],
    verdict: str,
    says: str,
) -> None:
    password = slapd_trio.admin_password_file
    result = run_against(
        slapd_trio.supplier.uri,
        tmp_path,
        OPEN,
        operations=operations,
        thresholds=thresholds,
        bind=f'{{dn: "{slapd_trio.admin_dn}", password: {{file: "{password}"}}}}',
    )
    assert (result.verdict, result.code) == (verdict, CODES[verdict]), result.reasons
    assert says in result.reasons
