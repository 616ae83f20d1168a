# SPDX-License-Identifier: Apache-2.0
"""`results backup` and `results prune`: a results store is copied, and pruned.

Works on the store itself, not through a coordinator: it needs the rights to read or
write its file or database.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from ldapslam.base.errors import ConfigError, LdapSlamError
from ldapslam.base.fault import Fault
from ldapslam.base.files import state_folder
from ldapslam.base.units import format_size
from ldapslam.cli.command import command
from ldapslam.cli.console import put_result
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


@command("backup")
@option("-o --out file FILE", "The copy.", type=FILE, required=True)
@_store_option
def backup_command(file: Path, url: str) -> None:
    """Copy the store to FILE, also while a coordinator is writing to it."""
    with _existing(url) as store:
        before = upkeep.size_bytes(store)
        size = upkeep.back_up(store, file)
    result = {"file": str(file), "size_bytes": size, "store_bytes": before}
    said = f"{format_size(size)}, of a store of {format_size(before)}"
    put_result(result, [str(file)], said=said)


@command("prune")
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
@flag(
    "--dry-run",
    "Only show what would go; without a rule, what is in the store.",
)
@_store_option
def prune_command(
    before_utc: str | None,
    keep_runs: int | None,
    audit_utc: str | None,
    dry_run: bool,
    url: str,
) -> None:
    """Remove old runs from a results store, with all that they measured.

    With both --keep-for and --keep-runs a run goes that neither of them keeps. Runs
    that have not ended stay, and runs that another run waits for. The record of a
    schedule's times goes with them, except its latest 1,000. The space is given back
    to the file system; while a coordinator uses the store, new runs use it instead.
    """
    has_runs_rule = before_utc is not None or keep_runs is not None
    if not (has_runs_rule or audit_utc is not None or dry_run):
        raise ConfigError(
            "nothing says which runs to keep",
            hint="give --keep-for 90d or --keep-runs 100",
        )
    runs: list[RunRecord] = []
    times = entries = 0
    space_kept = ""
    with _existing(url, read_only=dry_run) as store:
        before = upkeep.size_bytes(store)
        if has_runs_rule:
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
        if not dry_run and (runs or times or entries):
            space_kept = _give_space_back(store)
        info = upkeep.info(store)
    store_facts = asdict(info)
    result = {
        "runs": [{name: getattr(run, name) for name in _RUN_FIELDS} for run in runs],
        "schedule_times": times,
        "audit_entries": entries,
        "removed": not dry_run,
        "size_bytes_before": before,
        "store": store_facts,
    }
    lines = [
        f"{run.run_id}  {run.state:<9}  {run.finished_utc or ''}  {run.job_name}"
        for run in runs
    ]
    what = f"{len(runs)} runs"
    if times:
        what += f", {times} times of schedules"
    if entries:
        what += f", {entries} entries of the audit log"
    if dry_run:
        lines += _store_lines(info)
        said = f"{what} would be removed"
    else:
        said = f"{what} removed; {format_size(before)} before, "
        said += f"{format_size(info.size_bytes)} now"
        if info.free_bytes:
            said += f", of which {format_size(info.free_bytes)} are free for new runs"
        if space_kept:
            said += f" ({space_kept})"
    put_result(result, lines, said=said)


def _store_lines(info: upkeep.StoreInfo) -> Iterator[str]:
    """The size of the store, and what is in it."""
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
    return (f"{name:<10} {value}" for name, value in fields.items() if value)


def _give_space_back(store: Store) -> str:
    """Give the space of what was removed to the file system; why not, if it fails."""
    from ldapslam.coordinator.security.ownership import owned_store

    if store.path is None:
        return ""  # PostgreSQL's autovacuum does it
    try:
        with owned_store(store):
            upkeep.shrink(store)
    except LdapSlamError as error:
        return str(error)
    return ""


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
