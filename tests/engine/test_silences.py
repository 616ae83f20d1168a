# SPDX-License-Identifier: Apache-2.0
"""How long a directory did not answer is told within the ends that are given for it."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from ldapslam.agent import _engine
from ldapslam.lab.certificates import Authority
from support.engine import MS, SERVICE_TIME, S, open_stream, run, stream
from support.fake_ldap import FakeLdap, Peer, Request, answer, result

_PERIOD_NS = 5 * MS
#: Between two silences, which are then of different intervals.
_PAUSE_S = 0.35


class Directory:
    """Answers searches, but while it stalls or restarts. By its own record, no response
    left it from `silent_ns` on until `resumed_ns`, and none could until `back_ns`."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self.silent_ns: list[int] = []
        self.back_ns: list[int] = []
        self.resumed_ns: list[int] = []
        self._tls = tls
        self._changed = threading.Condition()
        self._answers, self._is_gone = True, False
        self._server = self._start(0)
        self.uri = self._server.uri

    def close(self) -> None:
        self._server.close()

    def stall(self, length_s: float) -> None:
        self._silence()
        time.sleep(length_s)
        self._resume()

    def restart(self, length_s: float) -> None:
        self._silence(is_gone=True)
        self._server.close()
        time.sleep(length_s)
        self._resume()
        self._server = self._start(self._server.port)

    def _silence(self, *, is_gone: bool = False) -> None:
        with self._changed:
            self._answers, self._is_gone = False, is_gone
            self.silent_ns.append(time.monotonic_ns())
            self._changed.notify_all()

    def _resume(self) -> None:
        with self._changed:
            self._answers, self._is_gone = True, False
            self.back_ns.append(time.monotonic_ns())
            self._changed.notify_all()

    def _start(self, port: int) -> FakeLdap:
        tls = self._tls
        server = FakeLdap(self._answer, port=port, tls=tls, tls_at_once=bool(tls))
        return server.__enter__()

    def _answer(self, peer: Peer, request: Request) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._answers or self._is_gone)
            if not self._answers:
                return False
            is_sent = peer.send(result(request))
            if len(self.resumed_ns) < len(self.silent_ns):
                self.resumed_ns.append(time.monotonic_ns())
            return is_sent


