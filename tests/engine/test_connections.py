# SPDX-License-Identifier: Apache-2.0
"""Connections: set up before the load, refused with the reason, replaced when lost."""

from __future__ import annotations

import os
import ssl
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ldapslam.agent import _engine
from ldapslam.agent._engine import Responder
from ldapslam.lab.certificates import Authority
from ldapslam.results.histogram import Histogram
from support.engine import (
    ADMIN,
    MS,
    RECEIVE_LAG,
    RESPONSE_TIME,
    Result,
    S,
    collect,
    connect_error,
    literal,
    nested,
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
    AfterSome,
    FakeLdap,
    Peer,
    Request,
    answer,
    answer_with,
    never,
    result,
    send_and_stay,
)
from support.fake_tls import server_context
from support.network import free_port

SET_UP_TIMES = ("tcp_time", "tls_time", "bind_time", "connect_time")


# -- refusals --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "uri",
    [
        "ldap://127.0.0.1:{port}",
        "ldap://no-such-host.invalid:{port}",
        "ldapi://%2Fnonexistent%2Fldapi",
    ],
)
def test_unreachable_server_fails_prepare_with_its_uri(uri: str) -> None:
    uri = uri.format(port=free_port())
    error = connect_error(uri)
    assert (error.uri, error.stage) == (uri, "connect")
    assert "Can't contact LDAP server" in error.detail


def test_refused_bind_fails_prepare_with_the_words_of_the_server() -> None:
    """As far as they are UTF-8."""
    with FakeLdap(answer, on_bind=answer_with(49, b"caf\xe9")) as server:
        error = connect_error(server.uri, bind_dn="cn=a", bind_password=b"b")
    assert (error.stage, error.code) == ("bind", 49)
    assert "caf\N{REPLACEMENT CHARACTER}" in error.detail


def test_one_server_of_many_that_is_down_fails_prepare() -> None:
    with FakeLdap(answer) as server:
        down = f"ldap://127.0.0.1:{free_port()}"
        error = connect_error("", uris=[server.uri, down])
    assert error.uri == down


def test_bind_is_sent_once_on_each_connection(responder: Responder) -> None:
    run(stream(responder.uri, bind_dn="cn=admin", bind_password=b"a\0b"))
    assert responder.counts()["bind"] == 4


# -- TLS -------------------------------------------------------------------------------


@pytest.mark.parametrize("start_tls", [False, True], ids=["ldaps", "start_tls"])
def test_load_runs_over_tls_with_kernel_stamps(
    tls: ssl.SSLContext, authority: Authority, start_tls: bool
) -> None:
    with FakeLdap(answer, tls=tls, tls_at_once=not start_tls) as server:
        outcome = run(
            stream(
                server.uri, start_tls=start_tls, ca_file=str(authority.ca_file), **ADMIN
            )
        )
    completed = outcome.count("succeeded")
    assert completed == outcome.count("entries") > 10
    assert outcome.facts["kernel_stamps"] is True
    assert outcome.stream_count("stamps_missing") == 0
    assert outcome.histogram(RECEIVE_LAG).max_ns > 0


@pytest.mark.parametrize("start_tls", [False, True], ids=["ldaps", "start_tls"])
def test_unknown_authority_fails_prepare(
    tls: ssl.SSLContext, tmp_path: Path, start_tls: bool
) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    other = Authority(folder).ca_file
    with FakeLdap(answer, tls=tls, tls_at_once=not start_tls) as server:
        error = connect_error(
            server.uri, start_tls=start_tls, ca_file=str(other), connections=1
        )
    assert error.stage in ("tls", "connect")


def test_expired_certificate_fails_prepare(authority: Authority) -> None:
    pair = authority.issue("server", timedelta(hours=-1))
    tls = server_context(pair.certificate_file, pair.key_file)
    with FakeLdap(answer, tls=tls, tls_at_once=True) as server:
        error = connect_error(server.uri, ca_file=str(authority.ca_file), connections=1)
    assert error.stage in ("tls", "connect")


def test_unknown_authority_is_taken_when_the_job_says_so(tls: ssl.SSLContext) -> None:
    with FakeLdap(answer, tls=tls, tls_at_once=True) as server:
        assert run(stream(server.uri, verify=False)).count("succeeded") > 10


