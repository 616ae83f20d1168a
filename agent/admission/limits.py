# SPDX-License-Identifier: Apache-2.0
"""The limits of an agent's operator, and whether a part of a run is within them. Pure.

The engine's process checks them on the plan that it computed itself, before it
connects. With several runs at a time each gets an equal part of `max_connections` and
`max_rate`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ldapslam.agent.admission.target_rules import DEFAULT_RULES, TargetRule, parse_rules
from ldapslam.base.errors import AgentLimitExceeded, LdapSlamError
from ldapslam.base.inert import parse_json
from ldapslam.base.units import NS_PER_S, format_duration
from ldapslam.jobs.plan import AgentPlan, StreamPlan
from ldapslam.jobs.rates.profile import peak_rate
from ldapslam.jobs.types.built_in import BulkLoad

#: Every path that the agent can use.
ANY_PATH = "any"
_NO_BOUND = (
    "give them an open load, or a closed one with a think time; or take agents without "
    "`max-rate`"
)


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """None: not limited."""

    targets: tuple[TargetRule, ...] = DEFAULT_RULES
    #: Limits of connections and rate for all runs together.
    max_connections: int | None = None
    max_rate_per_s: float | None = None
    #: From T0 to the end of the plan's last phase.
    max_duration_ns: int | None = None
    spool_quota_bytes: int | None = None
    max_runs: int = 1
    #: Logs that monitors may read: paths, or ANY_PATH.
    logs: tuple[str, ...] = ()
    #: What imports may use: folders for databases and data, programs; or ANY_PATH.
    imports: tuple[str, ...] = ()
    #: Secrets that jobs may name, and classes that are not installed: grants.py.
    secrets: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    #: The agent's own files; no job reads them as a secret.
    own_files: tuple[str, ...] = ()
    #: How long load may go on without the coordinator.
    max_orphan_ns: int | None = None

    def to_json(self) -> str:
        """For the engine's process and the coordinator's `agents`."""
        return json.dumps(self.document(), sort_keys=True)

    def document(self) -> dict[str, Any]:
        values = asdict(self) | {"targets": [rule.text for rule in self.targets]}
        return {
            name: value for name, value in values.items() if value not in (None, ())
        }

    @classmethod
    def from_json(cls, text: str) -> AgentLimits:
        """The limits that `to_json` gave; without a text, those of the defaults."""
        values: dict[str, Any] = parse_json(text or "{}")
        values["targets"] = parse_rules(values.pop("targets", ()))
        for name in ("logs", "imports", "secrets", "classes", "own_files"):
            values[name] = tuple(values.pop(name, ()))
        return cls(**values)

    def allows_log(self, path: str) -> bool:
        return ANY_PATH in self.logs or os.path.realpath(path) in self.logs

    def allows_import(self, path: str) -> bool:
        """Whether an import may use this path: an allowed one, or below one."""
        real = Path(os.path.realpath(path))
        return ANY_PATH in self.imports or any(
            real.is_relative_to(os.path.realpath(one)) for one in self.imports
        )

    def allows_program(self, path: str) -> bool:
        return ANY_PATH in self.imports or os.path.realpath(path) in map(
            os.path.realpath, self.imports
        )


@dataclass(frozen=True, slots=True)
class Part:
    """What an agent's part of a run asks for."""

    connections: int
    #: The highest rate of requests that are due; None: nothing bounds it.
    peak_rate_per_s: float | None
    #: Names of streams without a limit of their rate.
    unbounded: tuple[str, ...]
    duration_ns: int
    #: How long its load goes on without the coordinator.
    orphan_ns: int = 0


def part_of(plan: AgentPlan, orphan_ns: int = 0) -> Part:
    """A session counts with all its steps at its arrival, a paged search counts once,
    and a Python class with its arrivals."""
    rates = {stream.name: _peak_rate_per_s(stream) for stream in plan.streams}
    unbounded = tuple(name for name, rate in rates.items() if rate is None)
    known = [rate for rate in rates.values() if rate is not None]
    return Part(
        connections=sum(stream.connections for stream in plan.streams),
        peak_rate_per_s=None if unbounded else sum(known),
        unbounded=unbounded,
        duration_ns=plan.boundaries_ns[-1] if plan.boundaries_ns else 0,
        orphan_ns=orphan_ns,
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
        ratio = stream.connections / stream.total_connections
        return peak_rate(stream.profile) * NS_PER_S * ratio * steps
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


def check_part(part: Part, limits: AgentLimits, agent: str) -> None:
    """AgentLimitExceeded when the part is more than one run of this agent may have."""
    each = f" ({limits.max_runs} runs at a time)" if limits.max_runs > 1 else ""
    if limits.max_connections is not None:
        most = limits.max_connections // limits.max_runs
        if part.connections > most:
            share, limit = f"{part.connections:,} connections", f"{most:,}{each}"
            raise AgentLimitExceeded(agent, share, limit, "max-connections")
    if limits.max_rate_per_s is not None:
        most_per_s = limits.max_rate_per_s / limits.max_runs
        limit = f"{most_per_s:,g}/s{each}"
        if part.peak_rate_per_s is None:
            share = (
                f"streams without a bound of their rate ({', '.join(part.unbounded)})"
            )
            error = AgentLimitExceeded(agent, share, limit, "max-rate")
            error.hint = _NO_BOUND
            raise error
        # rates are sums of fractions: what is equal on paper must pass
        if part.peak_rate_per_s > most_per_s * (1 + 1e-9):
            share = f"up to {part.peak_rate_per_s:,.1f} requests/s"
            raise AgentLimitExceeded(agent, share, limit, "max-rate")
    lengths = (
        ("a length of {}", part.duration_ns, limits.max_duration_ns, "max-duration"),
        (
            "{} of load without its coordinator (`coordinator_timeout`)",
            part.orphan_ns,
            limits.max_orphan_ns,
            "max-orphan",
        ),
    )
    for share, asked_ns, limit_ns, setting in lengths:
        if limit_ns is not None and asked_ns > limit_ns:
            asked = share.format(format_duration(asked_ns))
            raise AgentLimitExceeded(agent, asked, format_duration(limit_ns), setting)


def describe_limits(document: Mapping[str, Any]) -> list[str]:
    """A phrase for each limit in `limits_json`, without what is not a limit."""
    formats: dict[str, Callable[[Any], str]] = {
        "max_connections": lambda value: f"{value:,} connections",
        "max_rate_per_s": lambda value: f"{value:g}/s",
        "max_duration_ns": lambda value: format_duration(int(value)),
        "max_orphan_ns": lambda value: f"orphan {format_duration(int(value))}",
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
