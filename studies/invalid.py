# SPDX-License-Identifier: Apache-2.0
"""What makes points of a study INVALID one after the other. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: Points in a row until it is told.
_MANY = 3
#: Rule -> fields of `validity` that decide it; of the others none does.
FIELDS: Mapping[str, tuple[str, ...]] = {
    "intervals_complete": ("missing_intervals",),
    "plan_followed": ("plan_deviation",),
    "send_lag": ("send_lag_p99", "send_lag_share"),
    "generator_disturbed": (
        "disturbed_intervals",
        "stall",
        "busy_share",
        "run_queue_share",
    ),
    "loop_share": ("loop_share",),
    "clock_offset": ("clock_offset", "clock_deviation"),
    "books": (
        "books_missing_operations",
        "books_other_operations",
        "books_other_share",
    ),
    "steady": ("steady",),
}


@dataclass
class Row:
    """INVALID points in a row, for the same reason."""

    decides: str = ""
    points: int = 0

    def add(self, verdict: str, result: Mapping[str, Any]) -> str:
        """One more point, by its last run; the warning, once it is due."""
        decides = _decides(result) if verdict == "INVALID" else ""
        self.points = self.points + 1 if decides and decides == self.decides else 1
        self.decides = decides
        if not decides or self.points != _MANY:
            return ""
        return (
            f"{_MANY} points in a row are INVALID for the same reason: {decides} "
            "decides. The next points will hardly differ: Ctrl-C stops the study"
        )


def _decides(result: Mapping[str, Any]) -> str:
    """What the verdict hangs on, as the user knows it."""
    failed: Sequence[Mapping[str, Any]] = [
        one for one in result.get("rules", ()) if not one["passed"]
    ]
    for cause in ("evidence", "generator"):
        for name in (one["name"] for one in failed if one["cause"] == cause):
            fields = [f"validity.{one}" for one in FIELDS.get(name, ())]
            return " or ".join(fields) or f"the rule {name}"
    open_ones = [
        one["expression"]
        for one in result.get("thresholds", ())
        if one["outcome"] == "uncertain"
    ]
    if open_ones:
        return f"the threshold {open_ones[0]}, for which the run tells too little,"
    return next(iter(result.get("reasons", ())), "")
