# SPDX-License-Identifier: Apache-2.0
"""Reports and facts become records whole, or are refused."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import zstandard

from ldapslam.base.errors import StoreError
from ldapslam.coordinator.runs.ingest import (
    interval_record,
    reported_facts,
)
from ldapslam.coordinator.runs.live import LiveStatistics
from ldapslam.jobs.run_plan import plan_of
from ldapslam.proto import common_pb2 as pb
from ldapslam.proto.agent_pb2 import IntervalReport
from ldapslam.proto.fields import PACKED as FIELDS
from ldapslam.proto.fields import TABLES
from ldapslam.results.facts import AgentFacts, ReportedFacts
from ldapslam.results.packing import MAX_SNAPSHOT_BYTES, pack
from ldapslam.results.store import Store
from ldapslam.results.window import window_of
from ldapslam.transport.messages import ProtocolError
from support.draws import Draws
from support.histograms import packed_of
from support.intervals import Interval, open_part, stored_intervals
from support.rows import OperationRow, StreamRow, WorkerRow, packed_names, snapshot_of
from support.store import Scenario, changed, run_record

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
