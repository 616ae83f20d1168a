# SPDX-License-Identifier: Apache-2.0
"""The Summary as the content of result.json, schema ldapslam.result/1.

`result_schema.json` in this folder is the published JSON Schema. Numbers keep the
resolution that was measured: times in us with three decimals, which are ns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ldapslam import __version__
from ldapslam.jobs.fields.result_codes import code_name
from ldapslam.jobs.fields.thresholds import UNANSWERED
from ldapslam.proto.fields import OPERATION_COUNTERS
from ldapslam.reports.collect.job_notes import imports_of, probes_of
from ldapslam.reports.collect.telemetry import MonitorSummary
from ldapslam.reports.collect.totals import ANSWERED
from ldapslam.reports.distribution import Distribution
from ldapslam.reports.figures import figures_json
from ldapslam.reports.model import Summary
from ldapslam.reports.streams import OperationSummary, ServerSummary
from ldapslam.results.facts import AgentFacts, Manifest, Population

SCHEMA = "ldapslam.result/1"
#: The published JSON Schema.
SCHEMA_FILE = Path(__file__).with_name("result_schema.json")

#: Outcomes of requests; the others count what came with responses.
TOTALS = tuple(
    name for name in OPERATION_COUNTERS if name not in ("entries", "references")
)


def result_of(summary: Summary) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "run_id": summary.run.run_id,
        "verdict": summary.verdict,
        "reasons": list(summary.reasons),
        "manifest": manifest_of(summary),
        "measured_s": _rounded(summary.measure_s, 6),
        "totals": {
            one.title: {name: one.totals.get(name, 0) for name in TOTALS}
            for one in summary.operations
        },
        "streams": {
            stream.name: {one.operation: _operation(one) for one in stream.operations}
            for stream in summary.streams
        },
        "connections": {
            stream.name: {
                **stream.connections,
                "failure_causes": dict(stream.failure_causes),
                "loss_causes": dict(stream.loss_causes),
                "measured_s": _rounded(stream.window.measure_s, 6),
            }
            for stream in summary.streams
        },
        "figures": figures_json(summary.figures),
        "monitors": monitor_results(summary.monitors),
        "imports": [one.document() for one in imports_of(summary.facts)],
        "probes": [one.document() for one in probes_of(summary.facts)],
        "replication": summary.replication and summary.replication.document(),
        "gaps": [
            {
                "agent": gap.agent,
                "first_interval": gap.first_index,
                "last_interval": gap.last_index,
            }
            for gap in summary.completeness.gaps
        ],
        "partial_intervals": [
            {"agent": one.agent, "interval": one.index, "end_s": one.end_s}
            for one in summary.completeness.partials
        ],
        "rules": [
            {
                "name": rule.name,
                "limit": rule.limit,
                "observed": rule.observed,
                "passed": rule.passed,
                "checked": rule.is_checked,
                "cause": None if rule.passed else rule.cause,
            }
            for rule in summary.rules
        ],
        "thresholds": [
            {
                "expression": one.expression,
                "of": one.of,
                "value": _rounded(one.value, 6),
                "unit": one.unit,
                "comparison": one.comparison,
                "limit": _rounded(one.limit, 6),
                "range": one.range,
                "passed": one.passed,
                "outcome": one.outcome,
                "default": one.is_default,
            }
            for one in summary.thresholds
        ],
        "trends": [
            {
                "subject": one.subject,
                "metric": one.metric,
                "unit": one.unit,
                "start": _rounded(one.start, 6),
                "change": _rounded(one.change, 6),
                "change_ci95": [_rounded(one.low, 6), _rounded(one.high, 6)],
                "per_hour": _rounded(one.per_hour, 6),
                "steps": [
                    {name: _rounded(value, 6) for name, value in step._asdict().items()}
                    for step in one.steps
                ],
            }
            for one in summary.trends
        ],
        "notes": list(summary.notes),
        "events": [
            {
                "at_utc": event.at_utc,
                "at_s": _rounded(summary.since_start_s(event.at_utc)),
                "kind": event.kind,
                "text": event.text,
            }
            for event in summary.events
        ],
        **(
            {"digest": {**summary.run.digest, "written_by": __version__}}
            if summary.run.digest
            else {}
        ),
    }


def manifest_of(summary: Summary) -> dict[str, Any]:
    """What it takes to know, and to repeat, what was run."""
    run = summary.run
    return {
        "job": run.job_name,
        "job_text": run.job_text,
        "job_hash": run.job_hash,
        "seed": run.seed,
        "submitted_utc": run.submitted_utc,
        "submitted_by": run.submitted_by,
        "t0_utc": run.t0_utc,
        "started_utc": run.started_utc,
        "finished_utc": run.finished_utc,
        "state": run.state,
        "state_detail": run.state_detail,
        "planned_agents": list(run.agents),
        "phases": [
            {"name": one.name, "start_s": one.start_s, "end_s": one.end_s}
            for one in summary.timeline.phases
        ],
        **run.manifest.document(),
        **_population(summary),
        "agents": {name: facts.document() for name, facts in summary.facts.items()},
    }


def facts_in(manifest: Mapping[str, object]) -> tuple[Manifest, dict[str, AgentFacts]]:
    """Return the facts of a run, and of its agents, of a manifest of result.json."""
    names = Manifest.model_fields.keys() & manifest
    agents = manifest.get("agents", {})
    assert isinstance(agents, dict)
    return Manifest.parsed({name: manifest[name] for name in names}), {
        name: AgentFacts.parsed(facts) for name, facts in agents.items()
    }


def _population(summary: Summary) -> dict[str, object]:
    if not (found := populations_of(summary.facts)):
        return {}
    servers = list(dict.fromkeys(uri for _, uri in found))
    return {"population": {**found[0][0].document(), "servers": servers}}


def populations_of(facts: Mapping[str, AgentFacts]) -> list[tuple[Population, str]]:
    """What servers were found to hold, each with its URI, by the agent that looked."""
    return [
        (target.population, target.uri)
        for known in facts.values()
        for target in known.targets
        if target.population is not None
    ]


def distribution_of(one: Distribution) -> dict[str, Any]:
    return {
        "count": one.count,
        "unanswered": one.unanswered,
        "overflow": one.overflow,
        "mean": _rounded(one.mean_us),
        "min": _rounded(one.min_us),
        **{name: _rounded(value) for name, value in one.percentiles_us.items()},
        "max": _rounded(one.max_us),
    }


def _operation(one: OperationSummary) -> dict[str, Any]:
    counts: Mapping[str, int] = one.counts
    return {
        "kind": one.kind,
        "times_of": one.times_of,
        **{name: counts.get(name, 0) for name in TOTALS},
        "entries_returned": counts.get("entries", 0),
        "references_returned": counts.get("references", 0),
        "result_codes": {
            code_name(code): count for code, count in one.result_codes.items()
        },
        "diagnostic_messages": {
            code_name(code): list(texts)
            for code, texts in one.diagnostic_messages.items()
        },
        "outcomes": {
            outcome: {f"{metric}_us": distribution_of(d) for metric, d in times.items()}
            for outcome, times in one.outcome_times.items()
        },
        **(
            {"servers": {each.uri: _server(each) for each in one.servers}}
            if one.servers
            else {}
        ),
    }


def _server(one: ServerSummary) -> dict[str, Any]:
    counts = ("sent", *ANSWERED, *UNANSWERED)
    return {
        **{name: one.counts.get(name, 0) for name in counts},
        "throughput_per_s": _rounded(one.throughput_per_s),
        "error_share": _rounded(one.error_share, 9),
        **{f"{metric}_us": distribution_of(d) for metric, d in one.times.items()},
    }


def monitor_results(monitors: Sequence[MonitorSummary]) -> dict[str, Any]:
    """The part `monitors` of result.json."""
    names = [one.name for one in monitors]
    return {
        one.name if names.count(one.name) == 1 else f"{one.name} ({one.agent})": {
            "agent": one.agent,
            "facts": one.facts.document(),
            "failures": list(one.failures),
            "took_us": {
                "mean": _rounded(one.took_mean_s, 6, 1e6),
                "max": _rounded(one.took_longest_s, 6, 1e6),
            },
            "restarts_s": [round(at_s, 3) for at_s in one.restarts_s],
            "metrics": {
                each.metric.name: {
                    "kind": each.metric.kind,
                    "unit": each.unit or "1",
                    "missing_share": round(each.missing_share, 6),
                }
                for each in one.metrics
            },
        }
        for one in monitors
    }


def _rounded(value: float | None, digits: int = 3, scale: float = 1.0) -> float | None:
    return None if value is None else round(value * scale, digits)