def test_server_that_refuses_start_tls_fails_prepare() -> None:
    with FakeLdap(answer) as server:
        error = connect_error(server.uri, start_tls=True, connections=1)
    assert (error.stage, error.code) == ("tls", 2)


def test_garbage_within_tls_is_a_protocol_error(
    tls: ssl.SSLContext, authority: Authority
) -> None:
    garbage = send_and_stay(lambda request: b"\xff" * 50)
    with FakeLdap(AfterSome(5, then=garbage), tls=tls, tls_at_once=True) as server:
        outcome = run(stream(server.uri, ca_file=str(authority.ca_file)), duration_ns=S)
    errors = outcome.stream_count("protocol_errors")
    assert errors >= 4
    # one lost with each connection, none forgotten in what was read ahead
    assert outcome.count("unresolved") == errors
    assert outcome.snapshots[-1]["end_ns"] < 2 * S


def test_certificates_are_read_once_before_the_first_connection(
    tls: ssl.SSLContext, authority: Authority, tmp_path: Path
) -> None:
    ca_file = tmp_path / "ca.pem"
    ca_file.write_bytes(authority.ca_file.read_bytes())
    flaky = AfterSome(20, then=lambda peer, request: False)
    with FakeLdap(flaky, tls=tls, tls_at_once=True) as server:
        engine = new_engine(
            [stream(server.uri, ca_file=str(ca_file))], duration_ns=1000 * MS
        )
        start(engine)
        ca_file.unlink()
        outcome = collect(engine)
    assert outcome.stream_count("connects") > 4
    assert outcome.stream_count("connect_failures") == 0


def test_file_that_is_no_certificate_fails_prepare(tmp_path: Path) -> None:
    file = tmp_path / "client.pem"
    file.write_text("this is not PEM\n")
    error = connect_error(
        "ldaps://127.0.0.1:636", cert_file=str(file), key_file=str(file), connections=1
    )
    assert error.stage == "tls"
    assert "certificate and key" in error.detail


# -- times of the set-up ---------------------------------------------------------------


def set_up_times(outcome: Result, name: str) -> Histogram:
    return Histogram.merge(
        snapshot["streams"][0][name]
        for snapshot in outcome.snapshots
        if snapshot["streams"][0][name]
    )


def slow(*, greeting: bool = False) -> dict[str, Any]:
    """A server that takes 300 ms for a bind, or before TLS."""

    def bind(peer: Peer, request: Request) -> bool:
        time.sleep(0.3)
        return peer.send(result(request))

    def greet(peer: Peer) -> bool:
        time.sleep(0.3)
        return True

    return {"on_connect": greet} if greeting else {"on_bind": bind}


@pytest.mark.parametrize("start_tls", [False, True], ids=["ldaps", "start_tls"])
@pytest.mark.parametrize("slow_step", ["tls_time", "bind_time"])
def test_each_step_of_a_set_up_has_its_own_time(
    tls: ssl.SSLContext, authority: Authority, slow_step: str, start_tls: bool
) -> None:
    behaviour = slow(greeting=slow_step == "tls_time")
    with FakeLdap(answer, tls=tls, tls_at_once=not start_tls, **behaviour) as server:
        outcome = run(
            stream(
                server.uri, start_tls=start_tls, ca_file=str(authority.ca_file), **ADMIN
            )
        )
    times = {name: set_up_times(outcome, name) for name in SET_UP_TIMES}
    assert [histogram.total for histogram in times.values()] == [4] * 4
    # a busy host may let the server begin before the client's clock does
    assert times[slow_step].min_ns >= 150 * MS
    quick = {"tls_time", "bind_time"} - {slow_step}
    for name in ("tcp_time", *quick):
        assert times[name].min_ns < 150 * MS
    assert times["connect_time"].min_ns >= 300 * MS
    # nothing of it is in an operation's time
    assert outcome.histogram(RESPONSE_TIME).min_ns < 300 * MS


def test_anonymous_set_up_in_clear_has_neither_tls_nor_bind_time() -> None:
    with FakeLdap(answer) as server:
        outcome = run(stream(server.uri))
    counts = [set_up_times(outcome, name).total for name in SET_UP_TIMES]
    assert counts == [4, 0, 0, 4]


# -- loss and return -------------------------------------------------------------------


