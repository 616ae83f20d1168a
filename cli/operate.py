# SPDX-License-Identifier: Apache-2.0
"""The commands for a running coordinator: submit, list, show, watch, cancel, agents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from rich.console import Console
from rich.table import Table

from ldapslam.cli.client import Client
from ldapslam.cli.console import json_option, put, put_json, say
from ldapslam.cli.follow import follow
from ldapslam.cli.job_source import JobFile, JobSource
from ldapslam.cli.options import (
    coordinator_option,
    job_argument,
    run_argument,
    set_option,
)
from ldapslam.cli.outcome import fetched_store, raise_if_never_started, show_outcome
from ldapslam.cli.progress import Progress
from ldapslam.jobs.errors import ConfigError, ExitCode
from ldapslam.proto import operator_pb2 as pb
from ldapslam.proto.messages import MAX_MESSAGE_BYTES
from ldapslam.reports.summary import summarise

_NS_PER_S = 1e9
#: What a message may hold, and room for the job.
_MAX_FILES_BYTES = MAX_MESSAGE_BYTES - (2 << 20)


def submit_job(client: Client, source: JobSource, overrides: Sequence[str]) -> str:
    """Check a job here, then have the coordinator run it; the run's id."""
    job = source.load(overrides)
    files = {name: path.read_bytes() for name, path in job.files.items()}
    size = sum(map(len, files.values()))
    if size > _MAX_FILES_BYTES:
        largest = max(files, key=lambda name: len(files[name]))
        raise ConfigError(
            f"the job's files have {size:,} bytes, agents are sent at most "
            f"{_MAX_FILES_BYTES:,}: the largest is {largest!r}",
            hint="logs of a replay may be compressed with gzip; feeds may be shorter, "
            "since their lines are used again",
        )
    return client.submit(
        source.content(), job_file=source.name, overrides=overrides, files=files
    )


@click.command("submit")
@job_argument
@set_option
@coordinator_option
@click.option("--wait", is_flag=True, help="Show the run; exit with its verdict.")
@json_option
def submit_command(
    job_file: Path,
    overrides: tuple[str, ...],
    coordinator: str,
    wait: bool,
    as_json: bool,
) -> ExitCode:
    """Have the fleet run JOB; print the run's id, alone, on stdout."""
    with Client(coordinator) as client:
        run_id = submit_job(client, JobFile(job_file), overrides)
        if wait:
            say(f"run {run_id}")
            return _watch(client, run_id, as_json=as_json)
    if as_json:
        put_json({"run_id": run_id})
    else:
        put(run_id)
    return ExitCode.PASS


@click.command("watch")
@run_argument
@coordinator_option
@json_option
def watch_command(run_id: str, coordinator: str, as_json: bool) -> ExitCode:
    """Show RUN until it ends, then its result; exit with its verdict."""
    with Client(coordinator) as client:
        return _watch(client, client.run(run_id).run_id, as_json=as_json)


def _watch(client: Client, run_id: str, *, as_json: bool) -> ExitCode:
    with Progress() as progress:
        status = follow(client, run_id, progress)
    raise_if_never_started(status)
    with fetched_store(client, run_id) as store:
        return show_outcome(summarise(store, run_id), as_json=as_json)


@click.command("list")
@click.option(
    "-n", "--limit", type=click.IntRange(min=0), default=20, help="0 for all."
)
@coordinator_option
@json_option
def list_command(limit: int, coordinator: str, as_json: bool) -> None:
    """List the runs, newest first."""
    with Client(coordinator) as client:
        runs = client.runs(limit)
    if as_json:
        put_json([_document(status) for status in runs])
        return
    rows = [
        (
            run.run_id,
            run.job_name,
            run.state,
            run.verdict or "–",
            run.submitted_utc,
            run.submitted_by,
        )
        for run in runs
    ]
    header = ("run", "job", "state", "verdict", "submitted (UTC)", "by")
    _put_table(header, rows, "no runs yet")


@click.command("show")
@run_argument
@coordinator_option
@json_option
def show_command(run_id: str, coordinator: str, as_json: bool) -> None:
    """Show what is known of RUN: state, times, agents, log."""
    with Client(coordinator) as client:
        status = client.run(run_id)
    if as_json:
        put_json(_document(status))
        return
    fields = {
        "run": status.run_id,
        "job": status.job_name,
        "state": status.state,
        "because": status.state_detail,
        "verdict": status.verdict,
        "submitted": f"{status.submitted_utc} by {status.submitted_by}",
        "T0": status.t0_utc,
        "finished": status.finished_utc,
        "planned": f"{status.planned_ns / _NS_PER_S:g} s",
        "agents": ", ".join(status.agents),
    }
    for name, value in fields.items():
        if value:
            put(f"{name:<10} {value}")
    for event in status.events:
        put(f"{event.at_utc}  {event.kind}: {event.text}")


@click.command("cancel")
@run_argument
@coordinator_option
@json_option
def cancel_command(run_id: str, coordinator: str, as_json: bool) -> None:
    """End RUN early; what it measured is kept."""
    with Client(coordinator) as client:
        status = client.cancel(client.run(run_id).run_id)
    if as_json:
        put_json(_document(status))
    else:
        say(f"run {status.run_id} is {status.state}")


@click.command("agents")
@coordinator_option
@json_option
def agents_command(coordinator: str, as_json: bool) -> None:
    """List the agents that the coordinator knows."""
    with Client(coordinator) as client:
        agents = client.agents()
    if as_json:
        put_json([_document(agent) for agent in agents])
        return
    rows = [
        (
            agent.name,
            agent.state,
            " ".join(agent.run_ids),
            f"{agent.silent_ns / _NS_PER_S:.1f} s",
            _offset_text(agent),
            " ".join(f"{key}={value}" for key, value in sorted(agent.labels.items())),
        )
        for agent in agents
    ]
    header = ("agent", "state", "run", "last heard of", "clock offset", "labels")
    _put_table(header, rows, "no agents; start one with `ldapslam agent`")


def _offset_text(agent: pb.AgentStatus) -> str:
    if not agent.HasField("clock_offset_bound_ns"):
        return "not known yet"
    bound_ms = agent.clock_offset_bound_ns / 1e6
    return f"known to ±{bound_ms:.3f} ms"


def _put_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], when_empty: str
) -> None:
    if not rows:
        say(when_empty)
        return
    table = Table(box=None, pad_edge=False)
    for column in header:
        table.add_column(column, no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:  # a pipe has no width to fit into
        console = Console(highlight=False, markup=False, width=10_000)
    with console.capture() as shown:
        console.print(table)
    put(shown.get().rstrip("\n"))


def _document(message: Message) -> dict[str, Any]:
    """A message as JSON: our field names, numbers as numbers, nested JSON opened."""
    document: dict[str, Any] = MessageToDict(
        message,
        preserving_proto_field_name=True,
        always_print_fields_with_no_presence=True,
    )
    for name, value in list(document.items()):
        if name.endswith("_json"):
            del document[name]
            document[name.removesuffix("_json")] = json.loads(value or "{}")
        elif name.endswith("_ns"):  # protobuf's JSON has 64-bit integers as text
            document[name] = int(value)
    return document
