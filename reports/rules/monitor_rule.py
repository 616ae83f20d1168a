# SPDX-License-Identifier: Apache-2.0
"""The validity rule about what monitors saw of the servers. Pure."""

from __future__ import annotations

from ldapslam.reports.rules.balance import restarted
from ldapslam.reports.rules.evidence import Evidence
from ldapslam.reports.rules.rule import NOT_APPLICABLE, Rule, listed


def server_restarted(evidence: Evidence) -> Rule:
    """What is watched, a server or its process, ran from first to last reading."""
    is_watched = bool(evidence.monitors or evidence.balances)
    restarts = [
        f"{one.name} before {at_s:,.1f} s"
        for one in evidence.monitors
        for at_s in one.restarts_s
    ]
    # without a monitor, by what it counted before and after the run
    restarts = restarts or restarted(evidence.run)
    return Rule(
        "server_restarted",
        "no server was restarted",
        "a server was restarted",
        "0",
        listed(restarts) if restarts else "0" if is_watched else NOT_APPLICABLE,
        not restarts,
    )
