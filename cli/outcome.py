# SPDX-License-Identifier: Apache-2.0
"""The outcome of a run: its reports, its verdict, and its exit code."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ldapslam.base.errors import ConfigError, ExitCode, RunAborted
from ldapslam.cli.console import put, put_json, say, wants_json

if TYPE_CHECKING:
    from typing import Any

    from ldapslam.cli.client import Client
    from ldapslam.proto import operator_pb2 as pb
    from ldapslam.reports.document import Document
    from ldapslam.reports.model import Summary
    from ldapslam.results.store import Store

EXIT_OF_VERDICT: Mapping[str, ExitCode] = {
    "PASS": ExitCode.PASS,
    "FAIL": ExitCode.FAIL,
    "INVALID": ExitCode.INVALID,
}


def has_started(status: pb.RunStatus) -> bool:
    """False for a run that ended before any load: it has no figures."""
    return bool(status.t0_utc) or status.state not in ("failed", "cancelled")


def raise_if_never_started(status: pb.RunStatus) -> None:
    """Raise the error of a run that ended before any load."""
    if has_started(status):
        return
    if status.HasField("failure"):
        from ldapslam.transport.messages import error_of

        raise error_of(status.failure)
    raise RunAborted(status.state_detail or f"it was {status.state} before its start")


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Make the folder that results go to; one that is there keeps its mode."""
    try:
        folder.mkdir(mode, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"the folder {str(folder)!r} cannot be made: {error.strerror}",
            hint="name another one with --out",
        ) from error


def report(
    store: Store,
    run_id: str,
    *,
    out: Path,
    formats: Sequence[str],
) -> tuple[Summary, list[Path]]:
    """Write the reports of a run into `out`; their paths."""
    from ldapslam.reports.formats.render import render
    from ldapslam.reports.summarise import summarise
    from ldapslam.results.records import FINAL_STATES

    of_folder = out / "results.sqlite"
    if of_folder.exists() and of_folder.resolve() != store.path:
        raise ConfigError(
            f"the folder {str(out)!r} holds the results of another run",
            hint="name another folder with `ldapslam report --out`",
        )
    make_folder(out)
    summary = summarise(store, run_id)
    if (state := summary.run.state) not in FINAL_STATES:
        say(f"run {run_id} has not ended (it is {state}): its report is partial")
    return summary, render(summary, out, formats, store=store)


def judged(store: Store, summary: Summary) -> Summary:
    """The summary, once its verdict is stored with its digest."""
    from ldapslam.reports.digest import digest_document
    from ldapslam.results.digest import stored_digest

    digest = stored_digest(digest_document(store, summary), None)
    store.set_verdict(summary.run.run_id, summary.verdict, digest)
    run = replace(summary.run, verdict=summary.verdict, digest=digest)
    return replace(summary, run=run)


def show_outcome(summary: Summary) -> ExitCode:
    """Print the result of a run on stdout; the verdict's exit code."""
    from ldapslam.reports.result import result_of
    from ldapslam.reports.sections.report_document import document

    if wants_json():
        put_json(result_of(summary))
        say(_answer(document(summary)))  # stdout may have gone to a file
    else:
        put(_digest(summary))
    return EXIT_OF_VERDICT[summary.verdict]


def _digest(summary: Summary) -> str:
    """The answer, the main figures, imports, the result codes of failures."""
    from ldapslam.reports.document import Table
    from ldapslam.reports.formats.text import render_table
    from ldapslam.reports.sections.report_document import PER_SEARCH, document

    whole = document(summary)
    shown = ["imports"]
    if any(one.counts["failed"] for one in summary.operations):
        shown.append("result-codes")
    tables = [
        render_table(block)
        for section in whole.sections
        for block in section.blocks
        if isinstance(block, Table)
        and (section.name == "results" or block.name in shown)
    ]
    searches = [
        f"{one.title}: {cell.text} {label}"
        for one in whole.glance
        for label, cell in one.statistics
        if label == PER_SEARCH
    ]
    found = ["\n".join(searches)] * bool(searches)
    done = [f"{name}: {text}." for name, text in whole.facts if name == "Clean-up"]
    return "\n\n".join([_answer(whole), *tables, *found, *done])


def _answer(document: Document) -> str:
    """The verdict with its reasons, and what has to be known beside it."""
    from ldapslam.reports.formats.text import cautions, headline

    return "\n".join([headline(document), *cautions(document)])


def name_files(out: Path, files: Sequence[Path]) -> None:
    """Say where the reports are."""
    say(f"\nreports are in {out}:")
    for path in files:
        say(f"  {path}")


@contextlib.contextmanager
def fetched_store(client: Client, run_id: str) -> Iterator[Store]:
    """A temporary store with one run of a coordinator."""
    from ldapslam.results.store import Store

    with tempfile.TemporaryDirectory(prefix="ldapslam-report-") as folder:
        with Store.open(Path(folder) / "results.sqlite") as store:
            store.import_run(client.fetch(run_id))
            yield store


def put_report(
    document: Document, result: Mapping[str, Any], files: Sequence[Path]
) -> None:
    """Print the answer and the tables of many runs, or `result` with --json; then the
    paths of the reports."""
    from ldapslam.reports.document import Table
    from ldapslam.reports.formats.text import render_table

    answer = _answer(document)
    if wants_json():
        put_json(result)
        say(answer)
    else:
        tables = [
            render_table(one)
            for section in document.sections
            for one in section.blocks
            if isinstance(one, Table) and not section.in_appendix
        ]
        put("\n\n".join([answer, *tables]))
    name_files(files[0].parent, files)
