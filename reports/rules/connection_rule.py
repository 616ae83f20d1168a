# SPDX-License-Identifier: Apache-2.0
"""The rule on connections that were down. Pure.

A client of a closed loop that has no connection sends nothing, and nothing tells what
it would have met: the figures are then of the rest of the time. The arrivals of an open
stream wait for a connection, and that wait is in their times.
"""

from __future__ import annotations

from ldapslam.reports.collect.timeline import NS_PER_S
from ldapslam.reports.rules.evidence import Evidence
from ldapslam.reports.rules.rule import NOT_APPLICABLE, Rule, listed, percent


def clients_connected(evidence: Evidence) -> Rule:
    """Of closed streams."""
    limit = evidence.validity.disconnected
    shares = {
        name: share
        for name, stream in evidence.streams.items()
        if stream.get("model") == "closed"
        and (share := evidence.down_share(name)) is not None
    }
    observed = percent(max(shares.values())) if shares else NOT_APPLICABLE
    if down := [name for name, share in shares.items() if share > limit]:
        observed = listed([down_text(evidence, name) for name in down])
    return Rule(
        "clients_connected",
        "clients of closed loops had their connections",
        "clients of closed loops had no connection, and sent nothing",
        f"≤ {percent(limit)}",
        observed,
        not down,
    )


def down_text(evidence: Evidence, stream: str) -> str:
    """For how long the stream's connections were down; empty: they never were."""
    share = evidence.down_share(stream)
    from_ns = evidence.totals_of(stream).down_from_ns
    if not share or from_ns is None:
        return ""
    since = f"first at {from_ns / NS_PER_S:+.1f} s"
    return f"{percent(share)} of the time of {stream}, {since}"
