# SPDX-License-Identifier: Apache-2.0
"""Runs beside each other: what differed in how they were made, and what came out. Pure.

Figures stand side by side without a judgement: whether a difference between two single
runs means anything is a question for repeated runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from ldapslam.reports.document import Cell, Column, Table
from ldapslam.reports.result import manifest_of
from ldapslam.reports.sections.flat_facts import flattened
from ldapslam.reports.sections.imports import compared, made_by
from ldapslam.reports.summary import Summary
from ldapslam.reports.typeset import NOTHING, count, decimal, milliseconds, percent

#: Facts that are another one's in each run, whatever was run.
_OF_THE_RUN = frozenset(
    """
    run_id submitted_utc submitted_by t0_utc started_utc finished_utc state state_detail
    t0 ending adopted agents control_operations observations observer_cost replication
    planned_agents phases job_text files_written servers
    """.split()
)
#: What agents say of their hosts that decides figures.
_OF_AN_AGENT = ("host", "workers", "realtime", "timer_slack_ns", "stamps")


def comparison_tables(summaries: Sequence[Summary]) -> tuple[Table, ...]:
    """The runs, their figures by operation, and every difference of their manifests."""
    names = [summary.run.run_id for summary in summaries]
    return (
        _runs(summaries),
        *compared(summaries),
        _figures(summaries),
        _differences(names, summaries),
    )


def differences_of(summaries: Sequence[Summary]) -> dict[str, list[str | None]]:
    """Fact -> its text in each run, in the order of the runs; None where it lacks."""
    facts = [dict(_facts(summary)) for summary in summaries]
    keys = dict.fromkeys(key for of in facts for key in of)
    texts = {key: [of.get(key) for of in facts] for key in keys}
    return {key: values for key, values in texts.items() if len(set(values)) > 1}


def _runs(summaries: Sequence[Summary]) -> Table:
    rows = tuple(
        (
            Cell(summary.run.run_id),
            Cell(summary.run.job_name),
            Cell(summary.verdict),
            Cell((summary.run.t0_utc or "")[:19].replace("T", " ") or NOTHING),
            Cell(decimal(summary.measure_s, 0)),
            Cell(str(len(summary.agents))),
        )
        for summary in summaries
    )
    columns = (
        Column("Run"),
        Column("Job"),
        Column("Verdict"),
        Column("T0 (UTC)"),
        Column("measured", "s", True),
        Column("agents", "", True),
    )
    return Table("runs", "Runs", columns, rows)


def _figures(summaries: Sequence[Summary]) -> Table:
    titles = dict.fromkeys(
        one.title for summary in summaries for one in summary.operations
    )
    rows = []
    for title in titles:
        for summary in summaries:
            found = [one for one in summary.operations if one.title == title]
            for one in found:
                times = one.times["response_time"].percentiles_us
                rows.append(
                    (
                        Cell(title),
                        Cell(summary.run.run_id),
                        Cell(decimal(one.throughput_per_s)),
                        Cell(count(one.counts["succeeded"])),
                        Cell(percent(one.error_share)),
                        Cell(milliseconds(times["p50"])),
                        Cell(milliseconds(times["p99"])),
                    )
                )
    columns = (
        Column("Operation"),
        Column("Run"),
        Column("throughput", "/s", True),
        Column("succeeded", "", True),
        Column("errors", "%", True),
        Column("p50", "ms", True),
        Column("p99", "ms", True),
    )
    note = "Single runs: whether a difference means anything, repetitions must tell."
    return Table("figures", "Figures", columns, tuple(rows), (note,))


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
