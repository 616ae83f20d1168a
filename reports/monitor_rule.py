# SPDX-License-Identifier: Apache-2.0
"""The validity rule about what monitors saw of the servers. Pure."""

from __future__ import annotations

from ldapslam.reports.evidence import Evidence
from ldapslam.reports.rule import NOT_APPLICABLE, Rule, listed


def server_restarted(evidence: Evidence) -> Rule:
    """What is watched, a server or its process, ran from first to last reading."""
    restarts = [
        f"{one.name} before {at_s:,.1f} s"
        for one in evidence.monitors
        for at_s in one.restarts_s
    ]
    return Rule(
        "server_restarted",
        "no server was restarted",
        "a server was restarted",
        "0",
        listed(restarts) if restarts else "0" if evidence.monitors else NOT_APPLICABLE,
        not restarts,
    )
