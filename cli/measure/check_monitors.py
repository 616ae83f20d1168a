# SPDX-License-Identifier: Apache-2.0
"""What a job's observers will be able to see, asked from this host before a run.

The code is that of a run: each monitor is opened and read once. What agents on other
hosts will read, hosts and logs there, is named and not asked.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from ldapslam.base.errors import LdapSlamError
from ldapslam.cli.console import put, say
from ldapslam.cli.measure.check_faults import Faults
from ldapslam.jobs.model import Job

if TYPE_CHECKING:
    from ldapslam.agent.monitoring.base import Monitor
    from ldapslam.agent.monitoring.log import LogMonitor
    from ldapslam.agent.monitoring.servers import ObservedServers
    from ldapslam.jobs.connection_settings import ConnectionSettings

#: Missing figures are named as long as they are few.
_NAMED = 5


def observed_servers(job: Job) -> ObservedServers:
    """As on an agent; what its operator allows is asked there."""
    from ldapslam.agent.admission.limits import AgentLimits
    from ldapslam.agent.admission.target_rules import parse_rules
    from ldapslam.agent.monitoring.servers import ObservedServers

    return ObservedServers(job, AgentLimits(targets=parse_rules(["any"])), "check")


def ask_watched(
    servers: ObservedServers, faults: Faults, *, as_json: bool
) -> list[dict[str, Any]]:
    """Every server whose counts go into the books."""
    documents: list[dict[str, Any]] = []
    for uri in servers.counted():
        if faults.is_unreachable(uri):
            continue
        try:
            counted, missing = _counts(servers.access(uri), uri)
        except LdapSlamError as error:
            documents.append({"uri": uri, **faults.add(error)})
            continue
        documents.append({"uri": uri, "counts": counted, "counts_missing": missing})
        if not as_json:
            put(f"{uri}: watched; it counts {', '.join(counted) or 'nothing'}")
        if missing and not counted:
            say(
                f"warning: {uri} does not say what it counts: its books stay open. "
                "Let the job's bind DN read cn=monitor, or give the monitor a `bind`"
            )
    return documents


def _counts(access: ConnectionSettings, uri: str) -> tuple[list[str], list[str]]:
    """Kinds of requests that the server counts for this user, and that it does not."""
    from ldapslam.directory.control_connection import ControlConnection
    from ldapslam.directory.counts import detect, read_counts

    with ControlConnection.open(uri, access, Counter()) as connection:
        counts = read_counts(connection, detect(connection)).operations
    counted = [kind for kind, count in counts.items() if count is not None]
    return counted, [kind for kind in counts if kind not in counted]


def ask_monitors(
    job: Job, servers: ObservedServers, faults: Faults, *, as_json: bool
) -> list[dict[str, Any]]:
    """Every monitor that this host can have, read once."""
    from ldapslam.agent.monitoring.choose import monitors_for
    from ldapslam.agent.monitoring.log import LogMonitor

    if not job.monitors:
        return []
    try:
        monitors = monitors_for(
            job,
            access=servers.target,
            is_local=servers.is_local,
            has_directories=True,
            may_read=lambda path: True,
        )
        elsewhere = list(_elsewhere(job, servers))
    except LdapSlamError as error:
        return [faults.add(error)]
    documents: list[dict[str, Any]] = []
    # each server that does not answer is waited for, all at the same time
    with ThreadPoolExecutor(max(1, len(monitors)), "monitor") as pool:
        for monitor, found in zip(
            monitors, pool.map(_read_once, monitors), strict=True
        ):
            if isinstance(found, LdapSlamError):
                documents.append({"name": monitor.name, **faults.add(found)})
                continue
            documents.append(
                {
                    "name": monitor.name,
                    "figures": len(monitor.metrics),
                    "figures_missing": found,
                }
            )
            if not as_json:
                put(_monitor_line(monitor, found))
            if isinstance(monitor, LogMonitor):
                _look_into(monitor)
    for name in elsewhere:
        documents.append({"name": name, "asked": False})
        if not as_json:
            put(f"{name}: not on this host; an agent there will read it")
    return documents


def _read_once(monitor: Monitor) -> list[str] | LdapSlamError:
    """The figures that are missing, or why there is none."""
    try:
        monitor.open()
        values = monitor.sample()
    except LdapSlamError as error:
        return error
    finally:
        monitor.close()
    return [
        metric.name
        for metric, value in zip(monitor.metrics, values, strict=True)
        if math.isnan(value)
    ]


def _look_into(log: LogMonitor) -> None:
    lines, others = log.last_lines()
    if lines and lines == others:
        say(
            f"warning: {log.name}: of its last {lines:,} lines none is an operation. "
            "slapd has them with loglevel stats, 389-DS in its access log"
        )


def _monitor_line(monitor: Monitor, missing: list[str]) -> str:
    line = f"{monitor.name}: {len(monitor.metrics)} figures"
    if not missing:
        return line
    named = ", ".join(missing[:_NAMED])
    return f"{line}, {len(missing)} of them missing: {named}" + (
        ", …" if len(missing) > _NAMED else ""
    )


def _elsewhere(job: Job, servers: ObservedServers) -> Iterator[str]:
    """Monitors of hosts that this one is not."""
    from ldapslam.agent.monitoring.choose import uris_of

    for monitor in job.monitors:
        if monitor.directory or monitor.entry:
            continue
        if not any(servers.is_local(uri) for uri in uris_of(job, monitor)):
            yield f"{monitor.kind} {monitor.log or monitor.host}"
