# SPDX-License-Identifier: Apache-2.0
"""`store`: look at a results store, copy it, prune it, shrink it.

Works on the store itself, not through a coordinator: it needs the rights to read or
write its file or database.
"""

from __future__ import annotations

import re
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from ldapslam.base.errors import ConfigError
from ldapslam.base.fault import Fault
from ldapslam.base.files import state_folder
from ldapslam.base.units import format_size
from ldapslam.cli.console import json_option, put_result
from ldapslam.cli.options import FILE, flag, option
from ldapslam.results import upkeep
from ldapslam.results.audit import AuditRecord
from ldapslam.results.records import RunRecord, utc_text
from ldapslam.results.store import Store

_AGE = re.compile(r"(\d{1,5})(h|d|w)")
_HOURS = {"h": 1, "d": 24, "w": 7 * 24}
_RUN_FIELDS = ("run_id", "job_name", "state", "finished_utc")


def _parse_age(value: str) -> str:
    """So long ago, as text in UTC."""
    found = _AGE.fullmatch(value.strip())
    if found is None:
        raise Fault(
            f"expected a time such as 90d, got {value!r}", "the units are h, d and w"
        )
    age = timedelta(hours=int(found[1]) * _HOURS[found[2]])
    return utc_text(datetime.now(UTC) - age)


_store_option = option(
    "--store url URL",
    "Results store: a file, a run's folder, or a URL.",
    default=lambda: str(state_folder() / "results.sqlite"),
    show_default="results.sqlite in the user's state folder",
)


@click.group("store")
def store_command() -> None:
    """Look after a results store."""


@store_command.command("info")
@_store_option
@json_option
def info_command(url: str, as_json: bool) -> None:
    """Show how large the store is, and what is in it."""
    with _existing(url) as store:
        info = upkeep.info(store)
    counts = ", ".join(f"{count} {state}" for state, count in info.runs.items())
    fields = {
        "store": info.url,
        "size": format_size(info.size_bytes),
        "free": "" if info.free_bytes is None else format_size(info.free_bytes),
        "runs": f"{sum(info.runs.values())}" + (f" ({counts})" if counts else ""),
        "intervals": f"{info.intervals}",
        "oldest": info.oldest_utc or "",
        "newest": info.newest_utc or "",
    }
    lines = (f"{name:<10} {value}" for name, value in fields.items() if value)
    document = asdict(info)
    put_result({"store": document.pop("url"), **document}, lines, as_json=as_json)


@store_command.command("backup")
@click.argument("file", type=FILE)
@_store_option
@json_option
def backup_command(file: Path, url: str, as_json: bool) -> None:
    """Copy the store to FILE, also while a coordinator is writing to it."""
    with _existing(url) as store:
        before = upkeep.size_bytes(store)
        size = upkeep.back_up(store, file)
    result = {"file": str(file), "size_bytes": size, "store_bytes": before}
    said = f"{format_size(size)}, of a store of {format_size(before)}"
    put_result(result, [str(file)], as_json=as_json, said=said)


@store_command.command("vacuum")
@_store_option
@json_option
def vacuum_command(url: str, as_json: bool) -> None:
    """Give the space that pruned runs left back to the file system.

    Stop the coordinator first: the whole store is rewritten.
    """
    from ldapslam.coordinator.security.ownership import owned_store

    with _existing(url, read_only=False) as store:
        before = upkeep.size_bytes(store)
        try:
            with owned_store(store):
                upkeep.shrink(store)
        except ConfigError as error:
            if "in use by another coordinator" not in str(error):
                raise
            raise ConfigError(
                str(error).replace("another coordinator", "a coordinator"),
                hint="stop it for as long as this takes; or leave the store as it is: "
                "the free space is used for new runs",
            ) from error
        after = upkeep.size_bytes(store)
    result = {"size_bytes_before": before, "size_bytes": after}
    said = f"{format_size(before)} before, {format_size(after)} now"
    put_result(result, as_json=as_json, said=said)


@store_command.command("prune")
@option(
    "--keep-for before_utc AGE",
    "Keep runs that ended within this time, such as 90d, 12w or 36h.",
    parse=_parse_age,
)
@option("--keep-runs N", "Keep the N newest runs.", type=click.IntRange(min=0))
@option(
    "--keep-audit audit_utc AGE",
    "Keep this much of the audit log; otherwise all of it.",
    parse=_parse_age,
)
@flag("--dry-run", "Only show what would go.")
@_store_option
@json_option
def prune_command(
    before_utc: str | None,
    keep_runs: int | None,
    audit_utc: str | None,
    dry_run: bool,
    url: str,
    as_json: bool,
) -> None:
    """Remove old runs, with all that was measured in them.

    With both --keep-for and --keep-runs a run goes that neither of them keeps. Runs
    that have not ended stay, and those that another one waits for. The record of a
    schedule's times goes with them, except its latest 1,000.
    """
    if before_utc is None and keep_runs is None and audit_utc is None:
        raise ConfigError(
            "nothing says which runs to keep",
            hint="give --keep-for 90d or --keep-runs 100",
        )
    runs: list[RunRecord] = []
    times = entries = 0
    with _existing(url, read_only=dry_run) as store:
        before = upkeep.size_bytes(store)
        if before_utc is not None or keep_runs is not None:
            runs = upkeep.prunable(
                store, ended_before_utc=before_utc, keep_runs=keep_runs
            )
            if not dry_run:
                for run in runs:
                    upkeep.remove_run(store, run.run_id)
            prune_times = upkeep.old_times if dry_run else upkeep.remove_times
            times = prune_times(store, before_utc)
        if audit_utc is not None:
            entries = _prune_audit(store, audit_utc, dry_run=dry_run)
        after = upkeep.info(store)
    result = {
        "runs": [{name: getattr(run, name) for name in _RUN_FIELDS} for run in runs],
        "schedule_times": times,
        "audit_entries": entries,
        "removed": not dry_run,
        "size_bytes_before": before,
        "size_bytes": after.size_bytes,
        "free_bytes": after.free_bytes,
    }
    lines = (
        f"{run.run_id}  {run.state:<9}  {run.finished_utc or ''}  {run.job_name}"
        for run in runs
    )
    what = f"{len(runs)} runs"
    if times:
        what += f", {times} times of schedules"
    if entries:
        what += f", {entries} entries of the audit log"
    said = f"{what} removed; {_space_text(before, after)}"
    if dry_run:
        said = f"{what} would be removed; the store has {format_size(before)}"
    put_result(result, lines, as_json=as_json, said=said)


def _prune_audit(store: Store, before_utc: str, *, dry_run: bool) -> int:
    from ldapslam.cli.client import operator_name
    from ldapslam.coordinator.security.access import LOCAL

    if dry_run:
        return upkeep.old_audit(store, before_utc)
    note = AuditRecord(
        at_utc=utc_text(datetime.now(UTC)),
        who=operator_name(),
        role=LOCAL,
        peer="",
        action="prune",
        subject="audit",
        detail=f"entries before {before_utc}",
    )
    return upkeep.remove_audit(store, before_utc, note)


def _existing(url: str, *, read_only: bool = True) -> Store:
    """The store; one that does not exist is an error also for those who would write."""
    store = Store.open(url, read_only=True)
    if read_only:
        return store
    store.close()
    return Store.open(url)


def _space_text(before: int, after: upkeep.StoreInfo) -> str:
    text = f"{format_size(before)} before, {format_size(after.size_bytes)} now"
    if after.free_bytes:
        text += (
            f", of which {format_size(after.free_bytes)} are free for new runs "
            "(`ldapslam store vacuum` gives them back)"
        )
    return text
