# SPDX-License-Identifier: Apache-2.0
"""What a verdict is bound to: the digest of a run, made when it is judged.

The document names the run, its verdict, and a SHA-256 for each part of the run in its
store (results/digest.py) and for `result`: result.json without its `digest`. The digest
is the SHA-256 of the document in canonical JSON; that is also what a coordinator signs.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from ldapslam import __version__
from ldapslam.base.errors import ConfigError, NotAsJudged
from ldapslam.base.inert import one_line_texts, parse_json
from ldapslam.base.names import checked_name
from ldapslam.reports.model import Summary
from ldapslam.reports.pool import in_order
from ldapslam.reports.result import result_of
from ldapslam.results.collected import kept
from ldapslam.results.digest import (
    Part,
    altered,
    later_events,
    parts_of,
    reports_part,
    sha256_of,
)
from ldapslam.results.records import Digest, DigestDocument, RunRecord, utc_text
from ldapslam.results.store import Store

SCHEMA = "ldapslam.digest/1"
RESULT = "result"
#: Parts of result.json in which texts may have several lines.
_SEVERAL_LINES = ("digest", "job_text", "overrides")
CHANGED = (
    "trust none of its figures. `ldapslam report RUN` writes a changed result.json "
    "again; where more of the run came, its coordinator judges it again within "
    "seconds, or at its next start; everything else was changed by somebody"
)
#: Kinds of events that follow a verdict.
_LATER = {"on_run_end", "on_run_end_failed"}


_Name = Annotated[str, AfterValidator(checked_name)]


def _of_a_zone(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("no time zone")
    return text


class _PartShape(BaseModel):
    rows: Annotated[int, Field(ge=0, strict=True)]
    sha256: str
    columns: list[str]


class _Document(BaseModel):
    """The shape of a document, wherever it comes from."""

    model_config = ConfigDict(extra="allow")

    run_id: _Name
    verdict: Literal["PASS", "FAIL", "INVALID"]
    judged_utc: Annotated[str, AfterValidator(_of_a_zone)]
    ldapslam: Annotated[str, Field(max_length=200)]
    parts: dict[str, _PartShape]


class _Signature(BaseModel):
    model_config = ConfigDict(extra="allow")

    signer: _Name
    certificate: str
    signature: str


class _Digest(BaseModel):
    document: _Document
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    signature: _Signature | None


def checked_document(digest: object) -> DigestDocument:
    """The document of a stored digest, or of one in result.json; NotAsJudged."""
    try:
        _Digest.model_validate(digest)
    except ValidationError as error:
        where = ".".join(map(str, error.errors(include_url=False)[0]["loc"]))
        raise NotAsJudged(f"the digest is none: {where or 'it'} is wrong") from error
    checked = cast(Digest, digest)
    if sha256_of(checked["document"]) != checked["sha256"]:
        raise NotAsJudged("the digest is not that of its document")
    return checked["document"]


def digest_document(
    store: Store, summary: Summary, before: Digest | None = None
) -> DigestDocument:
    """The document of a run that has just been judged. A run that was judged before
    (`before`: its digest then) keeps the first of its digests in it."""
    run_id = summary.run.run_id
    parts = {**parts_of(store, run_id), RESULT: result_part(result_of(summary))}
    document: DigestDocument = {
        "schema": SCHEMA,
        "run_id": run_id,
        "verdict": summary.verdict,
        "reasons": list(summary.reasons),
        "judged_utc": utc_text(datetime.now(UTC)),
        "ldapslam": __version__,
        "parts": {
            name: {
                "rows": part.rows,
                "sha256": part.sha256,
                "columns": list(part.columns),
            }
            for name, part in parts.items()
        },
    }
    if before:
        with contextlib.suppress(NotAsJudged):  # somebody wrote another
            document["first"] = checked_document(before).get("first", before)
    return document


def result_part(result: Mapping[str, Any], events: int | None = None) -> Part:
    """Return the part of result.json, with the events up to the verdict as its rows:
    events of notifications follow it."""
    rest = {name: value for name, value in result.items() if name != "digest"}
    rest["events"] = rest["events"][:events]
    return Part(len(rest["events"]), sha256_of(rest))


def parts_in(document: DigestDocument) -> dict[str, Part]:
    return {
        name: Part(part["rows"], part["sha256"], tuple(part["columns"]))
        for name, part in document["parts"].items()
    }


def altered_of(store: Store, run: RunRecord) -> tuple[str, ...]:
    """What of a stored run is not what was judged; empty of one without a verdict."""
    if run.digest is None:
        return ("its verdict has no digest",) if run.verdict else ()
    try:
        document = checked_document(run.digest)
    except NotAsJudged as error:
        return (str(error),)
    then = parts_in(document)
    then.pop(RESULT, None)
    found = altered(parts_of(store, run.run_id, then), then)
    if (document["run_id"], document["verdict"]) != (run.run_id, run.verdict):
        found.append(
            f"the verdict was {document['verdict']} of run {document['run_id']}, the "
            f"store has {run.verdict} of run {run.run_id}"
        )
    found += _altered_reports(store, run.run_id)
    if "run_event" in then:
        later = later_events(store, run.run_id, then["run_event"]) - _LATER
        found += [f"an event {kind} is new" for kind in sorted(later)]
    if found and run.unjudged:
        found.insert(0, "more of it came since, and it is not judged again yet")
    return tuple(found)


def _altered_reports(store: Store, run_id: str) -> list[str]:
    """The collected parts that are not of the reports that are stored."""
    parts = list(kept(store, run_id).values())
    calls = [
        partial(reports_part, run_id=run_id, first=one.first_index, last=one.last_index)
        for one in parts
    ]
    return [
        f"the reports of intervals {one.first_index} to {one.last_index} have other "
        "content"
        for one, now in zip(parts, in_order(store, calls), strict=True)
        if (now.rows, now.sha256) != (one.reports, one.reports_sha256)
    ]


def altered_result(result: Mapping[str, Any]) -> tuple[str, ...]:
    """The same, of the content of result.json with its `digest`; NotAsJudged when that
    is none."""
    document = checked_document(result["digest"])
    found = [
        f"{name} is not that of the digest"
        for name in ("run_id", "verdict")
        if result[name] != document[name]
    ]
    then = parts_in(document).get(RESULT, Part(0, ""))
    if result_part(result, then.rows)[:2] != then[:2]:
        found.append("result.json has other content")
    return tuple(found)


def read_result(path: Path) -> dict[str, Any]:
    """Return the content of a result.json that is what was judged; NotAsJudged where
    it is not, ConfigError where the file cannot be read."""
    try:
        if not path.is_file():
            raise FileNotFoundError(2, "it is no file")
        result: dict[str, Any] = parse_json(path.read_text("utf-8"))
        if "digest" not in result:
            raise NotAsJudged(
                "it has no digest: it was written before the run was judged, or "
                "somebody removed it",
                hint="write it again with `ldapslam report` where the run's store is; "
                "without a digest it cannot be checked",
            )
        problems = altered_result(result)
        document = result["digest"]["document"]
        written_by = result["digest"].get("written_by", "")
        if problems and written_by != document["ldapslam"]:
            raise NotAsJudged(
                f"it cannot be compared: version {written_by} wrote it, and "
                f"{document['ldapslam']} judged the run",
                hint="write it again with that version",
            )
        if problems:
            raise NotAsJudged(
                f"run {document['run_id']} is not what was judged: "
                f"{'; '.join(problems)}",
                hint=CHANGED,
            )
        for name in (result["run_id"], result["manifest"]["job"]):
            checked_name(name)
        return dict(one_line_texts(result, _SEVERAL_LINES))
    except NotAsJudged as error:
        raise NotAsJudged(f"{path}: {error}", hint=error.hint) from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NotAsJudged(
            f"{path} is no result of a judged run: {_why(error)}",
            hint="give the folder of a run, or its result.json, as `ldapslam run` and "
            "`ldapslam report` write them",
        ) from error


def _why(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        return "it is not JSON"
    return f"{error}"
