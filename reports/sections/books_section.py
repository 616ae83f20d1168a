# SPDX-License-Identifier: Apache-2.0
"""What a report says of the servers' side of the books. Pure."""

from __future__ import annotations

from ldapslam.reports.document import BAD, MUTED, Cell, Column, Table
from ldapslam.reports.rules.balance import Line
from ldapslam.reports.summary import Summary
from ldapslam.reports.typeset import NOTHING, count


def balances(summary: Summary) -> Table:
    """A row for each server and kind."""
    unknown = [
        f"{account}: {book.unknown}"
        for account, book in summary.balances.items()
        if book.unknown
    ]
    is_replicated = any(
        line.replicated
        for book in summary.balances.values()
        for line in book.lines.values()
    )
    return Table(
        "balances",
        "Books: what servers counted, and what they were sent",
        (
            Column("Server"),
            Column("Request"),
            Column("agents", "", True),
            Column("observer", "", True),
            *([Column("replicated", "", True)] if is_replicated else []),
            Column("server", "", True),
            Column("difference", "", True),
        ),
        tuple(
            (
                Cell(account),
                Cell(kind.replace("_", " ")),
                Cell(count(line.agents)),
                Cell(count(line.control)),
                *([Cell(count(line.replicated))] if is_replicated else []),
                Cell(NOTHING, MUTED, "not counted by the server")
                if line.server is None
                else Cell(count(line.server)),
                _difference(line),
            )
            for account, book in summary.balances.items()
            for kind, line in book.lines.items()
        ),
        (
            "Difference: server less all that is known to have been sent to it. Above "
            "zero are requests of others; below zero, requests that it did not count.",
            *unknown,
        ),
    )


def _difference(line: Line) -> Cell:
    if line.difference is None:
        return Cell(NOTHING, MUTED)
    sign = "\N{MINUS SIGN}" if line.difference < 0 else ""
    return Cell(f"{sign}{count(abs(line.difference))}", BAD if line.missing else "")
