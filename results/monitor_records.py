# SPDX-License-Identifier: Apache-2.0
"""What monitors of servers and hosts read, as the store takes and gives it.

Times are `_ns` since T0, below zero before the load. A value is a double; NaN is one
that was missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Metric(NamedTuple):
    """A figure of a monitor."""

    name: str
    #: '1', 'bytes', 's', …; of a counter, what it counts.
    unit: str
    #: A counter only rises while what it belongs to keeps running.
    kind: Literal["gauge", "counter"]


#: Name of the metric, in seconds since 1970, that says since when a server or process
#: has been running: a change of it is a restart.
STARTED = "started"


@dataclass(frozen=True, slots=True)
class MonitorDescription:
    """A monitor of one agent, as it was when it began."""

    #: Unique in the run.
    name: str
    metrics: Sequence[Metric]
    #: What it is about: vendor, version, …
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MonitorSample:
    """One reading; (monitor, at_ns) is its key."""

    monitor: str
    at_ns: int
    #: From the first request to the last value.
    took_ns: int
    #: In the order of the metrics; empty when nothing could be read.
    values: Sequence[float] = ()
    #: Why, then; None otherwise.
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class MonitorSeries:
    """All readings of a monitor, in the order of time."""

    agent: str
    description: MonitorDescription
    at_ns: npt.NDArray[np.int64]
    took_ns: npt.NDArray[np.int64]
    #: One row for each reading, one column for each metric.
    values: npt.NDArray[np.float64]
    #: Reading -> why there is none.
    failures: Mapping[int, str]
