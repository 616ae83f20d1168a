# SPDX-License-Identifier: Apache-2.0
"""The sections on requests and connections: counts, times, result codes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ldapslam.jobs.fields.result_codes import code_title
from ldapslam.reports.collect.totals import counter_title
from ldapslam.reports.document import (
    BAD,
    MUTED,
    NOTHING,
    Blocks,
    Cell,
    ChartPlace,
    Field,
    Paragraph,
    Table,
    column,
    number,
    table,
)
from ldapslam.reports.model import Summary
from ldapslam.reports.rules.reconciliation import Line
from ldapslam.reports.streams import OperationSummary, StreamSummary
from ldapslam.reports.typeset import (
    MINUS,
    count,
    counted,
    decimal,
    figure_text,
    percent,
    times_columns,
)

_ALWAYS = ("sent", "succeeded")
#: Shown when some operation has them.
_SOMETIMES = ("empty", "expected", "abandoned")
_ERRORS = ("failed", "timed_out", "unresolved")

_EXPLANATIONS = {
    "empty": "empty: successful searches that returned no entry",
    "expected": "expected: a result code other than success that the job allows",
    "abandoned": "abandoned: given up by an abandon request, so no response was due",
}


#: What the chart of requests that did not succeed has.
_CHARTED = ("failed", "timed_out", "unresolved", "dropped", "expected")
_CHART = ChartPlace(
    "errors",
    "Requests that did not succeed",
    "Requests of the measure phase by result code or cause, expected codes grey, and "
    "errors per second over the run.",
)


def outcomes(summary: Summary) -> Blocks:
    yield _requests(summary)
    yield _unsent(summary)
    yield _all_well(summary)
    if any(one.counts[name] for one in summary.operations for name in _CHARTED):
        yield _CHART
    yield _times(summary)
    yield _codes(summary)


def by_server(summary: Summary) -> Blocks:
    """What each server was sent, and what it counted itself."""
    return _sent_requests(summary), _reconciliations(summary)


def _all_well(summary: Summary) -> Paragraph | None:
    if any(one.error_share for one in summary.operations):
        return None
    text = "Every request of the measure phase succeeded."
    if not any(one.counts["sent"] for one in summary.operations):
        text = "Nothing was sent in the measure phase."
    elif any(one.counts["expected"] for one in summary.operations):
        text = "Every request of the measure phase ended as the job expects."
    return Paragraph(text)


def _requests(summary: Summary) -> Table:
    all_of = summary.operations
    shown = [name for name in _SOMETIMES if any(one.counts[name] for one in all_of)]

    def plain(name: str) -> Field[OperationSummary]:
        return number(counter_title(name), lambda one: count(one.counts[name]))

    def error(name: str) -> Field[OperationSummary]:
        return number(counter_title(name), lambda one: counted(one.counts[name]))

    per_search: Field[OperationSummary]
    per_search = number("entries per search", entries_per_search)
    return table(
        "requests",
        "Requests with an intended start in the measure phase",
        all_of,
        column("Operation", lambda one: one.title),
        *map(plain, (*_ALWAYS, *shown)),
        *map(error, _ERRORS),
        plain("entries"),
        *[per_search] * any(one.counts["entries"] for one in all_of),
        notes=[f"{_EXPLANATIONS[name]}." for name in shown],
    )


def entries_per_search(one: OperationSummary) -> str:
    if one.kind != "search" or not one.counts["completed"]:
        return NOTHING
    return figure_text(one.counts["entries"] / one.counts["completed"])


def _unsent(summary: Summary) -> Table:
    return table(
        "unsent",
        "Requests that were due and not sent",
        [
            one
            for one in summary.operations
            if one.counts["scheduled"] != one.counts["sent"]
        ],
        column("Operation", lambda one: one.title),
        number("scheduled", lambda one: count(one.counts["scheduled"])),
        number("sent", lambda one: count(one.counts["sent"])),
        number("dropped", lambda one: counted(one.counts["dropped"])),
        number("fallback add", lambda one: count(one.counts["substituted"])),
        notes=(
            "dropped: the backlog was full, or the drain over. fallback add: the run "
            "had no entry left to work on, so one was added, or the session ended.",
        ),
    )


def _times(summary: Summary) -> Table:
    """Each outcome but success, in rows of response time and service time."""
    rows = [
        (one.title, outcome, metric, distribution)
        for one in summary.operations
        for outcome, times in one.outcome_times.items()
        for metric, distribution in times.items()
    ]
    notes = []
    if any(outcome in ("timed_out", "unresolved") for _, outcome, *_ in rows):
        notes.append(
            "Of requests without an answer: up to when they were given up. They are "
            "also in the tables of successes, above every value."
        )
    return table(
        "outcome-times",
        "Times of the requests that did not succeed",
        rows,
        column("Operation", lambda row: row[0]),
        column("Outcome", lambda row: _outcome_title(row[1])),
        column("Time (ms)", lambda row: row[2].replace("_", " ")),
        *times_columns(),
        notes=notes,
    )


def _codes(summary: Summary) -> Table:
    said: Field[tuple[OperationSummary, int, int]]
    said = column(
        "The server said",
        lambda row: " / ".join(row[0].diagnostic_messages.get(row[1], ())) or NOTHING,
    )
    return table(
        "result-codes",
        "Responses by LDAP result code",
        [
            (one, code, responses)
            for one in summary.operations
            for code, responses in one.result_codes.items()
        ],
        column("Operation", lambda row: row[0].title),
        column("Result code", lambda row: code_title(row[1])),
        column("Counts as", lambda row: _outcome_cell(row[0].outcome_of(row[1]))),
        number("responses", lambda row: count(row[2])),
        number(
            "share (%)",
            lambda row: percent(row[2] / sum(row[0].result_codes.values()), 3),
        ),
        *[said] * any(one.diagnostic_messages for one in summary.operations),
    )


def _outcome_title(outcome: str) -> str:
    return "expected failure" if outcome == "expected" else counter_title(outcome)


def _outcome_cell(outcome: str) -> Cell:
    if outcome == "failed":
        return Cell("failure", BAD)
    if not outcome:
        return Cell("failure, or expected", MUTED)
    return Cell("success" if outcome == "succeeded" else "expected failure")


def _sent_requests(summary: Summary) -> Table:
    sent = summary.sent_requests
    undrained = summary.completeness.undrained

    def requests(kind: str) -> Callable[[tuple[str, Mapping[str, int]]], Cell]:
        return lambda row: (
            Cell(count(row[1][kind])) if kind in row[1] else Cell(NOTHING, MUTED)
        )

    see = ", with those of monitors: see the reconciliation" * bool(
        summary.reconciliations
    )
    lacking = (
        "Not counted: what was sent after the last interval that arrived of "
        f"{', '.join(undrained)}."
    )
    return table(
        "books",
        "Requests sent in the whole run, by server and kind",
        sent.items(),
        column("Server", lambda row: row[0]),
        *(
            number(kind.replace("_", " "), requests(kind))
            for kind in sorted({kind for by_kind in sent.values() for kind in by_kind})
        ),
        notes=(
            "With set-ups, pre-flight and clean-up: what the server's own counters "
            f"should have risen by{see}.",
            *[lacking] * bool(undrained),
        ),
    )


def _reconciliations(summary: Summary) -> Table:
    """A row for each server and kind."""
    servers = summary.reconciliations.items()
    rows = [
        (uri, kind, line) for uri, one in servers for kind, line in one.lines.items()
    ]
    replicated: Field[tuple[str, str, Line]]
    replicated = number("replicated", lambda row: count(row[2].replicated))
    return table(
        "reconciliation",
        "Reconciliation: what servers counted, and what they were sent",
        rows,
        column("Server", lambda row: row[0]),
        column("Request", lambda row: row[1].replace("_", " ")),
        number("agents", lambda row: count(row[2].sent)),
        number("monitor", lambda row: count(row[2].control)),
        *[replicated] * any(line.replicated for _, _, line in rows),
        number(
            "server",
            lambda row: (
                Cell(NOTHING, MUTED, "not counted by the server")
                if row[2].server is None
                else count(row[2].server)
            ),
        ),
        number("difference", lambda row: _difference(row[2])),
        number("per sent", lambda row: decimal(row[2].per_sent, 4)),
        notes=(
            "Difference: server less all that is known to have been sent to it. Above "
            "zero are requests of others; below zero, requests that it did not count. "
            "Per sent: requests that it counted for each that agents sent.",
            *(f"{uri}: {one.unknown}" for uri, one in servers if one.unknown),
        ),
    )


def _difference(line: Line) -> Cell:
    if line.difference is None:
        return Cell(NOTHING, MUTED)
    sign = MINUS if line.difference < 0 else ""
    return Cell(f"{sign}{count(abs(line.difference))}", BAD if line.missing else "")


_COUNTERS = {
    "connects": "connects",
    "reconnects": "reconnects",
    "connect_failures": "failed",
    "disconnects": "lost",
    "outage": "out (%)",
    "protocol_errors": "protocol errors",
    "late_responses": "late",
    "unexpected_messages": "unsolicited",
    "notices": "notices",
    "stamps_missing": "no kernel timestamp",
    "shared_stamps": "shared timestamp",
}
#: Those that are shown where there are any, and what they mean.
_RARE = {
    "protocol_errors": "",
    "late_responses": "late: messages for requests that had timed out",
    "unexpected_messages": "unsolicited: messages that belong to no request",
    "notices": "notices: unsolicited notifications (RFC 4511, 4.4)",
    "stamps_missing": "",
    "shared_stamps": "shared timestamp: responses read together, as if with the last",
}
_STEPS = {
    "tcp_time": "TCP",
    "tls_time": "TLS",
    "bind_time": "bind",
    "connect_time": "total",
}


def _counter(stream: StreamSummary, key: str) -> Cell:
    if key == "stamps_missing" and stream.planned.engine == "python":
        return Cell("all", MUTED, "driven by Python")
    if key == "outage":
        return Cell(percent(stream.outage.share[0], 3))
    if key not in stream.connections:
        return Cell(NOTHING, MUTED)
    return Cell(count(stream.connections[key]))


def connections(summary: Summary) -> Blocks:
    def counter(key: str) -> Callable[[StreamSummary], Cell]:
        return lambda stream: _counter(stream, key)

    rare = [
        key
        for key in _RARE
        if not any(stream.connections[key] for stream in summary.streams)
    ]
    zero = ", ".join(_COUNTERS[key] for key in rare)
    counts = table(
        "connections",
        "Connections in the whole run",
        summary.streams,
        column("Stream", lambda stream: stream.name),
        *(
            number(title, counter(key))
            for key, title in _COUNTERS.items()
            if key not in rare
        ),
        notes=[
            "out: share of the measured time in which a server was away "
            "(outage.share).",
            *(f"{_RARE[key]}." for key in _RARE if key not in rare and _RARE[key]),
            *[f"None of: {zero}."] * bool(zero),
        ],
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
        column("Stream", lambda row: row[0]),
        column("Step (ms)", lambda row: row[1]),
        *times_columns(),
        notes=(
            "TCP: until connected. TLS: the handshake, StartTLS included. Bind: until "
            "the response. No set-up is part of an operation's times.",
        ),
    )
    return counts, set_up
