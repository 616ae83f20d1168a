# SPDX-License-Identifier: Apache-2.0
"""What an agent may say: it is refused, or a run is judged and reported with it."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ldapslam.coordinator.runs.ingest import (
    interval_record,
    monitor_news,
    reported_facts,
    with_report,
)
from ldapslam.coordinator.runs.live import LiveStatistics
from ldapslam.coordinator.security.guard import read_request
from ldapslam.proto import agent_pb2, monitor_pb2
from ldapslam.proto.agent_pb2 import IntervalReport
from ldapslam.proto.common_pb2 import Failure
from ldapslam.proto.operator_pb2 import ListRunsRequest
from ldapslam.reports.formats.render import FILES, render
from ldapslam.results.facts import (
    AgentFacts,
    Facts,
    MonitorFacts,
    Observed,
    ReportedFacts,
)
from ldapslam.results.monitor_rows import add_monitor_samples, describe_monitors
from ldapslam.results.packing import pack
from ldapslam.results.records import MonitorDescription, MonitorSample
from ldapslam.results.store import Store
from ldapslam.transport.messages import ProtocolError, checked
from support.bounds import exceeds
from support.draws import Draws
from support.intervals import Interval
from support.judged import judge
from support.rows import OperationRow, StreamRow, WorkerRow
from support.store import RUN_ID, Scenario, fill, run_record
from support.world import World

REFUSED = agent_pb2.ReportReply.STATUS_REFUSED
_CASES = 10_000
#: Made of cases that pass.
_REPORTS = 20
_SMALL = Scenario(measure_s=2, searches_per_s=20)


def test_an_agents_facts_are_short() -> None:
    """The coordinator keeps them, and shows them to all; test_guard.py has longer
    requests."""
    facts = json.dumps({"x": "y" * 20_000})
    content = agent_pb2.RegisterRequest(host_facts_json=facts).SerializeToString()
    with exceeds(FIELDS=1), pytest.raises(ProtocolError, match="host_facts_json"):
        read_request(agent_pb2.RegisterRequest, content)


@pytest.mark.parametrize(
    "failure",
    [
        Failure(message="x" * 30_000_000),
        Failure(message="x", values_json=json.dumps({"x": "y" * 30_000_000})),
        Failure(message="x\nr1  PASS\r\x1b[2Kr1  PASS"),
    ],
    ids=["a long message", "long values", "a line of its own"],
)
async def test_a_failure_leaves_lists_short_and_on_their_lines(
    world: World, failure: Failure
) -> None:
    run_id = await world.begin()
    reply = await world.report(run_id, failed=failure)
    assert (reply.status == REFUSED) == bool(failure.values_json)
    status = await world.end_of(run_id)
    assert status.state == "failed"
    listed = await world.coordinator.operators.ListRuns(ListRunsRequest(), None)
    assert max(status.ByteSize(), listed.ByteSize()) < 20_000
    texts = [status.state_detail, *(event.text for event in status.events)]
    assert all(text.isprintable() for text in [*texts, listed.runs[0].state_detail])


def test_a_monitors_fact_of_the_wrong_type_is_refused() -> None:
    monitor = monitor_pb2.MonitorDescription(name="m", facts_json='{"serves": "abc"}')
    ready = monitor_pb2.MonitorReady(monitors=[monitor])
    report = monitor_pb2.MonitorReport(agent="a", event={"ready": ready})
    with pytest.raises(ProtocolError, match="serves"):
        monitor_news(report, 10)


class _Documents:
    """Facts made of a class's JSON schema, with something wrong now and then."""

    def __init__(self, kind: type[Facts], seed: int) -> None:
        self._schema: Any = kind.model_json_schema()
        self._random = random.Random(seed)
        self.texts = (
            *("", "a", "0", "dc=example,dc=com", "ldap://ds1.example.com", "slapd"),
            *("search", "readers", "20260301120000.123Z#000000#001#000000", "-1"),
            *(
                "x\nFORGED  PASS\x1b[2K",
                "\u202eSSAP",
                "<b>&amp;",
                "=1+1",
                "\0",
                "y" * 600,
            ),
        )
        self._odd: tuple[Any, ...] = (
            *(None, True, -1, 0, 1.5, 2**63, 10**400, 1e308, "x", [], {}, ["x"]),
            *({"a": {"b": [1]}}, [[]], [None]),
        )

    def __next__(self) -> str:
        return json.dumps(self._made(self._schema))

    def _made(self, schema: Any) -> Any:
        draw = self._random
        if draw.random() < 0.01:
            return draw.choice(self._odd)
        if "$ref" in schema:
            return self._made(self._schema["$defs"][schema["$ref"].split("/")[-1]])
        if "anyOf" in schema:
            return self._made(draw.choice(schema["anyOf"]))
        if "enum" in schema:
            return draw.choice(schema["enum"])
        match schema.get("type"):
            case "object":
                required, properties = (
                    schema.get("required", ()),
                    schema.get("properties", {}),
                )
                made = {
                    name: self._made(part)
                    for name, part in properties.items()
                    if name in required or draw.random() < 0.5
                }
                others = schema.get("additionalProperties")
                if isinstance(others, dict) or (others and draw.random() < 0.5):
                    for _ in range(draw.choice((0, 1, 3))):
                        made[draw.choice(self.texts)] = self._made(others)
                return made
            case "array":
                count = draw.choice((0, 1, 3))
                return [self._made(schema["items"]) for _ in range(count)]
            case "string":
                return draw.choice(self.texts)
            case "integer":
                return draw.choice((0, 1, 7, 1000, 2**53, 2**63, 2**64 - 1))
            case "number":
                return draw.choice((0, 0.5, 1e-9, 1e17, -3.5, 1e300))
            case "boolean":
                return draw.random() < 0.5
            case "null":
                return None
        return draw.choice(self._odd)


