# SPDX-License-Identifier: Apache-2.0
"""When requests are due, which values they carry, and to which phase they belong."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Any

import pytest

from ldapslam.agent import _engine
from ldapslam.agent._engine import Responder
from support.engine import (
    BACKLOG_WAIT,
    BUSY_LATER,
    MS,
    RESPONSE_TIME,
    SEND_LAG,
    SERVICE_TIME,
    S,
    collect,
    in_process,
    modify,
    new_engine,
    open_stream,
    run,
    search,
    sleep_until,
    start,
    start_responder,
    steady,
    stream,
)
from support.fake_ldap import FakeLdap, answer, never


@pytest.mark.parametrize(("workers", "connections"), [(1, 4), (2, 3), (2, 1)])
def test_constant_arrivals_follow_their_schedule_to_one(
    responder: Responder, workers: int, connections: int
) -> None:
    # 777/s: N(t) = floor(777 t) + 1, the first arrival being at T0
    outcome = run(
        open_stream(
            responder.uri,
            777,
            profile=[steady(777), BUSY_LATER],
            connections=connections,
        ),
        workers=workers,
        duration_ns=500 * MS,
    )
    scheduled = 0
    for snapshot in outcome.snapshots[:-1]:
        scheduled += sum(row["scheduled"] for row in snapshot["operations"])
        # a worker closes an interval a moment after its boundary
        least = 777 * (snapshot["index"] + 1) // 10
        most = 777 * snapshot["end_ns"] // S + 1
        assert least - 1 <= scheduled <= most + 1
    assert abs(scheduled - 777 * 500 // 1000) <= 1
    assert outcome.count("scheduled") == scheduled


def test_ramp_up_begins_gently(responder: Responder) -> None:
    # 2000/s after a ramp of 400 ms: N(200 ms) = 2000 * 0.2^2 / 0.8 = 100, N(400) = 400
    rate = 2000 / S
    profile = [(400 * MS, 0.0, rate), (200 * MS, rate, rate)]
    outcome = run(
        open_stream(responder.uri, 2000, profile=profile), duration_ns=600 * MS
    )
    scheduled = [
        sum(row["scheduled"] for row in snapshot["operations"])
        for snapshot in outcome.snapshots
    ]
    assert sum(scheduled) == pytest.approx(800, abs=2)
    assert sum(scheduled[:2]) == pytest.approx(100, abs=40)  # boundaries are late
    assert scheduled[0] < scheduled[1] < scheduled[2]


def test_clients_of_a_closed_loop_start_spread_over_the_ramp_up() -> None:
    with FakeLdap(never) as server:
        outcome = run(
            stream(server.uri, connections=10),
            duration_ns=500 * MS,
            ramp_up_ns=500 * MS,
            grace_ns=0,
        )
    sent = [
        sum(row["sent"] for row in snapshot["operations"])
        for snapshot in outcome.snapshots[:5]
    ]
    assert sum(sent) == 10
    assert all(1 <= count <= 3 for count in sent)


def test_think_time_lies_between_answer_and_next_request(responder: Responder) -> None:
    outcome = run(
        stream(responder.uri, connections=2, think_time_ns=50 * MS),
        duration_ns=520 * MS,
    )
    # at 0, 50, 100 … 500 ms at most, each client; the answers take some of it
    assert 4 <= outcome.count("sent") <= 22


def test_arrival_without_a_free_slot_keeps_its_intended_time(
    responder: Responder,
) -> None:
    """One connection, one slot, a server paused for 100 ms: the arrivals of the pause
    wait in the backlog, and their response time says so."""
    pause_ns = 100 * MS

    def pause(engine: _engine.Engine, t0_ns: int) -> None:
        sleep_until(t0_ns + 100 * MS)
        responder.pause()
        time.sleep(pause_ns / S)
        responder.resume()

    # after its arrivals the run has time for what waits, also on a busy machine
    arrivals = (500 * MS, 500 / S, 500 / S)
    outcome = run(
        open_stream(responder.uri, 500, connections=1, in_flight=1, profile=[arrivals]),
        duration_ns=1500 * MS,
        during=pause,
    )
    assert outcome.count("dropped") == 0
    assert outcome.count("completed") == outcome.count("scheduled") == 250
    response = outcome.histogram(RESPONSE_TIME)
    backlog_wait = outcome.histogram(BACKLOG_WAIT)
    service = outcome.histogram(SERVICE_TIME)
    # one request was in flight during the pause; 49 or so were due in it
    assert response.max_ns > 80 * MS
    assert 40 <= int(response.counts[2048:].sum())  # above 2 ms
    assert int(service.counts[4000:].sum()) < int(response.counts[4000:].sum())
    assert backlog_wait.max_ns > 60 * MS


def test_arrival_beyond_the_backlog_is_dropped_and_counted() -> None:
    with FakeLdap(never) as server:
        outcome = run(
            open_stream(
                server.uri,
                1000,
                connections=2,
                in_flight=3,
                max_backlog=10,
                operations=[search(), modify()],
            ),
            duration_ns=300 * MS,
            grace_ns=50 * MS,
        )
    counts = {
        name: sum(outcome.count(name, operation=number) for number in range(2))
        for name in ("scheduled", "sent", "unresolved", "dropped")
    }
    assert counts["scheduled"] == 300
    assert counts["sent"] == counts["unresolved"] == 6
    assert counts["dropped"] == 294  # ten of them at the end, from the backlog
    assert outcome.snapshots[0]["streams"][0]["backlog"] == 10


@pytest.mark.parametrize("stop_ms", [0, 150])
def test_what_waits_behind_late_sends_is_late_itself(stop_ms: int) -> None:
    """Eight slots of 10 ms, at half their load: a stop leaves 60 arrivals that are due,
    of which eight find a slot at once. The others wait for as long, but not for the
    directory."""
    server = start_responder(delays=[(1, 10 * MS)])
    load = open_stream(server.uri, 400, connections=8, in_flight=1, arrivals="constant")
    with in_process(load, duration_ns=2 * S) as (pid, future):
        while server.counts()["search"] < 200:
            time.sleep(0.001)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(stop_ms / 1000)
        os.kill(pid, signal.SIGCONT)
        outcome = future.result()
    assert outcome.count("completed") == 800
    half_ns = 75 * MS
    late, waiting, slow = (
        outcome.histogram(metric).beyond(half_ns, or_at=False)
        for metric in (SEND_LAG, BACKLOG_WAIT, RESPONSE_TIME)
    )
    assert waiting == 0
    # of those that a response took so long, none without a lag
    assert slow - 40 <= late <= slow
    assert (late > 20) == (stop_ms > 0)


def test_late_arrival_that_found_a_free_slot_has_no_backlog_wait() -> None:
    """Slots are free all the time, while other requests are answered in the stop."""
    server = Responder(delays=[(1, 100 * MS)])
    server.start()
    load = open_stream(server.uri, 400, connections=8, in_flight=64)
    with in_process(load, duration_ns=S) as (pid, future):
        while server.counts()["search"] < 100:
            time.sleep(0.001)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.15)
        os.kill(pid, signal.SIGCONT)
        outcome = future.result()
    assert outcome.histogram(SEND_LAG).max_ns > 50 * MS
    assert outcome.histogram(BACKLOG_WAIT).max_ns == 0


@pytest.mark.parametrize(("connections", "workers"), [(4, 3), (3, 2), (8, 3)])
def test_open_load_is_spread_evenly_over_connections(
    connections: int, workers: int
) -> None:
    """One server for each connection; 240 is a multiple of every number of them."""
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(FakeLdap(answer)) for _ in range(connections)]
        uris = [server.uri for server in servers]
        load = open_stream(
            "",
            480,
            profile=[steady(480), BUSY_LATER],
            uris=uris,
            connections=connections,
            in_flight=16,
        )
        outcome = run(load, workers=workers, duration_ns=500 * MS)
        assert outcome.count("completed") == 240
        counts = [len(server.requests) for server in servers]
    assert counts == [240 // connections] * connections


@pytest.mark.parametrize(
    ("rates", "changes", "workers"),
    [
        ([9_999], {}, 1),
        ([10_001], {}, 2),
        ([1_000_000], {}, 4),
        ([100, 100, 100], {}, 3),
        ([25_000, 100], {}, 4),
        ([10_000], {"scripts": [(1, [(0, 0)] * 3)]}, 3),  # three requests each
        ([30_000], {"total_connections": 12}, 1),  # of which this agent has a third
        ([30_000], {"total_connections": 4, "connections": 2}, 2),
    ],
)
def test_open_streams_are_carried_by_as_few_workers_as_they_need(
    responder: Responder, rates: list[int], changes: dict[str, Any], workers: int
) -> None:
    """Each worker has a queue of its own: what waits in it cannot use the others'."""
    loads = [
        open_stream(responder.uri, rate, name=f"{rate}-{i}", **changes)
        for i, rate in enumerate(rates)
    ]
    outcome = run(*loads, workers=4, duration_ns=MS)
    assert outcome.facts["workers"] == workers


