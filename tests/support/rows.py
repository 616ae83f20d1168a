# SPDX-License-Identifier: Apache-2.0
"""The rows of intervals, one by one, as tests make and compare them.

Packs and unpacks plainly: the oracle for results/tables.py.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from ldapslam.proto.common_pb2 import Names, Snapshot, StreamNames
from ldapslam.proto.fields import (
    HISTOGRAMS,
    LAYOUT,
    METRICS,
    OPERATION_COUNTERS,
    OUTCOMES,
    PACKED,
    SET_UP_TIMES,
    STREAM_COUNTERS,
    STREAM_TIMES,
    TABLES,
    WORKER_COUNTERS,
)

_NUMBER = struct.Struct("<Q")


class _Row(SimpleNamespace):
    """Its fields can be changed; they are those of the defaults."""

    def __init__(self, values: Mapping[str, Any], **defaults: Any) -> None:
        assert values.keys() <= defaults.keys(), values.keys() - defaults.keys()
        super().__init__(**{**defaults, **values})


class OperationRow(_Row):
    """`diagnostic_messages` are by result code, one of `result_codes`; `histograms` by
    metric and outcome."""

    def __init__(self, **values: Any) -> None:
        names = dict.fromkeys(("stream", "operation", "server"), "")
        maps: dict[str, Any] = {
            name: {} for name in ("result_codes", "diagnostic_messages", "histograms")
        }
        counters = dict.fromkeys(OPERATION_COUNTERS, 0)
        super().__init__(values, measured=False, **names, **maps, **counters)


class StreamRow(_Row):
    """Its times are 0 when there was no response, and none is waited for."""

    def __init__(self, **values: Any) -> None:
        counters = dict.fromkeys((*STREAM_TIMES, *STREAM_COUNTERS), 0)
        times = dict.fromkeys(SET_UP_TIMES, b"")
        super().__init__(values, stream="", server="", **counters, **times)


class WorkerRow(_Row):
    def __init__(self, **values: Any) -> None:
        counters = dict.fromkeys(WORKER_COUNTERS, 0)
        super().__init__(values, worker=0, model="closed", **counters)


def snapshot_of(
    operations: Iterable[OperationRow] = (),
    streams: Iterable[StreamRow] = (),
    workers: Iterable[WorkerRow] = (),
    **fields: Any,
) -> Snapshot:
    """A snapshot of these rows."""
    #: Stream -> its operations and its servers, each with its number.
    names: dict[str, tuple[dict[str, int], dict[str, int]]] = {}
    packed = {name: bytearray() for name in PACKED}

    def number(text: str, numbers: dict[str, int]) -> int:
        return numbers.setdefault(text, len(numbers))

    def stream_number(name: str) -> int:
        names.setdefault(name, ({}, {}))
        return list(names).index(name)

    def server_number(name: str, servers: dict[str, int]) -> int:
        return 1 + number(name, servers) if name else 0

    def add(table: str, *cells: int) -> None:
        packed[table] += b"".join(_NUMBER.pack(cell % 2**64) for cell in cells)

    for row in operations:
        place = stream_number(row.stream)
        of_stream, servers = names[row.stream]
        histograms = [row.histograms.get(key, b"") for key in HISTOGRAMS]
        add(
            "operations",
            place,
            number(row.operation, of_stream),
            server_number(row.server, servers),
            row.measured,
            len(row.result_codes),
            *(getattr(row, name) for name in OPERATION_COUNTERS),
            *map(len, histograms),
        )
        packed["histograms"] += b"".join(histograms)
        assert row.diagnostic_messages.keys() <= row.result_codes.keys()
        for code, count in row.result_codes.items():
            text = row.diagnostic_messages.get(code, "").encode()
            add("responses", code, count, len(text))
            packed["messages"] += text
    for one in streams:
        times: list[bytes] = [getattr(one, name) for name in SET_UP_TIMES]
        numbers = (getattr(one, name) for name in (*STREAM_TIMES, *STREAM_COUNTERS))
        place = stream_number(one.stream)
        server = server_number(one.server, names[one.stream][1])
        add("streams", place, server, *numbers, *map(len, times))
        packed["set_ups"] += b"".join(times)
    for worker in workers:
        counts = (getattr(worker, name) for name in WORKER_COUNTERS)
        add("workers", worker.worker, worker.model == "open", *counts)
    fields |= {name: bytes(content) for name, content in packed.items()}
    return Snapshot(
        layout=LAYOUT,
        names=packed_names(
            StreamNames(stream=stream, operations=of_stream, servers=servers)
            for stream, (of_stream, servers) in names.items()
        ),
        **fields,
    )


def packed_names(streams: Iterable[StreamNames]) -> bytes:
    return Names(streams=streams).SerializeToString()


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._start = 0

    def take(self, length: int) -> bytes:
        self._start += length
        return self._content[self._start - length : self._start]


def _rows(table: str, content: bytes) -> list[dict[str, int]]:
    columns = TABLES[table]
    rows = struct.iter_unpack(f"<{len(columns)}q", content)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def engine_rows(tables: Mapping[str, bytes]) -> dict[str, list[dict[str, Any]]]:
    """The rows that an engine packed, with its numbers for streams, operations and
    servers; histograms are (metric, outcome, packed), numbered too."""
    messages, histograms, set_ups = (
        _Reader(tables[name]) for name in ("messages", "histograms", "set_ups")
    )
    responses = iter(_rows("responses", tables["responses"]))
    operations: list[dict[str, Any]] = []
    for row in _rows("operations", tables["operations"]):
        codes = [next(responses) for _ in range(row["responses"])]
        texts = {one["result_code"]: messages.take(one["message"]) for one in codes}
        lengths = [row["_".join(key)] for key in HISTOGRAMS]
        packed = list(zip(HISTOGRAMS, map(histograms.take, lengths), strict=True))
        keys = ("stream", "operation", "server", *OPERATION_COUNTERS)
        operations.append(
            {
                **{name: row[name] for name in keys},
                "measured": bool(row["measured"]),
                "result_codes": {one["result_code"]: one["count"] for one in codes},
                "diagnostic_messages": {
                    code: text.decode(errors="replace")
                    for code, text in texts.items()
                    if text
                },
                "histograms": [
                    (METRICS.index(metric), OUTCOMES.index(outcome), content)
                    for (metric, outcome), content in packed
                    if content
                ],
            }
        )
    streams = [
        row | {name: set_ups.take(row[name]) for name in SET_UP_TIMES}
        for row in _rows("streams", tables["streams"])
    ]
    workers = [
        {**row, "model": "open" if row["is_open"] else "closed"}
        for row in _rows("workers", tables["workers"])
    ]
    return {"operations": operations, "streams": streams, "workers": workers}


def with_rows(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """An engine's snapshot with rows in place of its tables."""
    return {**snapshot, **engine_rows(snapshot)}