@pytest.mark.parametrize("is_lost", [True, False], ids=["lost", "run ends"])
def test_steps_that_a_connection_has_not_sent_are_dropped(is_lost: bool) -> None:
    """All sessions send their second step, a large one, at once. The server reads the
    first of these, no more: some fill the sockets, the others wait, until the server
    resets the connection, or the run ends."""
    waiting: list[Request] = []
    has_ended = threading.Event()

    def read_no_more(peer: Peer, request: Request) -> bool:
        if len(request.content) > 1000:
            has_ended.wait(0.2 if is_lost else 30)
            return peer.reset()
        waiting.append(request)
        if len(waiting) < 32:
            return True
        answers = b"".join(result(one) for one in waiting)
        waiting.clear()
        return peer.send(answers)

    large = search(program=nested(0x63, literal(b"x" * 1_000_000)), values=[])
    load = {"connections": 1, "in_flight": 32, "operations": [search(), large]}
    with FakeLdap(read_no_more) as server:
        outcome = run(
            open_stream(server.uri, 400, scripts=[(1, [(0, 0), (1, 0)])], **load),
            grace_ns=S,
        )
        has_ended.set()
    assert (outcome.stream_count("disconnects") > 0) == is_lost
    assert outcome.count("dropped", operation=1) > 0


def test_server_that_is_away_for_a_while_is_met_again() -> None:
    first = FakeLdap(answer)
    with first as server:
        port = server.port
        engine = new_engine(
            [open_stream(server.uri, 200)], duration_ns=2500 * MS, grace_ns=S
        )
        t0_ns = start(engine)
        sleep_until(t0_ns + 300 * MS)
    sleep_until(t0_ns + 900 * MS)
    with FakeLdap(answer, port=port):
        outcome = collect(engine)
    assert outcome.stream_count("connect_failures") >= 4
    assert outcome.stream_count("disconnects") == 4
    assert outcome.stream_count("connects") == 8
    # nothing was due and not sent: the backlog held it, with its intended times
    assert outcome.count("dropped") == 0
    assert outcome.count("scheduled") == 500
    assert outcome.count("completed") >= 490
    assert outcome.histogram(0).max_ns > 500 * MS
    # four connections, for 600 ms and until the next attempt
    assert 4 * 600 * MS <= outcome.stream_count("down_ns") < 4 * 1000 * MS


def test_one_connection_tries_a_server_that_is_away() -> None:
    server = FakeLdap(answer)
    with server:
        engine = new_engine([stream(server.uri, connections=20)], duration_ns=1500 * MS)
        t0_ns = start(engine)
        sleep_until(t0_ns + 100 * MS)
    outcome = collect(engine)
    # each at once, and then one of a worker every 50 ms
    assert 20 + 5 <= outcome.stream_count("connect_failures") <= 20 + 2 * 28
    # each interval has its own part, the last one too
    down_ns = outcome.stream_count("down_ns")
    assert 20 * 1300 * MS < down_ns <= 20 * 1450 * MS


def test_clients_that_back_off_try_less_and_less() -> None:
    first = FakeLdap(answer)
    load = stream(first.uri, connections=20, reconnect_wait_ns=100 * MS)
    with first:
        engine = new_engine([load], duration_ns=2500 * MS)
        t0_ns = start(engine)
        sleep_until(t0_ns + 100 * MS)
    sleep_until(t0_ns + 900 * MS)
    with FakeLdap(answer, port=first.port):
        outcome = collect(engine)
    # at once, and after 50 to 150 ms, 100 to 300 ms, 200 to 600 ms
    assert 20 * 2 <= outcome.stream_count("connect_failures") <= 20 * 5
    assert outcome.stream_count("connects") == 40
    assert outcome.stream_count("down_ns") > 20 * 800 * MS


def test_one_connection_tries_a_proxy_whose_directory_is_away() -> None:
    """It takes each connection, and ends it at the first request."""
    with FakeLdap(answer) as server:
        port = server.port
        engine = new_engine([stream(server.uri, connections=50)], duration_ns=1500 * MS)
        t0_ns = start(engine)
        sleep_until(t0_ns + 100 * MS)
    with FakeLdap(lambda peer, request: False, port=port):
        sleep_until(t0_ns + 900 * MS)
    with FakeLdap(answer, port=port):
        outcome = collect(engine)
    # each twice, then one of a worker every 50 ms, and each when it is there again;
    # on a busy host, some of them because a connection lasted as long
    connects = outcome.stream_count("connects")
    assert connects <= 2 * (50 + 2 * 50 + 2 * 16 + 50)
    assert connects - outcome.stream_count("disconnects") == 50
    outcome.assert_balanced()


