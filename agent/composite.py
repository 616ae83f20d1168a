# SPDX-License-Identifier: Apache-2.0
"""Two engines as one: the native one, and the streams that Python classes drive.

Both have the same interface and cut the run at the same boundaries; a snapshot of the
composite is that of both, with the streams numbered as in the plan. A part that has
ended has no share in the snapshots that follow. Everything but `stop` is for one
thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ldapslam.agent.engine_setup import native_streams
from ldapslam.agent.limits import AgentLimits
from ldapslam.jobs.plan import AgentPlan


class Part(Protocol):
    """What an engine is to whoever drives a run."""

    def prepare(self) -> None: ...
    def start(self, t0_mono_ns: int) -> None: ...
    def snapshot(self, index: int, timeout_ns: int) -> dict[str, Any] | None: ...
    def stop(self) -> None: ...
    def facts(self) -> dict[str, Any]: ...
    def close(self) -> None: ...


class NativeEngine(Part, Protocol):
    """The one that is told its streams: `_engine.Engine`."""

    def add_stream(self, name: str, **settings: Any) -> int: ...
    def add_operation(self, stream: int, name: str, **settings: Any) -> int: ...
    def add_script(
        self, stream: int, *, weight: int, steps: tuple[tuple[int, int], ...]
    ) -> int: ...


def compose(
    plan: AgentPlan, new_native: Callable[[], NativeEngine], limits: AgentLimits
) -> NativeEngine:
    """The engine of a plan: the native one alone, unless Python has a part in it."""
    numbers = [
        number
        for number, stream in enumerate(plan.streams)
        if stream.engine == "native"
    ]
    if len(numbers) == len(plan.streams):
        return new_native()
    from ldapslam.agent.python_streams import PythonStreams

    native = new_native() if native_streams(plan) else None
    return Composite(native, numbers, PythonStreams(plan, limits))


class Composite:
    """`native` numbers its streams from 0; `numbers` has their numbers in the plan."""

    def __init__(
        self, native: NativeEngine | None, numbers: Sequence[int], python: Part
    ) -> None:
        self._native = native
        self._numbers = numbers
        # classes first: an import that fails is quicker than ten thousand connections
        self._parts: dict[str, Part] = {"python": python}
        if native is not None:
            self._parts["native"] = native
        self._taken: dict[str, dict[str, Any]] = {}
        self._ended: set[str] = set()
        #: Native workers, of which Python's are told apart by their numbers.
        self._native_workers = 0

    def add_stream(self, name: str, **settings: Any) -> int:
        return self._told().add_stream(name, **settings)

    def add_operation(self, stream: int, name: str, **settings: Any) -> int:
        return self._told().add_operation(stream, name, **settings)

    def add_script(
        self, stream: int, *, weight: int, steps: tuple[tuple[int, int], ...]
    ) -> int:
        return self._told().add_script(stream, weight=weight, steps=steps)

    def _told(self) -> NativeEngine:
        if self._native is None:
            raise ValueError("the plan has no stream for the native engine")
        return self._native

    def prepare(self) -> None:
        for part in self._parts.values():
            part.prepare()

    def start(self, t0_mono_ns: int) -> None:
        for part in self._parts.values():
            part.start(t0_mono_ns)

    def stop(self) -> None:
        for part in self._parts.values():
            part.stop()

    def snapshot(self, index: int, timeout_ns: int) -> dict[str, Any] | None:
        deadline_ns = time.monotonic_ns() + timeout_ns
        for name, part in self._parts.items():
            if name in self._taken or name in self._ended:
                continue
            left_ns = max(0, deadline_ns - time.monotonic_ns())
            snapshot = part.snapshot(index, left_ns)
            if snapshot is None:
                return None
            self._taken[name] = snapshot
            if snapshot["final"]:
                self._ended.add(name)
        taken, self._taken = self._taken, {}
        self._number(taken.get("native"), taken.get("python"))
        return _merged(
            list(taken.values()), is_final=len(self._ended) == len(self._parts)
        )

    def _number(
        self, native: dict[str, Any] | None, python: dict[str, Any] | None
    ) -> None:
        """Give streams and workers the numbers that they have in the whole."""
        if native is not None:
            for row in (*native["operations"], *native["streams"]):
                row["stream"] = self._numbers[row["stream"]]
            for row in native["workers"]:
                self._native_workers = max(self._native_workers, row["worker"] + 1)
        if python is not None:
            for row in python["workers"]:
                row["worker"] += self._native_workers

    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        for each in (part.facts() for part in self._parts.values()):
            if facts:
                each["workers"] += facts["workers"]
                each["connections"] += facts["connections"]
                errors_ns = (each["start_error_ns"], facts["start_error_ns"])
                each["start_error_ns"] = None if None in errors_ns else max(errors_ns)
            facts.update(each)
        return facts

    def close(self) -> None:
        for part in self._parts.values():
            part.close()


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
