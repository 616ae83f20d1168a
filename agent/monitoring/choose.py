# SPDX-License-Identifier: Apache-2.0
"""The monitors that a job asks of one agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import ldap

from ldapslam.agent.monitoring.ds389 import ds389_table
from ldapslam.agent.monitoring.host import (
    HostMonitor,
    ProcessMonitor,
    host_name,
    listening_at,
    processes_of,
)
from ldapslam.agent.monitoring.log import LogMonitor
from ldapslam.agent.monitoring.reading import (
    Directory,
    EntriesMonitor,
    Monitor,
    Table,
    TargetAccess,
    entry_table,
    text,
)
from ldapslam.agent.monitoring.slapd import slapd_table
from ldapslam.base.errors import FleetError, TargetError
from ldapslam.jobs.fields.monitors import Monitor as Wanted
from ldapslam.jobs.model import Job


def monitors_for(
    job: Job,
    *,
    access: Callable[[str], TargetAccess],
    is_local: Callable[[str], bool],
    has_directories: bool,
    may_read: Callable[[str], bool],
) -> list[Monitor]:
    """The monitors that this agent samples; each name once.

    is_local: whether a server is on this host and this agent reads it. has_directories:
    this agent reads the directories, as one agent of a run does. may_read: the operator
    allows a log. ConfigError when a monitor's password is missing; FleetError when a
    log is not allowed.
    """
    found: list[Monitor] = []
    for wanted in job.monitors:
        if wanted.directory or wanted.entry:
            if has_directories:
                found += _of_servers(job, wanted, access)
        elif wanted.log and any(is_local(uri) for uri in uris_of(job, wanted)):
            found.append(_of_log(wanted, may_read))
    hosts = [
        (wanted, [uri for uri in uris_of(job, wanted) if is_local(uri)])
        for wanted in job.monitors
        if wanted.host
    ]
    found += _of_host([(wanted, uris) for wanted, uris in hosts if uris])
    unique: dict[str, Monitor] = {}
    for monitor in found:
        unique.setdefault(monitor.name, monitor)
    return list(unique.values())


def uris_of(job: Job, wanted: Wanted) -> list[str]:
    if wanted.role is not None:
        return list(job.targets[wanted.role])
    return [uri for uris in job.targets.values() for uri in uris]


def _of_servers(
    job: Job, wanted: Wanted, access: Callable[[str], TargetAccess]
) -> Iterable[Monitor]:
    for uri in uris_of(job, wanted):
        learn: Callable[[Directory], Table] = directory_table
        name = f"{wanted.role} {uri}"
        if wanted.entry is not None:
            learn = entry_table(wanted.entry, wanted.attributes, wanted.counters)
            name = f"{_entry_name(job, wanted)} of {name}"
        target = access(uri).bound_as(wanted.bind)
        monitor = EntriesMonitor(name, wanted.every_ns or 0, uri, target, learn)
        yield _about(monitor, wanted.kind, {wanted.role or "": [uri]})


def _entry_name(job: Job, wanted: Wanted) -> str:
    """Its DN, with the attributes read where another monitor reads others of that
    entry."""

    def attributes_of(one: Wanted) -> str:
        return ", ".join([*one.attributes, *(f"{name}/s" for name in one.counters)])

    kinds = {
        attributes_of(one)
        for one in job.monitors
        if (one.entry, one.role) == (wanted.entry, wanted.role)
    }
    name = f"{wanted.entry}"
    return f"{name} ({attributes_of(wanted)})" if len(kinds) > 1 else name


def directory_table(directory: Directory) -> Table:
    """The table for the kind of this server; TargetError."""
    attributes = ("objectClass", "vendorName", "vendorVersion", "namingContexts")
    found = directory.read("", ldap.SCOPE_BASE, attributes)
    root_dse = found[0][1] if found else {}
    if b"OpenLDAProotDSE" in root_dse.get("objectclass", ()):
        return slapd_table(directory, root_dse)
    vendor = text(root_dse, "vendorName") or ""
    if "389" in vendor:
        return ds389_table(directory)
    raise TargetError(
        f"server {directory.uri!r} is neither slapd nor 389-DS"
        + (f", but of {vendor!r}" if vendor else ""),
        hint="name entries of it: {entry: DN, target: ROLE, attributes: […]}",
    )


def _of_host(wanted: list[tuple[Wanted, list[str]]]) -> Iterable[Monitor]:
    """One monitor for the host, one for each process; of several processes of a program
    those that serve the role, if any does."""
    if not wanted:
        return
    every_ns = min(one.every_ns or 0 for one, _ in wanted)
    host = host_name()
    roles = {one.role or "": uris for one, uris in wanted}
    yield _about(HostMonitor(f"host {host}", every_ns), "host", roles)
    for one, uris in wanted:
        serving = listening_at(uris) if one.processes else set()
        for program in dict.fromkeys(one.processes):
            pids: list[int | None] = [found.pid for found in processes_of(program)]
            pids = [pid for pid in pids if pid in serving] or pids or [None]
            for pid in pids:
                which = program if pid is None else f"{program}({pid})"
                monitor = ProcessMonitor(f"{which} on {host}", every_ns, program, pid)
                yield _about(monitor, "process", {one.role or "": uris})


def _about(monitor: Monitor, kind: str, serves: Mapping[str, Sequence[str]]) -> Monitor:
    """The monitor, which says what it is about: thresholds name it by that."""
    monitor.about = {"kind": kind, "serves": dict(serves)}
    return monitor


def _of_log(wanted: Wanted, may_read: Callable[[str], bool]) -> Monitor:
    path = wanted.log or ""
    if not may_read(path):
        raise FleetError(
            f"this agent may not read the log {path!r}",
            hint=f"if the agent's operator agrees: `--allow-log {path}`",
        )
    name = f"log {wanted.log} on {host_name()}"
    monitor = LogMonitor(name, wanted.every_ns or 0, Path(path), wanted.format or "")
    return _about(monitor, "log", {})
