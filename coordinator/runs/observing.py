# SPDX-License-Identifier: Apache-2.0
"""A run's orders to its observers, and what they answer. No gRPC.

If the job has monitors or anything to verify, the first agent of each host observes:
what is on that host, and the run's first agent the directories.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ldapslam.base.errors import ConfigError, FleetError, TargetError
from ldapslam.coordinator.fleet.link import AgentLink
from ldapslam.coordinator.runs import run as machine
from ldapslam.coordinator.runs.facts import monitor_facts, observation_facts
from ldapslam.proto import agent_pb2, observation_pb2
from ldapslam.proto.common_pb2 import RunAssignment
from ldapslam.proto.observation_pb2 import (
    MonitorDescription as DescriptionMessage,
)
from ldapslam.proto.observation_pb2 import MonitorSamples
from ldapslam.results.records import Metric, MonitorDescription, MonitorSample
from ldapslam.transport.messages import ProtocolError, error_of

#: Characters of the name of a monitor or metric, and of a unit.
_MAX_NAME = 500
_MAX_MONITORS = 1000
_MAX_METRICS = 5000
_MAX_NS = (1 << 63) - 1
#: Not allowed, or not to be had.
_REFUSALS = (ConfigError, FleetError, TargetError)


class Observing:
    """Of one run: sends the orders, and puts together what was found."""

    def __init__(
        self,
        run_id: str,
        assignment: RunAssignment,
        run: machine.Run,
        send: Callable[[str, agent_pb2.Command], None],
        feed: Callable[[machine.RunEvent], None],
    ) -> None:
        self._run_id = run_id
        self._assignment = assignment
        self._run = run
        self._send = send
        self._feed = feed

    def assignment(self, index: int, count: int, attempt: int) -> RunAssignment:
        """The part of the agent with this index, of so many."""
        part = RunAssignment()
        part.CopyFrom(self._assignment)
        part.agent_index, part.agent_count, part.attempt = index, count, attempt
        return part

    def observe(
        self,
        agents: Sequence[str],
        given: Mapping[str, tuple[int, int]],
        link_of: Callable[[str], AgentLink | None],
    ) -> None:
        """Tell the first agent of each host, which reads it; the run's first agent
        reads the directories too, and others have nothing to see. `given`: agent -> its
        epoch and attempt."""
        hosts: set[str] = set()
        for index, agent in enumerate(agents):
            link = link_of(agent)
            host = (link and link.identity.host_id) or f"of {agent}"
            if host in hosts:
                asyncio.get_running_loop().call_soon(
                    self._feed, machine.ObserverEnded(agent)
                )
                continue
            hosts.add(host)
            _, attempt = given.get(agent, (0, 0))
            part = self.assignment(index, len(agents), attempt)
            order = agent_pb2.ObserveRun(run=part)
            self._send(agent, agent_pb2.Command(observe=order))

    def conclude(self, agents: Iterable[str], *, verify: bool) -> None:
        order = agent_pb2.ConcludeObservation(run_id=self._run_id, verify=verify)
        for agent in agents:
            self._send(agent, agent_pb2.Command(conclude=order))

    def has_open_watch(self, agent: str) -> bool:
        """Whether the agent's observer has more to tell."""
        watch = self._run.watches.get(agent, machine.Watch.ENDED)
        return watch is not machine.Watch.ENDED

    def take_up(self, agent: str) -> None:
        """The agent, which observes the run, has registered: orders may be lost."""
        if not self.has_open_watch(agent):
            self.end((agent,))
        elif self._run.is_concluding:
            self.conclude((agent,), verify=self._run.ending.is_planned)

    def refuse(self, agent: str, reason: str) -> None:
        """What its observer tells cannot be taken."""
        self.end((agent,))
        self._feed(machine.ObserverEnded(agent, reason))

    def end(self, agents: Iterable[str]) -> None:
        order = agent_pb2.EndObservation(run_id=self._run_id)
        for agent in agents:
            self._send(agent, agent_pb2.Command(end_observation=order))


@dataclass(frozen=True, slots=True)
class Observed:
    """One report of an observer."""

    event: machine.ObserverPrepared | machine.ObserverProgressed | machine.ObserverEnded
    monitors: Sequence[MonitorDescription] = ()
    samples: Sequence[MonitorSample] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


def observed(report: observation_pb2.ObservationReport) -> Observed:
    """What a report says; ProtocolError when it cannot be kept."""
    agent, event = report.agent, report.event
    match event.WhichOneof("kind"):
        case "ready":
            ready = event.ready
            if len(ready.monitors) > _MAX_MONITORS:
                raise ProtocolError(f"{len(ready.monitors)} monitors")
            return Observed(
                machine.ObserverPrepared(agent),
                monitors=[_description(one) for one in ready.monitors],
                facts=observation_facts(ready.facts_json),
            )
        case "samples":
            progress = machine.ObserverProgressed(agent)
            return Observed(progress, samples=_samples(event.samples))
        case "finished":
            facts = observation_facts(event.finished.facts_json)
            return Observed(machine.ObserverEnded(agent), facts=facts)
        case "failed":
            error = error_of(event.failed)
            refusal = error if isinstance(error, _REFUSALS) else None
            reason = str(error) or "it failed"
            return Observed(machine.ObserverEnded(agent, reason, refusal))
        case _:
            raise ProtocolError("an observation without what was observed")


def merged(known: Mapping[str, Any], news: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest's parts that observers make, with the facts of one more report."""
    observations = {uri: dict(of) for uri, of in known.get("observations", {}).items()}
    for uri, found in news.get("observations", {}).items():
        observations.setdefault(uri, {}).update(found)
    rest = {name: value for name, value in news.items() if name != "observations"}
    if "observer_cost" in rest:  # of all of them
        before_s = known.get("observer_cost", {}).get("cpu_s", 0.0)
        rest["observer_cost"] = {"cpu_s": before_s + rest["observer_cost"]["cpu_s"]}
    return {**({"observations": observations} if observations else {}), **rest}


def _description(message: DescriptionMessage) -> MonitorDescription:
    if len(message.metrics) > _MAX_METRICS:
        raise ProtocolError(f"a monitor of {len(message.metrics)} metrics")
    metrics = [
        Metric(_name(one.name), one.unit[:_MAX_NAME], _kind(one.is_counter))
        for one in message.metrics
    ]
    if len({one.name for one in metrics}) < len(metrics):
        raise ProtocolError("a monitor with two metrics of one name")
    return MonitorDescription(
        _name(message.name), metrics, monitor_facts(message.facts_json)
    )


def _kind(is_counter: bool) -> Any:
    return "counter" if is_counter else "gauge"


def _name(text: str) -> str:
    if not text or len(text) > _MAX_NAME:
        raise ProtocolError("a monitor or metric without a usable name")
    return text


def _samples(message: MonitorSamples) -> list[MonitorSample]:
    samples = []
    for one in message.samples:
        if abs(one.at_ns) > _MAX_NS or not 0 <= one.took_ns <= _MAX_NS:
            raise ProtocolError("a sample at no time")
        if len(one.values) > _MAX_METRICS:
            raise ProtocolError(f"a sample of {len(one.values)} values")
        failure = one.failure[:_MAX_NAME] or None
        # what is beyond all numbers is as good as missing
        values = tuple(v if math.isfinite(v) else math.nan for v in one.values)
        samples.append(
            MonitorSample(_name(one.monitor), one.at_ns, one.took_ns, values, failure)
        )
    return samples
