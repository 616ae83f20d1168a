# SPDX-License-Identifier: Apache-2.0
"""Recovers the runs that an earlier coordinator left open. Pure.

    queued, preparing            -> queued again: no load has begun
    ready, T0 not told           -> queued again
    ready, running, draining     -> taken up as it is
    without its submission       -> closed: an older ldapslam began it

Which agents have ended their part is in their facts ("part"), written before the
agent's report was acknowledged; that T0 was told is in the manifest ("t0").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ldapslam.base.errors import LdapSlamError
from ldapslam.coordinator.runs.run import Ending, Part, RunState
from ldapslam.results.facts import AgentFacts, EndingFacts
from ldapslam.results.records import OpenRun


def ending_facts(
    ending: Ending,
    since_t0_ns: int | None = None,
    known: EndingFacts | None = None,
) -> EndingFacts:
    """The ending as the manifest keeps it. `since_t0_ns`: now; `known`: the ending of a
    drain under way, which keeps its beginning."""
    return EndingFacts(
        state=str(ending.state),
        detail=ending.detail,
        failure=ending.error.to_dict() if ending.error else None,
        drained_ns=since_t0_ns if known is None else known.drained_ns,
    )


@dataclass(frozen=True, slots=True)
class Resume:
    """The run goes on where it is."""

    state: RunState
    parts: Mapping[str, Part]
    #: T0 in the CLOCK_MONOTONIC of the earlier coordinator's host, and that host's
    #: boot.
    t0_mono_ns: int
    boot_id: str
    ending: Ending = field(default_factory=Ending)
    #: Agent with an open part -> the epoch in which it took it.
    awaited: Mapping[str, int] = field(default_factory=dict)


_WITH_LOAD = (RunState.READY, RunState.RUNNING, RunState.DRAINING)


def recovery_of(run: OpenRun) -> Resume | None:
    """How a run with its submission goes on; None: it waits for agents again."""
    record = run.record
    state = RunState(record.state)
    t0 = record.manifest.t0
    if state not in _WITH_LOAD or t0 is None:
        return None
    usual = Part.PREPARED if state is RunState.READY else Part.STARTED
    facts = {agent: run.agents.get(agent, AgentFacts()) for agent in record.agents}
    parts = {
        agent: Part(known.part) if known.part else usual
        for agent, known in facts.items()
    }
    ending = record.manifest.ending or EndingFacts()
    failure = ending.failure
    return Resume(
        state=state,
        parts=parts,
        t0_mono_ns=t0.mono_ns,
        boot_id=t0.boot_id,
        ending=Ending(
            RunState(ending.state),
            ending.detail,
            LdapSlamError.from_dict(failure) if failure else None,
        ),
        awaited={
            agent: known.epoch
            for agent, known in facts.items()
            if not parts[agent].is_over
        },
    )
