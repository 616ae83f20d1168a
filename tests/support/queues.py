# SPDX-License-Identifier: Apache-2.0
"""Response times of simple queues, whose true percentiles are known."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ldapslam.results.histogram import Histogram
from support.histograms import histogram_of

Times = npt.NDArray[np.float64]

_WARM_UP = 20_000


def mm1(rng: np.random.Generator, load: float, count: int) -> Times:
    """Sojourn times of an M/M/1 queue, in mean service times (Lindley's recursion)."""
    gaps = rng.exponential(1 / load, count + _WARM_UP)
    services = rng.exponential(1, count + _WARM_UP)
    walk = np.concatenate(([0.0], np.cumsum(services[:-1] - gaps[1:])))
    sojourns: Times = walk - np.minimum.accumulate(walk) + services
    return sojourns[_WARM_UP:]


def mm1_percentile(load: float, p: float) -> float:
    return -math.log(1 - p / 100) / (1 - load)


def with_checkpoints(rng: np.random.Generator, count: int, per_s: float) -> Times:
    """Exponential service of 0.2 on average, of 20 in 0.6 s of each 30 s."""
    at_s = np.cumsum(rng.exponential(1 / per_s, count)) + rng.uniform(0, 30)
    slow = at_s % 30 < 0.6
    return np.where(slow, rng.exponential(20, count), rng.exponential(0.2, count))


def batches(times_ms: Times) -> list[Histogram]:
    times_ns = (times_ms * 1e6).astype(np.int64)
    return [histogram_of(part) for part in np.array_split(times_ns, 20)]
