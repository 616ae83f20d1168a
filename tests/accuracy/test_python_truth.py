# SPDX-License-Identifier: Apache-2.0
"""Streams of Python classes tell the truth as the engine's do: about a directory that
stands still, about arrivals, and about themselves."""

from __future__ import annotations

import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from ldapslam.agent._engine import Responder
from ldapslam.agent.admission.limits import AgentLimits
from ldapslam.agent.lease import Lease
from ldapslam.agent.python_jobs.job import SUCCEEDED
from ldapslam.agent.python_jobs.streams import PythonStreams
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.plan import agent_plan
from ldapslam.proto.fields import METRICS
from ldapslam.results.histogram import Histogram
from support.engine import start_responder
from support.rows import with_rows
from support.truth import above

pytestmark = pytest.mark.accuracy

S = 1_000_000_000
MS = 1_000_000
JOB = """\
name: truth
targets: {{server: "{uri}"}}
run: {{duration: {duration}, interval: 500ms, drain: 5s}}
streams:
  - name: probe
    target: server
    python: {{class: "{class_name}", operations: {operations}, options: {{base: ""}}}}
    load: {load}
    request_timeout: {timeout}
"""


class Outcome:
    """Everything that the snapshots of a run have said."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.stream: Counter[str] = Counter()
        self.packed: dict[tuple[int, int], list[bytes]] = {}
        self.workers: list[dict[str, Any]] = []

    def add(self, snapshot: dict[str, Any]) -> None:
        for row in snapshot["operations"]:
            for name, value in row.items():
                if isinstance(value, int):
                    self.counts[name] += value
            for metric, outcome, packed in row["histograms"]:
                self.packed.setdefault((metric, outcome), []).append(packed)
        for row in snapshot["streams"]:
            for name in ("connects", "disconnects", "connect_failures"):
                self.stream[name] += row[name]
        self.workers += snapshot["workers"]

    def histogram(self, metric: str) -> Histogram:
        return Histogram.merge(self.packed[METRICS.index(metric), SUCCEEDED])


def drive(
    uri: str,
    load: str,
    *,
    class_name: str = "Probe",
    operations: str = "[find]",
    duration: str = "4s",
    timeout: str = "30s",
    meanwhile: Callable[[], None] = lambda: None,
) -> Outcome:
    text = JOB.format(
        uri=uri,
        load=load,
        duration=duration,
        timeout=timeout,
        class_name=f"support.python_jobs:{class_name}",
        operations=operations,
    )
    plan = agent_plan(
        load_job_text(text.encode(), file="truth.yaml", base=None), 0, 1, 7
    )
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as folder:
        lease = Lease(Path(folder))
        lease.extend(time.monotonic_ns() + 60 * S)
        streams = PythonStreams(plan, AgentLimits(), lease)
        drive_streams(streams, outcome, meanwhile)
    return outcome


def drive_streams(
    streams: PythonStreams, outcome: Outcome, meanwhile: Callable[[], None]
) -> None:
    try:
        streams.prepare()
        streams.start(time.monotonic_ns() + S // 2)
        helper = threading.Thread(target=meanwhile)
        helper.start()
        index, is_final = 0, False
        while not is_final:
            snapshot = streams.snapshot(index, S)
            if snapshot is not None:
                outcome.add(with_rows(snapshot))
                is_final = snapshot["final"]
                index += 1
        helper.join()
    finally:
        streams.close()


def new_responder(delay_ns: int) -> Responder:
    return start_responder(delays=[(1, delay_ns)], record_capacity=100_000)


def test_a_server_that_stands_still_shows_in_response_time_not_in_service_time() -> (
    None
):
    """100/s, 8 clients: 8 requests meet the stop, the others wait in the backlog."""
    server = new_responder(2 * MS)

    def stop() -> None:
        while server.counts()["search"] < 100:
            time.sleep(0.001)
        server.pause()
        time.sleep(1)
        server.resume()

    load = "{rate: 100/s, connections: 8}"
    outcome = drive(server.uri, load, meanwhile=stop)
    assert outcome.counts["scheduled"] == outcome.counts["succeeded"] == 400
    assert outcome.counts["dropped"] == outcome.counts["timed_out"] == 0
    response, service = (
        outcome.histogram("response_time"),
        outcome.histogram("service_time"),
    )
    for share in (0.25, 0.5, 0.75):
        # due when this much of the stop is left: so long it takes at least
        waited = above(response, int(share * S))
        assert waited == pytest.approx(100 * (1 - share), abs=8)
    assert above(service, S // 2) <= 8
    assert above(outcome.histogram("backlog_wait"), S // 4) > 50


@pytest.mark.parametrize("arrivals", ["constant", "uniform"])
def test_arrivals_are_those_of_the_schedule(arrivals: str) -> None:
    server = new_responder(0)
    load = f"{{rate: 150/s, arrivals: {arrivals}, connections: 4}}"
    outcome = drive(server.uri, load, duration="2s")
    assert outcome.counts["scheduled"] == outcome.counts["succeeded"] == 300
    assert server.counts()["search"] == 300


def test_service_times_are_the_servers_own() -> None:
    server = new_responder(5 * MS)
    outcome = drive(server.uri, "{clients: 4, think_time: 20ms}")
    service = outcome.histogram("service_time")
    median_ns = service.percentile(50)
    assert median_ns is not None
    # waking a process up and taking the response apart is in it, and no more
    assert 5.0 * MS <= median_ns < 5.8 * MS


def test_what_times_out_is_counted_and_its_client_connects_anew() -> None:
    server = new_responder(2 * MS)

    def stop() -> None:
        while server.counts()["search"] < 50:
            time.sleep(0.001)
        server.pause()
        time.sleep(0.7)
        server.resume()

    load = "{clients: 3, think_time: 10ms}"
    outcome = drive(server.uri, load, timeout="300ms", meanwhile=stop)
    counts = outcome.counts
    assert counts["timed_out"] >= 3
    assert outcome.stream["disconnects"] == counts["timed_out"] + counts["unresolved"]
    assert outcome.stream["connects"] == 3 + outcome.stream["disconnects"]
    assert counts["scheduled"] == counts["sent"]
    assert counts["sent"] == (
        counts["completed"] + counts["timed_out"] + counts["unresolved"]
    )
    # and it goes on when the server does
    assert counts["completed"] > 200


def test_clients_that_have_no_cpu_say_so_themselves() -> None:
    server = new_responder(0)
    load = "{clients: 16}"
    names = "[find, miss]"
    outcome = drive(
        server.uri, load, class_name="Works", operations=names, duration="2s"
    )
    waiting = [
        row["run_queue_ns"] / row["wall_ns"]
        for row in outcome.workers
        if row["wall_ns"] > S // 4
    ]
    # the default limit of `validity.run_queue_share`
    assert sum(share > 0.25 for share in waiting) / len(waiting) > 0.9


@pytest.mark.parametrize(
    ("load", "delay_ms", "is_whole", "late"),
    [
        ("rate: 100/s, connections: 4", 0, False, 1),
        ("rate: 100/s, connections: 4", 0, True, None),
        ("rate: 100/s, connections: 1", 9, True, None),
    ],
    ids=["clients", "all", "all at work"],
)
def test_arrivals_of_a_time_that_the_clients_stood_still_are_dropped(
    *, load: str, delay_ms: int, is_whole: bool, late: int | None
) -> None:
    server = start_responder(delays=[(1, delay_ms * MS)])
    sent: list[int] = []

    def stand_still() -> None:
        time.sleep(1.5)
        # processes of other tests are older
        host = max(psutil.Process().children(), key=psutil.Process.create_time)
        stopped = [*([host] if is_whole else []), *host.children()]
        for process in stopped:
            process.suspend()
        time.sleep(2)
        sent.append(server.counts()["search"])
        for process in stopped:
            process.resume()
        time.sleep(0.2)
        sent.append(server.counts()["search"])

    outcome = drive(server.uri, f"{{{load}}}", duration="5s", meanwhile=stand_still)
    assert sent[1] - sent[0] < 60
    # the host looks every 250 ms
    assert 150 < outcome.counts["dropped"] < 220
    assert outcome.counts["scheduled"] == 500
    assert outcome.counts["sent"] + outcome.counts["dropped"] == 500
    # which tells that the generator was late
    assert late in (None, outcome.histogram("send_lag").beyond(S, or_at=True))
