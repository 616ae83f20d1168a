# SPDX-License-Identifier: Apache-2.0
"""The fleet's state machine: every edge, and every pair of state and event."""

from __future__ import annotations

import itertools

import pytest

from ldapslam.coordinator.fleet import (
    LOST_AFTER_NS,
    AgentHeard,
    AgentLeft,
    AgentRegistered,
    AgentReleased,
    AgentState,
    AssignRun,
    Fleet,
    FleetEvent,
    QueueState,
    RefuseEvent,
    RefuseRun,
    ReportLoss,
    RunEnded,
    RunSubmitted,
    RunWithdrawn,
    Selection,
    StopStray,
    TimePassed,
)

S = 1_000_000_000
ONE = Selection(count=1)
TARGETS = frozenset({"ldap://ds1"})


def fleet_of(*names: str) -> Fleet:
    fleet = Fleet()
    for name in names:
        assert fleet.handle(AgentRegistered(name, f"{name}-1"), 0) == []
    return fleet


def submit(
    fleet: Fleet, run_id: str, selection: Selection = ONE, *targets: str
) -> list[object]:
    event = RunSubmitted(run_id, selection, frozenset(targets or {run_id}))
    return list(fleet.handle(event, 0))


# Agents.


def agent_in(state: AgentState) -> Fleet:
    """A fleet whose agent a is in `state`; assigned means to run r."""
    if state is AgentState.ABSENT:
        return Fleet()
    fleet = fleet_of("a")
    if state is AgentState.ASSIGNED:
        submit(fleet, "r")
    elif state is AgentState.LOST:
        fleet.handle(TimePassed(), LOST_AFTER_NS)
    elif state is AgentState.LEFT:
        fleet.handle(AgentLeft("a", "bye"), 0)
    assert fleet.agent_state("a") is state
    return fleet


AGENT_EVENTS: tuple[FleetEvent, ...] = (
    AgentRegistered("a", "a-1"),
    AgentRegistered("a", "a-2"),
    AgentHeard("a"),
    AgentLeft("a", "bye"),
    AgentReleased("a", "r"),
    TimePassed(),
)
_REGISTER, _RESTART, _HEARD, _LEFT, _RELEASED, _TIME = range(6)
#: (state, number of the event above) -> state after it; not here: refused.
AGENT_EDGES: dict[tuple[AgentState, int], AgentState] = {
    (AgentState.ABSENT, _REGISTER): AgentState.IDLE,
    (AgentState.ABSENT, _RESTART): AgentState.IDLE,
    (AgentState.ABSENT, _TIME): AgentState.ABSENT,
    (AgentState.IDLE, _REGISTER): AgentState.IDLE,
    (AgentState.IDLE, _RESTART): AgentState.IDLE,
    (AgentState.IDLE, _HEARD): AgentState.IDLE,
    (AgentState.IDLE, _LEFT): AgentState.LEFT,
    (AgentState.IDLE, _TIME): AgentState.LOST,
    (AgentState.ASSIGNED, _REGISTER): AgentState.ASSIGNED,
    (AgentState.ASSIGNED, _RESTART): AgentState.IDLE,
    (AgentState.ASSIGNED, _HEARD): AgentState.ASSIGNED,
    (AgentState.ASSIGNED, _LEFT): AgentState.LEFT,
    (AgentState.ASSIGNED, _RELEASED): AgentState.IDLE,
    (AgentState.ASSIGNED, _TIME): AgentState.LOST,
    (AgentState.LOST, _REGISTER): AgentState.IDLE,
    (AgentState.LOST, _RESTART): AgentState.IDLE,
    (AgentState.LOST, _TIME): AgentState.LOST,
    (AgentState.LEFT, _REGISTER): AgentState.IDLE,
    (AgentState.LEFT, _RESTART): AgentState.IDLE,
    (AgentState.LEFT, _TIME): AgentState.LEFT,
}


@pytest.mark.parametrize(
    ("state", "number"), list(itertools.product(AgentState, range(len(AGENT_EVENTS))))
)
def test_every_agent_event_in_every_state_does_what_the_table_says(
    state: AgentState, number: int
) -> None:
    fleet = agent_in(state)
    event = AGENT_EVENTS[number]
    commands = fleet.handle(event, 10 * S)
    expected = AGENT_EDGES.get((state, number))
    if expected is None:
        assert commands == [RefuseEvent(event, state)]
    else:
        assert not any(isinstance(command, RefuseEvent) for command in commands)
    assert fleet.agent_state("a") is (expected or state)


