# SPDX-License-Identifier: Apache-2.0
"""The commands for a running coordinator: list, show, watch, cancel, health."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from rich.console import Console
from rich.table import Table

from ldapslam.base.errors import ExitCode
from ldapslam.base.inert import inert
from ldapslam.cli.client import Client, run_argument
from ldapslam.cli.console import json_option, put, put_json, put_result, say
from ldapslam.cli.options import option
from ldapslam.cli.security import client_options, coordinator_option

_NS_PER_S = 1e9
#: A coordinator that is started again within it takes its runs up.
_PATIENCE_S = 60.0


@click.command("watch")
@run_argument
@client_options
def watch_command(run_id: str, coordinator: str, as_json: bool) -> ExitCode:
    """Show RUN until it ends, then its result; exit with its verdict."""
    with Client(coordinator) as client:
        return watch_run(client, client.run(run_id).run_id, as_json=as_json)


def watch_run(client: Client, run_id: str, *, as_json: bool) -> ExitCode:
    """Show a run until it ends, then its result; the exit code of its verdict."""
    from ldapslam.cli import outcome
    from ldapslam.cli.follow import follow
    from ldapslam.cli.progress import Progress
    from ldapslam.reports.summarise import summarise

    with Progress() as progress:
        status = follow(client, run_id, progress, patience_s=_PATIENCE_S)
    outcome.raise_if_never_started(status)
    with outcome.fetched_store(client, run_id) as store:
        return outcome.show_outcome(summarise(store, run_id), as_json=as_json)


@click.command("list")
@option("-n --limit", "0 for all.", type=click.IntRange(min=0), default=20)
@client_options
def list_command(limit: int, coordinator: str, as_json: bool) -> None:
    """List the runs, newest first."""
    with Client(coordinator) as client:
        runs = client.runs(limit)
    if as_json:
        put_json([document(status) for status in runs])
        return
    names = ("run_id", "job_name", "state", "verdict", "submitted_utc", "submitted_by")
    rows = [[getattr(run, name) or "–" for name in names] for run in runs]
    header = ("run", "job", "state", "verdict", "submitted (UTC)", "by")
    put_table(header, rows, "no runs yet")


@click.command("show")
@run_argument
@client_options
def show_command(run_id: str, coordinator: str, as_json: bool) -> None:
    """Show what is known of RUN: state, times, agents, log."""
    with Client(coordinator) as client:
        status = client.run(run_id)
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
    events = [f"{one.at_utc}  {one.kind}: {one.text}" for one in status.events]
    put_result(document(status), [*field_lines(fields), *events], as_json=as_json)


@click.command("cancel")
@run_argument
@client_options
def cancel_command(run_id: str, coordinator: str, as_json: bool) -> None:
    """End RUN early; what it measured is kept."""
    with Client(coordinator) as client:
        status = client.cancel(client.run(run_id).run_id)
    said = f"run {status.run_id} is {status.state}"
    put_result(document(status), as_json=as_json, said=said)


@click.command("health")
@coordinator_option
@option(
    "--timeout timeout_s SECONDS",
    "How long to wait for the answer.",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
)
@json_option
def health_command(coordinator: str, timeout_s: float, as_json: bool) -> ExitCode:
    """Ask the coordinator whether it serves: its store takes writes.

    Exit code 0 when it does, 5 when it does not or cannot be reached.
    """
    with Client(coordinator) as client:
        status = client.health(timeout_s)
    put_result(
        {"coordinator": coordinator, "status": status}, [status], as_json=as_json
    )
    return ExitCode.PASS if status == "SERVING" else ExitCode.FLEET


def field_lines(fields: Mapping[str, str]) -> Iterable[str]:
    """Names and values in two columns; empty values are left out."""
    return (f"{name:<10} {value}" for name, value in fields.items() if value)


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
        table.add_row(*map(inert, row))
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:  # a pipe has no width to fit into
        console = Console(highlight=False, markup=False, width=10_000)
    with console.capture() as shown:
        console.print(table)
    put(shown.get().rstrip("\n"), is_styled=True)


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
