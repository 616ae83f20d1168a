# SPDX-License-Identifier: Apache-2.0
"""The commands for a running coordinator: list, show, watch, cancel."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from rich.console import Console
from rich.table import Table

from ldapslam.base.errors import ExitCode
from ldapslam.cli.client import Client
from ldapslam.cli.console import json_option, put, put_json, say
from ldapslam.cli.follow import follow
from ldapslam.cli.options import (
    coordinator_option,
    run_argument,
)
from ldapslam.cli.outcome import fetched_store, raise_if_never_started, show_outcome
from ldapslam.cli.progress import Progress
from ldapslam.reports.summarise import summarise

_NS_PER_S = 1e9
#: A coordinator that is started again within it takes its runs up.
_PATIENCE_S = 60.0


@click.command("watch")
@run_argument
@coordinator_option
@json_option
def watch_command(run_id: str, coordinator: str, as_json: bool) -> ExitCode:
    """Show RUN until it ends, then its result; exit with its verdict."""
    with Client(coordinator) as client:
        return watch_run(client, client.run(run_id).run_id, as_json=as_json)


def watch_run(client: Client, run_id: str, *, as_json: bool) -> ExitCode:
    """Show a run until it ends, then its result; the exit code of its verdict."""
    with Progress() as progress:
        status = follow(client, run_id, progress, patience_s=_PATIENCE_S)
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
        put_json([document(status) for status in runs])
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
    put_table(header, rows, "no runs yet")


@click.command("show")
@run_argument
@coordinator_option
@json_option
def show_command(run_id: str, coordinator: str, as_json: bool) -> None:
    """Show what is known of RUN: state, times, agents, log."""
    with Client(coordinator) as client:
        status = client.run(run_id)
    if as_json:
        put_json(document(status))
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
        put_json(document(status))
    else:
        say(f"run {status.run_id} is {status.state}")


def put_table(
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


def document(message: Message) -> dict[str, Any]:
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
