# SPDX-License-Identifier: Apache-2.0
"""What an agent's operator allows, and whether a share of a run stays within it. Pure.

The limits are the agent's own, whoever submits the job: they are checked in the
engine's process, on the share of the plan that it computed itself, before anything is
connected. An agent that serves several runs at a time gives each of them an equal part
of `max_connections` and `max_rate`, so that their sum is never more than is allowed.

`max_cpu` is a share of the host's CPUs, in whole ones, at least one: the engine's
process may run on no others (its affinity), and has no more threads than that. It
limits what the agent takes, not what it starts: a busy host is found by the run's rules
of validity.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldapslam.agent.admission.target_rules import DEFAULT_RULES, TargetRule, parse_rules
from ldapslam.base.errors import AgentLimitExceeded, LdapSlamError
from ldapslam.base.units import NS_PER_S, format_duration, format_share
from ldapslam.jobs.plan import AgentPlan, StreamPlan
from ldapslam.jobs.rates.profile import peak_rate
from ldapslam.jobs.types.built_in import BulkLoad

#: Every path that the agent can use.
ANY_PATH = "any"


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """None: not limited."""

    targets: tuple[TargetRule, ...] = DEFAULT_RULES
    #: Connections at a time, over all runs.
    max_connections: int | None = None
    #: Requests per second, over all runs.
    max_rate_per_s: float | None = None
    #: From T0 to the end of the plan's last phase.
    max_duration_ns: int | None = None
    #: Of the host's CPUs, 0 to 1.
    max_cpu_share: float | None = None
    #: Of an entry that must be below each naming context that a job touches.
    marker_rdn: str | None = None
    #: Of the reports that wait to be delivered.
    spool_quota_bytes: int | None = None
    #: Runs at a time.
    max_runs: int = 1
    #: Logs that monitors may read: paths, or ANY_PATH.
    logs: tuple[str, ...] = ()
    #: What imports may use: folders for databases and data, programs; or ANY_PATH.
    imports: tuple[str, ...] = ()

    def to_json(self) -> str:
        """For the engine's process and the coordinator's `agents`."""
        return json.dumps(self.document(), sort_keys=True)

    def document(self) -> dict[str, Any]:
        """What is limited, with the units in the names."""
        values = {
            "targets": [rule.text for rule in self.targets],
            "max_connections": self.max_connections,
            "max_rate_per_s": self.max_rate_per_s,
            "max_duration_ns": self.max_duration_ns,
            "max_cpu_share": self.max_cpu_share,
            "marker_rdn": self.marker_rdn,
            "spool_quota_bytes": self.spool_quota_bytes,
            "max_runs": self.max_runs,
            "logs": list(self.logs) or None,
            "imports": list(self.imports) or None,
        }
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_json(cls, text: str) -> AgentLimits:
        """The limits that `to_json` gave; without a text, those of the defaults."""
        values: dict[str, Any] = json.loads(text or "{}")
        targets = parse_rules(values.pop("targets", ()))
        logs = tuple(values.pop("logs", ()))
        imports = tuple(values.pop("imports", ()))
        return cls(targets=targets, logs=logs, imports=imports, **values)

    def allows_log(self, path: str) -> bool:
        """Whether a job's monitor may read this file."""
        return ANY_PATH in self.logs or os.path.realpath(path) in self.logs

    def allows_import(self, path: str) -> bool:
        """Whether an import may use this folder or file, which is one of those that are
        allowed or lies below one."""
        real = Path(os.path.realpath(path))
        return ANY_PATH in self.imports or any(
            real.is_relative_to(os.path.realpath(one)) for one in self.imports
        )

    def allows_program(self, path: str) -> bool:
        """Whether an import may run this file, which is one of those allowed itself."""
        return ANY_PATH in self.imports or os.path.realpath(path) in map(
            os.path.realpath, self.imports
        )

    def cpus(self, usable: Sequence[int]) -> list[int]:
        """The CPUs that an engine may run on, of those that this process may. The last
        ones: interrupts come to the first ones."""
        if self.max_cpu_share is None:
            return list(usable)
        count = max(1, int(self.max_cpu_share * len(usable)))
        return sorted(usable)[-count:]


@dataclass(frozen=True, slots=True)
class Share:
    """What an agent's part of a run asks for."""

    connections: int
    #: The highest rate of requests that are due; None: nothing bounds it.
    peak_rate_per_s: float | None
    #: Names of the streams that have no bound.
    unbounded: tuple[str, ...]
    duration_ns: int


