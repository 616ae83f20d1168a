# SPDX-License-Identifier: Apache-2.0
"""`data load`: the entries of an LDIF file into a directory, over LDAP or offline."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from ldapslam.base.errors import ExitCode
from ldapslam.cli.command import command
from ldapslam.cli.console import put_result, say
from ldapslam.cli.data.load_progress import EntryProgress, told_if_interrupted
from ldapslam.cli.data.source import check_uri, directory_access
from ldapslam.cli.measure.quick_options import (
    connection_options,
    in_words_of_options,
)
from ldapslam.cli.options import FILE, flag, option
from ldapslam.dataset.ldif import entry_count, ldif_entries
from ldapslam.dataset.load import (
    DEFAULT_CONNECTIONS,
    DEFAULT_WINDOW,
    POPULATION,
    LoadResult,
    LoadSettings,
    load,
)
from ldapslam.dataset.offline import OfflineResult, import_task, ldif2db, slapadd
from ldapslam.directory.entry_digest import Fingerprint, fingerprint

#: Way of --offline -> whether it needs --server-config (else a URI).
_OFFLINE = {"slapadd": True, "ldif2db": True, "import-task": False}
_GO_ON = "call the same command again: it skips entries that are already there"
_PARTLY = "the database may have a part of the entries"
_BY_ITSELF = "the server goes on with an import that it has begun"


@command("load")
@click.argument("ldif", metavar="FILE", type=FILE)
@click.argument("uri", metavar="[URI]", required=False)
@connection_options
@option(
    "--connections N",
    "Connections that share the adds.",
    type=click.IntRange(1, 256),
    default=DEFAULT_CONNECTIONS,
)
@option(
    "--window N",
    "Most unanswered adds on each connection.",
    type=click.IntRange(1, 4096),
    default=DEFAULT_WINDOW,
)
@flag(
    "--continue-on-error",
    "Go on after an entry was refused; those go to the file of --rejects.",
)
@option(
    "--rejects FILE",
    "Where refused entries go, as LDIF with the reasons; FILE.rejects when left out.",
    type=FILE,
)
@flag(
    "--strip-operational",
    "Leave out what servers maintain themselves (entryUUID, timestamps), which "
    "files of slapcat and db2ldif have.",
)
@option(
    "--offline",
    "Not by adds: slapadd (OpenLDAP) and ldif2db (389-DS) while the server does"
    " not run, with --server-config; import-task: a 389-DS that runs reads FILE "
    "itself. The two of 389-DS replace all entries of the back end.",
    type=click.Choice(tuple(_OFFLINE)),
)
@option(
    "--server-config config PATH",
    "With --offline: slapd.conf or the folder slapd.d; 389-DS: the instance's "
    "folder with dse.ldif.",
    type=click.Path(path_type=Path, exists=True),
)
@flag(
    "--quick",
    "With --offline slapadd: skip schema checks; an interrupted import leaves the "
    "database unusable.",
)
@flag(
    "--no-fingerprint",
    "With --offline: do not read FILE once more for its fingerprint.",
)
@in_words_of_options()
def load_command(ldif: Path, uri: str | None, **given: Any) -> ExitCode:
    """Add the entries of FILE (LDIF, also gzipped) to a directory.

    Parents first, many at a time. Entries that the directory already has are counted
    and left as they are, so that an interrupted load can be called again. The
    fingerprint is the same for the same entries, whatever their order and the server:
    `data verify` prints it too.

    \b
      ldapslam data load people.ldif ldap://ds1 -D cn=admin,dc=example,dc=com -y pw
      ldapslam data load people.ldif --offline slapadd --quick
          --server-config /etc/ldap/slapd.d
    """
    how = given["offline"]
    _check(how, uri, given)
    if how is None:
        assert uri is not None, "checked above"
        return _load(ldif, uri, given)
    return _import(how, ldif, uri, given)


def _check(how: str | None, uri: str | None, given: dict[str, Any]) -> None:
    needs_config = how is not None and _OFFLINE[how]
    if needs_config:
        if uri is not None:
            raise click.UsageError(f"--offline {how} takes no URI: it asks no server")
        if given["config"] is None:
            raise click.UsageError(f"--offline {how} needs --server-config")
    else:
        check_uri(uri)
        if given["config"] is not None:
            raise click.UsageError(
                "--server-config is for --offline slapadd and ldif2db"
            )
    if given["quick"] and how != "slapadd":
        raise click.UsageError("--quick is for --offline slapadd")
    if given["continue_on_error"] and how in ("ldif2db", "import-task"):
        raise click.UsageError(
            f"--continue-on-error: {how} always goes on after an entry it leaves out"
        )


def _load(ldif: Path, uri: str, given: dict[str, Any]) -> ExitCode:
    names = {field.name for field in dataclasses.fields(LoadSettings)} & given.keys()
    settings = LoadSettings(**{name: given[name] for name in names})
    rejects = given["rejects"] or ldif.with_name(ldif.name + ".rejects")
    access = directory_access(uri, given)
    with told_if_interrupted(_GO_ON), EntryProgress() as bar:
        result = load(
            ldif,
            uri,
            access,
            rejects,
            settings,
            lambda result, share: bar.show(_counts(result), share),
        )
    _put_load(result, rejects)
    has_failed = result.stopped_by or result.rejected
    return ExitCode.FAIL if has_failed else ExitCode.PASS


def _counts(result: LoadResult) -> str:
    text = f"{result.added:,} entries added in {result.seconds:.1f} s"
    text += f" ({_rate(result.added, result.seconds):,.0f}/s)"
    text += f", {result.present:,} were already there" if result.present else ""
    return text + (f", {result.rejected:,} refused" if result.rejected else "")


def _put_load(result: LoadResult, rejects: Path) -> None:
    total = result.fingerprint
    if result.stopped_by is not None:
        say(result.stopped_by)
        say(
            f"hint: correct it and {_GO_ON}; or --continue-on-error writes refused "
            "entries to a file"
        )
    document = {
        "is_complete": result.stopped_by is None,
        "added": result.added,
        "present": result.present,
        "rejected": result.rejected,
        "rejects": str(rejects) if result.rejected else None,
        "stopped_by": result.stopped_by,
        "seconds": round(result.seconds, 3),
        "added_per_s": round(_rate(result.added, result.seconds), 1),
    }
    if not result.present and not result.rejected:
        document |= _fingerprint_document(total)
    lines = [_counts(result) + (f": {rejects}" if result.rejected else "")]
    if result.present:
        lines.append(
            "what was already there was not compared: `ldapslam data verify` does that"
        )
    elif result.stopped_by is None:
        lines += _fingerprint_lines(total)
    put_result(document, lines)


def _import(how: str, ldif: Path, uri: str | None, given: dict[str, Any]) -> ExitCode:
    if how == "slapadd":
        with told_if_interrupted(_PARTLY):
            result = slapadd(
                ldif,
                given["config"],
                is_quick=given["quick"],
                continue_on_error=given["continue_on_error"],
            )
    elif how == "ldif2db":
        with told_if_interrupted(_PARTLY):
            result = ldif2db(ldif, given["config"])
    else:
        assert uri is not None, "checked above"
        access = directory_access(uri, given)
        with told_if_interrupted(_BY_ITSELF), EntryProgress() as bar:
            result = import_task(ldif, uri, access, bar.show)
    total = None
    if not given["no_fingerprint"] and result.is_whole:
        total = fingerprint(ldif_entries(ldif), POPULATION)
    entries = total.count if total is not None else entry_count(ldif)
    _put_import(result, entries, total)
    return ExitCode.PASS if result.is_whole else ExitCode.FAIL


def _put_import(result: OfflineResult, entries: int, total: Fingerprint | None) -> None:
    if not result.is_whole:
        for line in result.output:
            say(line)
    taken = entries - result.skipped if result.processed is None else result.processed
    document = dataclasses.asdict(result) | {
        "seconds": round(result.seconds, 3),
        "entries_per_s": round(_rate(taken, result.seconds), 1),
        "entries_in_file": entries,
    }
    lines = [f"{result.program} failed after {result.seconds:.1f} s"]
    if result.is_success:
        line = f"{result.program}: {taken:,} entries in {result.seconds:.1f} s"
        line += f" ({_rate(taken, result.seconds):,.0f}/s)"
        line += f", {result.skipped:,} left out" if result.skipped else ""
        lines = [line, *_fingerprint_lines(total)]
    document |= _fingerprint_document(total) if total else {}
    put_result(document, lines)


def _fingerprint_lines(total: Fingerprint | None) -> list[str]:
    return [] if total is None else [f"fingerprint {total} of {total.count:,} entries"]


def _fingerprint_document(total: Fingerprint) -> dict[str, Any]:
    return {"fingerprint": {"sha256": str(total), "entries": total.count}}


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0