def _names_of(snapshot: Snapshot) -> Sequence[StreamNames]:
    return Names.FromString(snapshot.names).streams


def operation_rows(snapshot: Snapshot) -> Iterator[OperationRow]:
    for row in _rows_of(snapshot)["operations"]:
        names = _names_of(snapshot)[row["stream"]]
        histograms = {
            (METRICS[metric], OUTCOMES[outcome]): packed
            for metric, outcome, packed in row["histograms"]
        }
        yield OperationRow(
            **{
                **row,
                "stream": names.stream,
                "operation": names.operations[row["operation"]],
                "server": ["", *names.servers][row["server"]],
                "histograms": histograms,
            }
        )


def stream_rows(snapshot: Snapshot) -> Iterator[StreamRow]:
    for row in _rows_of(snapshot)["streams"]:
        names = _names_of(snapshot)[row["stream"]]
        server = ["", *names.servers][row["server"]]
        yield StreamRow(**{**row, "stream": names.stream, "server": server})


def worker_rows(snapshot: Snapshot) -> Iterator[WorkerRow]:
    for row in _rows_of(snapshot)["workers"]:
        del row["is_open"]
        yield WorkerRow(**row)


def _rows_of(snapshot: Snapshot) -> dict[str, list[dict[str, Any]]]:
    return engine_rows({name: getattr(snapshot, name) for name in PACKED})
