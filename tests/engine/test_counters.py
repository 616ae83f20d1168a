# SPDX-License-Identifier: Apache-2.0
"""Everything that happens to a request is counted, once, under its name."""

from __future__ import annotations

import itertools

import pytest

from ldapslam.agent import _engine
from ldapslam.agent._engine import Responder
from support.engine import (
    BACKLOG_WAIT,
    MS,
    RECEIVE_LAG,
    RESPONSE_TIME,
    SEND_LAG,
    SEQUENCE_TIME,
    SERVICE_TIME,
    TIMED_OUT,
    UNRESOLVED,
    S,
    collect,
    modify,
    new_engine,
    open_stream,
    run,
    search,
    sleep_until,
    start,
    start_responder,
    stream,
)
from support.fake_ldap import (
    FakeLdap,
    Peer,
    Request,
    answer,
    entry,
    never,
    reference,
    result,
)


def test_searches_of_a_closed_loop_equal_those_the_server_counted(
    responder: Responder,
) -> None:
    result = run(stream(responder.uri))
    completed = result.count("completed")
    assert completed > 100
    assert responder.counts()["search"] == completed
    assert responder.counts()["bind"] == 0  # anonymous: none is sent
    assert result.count("succeeded") == result.count("entries") == completed
    assert result.result_codes() == {0: completed}
    for metric in (RESPONSE_TIME, SERVICE_TIME, SEND_LAG, RECEIVE_LAG):
        assert result.histogram(metric).total == completed
    assert result.histogram(BACKLOG_WAIT).total == 0  # there is none in a closed loop
    assert result.stream_count("connects") == 4


def test_intervals_that_are_read_late_count_every_request(responder: Responder) -> None:
    engine = new_engine([stream(responder.uri)], interval_ns=20 * MS)
    sleep_until(start(engine) + 200 * MS)
    completed = collect(engine).count("completed")
    assert responder.counts()["search"] == completed > 100


def test_response_time_is_backlog_wait_and_send_lag_and_service_time(
    responder: Responder,
) -> None:
    result = run(open_stream(responder.uri, 2000, arrivals="poisson"))
    completed = result.count("completed")
    assert completed == responder.counts()["search"] > 100
    for metric in range(5):
        assert result.histogram(metric).total == completed
    assert result.histogram(SEQUENCE_TIME).total == 0
    parts = (BACKLOG_WAIT, SEND_LAG, SERVICE_TIME)
    sums_ns = [result.histogram(metric).sum_ns for metric in parts]
    assert result.histogram(RESPONSE_TIME).sum_ns == sum(sums_ns)


def test_requests_are_counted_by_server() -> None:
    fast, slow = (start_responder(delays=[(1, ms * MS)]) for ms in (2, 20))
    outcome = run(
        open_stream(
            fast.uri, 2_000, uris=[fast.uri, slow.uri], in_flight=1, max_backlog=10
        )
    )
    for number, one in enumerate((fast, slow), start=1):
        assert outcome.count("sent", server=number) == one.counts()["search"] > 0
        assert outcome.count("scheduled", server=number) == 0
        assert outcome.count("dropped", server=number) == 0
    assert outcome.count("dropped", server=0) > 0
    assert outcome.count("sent", server=0) == 0
    quick, late = (outcome.histogram(SERVICE_TIME, server=one) for one in (1, 2))
    assert (quick.percentile(50) or 0) < 20 * MS <= late.min_ns


def test_operations_of_a_stream_are_drawn_by_weight(responder: Responder) -> None:
    operations = [{**search(), "weight": 3}, modify()]
    result = run(stream(responder.uri, operations=operations))
    searches = result.count("completed", operation=0)
    modifies = result.count("completed", operation=1)
    assert searches == responder.counts()["search"]
    assert modifies == responder.counts()["modify"]
    # a share of 3 / 4, six standard deviations of the draw
    n = searches + modifies
    assert abs(searches - 0.75 * n) < 6 * (0.75 * 0.25 * n) ** 0.5
    assert result.count("entries", operation=1) == 0
    # only searches can be empty
    assert result.count("empty", operation=0) == result.count("empty", operation=1) == 0


def test_streams_are_counted_apart(responder: Responder) -> None:
    result = run(
        stream(responder.uri, think_time_ns=MS),
        open_stream(responder.uri, 500, operations=[modify()]),
    )
    assert result.count("completed", stream=0) == responder.counts()["search"]
    assert result.count("completed", stream=1) == responder.counts()["modify"]
    assert result.count("scheduled", stream=1) == 150  # 500/s for 0.3 s
    models = {worker["model"] for worker in result.snapshots[0]["workers"]}
    assert models == {"open", "closed"}


