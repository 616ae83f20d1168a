# SPDX-License-Identifier: Apache-2.0
"""The rate of a profile at one time."""

from __future__ import annotations

from collections.abc import Sequence

from ldapslam.jobs.rates.profile import Segment


def rate_at(profile: Sequence[Segment], time_ns: float) -> float:
    """The rate at a time since T0, in arrivals per ns; 0 after the last segment."""
    start_ns = 0
    for segment in profile:
        if time_ns < start_ns + segment.duration_ns:
            return segment.rate_at(time_ns - start_ns)
        start_ns += segment.duration_ns
    return 0.0