def test_an_agent_is_lost_after_four_silent_seconds_and_not_before() -> None:
    fleet = fleet_of("a", "b")
    submit(fleet, "r")
    fleet.handle(AgentHeard("b"), 1 * S)
    assert fleet.handle(TimePassed(), LOST_AFTER_NS - 1) == []
    assert fleet.handle(TimePassed(), LOST_AFTER_NS) == [
        ReportLoss("a", "r", LOST_AFTER_NS, "nothing was heard of it")
    ]
    assert fleet.agent_state("b") is AgentState.IDLE


def test_loss_is_detected_within_five_seconds() -> None:
    # heartbeats come every second, the clock is looked at four times a second
    assert LOST_AFTER_NS + S // 4 < 5 * S


def test_a_restarted_agent_takes_its_part_of_the_run_with_it() -> None:
    fleet = agent_in(AgentState.ASSIGNED)
    assert fleet.handle(AgentRegistered("a", "a-2"), 2 * S) == [
        ReportLoss("a", "r", 2 * S, "it was started again")
    ]


def test_an_agent_that_reconnects_keeps_its_run() -> None:
    fleet = agent_in(AgentState.ASSIGNED)
    assert fleet.handle(AgentRegistered("a", "a-1", run_id="r"), S) == []
    (record,) = fleet.agents()
    assert record.run_id == "r"


@pytest.mark.parametrize(
    "state", [AgentState.ABSENT, AgentState.LOST, AgentState.LEFT, AgentState.IDLE]
)
def test_an_agent_busy_with_a_run_not_its_own_stops_it_before_it_gets_another(
    state: AgentState,
) -> None:
    fleet = agent_in(state)
    event = AgentRegistered("a", "a-1", run_id="old")
    assert fleet.handle(event, S) == [StopStray("a", "old")]
    assert fleet.agent_state("a") is AgentState.ASSIGNED
    assert submit(fleet, "new") == []
    assert fleet.handle(AgentReleased("a", "old"), S) == [AssignRun("new", ("a",))]


def test_release_from_another_run_is_refused() -> None:
    fleet = agent_in(AgentState.ASSIGNED)
    event = AgentReleased("a", "other")
    assert fleet.handle(event, S) == [RefuseEvent(event, AgentState.ASSIGNED)]


# Runs.


def run_in(state: QueueState) -> Fleet:
    """A fleet whose run r is in `state`."""
    fleet = fleet_of("a")
    if state is QueueState.WAITING:
        submit(fleet, "before")
    if state is not QueueState.UNKNOWN:
        submit(fleet, "r")
    assert fleet.run_state("r") is state
    return fleet


RUN_EVENTS: tuple[FleetEvent, ...] = (
    RunSubmitted("r", ONE, TARGETS),
    RunWithdrawn("r"),
    RunEnded("r"),
)
RUN_EDGES: dict[tuple[QueueState, type], QueueState] = {
    (QueueState.UNKNOWN, RunSubmitted): QueueState.HOLDING,
    (QueueState.WAITING, RunWithdrawn): QueueState.UNKNOWN,
    (QueueState.HOLDING, RunEnded): QueueState.UNKNOWN,
}


