# SPDX-License-Identifier: Apache-2.0
"""What agents say becomes records whole, with which runs are judged, or is refused."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import zstandard

from ldapslam.base.errors import StoreError
from ldapslam.coordinator.runs.ingest import (
    interval_record,
    monitor_news,
    reported_facts,
    with_report,
)
from ldapslam.coordinator.runs.live import LiveStatistics
from ldapslam.coordinator.security.guard import read_request
from ldapslam.jobs.run_plan import plan_of
from ldapslam.proto import agent_pb2, monitor_pb2
from ldapslam.proto import common_pb2 as pb
from ldapslam.proto.agent_pb2 import IntervalReport
from ldapslam.proto.common_pb2 import Failure
from ldapslam.proto.fields import PACKED as FIELDS
from ldapslam.proto.fields import TABLES
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
from ldapslam.results.packing import MAX_SNAPSHOT_BYTES, pack
from ldapslam.results.records import MonitorDescription, MonitorSample
from ldapslam.results.store import Store
from ldapslam.results.window import window_of
from ldapslam.transport.messages import ProtocolError, checked
from support.bounds import exceeds
from support.draws import Draws
from support.histograms import packed_of
from support.intervals import Interval, open_part, stored_intervals
from support.judged import judge
from support.rows import OperationRow, StreamRow, WorkerRow, packed_names, snapshot_of
from support.store import RUN_ID, Scenario, changed, fill, run_record
from support.world import World

PACKED = packed_of([1_000, 2_000])


PLAN = plan_of(
    {
        "phases": [{"name": "measure", "start_ns": 0, "end_ns": 40}],
        "boundaries_ns": [10, 20, 30, 40],
        "streams": [
            {
                "name": "readers",
                "uris": ["ldap://a", "ldap://b"],
                "operations": [{"name": "search"}],
            },
            {
                "name": "writers",
                "uris": ["ldap://a"],
                "operations": [{"name": "add"}],
            },
        ],
    }
)
HOST = pb.HostInterval(cpu_utilisation=0.5, throttled_ns=0)
SEARCH = OperationRow(
    stream="readers",
    operation="search",
    server="ldap://b",
    measured=True,
    entries=9,
    result_codes={32: 1, 0: 2},
    diagnostic_messages={32: "not there"},
    histograms={("response_time", "unresolved"): PACKED},
)
ADD = OperationRow(stream="writers", operation="add", result_codes={-1: 1})
READERS, WORKER = (
    StreamRow(stream="readers", tls_time=PACKED),
    WorkerRow(worker=1, model="open", wall_ns=2),
)
ROWS = {"operations": [SEARCH, ADD], "streams": [READERS], "workers": [WORKER]}


def snapshot(**changes: Any) -> pb.Snapshot:
    fields = {
        "index": 4,
        "phase": "measure",
        "start_ns": 10,
        "end_ns": 20,
        "final": True,
        "clock_step_ns": -5,
        "host": HOST,
    }
    return snapshot_of(**{**ROWS, **fields, **changes})


def report(of: pb.Snapshot | None = None) -> IntervalReport:
    return IntervalReport(
        run_id="r",
        agent="a",
        epoch=2,
        attempt=7,
        sequence=3,
        packed=pack(of or snapshot()),
    )


def test_nothing_of_a_report_is_lost() -> None:
    record, read = interval_record(report(), PLAN)
    assert read == snapshot()
    with Store.open("sqlite://") as store:
        store.create_run(replace(run_record(Scenario()), run_id="r"))
        store.put_agent("r", "a", AgentFacts(), open_part(7))
        assert store.add_interval("r", record).is_new
        (stored,) = stored_intervals(store, "r")
    assert stored == Interval.of("a", 7, 3, snapshot())
    assert stored.operations == (SEARCH, ADD)
    assert record.packed == report().packed


def spoilt(table: str, row: int, column: str, value: int) -> pb.Snapshot:
    """A snapshot with another number in a cell."""
    changed, columns = snapshot(), TABLES[table]
    cells = np.frombuffer(getattr(changed, table), "<u8").reshape(-1, len(columns))
    cells = cells.copy()
    cells[row, columns.index(column)] = value
    setattr(changed, table, cells.tobytes())
    return changed


def with_fields(**values: Any) -> pb.Snapshot:
    return changed(snapshot(), **values)


def with_search(**values: Any) -> pb.Snapshot:
    return snapshot(operations=[changed(SEARCH, **values)])


def named(**values: Any) -> pb.Snapshot:
    names = {"stream": "readers", "operations": ["search"], "servers": ["ldap://a"]}
    return with_fields(names=packed_names([pb.StreamNames(**{**names, **values})]))


CODES = dict.fromkeys(range(17), 1)
SPOILT = {
    "histogram": with_search(histograms={("send_lag", "failed"): PACKED[:-1]}),
    "counter": with_search(entries=(1 << 40) + 1),
    "more failed than completed": with_search(completed=1, failed=2),
    "more empty than succeeded": with_search(completed=2, expected=2, empty=1),
    "stream": with_search(stream="strangers"),
    "operation": with_search(operation="x" * 256),
    "operation of another stream": with_search(operation="add"),
    "server": with_search(server="ldap://elsewhere"),
    "server of no row": snapshot(operations=[changed(ADD, server="ldap://a")]),
    "messages": with_search(
        result_codes=CODES | {32: 1}, diagnostic_messages=dict.fromkeys(CODES, "no")
    ),
    "long message": with_search(diagnostic_messages={32: 1_001 * "x"}),
    "count of responses": with_search(result_codes={32: (1 << 40) + 1}),
    "code": with_search(result_codes={32: 1, 1 << 31: 1}),
    "lowest code": with_search(result_codes={32: 1, -2: 1}),
    "code twice": spoilt("responses", 0, "result_code", 0),
    "operation twice": snapshot(operations=[SEARCH, SEARCH]),
    "set-up": snapshot(streams=[StreamRow(stream="readers", connect_time=b"SLH1")]),
    "stream twice": snapshot(streams=[READERS, READERS]),
    "gauge": snapshot(streams=[StreamRow(stream="readers", backlog=(1 << 40) + 1)]),
    "time of connections": snapshot(
        streams=[StreamRow(stream="readers", down_ns=1 << 63)]
    ),
    "worker": snapshot(workers=[WorkerRow(worker=1 << 31)]),
    "time of a worker": snapshot(workers=[WorkerRow(worker=1, wall_ns=(1 << 53) + 1)]),
    "worker twice": snapshot(workers=[WORKER, WORKER]),
    "model": spoilt("workers", 0, "is_open", 2),
    "measured": spoilt("operations", 0, "measured", 2),
    "number of a stream": spoilt("operations", 1, "stream", 2),
    "number of a silent stream": spoilt("streams", 0, "stream", 2),
    "number of a silent server": spoilt("streams", 0, "server", 2),
    "number of an operation": spoilt("operations", 0, "operation", 1),
    "number of a server": spoilt("operations", 0, "server", 2),
    "amount of responses": spoilt("operations", 0, "responses", 1),
    "length of a message": spoilt("responses", 0, "message", 8),
    "length of a histogram": spoilt(
        "operations", 0, "response_time_unresolved", len(PACKED) - 1
    ),
    "length beyond": spoilt("operations", 0, "send_lag_failed", (1 << 63) - 1),
    "length of a set-up": spoilt("streams", 0, "bind_time", 1),
    "bytes of no row": with_fields(histograms=2 * PACKED),
    "part of a row": with_fields(workers=bytes(8)),
    "layout": with_fields(layout=1),
    "no names": with_fields(names=b""),
    "name of a stream": named(stream="strangers"),
    "names of operations": named(operations=["search", "search"]),
    "names of servers": named(servers=["ldap://a", "ldap://c"]),
    "CPU share": snapshot(host=pb.HostInterval(cpu_utilisation=float("nan"))),
    "steal share": snapshot(host=pb.HostInterval(steal_share=float("inf"))),
    "end": with_fields(end_ns=9),
    "index beyond the drain": with_fields(index=5),
    "phase": with_fields(phase="interlude"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_report_that_would_break_the_runs_report_is_refused(name: str) -> None:
    with pytest.raises(ProtocolError):
        interval_record(report(SPOILT[name]), PLAN)


def test_a_report_with_an_unknown_field_is_refused() -> None:
    spoilt = snapshot()
    spoilt.MergeFromString(b"\xfa\x7f\x03abc")
    with pytest.raises(ProtocolError):
        interval_record(report(spoilt), PLAN)


def test_nothing_in_a_snapshot_is_repeated() -> None:
    """An empty message takes two bytes in a report, and a hundred in memory."""
    fields = pb.Snapshot.DESCRIPTOR.fields
    assert not [field.name for field in fields if field.is_repeated]


NUMBERS = (0, 1, 2, 48, 60, 1 << 31, (1 << 63) - 1, (1 << 64) - 1)


def test_whatever_bytes_are_tables_they_are_refused_or_read(draws: Draws) -> None:
    """What passes is read by reports and by live figures."""
    rng = np.random.default_rng(11)
    good, passed = snapshot(), 0
    for _ in range(draws.of(10_000)):
        mutant = changed(good)
        name = rng.choice(FIELDS)
        content = bytearray(getattr(good, name))
        for _ in range(rng.integers(1, 4)):
            content = content or bytearray(8)
            place = int(rng.integers(0, len(content)))
            match rng.integers(0, 4):
                case 0:
                    content[place] = int(rng.integers(0, 256))
                case 1:
                    place -= place % 8
                    number = NUMBERS[rng.integers(len(NUMBERS))]
                    content[place : place + 8] = number.to_bytes(8, "little")
                case 2:
                    del content[place:]
                    content += rng.bytes(8 * int(rng.integers(0, 9)))
                case _:
                    content += content[place - place % 8 :]
        setattr(mutant, name, bytes(content))
        try:
            interval_record(report(mutant), PLAN)
        except ProtocolError:
            # nor does it harm who reads a store that was altered
            with suppress(StoreError):
                window_of((4,), [mutant])
            continue
        passed += 1
        assert LiveStatistics(["a"], PLAN).add("a", mutant)
        for rows in window_of((4,), [mutant]).operations.values():
            for packed in rows.histograms.values():
                packed.read()
    assert passed > draws.of(500)


UNSIZED = zstandard.ZstdCompressor(write_content_size=False)
REPORTS = {
    "huge sequence": {"sequence": 1 << 31},
    "no content": {"packed": b""},
    "cut off": {"packed": report().packed[:-1]},
    "something behind": {"packed": report().packed + b"x"},
    "of unknown length": {"packed": UNSIZED.compress(report().packed)},
    "no snapshot": {"packed": zstandard.compress(b"\xff")},
    "bomb": {"packed": zstandard.compress(bytes(1 << 20))},
    "without end": {"packed": zstandard.compress(bytes(MAX_SNAPSHOT_BYTES + 1))},
    "no names": {"packed": pack(with_fields(names=b"\xff"))},
}


@pytest.mark.parametrize("fields", REPORTS.values(), ids=REPORTS.keys())
def test_a_report_that_cannot_be_unpacked_or_stored_is_refused(
    fields: dict[str, Any],
) -> None:
    with pytest.raises(ProtocolError):
        interval_record(changed(report(), **fields), PLAN)


def test_the_drain_is_part_of_every_plan() -> None:
    drain = snapshot(phase="drain")
    assert interval_record(report(drain), PLAN)[1].phase == "drain"


FACTS = {
    "host": {"cores": 4},
    "targets": [{"uri": "ldap://ds1", "addresses": ["10.0.0.1"]}],
    "control_operations": {"ldap://ds1": {"bind": 1}},
    "clean_up": {"entries": 2, "left": 0, "seconds": 0.5, "error": None},
    "notes": {"imports": [{"entries": 1}]},
    "realtime": True,
}


def test_facts_of_the_right_shape_are_kept() -> None:
    assert reported_facts(json.dumps(FACTS)).document() == FACTS
    assert reported_facts("") == ReportedFacts()


@pytest.mark.parametrize(
    "name", sorted(AgentFacts.model_fields.keys() - ReportedFacts.model_fields.keys())
)
def test_what_only_the_coordinator_knows_is_refused_from_an_agent(name: str) -> None:
    with pytest.raises(ProtocolError):
        reported_facts(json.dumps({name: getattr(AgentFacts(), name)}))


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"realtime": NaN}',
        '{"host": {"x": 1e999}}',
        '{"targets": [{"uri": 5}]}',
        '{"control_operations": {"ldap://ds1": {"bind": -1}}}',
        '{"tls": "\\ud800"}',
        '{"host": {"x": ' + "[" * 15 + "]" * 15 + "}}",
    ],
    ids=lambda text: text[:40],
)
def test_facts_that_a_reader_would_stumble_over_are_refused(text: str) -> None:
    with pytest.raises(ProtocolError):
        reported_facts(text)


# What an agent may say: it is refused, or a run is judged and reported with it.


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
