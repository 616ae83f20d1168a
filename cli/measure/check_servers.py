# SPDX-License-Identifier: Apache-2.0
"""What `check` asks of servers and of this host, with the code of a run.

Each monitor is opened and read once; probes, imports and the check of replication are
examined. What agents on other hosts will read is named and not asked.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from ldapslam.base.errors import LdapSlamError
from ldapslam.cli.console import put, say
from ldapslam.jobs.model import Job

if TYPE_CHECKING:
    from ldapslam.agent.monitoring.log import LogMonitor
    from ldapslam.agent.monitoring.reading import Monitor
    from ldapslam.agent.monitoring.servers import ObservedServers
    from ldapslam.jobs.connection_settings import ConnectionSettings


from typing import TYPE_CHECKING

from ldapslam.base.errors import (
    BindRejected,
    ExitCode,
    TargetUnreachable,
    TlsHandshakeFailed,
)
from ldapslam.cli.console import complain, error_document
from ldapslam.jobs.model import PythonStream
from ldapslam.jobs.plan import AgentPlan, StreamPlan
from ldapslam.jobs.types import built_in
from ldapslam.reports.collect.job_notes import method_text

if TYPE_CHECKING:
    from ldapslam.agent.monitoring.servers import ObservedServers

#: Missing figures are named as long as they are few.
_NAMED = 5


def observed_servers(job: Job) -> ObservedServers:
    """As on an agent; what its operator allows is asked there."""
    from ldapslam.agent.admission.limits import AgentLimits
    from ldapslam.agent.admission.target_rules import parse_rules
    from ldapslam.agent.monitoring.servers import ObservedServers

    return ObservedServers(job, AgentLimits(targets=parse_rules(["any"])), "check")


def ask_watched(servers: ObservedServers, faults: Faults) -> list[dict[str, Any]]:
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
        faults.put(f"{uri}: watched; it counts {', '.join(counted) or 'nothing'}")
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
    job: Job, servers: ObservedServers, faults: Faults
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
            faults.put(_monitor_line(monitor, found))
            if isinstance(monitor, LogMonitor):
                _look_into(monitor)
    for name in elsewhere:
        documents.append({"name": name, "asked": False})
        faults.put(f"{name}: not on this host; an agent there will read it")
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


class Faults:
    """Errors by what they are about: who asks a server for something else later finds
    the same wrong with it, and tells it in other words."""

    def __init__(self, *, as_json: bool) -> None:
        self._found: dict[object, LdapSlamError] = {}
        self._as_json = as_json

    def put(self, text: str) -> None:
        """A line of the result, unless that is a document."""
        if not self._as_json:
            put(text)

    def add(self, error: LdapSlamError) -> dict[str, Any]:
        """Tell it, unless it was; the document of it."""
        subject = _subject(error)
        if subject not in self._found:
            self._found[subject] = error
            complain(error)
        return error_document(error)

    def is_unreachable(self, uri: str) -> bool:
        """Nobody need wait for that server again."""
        return _unreachable(uri) in self._found

    @property
    def exit_code(self) -> ExitCode:
        """That of the first."""
        return next((one.exit_code for one in self._found.values()), ExitCode.PASS)


def _subject(error: LdapSlamError) -> object:
    match error:
        case TargetUnreachable() | TlsHandshakeFailed():
            return _unreachable(error.uri)
        case BindRejected():
            return "bind", error.uri, error.bind_dn, error.result_code
    return type(error), str(error)


def _unreachable(uri: str) -> object:
    return "reach", uri


def ask_imports(plan: AgentPlan, faults: Faults) -> list[dict[str, Any]]:
    """The server of each stream of imports, with folders, files and programs."""
    from ldapslam.agent.admission.limits import ANY_PATH, AgentLimits
    from ldapslam.lab.bulk_load.job import BulkLoad

    documents: list[dict[str, Any]] = []
    for stream in plan.streams:
        if (
            stream.python is None
            or stream.python.class_path != built_in.BulkLoad.python_class()
        ):
            continue
        try:
            version = BulkLoad(stream.python.options).examine(
                AgentLimits(imports=(ANY_PATH,))
            )
        except LdapSlamError as error:
            documents.append({"stream": stream.name, **faults.add(error)})
            continue
        documents.append({"stream": stream.name, "server": version})
        faults.put(f"{stream.name}: this host can import into {version}")
    return documents


def ask_probes(plan: AgentPlan, faults: Faults) -> list[dict[str, Any]]:
    """Every server that a probe writes to or watches."""
    documents: list[dict[str, Any]] = []
    for stream in plan.streams:
        if (
            stream.python is not None
            and stream.python.class_path == built_in.ReplicationProbe.python_class()
        ):
            documents += _ask_probe(stream, stream.python, faults)
    return documents


def _ask_probe(
    stream: StreamPlan, python: PythonStream, faults: Faults
) -> list[dict[str, Any]]:
    from ldapslam.agent.replication.probe import ReplicationProbe

    probe = ReplicationProbe(python.options)
    target, watched = stream.uris[0], stream.uris[-stream.watched :]
    if faults.is_unreachable(target):
        return []
    try:
        access = stream.connection.resolved()
        dn = probe.examine_target(target, access)
    except LdapSlamError as error:
        return [{"stream": stream.name, "uri": target, **faults.add(error)}]
    faults.put(f"{target}: the probe may write {python.options['dn']}")
    documents: list[dict[str, Any]] = []
    for uri in watched:
        if faults.is_unreachable(uri):
            continue
        document: dict[str, Any] = {"stream": stream.name, "uri": uri}
        try:
            method = probe.examine_replica(uri, access, dn)
        except LdapSlamError as error:
            documents.append(document | faults.add(error))
            continue
        documents.append(document | {"method": method})
        poll_ns = python.options["poll_ns"]
        faults.put(f"{uri}: tells by {method_text(method, (poll_ns or 0) / 1e9)}")
    return documents


def ask_verification(
    job: Job, servers: ObservedServers, faults: Faults
) -> dict[str, Any] | None:
    """Whether all servers say how far they are, and have what is to be compared."""
    from collections import Counter

    from ldapslam.directory.replication import ReplicationServer, examine_replication

    if job.verify is None or any(map(faults.is_unreachable, servers.every())):
        return None
    try:
        found = examine_replication(
            [
                ReplicationServer(uri, servers.access(uri), Counter())
                for uri in servers.every()
            ],
            job.verify.replication,
        )
    except LdapSlamError as error:
        return faults.add(error)
    for tree in found["trees"]:
        now = "they differ"
        if tree["converged"]:
            now = "all have the same changes"
        faults.put(
            f"verify: {tree['suffix']} on {len(found['servers'])} servers; {now}"
        )
        for uri, sources in tree["behind"].items():
            say(f"warning: {uri} is behind on {', '.join(sources)}")
    return found
