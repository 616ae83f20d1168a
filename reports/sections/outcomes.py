# SPDX-License-Identifier: Apache-2.0
"""The section on what became of the requests: counts, times and result codes. Pure."""

from __future__ import annotations

from ldapslam.jobs.fields.result_codes import code_title
from ldapslam.reports.document import (
    BAD,
    MUTED,
    Block,
    Cell,
    ChartPlace,
    Column,
    Paragraph,
    Table,
)
from ldapslam.reports.sections import books_section
from ldapslam.reports.sections.time_cells import missing, time_columns, times_cells
from ldapslam.reports.summary import Summary
from ldapslam.reports.typeset import NOTHING, count, percent

_ALWAYS = ("sent", "succeeded")
#: Shown when some operation has them.
_SOMETIMES = ("expected", "abandoned")
_ERRORS = ("failed", "timed_out", "unresolved")

_TITLES = {
    "failed": "failed",
    "expected": "expected failure",
    "timed_out": "timed out",
    "unresolved": "unresolved",
}

_EXPLANATIONS = {
    "expected": "expected: a result code other than success that the job allows",
    "abandoned": "abandoned: given up by an abandon request, so no response was due",
}


def outcomes(summary: Summary) -> tuple[Block, ...]:
    blocks: list[Block] = [_requests(summary), *_unsent(summary)]
    shown = ("failed", "timed_out", "unresolved", "dropped", "expected")
    if not any(one.error_share or one.counts["dropped"] for one in summary.operations):
        blocks.append(Paragraph(_all_well(summary)))
    if any(one.counts[name] for one in summary.operations for name in shown):
        chart = ChartPlace(
            "errors",
            "Requests that did not succeed",
            "Requests of the measure phase by result code or cause, expected ones "
            "grey, and errors per second over the run.",
        )
        blocks.append(chart)
    if any(one.outcome_times for one in summary.operations):
        blocks.append(_times(summary))
    blocks.append(_codes(summary))
    if summary.books:
        blocks.append(_books(summary))
    if summary.balances:
        blocks.append(books_section.balances(summary))
    return tuple(blocks)


def _all_well(summary: Summary) -> str:
    if not any(one.counts["sent"] for one in summary.operations):
        return "Nothing was sent in the measure phase."
    if any(one.counts["expected"] for one in summary.operations):
        return "Every request of the measure phase ended as the job expects."
    return "Every request of the measure phase succeeded."


def _requests(summary: Summary) -> Table:
    all_of = summary.operations
    shown = [name for name in _SOMETIMES if any(one.counts[name] for one in all_of)]
    plain = (*_ALWAYS, *shown)
    return Table(
        "requests",
        "Requests whose intended time lies in the measure phase",
        (
            Column("Operation"),
            *(
                Column(name.replace("_", " "), "", True)
                for name in (*plain, *_ERRORS, "entries")
            ),
        ),
        tuple(
            (
                Cell(one.title),
                *(Cell(count(one.counts[name])) for name in plain),
                *(
                    Cell(count(one.counts[name]), BAD if one.counts[name] else "")
                    for name in _ERRORS
                ),
                Cell(count(one.counts["entries"])),
            )
            for one in summary.operations
        ),
        tuple(f"{_EXPLANATIONS[name]}." for name in shown),
    )


def _unsent(summary: Summary) -> list[Table]:
    """Of operations that did not send all that was due."""
    short = [
        one
        for one in summary.operations
        if one.counts["scheduled"] != one.counts["sent"]
    ]
    if not short:
        return []
    table = Table(
        "unsent",
        "Requests that were due and not sent",
        (
            Column("Operation"),
            Column("scheduled", "", True),
            Column("sent", "", True),
            Column("dropped", "", True),
            Column("substituted", "", True),
        ),
        tuple(
            (
                Cell(one.title),
                Cell(count(one.counts["scheduled"])),
                Cell(count(one.counts["sent"])),
                Cell(
                    count(one.counts["dropped"]), BAD if one.counts["dropped"] else ""
                ),
                Cell(count(one.counts["substituted"])),
            )
            for one in short
        ),
        (
            "dropped: the backlog was full, or the run over. substituted: no entry of "
            "this run was there to work on, so one was added, or the session ended.",
        ),
    )
    return [table]


def _times(summary: Summary) -> Table:
    """Each outcome but success, in rows of response time and service time."""
    rows = []
    shown = []
    for one in summary.operations:
        for outcome, times in one.outcome_times.items():
            for metric, distribution in times.items():
                row = (one.title, _TITLES[outcome], metric.replace("_", " "))
                rows.append((*map(Cell, row), *times_cells(distribution)))
                shown.append(distribution)
    has_lost = any(
        outcome in one.outcome_times
        for one in summary.operations
        for outcome in ("timed_out", "unresolved")
    )
    lost = (
        "Of requests without an answer: up to when they were given up. They are also "
        "in the tables of successes, above every value."
    )
    return Table(
        "outcome-times",
        "Times of the requests that did not succeed",
        (
            Column("Operation"),
            Column("Outcome"),
            Column("Time", "ms"),
            *time_columns(),
        ),
        tuple(rows),
        (*missing(shown), *((lost,) if has_lost else ())),
    )


def _codes(summary: Summary) -> Table:
    return Table(
        "result-codes",
        "Responses by LDAP result code",
        (
            Column("Operation"),
            Column("Result code"),
            Column("Counts as"),
            Column("responses", "", True),
            Column("share", "%", True),
        ),
        tuple(
            (
                Cell(one.title),
                Cell(code_title(code)),
                _outcome_cell(one.outcome_of(code)),
                Cell(count(responses)),
                Cell(percent(responses / sum(one.result_codes.values()), 3)),
            )
            for one in summary.operations
            for code, responses in one.result_codes.items()
        ),
    )


def _outcome_cell(outcome: str) -> Cell:
    if outcome == "failed":
        return Cell("failure", BAD)
    return Cell("success" if outcome == "succeeded" else "expected failure")


def _books(summary: Summary) -> Table:
    kinds = sorted({kind for book in summary.books.values() for kind in book})
    undrained = summary.completeness.undrained
    lacking = (
        "Not counted: what was sent after the last interval that arrived of "
        f"{', '.join(undrained)}."
    )
    return Table(
        "books",
        "Requests sent in the whole run, by server and kind",
        (
            Column("Server"),
            *(Column(kind.replace("_", " "), "", True) for kind in kinds),
        ),
        tuple(
            (
                Cell(account),
                *(
                    Cell(count(book[kind])) if kind in book else Cell(NOTHING, MUTED)
                    for kind in kinds
                ),
            )
            for account, book in summary.books.items()
        ),
        (
            "With set-ups, pre-flight and clean-up: what the server's own counters "
            "should have risen by"
            + (
                ", beside what observers asked: see the books."
                if summary.balances
                else "."
            ),
            *([lacking] if undrained else []),
        ),
    )
