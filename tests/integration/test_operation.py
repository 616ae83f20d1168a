# SPDX-License-Identifier: Apache-2.0
"""A coordinator in operation: health, metrics, logs, verdicts, ends of runs."""

from __future__ import annotations

import json
import re
import resource
import signal
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ldapslam.reports.summarise import summarise
from ldapslam.results.store import Store
from support.command_line import Running, ldapslam
from support.fleet import FleetOfProcesses, fake_engine, job_text
from support.intervals import stored_intervals

TOKEN = "T0K3N-geheim"
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
    running = start()
    assert health(fleet) == (0, "SERVING")
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


def test_a_coordinator_that_is_not_there_is_not_healthy(
    fleet: FleetOfProcesses,
) -> None:
    ended = ldapslam("fleet", "status", "--coordinator", fleet.address, "--json")
    assert ended.returncode == 5
    assert json.loads(ended.stdout)["error"]["class"] == "CoordinatorUnreachable"


def test_a_stopped_coordinator_does_not_answer_within_the_time(
    fleet: FleetOfProcesses, start: Start
) -> None:
    running = start()
    running.process.send_signal(signal.SIGSTOP)
    try:
        ended = ldapslam("fleet", "status", "--coordinator", fleet.address)
    finally:
        running.process.send_signal(signal.SIGCONT)
    assert ended.returncode == 5


# Metrics.


def scrape(running: Running) -> dict[str, float]:
    found = re.search(r"metrics on (http://\S+)", running.stderr)
    assert found is not None
    with urllib.request.urlopen(found[1], timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    rows = [line.rpartition(" ") for line in lines if not line.startswith("#")]
    return {name: float(value) for name, _, value in rows}


def test_figures_of_a_run_are_there_while_it_goes(
    fleet: FleetOfProcesses, start: Start, agents: Callable[..., None]
) -> None:
    running = start("--metrics", "127.0.0.1:0")
    agents("a", "b")
    idle = scrape(running)
    assert idle['ldapslam_agents{state="idle"}'] == 2
    assert idle["ldapslam_store_writable"] == 1
    for bound in ("calls_of_a_caller", "store_writes", "live_bytes_of_a_run"):
        used, most = (
            idle[f'ldapslam_bound_{of}{{bound="{bound}"}}'] for of in ("used", "most")
        )
        assert 0 <= used < most
        assert idle[f'ldapslam_bound_exceeded_total{{bound="{bound}"}}'] == 0
    assert not [name for name in idle if name.startswith("ldapslam_stream_")]

    run_id = fleet.submit(job_text(duration="3s", agents={"count": 2}))
    of = f'{{job="fleet-test",run="{run_id}",stream="readers"}}'
    completed = f"ldapslam_stream_completed_total{of}"
    fleet.wait_until(lambda: scrape(running).get(completed, 0) > 0, "completions")
    live = scrape(running)
    assert live['ldapslam_runs{state="running"}'] == 1
    assert live['ldapslam_agent_runs{agent="a"}'] == 1
    assert live['ldapslam_agent_clock_offset_bound_seconds{agent="b"}'] >= 0
    # of two agents with 100 requests each in 200 ms
    assert live[f"ldapslam_stream_throughput_per_second{of}"] == pytest.approx(
        1000, rel=0.2
    )
    assert live["ldapslam_store_bytes"] > idle["ldapslam_store_bytes"]
    commits = "ldapslam_store_commit_seconds_count"
    assert live[commits] > idle[commits]

    fleet.wait_for(run_id, "finished")
    verdict = verdict_of(fleet, run_id)
    ended = f'ldapslam_runs_ended_total{{state="finished",verdict="{verdict}"}}'
    fleet.wait_until(lambda: scrape(running).get(ended) == 1, "its end")
    # a while after its end the totals are there, and are those of the store
    with fleet.opened_store() as store:
        total = sum(
            row.completed
            for record in stored_intervals(store, run_id)
            for row in record.operations
        )
    last = scrape(running)
    assert last[completed] == total > 0
    assert 'ldapslam_runs{state="running"}' not in last


def test_metrics_are_nothing_else_and_there_is_no_other_page(
    fleet: FleetOfProcesses, start: Start
) -> None:
    running = start("--metrics", "127.0.0.1:0")
    found = re.search(r"metrics on (http://\S+)/metrics", running.stderr)
    assert found is not None
    with pytest.raises(urllib.error.HTTPError, match="404") as refused:
        urllib.request.urlopen(f"{found[1]}/", timeout=10)
    refused.value.close()
    port = found[1].rpartition(":")[2]
    another = ldapslam(
        *("coordinator", "--listen", f"unix:{fleet.folder}/other"),
        *("--store", fleet.folder / "other.sqlite", "--metrics", port),
    )
    assert another.returncode == 2
    assert "--metrics: cannot listen on 127.0.0.1" in another.stderr


def test_without_the_option_nothing_listens(
    fleet: FleetOfProcesses, start: Start
) -> None:
    running = start()
    assert "metrics" not in running.stderr
    sockets = Path(f"/proc/{running.process.pid}/net/tcp").read_text()
    owned = {
        link.readlink().name
        for link in Path(f"/proc/{running.process.pid}/fd").iterdir()
        if link.is_symlink()
    }
    listening = [
        line.split()
        for line in sockets.splitlines()[1:]
        if line.split()[3] == "0A" and f"socket:[{line.split()[9]}]" in owned
    ]
    assert listening == []


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
    figures = document["figures"]["readers.search"]
    assert figures["throughput_per_s"] == round(operation.throughput_per_s or 0, 3)
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


# The command for ends of runs.


def test_a_command_that_hangs_hurts_neither_the_run_nor_the_end(
    fleet: FleetOfProcesses, start: Start, agents: Callable[..., None]
) -> None:
    running = start("--on-run-end", "sleep", "--on-run-end", "1000")
    agents("a")
    run_ids = [fleet.submit(job_text(duration="200ms")) for _ in range(2)]
    for run_id in run_ids:
        fleet.wait_for(run_id, "finished")
        verdict_of(fleet, run_id)
    running.process.terminate()
    assert running.wait() == 0
    with Store.open(fleet.store) as store:
        for run_id in run_ids:
            [event] = [e for e in store.events(run_id) if e.kind == "on_run_end_failed"]
            assert "the coordinator ended" in event.text


def test_a_run_that_a_killed_coordinator_left_unjudged_is_judged_and_reported(
    fleet: FleetOfProcesses, start: Start, agents: Callable[..., None]
) -> None:
    first = start("--on-run-end", "true")
    agents("a")
    run_id = fleet.submit(job_text())
    fleet.wait_for(run_id, "finished")
    first.process.kill()
    first.wait()
    with fleet.opened_store() as store:
        assert store.run(run_id).verdict is None
    second = start("--on-run-end", "true")
    verdict = verdict_of(fleet, run_id)
    second.wait_for_text(f"on_run_end: {verdict}: the command succeeded")
