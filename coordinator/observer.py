# SPDX-License-Identifier: Apache-2.0
"""The interface of those who are told of a coordinator's runs.

Calls come on the event loop and must not block it; an error is logged and changes
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ldapslam.proto import operator_pb2 as pb
from ldapslam.results.records import RunRecord
from ldapslam.results.window import Window

#: Name of a figure, as in thresholds -> value; None: the run does not have it.
KeyFigures = Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class JudgedRun:
    record: RunRecord
    #: Why the verdict is not PASS.
    reasons: Sequence[str] = ()
    #: When it ended, in CLOCK_MONOTONIC, as times of day are set back and forth; None:
    #: before this coordinator began.
    ended_s: float | None = None
    #: Empty without a verdict.
    figures: KeyFigures = field(default_factory=dict)


class Observer:
    """Overrides what it wants to know."""

    def run_changed(self, status: pb.RunStatus) -> None:
        """A run has another state, agents or T0."""

    def interval_measured(
        self, run_id: str, figures: pb.IntervalFigures, window: Window
    ) -> None:
        """Every agent has reported this interval; `window` has their reports."""

    def run_judged(self, judged: JudgedRun) -> None:
        """The run's end and verdict are stored."""
