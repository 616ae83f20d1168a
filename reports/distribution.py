# SPDX-License-Identifier: Apache-2.0
"""The statistics of a histogram: what its sample supports, and nothing beyond. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ldapslam.jobs.fields.thresholds import PERCENTILES, samples_needed
from ldapslam.reports.uncertainty import percentile_interval
from ldapslam.results.histogram import Histogram

_CURVE_POINTS = 240


@dataclass(frozen=True, slots=True)
class Distribution:
    """The statistics of one histogram, in us; None as the histogram has it."""

    count: int
    mean_us: float | None
    min_us: float | None
    max_us: float | None
    #: Name of PERCENTILES -> value, None also when the sample is too small for it.
    percentiles_us: Mapping[str, float | None]
    #: Name -> 95 % confidence interval (reports/uncertainty.py), None likewise; an
    #: upper end of None is above every value counted. Of response times only.
    ci95_us: Mapping[str, tuple[float, float | None] | None]
    #: Name -> the effective sample that the interval is of; empty of other times.
    effective: Mapping[str, int]
    #: Above every value: requests without an answer, and values above one hour.
    unanswered: int = 0
    overflow: int = 0

    @property
    def sample(self) -> int:
        """What the percentiles are taken over."""
        return self.count + self.unanswered + self.overflow

    def needs(self, statistic: str) -> str:
        """Return what a statistic that is None needs, for people."""
        if statistic in PERCENTILES and self.sample:
            needed = samples_needed(PERCENTILES[statistic])
            if self.sample < needed:
                return f"{needed:,} values (it has {self.sample:,})"
        if self.unanswered:
            return f"an answer to each request ({self.unanswered:,} had none)"
        if self.overflow:
            return f"values up to one hour ({self.overflow:,} were above)"
        return "successful requests"


@dataclass(frozen=True, slots=True)
class Curve:
    """Durations by percentile: points (percentile as a fraction, value in us); a value
    is NaN where it lies among the requests without an answer."""

    fractions: tuple[float, ...]
    values_us: tuple[float, ...]


def distribution(
    histogram: Histogram, batches: Sequence[Histogram] | None = None
) -> Distribution:
    """The statistics of a histogram that its sample supports; `batches` are its parts
    in consecutive intervals."""
    percentiles: dict[str, float | None] = {}
    intervals: dict[str, tuple[float, float | None] | None] = {}
    effective: dict[str, int] = {}
    for name, p in PERCENTILES.items():
        percentiles[name] = us_of(histogram.reliable_percentile(p))
        ci95, sample = percentile_interval(histogram, batches or (), p)
        intervals[name] = None
        if batches is not None:
            effective[name] = sample
        if ci95 is not None:
            intervals[name] = ci95.low_ns / 1000, us_of(ci95.high_ns)
    return Distribution(
        count=histogram.total,
        mean_us=us_of(histogram.mean()),
        min_us=histogram.min_ns / 1000 if histogram.total else None,
        max_us=us_of(histogram.percentile(100)),
        percentiles_us=percentiles,
        ci95_us=intervals,
        effective=effective,
        unanswered=histogram.unanswered,
        overflow=histogram.overflow,
    )


def curve(histogram: Histogram) -> Curve:
    """Evenly spaced on the logarithmic axis 1 / (1 - p), up to the largest value."""
    if not histogram.total:
        return Curve((), ())
    last = math.log10(max(histogram.sample, 10))
    fractions = 1 - np.logspace(0, -last, _CURVE_POINTS)
    values_us = histogram.percentiles(fractions * 100) / 1000
    return Curve(tuple(fractions.tolist()), tuple(values_us.tolist()))


def us_of(value_ns: float | None) -> float | None:
    return None if value_ns is None else value_ns / 1000
