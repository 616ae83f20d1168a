# SPDX-License-Identifier: Apache-2.0
"""When parts of a run are collected while it goes on, and when they are kept."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ldapslam.coordinator import part_collector
from ldapslam.coordinator.observer import JudgedRun
from ldapslam.coordinator.part_collector import PartCollector
from ldapslam.proto import operator_pb2 as pb
from ldapslam.results import schema
from ldapslam.results.collected import CollectedPart, content_of, kept
from ldapslam.results.store import Store
from ldapslam.results.window import Window
from support.store import RUN_ID, Scenario, fill, run_record
from support.world import World

#: It has as many reports of its intervals as two agents have in the store.
PART = CollectedPart(0, 3, 8, "0" * 64, "1" * 64)


class Asked:
    """Answers in the place of the process that collects."""

    def __init__(self, *answers: Mapping[str, object] | Exception) -> None:
        self.at: list[tuple[int, int]] = []
        self._answers = list(answers)

    async def __call__(
        self, run_id: str, first_index: int, last_index: int
    ) -> Mapping[str, object]:
        assert run_id == RUN_ID
        self.at.append((first_index, last_index))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def found(following: int) -> dict[str, object]:
    content = b64encode(b"content").decode()
    return {"part": PART._asdict(), "content": content, "next": following}


def _go_on(store: Store) -> None:
    with store.transaction(writes=True) as connection:
        connection.execute(schema.run.update(), {"state": "running"})


@pytest.fixture
def follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., CollectedPart | None]:
    """Follows a run of two agents; returns what is kept of it at the end."""
    monkeypatch.setattr(part_collector, "_FIRST_REPORTS", 10)
    monkeypatch.setattr(part_collector, "_PAUSE", 10)

    async def go(asked: Asked, intervals: int, ends_after: int) -> Any:
        world = World(tmp_path)
        scenario = Scenario(measure_s=9, ramp_up_s=0, warm_up_s=0)
        await world.writer.call(fill, world.store, scenario)
        await world.writer.call(_go_on, world.store)
        collector = PartCollector(asked)
        await collector.start(world.coordinator, Any)
        for index in range(intervals):
            names = {"agent": ["load1", "load2"]}
            window = Window((index,), names, {}, {}, {}, {})
            figures = pb.IntervalFigures(index=index)
            collector.interval_measured(RUN_ID, figures, window)
            tasks = [run.task for run in collector._runs.values() if run.task]
            await asyncio.gather(*tasks)
            if index == ends_after:
                collector.run_judged(JudgedRun(run_record(scenario)))
        await collector.stop()
        parts = await world.writer.call(kept, world.store, RUN_ID)
        for part in parts.values():
            of_part = world.store, RUN_ID, part
            assert await world.writer.call(content_of, *of_part) == b"content"
        await world.writer.close()
        return parts.get(0)

    return lambda asked, intervals, ends_after=-1: asyncio.run(
        go(asked, intervals, ends_after)
    )


def test_a_part_is_asked_for_when_it_can_be_complete(
    follow: Callable[..., CollectedPart | None],
) -> None:
    asked = Asked(found(7), {"next": 12})
    assert follow(asked, 12) == PART
    # ten reports are there after five intervals
    assert asked.at == [(0, 4), (4, 7)]


@pytest.mark.parametrize(
    "answer",
    [
        OSError("no process"),
        ValueError("no JSON"),
        {},
        {"part": {"first_index": 0}, "content": "", "next": 7},
        {**found(7), "content": "*"},
        {"part": None, "next": "never"},
        {"why": "a part of a run is too long", "next": 7},
    ],
)
def test_a_part_that_is_not_collected_is_left_to_the_verdict(
    follow: Callable[..., CollectedPart | None], answer: Any
) -> None:
    asked = Asked(answer, found(20))
    assert follow(asked, 16) == PART
    assert asked.at == [(0, 4), (5, 14)]


def test_nothing_is_asked_of_a_run_that_has_ended(
    follow: Callable[..., CollectedPart | None],
) -> None:
    asked = Asked({"next": 7})
    follow(asked, 9, ends_after=5)
    assert asked.at == [(0, 4)]
