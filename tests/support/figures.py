# SPDX-License-Identifier: Apache-2.0
"""Figures of runs that are not there, and the tables of reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ldapslam.reports.document import Document, Table
from ldapslam.reports.figures import (
    Figure,
    figures_in,
    figures_json,
    figures_of,
    metric_of,
)
from ldapslam.reports.model import Summary
from ldapslam.reports.streams import StreamSummary
from ldapslam.reports.uncertainty import Estimate


def figure(value: float | None, needs: str = "", sample: int = 0) -> Figure:
    """A figure of which only the value matters."""
    return Figure("", "", "", None, value, needs=needs, sample=sample)


def value_in(result: Mapping[str, Any], name: str) -> float | None:
    """The value of a figure of a result.json, in us, per s, a share or a count."""
    value: float | None = result["figures"][name]["value"]
    return value


def value_of(result: Mapping[str, Any], name: str) -> float:
    value = value_in(result, name)
    assert value is not None, result["figures"][name]
    return value


def with_streams(summary: Summary, streams: Sequence[StreamSummary]) -> Summary:
    """The run with other streams, and their figures."""
    figures = figures_of(streams, summary.agents, ())
    return replace(summary, streams=tuple(streams), figures=figures)


def requests_in(
    result: Mapping[str, Any],
) -> dict[str, dict[str, dict[str, float | None]]]:
    """Server or role -> kind -> metric -> number of requests."""
    groups: dict[str, dict[str, dict[str, float | None]]] = {}
    for one in figures_in(result):
        if one.kind == "server":
            kinds = groups.setdefault(one.subject, {})
            kinds.setdefault(one.part, {})[one.metric] = one.value
    return groups


def result_figures(
    operation: str,
    values: Mapping[str, float | None],
    ci95: Mapping[str, tuple[float, float]] | None = None,
) -> dict[str, dict[str, object]]:
    """The part `figures` of a result.json; `values` and `ci95` are by metric."""
    stream, _, name = operation.partition(".")
    found = []
    for text, value in values.items():
        metric, ends = metric_of(text), (ci95 or {}).get(text)
        interval = Estimate(value or 0.0, *ends) if ends else None
        place = stream, name, metric.metric, metric.statistic
        found.append(Figure(*place, value, interval, sample=1))
    return figures_json(found)


def table_of(content: Document, name: str) -> Table:
    [table] = [
        block
        for section in content.sections
        for block in section.blocks
        if isinstance(block, Table) and block.name == name
    ]
    return table