@pytest.mark.parametrize("limit", [1, 20])
def test_a_wait_for_the_next_connection_is_in_no_response_time(limit: int) -> None:
    def close_after(peer: Peer, request: Request) -> bool:
        return peer.send(result(request)) and peer.requests < limit

    with FakeLdap(close_after) as server:
        outcome = run(stream(server.uri, connections=4), duration_ns=1000 * MS)
    assert outcome.stream_count("disconnects") > 10
    assert outcome.count("completed") >= 10 * limit
    p99_ns = outcome.histogram(RESPONSE_TIME).percentile(99)
    assert p99_ns is not None
    assert p99_ns < 40 * MS


def test_a_connection_that_is_replaced_is_not_down() -> None:
    with FakeLdap(answer) as server:
        plan = stream(server.uri, connections=2, reconnect_operations=5)
        outcome = run(plan)
    assert outcome.stream_count("connects") > 10
    assert outcome.stream_count("down_ns") == 0


def test_a_replacement_that_fails_is_down_from_its_beginning() -> None:
    """The server answers the first bind, and no other one."""
    binds: list[Request] = []

    def once(peer: Peer, request: Request) -> bool:
        binds.append(request)
        return len(binds) > 1 or peer.send(result(request))

    load = {"bind_dn": "cn=a", "bind_password": b"a", "connect_timeout_ns": 200 * MS}
    with FakeLdap(answer, on_bind=once) as server:
        outcome = run(
            stream(server.uri, connections=1, reconnect_operations=3, **load),
            duration_ns=300 * MS,
            grace_ns=S,
        )
    assert outcome.stream_count("connect_failures") > 0
    assert outcome.stream_count("down_ns") > 250 * MS


def test_slow_binds_wait_for_each_other_no_more_than_clients_do() -> None:
    server = start_responder(delays=[(1, 50 * MS)])
    outcome = run(
        stream(
            server.uri,
            connections=100,
            **ADMIN,
            reconnect_operations=1,
        ),
        duration_ns=1000 * MS,
    )
    # 100 clients take at least 100 ms for bind and search: 1,000 in a second. Threads
    # enough for 16 of them would have made 320 binds in it.
    assert outcome.count("completed") > 500


# -- leftovers -------------------------------------------------------------------------


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_runs_leave_no_descriptor_and_no_thread_behind(responder: Responder) -> None:
    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    with FakeLdap(AfterSome(5, then=lambda peer, request: False)) as flaky:

        def use() -> None:
            run(stream(responder.uri, think_time_ns=MS), duration_ns=50 * MS, workers=2)
            run(open_stream(flaky.uri, 500), duration_ns=50 * MS)
            connect_error(f"ldap://127.0.0.1:{free_port()}")
            engine = new_engine([stream(responder.uri)])
            start(engine)
            engine.close()  # in mid-run
            new_engine([stream(responder.uri)]).prepare()  # never started nor closed

        use()  # what libraries keep for good
        deadline = time.monotonic() + 10
        before = open_descriptors(), threads()
        for _ in range(5):
            use()
        # the flaky server's threads end when they see the clients gone
        while time.monotonic() < deadline:
            after = open_descriptors(), threads()
            if after <= before:
                break
            time.sleep(0.05)
    assert after[0] <= before[0]
    assert after[1] <= before[1]


def test_connections_are_closed_with_an_unbind(responder: Responder) -> None:
    run(stream(responder.uri, think_time_ns=MS), duration_ns=50 * MS)
    deadline = time.monotonic() + 5
    while responder.counts()["unbind"] < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert responder.counts()["unbind"] == 4


def test_closing_an_engine_with_requests_in_flight_is_quick() -> None:
    with FakeLdap(never) as server:
        engine: _engine.Engine = new_engine([stream(server.uri)], duration_ns=60 * S)
        start(engine)
        before = time.monotonic()
        engine.close()
        assert time.monotonic() - before < 2
