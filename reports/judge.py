# SPDX-License-Identifier: Apache-2.0
"""The process that judges one run: `python -m ldapslam.reports.judge`.

The coordinator starts it (coordinator/judge.py) and never loads what judges: the
statistics of a long run take seconds of CPU and hundreds of megabytes.
"""

from __future__ import annotations

import os
import resource
from typing import Any

from ldapslam.base.child import answer, command_of
from ldapslam.results.records import RunRecord
from ldapslam.results.store import Store

#: For coordinator/judge.py.
COMMAND = command_of(__name__)

#: At 19 it might never end on a busy host.
_NICENESS = 10


def judge(question: dict[str, Any]) -> dict[str, Any]:
    """`verdict` and `reasons` of a run; no verdict of a run that never began."""
    from ldapslam.reports.summarise import summarise

    os.nice(_NICENESS)
    limit_s = int(question["limit_s"])
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
    run_id = question["run_id"]
    with Store.open(question["store"], read_only=True) as store:
        if not _has_begun(store.run(run_id)):
            return {"verdict": None}
        summary = summarise(store, run_id)
    return {"verdict": summary.verdict, "reasons": list(summary.reasons)}


def _has_begun(record: RunRecord) -> bool:
    """False of a run that ended before any load: it has no statistics to judge."""
    return bool(record.t0_utc) or record.state not in ("failed", "cancelled")


if __name__ == "__main__":
    answer(judge)
