# SPDX-License-Identifier: Apache-2.0
"""The process that judges one run: `python -m ldapslam.reports.judge`.

The coordinator starts it (coordinator/runs/judge.py) and never loads what judges: the
statistics of a long run take seconds of CPU and hundreds of megabytes.
"""

from __future__ import annotations

import os
import resource

from ldapslam.base.child import answer, command_of
from ldapslam.results.store import Store

#: For coordinator/runs/judge.py.
COMMAND = command_of(__name__)

#: At 19 it might never end on a busy host.
_NICENESS = 10


def judge(question: dict[str, str]) -> dict[str, object]:
    """`verdict` of a run as it is, `reasons`, key `figures`, and the `document` that
    binds them to what was measured; no verdict of a run that never began. With
    `looks_only` what is `altered` since it was judged."""
    from ldapslam.reports.digest import altered_of, digest_document
    from ldapslam.reports.figures import key_figures
    from ldapslam.reports.summarise import summarise

    os.nice(_NICENESS)
    limit_s = int(question["limit_s"])
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
    run_id = question["run_id"]
    with Store.open(question["store"], read_only=True) as store:
        run = store.run(run_id)
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


if __name__ == "__main__":
    answer(judge)
