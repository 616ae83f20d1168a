# SPDX-License-Identifier: Apache-2.0
"""`check --generator`: is this machine fit to measure?"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from ldapslam.agent.engine.setup import (
    add_streams,
    packed_names,
    snapshot_message,
)
from ldapslam.agent.host import host_facts
from ldapslam.base.errors import EngineError, ExitCode
from ldapslam.cli.console import put, put_json, say, us_text, wants_json
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.plan import agent_plan
from ldapslam.proto.fields import METRICS
from ldapslam.results.histogram import Histogram
from ldapslam.results.window import Window, window_of


def check_generator(rate: str) -> ExitCode:
    """Measure the generator itself against a built-in responder on this machine.

    Returns INVALID when runs from here could not be certified.
    """
    say(
        f"one worker and {CONNECTIONS} connections to a responder on this machine: "
        f"first as fast as it goes, then {rate}"
    )
    fitness = examine(rate)
    if wants_json():
        verdict = "fit" if fitness.is_fit else "not fit"
        put_json({"verdict": verdict, **dataclasses.asdict(fitness)})
    else:
        put("\n".join(_text(fitness)))
    return ExitCode.PASS if fitness.is_fit else ExitCode.INVALID


def _text(fitness: Fitness) -> Iterator[str]:
    ceiling, pacing, host = fitness.ceiling, fitness.pacing, fitness.host
    facts, granted = host.facts, pacing.engine_facts
    soft, hard = (
        "unlimited" if count == resource.RLIM_INFINITY else f"{count:,}"
        for count in (host.files_soft, host.files_hard)
    )
    lags = {
        metric: ", ".join(
            f"{name} {us_text(value)}"
            for name, value in pacing.percentiles_us[metric].items()
        )
        for metric in ("send_lag", "receive_lag")
    }
    cpu_us = ceiling.cpu_us_per_op
    rows = {
        "ceiling": f"{ceiling.throughput_per_s:,.0f} operations/s (closed loop)",
        "CPU per operation": "–" if cpu_us is None else f"{cpu_us:.2f} µs",
        "send lag": f"{lags['send_lag']} (open loop)",
        "receive lag": f"{lags['receive_lag']} (open loop)",
        "SCHED_FIFO": "granted" if granted["realtime"] else "not granted",
        "receive stamps": "kernel" if granted["kernel_stamps"] else "none",
        "clock source": facts.get("clock_source") or "unknown",
        "open files": f"{soft}, up to {hard}",
        "ephemeral ports": f"{host.ephemeral_ports:,} per server address",
        "CPUs": f"{facts.get('cores_usable')} of {facts.get('cores')} usable",
        "load average": f"{host.load_average:.2f}, steal {host.steal_share:.1%}",
        "libraries": f"{granted.get('libldap')}, {granted.get('tls')}",
    }
    yield from (f"{name:<18} {value}" for name, value in rows.items())
    verdict = "fit to measure" if fitness.is_fit else "not fit to measure"
    if fitness.is_fit and fitness.remarks:
        verdict += ", with remarks"
    yield f"\nthis machine is {verdict}"
    for remark in fitness.remarks:
        yield f"- {remark.text}"
        yield f"  hint: {remark.remedy}"


#: As in the benchmark of the engine's cost.
CONNECTIONS = 16
WARM_UP_S = 1
MEASURE_S = 4

_START_LEAD_NS = 100_000_000
_SNAPSHOT_TIMEOUT_NS = 10_000_000_000
_PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")

#: Clock sources that are read without a system call.
_QUICK_CLOCKS = ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter")

#: The default of a run's `validity.send_lag_p99`.
SEND_LAG_LIMIT_US = 1_000.0
STEAL_LIMIT = 0.05
FEW_FILES = 4_096
_SHOWN = {"p50": 50, "p90": 90, "p99": 99, "p99_9": 99.9}

_JOB = """\
name: generator
targets: {{responder: '{uri}'}}
run: {{duration: {measure_s}s, warm_up: {warm_up_s}s, interval: 1s, drain: 2s}}
streams:
  - name: {name}
    target: responder
    load: {load}
    operations:
      - search:
          base: ou=people,dc=example,dc=com
          filter: (uid=user.[0-999999])
          attributes: [cn, mail]
