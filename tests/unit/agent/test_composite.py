# SPDX-License-Identifier: Apache-2.0
"""The native engine and the streams of Python classes as one engine."""

from __future__ import annotations

from typing import Any

from ldapslam.agent.engine.setup import Composite
from ldapslam.proto.fields import PACKED
from support.rows import StreamRow, WorkerRow, snapshot_of, with_rows


class Part:
    """An engine of a fixed story: (final, operations' stream, workers) by interval."""

    def __init__(
        self, intervals: list[tuple[bool, int, int]], late_ns: int = 0, **facts: Any
    ) -> None:
        self._intervals = intervals
        self._late_ns = late_ns
        self._facts = {"workers": 1, "connections": 2}
        self._facts |= {"start_error_ns": 5, **facts}

    def snapshot(self, index: int, timeout_ns: int) -> dict[str, Any] | None:
        final, stream, workers = self._intervals[index]
        return {
            "index": index,
            "start_ns": 1000 * index + self._late_ns * (index > 0),
            "end_ns": 1000 * (index + 1) + self._late_ns,
            "final": final,
            "clock_step_ns": 0,
            **self._tables(stream, workers),
        }

    def _tables(self, stream: int, workers: int) -> dict[str, bytes]:
        # as many streams before it as it takes to have its number
        names = [StreamRow(stream=str(number)) for number in range(stream + 1)]
        tables = snapshot_of(
            streams=names,
            workers=[WorkerRow(worker=number) for number in range(workers)],
        )
        packed = {name: getattr(tables, name) for name in PACKED}
        row = len(packed["streams"]) // len(names)
        return packed | {"streams": packed["streams"][-row:]}

    def facts(self) -> dict[str, Any]:
        return dict(self._facts)

    def prepare(self) -> None: ...
    def start(self, t0_mono_ns: int) -> None: ...
    def stop(self) -> None: ...
    def close(self) -> None: ...


def test_two_engines_are_one_with_the_plans_numbers() -> None:
    native = Part([(False, 0, 2), (True, 0, 2)], kernel_stamps=True)
    python = Part([(False, 1, 3), (True, 1, 3)])
    engine = Composite(native, python)
    snapshot = with_rows(engine.snapshot(0, 1) or {})
    assert sorted(row["stream"] for row in snapshot["streams"]) == [0, 1]
    assert sorted(row["worker"] for row in snapshot["workers"]) == [0, 1, 2, 3, 4]
    assert not snapshot["final"]
    assert engine.facts() == {
        "kernel_stamps": True,
        "workers": 2,
        "connections": 4,
        "start_error_ns": 5,
    }


def test_intervals_of_two_engines_do_not_overlap() -> None:
    engine = Composite(
        Part([(False, 0, 1)] * 3, late_ns=1), Part([(False, 1, 1)] * 3, late_ns=50)
    )
    spans = []
    for index in range(3):
        snapshot = engine.snapshot(index, 1)
        assert snapshot is not None
        spans.append((snapshot["start_ns"], snapshot["end_ns"]))
    assert spans == [(0, 1050), (1050, 2050), (2050, 3050)]


def test_an_engine_that_ended_has_no_share_in_what_follows() -> None:
    native = Part([(True, 0, 2)])
    python = Part([(False, 1, 1), (False, 1, 1), (True, 1, 1)])
    engine = Composite(native, python)
    finals, streams, workers = [], [], []
    for index in range(3):
        snapshot = with_rows(engine.snapshot(index, 1) or {})
        finals.append(snapshot["final"])
        streams.append(len(snapshot["streams"]))
        workers.append([row["worker"] for row in snapshot["workers"]])
    assert finals == [False, False, True]
    assert streams == [2, 1, 1]
    # numbers stay what they were
    assert [numbers[0] for numbers in workers[1:]] == [2, 2]


def test_python_alone_is_an_engine_too() -> None:
    engine = Composite(None, Part([(True, 0, 1)], start_error_ns=None))
    snapshot = engine.snapshot(0, 1)
    assert snapshot is not None
    assert snapshot["final"]
    assert engine.facts()["start_error_ns"] is None
