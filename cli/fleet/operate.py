# SPDX-License-Identifier: Apache-2.0
"""The commands for runs that are under way or over: list, show, watch, cancel;
and the coordinator's status."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from rich.console import Console
from rich.table import Table

from ldapslam.base.errors import (
    ConfigError,
    CoordinatorUnreachable,
    ExitCode,
    RunAborted,
)
from ldapslam.base.inert import inert
from ldapslam.cli import outcome
from ldapslam.cli.client import Client
from ldapslam.cli.command import command
from ldapslam.cli.console import put, put_json, put_result, say, wants_json
from ldapslam.cli.options import option
from ldapslam.cli.runs import (
    Place,
    asked,
    run_argument,
    runs_options,
    status,
    statuses,
    store_of,
)
from ldapslam.cli.security import coordinator_option
from ldapslam.proto import operator_pb2 as pb
from ldapslam.results.records import FINAL_STATES
from ldapslam.transport.messages import decode_facts

if TYPE_CHECKING:
    from ldapslam.results.store import Store

_NS_PER_S = 1e9
#: A coordinator that is started again within it takes its runs up.
_PATIENCE_S = 60.0


@command("watch")
@run_argument
@runs_options
def watch_command(run_id: str, place: Place) -> ExitCode:
    """Show RUN until it ends, then its result; exit with its verdict."""
    with asked(place, run_id) as (client, name, folder):
        if client is not None:
            run_id = client.run(name).run_id
            if folder is None:
                return watch_run(client, run_id)
            with contextlib.suppress(CoordinatorUnreachable):  # it ends with the run
                outcome.raise_if_never_started(_followed(client, run_id))
    if folder is not None:
        run_id = str(folder) if folder.exists() else run_id
    with store_of(run_id, place) as (results, full_id, _):
        return _shown(results, full_id)


def watch_run(client: Client, run_id: str) -> ExitCode:
    """Show a run until it ends, then its result; the exit code of its verdict."""
    outcome.raise_if_never_started(_followed(client, run_id, _PATIENCE_S))
    with outcome.fetched_store(client, run_id) as store:
        return _shown(store, run_id)


def _followed(client: Client, run_id: str, patience_s: float = 0) -> pb.RunStatus:
    from ldapslam.cli.follow import follow
    from ldapslam.cli.progress import Progress

    with Progress() as progress:
        return follow(client, run_id, progress, patience_s=patience_s)


def _shown(store: Store, run_id: str) -> ExitCode:
    from ldapslam.reports.summarise import summarise

    state = store.run(run_id).state
    if state not in FINAL_STATES:
        raise RunAborted(
            f"run {run_id} was left in state {state!r}: nobody carries it out any more",
            hint=f"`ldapslam report {run_id}` reports what it has measured",
        )
    return outcome.show_outcome(summarise(store, run_id))


@command("list")
@option(
    "--limit N", "This many at most; 0 for all.", type=click.IntRange(min=0), default=20
)
@runs_options
def list_command(limit: int, place: Place) -> None:
    """List the runs, newest first: those of this folder, else a coordinator's."""
    runs = statuses(place, limit)
    if wants_json():
        put_json([document(one) for one in runs])
        return
    names = ("run_id", "job_name", "state", "verdict", "submitted_utc", "submitted_by")
    rows = [[getattr(run, name) or "–" for name in names] for run in runs]
    header = ("run", "job", "state", "verdict", "submitted (UTC)", "by")
    put_table(header, rows, "no runs yet: `ldapslam run JOB` makes one")


@command("show")
@run_argument
@runs_options
def show_command(run_id: str, place: Place) -> None:
    """Show the state, times, agents and log of RUN."""
    run = status(place, run_id)
    fields = {
        "run": run.run_id,
        "job": run.job_name,
        "state": run.state,
        "because": run.state_detail,
        "verdict": run.verdict,
        "submitted": f"{run.submitted_utc} by {run.submitted_by}",
        "T0": run.t0_utc,
        "finished": run.finished_utc,
        "planned": f"{run.planned_ns / _NS_PER_S:g} s",
        "agents": ", ".join(run.agents),
    }
    events = [f"{one.at_utc}  {one.kind}: {one.text}" for one in run.events]
    put_result(document(run), [*field_lines(fields), *events])


@command("cancel")
@run_argument
@runs_options
def cancel_command(run_id: str, place: Place) -> None:
    """End RUN early; what it measured is kept."""
    with asked(place, run_id) as (client, name, _):
        if client is None:
            raise ConfigError(
                f"run {run_id!r} is not under way", hint="`ldapslam list` shows states"
            )
        run = client.cancel(client.run(name).run_id)
    said = f"run {run.run_id} is {run.state}"
    put_result(document(run), said=said)


@command("status")
@coordinator_option
def status_command(coordinator: str) -> ExitCode:
    """Ask the coordinator whether it serves: whether its store takes writes.

    Exit code 0 when it does, 5 when it does not or cannot be reached.
    """
    with Client(coordinator) as client:
        health = client.health()
    put_result({"coordinator": coordinator, "status": health}, [health])
    return ExitCode.PASS if health == "SERVING" else ExitCode.FLEET


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
            document[name.removesuffix("_json")] = decode_facts(value)
        elif name.endswith("_ns"):  # protobuf's JSON has 64-bit integers as text
            document[name] = int(value)
    return document