def test_connections_are_dealt_to_the_uris_by_their_global_number() -> None:
    with FakeLdap(never) as first, FakeLdap(never) as second, FakeLdap(never) as third:
        run(
            # connections 1, 3, 5, 7 of the run: URIs 1, 0, 2, 1
            stream(
                "",
                uris=[first.uri, second.uri, third.uri],
                first_connection=1,
                connection_stride=2,
            ),
            workers=2,
            duration_ns=50 * MS,
            grace_ns=0,
        )
        assert [s.connections for s in (first, second, third)] == [1, 2, 1]


def test_requests_intended_in_the_measure_phase_are_marked_wherever_they_end() -> None:
    server = start_responder(delays=[(1, 150 * MS)])
    outcome = run(
        open_stream(server.uri, 100, in_flight=16),
        duration_ns=500 * MS,
        measure_ns=(100 * MS, 400 * MS),
    )
    # 100/s: those due at 100, 110 … 390 ms are measured
    assert outcome.count("scheduled", measured=True) == 30
    assert outcome.count("completed", measured=True) == 30
    assert outcome.count("completed", measured=False) == 20
    last = [s for s in outcome.snapshots if s["start_ns"] >= 400 * MS]
    assert sum(r["completed"] for s in last for r in s["operations"] if r["measured"])


