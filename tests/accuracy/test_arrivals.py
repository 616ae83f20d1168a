# SPDX-License-Identifier: Apache-2.0
"""An open loop's arrivals as the server sees them: when the schedule says, all of them.

N(t) is the integral of the rate. The server's side is the responder's: the kernel's
stamp of each request. Looked at is what came while the host was quiet
(support/quiet.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from support.engine import (
    BACKLOG_WAIT,
    BUSY_LATER,
    FOR_EVER_NS,
    MS,
    SEND_LAG,
    Result,
    S,
    collect,
    new_engine,
    open_stream,
    run,
    start,
    start_responder,
)
from support.quiet import Flags, QuietMoments, Times, on_quiet_time, within
from support.truth import anderson_darling

pytestmark = pytest.mark.accuracy

Segment = tuple[int, float, float]


@dataclass(frozen=True)
class Received:
    """What the server received, and when nothing was in the way: s after T0."""

    outcome: Result
    times: Times
    begins: Times
    ends: Times

    @property
    def is_quiet(self) -> Flags:
        return within(self.times, self.begins, self.ends)

    @property
    def quiet_share(self) -> float:
        return float((self.ends - self.begins).sum() / self.times[-1])


def received(load: dict[str, Any], duration_s: int, workers: int = 1) -> Received:
    """Each worker carries the load."""
    server = start_responder(record_capacity=2_000_000)
    if workers > 1:
        load = {**load, "profile": [*load["profile"], BUSY_LATER]}
    engine = new_engine(
        [{**load, "uris": [server.uri]}],
        duration_ns=duration_s * S,
        interval_ns=S,
        realtime=True,
        workers=workers,
    )
    with QuietMoments() as quiet:
        t0_ns = start(engine)
        outcome = collect(engine)
    assert outcome.count("dropped") == outcome.count("unresolved") == 0
    stamps = np.sort(np.array(server.record(), dtype=np.int64)[:, 0])
    assert stamps.size == outcome.count("sent")
    spans = quiet.since(t0_ns / S, t0_ns / S + duration_s)
    return Received(outcome, (stamps - t0_ns) / S, *spans)


def steady(t: float) -> float:
    return 500 * t


def ramp(t: float) -> float:
    """From 100/s to 500/s in three seconds."""
    return 100 * t + (500 - 100) / 3 * t * t / 2


PROFILES: dict[str, tuple[Callable[[float], float], list[Segment]]] = {
    "steady": (steady, [(FOR_EVER_NS, 500 / S, 500 / S)]),
    "ramp": (ramp, [(3 * S, 100 / S, 500 / S)]),
}


@pytest.mark.usefixtures("real_time")
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("scheduled", "profile"), PROFILES.values(), ids=PROFILES.keys()
)
def test_arrivals_by_any_time_are_within_one_of_the_schedule(
    scheduled: Callable[[float], float], profile: list[Segment], workers: int
) -> None:
    load = open_stream("", 500, connections=32, profile=profile)
    found = received(load, 3, workers)
    times, is_quiet = found.times, found.is_quiet
    due = np.array([scheduled(t) for t in times])
    # just after the n-th request there have been n, just before it n - 1
    after = np.arange(1, times.size + 1) - due
    before = (np.arange(times.size) - due)[is_quiet]
    late = np.argsort(before)[:5]
    where = [f"{times[is_quiet][n]:.4f} s: {before[n]:.2f}" for n in late]
    # the server's stamps are of the wall clock: to a tenth of a millisecond
    assert after.max() <= 1.05, after.max()
    assert before.min() >= -1, where
    assert abs(times.size - scheduled(3.0)) <= 1


@pytest.mark.usefixtures("real_time")
@pytest.mark.parametrize("workers", [1, 2])
def test_poisson_arrivals_pass_anderson_and_darling_at_the_server(workers: int) -> None:
    """Some thousand distances of 2 ms in the mean; above 3.857 one run of a hundred
    fails, and this is one run: the seed is fixed."""
    rate_per_s = 500
    load = open_stream("", rate_per_s, connections=32, arrivals="poisson")
    found = received(load, 12, workers)
    distances = np.diff(on_quiet_time(found.times, found.begins, found.ends))
    uniform = -np.expm1(-rate_per_s * distances)
    assert anderson_darling(uniform) < 3.857
    # and as many as there should be, to four standard deviations
    assert abs(found.times.size - 12 * rate_per_s) < 4 * (12 * rate_per_s) ** 0.5


@pytest.mark.usefixtures("real_time")
def test_uniform_arrivals_come_once_in_each_slot() -> None:
    found = received(open_stream("", 500, connections=32, arrivals="uniform"), 6)
    times = found.times[found.is_quiet]
    slots = np.floor(500 * times).astype(int)
    # one that is drawn for the end of its slot may be received in the next
    assert np.abs(slots - np.flatnonzero(found.is_quiet)).max() <= 1
    # its place within the slot is uniform: also that of what came a little later, as
    # long as the next slot's beginning stands for this one's
    assert anderson_darling(500 * times % 1) < 3.857


@pytest.mark.usefixtures("real_time")
def test_send_lag_at_twenty_thousand_a_second_is_small() -> None:
    """p50 below 50 us with SCHED_FIFO; p99 below 50 us and p99.9 below 300 us where the
    host leaves the machine alone."""
    load = open_stream("", 20_000, connections=32, arrivals="poisson")
    found = received(load, 5)
    p50, p99, p99_9 = (
        found.outcome.histogram(SEND_LAG).percentile(p) or 0 for p in (50, 99, 99.9)
    )
    print(
        f"send lag: p50 {p50 / 1e3:.1f} us, p99 {p99 / 1e3:.1f} us, "
        f"p99.9 {p99_9 / 1e3:.1f} us"
    )
    assert 0 < p50 < 50_000
    if found.quiet_share > 0.995:
        assert p99 < 50_000
        assert p99_9 < 300_000


def test_backlog_wait_does_not_depend_on_the_number_of_workers() -> None:
    """Eight connections that take one request of 200 ms at a time, loaded to 75 %: in
    queues of their own, one for each of eight workers, arrivals would wait for ten
    times as long."""
    waits_ns = {}
    for workers in (1, 2, 4, 8):
        server = start_responder(delays=[(1, 200 * MS)])
        outcome = run(
            open_stream(server.uri, 30, arrivals="poisson", connections=8, in_flight=1),
            duration_ns=20 * S,
            interval_ns=S,
            grace_ns=2 * S,
            workers=workers,
            realtime=True,
            seed=1,
        )
        wait = outcome.histogram(BACKLOG_WAIT)
        waits_ns[workers] = {"mean": wait.mean(), "p90": wait.percentile(90)}
    print(waits_ns)
    for workers, wait_ns in waits_ns.items():
        for figure, ns in wait_ns.items():
            assert ns == pytest.approx(waits_ns[1][figure], rel=0.05), workers
