# SPDX-License-Identifier: Apache-2.0
"""`selfcheck`: is this machine fit to measure?"""

from __future__ import annotations

import dataclasses
import resource
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ldapslam.base.errors import ExitCode
from ldapslam.cli.console import json_option, put, put_json, say, us_text

if TYPE_CHECKING:
    from ldapslam.cli.measure.fitness import Fitness


@click.command("selfcheck")
@click.option(
    "--realtime/--no-realtime",
    default=True,
    help="Ask for SCHED_FIFO in the open loop, as agents do where allowed.",
)
@json_option
def selfcheck_command(realtime: bool, as_json: bool) -> ExitCode:
    """Measure the generator itself against a built-in responder on this machine.

    Ends with 3 (INVALID) when runs from here could not be certified.
    """
    from ldapslam.cli.measure.fitness import CONNECTIONS, RATE_PER_S, examine

    say(
        f"one worker and {CONNECTIONS} connections to a responder on this machine: "
        f"first as fast as it goes, then {RATE_PER_S:,}/s"
    )
    fitness = examine(realtime=realtime)
    if as_json:
        verdict = "fit" if fitness.is_fit else "not fit"
        put_json({"verdict": verdict, **dataclasses.asdict(fitness)})
    else:
        put("\n".join(_text(fitness)))
    return ExitCode.PASS if fitness.is_fit else ExitCode.INVALID


def _text(fitness: Fitness) -> Iterator[str]:
    ceiling, pacing, host = fitness.ceiling, fitness.pacing, fitness.host
    facts, granted = host.facts, pacing.engine_facts
    yield f"{'ceiling':<18} {ceiling.throughput_per_s:,.0f} operations/s (closed loop)"
    yield f"{'CPU per operation':<18} {_cpu(ceiling.cpu_us_per_op)}"
    for metric in ("send_lag", "receive_lag"):
        times = pacing.percentiles_us[metric]
        shown = ", ".join(f"{name} {us_text(value)}" for name, value in times.items())
        yield f"{metric.replace('_', ' '):<18} {shown} (open loop)"
    yield f"{'SCHED_FIFO':<18} {'granted' if granted['realtime'] else 'not granted'}"
    yield f"{'receive stamps':<18} {'kernel' if granted['kernel_stamps'] else 'none'}"
    yield f"{'clock source':<18} {facts.get('clock_source') or 'unknown'}"
    limits = f"{_limit(host.files_soft)}, up to {_limit(host.files_hard)}"
    yield f"{'open files':<18} {limits}"
    yield f"{'ephemeral ports':<18} {host.ephemeral_ports:,} per server address"
    yield f"{'CPUs':<18} {facts.get('cores_usable')} of {facts.get('cores')} usable"
    yield f"{'load average':<18} {host.load_average:.2f}, steal {host.steal_share:.1%}"
    yield f"{'libraries':<18} {granted.get('libldap')}, {granted.get('tls')}"
    yield ""
    if not fitness.is_fit:
        verdict = "not fit to measure"
    elif fitness.remarks:
        verdict = "fit to measure, with remarks"
    else:
        verdict = "fit to measure"
    yield f"this machine is {verdict}"
    for remark in fitness.remarks:
        yield f"- {remark.text}"
        yield f"  hint: {remark.remedy}"


def _cpu(value_us: float | None) -> str:
    return "–" if value_us is None else f"{value_us:.2f} µs"


def _limit(count: int) -> str:
    return "unlimited" if count == resource.RLIM_INFINITY else f"{count:,}"
