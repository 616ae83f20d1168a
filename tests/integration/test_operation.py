# SPDX-License-Identifier: Apache-2.0
"""A coordinator in operation: health, logs, verdicts, ends of runs."""

from __future__ import annotations

import json
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ldapslam.reports.summarise import summarise
from support.command_line import Running, ldapslam
from support.fleet import FleetOfProcesses, fake_engine, job_text

#: A judge gives way to everything else: on a busy host it takes its time.
JUDGED_WITHIN_S = 90.0

Start = Callable[..., Running]


@pytest.fixture
def start(fleet: FleetOfProcesses) -> Iterator[Start]:
    """Starts `ldapslam coordinator` with these options; `fleet` is then its fleet."""
    with ExitStack() as stack:
        count = 0

        def start(*options: str, **variables: str) -> Running:
            nonlocal count
            count += 1
            running = Running(
                *("coordinator", "--listen", fleet.address, "--store", fleet.store),
                *options,
                cwd=fleet.folder,
                name=f"coordinator-{count}",
                variables=variables,
            )
            stack.enter_context(running)
            running.wait_for_text("coordinator on ")
            return running

        yield start


@pytest.fixture
def agents(fleet: FleetOfProcesses, start: Start) -> Callable[..., None]:
    def begin(*names: str) -> None:
        for name in names:
            fleet.start_agent(name, fake_engine())
        fleet.wait_for_agents(*names, timeout_s=90)

    return begin


def health(fleet: FleetOfProcesses) -> tuple[int, str]:
    ended = ldapslam("fleet", "status", "--coordinator", fleet.address)
    return ended.returncode, ended.stdout.strip()


# Health.


def test_a_coordinator_serves_until_its_store_takes_no_writes_and_again_after(
    fleet: FleetOfProcesses, start: Start
) -> None:
    """One that does not answer, or is not there, is not healthy either."""
    running = start()
    assert health(fleet) == (0, "SERVING")
    assert listening_sockets(running.process.pid) == []
    pid = running.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    # to the process, every disk is full
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
    with fleet.client() as client:
        fleet.wait_until(lambda: client.health() == "NOT_SERVING", "not serving")
    assert health(fleet) == (5, "NOT_SERVING")
    resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
    with fleet.client() as client:
        fleet.wait_until(lambda: client.health() == "SERVING", "serving again")
    running.process.send_signal(signal.SIGSTOP)
    try:
        assert health(fleet)[0] == 5
    finally:
        running.process.send_signal(signal.SIGCONT)
    running.process.terminate()
    assert running.wait() == 0
    assert health(fleet)[0] == 5


def listening_sockets(pid: int) -> list[str]:
    """Lines of /proc/net/tcp: TCP sockets on which the process accepts connections."""
    owned = {
        link.readlink().name
        for link in Path(f"/proc/{pid}/fd").iterdir()
        if link.is_symlink()
    }
    return [
        line
        for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
        if line.split()[3] == "0A" and f"socket:[{line.split()[9]}]" in owned
    ]


# Logs.


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_line_is_json_of_coordinator_agent_and_engine(
    fleet: FleetOfProcesses, start: Start
) -> None:
    running = start("--log-format", "json")
    agent = Running(
        *("agent", "--coordinator", fleet.address, "--name", "one"),
        *("--spool", fleet.folder / "spool", "--log-format", "json"),
        *("--allow-secret", "any"),
        cwd=fleet.folder,
        name="agent",
    )
    with agent:
        fleet.wait_for_agents("one", timeout_s=90)
        # nobody listens on port 1: the engine's process has something to say
        run_id = fleet.submit(job_text("ldap://127.0.0.1:1"))
        fleet.wait_for(run_id, "failed")
    assert agent.wait() == 0
    running.process.terminate()
    assert running.wait() == 0

    coordinator = lines_of(fleet.folder / "coordinator-1.err")
    assert {"time", "level", "logger", "message"} <= coordinator[0].keys()
    assert {line.get("run_id") for line in coordinator} == {run_id, None}
    assert any(line.get("agent") == "one" for line in coordinator)
    assert {line["agent"] for line in lines_of(fleet.folder / "agent.err")} == {"one"}
    [engine_log] = (fleet.folder / "spool" / "logs").glob("engine-*.log")
    engine = lines_of(engine_log)
    assert engine
    assert {(line["run_id"], line["agent"]) for line in engine} == {(run_id, "one")}


def test_an_error_that_ends_a_server_is_a_line_too(fleet: FleetOfProcesses) -> None:
    ended = ldapslam(
        *("coordinator", "--listen", fleet.address, "--log-format", "json"),
        *("--store", "postgresql+nosuch://u:hunter2@db/x"),
    )
    assert ended.returncode != 0
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    assert lines[-1]["level"] == "ERROR"
    assert "hint: " in lines[-1]["message"]
    assert "hunter2" not in ended.stderr


# Verdicts.


def verdict_of(fleet: FleetOfProcesses, run_id: str) -> str:
    fleet.wait_until(
        lambda: bool(fleet.run(run_id).verdict), "a verdict", JUDGED_WITHIN_S
    )
    return fleet.run(run_id).verdict


def test_an_ended_run_gets_its_verdict_in_list_and_show(
    fleet: FleetOfProcesses, start: Start, agents: Callable[..., None]
) -> None:
    """And the operator's command reads it."""
    read = fleet.folder / "read.json"
    settings = fleet.folder / "coordinator.toml"
    settings.write_text(f'on-run-end = ["sh", "-c", "cat > {read}; exit 3"]\n')
    running = start("--config", settings)
    agents("a")
    thresholds = ["readers.search.throughput > 1000000/s"]
    failing = fleet.submit(job_text(thresholds=thresholds))
    verdict = verdict_of(fleet, failing)
    running.wait_for_text("on_run_end_failed")
    document = json.loads(read.read_text())
    with fleet.opened_store() as store:
        summary = summarise(store, failing)
    assert verdict == summary.verdict != "PASS"
    assert (document["run_id"], document["verdict"]) == (failing, verdict)
    assert document["reasons"] == list(summary.reasons)
    [operation] = summary.operations
    throughput = document["figures"]["readers.search.throughput"]
    assert throughput == pytest.approx(operation.throughput_per_s)
    [text] = [e.text for e in fleet.run(failing).events if e.kind.startswith("on_run_")]
    assert text == f"{verdict}: the command ended with exit status 3"

    cancelled = fleet.submit(job_text(duration="60s"))
    fleet.wait_for_load(cancelled)
    with fleet.client() as client:
        client.cancel(cancelled)
    assert verdict_of(fleet, cancelled) == "INVALID"
    listed = ldapslam("list", "--coordinator", fleet.address).stdout
    rows = {row.split()[0]: row.split()[1:4] for row in listed.splitlines()}
    assert rows[failing] == ["fleet-test", "finished", verdict]
    assert rows[cancelled] == ["fleet-test", "cancelled", "INVALID"]
    shown = ldapslam("show", failing, "--coordinator", fleet.address).stdout
    assert f"verdict    {verdict}" in shown.splitlines()