def test_intervals_are_those_planned_and_then_the_drain(responder: Responder) -> None:
    outcome = run(stream(responder.uri, think_time_ns=MS), duration_ns=250 * MS)
    assert [s["index"] for s in outcome.snapshots] == [0, 1, 2, 3]
    assert [s["final"] for s in outcome.snapshots] == [False, False, False, True]
    ends = [s["end_ns"] for s in outcome.snapshots[:3]]
    for end_ns, planned_ns in zip(ends, (100 * MS, 200 * MS, 250 * MS), strict=True):
        assert planned_ns <= end_ns < planned_ns + 50 * MS
    assert outcome.snapshots[0]["start_ns"] == 0


def test_nothing_is_sent_before_t0(responder: Responder) -> None:
    engine = new_engine([stream(responder.uri)], duration_ns=100 * MS)
    engine.prepare()
    engine.start(time.monotonic_ns() + 200 * MS)
    time.sleep(0.1)
    assert responder.counts()["search"] == 0
    assert responder.counts()["connections"] == 4
    assert collect(engine).count("completed") > 0


def test_stop_ends_the_run_early_and_drains(responder: Responder) -> None:
    engine = new_engine(
        [open_stream(responder.uri, 1000)], duration_ns=60 * S, interval_ns=100 * MS
    )
    start(engine)
    assert engine.snapshot(0, 10 * S) is not None
    engine.stop()
    snapshots: list[dict[str, Any]] = []
    while not snapshots or not snapshots[-1]["final"]:
        snapshot = engine.snapshot(1 + len(snapshots), 10 * S)
        assert snapshot is not None
        snapshots.append(snapshot)
    engine.close()
    assert len(snapshots) <= 3
    assert snapshots[-1]["end_ns"] < S


def test_snapshot_of_an_open_interval_times_out_with_none(
    responder: Responder,
) -> None:
    engine = new_engine([stream(responder.uri)], duration_ns=10 * S, interval_ns=5 * S)
    start(engine)
    before = time.monotonic()
    assert engine.snapshot(0, 50 * MS) is None
    assert time.monotonic() - before < 2
    engine.close()
