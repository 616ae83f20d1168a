# SPDX-License-Identifier: Apache-2.0
"""Plans of runs, and what tests change in them, by the keys of their documents."""

from __future__ import annotations

from typing import Any

from ldapslam.jobs.run_plan import RunPlan, plan_document, plan_of


def changed_plan(plan: RunPlan, **changes: Any) -> RunPlan:
    return plan_of({**plan_document(plan), **changes})


def changed_streams(plan: RunPlan, **changes: dict[str, Any]) -> RunPlan:
    """Stream -> what is other of it."""
    streams = [
        {**stream, **changes.get(stream["name"], {})}
        for stream in plan_document(plan)["streams"]
    ]
    return changed_plan(plan, streams=streams)
