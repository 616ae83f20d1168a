# SPDX-License-Identifier: Apache-2.0
"""The engine's process with an engine that does on request what a real one does not.

    python fake_engine.py BEHAVIOUR

It answers no server and makes up its counts: 100 requests in each interval. It may
`run`, `crash` (in the second interval), `crash_early` (while it prepares), `hang`
(while it prepares), or be `deaf` (not hear that it is to stop).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from functools import partial
from types import ModuleType
from typing import Any

from ldapslam.agent.engine.process import RunProcess, main
from ldapslam.agent.lease import Lease
from ldapslam.jobs.plan import StreamPlan
from ldapslam.proto.fields import PACKED
from support.rows import OperationRow, StreamRow, snapshot_of

PER_INTERVAL = 100

_NEVER_S = 3600.0


class FakeEngine:
    """Keeps the engine's contract (agent/_engine.pyi) without doing its work."""

    def __init__(
        self, boundaries_ns: tuple[int, ...], lease: Lease, behaviour: str
    ) -> None:
        self._boundaries_ns = boundaries_ns
        self._lease = lease
        self._behaviour = behaviour
        self._stopped = threading.Event()
        self._streams: list[int] = []
        self._t0_ns = 0
        self._start_ns = 0

    def add_stream(self, stream: StreamPlan, /) -> int:
        self._streams.append(len(stream.operations))
        return len(self._streams) - 1

    def prepare(self) -> None:
        if self._behaviour == "crash_early":
            os.kill(os.getpid(), signal.SIGSEGV)
        if self._behaviour == "hang":
            time.sleep(_NEVER_S)

    def start(self, t0_mono_ns: int) -> None:
        self._t0_ns = t0_mono_ns

    def snapshot(self, index: int, timeout_ns: int) -> dict[str, Any] | None:
        if index == 1 and self._behaviour == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        is_final = index == len(self._boundaries_ns)
        if not is_final:
            due_ns = self._t0_ns + self._boundaries_ns[index]
            left_ns = due_ns - time.monotonic_ns()
            is_final = self._stopped.wait(max(0, min(left_ns, timeout_ns)) / 1e9)
            is_final |= self._lease.is_over
            if not is_final and left_ns > timeout_ns:
                return None
        end_ns = time.monotonic_ns() - self._t0_ns
        start_ns, self._start_ns = self._start_ns, end_ns
        tables = snapshot_of(
            operations=[
                self._counts(stream, operation)
                for stream, count in enumerate(self._streams)
                for operation in range(count)
            ],
            streams=[
                StreamRow(stream=str(stream), last_done_ns=end_ns)
                for stream in range(len(self._streams))
            ],
        )
        return {
            "index": index,
            "start_ns": start_ns,
            "end_ns": end_ns,
            "final": is_final,
            "clock_step_ns": 0,
            **{name: getattr(tables, name) for name in PACKED},
        }

    def _counts(self, stream: int, operation: int) -> OperationRow:
        return OperationRow(
            stream=str(stream),
            operation=str(operation),
            measured=True,
            result_codes={0: PER_INTERVAL},
            scheduled=PER_INTERVAL,
            sent=PER_INTERVAL,
            completed=PER_INTERVAL,
            succeeded=PER_INTERVAL,
        )

    def stop(self) -> None:
        if self._behaviour != "deaf":
            self._stopped.set()

    def facts(self) -> dict[str, Any]:
        return {"kernel_stamps": True, "realtime": False, "start_error_ns": 0}

    def close(self) -> None:
        pass


class FakeRun(RunProcess):
    """A run on a FakeEngine, whose targets need not exist."""

    behaviour = "run"

    def _ask_targets(self) -> list[dict[str, Any]]:
        return []

    def _new_engine(self) -> Any:
        return FakeEngine(self._plan.boundaries_ns, self._lease, self.behaviour)


def fake_main(behaviour: str) -> int:
    FakeRun.behaviour = behaviour
    return main(FakeRun)


def module_of(behaviour: str) -> str:
    """Return the name of a module that an agent's fork server can run, which has to be
    forked after this call."""
    name = f"fake_engine.{behaviour}"
    module = ModuleType(name)
    vars(module)["main"] = partial(fake_main, behaviour)
    sys.modules[name] = module
    return name


if __name__ == "__main__":
    # os._exit as the real one does
    os._exit(fake_main(sys.argv[1]))
