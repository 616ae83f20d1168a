# SPDX-License-Identifier: Apache-2.0
"""Comparison of what the engine reports with what a responder recorded."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ldapslam.agent._engine import Responder
from ldapslam.jobs.fields.thresholds import samples_needed
from ldapslam.results.histogram import Histogram
from support.histograms import bucket_index

PERCENTILES = (50, 75, 90, 95, 99, 99.9)


def percentile_of(record: npt.NDArray[np.int64], p: float) -> float:
    """Nearest rank, from the values themselves."""
    rank = max(1, int(np.ceil(round(p / 100 * record.size, 6))))
    return float(np.sort(record)[rank - 1])


def record_of(*servers: Responder) -> npt.NDArray[np.int64]:
    records = [np.array(s.record(), dtype=np.int64).reshape(-1, 2) for s in servers]
    return np.concatenate(records)[:, 1]


def above(histogram: Histogram, ns: int) -> int:
    """Return the number of values of at least `ns`, to the precision of the buckets."""
    (bucket,) = bucket_index(np.array([ns // 1000]))
    return int(histogram.counts[bucket:].sum())


def assert_same_percentiles(reported: Histogram, record: npt.NDArray[np.int64]) -> None:
    """Each reported percentile within 1 % or 30 us of the server's.

    From p99 up three times as much: there a machine that stood still for a moment is
    on one side alone.
    """
    assert reported.total == record.size
    lines = []
    failed = False
    for p in PERCENTILES:
        if record.size < samples_needed(p):
            continue
        ours, theirs = reported.percentile(p), percentile_of(record, p)
        assert ours is not None
        times = 1 if p < 99 else 3
        off = abs(ours - theirs) > times * max(0.01 * theirs, 30_000)
        failed = failed or off
        lines.append(
            f"p{p}: reported {ours / 1e3:.1f} us, server {theirs / 1e3:.1f} us"
            + (f" <-- more than {times} x 1 % and 30 us apart" if off else "")
        )
    print("\n".join(lines))
    assert not failed, "\n".join(lines)


def anderson_darling(uniform: npt.ArrayLike) -> float:
    """A^2 of a sample that is uniform in (0, 1) under the hypothesis, all of it known:
    above 3.857 in one of a hundred samples, above 6 in one of a thousand (T. W.
    Anderson and D. A. Darling, A test of goodness of fit, 1954)."""
    u = np.sort(np.clip(uniform, 1e-12, 1 - 1e-12))
    n = len(u)
    weights = 2 * np.arange(1, n + 1) - 1
    return float(-n - (weights * (np.log(u) + np.log1p(-u[::-1]))).sum() / n)
