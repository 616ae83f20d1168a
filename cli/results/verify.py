# SPDX-License-Identifier: Apache-2.0
"""`verify`: is a run, or its result.json, what its verdict was given for?

Of the folder of a study, a search for capacity or a gate: are all of its runs?
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ldapslam import __version__
from ldapslam.base.errors import (
    AccessRefused,
    ExitCode,
    LdapSlamError,
    NotAsJudged,
    RunNotFound,
)
from ldapslam.cli.command import command
from ldapslam.cli.console import error_document, exit_code_of, put_result
from ldapslam.cli.options import FILE, STORE_NAME, option
from ldapslam.cli.runs import Place, run_argument, runs_options, store_of
from ldapslam.cli.security import current_security

if TYPE_CHECKING:
    from cryptography import x509

    from ldapslam.results.records import DigestDocument, RunRecord
    from ldapslam.results.store import Store

_RESULT_FILE = "result.json"


@command("verify")
@run_argument
@option(
    "--ca FILE",
    "Certificate of the fleet's authority (PEM): the run must be signed by one of its "
    "coordinators. Without it, that of your own certificate, if there is one.",
    type=FILE,
)
@runs_options
def verify_command(run_id: str, ca: Path | None, place: Place) -> ExitCode:
    """Verify that the results of RUN are unaltered, and who signed them.

    RUN is as for `ldapslam report`; or a result.json, or a folder with one, which needs
    neither store nor coordinator, and of which only that file is checked; or the folder
    of a study, a search for capacity or a gate: all of its runs are checked, each has a
    line, and the exit code is that of the worst.
    """
    authorities = _authorities(ca)
    many = _runs_of(Path(run_id))
    if many is not None:
        return _verify_all(many, authorities)
    found = _verified(run_id, place, authorities)
    put_result(
        found,
        [
            f"run {found['run_id']} is what was judged",
            f"  verdict  {found['verdict']}, {found['judged_utc'][:19]} UTC",
            f"  digest   SHA-256 {found['sha256']}",
            f"  checked  {', '.join(found['checked'])}",
            f"  signed   {found['signer'] or 'not'}",
            *(_first_line(first) for first in [found["first"]] if first),
        ],
    )
    return ExitCode.PASS


def _runs_of(folder: Path) -> list[tuple[str, str | None]] | None:
    """The runs of a study, a search or a gate, each with its store, or in a folder of
    its own; None: it is the folder of none of these."""
    from ldapslam.studies.baseline import read_gate
    from ldapslam.studies.runner import journal_in
    from ldapslam.studies.study_folder import JOURNAL, RUNS

    judged: list[tuple[str, str | None]]
    if (gate := read_gate(folder)) is not None:
        store = str(folder / STORE_NAME)
        judged = [(one.run_id, store) for one in gate.runs if one.run_id]
    elif (folder / JOURNAL).is_file():
        _, ended = journal_in(folder)
        judged = [
            (str(folder / RUNS / one.folder), None) for one in ended if one.verdict
        ]
    else:
        return None
    if not judged:
        raise RunNotFound(str(folder), hint="it has no judged runs")
    return judged


def _verify_all(
    runs: Sequence[tuple[str, str | None]],
    authorities: Sequence[x509.Certificate],
) -> ExitCode:
    documents, lines, worst = [], [], 0
    for run, store in runs:
        try:
            found = _verified(run, Place(store=store), authorities)
        except LdapSlamError as error:
            documents.append({"run": run, **error_document(error)})
            text, is_missing = str(error), isinstance(error, RunNotFound)
            code = int(NotAsJudged.exit_code) if is_missing else exit_code_of(error)
            worst = max(worst, code)
        else:
            documents.append(found)
            signed = f"signed {found['signer']}" if found["signer"] else "not signed"
            text = f"what was judged: {found['verdict']}, {signed}"
        lines.append(f"{Path(run).name}: {text}")
    put_result({"runs": documents}, lines)
    return ExitCode(worst)


def _verified(
    run: str,
    place: Place,
    authorities: Sequence[x509.Certificate],
) -> dict[str, Any]:
    """What a run was judged as, and by whom it is signed; NotAsJudged."""
    from ldapslam.reports.digest import read_result

    named = Path(run)
    result_file = named if named.is_file() else named / _RESULT_FILE
    if result_file.is_file() and not (named / STORE_NAME).is_file():
        digest, checked = read_result(result_file)["digest"], [_RESULT_FILE]
    else:
        digest, checked = _of_store(run, place)
    document = digest["document"]
    return {
        **_judgement(digest, authorities),
        "checked": checked,
        "first": _first_judgement(document.get("first"), authorities),
    }


def _judgement(
    digest: Mapping[str, Any], authorities: Sequence[x509.Certificate]
) -> dict[str, Any]:
    document = digest["document"]
    return {
        "run_id": document["run_id"],
        "verdict": document["verdict"],
        "judged_utc": document["judged_utc"],
        "sha256": digest["sha256"],
        "signer": _signer(digest, authorities),
    }


def _first_judgement(
    digest: Mapping[str, Any] | None, authorities: Sequence[x509.Certificate]
) -> dict[str, Any] | None:
    """What the run was judged to be before more of it came."""
    from ldapslam.reports.digest import checked_document

    if digest is None:
        return None
    checked_document(digest)
    return _judgement(digest, authorities if digest.get("signature") else ())


def _first_line(first: Mapping[str, Any]) -> str:
    return (
        f"  before   {first['verdict']}, {first['judged_utc'][:19]} UTC, SHA-256 "
        f"{first['sha256']}, signed {first['signer'] or 'not'}; reports of an agent "
        "came after that, see its events"
    )


def _of_store(run: str, place: Place) -> tuple[Mapping[str, Any], list[str]]:
    """The digest, and what was looked at; NotAsJudged."""
    from ldapslam.reports.digest import (
        CHANGED,
        RESULT,
        altered_of,
        parts_in,
        read_result,
    )

    with store_of(run, place) as (results, full_id, folder):
        record = results.run(full_id)
        if record.digest is None:
            raise NotAsJudged(
                f"run {full_id} has no digest",
                hint="a run gets one when it is judged; one that an earlier version "
                "judged has none and cannot be checked: run its job again",
            )
        problems = list(altered_of(results, record))
        if not problems and record.digest["document"]["ldapslam"] == __version__:
            problems = _other_figures(results, record, record.digest["document"])
    checked: list[str] = []
    if not problems and folder is not None and (folder / _RESULT_FILE).is_file():
        digest = read_result(folder / _RESULT_FILE)["digest"]
        if digest["sha256"] != record.digest["sha256"]:
            problems.append("result.json has the digest of another judgement")
        checked.append(_RESULT_FILE)
    if problems:
        raise NotAsJudged(
            f"run {full_id} is not what was judged: {'; '.join(problems)}", hint=CHANGED
        )
    parts = parts_in(record.digest["document"]).keys() - {RESULT}
    return record.digest, sorted(parts) + checked


def _other_figures(
    results: Store, record: RunRecord, document: DigestDocument
) -> list[str]:
    """Of a run that this version judged: the store must give the same figures as well,
    since its indexes are no part of a digest."""
    from ldapslam.reports.digest import RESULT, parts_in, result_part
    from ldapslam.reports.result import result_of
    from ldapslam.reports.summarise import summarise

    then = parts_in(document).get(RESULT)
    result = result_of(summarise(results, record.run_id, from_reports=True))
    now = result_part(result, then and then.rows)
    is_same = then is not None and now.sha256 == then.sha256
    return [] if is_same else ["the store gives other figures: it may be damaged"]


def _authorities(ca: Path | None) -> Sequence[x509.Certificate]:
    from ldapslam.transport.pki.certificate import read_certificates

    if ca is not None:
        return read_certificates(ca)
    files = current_security().files
    return () if files is None else files.authorities()


def _signer(
    digest: Mapping[str, Any],
    authorities: Sequence[x509.Certificate],
) -> str:
    """Who signed it, in words; empty: nobody. With authorities it must be signed."""
    from ldapslam.results.digest import canonical
    from ldapslam.transport.pki.signature import check

    document, signature = digest["document"], digest.get("signature")
    if signature is None:
        if authorities:
            raise NotAsJudged(
                f"run {document['run_id']} is not signed",
                hint="a coordinator signs with its certificate, runs that have just "
                "ended; `ldapslam run` has none",
            )
        return ""
    judged_utc = datetime.fromisoformat(document["judged_utc"])
    try:
        identity = check(canonical(document), signature, judged_utc, authorities)
    except AccessRefused as error:
        raise NotAsJudged(str(error), hint=error.hint) from error
    if authorities:
        return f"by coordinator {identity.name}"
    return (
        f"by one who calls itself coordinator {identity.name}: give --ca to know that "
        "the fleet's authority agrees"
    )