"""


@dataclass(frozen=True)
class Load:
    """What one run of the engine against the responder gave, in its measure phase."""

    completed: int
    failed: int
    throughput_per_s: float
    #: CPU of the worker and of the system on its behalf, per operation.
    cpu_us_per_op: float | None
    #: metric -> percentile name -> us.
    percentiles_us: Mapping[str, Mapping[str, float | None]]
    #: What the engine was granted: realtime, kernel_stamps, libldap…
    engine_facts: Mapping[str, Any]


@dataclass(frozen=True)
class Host:
    """What limits a generator here."""

    facts: Mapping[str, Any]
    files_soft: int
    files_hard: int
    ephemeral_ports: int
    #: Share of the CPUs' time that the hypervisor took while we measured.
    steal_share: float
    load_average: float


@dataclass(frozen=True)
class Remark:
    """Something that limits this host, and what can be done about it."""

    text: str
    remedy: str
    #: True: runs here would be INVALID.
    is_fatal: bool = False


@dataclass(frozen=True)
class Fitness:
    """What was measured, and what limits this host."""

    rate: str
    ceiling: Load
    pacing: Load
    host: Host
    remarks: tuple[Remark, ...] = field(default=())

    @property
    def is_fit(self) -> bool:
        return not any(remark.is_fatal for remark in self.remarks)


def examine(rate: str) -> Fitness:
    """Measure this host; takes about twelve seconds."""
    cpu_before = psutil.cpu_times()
    with responder_uri() as uri:
        closed = f"{{clients: {CONNECTIONS}}}"
        ceiling = drive(uri, "closed", closed)
        opened = f"{{rate: {rate}, arrivals: poisson, connections: {CONNECTIONS}}}"
        pacing = drive(uri, "open", opened)
    host = _host(cpu_before)
    return Fitness(rate, ceiling, pacing, host, judge(rate, pacing, host))


@contextlib.contextmanager
def responder_uri() -> Iterator[str]:
    """A canned responder in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ldapslam.cli.measure.responder_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        uri = process.stdout.readline().strip()
        if not uri:
            raise EngineError("the canned responder did not start")
        try:
            yield uri
        finally:
            process.stdin.close()


def drive(uri: str, name: str, load: str) -> Load:
    """Run one worker of the engine with one stream; the measure phase's figures."""
    from ldapslam.agent._engine import Engine

    text = _JOB.format(
        uri=uri, name=name, load=load, measure_s=MEASURE_S, warm_up_s=WARM_UP_S
    )
    job = load_job_text(text, file="generator", base=None)
    plan = agent_plan(job, agent_index=0, agent_count=1, seed=1)
    engine = Engine(plan, workers=1, realtime=True)
    try:
        add_streams(engine, plan)
        engine.prepare()
        engine.start(time.monotonic_ns() + _START_LEAD_NS)
        windows = list(_windows(engine, packed_names(plan)))
        facts = engine.facts()
    finally:
        engine.close()
    return _figures(windows, plan.measure_start_ns, plan.measure_end_ns, facts)


def _windows(engine: Any, names: bytes) -> Iterator[Window]:
    for index in itertools.count():
        snapshot = engine.snapshot(index, _SNAPSHOT_TIMEOUT_NS)
        if snapshot is None:
            raise EngineError(f"the engine did not close interval {index}")
        yield window_of((index,), [snapshot_message(snapshot, names)])
        if snapshot["final"]:
            return


