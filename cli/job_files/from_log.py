# SPDX-License-Identifier: Apache-2.0
"""Jobs of a directory's log: the same kind of load, or the same requests again."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ldapslam.base import units
from ldapslam.base.errors import ConfigError, ExitCode
from ldapslam.base.fault import Fault
from ldapslam.cli.composed_job import ComposedJob
from ldapslam.cli.console import say
from ldapslam.cli.job_files.written import job_name, write_job
from ldapslam.cli.measure.check_trace import schedule_lines
from ldapslam.cli.measure.quick_options import Options, check_uri, compose_head
from ldapslam.jobs.fields.connection import MAX_CONNECTIONS
from ldapslam.jobs.replay.log import Log
from ldapslam.jobs.replay.options import Trace
from ldapslam.jobs.replay.read import prepare, read_logs
from ldapslam.jobs.replay.trace import Identity, Pace

_EXAMPLE_URI = "ldap://127.0.0.1:389"
_MEASURE_AT_LEAST_S = 10
_LONGEST_S = 365 * 86_400
_MOST_INTERVALS = 86_400


def new_from_log(
    sources: Sequence[str], output: Path | None, given: Options
) -> ExitCode:
    """Write a job of a log; `sources` are its files, and URIs of the directory."""
    uris = [source for source in sources if "://" in source]
    paths = [Path(source) for source in sources if "://" not in source]
    if not paths:
        raise click.UsageError("--log needs the files of a log")
    for uri in uris:
        check_uri(uri)
    log = read_logs(paths)
    name = job_name(output, "logged")
    job = compose_head(name, uris or [_EXAMPLE_URI], given, "URI")
    job.head = (
        f"Made from a log of {log.lines:,} lines.",
        "`ldapslam check` explains the load, `ldapslam describe` the keys.",
    )
    files: dict[str, bytes] = {}
    if given["trace"]:
        folder = Path() if output is None else output.parent
        lines = _put_trace(job, log, paths, folder, given["credentials"])
    else:
        files, lines = _put_statistical_load(job, log, given["credentials"])
    write_job(output, job.text(), files)
    for line in lines:
        say(line)
    if not uris:
        say(f"hint: the job's target is {_EXAMPLE_URI}: give the URI of yours")
    return ExitCode.PASS


def _put_statistical_load(
    job: ComposedJob, log: Log, credentials: str | None
) -> tuple[dict[str, bytes], list[str]]:
    """Set run and streams; return the files, and what of the log is left out."""
    from ldapslam.jobs.replay.statistical_job import statistical_load

    try:
        load = statistical_load(log, job.tree["name"], credentials)
    except Fault as fault:
        raise ConfigError(fault.reason, hint=fault.hint) from None
    seconds = max(_MEASURE_AT_LEAST_S, round(log.duration_ns / units.NS_PER_S))
    job.tree["run"] = _run_section(seconds)
    job.tree["streams"] = load.streams
    left_out: Counter[str] = log.unusable + load.left_out
    lines = [f"left out: {reason}: {count:,}" for reason, count in left_out.items()]
    return load.files, lines


def _put_trace(
    job: ComposedJob,
    log: Log,
    paths: Sequence[Path],
    folder: Path,
    credentials: str | None,
) -> list[str]:
    """Set run and streams; return what of the log is sent, and what is not."""
    trace: dict[str, Any] = {
        "logs": [os.path.relpath(path, folder) for path in paths],
        "speed": "1x",
    }
    if credentials is not None:
        trace["binds"] = {"password": credentials}
    schedule = prepare(
        "log",
        Trace.model_validate(trace),
        log,
        Pace(0, log.duration_ns + 1),
        connections=MAX_CONNECTIONS,
        seed=0,
        identity=Identity("", b""),
    )
    # a little longer than the log: the run ends with its last request
    seconds = math.ceil(log.duration_ns / units.NS_PER_S) + 1
    job.tree["run"] = _run_section(seconds)
    job.comments["run"] = "at most: the run ends with the log"
    stream = {"name": "log", "target": "directory", "load": {"trace": trace}}
    job.tree["streams"] = [stream]
    return list(schedule_lines(schedule))


def _run_section(seconds: int) -> dict[str, str]:
    """Return a measurement of that length, with intervals of a bearable number."""
    seconds = min(seconds, _LONGEST_S)
    section = {"duration": f"{seconds}s"}
    if seconds > _MOST_INTERVALS:
        section["interval"] = f"{-(-seconds // _MOST_INTERVALS)}s"
    return section
