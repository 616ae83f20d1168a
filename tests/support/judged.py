# SPDX-License-Identifier: Apache-2.0
"""Runs and results as they are once judged: with the digest of what they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ldapslam.reports.digest import RESULT, digest_document, result_part
from ldapslam.reports.model import Summary
from ldapslam.reports.summarise import summarise
from ldapslam.results.digest import stored_digest
from ldapslam.results.store import Store
from support.store import Scenario, fill


def judge(
    store: Store, run_id: str, signature: Mapping[str, Any] | None = None
) -> Summary:
    """Store the verdict of a run with its digest, as a coordinator does."""
    summary = summarise(store, run_id)
    digest = stored_digest(digest_document(store, summary), signature)
    store.set_verdict(run_id, summary.verdict, digest)
    return summarise(store, run_id)


def judged(scenario: Scenario) -> Summary:
    """The run that `fill` makes."""
    with Store.open("sqlite://") as store:
        return judge(store, fill(store, scenario))


def with_digest(result: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a result.json that was made up, with its digest."""
    whole = {"events": [], "manifest": {"job": "made-up"}, **result}
    document: Any = {
        "run_id": whole["run_id"],
        "verdict": whole["verdict"],
        "judged_utc": "2026-03-01T13:00:00+00:00",
        "ldapslam": "0.1.0",
        "parts": {RESULT: {**result_part(whole)._asdict(), "columns": []}},
    }
    return {**whole, "digest": {**stored_digest(document, None), "written_by": "0.1.0"}}
