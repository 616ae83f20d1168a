# SPDX-License-Identifier: Apache-2.0
"""What becomes of each kind of run that a coordinator left open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ldapslam.base.errors import AgentLost
from ldapslam.coordinator.runs.crash_recovery import (
    Resume,
    ending_facts,
    recovery_of,
)
from ldapslam.coordinator.runs.run import Ending, Part, RunState
from ldapslam.results.facts import AgentFacts, Manifest, Start
from ldapslam.results.records import OpenRun, RunRecord, SubmissionRecord

T0 = Start(mono_ns=7, boot_id="boot")
FACTS = {"a": AgentFacts(epoch=3), "b": AgentFacts(epoch=1, part="ended")}


def left(
    state: str, facts: Mapping[str, AgentFacts] = FACTS, **manifest: Any
) -> OpenRun:
    record = RunRecord(
        *("run", "job", "", "", 1, "", ""),
        agents=("a", "b"),
        manifest=Manifest(**manifest),
        state=state,
    )
    return OpenRun(record, SubmissionRecord(b""), facts)


@pytest.mark.parametrize("state", ["queued", "preparing", "ready"])
def test_a_run_without_load_waits_again(state: str) -> None:
    assert recovery_of(left(state)) is None


@pytest.mark.parametrize(
    ("state", "part"),
    [
        ("ready", Part.PREPARED),
        ("running", Part.STARTED),
        ("draining", Part.STARTED),
    ],
)
def test_a_run_with_load_goes_on(state: str, part: Part) -> None:
    assert recovery_of(left(state, t0=T0)) == Resume(
        RunState(state), {"a": part, "b": Part.ENDED}, 7, "boot", awaited={"a": 3}
    )


def test_a_part_is_what_the_agents_facts_say() -> None:
    plan = recovery_of(
        left("ready", {"a": AgentFacts(part="started"), "b": AgentFacts()}, t0=T0)
    )
    assert isinstance(plan, Resume)
    assert plan.parts == {"a": Part.STARTED, "b": Part.PREPARED}


def test_what_a_run_was_to_end_in_is_kept() -> None:
    error = AgentLost("b", 5.0)
    ending = Ending(RunState.FAILED, str(error), error)
    plan = recovery_of(left("draining", t0=T0, ending=ending_facts(ending)))
    assert isinstance(plan, Resume)
    assert plan.ending.state is RunState.FAILED
    assert isinstance(plan.ending.error, AgentLost)
    assert plan.ending.error.to_dict() == error.to_dict()


def test_the_time_that_a_run_was_first_told_to_drain_is_kept() -> None:
    planned = ending_facts(Ending(), 60)
    failed = ending_facts(Ending(RunState.FAILED, "lost"), 70, planned)
    assert (planned.drained_ns, failed.drained_ns) == (60, 60)
    assert failed.state == "failed"
    # before T0 was told
    early = ending_facts(Ending(RunState.CANCELLED, "by ana"))
    assert early.drained_ns is None
