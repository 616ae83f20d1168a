# SPDX-License-Identifier: Apache-2.0
"""Runs the engine over and over in a fresh process; prints how its memory grew, in KiB.

Closed and open streams, lost connections, refused ones, engines closed in mid-run or
never started. The first runs are not counted: allocators and libraries keep what they
have once used.
"""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path

from ldapslam.agent._engine import ConnectError, Responder
from support.engine import MS, new_engine, open_stream, run, start, stream
from support.fake_ldap import AfterSome, FakeLdap

WARM_UP, RUNS = 10, 40


def resident_kib() -> int:
    gc.collect()
    # glibc keeps up to 64 MiB of what was freed, by the order in which threads end
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4


def use(steady: Responder, flaky_uri: str, closed_uri: str) -> None:
    run(stream(steady.uri, think_time_ns=MS), duration_ns=20 * MS, workers=2)
    run(open_stream(flaky_uri, 1000), duration_ns=20 * MS)
    for settings in (stream(closed_uri), stream(steady.uri, in_flight=9)):
        try:
            new_engine([settings]).prepare()
        except (ConnectError, ValueError):
            pass
    engine = new_engine([stream(steady.uri, bind_dn="cn=a", bind_password=b"b")])
    start(engine)
    engine.snapshot(0, MS)
    engine.close()
    responder = Responder(delays=[(1, MS)], record_capacity=1000)
    responder.start()
    run(stream(responder.uri), duration_ns=10 * MS)


def main() -> None:
    steady = Responder()
    steady.start()
    gone = Responder()  # its port is refused once it is gone
    closed_uri = gone.uri
    del gone
    with FakeLdap(AfterSome(3, then=lambda peer, request: False)) as flaky:
        for _ in range(WARM_UP):
            use(steady, flaky.uri, closed_uri)
        before = resident_kib()
        for _ in range(RUNS):
            use(steady, flaky.uri, closed_uri)
            flaky.requests.clear()
        print(resident_kib() - before)


if __name__ == "__main__":
    main()
