# SPDX-License-Identifier: Apache-2.0
"""The validity rules about the servers under load. Pure."""

from __future__ import annotations

from ldapslam.reports.rules.balance import unread
from ldapslam.reports.rules.evidence import Evidence
from ldapslam.reports.rules.rule import NOT_APPLICABLE, Rule, listed


def books_balance(evidence: Evidence) -> Rule:
    """Of the servers that were watched. A kind of request that a server does not count
    is not held against a run; counts that the job asks for and that nobody could read
    are."""
    validity = evidence.validity
    most_missing = validity.books_missing_operations
    most_others = validity.books_other_operations
    has_limit = bool(most_missing) or most_others is not None
    unknown = unread(evidence.run, evidence.observer_failures, has_limit=has_limit)
    wrong, others, lines = [], 0, 0
    for account, book in evidence.balances.items():
        lacking, strange = [], []
        for kind, line in book.lines.items():
            lines += line.server is not None
            others += line.others
            if line.missing > most_missing:
                lacking.append(f"{line.missing:,} {kind}")
            elif most_others is not None and line.others > most_others:
                strange.append(f"{line.others:,} {kind}")
        if lacking:
            wrong.append(f"{account} lacks {' and '.join(lacking)}")
        if strange:
            wrong.append(f"{account} has {' and '.join(strange)} of others")
    problem = "servers did not count what agents sent"
    if unknown and not wrong:
        problem = "it is not known what servers counted"
    wrong += unknown
    allowed = "any number" if most_others is None else f"≤ {most_others:,}"
    found = f"balanced, {others:,} of others" if others else "balanced"
    return Rule(
        "books",
        "servers counted what agents sent",
        problem,
        f"≤ {most_missing:,} missing, {allowed} of others",
        listed(wrong) if wrong else found if lines else NOT_APPLICABLE,
        not wrong,
    )


def replication_checked(evidence: Evidence) -> Rule:
    replication = evidence.replication
    found = NOT_APPLICABLE
    if replication is not None:
        found = replication.unchecked or "checked"
    return Rule(
        "replication",
        "replication was checked where the job asks for it",
        "replication could not be checked",
        "checked",
        found,
        replication is None or replication.is_checked,
    )