@pytest.mark.parametrize(
    ("number", "shortest_s", "workers", "slack_ns"),
    [
        # while other tests run
        pytest.param(1, 0.4, 2, 200 * MS, id="one"),
        pytest.param(25, 0.005, 1, MS // 2, id="25", marks=pytest.mark.accuracy),
    ],
)
@pytest.mark.parametrize("kind", [Directory.stall, Directory.restart])
@pytest.mark.parametrize("is_open", [True, False], ids=["open", "closed"])
@pytest.mark.parametrize("has_tls", [False, True], ids=["plain", "tls"])
def test_a_silence_is_within_its_ends(
    *,
    has_tls: bool,
    is_open: bool,
    kind: Callable[[Directory, float], None],
    number: int,
    shortest_s: float,
    workers: int,
    slack_ns: int,
    authority: Authority,
    tls: ssl.SSLContext,
) -> None:
    rng = np.random.default_rng([number, has_tls, is_open, kind is Directory.stall])
    longest_s = 5.0 if number > 1 else shortest_s
    lengths_s = np.exp(rng.uniform(np.log(shortest_s), np.log(longest_s), number))
    directory = Directory(tls if has_tls else None)
    settings = {"ca_file": str(authority.ca_file)} if has_tls else {}
    load = (
        open_stream(directory.uri, S // _PERIOD_NS, **settings)
        if is_open
        else stream(directory.uri, **settings)
    )
    started_ns = 0

    def during(_: _engine.Engine, t0_ns: int) -> None:
        nonlocal started_ns
        started_ns = t0_ns
        for length_s in lengths_s:
            time.sleep(_PAUSE_S)
            kind(directory, float(length_s))
        time.sleep(_PAUSE_S)

    duration_s = sum(lengths_s) + (number + 2) * (_PAUSE_S + 0.3)
    outcome = run(load, during=during, duration_ns=int(duration_s * S), workers=workers)
    directory.close()
    usual_ns = outcome.histogram(SERVICE_TIME).percentile(50)
    assert usual_ns is not None
    # a gap between arrivals; or the time between two attempts to connect, and a set-up
    width_ns = usual_ns + (_PERIOD_NS if kind is Directory.stall else 70 * MS)
    rows = [row for snapshot in outcome.snapshots for row in snapshot["streams"]]
    record = zip(
        directory.silent_ns, directory.back_ns, directory.resumed_ns, strict=True
    )
    for silent_ns, back_ns, resumed_ns in record:
        most_ns = resumed_ns - silent_ns
        # the interval in which it ended, by the server's clock or by the engine's
        number = (resumed_ns - started_ns) // (100 * MS)
        told = max(
            rows[number : number + 2],
            key=lambda row: row["silence_until_ns"] - row["silence_since_ns"],
        )
        is_it = (
            told["silence_until_ns"] > silent_ns - started_ns
            and told["silence_since_ns"] < resumed_ns - started_ns
        )
        certain_ns = told["silence_through_ns"] - told["silence_since_ns"] - usual_ns
        possible_ns = told["silence_until_ns"] - told["silence_after_ns"]
        # only the longest silence of an interval is known
        assert possible_ns >= back_ns - silent_ns
        assert not is_it or certain_ns <= most_ns + slack_ns
        assert not is_it or possible_ns - certain_ns <= width_ns + slack_ns
        assert is_it or most_ns < 100 * MS


def test_a_silence_of_one_server_of_two_is_told_of_that_server() -> None:
    away, there = Directory(None), Directory(None)

    def during(_: _engine.Engine, __: int) -> None:
        time.sleep(_PAUSE_S)
        away.restart(0.5)
        time.sleep(_PAUSE_S)

    load = open_stream("", 100, uris=[away.uri, there.uri])
    outcome = run(load, during=during, duration_ns=2 * S)
    away.close()
    there.close()
    longest_ns = {
        server: max(
            row["silence_through_ns"] - row["silence_since_ns"]
            for snapshot in outcome.snapshots
            for row in snapshot["streams"]
            if row["server"] == server
        )
        for server in (1, 2)
    }
    assert longest_ns[1] >= 400 * MS
    assert longest_ns[2] <= 200 * MS
    # slots of 100 ms / 64; what is after the last attempt of an interval is not certain
    heard, waited = (
        [
            [(row[name] % (1 << 64)).bit_count() for row in snapshot["streams"][1:]]
            for snapshot in outcome.snapshots
        ]
        for name in ("heard", "waited")
    )
    assert any(w[0] >= 20 and not h[0] for h, w in zip(heard, waited, strict=True))
    assert sum(w[1] for w in waited) * 100 * MS / 64 <= 200 * MS
    assert all(h[1] for h in heard[:-1])


def test_a_connection_closed_while_idle_is_no_failed_attempt() -> None:
    """As a balancer does with one that no request has used yet."""

    def close_idle(peer: Peer) -> bool:
        assert isinstance(peer.stream, socket.socket)
        peer.stream.settimeout(0.15)
        return True

    def answer_late(peer: Peer, request: Request) -> bool:
        time.sleep(0.5)
        return answer(peer, request)

    with FakeLdap(answer_late, on_connect=close_idle) as server:
        outcome = run(
            open_stream(
                server.uri, 100, connections=2, in_flight=1, total_operations=1
            ),
            duration_ns=S,
        )
    assert outcome.stream_count("lost_idle") > 1
    silences = [
        row["silence_until_ns"] - row["silence_through_ns"]
        for snapshot in outcome.snapshots
        for row in snapshot["streams"]
        if row["silence_until_ns"]
    ]
    assert silences == [0]
