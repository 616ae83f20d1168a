# SPDX-License-Identifier: Apache-2.0
"""The limits beyond which a run's numbers cannot be certified, and their defaults.

Pure data: reports/rules/verdict.py applies them. A run that breaks one is INVALID.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ldapslam.jobs.fields.sections import (
    Duration,
    Flag,
    Kind,
    PositiveDuration,
    Section,
    Share,
)


class Validity(Section):
    """Limits on the generator's own failings. A run beyond one of them is INVALID:
    its figures may describe the generator rather than the directory."""

    disconnected: Share = 0.01
    """largest part of the measure phase that connections of a closed stream may be
    down, on average: its clients send nothing then"""
    sent_share: Share = 0.98
    """least share of the scheduled arrivals of an open stream that must have been sent
    in the measure phase"""
    allow_dropped: Flag = False
    """whether arrivals may be dropped (backlog limit reached) without making the run
    INVALID"""
    send_lag_p99_ns: Duration = 1_000_000
    """send lag p99 of an open stream that is always tolerated; above it,
    `send_lag_share` decides"""
    send_lag_share: Share = 0.10
    """largest send lag p99 as a share of the response time p99"""
    stall_ns: PositiveDuration = 200_000_000
    """longest that the generator may delay one request of the measure phase (send lag
    or receive lag)"""
    busy_share: Share = 0.95
    """share of an interval that a worker may be busy before the interval counts as
    saturated"""
    run_queue_share: Share = 0.25
    """share of an interval that a worker may wait for a CPU before the interval counts
    as saturated"""
    saturated_intervals: Share = 0.10
    """largest share of measured intervals that may be saturated"""
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
    to it: other clients'; without it, any number"""