def _figures(
    windows: list[Window], start_ns: int, end_ns: int, facts: dict[str, Any]
) -> Load:
    counts: Counter[str] = Counter()
    histograms = {metric: Histogram() for metric in METRICS}
    cpu_ns = completions = 0
    for window in windows:
        start_at_ns, end_at_ns = window.reports["start_ns"], window.reports["end_ns"]
        middle_ns = (start_at_ns[0] + end_at_ns[0]) // 2
        is_in_measure = start_ns <= middle_ns < end_ns
        if is_in_measure:
            cpu_ns += sum(window.workers["cpu_ns"].tolist())
        for (_, _, is_measured), rows in window.operations.items():
            if is_in_measure:
                completions += rows.count("completed")
            if is_measured:
                counts["completed"] += rows.count("completed")
                counts["failed"] += rows.count("completed") - rows.count("succeeded")
                for (metric, _), packed in rows.histograms.items():
                    histograms[metric].add_block(packed.read())
    return Load(
        completed=counts["completed"],
        failed=counts["failed"],
        throughput_per_s=completions / ((end_ns - start_ns) / 1e9),
        cpu_us_per_op=cpu_ns / 1e3 / completions if completions else None,
        percentiles_us={
            metric: {name: _percentile_us(histogram, p) for name, p in _SHOWN.items()}
            for metric, histogram in histograms.items()
        },
        engine_facts=facts,
    )


def _percentile_us(histogram: Histogram, p: float) -> float | None:
    value_ns = histogram.reliable_percentile(p)
    return None if value_ns is None else value_ns / 1e3


def _host(cpu_before: Any) -> Host:
    cpu = psutil.cpu_times()
    spent = [now - then for now, then in zip(cpu, cpu_before, strict=True)]
    steal = getattr(cpu, "steal", 0.0) - getattr(cpu_before, "steal", 0.0)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    first_port, last_port = map(int, _PORT_RANGE.read_text().split())
    return Host(
        facts=host_facts(),
        files_soft=soft,
        files_hard=hard,
        ephemeral_ports=last_port - first_port + 1,
        steal_share=steal / sum(spent) if sum(spent) else 0.0,
        load_average=psutil.getloadavg()[0],
    )


def judge(rate: str, pacing: Load, host: Host) -> tuple[Remark, ...]:
    """The faults of this host, the fatal first."""
    lag_us = pacing.percentiles_us["send_lag"]["p99"]
    lag = "unknown" if lag_us is None else f"{lag_us / 1e3:.2f} ms"
    granted, facts = pacing.engine_facts, host.facts
    clock, hard = facts.get("clock_source"), host.files_hard
    # whether it is so, what it is, the remedy; two fatal ones first
    found = (
        (
            lag_us is None or lag_us > SEND_LAG_LIMIT_US,
            f"send lag p99 is {lag} at {rate}, the limit of a valid run "
            f"{SEND_LAG_LIMIT_US / 1e3:g} ms",
            "leave the CPUs to the generator, allow it SCHED_FIFO, or use another host",
        ),
        (
            pacing.failed > 0,
            f"{pacing.failed} requests to the responder failed",
            "is loopback traffic filtered or limited here?",
        ),
        (
            host.steal_share > STEAL_LIMIT,
            f"the hypervisor took {host.steal_share:.0%} of the CPU time",
            "use dedicated CPUs, or a host of its own",
        ),
        (
            not granted.get("kernel_stamps"),
            "the kernel gives no receive timestamps: the generator's own receive lag "
            "is part of the service time",
            "use a Linux kernel whose sockets support SO_TIMESTAMPING",
        ),
        (
            not granted.get("realtime"),
            "SCHED_FIFO was not granted, or was given back because the worker never "
            "rested: open loops depend on the other processes",
            "run the agent with CAP_SYS_NICE, or set LimitRTPRIO=1 in its unit",
        ),
        (
            clock is not None and clock not in _QUICK_CLOCKS,
            f"the clock source {clock} is slow to read",
            f"use one of {', '.join(_QUICK_CLOCKS)}, if the host offers it",
        ),
        (
            hard != resource.RLIM_INFINITY and hard < FEW_FILES,
            f"a process may open {hard:,} files, and so connections",
            "raise the limit: ulimit -n, LimitNOFILE= in a unit",
        ),
        (
            (facts.get("cores_usable") or 1) < 2,
            "one CPU alone: the agent itself delays the generator",
            "give the agent two CPUs or more",
        ),
    )
    return tuple(
        Remark(text, remedy, is_fatal=number < 2)
        for number, (is_so, text, remedy) in enumerate(found)
        if is_so
    )
