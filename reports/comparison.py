# SPDX-License-Identifier: Apache-2.0
"""Runs side by side: how they were made, and their results. Pure.

No difference is judged: whether one between two single runs means anything is a
question for repeated runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from ldapslam.reports.document import Cell, Column, Table, column, number, table
from ldapslam.reports.model import Summary
from ldapslam.reports.result import manifest_of
from ldapslam.reports.sections.bulk_imports import compared, made_by
from ldapslam.reports.typeset import (
    NOTHING,
    count,
    decimal,
    flattened,
    percent,
    percentiles,
)

#: Metadata that differs between any two runs.
_OF_THE_RUN = frozenset(
    """
    run_id submitted_utc submitted_by t0_utc started_utc finished_utc state state_detail
    t0 ending adopted agents control_operations observations observer_cost replication
    planned_agents phases job_text files_written servers
    """.split()
)
#: Metadata of agents' hosts that affects the statistics.
_OF_AN_AGENT = ("host", "workers", "realtime", "timer_slack_ns", "stamps")


def comparison_tables(summaries: Sequence[Summary]) -> tuple[Table, ...]:
    """The runs, their statistics, and every difference of their manifests."""
    names = [summary.run.run_id for summary in summaries]
    return (
        _runs(summaries),
        *compared(summaries),
        _statistics(summaries),
        _differences(names, summaries),
    )


def differences_of(summaries: Sequence[Summary]) -> dict[str, list[str | None]]:
    """Fact -> its text in each run, in the order of the runs; None where it lacks."""
    facts = [dict(_facts(summary)) for summary in summaries]
    keys = dict.fromkeys(key for of in facts for key in of)
    texts = {key: [of.get(key) for of in facts] for key in keys}
    return {key: values for key, values in texts.items() if len(set(values)) > 1}


def _runs(summaries: Sequence[Summary]) -> Table:
    return table(
        "runs",
        "Runs",
        summaries,
        column("Run", lambda one: one.run.run_id),
        column("Job", lambda one: one.run.job_name),
        column("Verdict", lambda one: one.verdict),
        column(
            "T0 (UTC)",
            lambda one: (one.run.t0_utc or "")[:19].replace("T", " ") or NOTHING,
        ),
        number("measured (s)", lambda one: decimal(one.measure_s, 0)),
        number("agents", lambda one: str(len(one.agents))),
    )


def _statistics(summaries: Sequence[Summary]) -> Table:
    titles = dict.fromkeys(
        one.title for summary in summaries for one in summary.operations
    )
    return table(
        "statistics",
        "Statistics",
        [
            (summary.run.run_id, one)
            for title in titles
            for summary in summaries
            for one in summary.operations
            if one.title == title
        ],
        column("Operation", lambda row: row[1].title),
        column("Run", lambda row: row[0]),
        number("throughput (/s)", lambda row: decimal(row[1].throughput_per_s)),
        number("succeeded", lambda row: count(row[1].counts["succeeded"])),
        number("errors (%)", lambda row: percent(row[1].error_share)),
        *percentiles(lambda row: row[1].times["response_time"], ("p50", "p99")),
        notes=(
            "Single runs: whether a difference means anything, repetitions must tell.",
        ),
    )


def _differences(names: Sequence[str], summaries: Sequence[Summary]) -> Table:
    found = differences_of(summaries)
    rows = tuple(
        (Cell(key), *(Cell(NOTHING if one is None else one) for one in values))
        for key, values in found.items()
    )
    note = "Job, servers, agents and versions; what is not here was the same."
    columns = (Column("Differs"), *(Column(name) for name in names))
    return Table("differences", "How the runs differ", columns, rows, (note,))


def _facts(summary: Summary) -> Iterator[tuple[str, str]]:
    manifest = manifest_of(summary)
    job = yaml.safe_load(summary.run.job_text)
    if isinstance(job, Mapping):
        yield from flattened({"job file": job})
    rest = {key: value for key, value in manifest.items() if key not in _OF_THE_RUN}
    yield from flattened(rest)
    yield from flattened({"imports": made_by(summary)})
    for place, facts in enumerate(_servers(summary, manifest), 1):
        yield from flattened({f"server {place}": facts})
    for place, agent in enumerate(summary.agents, 1):
        known = {key: agent.facts[key] for key in _OF_AN_AGENT if key in agent.facts}
        yield from flattened({f"agent {place}": known})


def _servers(summary: Summary, manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What the servers said of themselves, in the order in which the job has them."""
    observations = manifest.get("observations") or {}
    order = dict.fromkeys(
        uri
        for stream in summary.run.plan.get("streams", ())
        for uri in stream.get("uris", ())
    )
    known = manifest.get("servers") or {}
    uris = [uri for uri in order if uri in known or uri in observations]
    uris += [uri for uri in observations if uri not in order]
    return [
        {
            **{k: v for k, v in known.get(uri, {}).items() if k != "addresses"},
            **observations.get(uri, {}).get("facts", {}),
        }
        for uri in uris
    ]