def _monitor_report(**kind: Any) -> monitor_pb2.MonitorReport:
    return checked(monitor_pb2.MonitorReport(agent="load1", event=kind))


# of labels that leave a chart no room
@pytest.mark.filterwarnings("ignore:constrained_layout not applied")
def test_with_whatever_facts_pass_a_run_is_judged_and_reported(tmp_path: Path) -> None:
    agents = _Documents(ReportedFacts, 0)
    observed, monitors = _Documents(Observed, 1), _Documents(MonitorFacts, 2)
    kept: dict[str, list[Any]] = {"agents": [], "observed": [], "monitors": []}
    refused = 0
    for number in range(_CASES):
        try:
            if number % 3 == 0:
                kept["agents"].append(reported_facts(next(agents)))
            elif number % 3 == 1:
                finished = {"facts_json": next(observed)}
                report = _monitor_report(finished=finished)
                kept["observed"].append(monitor_news(report, 10).facts)
            else:
                name = f"{number} {random.Random(number).choice(monitors.texts)}"
                metric = {"name": name, "unit": name, "is_counter": number % 2 == 0}
                described = {"name": name, "metrics": [metric]}
                ready = {"monitors": [{**described, "facts_json": next(monitors)}]}
                news = monitor_news(_monitor_report(ready=ready), 10)
                kept["monitors"] += news.monitors
        except ProtocolError:
            refused += 1
    assert refused > _CASES / 20
    for number in range(_REPORTS):
        report_with(
            [kept["agents"].pop() for _ in range(2)],
            [kept["observed"].pop() for _ in range(5)],
            [kept["monitors"].pop() for _ in range(5)],
            tmp_path / str(number),
            ("text", "json") if number else tuple(FILES),
        )


def report_with(
    agents: list[ReportedFacts],
    observed: list[Observed],
    monitors: list[MonitorDescription],
    out: Path,
    formats: tuple[str, ...],
) -> None:
    """Judge a run that has all of these, and make its reports."""
    with Store.open("sqlite://") as store:
        fill(store, _SMALL)
        for name, facts in zip(_SMALL.agents, agents, strict=True):
            store.put_agent(RUN_ID, name, AgentFacts().updated(facts))
        for news in observed:
            known = store.run(RUN_ID).manifest
            store.set_manifest(RUN_ID, with_report(known, news))
        describe_monitors(store, RUN_ID, "load1", monitors)
        for monitor in monitors:
            samples = [
                MonitorSample(monitor.name, at_ns, 1, (at_ns / 7,), None)
                for at_ns in range(0, 6 * 10**9, 10**9)
            ]
            add_monitor_samples(store, RUN_ID, "load1", samples)
        render(judge(store, RUN_ID), out, formats, store=store)
    if "text" in formats:
        assert "\x1b" not in (out / "report.txt").read_text("utf-8")


Row = TypeVar("Row", OperationRow, StreamRow, WorkerRow)
_NUMBERS = (0, 1, 7, 1 << 31, 1 << 38, 1 << 40, 1 << 53, 1 << 62, (1 << 63) - 1)


class _Numbers:
    """Changes numbers in intervals; one that is refused then stays as it was."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._share = self._random.choice((0.002, 0.01, 0.05))
        self._plan = run_record(_SMALL).plan
        self._live = LiveStatistics(_SMALL.agents, self._plan)
        self.refused = self.taken = 0

    def __call__(self, interval: Interval) -> Interval:
        spoilt = replace(
            interval,
            operations=tuple(map(self._operation, interval.operations)),
            streams=tuple(map(self._spoilt, interval.streams)),
            workers=tuple(map(self._spoilt, interval.workers)),
            end_ns=self._number(interval.end_ns),
            clock_step_ns=self._number(interval.clock_step_ns),
        )
        report = IntervalReport(agent=spoilt.agent, packed=pack(spoilt.snapshot))
        try:
            _, snapshot = interval_record(report, self._plan)
        except ProtocolError:
            self.refused += 1
            return interval
        self.taken += 1
        self._live.add(interval.agent, snapshot)
        return spoilt

    def _operation(self, row: OperationRow) -> OperationRow:
        row = self._spoilt(row)
        completed = max(row.completed, row.succeeded + row.expected + row.failed)
        row.completed, row.empty = completed, min(row.empty, row.succeeded)
        return row

    def _spoilt(self, row: Row) -> Row:
        numbers = [name for name, value in vars(row).items() if type(value) is int]
        changed: Any = {one: self._number(getattr(row, one)) for one in numbers}
        return type(row)(**{**vars(row), **changed})

    def _number(self, number: int) -> int:
        is_changed = self._random.random() < self._share
        return self._random.choice(_NUMBERS) if is_changed else number


def test_with_whatever_numbers_pass_a_run_is_judged_and_reported(
    tmp_path: Path, draws: Draws
) -> None:
    taken = refused = 0
    for seed in range(draws.of(40)):
        numbers = _Numbers(seed)
        with Store.open("sqlite://") as store:
            fill(store, replace(_SMALL, edit=numbers))
            out = tmp_path / str(seed)
            render(judge(store, RUN_ID), out, ("text", "json"), store=store)
        taken, refused = taken + numbers.taken, refused + numbers.refused
    assert min(taken, refused) > draws.of(40)
