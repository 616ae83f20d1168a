# SPDX-License-Identifier: Apache-2.0
"""What monitors cost the host of a server: their own process, and the server's answers.

    python benchmarks/monitors.py [--rounds 3] [--window 20] [--every 1s]
                                  [--server slapd|389ds]… [--json FILE] [--check]

A server of a lab, idle but for them. Windows without monitors and with all of them (the
directory, the host, the server's process, its log) take turns; the server's CPU time of
the one is taken off that of the other. The monitors are sampled as an observer does, in
a process of their own, whose start is not in the window. What a log costs depends on
what is written to it, so its lines are measured by themselves.

Ends with 0, whatever it finds; with --check, with 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from ldapslam.agent.host import host_facts
from ldapslam.agent.monitoring.choose import monitors_for
from ldapslam.agent.monitoring.log import LogMonitor
from ldapslam.agent.monitoring.process import Sampling
from ldapslam.agent.monitoring.reading import TargetAccess
from ldapslam.base.units import NS_PER_S
from ldapslam.jobs.connection_settings import BindSettings, ConnectionSettings
from ldapslam.jobs.load import load_job_text
from ldapslam.lab import Choices, Lab
from ldapslam.lab.lab import ServerKind

#: Program, log's format, and the log in the server's folder.
_SERVERS: dict[ServerKind, tuple[str, str, str]] = {
    "slapd": ("slapd", "openldap", "slapd.log"),
    "389ds": ("ns-slapd", "389ds", "log/access"),
}
#: Of one core, on the server's host.
_TARGET = 0.01
_ENTRIES = 10_000
_LOG_LINES = 40_000

_JOB = """\
name: monitored
targets: {{server: {uri}}}
run: {{duration: 10s}}
streams:
  - name: readers
    target: server
    load: {{clients: 1}}
    operations: [{{search: {{base: ""}}}}]
monitors:
  - {{directory: server, every: {every}}}
  - {{host: server, processes: [{program}], every: {every}}}
  - {{log: {log}, format: {format}, every: {every}}}
"""
_SEARCH = (
    '{stamp} conn=1000 op={number} SRCH base="ou=people,dc=example,dc=com" scope=2 '
    'deref=0 filter="(uid=user.{number})"\n'
    "{stamp} conn=1000 op={number} SEARCH RESULT tag=101 err=0 qtime=0.000010 "
    "etime=0.000100 nentries=1 text=\n"
)


@dataclass(frozen=True)
class Cost:
    """Of one core; medians of the rounds."""

    observer: float
    server: float
    #: Of a reading of all monitors.
    readings: int

    @property
    def total(self) -> float:
        return self.observer + self.server


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--window", type=float, default=20.0, help="s")
    parser.add_argument("--every", default="1s")
    parser.add_argument("--server", action="append", choices=tuple(_SERVERS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--sample", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.sample is not None:
        _sample(*given.sample, every=given.every)
        return 0
    costs = {
        server: _measure(server, given.rounds, given.window, given.every)
        for server in given.server or _SERVERS
    }
    line_us = _log_line_us()
    print(
        f"all monitors, every {given.every}, in % of one core (target: < {_TARGET:.0%})"
    )
    print("          observer    server  together")
    for server, cost in costs.items():
        figures = (cost.observer, cost.server, cost.total)
        print(f"{server:8}" + "".join(f"{figure:10.3%}" for figure in figures))
    print(f"a line of slapd's log: {line_us:.1f} µs")
    if given.json:
        found = {
            "costs": {server: asdict(cost) for server, cost in costs.items()},
            "log_line_us": line_us,
            "host": host_facts(),
        }
        given.json.write_text(json.dumps(found, indent=2) + "\n")
    is_missed = any(cost.total >= _TARGET for cost in costs.values())
    return int(given.check and is_missed)


def _measure(server_kind: ServerKind, rounds: int, window_s: float, every: str) -> Cost:
    observers, servers, readings = [], [], []
    options = [("loglevel", "stats")] if server_kind == "slapd" else []
    choices = Choices(options=options)
    with Lab(server=server_kind, entries=_ENTRIES, choices=choices) as lab:
        server = psutil.Process(lab.supplier.pid)
        log = lab.supplier.folder / _SERVERS[server_kind][2]
        command = [sys.executable, __file__, "--every", every, "--sample", server_kind]
        command += [lab.supplier.uri, str(lab.admin_password_file), str(log)]
        for _ in range(rounds):
            alone_s = _cpu_s_of(server, window_s)
            with subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            ) as child:
                assert child.stdin is not None
                assert child.stdout is not None
                if child.stdout.readline() != "ready\n":
                    raise SystemExit("the monitors did not start")
                watched_s = _cpu_s_of(server, window_s)
                answer, _ = child.communicate("end\n")
            found = json.loads(answer)
            observers.append(found["cpu_s"] / found["wall_s"])
            servers.append((watched_s - alone_s) / window_s)
            readings.append(found["readings"])
    return Cost(
        statistics.median(observers),
        statistics.median(servers),
        round(statistics.median(readings)),
    )


def _cpu_s_of(process: psutil.Process, window_s: float) -> float:
    before = process.cpu_times()
    time.sleep(window_s)
    after = process.cpu_times()
    return (after.user - before.user) + (after.system - before.system)


def _sample(
    server_kind: ServerKind, uri: str, password_file: str, log: str, *, every: str
) -> None:
    """In the child: sample until told to end, and say what that took."""
    program, format_name, _ = _SERVERS[server_kind]
    text = _JOB.format(
        uri=uri, program=program, log=log, format=format_name, every=every
    )
    job = load_job_text(text, file="job.yaml", base=None)
    access = ConnectionSettings(
        bind=BindSettings(
            "cn=admin,dc=example,dc=com", Path(password_file).read_bytes()
        )
    )
    sampling = Sampling(NS_PER_S)
    sampling.open(
        monitors_for(
            job,
            access=lambda _: TargetAccess(access, lambda kind: None),
            is_local=lambda _: True,
            has_directories=True,
            may_read=lambda _: True,
        )
    )
    sampling.start(time.monotonic_ns())
    time.sleep(1.0)
    cpu_s, wall_s = time.process_time(), time.monotonic()
    sampling.taken()
    print("ready", flush=True)
    sys.stdin.readline()
    cpu_s, wall_s = time.process_time() - cpu_s, time.monotonic() - wall_s
    taken = sampling.taken()
    if failures := {one.failure for one in taken if one.failure}:
        raise SystemExit("; ".join(sorted(failures)))
    sampling.stop()
    print(json.dumps({"cpu_s": cpu_s, "wall_s": wall_s, "readings": len(taken)}))


def _log_line_us() -> float:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "slapd.log"
        path.touch()
        monitor = LogMonitor("log", 0, path, "openldap")
        monitor.open()
        stamp = "6b0193e0.25f31afd 0x7f00dbffe6c0"
        path.write_text(
            "".join(
                _SEARCH.format(stamp=stamp, number=number)
                for number in range(_LOG_LINES // 2)
            )
        )
        begun_s = time.process_time()
        monitor.sample()
        used_s = time.process_time() - begun_s
        monitor.close()
    return used_s / _LOG_LINES * 1e6


if __name__ == "__main__":
    raise SystemExit(main())
