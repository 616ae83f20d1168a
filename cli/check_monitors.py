# SPDX-License-Identifier: Apache-2.0
"""What a job's observers will be able to see, asked from this host before a run."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ldapslam.cli.console import complain, error_document, put, say
from ldapslam.jobs.errors import LdapSlamError
from ldapslam.jobs.model import Job


def ask_watched(
    job: Job, *, as_json: bool
) -> tuple[list[dict[str, Any]], list[LdapSlamError]]:
    """Every server whose counts go into the books; those that fail, and why."""
    from ldapslam.agent.limits import AgentLimits
    from ldapslam.agent.observed_servers import ObservedServers
    from ldapslam.agent.target_rules import parse_rules

    if not job.monitors and job.verify is None:
        return [], []
    # what an agent's operator allows is asked on the agent
    servers = ObservedServers(job, AgentLimits(targets=parse_rules(["any"])), "check")
    documents: list[dict[str, Any]] = []
    errors: list[LdapSlamError] = []
    for uri in servers.counted():
        try:
            counted, missing = _counts(servers.access(uri), uri)
        except LdapSlamError as error:
            errors.append(error)
            complain(error)
            documents.append({"uri": uri, **error_document(error)})
            continue
        documents.append({"uri": uri, "counts": counted, "counts_missing": missing})
        if not as_json:
            put(f"{uri}: watched; it counts {', '.join(counted) or 'nothing'}")
        if missing and not counted:
            say(
                f"warning: {uri} does not say what it counts: its books stay open. "
                "Let the job's bind DN read cn=monitor, or give the monitor a `bind`"
            )
    return documents, errors


def _counts(access: Any, uri: str) -> tuple[list[str], list[str]]:
    """Kinds of requests that the server counts for this user, and that it does not."""
    from ldapslam.agent.control_connection import ControlConnection
    from ldapslam.agent.server_counts import detect, read_counts

    with ControlConnection.open(uri, access, Counter()) as connection:
        counts = read_counts(connection, detect(connection)).operations
    counted = [kind for kind, count in counts.items() if count is not None]
    return counted, [kind for kind in counts if kind not in counted]
