# SPDX-License-Identifier: Apache-2.0
"""The process that judges one run: `python -m ldapslam.reports.judge`.

The coordinator starts it (coordinator/runs/judge.py) and never loads what judges: the
statistics of a long run take seconds of CPU and hundreds of megabytes.
"""

from __future__ import annotations

import math
import os
import resource
from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ldapslam.base.child import answer, command_of
from ldapslam.results.store import Store

if TYPE_CHECKING:
    from ldapslam.results.records import RunRecord

#: For coordinator/runs/judge.py.
COMMAND = command_of(__name__)

#: At 19 it might never end on a busy host.
_NICENESS = 10


def judge(question: Mapping[str, str | int | float | bool]) -> dict[str, object]:
    """`verdict` of a run as it is, `reasons`, key `figures`, and the `document` that
    binds them to what was measured; no verdict of a run that never began. With
    `looks_only` what is `altered` since it was judged. With
    `first_index` see `collected`."""
    from ldapslam.reports.digest import altered_of, digest_document
    from ldapslam.reports.figures import key_figures
    from ldapslam.reports.summarise import summarise

    os.nice(_NICENESS)
    limit_s = math.ceil(float(question["limit_s"]))
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
    run_id = str(question["run_id"])
    with Store.open(str(question["store"]), read_only=True) as store:
        run = store.run(run_id)
        if "first_index" in question:
            indexes = int(question["first_index"]), int(question["last_index"])
            return collected(store, run, *indexes)
        if not run.t0_utc and run.state in ("failed", "cancelled"):
            # it ended before any load
            return {"verdict": None}
        if question.get("looks_only"):
            return {"verdict": run.verdict, "altered": altered_of(store, run)}
        # what it was judged to be before, it may have grown beyond
        summary = summarise(store, run_id, ignores_verdict=True)
        document = digest_document(store, summary, run.digest)
    return {
        "verdict": summary.verdict,
        "reasons": list(summary.reasons),
        "figures": key_figures(summary.figures),
        "document": document,
    }


def collected(
    store: Store, run: RunRecord, first_index: int, last_index: int
) -> dict[str, object]:
    """The first `part` of a run within these intervals that is not kept, with its
    `content`; and `next`, the last interval of the following part."""
    from ldapslam.reports.collect.collect import parts_of_run
    from ldapslam.reports.collect.kept import encoded
    from ldapslam.results.collected import CollectedPart, kept
    from ldapslam.results.digest import reports_part

    parts = parts_of_run(store, run, store.agents(run.run_id))
    known, plan = kept(store, run.run_id), parts[0].plan
    *spans, last = plan.parts(len(run.agents))
    # what ends by its counts has the points of its charts only then
    spans *= not plan.all_counted(run.plan.by_stream)
    due = [
        one
        for one in parts
        if one.span in spans
        and first_index <= one.span.start
        and one.span.stop - 1 <= last_index
        and not one.is_made_as(known.get(one.span.start))
    ]
    following = [one.span.stop - 1 for one in due[1:]]
    # the last part ends with the run
    following += [one.stop - 1 for one in (*spans, last) if one.stop - 1 > last_index]
    found: dict[str, object] = {"next": following[0]}
    if due:
        span = due[0].span.start, due[0].span.stop - 1
        reports = reports_part(store, run.run_id, *span)
        content = encoded(due[0].collect(store))
        part = CollectedPart(*span, reports.rows, reports.sha256, due[0].made_of)
        found |= {"part": part._asdict(), "content": b64encode(content).decode()}
    return found


if __name__ == "__main__":
    answer(judge)
