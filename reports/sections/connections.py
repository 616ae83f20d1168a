# SPDX-License-Identifier: Apache-2.0
"""The section on connections: how many, and how long their set-up took. Pure."""

from __future__ import annotations

from ldapslam.reports.document import MUTED, Block, Cell, Column, Paragraph, Table
from ldapslam.reports.sections.time_cells import missing, time_columns, times_cells
from ldapslam.reports.summary import StreamSummary, Summary
from ldapslam.reports.typeset import NOTHING, count, percent

DOWN = "down_share"
_COUNTERS = {
    "connects": "connects",
    "reconnects": "reconnects",
    "connect_failures": "failed",
    "disconnects": "lost",
    DOWN: "down (%)",
    "protocol_errors": "protocol errors",
    "late_responses": "late",
    "unexpected_messages": "unasked",
    "notices": "notices",
    "stamps_missing": "no stamp",
}
_STEPS = {
    "tcp_time": "TCP",
    "tls_time": "TLS",
    "bind_time": "bind",
    "connect_time": "total",
}


def _counter(stream: StreamSummary, key: str) -> Cell:
    if key == "stamps_missing" and stream.engine == "python":
        return Cell("all", MUTED, "driven by Python")
    if key == DOWN:
        return Cell(percent(stream.down_share, 3))
    if key not in stream.connections:
        return Cell(NOTHING, MUTED)
    return Cell(count(stream.connections[key]))


def connections(summary: Summary) -> tuple[Block, ...]:
    counts = Table(
        "connections",
        "Connections in the whole run",
        (
            Column("Stream"),
            *(Column(title, "", True) for title in _COUNTERS.values()),
        ),
        tuple(
            (
                Cell(stream.name),
                *(_counter(stream, key) for key in _COUNTERS),
            )
            for stream in summary.streams
        ),
        (
            "down: part of the measured time that a connection was lost, or refused, "
            "and not yet set up again, on average. late: messages for requests that "
            "had timed out or were abandoned. "
            "unasked: messages that belong to no request. no stamp: responses without "
            "a kernel receive stamp.",
        ),
    )
    shown = [
        (stream.name, title, times)
        for stream in summary.streams
        for name, title in _STEPS.items()
        if (times := stream.set_up[name]).sample
    ]
    if not shown:
        return counts, Paragraph("No connection was set up.")
    set_up = Table(
        "set-up",
        "Time that the set-up of a connection took, whole run",
        (Column("Stream"), Column("Step", "ms"), *time_columns()),
        tuple(
            (Cell(stream), Cell(step), *times_cells(times))
            for stream, step, times in shown
        ),
        (
            "TCP: until connected. TLS: the handshake, StartTLS included. Bind: until "
            "the response. No set-up is part of an operation's times.",
            *missing([times for _, _, times in shown]),
        ),
    )
    return counts, set_up
