# SPDX-License-Identifier: Apache-2.0
"""The section on connections: how many, and how long their set-up took. Pure."""

from __future__ import annotations

from collections.abc import Callable

from ldapslam.reports.document import (
    MUTED,
    Block,
    Cell,
    Column,
    Paragraph,
    number,
    table,
)
from ldapslam.reports.model import StreamSummary, Summary
from ldapslam.reports.typeset import (
    NOTHING,
    count,
    missing,
    percent,
    times_columns,
)

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
    def counter(key: str) -> Callable[[StreamSummary], Cell]:
        return lambda stream: _counter(stream, key)

    counts = table(
        "connections",
        "Connections in the whole run",
        summary.streams,
        (Column("Stream"), lambda stream: stream.name),
        *((number(title), counter(key)) for key, title in _COUNTERS.items()),
        notes=(
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
    set_up = table(
        "set-up",
        "Time that the set-up of a connection took, whole run",
        shown,
        (Column("Stream"), lambda row: row[0]),
        (Column("Step", "ms"), lambda row: row[1]),
        *times_columns(),
        notes=(
            "TCP: until connected. TLS: the handshake, StartTLS included. Bind: until "
            "the response. No set-up is part of an operation's times.",
            *missing([times for _, _, times in shown]),
        ),
    )
    return counts, set_up
