# SPDX-License-Identifier: Apache-2.0
"""What `check` asks of servers and of this host, with the code of a run.

Monitors are opened and read once; probes, imports and the check of replication are
examined. Monitors of other hosts are named and not read.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from ldapslam.base.errors import (
    BindRejected,
    ExitCode,
    LdapSlamError,
    TargetUnreachable,
    TlsHandshakeFailed,
)
from ldapslam.base.fault import closest
from ldapslam.cli.console import complain, error_document, put, say, wants_json
from ldapslam.jobs.fields.thresholds import SUBJECTS, Threshold, parse_threshold
from ldapslam.jobs.model import Job, PythonStream
from ldapslam.jobs.plan import AgentPlan, StreamPlan
from ldapslam.jobs.types import built_in
from ldapslam.jobs.types.base import JobType
from ldapslam.reports.collect.job_notes import method_text

if TYPE_CHECKING:
    from ldapslam.agent.monitoring.reading import Monitor
    from ldapslam.agent.monitoring.servers import ObservedServers

Document = dict[str, Any]

_UNUSABLE = (TargetUnreachable, TlsHandshakeFailed, BindRejected)

#: A monitor's missing figures that are named; of others, how many there are.
_NAMED = 5


class Faults:
    """The errors found, each printed once: later questions to a server that failed
    fail in the same way, in other words."""

    def __init__(self) -> None:
        self._found: dict[object, LdapSlamError] = {}
        #: What is no error, each once.
        self.warnings: list[str] = []

    def put(self, text: str) -> None:
        """A line of the result, unless that is a document."""
        if not wants_json():
            put(text)

    def warn(self, text: str) -> None:
        """A warning, which is told at the end."""
        if text not in self.warnings:
            self.warnings.append(text)

    def tell_warnings(self) -> None:
        for text in self.warnings:
            say(f"warning: {text}")

    def add(self, error: LdapSlamError) -> Document:
        """Print an error, unless it was printed before; its document."""
        subject = _subject(error)
        if subject not in self._found:
            self._found[subject] = error
            complain(error)
        return error_document(error)

    def ask(
        self,
        document: Document,
        question: Callable[..., tuple[Document, str]],
        *subject: Any,
    ) -> Document:
        """The document with what `question` finds, which is printed, or its error."""
        try:
            found, line = question(*subject)
        except LdapSlamError as error:
            return document | self.add(error)
        self.put(line)
        return document | found

    def is_unreachable(self, uri: str) -> bool:
        """No other question need wait for that server."""
        return _unreachable(uri) in self._found

    def unusable(self, job: Job) -> set[str]:
        """The targets that cannot be reached, or that refuse the bind."""
        errors = self._found.values()
        failed = {error.uri for error in errors if isinstance(error, _UNUSABLE)}
        return failed & {uri for uris in job.targets.values() for uri in uris}

    @property
    def exit_code(self) -> ExitCode:
        """That of the first error."""
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


def observed_servers(job: Job) -> ObservedServers:
    """As on an agent; the limits of its operator are checked there."""
    from ldapslam.agent.admission.limits import AgentLimits
    from ldapslam.agent.admission.target_rules import parse_rules
    from ldapslam.agent.monitoring.servers import ObservedServers

    return ObservedServers(job, AgentLimits(targets=parse_rules(["any"])), "check")


def ask_watched(servers: ObservedServers, faults: Faults) -> list[Document]:
    """Every server whose request counts are reconciled."""
    from ldapslam.directory.control_connection import ControlConnection
    from ldapslam.directory.counts import detect, read_counts

    def read(uri: str) -> tuple[Document, str]:
        access = servers.access(uri)
        with ControlConnection.open(uri, access, Counter()) as connection:
            counts = read_counts(connection, detect(connection)).operations
        counted = [kind for kind, count in counts.items() if count is not None]
        missing = [kind for kind in counts if kind not in counted]
        if not counted:
            faults.warn(
                f"{uri} does not say what it counts: its counts cannot be "
                "reconciled. Let the job's bind DN read cn=monitor, or give the "
                "monitor a `bind`"
            )
        line = f"{uri}: watched; it counts {', '.join(counted) or 'nothing'}"
        return {"counts": counted, "counts_missing": missing}, line

    return [
        faults.ask({"uri": uri}, read, uri)
        for uri in servers.counted()
        if not faults.is_unreachable(uri)
    ]


def ask_monitors(job: Job, servers: ObservedServers, faults: Faults) -> list[Document]:
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
    documents: list[Document] = []
    # each server that does not answer is waited for, all at the same time
    with ThreadPoolExecutor(max(1, len(monitors)), "monitor") as pool:
        reading = [pool.submit(_read_once, monitor) for monitor in monitors]
        for monitor, result in zip(monitors, reading, strict=True):
            document = faults.ask({"name": monitor.name}, result.result)
            documents.append(document)
            if isinstance(monitor, LogMonitor) and "figures" in document:
                lines, others = monitor.last_lines()
                if lines and lines == others:
                    faults.warn(
                        f"{monitor.name}: of its last {lines:,} lines none is "
                        "an operation. slapd has them with loglevel stats, 389-DS in "
                        "its access log"
                    )
    for name in elsewhere:
        documents.append({"name": name, "asked": False})
        faults.put(f"{name}: not on this host; an agent there will read it")
    for threshold in map(parse_threshold, job.thresholds if not elsewhere else ()):
        if hint := _unread(threshold, monitors):
            about = f"{threshold.kind} of {threshold.subject!r}"
            faults.warn(
                f"{threshold.expression}: no such figure of the {about}; {hint}"
            )
    return documents


def _unread(threshold: Threshold, monitors: Sequence[Monitor]) -> str | None:
    """Return a hint where monitors have opened, and none reads what a threshold is
    about."""
    read = [
        metric.name
        for monitor in monitors
        if monitor.about["kind"] == threshold.kind
        for role, uris in monitor.about["serves"].items()
        if threshold.subject in ("*", role, *uris)
        for metric in monitor.metrics
    ]
    computed = SUBJECTS[threshold.kind].metrics
    if not read or threshold.metric in computed or any(map(threshold.is_about, read)):
        return None
    meant = closest(threshold.metric, [*read, *computed])
    return (
        f"did you mean {meant!r}?" if meant else "docs/reference/telemetry.md has all"
    )


def _read_once(monitor: Monitor) -> tuple[Document, str]:
    try:
        monitor.open()
        values = monitor.sample()
    finally:
        monitor.close()
    missing = [
        metric.name
        for metric, value in zip(monitor.metrics, values, strict=True)
        if math.isnan(value)
    ]
    line = f"{monitor.name}: {len(monitor.metrics)} figures"
    if missing:
        named = ", ".join(missing[:_NAMED]) + ", …" * (len(missing) > _NAMED)
        line += f", {len(missing)} of them missing: {named}"
    return {"figures": len(monitor.metrics), "figures_missing": missing}, line


def _elsewhere(job: Job, servers: ObservedServers) -> Iterator[str]:
    """Monitors of other hosts."""
    from ldapslam.agent.monitoring.choose import uris_of

    for monitor in job.monitors:
        if monitor.directory or monitor.entry:
            continue
        if not any(servers.is_local(uri) for uri in uris_of(job, monitor)):
            yield f"{monitor.kind} {monitor.log or monitor.host}"


def _streams_of(
    plan: AgentPlan, kind: type[JobType[Any]]
) -> Iterator[tuple[StreamPlan, PythonStream]]:
    """The streams of a job type."""
    for stream in plan.streams:
        python = stream.python
        if python is not None and python.class_path == kind.python_class():
            yield stream, python


def ask_imports(plan: AgentPlan, faults: Faults) -> list[Document]:
    """The server of each stream of imports, with folders, files and programs."""
    from ldapslam.agent.admission.limits import ANY_PATH, AgentLimits
    from ldapslam.lab.bulk_load.job import BulkLoad

    def examine(stream: StreamPlan, python: PythonStream) -> tuple[Document, str]:
        limits = AgentLimits(imports=(ANY_PATH,))
        version = BulkLoad(python.options).examine(limits)
        line = f"{stream.name}: this host can import into {version}"
        return {"server": version}, line

    return [
        faults.ask({"stream": stream.name}, examine, stream, python)
        for stream, python in _streams_of(plan, built_in.BulkLoad)
    ]


def ask_probes(plan: AgentPlan, faults: Faults) -> list[Document]:
    """Every server that a probe writes to or watches."""
    documents: list[Document] = []
    for stream, python in _streams_of(plan, built_in.ReplicationProbe):
        documents += _ask_probe(stream, python, faults)
    return documents


def _ask_probe(
    stream: StreamPlan, python: PythonStream, faults: Faults
) -> list[Document]:
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
    poll_s = (python.options["poll_ns"] or 0) / 1e9

    def examine(uri: str) -> tuple[Document, str]:
        method = probe.examine_replica(uri, access, dn)
        return {"method": method}, f"{uri}: tells by {method_text(method, poll_s)}"

    return [
        faults.ask({"stream": stream.name, "uri": uri}, examine, uri)
        for uri in watched
        if not faults.is_unreachable(uri)
    ]


def ask_verification(
    job: Job, servers: ObservedServers, faults: Faults
) -> Document | None:
    """Whether all servers say how far they are, and have what is to be compared."""
    from ldapslam.directory.replication import ReplicationServer, examine_replication

    uris = servers.every()
    if job.verify is None or any(map(faults.is_unreachable, uris)):
        return None
    try:
        found = examine_replication(
            [ReplicationServer(uri, servers.access(uri), Counter()) for uri in uris],
            job.verify.replication,
        )
    except LdapSlamError as error:
        return faults.add(error)
    for tree in found["trees"]:
        now = "all have the same changes" if tree["converged"] else "they differ"
        faults.put(
            f"verify: {tree['suffix']} on {len(found['servers'])} servers; {now}"
        )
        for uri, sources in tree["behind"].items():
            faults.warn(f"{uri} is behind on {', '.join(sources)}")
    return found
