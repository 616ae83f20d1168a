# SPDX-License-Identifier: Apache-2.0
"""What monitors cost the host of a server: their own process, and the server's answers.

    python benchmarks/monitors.py [--rounds 3] [--window 10] [--every 1s] [--json FILE]
                                  [--check]

A slapd of a lab, idle but for them. Windows without monitors and with all of them (the
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
from ldapslam.agent.ldap_access import LdapAccess
from ldapslam.agent.monitors.base import TargetAccess
from ldapslam.agent.monitors.choose import monitors_for
from ldapslam.agent.monitors.log import LogMonitor
from ldapslam.agent.sampling import Sampling
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.units import NS_PER_S
from ldapslam.lab import Lab, SlapdSettings

#: Of one core, on the server's host.
_TARGET = 0.01
_ENTRIES = 10_000
_LOG_LINES = 40_000

_JOB = """\
job: monitored
targets: {{server: {uri}}}
run: {{duration: 10s}}
streams:
  - name: readers
    target: server
    load: {{closed: {{clients: 1}}}}
    operations: [{{search: {{base: ""}}}}]
monitors:
  - {{directory: server, every: {every}}}
  - {{host: server, processes: [slapd], every: {every}}}
  - {{log: {log}, format: openldap, every: {every}}}
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
    parser.add_argument("--window", type=float, default=10.0, help="s")
    parser.add_argument("--every", default="1s")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--sample", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.sample is not None:
        _sample(*given.sample, every=given.every)
        return 0
    cost = _measure(given.rounds, given.window, given.every)
    line_us = _log_line_us()
    print(f"all monitors, every {given.every}, in % of one core")
    print(f"  observer  {cost.observer:8.3%}")
    print(f"  server    {cost.server:8.3%}")
    print(f"  together  {cost.total:8.3%}   (target: < {_TARGET:.0%})")
    print(f"a line of slapd's log: {line_us:.1f} µs")
    if given.json:
        found = {"cost": asdict(cost), "log_line_us": line_us, "host": host_facts()}
        given.json.write_text(json.dumps(found, indent=2) + "\n")
    return int(given.check and cost.total >= _TARGET)


def _measure(rounds: int, window_s: float, every: str) -> Cost:
    observers, servers, readings = [], [], []
    settings = SlapdSettings(debug="stats")
    with Lab(entries=_ENTRIES, settings=settings) as lab:
        server = psutil.Process(lab.pid(lab.supplier))
        log = lab.supplier.folder / "slapd.log"
        command = [sys.executable, __file__, "--every", every, "--sample"]
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


def _sample(uri: str, password_file: str, log: str, *, every: str) -> None:
    """In the child: sample until told to end, and say what that took."""
    job = load_job_text(
        _JOB.format(uri=uri, log=log, every=every), file="job.yaml", base=None
    )
    access = LdapAccess(
        start_tls=False,
        ca_file=None,
        cert_file=None,
        key_file=None,
        verify=True,
        bind_dn="cn=admin,dc=example,dc=com",
        bind_password=Path(password_file).read_bytes(),
        mechanism=None,
        authcid=None,
        authzid=None,
        connect_timeout_ns=5 * NS_PER_S,
    )
    sampling = Sampling(NS_PER_S)
    sampling.open(
        monitors_for(
            job,
            access=lambda _: TargetAccess(access, lambda kind: None),
            is_local=lambda _: True,
            has_directories=True,
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
