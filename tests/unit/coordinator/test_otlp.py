# SPDX-License-Identifier: Apache-2.0
"""What is sent by OTLP, and what becomes of it when nobody takes it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from opentelemetry.sdk.metrics.export import Gauge, Histogram, Sum
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric

from ldapslam.coordinator.control import Coordinator
from ldapslam.coordinator.outputs.otlp import MOST_WAITING, Otlp
from ldapslam.coordinator.outputs.otlp_link import _metric
from ldapslam.coordinator.outputs.shown_runs import RunFigures, ShownRuns
from ldapslam.proto import operator_pb2 as pb
from ldapslam.results.records import RunRecord, unix_ns
from support.store import Scenario, run_record

T0 = "2026-11-25T12:00:00.000000Z"
T0_NS = unix_ns(T0)
S = 1_000_000_000


class FakeLink:
    """Keeps what it is sent, when it is let."""

    def __init__(self, why: str = "") -> None:
        self.why = why
        self.is_open = threading.Event()
        self.is_open.set()
        self.times_ns: list[tuple[int, int]] = []
        self.names: list[set[str]] = []
        self.spans: list[str] = []

    def send_figures(
        self, families: Sequence[Metric], start_ns: int, time_ns: int
    ) -> str:
        self.is_open.wait()
        self.times_ns.append((start_ns, time_ns))
        self.names.append({one.name for one in families if one.samples})
        return self.why

    def send_span(self, record: RunRecord) -> str:
        self.is_open.wait()
        self.spans.append(record.run_id)
        return self.why

    def close(self) -> None:
        self.why = "closed"
        self.is_open.set()


class FakeCoordinator:
    def __init__(self) -> None:
        self.bounds: dict[str, Any] = {}
        self.events: list[tuple[str, str, str]] = []
        store = SimpleNamespace(add_event=lambda *event: self.events.append(event[:3]))
        self.writer = SimpleNamespace(
            store=store, post=lambda function, *of: function(*of)
        )


class Told(Otlp):
    """Told of runs after the figures, as a coordinator tells its extensions."""

    def __init__(self, link: FakeLink) -> None:
        self.figures = ShownRuns()
        super().__init__("http://c:4318", self.figures, new_link=lambda _: link)

    def run_changed(self, *of: Any) -> None:
        self.figures.run_changed(*of)
        super().run_changed(*of)

    def interval_measured(self, *of: Any) -> None:
        self.figures.interval_measured(*of)
        super().interval_measured(*of)

    def run_judged(self, *of: Any) -> None:
        self.figures.run_judged(*of)
        super().run_judged(*of)


async def started(link: FakeLink) -> tuple[Otlp, FakeCoordinator]:
    otlp, coordinator = Told(link), FakeCoordinator()
    await otlp.start(cast(Coordinator, coordinator), None)
    otlp.run_changed(pb.RunStatus(run_id="r1", state="running", t0_utc=T0))
    return otlp, coordinator


def interval(index: int) -> pb.IntervalFigures:
    return pb.IntervalFigures(index=index, start_ns=index * S, end_ns=(index + 1) * S)


def judged(otlp: Otlp, verdict: str | None = None) -> None:
    record = run_record(Scenario(run={"run_id": "r1", "verdict": verdict}))
    otlp.run_judged(record, (), 7.0)


def test_each_interval_is_sent_once_at_its_end_and_the_run_as_a_span() -> None:
    async def run() -> None:
        link = FakeLink()
        otlp, coordinator = await started(link)
        # the first one went to the coordinator before this one
        for index in (1, 2):
            otlp.interval_measured("r1", interval(index), ())
        judged(otlp)
        await otlp.stop()
        from_ns = T0_NS + S
        assert link.times_ns == [(from_ns, T0_NS + 2 * S), (from_ns, T0_NS + 3 * S)]
        assert link.spans == ["r1"]
        assert coordinator.events == []

    asyncio.run(run())


def test_a_verdict_is_a_figure_of_the_runs_end() -> None:
    async def run() -> None:
        link = FakeLink()
        otlp, _ = await started(link)
        otlp.interval_measured("r1", interval(0), ())
        judged(otlp, "PASS")
        await otlp.stop()
        record = run_record(Scenario(run={"run_id": "r1"}))
        assert record.finished_utc is not None
        assert link.times_ns[-1] == (T0_NS, unix_ns(record.finished_utc))
        assert "ldapslam_run_verdict" in link.names[-1]

    asyncio.run(run())


def test_what_a_collector_does_not_take_is_counted_and_said() -> None:
    async def run() -> None:
        otlp, coordinator = await started(FakeLink("code: 503"))
        for index in range(3):
            otlp.interval_measured("r1", interval(index), ())
        judged(otlp)
        await otlp.stop()
        text = "4 exports to http://c:4318 were lost: code: 503"
        assert coordinator.events == [("r1", "otlp_lost", text)]

    asyncio.run(run())


def test_why_something_was_lost_is_short_and_without_passwords() -> None:
    async def run() -> None:
        why = "redirected to http://me:hunter2@c:4318" + "x" * 10_000
        otlp, coordinator = await started(FakeLink(why))
        otlp.interval_measured("r1", interval(0), ())
        judged(otlp)
        await otlp.stop()
        [(_, _, text)] = coordinator.events
        assert "redirected to http://me:***@c:4318" in text
        assert len(text) < 400

    asyncio.run(run())


def test_a_collector_that_hangs_holds_nothing_up_and_little_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ldapslam.coordinator.outputs.otlp._STOP_GRACE_S", 0.01)

    async def run() -> None:
        link = FakeLink()
        link.is_open.clear()
        otlp, coordinator = await started(link)
        for index in range(MOST_WAITING + 5):
            otlp.interval_measured("r1", interval(index), ())
        used, most = coordinator.bounds["otlp_exports"]
        assert used() == most == MOST_WAITING
        judged(otlp)
        await otlp.stop()
        [(_, kind, text)] = coordinator.events
        assert kind == "otlp_lost"
        # five and the span found no room, the others were never taken
        assert text.startswith(f"{MOST_WAITING + 6} exports ")
        assert text.endswith(f"{MOST_WAITING} exports wait already")
        assert otlp._thread is not None
        otlp._thread.join()  # it has what waited yet

    asyncio.run(run())


def test_what_waits_is_made_into_families_when_it_is_sent_and_is_of_its_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[tuple[str, int]] = []

    def families(runs: Sequence[RunFigures]) -> list[Metric]:
        [run] = runs
        assert run.interval is not None
        made.append((threading.current_thread().name, run.interval.index))
        return []

    monkeypatch.setattr("ldapslam.coordinator.outputs.otlp.run_families", families)

    async def run() -> None:
        otlp, _ = await started(FakeLink())
        for index in range(3):
            otlp.interval_measured("r1", interval(index), ())
        await otlp.stop()
        assert made == [("otlp", 0), ("otlp", 1), ("otlp", 2)]

    asyncio.run(run())


def test_a_run_of_which_nothing_found_room_is_concluded_at_its_end() -> None:
    async def run() -> None:
        link = FakeLink()
        link.is_open.clear()
        otlp, coordinator = await started(link)
        for index in range(MOST_WAITING):
            otlp.interval_measured("r1", interval(index), ())
        otlp.run_changed(pb.RunStatus(run_id="r2", state="running", t0_utc=T0))
        otlp.interval_measured("r2", interval(0), ())
        otlp.run_judged(run_record(Scenario(run={"run_id": "r2"})), (), 7.0)
        [(run_id, _, text)] = coordinator.events
        assert (run_id, text.partition(" ")[0]) == ("r2", "2")
        link.is_open.set()
        await otlp.stop()

    asyncio.run(run())


def test_a_run_without_load_is_not_told() -> None:
    async def run() -> None:
        link = FakeLink()
        otlp, _ = await started(link)
        otlp.run_changed(pb.RunStatus(run_id="r1", state="failed"))
        judged(otlp)
        await otlp.stop()
        assert link.spans == []

    asyncio.run(run())


def test_gauges_and_totals_have_their_unit_beside_the_name() -> None:
    busy = GaugeMetricFamily("ldapslam_run_busy_ratio", "Busy.", labels=["run"])
    busy.add_metric(["r1"], 0.5)
    made = _metric(busy, T0_NS, T0_NS + S)
    assert made is not None
    assert (made.name, made.unit, made.description) == (
        "ldapslam.run.busy",
        "1",
        "Busy.",
    )
    assert isinstance(made.data, Gauge)
    total = CounterMetricFamily("ldapslam_stream_connect_failures", "", labels=["run"])
    total.add_metric(["r1"], 7)
    made = _metric(total, T0_NS, T0_NS + S)
    assert made is not None
    assert made.name == "ldapslam.stream.connect_failures"
    assert isinstance(made.data, Sum)
    assert made.data.is_monotonic
    [point] = made.data.data_points
    assert (point.value, point.attributes) == (7, {"run": "r1"})
    assert _metric(CounterMetricFamily("empty", ""), T0_NS, T0_NS) is None


def test_histograms_have_counts_of_each_bucket() -> None:
    name = "ldapslam_operation_response_time_seconds"
    family = HistogramMetricFamily(name, "", labels=["outcome"])
    for outcome, count in (("succeeded", 9), ("failed", 3)):
        buckets = [("0.001", 2), ("0.5", 3), ("+Inf", count)]
        family.add_metric([outcome], buckets, sum_value=4.5)
    made = _metric(family, T0_NS, T0_NS + S)
    assert made is not None
    assert (made.name, made.unit) == ("ldapslam.operation.response_time", "s")
    assert isinstance(made.data, Histogram)
    succeeded, failed = made.data.data_points
    assert succeeded.bucket_counts == [2, 1, 6]
    assert failed.bucket_counts == [2, 1, 0]
    assert succeeded.explicit_bounds == [0.001, 0.5]
    assert (succeeded.count, succeeded.sum) == (9, 4.5)
    assert failed.attributes == {"outcome": "failed"}