def test_a_search_without_an_entry_is_empty_where_it_succeeded() -> None:
    entries_and_codes = itertools.cycle([(1, 0), (0, 0), (0, 32), (2, 0), (0, 0)])

    def behaviour(peer: Peer, request: Request) -> bool:
        entries, code = next(entries_and_codes)
        # a reference is no entry
        return peer.send(
            entry(request) * entries + reference(request) + result(request, code)
        )

    with FakeLdap(behaviour) as server:
        outcome = run(stream(server.uri, connections=1))
    completed = outcome.count("completed")
    assert completed > 10
    assert outcome.count("empty") == 2 * (completed // 5) + (completed % 5 > 1)


def test_late_answer_is_counted_apart_from_the_time_out_before_it() -> None:
    withheld: list[tuple[Peer, Request]] = []

    def withhold_first(peer: Peer, request: Request) -> bool:
        if not withheld:
            withheld.append((peer, request))
            return True
        return answer(peer, request)

    def answer_late(engine: _engine.Engine, t0_ns: int) -> None:
        sleep_until(t0_ns + 800 * MS)
        answer(*withheld[0])

    with FakeLdap(withhold_first) as server:
        outcome = run(
            open_stream(server.uri, 100, connections=1, request_timeout_ns=500 * MS),
            duration_ns=1000 * MS,
            during=answer_late,
        )
    assert outcome.count("timed_out") == 1
    assert outcome.stream_count("late_responses") == 1
    assert outcome.count("completed") == 99
    assert outcome.count("entries") == 99  # the late one's is not
    assert outcome.stream_count("disconnects") == 0


def test_connection_that_answers_late_again_and_again_is_kept() -> None:
    """Two of its three slots never wait for late answers at the same time."""
    withheld: list[tuple[Peer, Request]] = []

    def every_fifth_late(peer: Peer, request: Request) -> bool:
        if peer.requests % 5 == 2:
            withheld.append((peer, request))
            return True
        return answer(peer, request)

    def answer_late(engine: _engine.Engine, t0_ns: int) -> None:
        for tenth in range(1, 10):
            sleep_until(t0_ns + tenth * 100 * MS)
            while withheld:
                answer(*withheld.pop(0))

    with FakeLdap(every_fifth_late) as server:
        outcome = run(
            open_stream(
                server.uri, 40, connections=1, in_flight=3, request_timeout_ns=40 * MS
            ),
            duration_ns=1000 * MS,
            during=answer_late,
        )
        assert server.connections == 1
    assert outcome.stream_count("late_responses") >= 4
    assert outcome.stream_count("disconnects") == 0


def test_connection_on_which_nothing_answers_is_replaced() -> None:
    with FakeLdap(never) as server:
        outcome = run(
            stream(server.uri, connections=1, request_timeout_ns=50 * MS),
            duration_ns=1000 * MS,
            grace_ns=200 * MS,
        )
        assert server.connections >= 3
    timed_out = outcome.count("timed_out")
    assert timed_out == outcome.count("sent") >= 3
    times = outcome.histogram(RESPONSE_TIME, TIMED_OUT)
    assert times.total == timed_out
    assert times.min_ns >= 49 * MS
    assert outcome.stream_count("disconnects") >= 3
    assert outcome.count("completed") == 0


def test_requests_in_flight_at_the_end_of_the_grace_are_unresolved() -> None:
    with FakeLdap(never) as server:
        outcome = run(stream(server.uri), duration_ns=100 * MS, grace_ns=100 * MS)
    assert outcome.count("sent") == outcome.count("unresolved") == 4
    # how late they were sent is the generator's, whatever became of them
    assert outcome.histogram(SEND_LAG, UNRESOLVED).total == 4
    assert outcome.snapshots[0]["streams"][0]["in_flight"] == 4
    assert outcome.snapshots[-1]["final"]


def test_answers_within_the_grace_count_in_the_drain() -> None:
    server = start_responder(delays=[(1, 200 * MS)])
    outcome = run(stream(server.uri), duration_ns=100 * MS, grace_ns=5 * S)
    assert outcome.count("completed") == 4
    drain = outcome.snapshots[-1]
    assert drain["final"]
    assert [row["completed"] for row in drain["operations"]] == [4]


def test_each_response_of_a_batch_shares_its_stamp() -> None:
    withheld: list[bytes] = []

    def four_by_four(peer: Peer, request: Request) -> bool:
        withheld.append(entry(request) + result(request))
        if len(withheld) < 4:
            return True
        batch = b"".join(withheld)
        withheld.clear()
        return peer.send(batch)

    with FakeLdap(four_by_four) as server:
        outcome = run(
            open_stream(server.uri, 1000, connections=1, total_operations=40),
            duration_ns=10 * S,
        )
    assert outcome.count("completed") == 40
    assert outcome.stream_count("shared_stamps") == 40


def test_worker_figures_add_up(responder: Responder) -> None:
    outcome = run(stream(responder.uri, connections=6), workers=2)
    for snapshot in outcome.snapshots[:-1]:
        assert [worker["worker"] for worker in snapshot["workers"]] == [0, 1]
        for worker in snapshot["workers"]:
            assert 0 < worker["cpu_ns"] <= worker["wall_ns"] * 1.05
            assert 0 < worker["busy_ns"] <= worker["wall_ns"]
            assert worker["run_queue_ns"] <= worker["wall_ns"]
            runnable_ns = worker["cpu_ns"] - worker["spin_ns"] + worker["run_queue_ns"]
            assert worker["busy_ns"] >= min(runnable_ns, worker["wall_ns"])
            assert worker["loops"] > 0
    assert outcome.facts["workers"] == 2
    assert outcome.facts["connections"] == 6
    assert outcome.facts["libldap"].startswith("OpenLDAP")
    assert outcome.facts["kernel_stamps"] is True


def test_unix_socket_has_no_kernel_stamps_and_the_facts_say_so(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    socket_path = str(tmp_path_factory.mktemp("s") / "ldapi")
    server = start_responder(socket_path=socket_path)
    outcome = run(stream(server.uri))
    completed = outcome.count("completed")
    assert completed == server.counts()["search"] > 0
    assert outcome.facts["kernel_stamps"] is False
    assert outcome.stream_count("stamps_missing") == completed
    assert outcome.histogram(RECEIVE_LAG).max_ns == 0  # received = done