def share_of(plan: AgentPlan) -> Share:
    """The figures of a plan. A session counts with all its steps, at its arrival; a
    search in pages counts once; of a Python class the arrivals count."""
    rates = {stream.name: _peak_rate_per_s(stream) for stream in plan.streams}
    unbounded = tuple(name for name, rate in rates.items() if rate is None)
    known = [rate for rate in rates.values() if rate is not None]
    return Share(
        connections=sum(stream.connections for stream in plan.streams),
        peak_rate_per_s=None if unbounded else sum(known),
        unbounded=unbounded,
        duration_ns=plan.boundaries_ns[-1] if plan.boundaries_ns else 0,
    )


def _peak_rate_per_s(stream: StreamPlan) -> float | None:
    steps = max((len(script.steps) for script in stream.scripts), default=1)
    if stream.replay is not None:
        return None
    if (
        stream.python is not None
        and stream.python.class_path == BulkLoad.python_class()
    ):
        return 0.0  # its server is its own
    if stream.model == "open":
        part = stream.connections / stream.total_connections
        return peak_rate(stream.profile) * NS_PER_S * part * steps
    pauses_ns = [sum(pause for _, pause in one.steps) for one in stream.scripts]
    rates = [
        len(script.steps) / (stream.think_time_ns + pause_ns)
        for script, pause_ns in zip(stream.scripts, pauses_ns, strict=True)
        if stream.think_time_ns + pause_ns > 0
    ]
    if not stream.scripts and stream.think_time_ns > 0:
        rates = [1 / stream.think_time_ns]
    if not rates or len(rates) < len(stream.scripts):
        return None
    return max(rates) * stream.connections * NS_PER_S


def check_share(share: Share, limits: AgentLimits, agent: str) -> None:
    """AgentLimitExceeded when it is more than a run of this agent may have."""
    part = f" ({limits.max_runs} runs at a time)" if limits.max_runs > 1 else ""
    if limits.max_connections is not None:
        most = limits.max_connections // limits.max_runs
        if share.connections > most:
            raise AgentLimitExceeded(
                agent,
                f"{share.connections:,} connections",
                f"{most:,}{part}",
                "max-connections",
            )
    if limits.max_rate_per_s is not None:
        _check_rate(share, limits.max_rate_per_s / limits.max_runs, agent, part)
    limit_ns = limits.max_duration_ns
    if limit_ns is not None and share.duration_ns > limit_ns:
        raise AgentLimitExceeded(
            agent,
            f"a length of {format_duration(share.duration_ns)}",
            format_duration(limit_ns),
            "max-duration",
        )


def _check_rate(share: Share, most_per_s: float, agent: str, part: str) -> None:
    if share.peak_rate_per_s is None:
        names = ", ".join(share.unbounded)
        error = AgentLimitExceeded(
            agent,
            f"streams whose rate nothing bounds ({names})",
            f"{most_per_s:,g}/s{part}",
            "max-rate",
        )
        error.hint = (
            "give them an open load, or a closed one with a think time; or take agents "
            "without `max-rate`"
        )
        raise error
    # rates are sums of fractions: what is equal on paper must pass
    if share.peak_rate_per_s > most_per_s * (1 + 1e-9):
        raise AgentLimitExceeded(
            agent,
            f"up to {share.peak_rate_per_s:,.1f} requests/s",
            f"{most_per_s:,g}/s{part}",
            "max-rate",
        )


def describe_limits(document: Mapping[str, Any]) -> list[str]:
    """What `limits_json` says, a phrase for each limit; what is not one is left out."""
    formats: dict[str, Callable[[Any], str]] = {
        "max_connections": lambda value: f"{value:,} connections",
        "max_rate_per_s": lambda value: f"{value:g}/s",
        "max_duration_ns": lambda value: format_duration(int(value)),
        "max_cpu_share": lambda value: f"{format_share(float(value))} of the CPUs",
        "marker_rdn": lambda value: f"marker {value}",
    }
    phrases = []
    targets = document.get("targets")
    if isinstance(targets, list):
        phrases.append(" ".join(map(str, targets)))
    for name, text in formats.items():
        if name in document:
            try:
                phrases.append(text(document[name]))
            except (TypeError, ValueError, LdapSlamError):
                continue
    return phrases
