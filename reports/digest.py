# SPDX-License-Identifier: Apache-2.0
"""What a verdict is bound to: the digest of a run, made when it is judged.

The document names the run, its verdict, and a SHA-256 for each part of the run in its
store (results/digest.py) and for `result`: result.json without its `digest`. The digest
is the SHA-256 of the document in canonical JSON; that is also what a coordinator signs.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ldapslam.base.errors import NotAsJudged
from ldapslam.reports.model import Summary
from ldapslam.reports.result import result_of
from ldapslam.results.digest import Part, altered, parts_of, sha256_of
from ldapslam.results.records import RunRecord, utc_text
from ldapslam.results.store import Store
from ldapslam.transport.messages import build_version

SCHEMA = "ldapslam.digest/1"
RESULT = "result"
_OTHER_DOCUMENT = "the digest is not that of its document"


def digest_document(store: Store, summary: Summary) -> dict[str, Any]:
    """Of a run that has just been judged."""
    run_id = summary.run.run_id
    parts = {**parts_of(store, run_id), RESULT: result_part(result_of(summary))}
    return {
        "schema": SCHEMA,
        "run_id": run_id,
        "verdict": summary.verdict,
        "reasons": list(summary.reasons),
        "judged_utc": utc_text(datetime.now(UTC)),
        "ldapslam": build_version(),
        "parts": {name: part._asdict() for name, part in parts.items()},
    }


def result_part(result: Mapping[str, Any], events: int | None = None) -> Part:
    """Of the content of result.json, with its first events: the verdict is followed by
    others, of who was told of it. Its rows are those events."""
    rest = {name: value for name, value in result.items() if name != "digest"}
    rest["events"] = rest["events"][:events]
    return Part(len(rest["events"]), sha256_of(rest))


def parts_in(document: Mapping[str, Any]) -> dict[str, Part]:
    """NotAsJudged when it is no such document."""
    try:
        return {
            str(name): Part(int(part["rows"]), str(part["sha256"]))
            for name, part in document["parts"].items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NotAsJudged(f"it is no document of a digest: {error!r}") from error


def altered_of(store: Store, run: RunRecord) -> tuple[str, ...]:
    """What of a stored run is not what was judged; empty without a digest."""
    if run.digest is None:
        return ()
    document = run.digest["document"]
    if sha256_of(document) != run.digest["sha256"]:
        return (_OTHER_DOCUMENT,)
    then = parts_in(document)
    then.pop(RESULT, None)
    found = altered(parts_of(store, run.run_id, then), then)
    if (document["run_id"], document["verdict"]) != (run.run_id, run.verdict):
        found.append(f"judged was {document['run_id']}, {document['verdict']}")
    return tuple(found)


def altered_result(result: Mapping[str, Any]) -> tuple[str, ...]:
    """The same, of the content of result.json with its `digest`."""
    digest = result["digest"]
    document = digest["document"]
    if sha256_of(document) != digest["sha256"]:
        return (_OTHER_DOCUMENT,)
    then = parts_in(document)[RESULT]
    if result_part(result, then.rows) == then:
        return ()
    by = f"another version than {document['ldapslam']}"
    return (f"result.json has other content, or {by} wrote it",)
