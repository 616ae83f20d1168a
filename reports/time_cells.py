# SPDX-License-Identifier: Apache-2.0
"""Cells and notes of tables of times: what a figure that is missing means. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ldapslam.jobs.thresholds import PERCENTILES, samples_needed
from ldapslam.reports.distribution import Distribution
from ldapslam.reports.document import MUTED, Cell, Column
from ldapslam.reports.typeset import (
    NOT_AVAILABLE,
    NOTHING,
    count,
    grouped,
    milliseconds,
)

#: Percentiles in the tables of times; p99.99 is in result.json.
SHOWN = ("p50", "p90", "p95", "p99", "p99_9")

_TOO_FEW = (
    f"{NOT_AVAILABLE}: too few values. A percentile needs ten values above it: "
    + ", ".join(
        f"{name.replace('_', '.')} n ≥ {count(samples_needed(PERCENTILES[name]))}"
        for name in SHOWN
    )
    + "."
)

_NO_ANSWER = (
    f"{NOT_AVAILABLE} also where the figure hangs on requests that had no answer: they "
    "rank above every value."
)


def time_columns() -> tuple[Column, ...]:
    """Of what `times_cells` gives."""
    return (
        Column("n", "", True),
        Column("mean", "", True),
        *(Column(name.replace("_", "."), "", True) for name in SHOWN),
        Column("max", "", True),
    )


def times_cells(times: Distribution) -> tuple[Cell, ...]:
    return (
        Cell(count(times.count)),
        time_cell(times, "mean", times.mean_us),
        *percentile_cells(times),
        time_cell(times, "max", times.max_us),
    )


def percentile_cells(times: Distribution) -> list[Cell]:
    return [_percentile_cell(times, name) for name in SHOWN]


def _percentile_cell(times: Distribution, name: str) -> Cell:
    value_us = times.percentiles_us[name]
    if value_us is None:
        return Cell(NOT_AVAILABLE, MUTED, grouped(times.why_missing(name)))
    return Cell(milliseconds(value_us))


def time_cell(times: Distribution, name: str, value_us: float | None) -> Cell:
    if value_us is not None:
        return Cell(milliseconds(value_us))
    if times.unanswered or times.overflow:
        return Cell(NOT_AVAILABLE, MUTED, grouped(times.why_missing(name)))
    return Cell(NOTHING, MUTED)


def missing(shown: Sequence[Distribution]) -> tuple[str, ...]:
    """What the n/a of a table mean."""
    notes = []
    if any(times.sample < samples_needed(PERCENTILES[SHOWN[-1]]) for times in shown):
        notes.append(_TOO_FEW)
    if any(times.unanswered for times in shown):
        notes.append(_NO_ANSWER)
    return tuple(notes)
