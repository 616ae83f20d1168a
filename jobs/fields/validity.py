# SPDX-License-Identifier: Apache-2.0
"""Limits beyond which the numbers of a run cannot be certified. Pure data:
reports/rules applies them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ldapslam.jobs.fields.sections import (
    Duration,
    Kind,
    PositiveDuration,
    Section,
    Share,
)


class Validity(Section):
    """Limits on the failings of the generator and of the evidence. A run beyond one of
    them is INVALID: its numbers may not describe the directory."""

    missing_intervals: Share = 0.01
    """largest part of the measured intervals of all agents that may be missing"""
    plan_deviation: Share = 0.02
    """how far the arrivals of an open stream may be from its planned rate, beside what
    chance explains"""
    send_lag_p99_ns: Duration = 1_000_000
    """send lag p99 of a stream that is always tolerated; above it, `send_lag_share`
    decides"""
    send_lag_share: Share = 0.10
    """largest send lag p99 as a share of the response time p99"""
    loop_share: Share = 0.5
    """largest part of the time of a closed stream's clients that may be lags of the
    generator"""
    stall_ns: PositiveDuration = 200_000_000
    """longest delay of a request by the generator (send lag or receive lag); above it,
    the interval counts as disturbed"""
    busy_share: Share = 0.95
    """share of an interval that a worker may be busy; above it, the interval counts as
    disturbed"""
    run_queue_share: Share = 0.25
    """share of an interval that a worker may wait for a CPU, or that may be stolen from
    the CPUs of its host or lost by throttling; above it, the interval counts as
    disturbed"""
    disturbed_intervals: Share = 0.10
    """largest share of an agent's measured intervals that may be disturbed"""
    clock_offset_ns: PositiveDuration = 5_000_000
    """largest uncertainty of an agent's clock offset; a hundredth of the interval
    counts instead where that is less"""
    clock_deviation: Share = 0.10
    """how far an agent's clock may go from the coordinator's during the run, as a share
    of the interval"""
    books_missing_operations: Annotated[int, Field(ge=0), Kind("count")] = 0
    """requests of one kind that a watched server may have counted less than were sent
    to it, beside those without an answer"""
    books_other_operations: Annotated[int, Field(ge=0), Kind("count")] | None = None
    """requests of one kind that a watched server may have counted more than were sent
    to it: other clients'; without it, `books_other_share` decides"""
    books_other_share: Share = 0.05
    """requests of others that a watched server may have counted, as a share of those
    sent to it"""
    steady: Literal["noted", "required"] = "noted"
    """whether operations under constant load must have been in a steady state: noted:
    the report says where they were not; required: the run is INVALID then, or where it
    has too few intervals to tell"""