@pytest.mark.parametrize(
    ("state", "event"),
    list(itertools.product(QueueState, RUN_EVENTS)),
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_every_run_event_in_every_state_does_what_the_table_says(
    state: QueueState, event: FleetEvent
) -> None:
    fleet = run_in(state)
    commands = fleet.handle(event, S)
    expected = RUN_EDGES.get((state, type(event)))
    if expected is None:
        assert commands == [RefuseEvent(event, state)]
    assert fleet.run_state("r") is (expected or state)


def test_a_run_gets_the_first_idle_agents_by_name() -> None:
    fleet = fleet_of("c", "b", "a")
    assert submit(fleet, "r", Selection(count=2)) == [AssignRun("r", ("a", "b"))]


SELECTIONS = [
    (Selection(count=4), "4 agents"),
    (Selection(names=("a", "z")), "agents a, z"),
    (Selection(labels={"site": "x"}), "all agents labelled site=x"),
    (Selection(count=1, labels={"site": "x"}), "1 agent labelled site=x"),
]


@pytest.mark.parametrize(("selection", "wanted"), SELECTIONS)
def test_a_run_that_wants_what_is_not_there_is_refused(
    selection: Selection, wanted: str
) -> None:
    fleet = fleet_of("a", "b", "c")
    assert submit(fleet, "r", selection) == [RefuseRun("r", wanted, ("a", "b", "c"))]
    assert fleet.run_state("r") is QueueState.UNKNOWN


def test_a_run_that_wants_all_of_no_agents_is_refused() -> None:
    assert submit(Fleet(), "r", Selection()) == [
        RefuseRun("r", "at least one agent", ())
    ]


def test_agents_that_would_have_no_share_are_left_out() -> None:
    fleet = fleet_of("a", "b", "c")
    assert submit(fleet, "r", Selection(most=2)) == [AssignRun("r", ("a", "b"), ("c",))]
    assert fleet.agent_state("c") is AgentState.IDLE


def test_names_and_labels_select() -> None:
    fleet = fleet_of("a")
    fleet.handle(AgentRegistered("b", "b-1", {"site": "x", "disk": "ssd"}), 0)
    fleet.handle(AgentRegistered("c", "c-1", {"site": "x"}), 0)
    assert submit(fleet, "r", Selection(labels={"site": "x"})) == [
        AssignRun("r", ("b", "c"))
    ]
    assert submit(fleet, "s", Selection(names=("a",))) == [AssignRun("s", ("a",))]


def test_runs_that_share_a_target_run_one_after_the_other() -> None:
    fleet = fleet_of("a", "b")
    assert submit(fleet, "r", ONE, "ldap://x", "ldap://y") == [AssignRun("r", ("a",))]
    assert submit(fleet, "s", ONE, "ldap://y") == []
    assert fleet.handle(RunEnded("r"), S) == [AssignRun("s", ("b",))]


def test_an_agent_serves_one_run_at_a_time() -> None:
    fleet = fleet_of("a")
    submit(fleet, "r")
    assert submit(fleet, "s") == []
    # the run is over, but its agent has not said that its own part is
    assert fleet.handle(RunEnded("r"), S) == []
    assert fleet.handle(AgentReleased("a", "r"), S) == [AssignRun("s", ("a",))]


def test_a_waiting_run_is_not_overtaken_for_what_it_waits_for() -> None:
    fleet = fleet_of("a", "b")
    submit(fleet, "r")
    assert submit(fleet, "both", Selection(count=2)) == []
    # b is idle, but reserved
    assert submit(fleet, "late") == []
    fleet.handle(RunEnded("r"), S)
    assert fleet.handle(AgentReleased("a", "r"), S) == [AssignRun("both", ("a", "b"))]


def test_a_run_on_other_agents_and_targets_overtakes() -> None:
    fleet = fleet_of("a", "b")
    submit(fleet, "r", Selection(names=("a",)))
    submit(fleet, "s", Selection(names=("a",)))
    assert submit(fleet, "t", Selection(names=("b",))) == [AssignRun("t", ("b",))]


def test_a_run_whose_agents_went_away_reserves_nothing() -> None:
    fleet = fleet_of("a", "b")
    submit(fleet, "r", Selection(names=("a",)))
    submit(fleet, "s", Selection(names=("a", "b")))
    fleet.handle(AgentLeft("b", "bye"), S)
    fleet.handle(AgentRegistered("c", "c-1"), S)
    assert submit(fleet, "t", Selection(names=("c",))) == [AssignRun("t", ("c",))]
    fleet.handle(AgentReleased("a", "r"), S)
    # the waiting run gets its agents when they are back
    assert fleet.handle(AgentRegistered("b", "b-2"), S) == [AssignRun("s", ("a", "b"))]


def test_a_withdrawn_run_makes_way() -> None:
    fleet = fleet_of("a", "b")
    submit(fleet, "r")
    submit(fleet, "both", Selection(count=2))
    submit(fleet, "late")
    assert fleet.handle(RunWithdrawn("both"), S) == [AssignRun("late", ("b",))]
