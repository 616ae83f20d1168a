# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from typing import Any

from ldapslam.jobs.plan import AgentPlan, StreamPlan

#: kind, lo, hi, step, width, data, a, b: see values.h and jobs/requests/template.py
_Value = tuple[int, int, int, int, int, bytes, float, float]

# Names in a snapshot, each list in the order of the engine's numbers (core/recorder.h).
OPERATION_COUNTERS: tuple[str, ...]
STREAM_COUNTERS: tuple[str, ...]
SET_UP_TIMES: tuple[str, ...]
WORKER_COUNTERS: tuple[str, ...]
METRICS: tuple[str, ...]
OUTCOMES: tuple[str, ...]

class ConnectError(Exception):
    """A connection could not be set up; args: uri, stage, code, detail."""

    uri: str
    stage: str
    code: int
    detail: str

class Engine:
    """A load of some streams: see load/engine.h for the contract of each call."""

    def __init__(
        self,
        plan: AgentPlan,
        *,
        workers: int,
        realtime: bool = True,
        spin_ns: int = 20000,
        max_pdu_bytes: int = 16777216,
    ) -> None: ...
    def add_stream(self, stream: StreamPlan, /) -> int:
        """With its operations and scripts, its password resolved."""
    def prepare(self) -> None: ...
    def start(self, t0_mono_ns: int) -> None: ...
    def snapshot(self, index: int, timeout_ns: int) -> dict[str, Any] | None: ...
    def stop(self) -> None: ...
    def facts(self) -> dict[str, Any]: ...
    def close(self) -> None: ...

class Histogram:
    """The engine's histogram, for what is measured in Python."""

    def record_ns(self, value_ns: int) -> None: ...
    def pack(self) -> bytes:
        """The packed histogram; empties it."""

class Responder:
    port: int
    uri: str
    def __init__(
        self,
        *,
        socket_path: str | None = None,
        delays: Sequence[tuple[int, int]] = (),
        seed: int = 0,
        record_capacity: int = 0,
    ) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def record(self) -> list[int]:
        """Service times, in the order of the answers, in ns."""
    def arrivals(self) -> list[int]:
        """When those requests were received: ns of CLOCK_MONOTONIC."""
    def counts(self) -> dict[str, int]: ...

class Ldif:
    """A population's entries, written by threads: see ldif.h and
    jobs/entries/population_program.py."""

    entries: int
    def __init__(
        self,
        *,
        seed: int,
        nodes: Sequence[tuple[int, int, int, int, int, bytes]],
        values: Sequence[_Value],
        first_names: int,
        last_names: int,
        threads: int,
        fds: Sequence[int],
    ) -> None: ...
    def start(self) -> None: ...
    def wait(self, timeout_ns: int) -> bool:
        """Whether everything is written, or it was stopped."""
    def progress(self) -> tuple[int, int]:
        """Entries and bytes of LDIF written so far."""
    def stop(self) -> None: ...
    def close(self) -> None: ...
