# SPDX-License-Identifier: Apache-2.0
"""Whether a job's probes and its check of replication will work, before a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ldapslam.base.errors import LdapSlamError
from ldapslam.cli.console import put, say
from ldapslam.cli.measure.check_faults import Faults
from ldapslam.jobs.model import Job
from ldapslam.jobs.plan import AgentPlan, PythonPlan, StreamPlan
from ldapslam.jobs.types.replication_probe import PROBE_CLASS
from ldapslam.reports.collect.job_notes import method_text

if TYPE_CHECKING:
    from ldapslam.agent.monitoring.servers import ObservedServers


def ask_probes(
    plan: AgentPlan, faults: Faults, *, as_json: bool
) -> list[dict[str, Any]]:
    """Every server that a probe writes to or watches."""
    documents: list[dict[str, Any]] = []
    for stream in plan.streams:
        if stream.python is not None and stream.python.class_path == PROBE_CLASS:
            documents += _ask_probe(stream, stream.python, faults, as_json)
    return documents


def _ask_probe(
    stream: StreamPlan, python: PythonPlan, faults: Faults, as_json: bool
) -> list[dict[str, Any]]:
    from ldapslam.agent.replication.probe import ReplicationProbe

    probe = ReplicationProbe(python.options)
    target, watched = stream.uris[0], stream.uris[-python.watched :]
    if faults.is_unreachable(target):
        return []
    try:
        access = stream.connection.resolved()
        dn = probe.examine_target(target, access)
    except LdapSlamError as error:
        return [{"stream": stream.name, "uri": target, **faults.add(error)}]
    if not as_json:
        put(f"{target}: the probe may write {python.options['dn']}")
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
        if not as_json:
            poll_ns = python.options["poll_ns"]
            put(f"{uri}: tells by {method_text(method, (poll_ns or 0) / 1e9)}")
    return documents


def ask_verification(
    job: Job, servers: ObservedServers, faults: Faults, *, as_json: bool
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
        if not as_json:
            now = "they differ"
            if tree["converged"]:
                now = "all have the same changes"
            put(f"verify: {tree['suffix']} on {len(found['servers'])} servers; {now}")
        for uri, sources in tree["behind"].items():
            say(f"warning: {uri} is behind on {', '.join(sources)}")
    return found
