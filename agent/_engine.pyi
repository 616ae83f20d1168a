# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from mmap import mmap
from typing import Any

from ldapslam.jobs.plan import AgentPlan, StreamPlan
from ldapslam.jobs.requests.template import Template

#: kind, lo, hi, step, width, data, a, b: see values.h and jobs/requests/template.py
_Value = tuple[int, int, int, int, int, bytes, float, float]

# The columns of a snapshot's tables, as in proto/fields.py (core/recorder.h).
OPERATION_COUNTERS: tuple[str, ...]
STREAM_COUNTERS: tuple[str, ...]
SET_UP_TIMES: tuple[str, ...]
WORKER_COUNTERS: tuple[str, ...]
METRICS: tuple[str, ...]
OUTCOMES: tuple[str, ...]

class ConnectError(Exception):
    """A connection could not be set up. `args` are the attributes, in their order."""

    uri: str
    stage: str
    code: int
    detail: str
    cause: str

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
        lease: mmap | None = None,
    ) -> None:
        """`lease`: 8 bytes of memory, see agent/lease.py; None: it never ends."""
    def add_stream(self, stream: StreamPlan, /) -> int:
        """With its operations and scripts, its password resolved."""
    def prepare(self) -> None: ...
    def start(self, t0_mono_ns: int) -> None: ...
    def snapshot(self, index: int, timeout_ns: int) -> dict[str, Any] | None:
        """Fields of a Snapshot (proto/common.proto): numbers, and tables as bytes."""
    def stop(self) -> None: ...
    def facts(self) -> dict[str, Any]: ...
    def close(self) -> None: ...

class SharedRecorder:
    """Recorder and arrivals of a stream whose clients are processes; made by their
    parent before it forks them: see csrc/python/shared_recorder.c."""

    def __init__(
        self, run: AgentPlan, stream: StreamPlan, number: int, operations: int, /
    ) -> None:
        """`number` is the stream's in the plan."""
    def set_span(self, t0_ns: int, end_ns: int, stopped: bool, /) -> None:
        """When the load begins and ends; again when it is stopped."""
    def end_ns(self) -> int: ...
    def take(self, now_ns: int, /) -> int | None:
        """When the next arrival is or was due; None: there is none before the end, and
        after it none that waits."""
    def wake(self, due_ns: int, now_ns: int, arrives: bool, /) -> bool:
        """Drop what was due while who wakes stood still; False: also its arrival."""
    def begin(
        self,
        operation: int,
        intended_ns: int,
        slot_free_ns: int,
        sent_ns: int,
        observed: bool,
        /,
    ) -> int:
        """A handle of the request, or of the observation."""
    def update(
        self,
        handle: int,
        sent_ns: int,
        requests: int,
        entries: int,
        references: int,
        searched: bool,
        /,
    ) -> None: ...
    def end(
        self,
        handle: int,
        outcome: int,
        code: int,
        received_ns: int,
        done_ns: int,
        diagnostic_message: bytes = b"",
        /,
    ) -> bool:
        """False: it has ended before. The message is kept of failures."""
    def count(self, counter: str, number: int = 1, /) -> None: ...
    def connected(self, duration_ns: int, /) -> None: ...
    def failed(self, errno: int, /) -> bool:
        """An attempt to connect failed with this errno; by the generator's fault?"""
    def close(self, final: bool, /) -> tuple[int, dict[str, bytes]]:
        """End of the interval, and the tables of a snapshot without workers."""

class HiccupMeter:
    """How late a thread wakes up from sleeps of 1 ms: see core/hiccup.h."""

    def __init__(self, *, realtime: bool) -> None: ...
    def take(self) -> tuple[int, int]:
        """Since the last call, in ns: the longest, and the sum of those of 1 ms and
        more."""
    def close(self) -> None: ...

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
        in_turn: bool = False,
    ) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def record(self) -> list[tuple[int, int]]:
        """When each request was received (CLOCK_MONOTONIC) and its service time, in ns,
        in the order of the answers."""
    def counts(self) -> dict[str, int]: ...

class Ldif:
    """A population's entries, written by threads: see ldif/ldif.h and
    dataset/population.py."""

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

class Text:
    """The texts of a template without TLVs and variables: see template.h. Client
    `number` of `total` draws; values in turn are dealt to all of them."""

    def __init__(
        self, template: Template, *, seed: int, number: int, total: int
    ) -> None: ...
    def next(self) -> bytes: ...
