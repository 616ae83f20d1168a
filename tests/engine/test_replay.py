# SPDX-License-Identifier: Apache-2.0
"""Replays in the engine: times, connections and orders are those of the trace."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ldapslam.agent._engine import Responder
from ldapslam.jobs.operations.connection import UNBIND as UNBIND_REQUEST
from ldapslam.jobs.replay.log import Log, Operation, Session
from ldapslam.jobs.replay.options import KINDS, Trace
from ldapslam.jobs.replay.trace import Pace, Requests, Schedule, schedule, write_trace
from support.engine import (
    BACKLOG_WAIT,
    MS,
    RESPONSE_TIME,
    SEND_LAG,
    SERVICE_TIME,
    S,
    literal,
    run,
    stream,
)
from support.fake_ldap import FakeLdap, Peer, Request, answer, ldap_result, message

SEARCH, UNBIND = list(KINDS).index("search"), list(KINDS).index("unbind")


def searching(time_ns: int, number: int) -> Operation:
    return Operation(
        time_ns, number, "search", dn=f"ou={number}", filter="(uid=a[b])", result=0
    )


def session(start_ns: int, times_ns: Sequence[int], end_ns: int | None) -> Session:
    operations = [searching(at, number) for number, at in enumerate(times_ns, 1)]
    return Session(start_ns, end_ns, True, operations)


def scheduled(sessions: list[Session], pace: Pace) -> Schedule:
    log = Log(sessions, first_ns=0, last_ns=10 * S)
    trace = Trace.model_validate({"logs": ["x"], "connections": 1})
    return schedule(log, pace, Requests(trace, 1, None))


def replaying(uri: str, made: Schedule, folder: Path, **changes: Any) -> dict[str, Any]:
    """A stream of all connections of a schedule, as support.engine takes it."""
    path = folder / "trace"
    with path.open("wb") as trace:
        write_trace(made, trace, first_connection=0, stride=1)
    operations: list[dict[str, Any]] = [
        {
            "name": kind,
            "response_tag": tag,
            "program": literal(UNBIND_REQUEST),
            "values": [],
            "success_codes": codes or (0,),
            "action": "request" if tag else "unbind",
        }
        for kind, (tag, codes) in KINDS.items()
    ]
    settings = {
        "model": "open",
        "connections": len(made.connections),
        "trace": str(path),
        "operations": operations,
    }
    return stream(uri, **{**settings, **changes})


class Witness:
    """A behaviour that notes what came on which connection."""

    def __init__(self, delay_ns: int = 0) -> None:
        self.seen: list[tuple[int, str]] = []
        self._delay_ns = delay_ns
        self._lock = threading.Lock()

    def __call__(self, peer: Peer, request: Request) -> bool:
        name = request.content[2 : 2 + request.content[1]].decode()
        with self._lock:
            self.seen.append((peer.number, name))
        if self._delay_ns:
            time.sleep(self._delay_ns / S)
        return answer(peer, request)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize(("speed", "factor"), [(1.0, 1), (10.0, 10)])
def test_requests_arrive_at_the_times_of_the_log(
    responder: Responder, tmp_path: Path, speed: float, factor: int, workers: int
) -> None:
    # five connections, a request every 10 ms on each, 2 ms apart
    sessions = [
        session(0, [c * 2 * MS + k * 10 * MS for k in range(40)], None)
        for c in range(5)
    ]
    made = scheduled(sessions, Pace(50 * MS, 10 * S, speed))
    load = replaying(responder.uri, made, tmp_path)
    result = run(load, duration_ns=2 * S, workers=workers)
    assert result.count("succeeded", operation=SEARCH) == 200
    last_ns = max(one[-1].due_ns for one in made.connections if one)
    assert last_ns == 50 * MS + 398 * MS // factor
    # sent when due: the send lag is that of any open stream
    lag = result.histogram(SEND_LAG, operation=SEARCH)
    assert (lag.percentile(50) or S) < MS
    ends_ns = result.snapshots[-1]["end_ns"]
    assert ends_ns < 2 * S, "the run ends with the last request of the log"


def test_the_order_of_a_connection_is_kept_although_the_server_is_slow(
    tmp_path: Path,
) -> None:
    # twenty requests, 1 ms apart, each of which takes 5 ms: 100 ms in all
    made = scheduled([session(0, [k * MS for k in range(20)], None)], Pace(0, S))
    witness = Witness(delay_ns=5 * MS)
    with FakeLdap(witness) as server:
        result = run(replaying(server.uri, made, tmp_path), duration_ns=3 * S)
    assert [name for _, name in witness.seen] == [f"ou={n}" for n in range(1, 21)]
    # the last one was due at 19 ms and answered after 100: the wait is in its response
    # time, not in its service time
    response = result.histogram(RESPONSE_TIME, operation=SEARCH)
    service = result.histogram(SERVICE_TIME, operation=SEARCH)
    wait = result.histogram(BACKLOG_WAIT, operation=SEARCH)
    assert response.max_ns > 75 * MS
    assert service.max_ns < response.max_ns / 2
    assert wait.max_ns > 70 * MS


def test_sessions_that_follow_one_another_get_connections_of_their_own(
    tmp_path: Path,
) -> None:
    # three sessions of 50 ms, 200 ms apart: one connection, set up anew for each
    sessions = [
        session(k * 200 * MS, [k * 200 * MS + 10 * MS], k * 200 * MS + 50 * MS)
        for k in range(3)
    ]
    made = scheduled(sessions, Pace(0, S))
    assert len(made.connections) == 1
    witness = Witness()
    with FakeLdap(witness) as server:
        result = run(replaying(server.uri, made, tmp_path), duration_ns=3 * S)
    assert len({peer for peer, _ in witness.seen}) == 3
    assert result.count("succeeded", operation=SEARCH) == 3
    assert result.count("succeeded", operation=UNBIND) == 3
    assert result.stream_count("connects") == 3
    assert result.stream_count("disconnects") == 0


def test_as_fast_as_possible_waits_for_answers_only(
    responder: Responder, tmp_path: Path
) -> None:
    # an hour of log, four connections
    sessions = [
        session(0, [k * 36 * S for k in range(100)], 3600 * S) for _ in range(4)
    ]
    made = scheduled(sessions, Pace(0, 10 * S, None))
    assert len(made.connections) == 4
    load = replaying(responder.uri, made, tmp_path, model="closed")
    result = run(load, duration_ns=20 * S)
    assert result.count("succeeded", operation=SEARCH) == 400
    assert result.count("succeeded", operation=UNBIND) == 4
    assert result.snapshots[-1]["end_ns"] < 5 * S


def test_what_is_due_and_was_never_sent_is_counted_as_dropped(tmp_path: Path) -> None:
    made = scheduled([session(0, [k * MS for k in range(50)], None)], Pace(0, S))
    witness = Witness(delay_ns=100 * MS)
    with FakeLdap(witness) as server:
        load = replaying(server.uri, made, tmp_path)
        result = run(load, duration_ns=300 * MS, grace_ns=100 * MS)
    assert result.count("scheduled", operation=SEARCH) == 50
    assert result.count("dropped", operation=SEARCH) >= 44


def test_what_was_due_is_sent_in_order_after_the_end(tmp_path: Path) -> None:
    made = scheduled([session(0, [k * MS for k in range(50)], None)], Pace(0, S))
    witness = Witness(delay_ns=10 * MS)
    with FakeLdap(witness) as server:
        result = run(replaying(server.uri, made, tmp_path), duration_ns=100 * MS)
    assert result.count("succeeded", operation=SEARCH) == 50
    assert result.snapshots[-1]["streams"][0]["backlog"] == 0


def test_a_lost_connection_goes_on_with_the_next_request(tmp_path: Path) -> None:
    made = scheduled([session(0, [k * 50 * MS for k in range(10)], None)], Pace(0, S))

    def reset_once(peer: Peer, request: Request) -> bool:
        if peer.number == 0 and peer.requests == 3:
            return peer.reset()
        return answer(peer, request)

    with FakeLdap(reset_once) as server:
        result = run(replaying(server.uri, made, tmp_path), duration_ns=3 * S)
    assert result.count("unresolved", operation=SEARCH) == 1
    assert result.count("succeeded", operation=SEARCH) == 9


def test_connection_answered_before_it_has_taken_a_request_goes_on(
    tmp_path: Path,
) -> None:
    long = [
        replace(operation, filter=f"(uid={'x' * 1_000_000})")
        for operation in session(0, [k * MS for k in range(12)], None).operations
    ]
    made = scheduled([Session(0, None, True, long)], Pace(0, S))

    def answer_unread(peer: Peer) -> bool:
        assert isinstance(peer.stream, socket.socket)
        # what is not read fills the sockets; a connection's first messageID is 16
        peer.stream.recv(1, socket.MSG_PEEK)
        for message_id in range(16, 28):
            peer.send(message(message_id, 0x65, ldap_result(0)))
            time.sleep(0.02)
        return True

    with FakeLdap(answer, on_connect=answer_unread) as server:
        result = run(replaying(server.uri, made, tmp_path), duration_ns=5 * S)
    assert result.count("succeeded", operation=SEARCH) == 12


def test_a_file_that_is_no_trace_is_refused(
    responder: Responder, tmp_path: Path
) -> None:
    made = scheduled([session(0, [0], None)], Pace(0, S))
    load = replaying(responder.uri, made, tmp_path)
    path = Path(load["trace"])
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(ValueError, match="trace: at byte 32"):
        run(load)
    path.write_bytes(struct.pack("<8sQQQ", b"SLT9", 0, 0, 0))
    with pytest.raises(ValueError, match="this is no trace"):
        run(load)
