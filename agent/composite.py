# SPDX-License-Identifier: Apache-2.0
"""Two engines as one: the native one, and the streams that Python classes drive.

Both have the same interface and cut the run at the same boundaries; a snapshot of the
composite is that of both, with the streams numbered as in the plan. A part that has
ended has no share in the snapshots that follow. Everything but `stop` is for one
thread.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol


class Part(Protocol):
    """What an engine is to whoever drives a run."""

    def prepare(self) -> None: ...
    def start(self, t0_mono_ns: int) -> None: ...
    def snapshot(self, index: int, timeout_ns: int) -> dict[str, Any] | None: ...
    def stop(self) -> None: ...
    def facts(self) -> dict[str, Any]: ...
    def close(self) -> None: ...


class Composite:
    """`native` numbers its streams from 0; `numbers` has their numbers in the plan."""

    def __init__(self, native: Part, numbers: Sequence[int], python: Part) -> None:
        self.native = native
        self._numbers = numbers
        self._python = python
        self._taken: dict[str, dict[str, Any]] = {}
        self._ended: set[str] = set()
        #: Native workers, of which Python's are told apart by their numbers.
        self._native_workers = 0

    def prepare(self) -> None:
        # classes first: an import that fails is quicker than ten thousand connections
        self._python.prepare()
        self.native.prepare()

    def start(self, t0_mono_ns: int) -> None:
        self._python.start(t0_mono_ns)
        self.native.start(t0_mono_ns)

    def stop(self) -> None:
        self._python.stop()
        self.native.stop()

    def snapshot(self, index: int, timeout_ns: int) -> dict[str, Any] | None:
        deadline_ns = time.monotonic_ns() + timeout_ns
        for name, part in (("native", self.native), ("python", self._python)):
            if name in self._taken or name in self._ended:
                continue
            left_ns = max(0, deadline_ns - time.monotonic_ns())
            snapshot = part.snapshot(index, left_ns)
            if snapshot is None:
                return None
            self._taken[name] = snapshot
            if snapshot["final"]:
                self._ended.add(name)
        native, python = self._taken.get("native"), self._taken.get("python")
        self._taken = {}
        if native is not None:
            for row in (*native["operations"], *native["streams"]):
                row["stream"] = self._numbers[row["stream"]]
            if native["workers"]:
                self._native_workers = 1 + max(
                    row["worker"] for row in native["workers"]
                )
        if python is not None:
            for row in python["workers"]:
                row["worker"] += self._native_workers
        parts = [part for part in (native, python) if part is not None]
        return _merged(parts, is_final=len(self._ended) == 2)

    def facts(self) -> dict[str, Any]:
        native, python = self.native.facts(), self._python.facts()
        errors_ns = (native["start_error_ns"], python["start_error_ns"])
        return {
            **python,
            **native,
            "kernel_stamps": native["kernel_stamps"] and python["kernel_stamps"],
            "workers": native["workers"] + python["workers"],
            "connections": native["connections"] + python["connections"],
            "start_error_ns": None if None in errors_ns else max(errors_ns),
        }

    def close(self) -> None:
        try:
            self._python.close()
        finally:
            self.native.close()


def _merged(parts: Sequence[dict[str, Any]], *, is_final: bool) -> dict[str, Any]:
    return {
        "index": parts[0]["index"],
        "start_ns": min(part["start_ns"] for part in parts),
        "end_ns": max(part["end_ns"] for part in parts),
        "final": is_final,
        "clock_step_ns": max(part["clock_step_ns"] for part in parts),
        "operations": [row for part in parts for row in part["operations"]],
        "streams": [row for part in parts for row in part["streams"]],
        "workers": [row for part in parts for row in part["workers"]],
    }
