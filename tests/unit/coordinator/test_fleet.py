# SPDX-License-Identifier: Apache-2.0
"""The fleet's state machine: every edge, and every pair of state and event.

Its length is that of the two machines, of agents and of the queue.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from ldapslam.coordinator.fleet.fleet import (
    LEASE_SLACK_NS,
    LOST_AFTER_NS,
    PATIENCE_NS,
    AgentHeard,
    AgentHungUp,
    AgentLeft,
    AgentListens,
    AgentRegistered,
    AgentReleased,
    AgentState,
    AssignRun,
    Fleet,
    FleetEvent,
    GiveUpRun,
    LoadBegins,
    QueueState,
    ReconcileAgent,
    RefuseEvent,
    RefuseRun,
    ReportLoss,
    ReportReturn,
    ReportSilence,
    RunEnded,
    RunRecovered,
    RunRequeued,
    RunSubmitted,
    RunWithdrawn,
    StopOrphan,
    TimePassed,
)
from ldapslam.coordinator.fleet.selection import Candidate, Selection

S = 1_000_000_000
ONE = Selection(count=1)
TAKE_UP_A = ReconcileAgent("a")
TARGETS = frozenset({"ldap://ds1"})


def fleet_of(*names: str) -> Fleet:
    fleet = Fleet()
    for name in names:
        registered = AgentRegistered(name, f"{name}-1")
        assert fleet.handle(registered, 0) == [ReconcileAgent(name)]
    return fleet


def submit(
    fleet: Fleet,
    run_id: str,
    selection: Selection = ONE,
    *targets: str,
    now_ns: int = 0,
    **options: Any,
) -> list[object]:
    event = RunSubmitted(run_id, selection, frozenset(targets or {run_id}), **options)
    return list(fleet.handle(event, now_ns))


# Agents.


def agent_in(state: AgentState) -> Fleet:
    """A fleet whose agent a is in `state`; assigned means to run r."""
    if state is AgentState.ABSENT:
        return Fleet()
    fleet = fleet_of("a")
    if state is AgentState.ASSIGNED:
        submit(fleet, "r")
    elif state is AgentState.SILENT:
        submit(fleet, "r", lease_ns=60 * S)
        fleet.handle(TimePassed(), LOST_AFTER_NS)
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
    AgentHungUp("a"),
    AgentListens("a"),
)
_REGISTER, _RESTART, _HEARD, _LEFT, _RELEASED, _TIME, _HUNG_UP, _LISTENS = range(8)
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
    (AgentState.ASSIGNED, _TIME): AgentState.SILENT,
    (AgentState.ASSIGNED, _HUNG_UP): AgentState.ASSIGNED,
    (AgentState.IDLE, _HUNG_UP): AgentState.IDLE,
    (AgentState.IDLE, _LISTENS): AgentState.IDLE,
    (AgentState.ASSIGNED, _LISTENS): AgentState.ASSIGNED,
    (AgentState.SILENT, _LISTENS): AgentState.SILENT,
    (AgentState.SILENT, _REGISTER): AgentState.ASSIGNED,
    (AgentState.SILENT, _RESTART): AgentState.IDLE,
    (AgentState.SILENT, _HEARD): AgentState.ASSIGNED,
    (AgentState.SILENT, _LEFT): AgentState.LEFT,
    # the silence goes on, but there is no run whose lease could be over
    (AgentState.SILENT, _RELEASED): AgentState.SILENT,
    (AgentState.SILENT, _TIME): AgentState.SILENT,
    (AgentState.SILENT, _HUNG_UP): AgentState.SILENT,
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


#: What a registration leads to, in this order: nothing is begun on an agent, nor ended,
#: before it is reconciled, and its losses come first.
REGISTRATION = (
    (ReportLoss, ReportReturn),
    (ReconcileAgent,),
    (StopOrphan,),
    (AssignRun,),
)


@pytest.mark.parametrize("held", [(), ("r",), ("old",), ("r", "old")])
@pytest.mark.parametrize("instance", ["a-1", "a-2"])
@pytest.mark.parametrize("state", AgentState)
def test_a_registration_is_reconciled_before_anything_waiting_begins(
    state: AgentState, instance: str, held: tuple[str, ...]
) -> None:
    fleet = agent_in(state)
    submit(fleet, "w", ONE, may_wait=True)
    submit(fleet, "both", Selection(names=("a", "b")), may_wait=True)
    fleet.handle(AgentRegistered("b", "b-1"), S)
    commands = fleet.handle(AgentRegistered("a", instance, runs=held), 2 * S)
    places = [
        next(place for place, kinds in enumerate(REGISTRATION) if type(one) in kinds)
        for one in commands
    ]
    assert places == sorted(places)
    assert commands.count(TAKE_UP_A) == 1


def test_an_idle_agent_is_lost_after_four_silent_seconds_and_not_before() -> None:
    fleet = fleet_of("a", "b")
    fleet.handle(AgentHeard("b"), 1 * S)
    assert fleet.handle(TimePassed(), LOST_AFTER_NS - 1) == []
    assert fleet.handle(TimePassed(), LOST_AFTER_NS) == [
        ReportLoss("a", (), LOST_AFTER_NS, "nothing was heard of it")
    ]
    assert fleet.agent_state("b") is AgentState.IDLE


HUNG_UP = "its connection ended, and it did not come back"
OVER = "nothing was heard of it for as long as it keeps up its load"


def test_an_agent_whose_process_is_gone_is_lost_four_seconds_later() -> None:
    fleet = agent_in(AgentState.ASSIGNED)
    fleet.handle(AgentHeard("a"), 9 * S)
    fleet.handle(AgentHungUp("a"), 10 * S)
    assert fleet.handle(TimePassed(), 14 * S - 1) == []
    assert fleet.handle(TimePassed(), 14 * S) == [
        ReportLoss("a", ("r",), 5 * S, HUNG_UP)
    ]


def test_an_agent_that_only_lost_its_connection_comes_back_and_keeps_its_run() -> None:
    fleet = agent_in(AgentState.ASSIGNED)
    fleet.handle(AgentHungUp("a"), 1 * S)
    assert fleet.handle(AgentRegistered("a", "a-1", runs=("r",)), 4 * S) == [TAKE_UP_A]
    assert fleet.handle(TimePassed(), 8 * S - 1) == []
    assert fleet.agent_state("a") is AgentState.ASSIGNED
    (record,) = fleet.agents()
    assert list(record.runs) == ["r"]


def test_an_agent_may_be_back_before_the_end_of_its_connection_is_noticed() -> None:
    fleet = agent_in(AgentState.ASSIGNED)
    fleet.handle(AgentRegistered("a", "a-1", runs=("r",)), 1 * S)
    fleet.handle(AgentHungUp("a"), 2 * S)
    fleet.handle(AgentListens("a"), 3 * S)
    # silent, and its connection stands: it may go on with its load
    assert fleet.handle(TimePassed(), 9 * S) == [ReportSilence("a", ("r",), 8 * S)]
    assert fleet.agent_state("a") is AgentState.SILENT


def test_a_silent_agent_keeps_its_run_until_its_lease_is_over() -> None:
    fleet = fleet_of("a")
    submit(fleet, "r", lease_ns=60 * S)
    assert fleet.handle(TimePassed(), LOST_AFTER_NS) == [
        ReportSilence("a", ("r",), LOST_AFTER_NS)
    ]
    # of a silent agent it is our own end that gives the connection up
    fleet.handle(AgentHungUp("a"), 15 * S)
    lost_ns = 60 * S + LEASE_SLACK_NS
    assert fleet.handle(TimePassed(), lost_ns - 1) == []
    assert fleet.handle(TimePassed(), lost_ns) == [
        ReportLoss("a", ("r",), lost_ns, OVER)
    ]
    assert fleet.agent_state("a") is AgentState.LOST


def test_a_silent_agent_gets_no_run_until_it_is_heard_again() -> None:
    fleet = takes_two("a")
    submit(fleet, "r")
    fleet.handle(TimePassed(), LOST_AFTER_NS)
    assert submit(fleet, "s", may_wait=True) == []
    assert fleet.handle(AgentHeard("a"), 10 * S) == [
        ReportReturn("a", ("r",), 10 * S),
        AssignRun("s", ("a",)),
    ]
    assert fleet.handle(TimePassed(), 11 * S) == []


def takes_two(*names: str) -> Fleet:
    """Agents that take two runs at a time."""
    fleet = Fleet()
    for name in names:
        fleet.handle(AgentRegistered(name, f"{name}-1", max_runs=2), 0)
    return fleet


def test_a_silent_agent_loses_its_runs_one_by_one() -> None:
    fleet = takes_two("a")
    submit(fleet, "short", lease_ns=10 * S)
    submit(fleet, "long", lease_ns=20 * S)
    fleet.handle(TimePassed(), LOST_AFTER_NS)
    short_ns, long_ns = 10 * S + LEASE_SLACK_NS, 20 * S + LEASE_SLACK_NS
    assert fleet.handle(TimePassed(), short_ns) == [
        ReportLoss("a", ("short",), short_ns, OVER, is_gone=False)
    ]
    assert fleet.agent_state("a") is AgentState.SILENT
    assert fleet.handle(TimePassed(), long_ns) == [
        ReportLoss("a", ("long",), long_ns, OVER)
    ]


@pytest.mark.parametrize(
    "state", [AgentState.ABSENT, AgentState.LOST, AgentState.LEFT, AgentState.IDLE]
)
def test_an_agent_busy_with_a_run_not_its_own_stops_it_before_it_gets_another(
    state: AgentState,
) -> None:
    fleet = agent_in(state)
    event = AgentRegistered("a", "a-1", runs=("old",))
    assert fleet.handle(event, S) == [TAKE_UP_A, StopOrphan("a", "old")]
    assert fleet.agent_state("a") is AgentState.ASSIGNED
    assert submit(fleet, "new") == []
    assert fleet.handle(AgentReleased("a", "old"), S) == [AssignRun("new", ("a",))]


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
    RunRequeued("r", ("a",)),
    RunRecovered("r", TARGETS, {"a": 0}),
)
RUN_EDGES: dict[tuple[QueueState, type], QueueState] = {
    (QueueState.UNKNOWN, RunSubmitted): QueueState.HOLDING,
    (QueueState.WAITING, RunWithdrawn): QueueState.UNKNOWN,
    (QueueState.HOLDING, RunEnded): QueueState.UNKNOWN,
    (QueueState.HOLDING, RunRequeued): QueueState.WAITING,
    (QueueState.UNKNOWN, RunRecovered): QueueState.HOLDING,
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


ABC = ("a", "b", "c")
SITE_X = {"site": "x"}
UNLABELLED = ("a, b, c: not labelled site=x",)
SELECTIONS = [
    (Selection(count=4), "4 agents", ABC, ()),
    (Selection(names=("a", "z")), "agents a, z", ABC, ()),
    (Selection(labels=SITE_X), "all agents labelled site=x", (), UNLABELLED),
    (Selection(count=1, labels=SITE_X), "1 agent labelled site=x", (), UNLABELLED),
]


@pytest.mark.parametrize(("selection", "wanted", "available", "ineligible"), SELECTIONS)
def test_a_run_that_wants_what_is_not_there_is_refused(
    selection: Selection,
    wanted: str,
    available: tuple[str, ...],
    ineligible: tuple[str, ...],
) -> None:
    fleet = fleet_of(*ABC)
    refused = RefuseRun("r", wanted, available, ineligible)
    assert submit(fleet, "r", selection) == [refused]
    assert fleet.run_state("r") is QueueState.UNKNOWN


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
    assert submit(fleet, "s", ONE, "ldap://y", "ldap://z") == []
    assert fleet.handle(AgentReleased("a", "r"), S) == []
    assert fleet.handle(RunEnded("r"), S) == [AssignRun("s", ("a",))]


def on_x() -> Fleet:
    """Agent a has begun its load on target x, for which run s of agent b waits."""
    fleet = fleet_of("a", "b")
    submit(fleet, "r", ONE, "ldap://x", lease_ns=60 * S)
    submit(fleet, "s", Selection(names=("b",)), "ldap://x")
    assert fleet.handle(LoadBegins("r"), 0) == []
    return fleet


def lost_on_x() -> Fleet:
    """Agent a has lost its connection then."""
    fleet = on_x()
    fleet.handle(AgentHungUp("a"), 0)
    fleet.handle(AgentHeard("b"), 4 * S)
    assert fleet.handle(TimePassed(), 4 * S) == [
        ReportLoss("a", ("r",), 4 * S, HUNG_UP)
    ]
    assert fleet.handle(RunEnded("r"), 4 * S) == [], "its load may go on"
    return fleet


S_BEGINS = AssignRun("s", ("b",))


def test_the_target_of_a_lost_agent_is_free_when_its_lease_is_over() -> None:
    fleet = lost_on_x()
    over_ns = 60 * S + LEASE_SLACK_NS
    fleet.handle(AgentHeard("b"), over_ns - 1)
    assert fleet.handle(TimePassed(), over_ns - 1) == []
    assert fleet.handle(TimePassed(), over_ns) == [S_BEGINS]


def test_the_target_of_a_lost_agent_is_free_when_it_is_back_without_load() -> None:
    restarted = AgentRegistered("a", "a-2")
    assert lost_on_x().handle(restarted, 5 * S) == [TAKE_UP_A, S_BEGINS]
    fleet = lost_on_x()
    back = AgentRegistered("a", "a-1", runs=("r",))
    assert fleet.handle(back, 5 * S) == [TAKE_UP_A, StopOrphan("a", "r")]
    assert fleet.handle(AgentReleased("a", "r"), 6 * S) == [S_BEGINS]


def test_the_target_of_a_run_that_ended_without_its_agent_is_not_free_yet() -> None:
    fleet = on_x()
    assert fleet.handle(RunEnded("r"), S) == []
    assert fleet.handle(AgentReleased("a", "r"), 2 * S) == [S_BEGINS]


def test_the_target_of_a_run_whose_load_had_not_begun_is_free_at_once() -> None:
    fleet = fleet_of("a", "b", "c")
    submit(fleet, "r", Selection(count=2), "ldap://x", lease_ns=600 * S)
    for name in ("b", "c"):
        fleet.handle(AgentHeard(name), 4 * S)
    fleet.handle(AgentHungUp("a"), 0)
    fleet.handle(TimePassed(), 4 * S)
    assert fleet.agent_state("a") is AgentState.LOST
    fleet.handle(AgentReleased("b", "r"), 5 * S)
    begins_anew = RunRequeued("r", ("b",))
    assert fleet.handle(begins_anew, 5 * S) == [AssignRun("r", ("b",))]


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
    assert fleet.handle(AgentRegistered("b", "b-2"), S) == [
        ReconcileAgent("b"),
        AssignRun("s", ("a", "b")),
    ]


def test_an_agent_that_takes_two_runs_gets_two() -> None:
    fleet = takes_two("a")
    assert submit(fleet, "r") == [AssignRun("r", ("a",))]
    assert submit(fleet, "s") == [AssignRun("s", ("a",))]
    assert submit(fleet, "t") == []
    assert fleet.handle(AgentReleased("a", "r"), S) == [AssignRun("t", ("a",))]
    assert fleet.agent_state("a") is AgentState.ASSIGNED


def test_the_least_busy_agents_come_first() -> None:
    fleet = takes_two("a", "b")
    assert submit(fleet, "r") == [AssignRun("r", ("a",))]
    assert submit(fleet, "s") == [AssignRun("s", ("b",))]


def test_agents_are_taken_of_each_host_in_turn() -> None:
    fleet = Fleet()
    for name, host in {"a": "x", "b": "x", "c": "y", "d": "z"}.items():
        fleet.handle(AgentRegistered(name, f"{name}-1", host_id=host), 0)
    assert submit(fleet, "r", Selection(count=3, hosts=4)) == [
        RefuseRun("r", "3 agents on 4 hosts", ("a", "b", "c", "d"))
    ]
    assert submit(fleet, "r", Selection(count=3)) == [AssignRun("r", ("a", "c", "d"))]


def test_a_restricted_agent_is_for_runs_that_name_it() -> None:
    fleet = fleet_of("b")
    fleet.handle(AgentRegistered("a", "a-1", {"site": "x"}, is_restricted=True), 0)
    assert submit(fleet, "r", Selection()) == [AssignRun("r", ("b",))]
    assert submit(fleet, "t", Selection(names=("a",))) == [AssignRun("t", ("a",))]


def test_a_refusal_says_which_agents_take_only_jobs_that_name_them() -> None:
    fleet = fleet_of("b")
    fleet.handle(AgentRegistered("a", "a-1", SITE_X, is_restricted=True), 0)
    one = ("a: only for jobs that name them",)
    two = Selection(count=2)
    assert submit(fleet, "r", two) == [RefuseRun("r", "2 agents", ("b",), one)]
    fleet.handle(AgentRegistered("c", "c-1", is_restricted=True), 0)
    assert submit(fleet, "r", Selection(count=1, labels=SITE_X)) == [
        RefuseRun(
            "r",
            "1 agent labelled site=x",
            (),
            ("a, c: only for jobs that name them", "b: not labelled site=x"),
        )
    ]
    named = Selection(names=("a", "z"))
    assert submit(fleet, "r", named) == [RefuseRun("r", "agents a, z", ABC)]
    submit(fleet, "r", two, may_wait=True, agents_until_ns=S)
    both = ("a, c: only for jobs that name them",)
    assert GiveUpRun("r", "2 agents", ("b",), both) in fleet.handle(TimePassed(), S)


def test_a_higher_priority_comes_first() -> None:
    fleet = fleet_of("a")
    submit(fleet, "r")
    submit(fleet, "low", priority=-1)
    submit(fleet, "usual")
    submit(fleet, "urgent", priority=5)
    released = "r"
    for run_id in ("urgent", "usual", "low"):
        assigned = fleet.handle(AgentReleased("a", released), S)
        assert assigned == [AssignRun(run_id, ("a",))]
        released = run_id


def test_runs_that_both_share_their_target_run_together() -> None:
    fleet = fleet_of("a", "b", "c", "d")
    assert submit(fleet, "r", ONE, "x", is_sharing=True) == [AssignRun("r", ("a",))]
    assert submit(fleet, "s", ONE, "x", is_sharing=True) == [AssignRun("s", ("b",))]
    assert submit(fleet, "alone", ONE, "x") == []
    # nor is the one that waits for it overtaken
    assert submit(fleet, "late", ONE, "x", is_sharing=True) == []
    for agent, run_id in (("a", "r"), ("b", "s")):
        fleet.handle(AgentReleased(agent, run_id), S)
    fleet.handle(RunEnded("r"), S)
    assert fleet.handle(RunEnded("s"), S) == [AssignRun("alone", ("a",))]


def test_a_run_may_wait_for_agents_up_to_its_deadline() -> None:
    fleet = fleet_of("a")
    two = Selection(count=2)
    assert submit(fleet, "r", two, may_wait=True, agents_until_ns=3 * S) == []
    assert fleet.handle(TimePassed(), 3 * S - 1) == []
    assert fleet.handle(TimePassed(), 3 * S) == [GiveUpRun("r", "2 agents", ("a",))]
    assert fleet.run_state("r") is QueueState.UNKNOWN


def test_a_run_that_waits_for_agents_gets_them_when_they_come() -> None:
    fleet = Fleet()
    assert submit(fleet, "r", may_wait=True, agents_until_ns=3 * S) == []
    assert fleet.handle(AgentRegistered("a", "a-1"), S) == [
        TAKE_UP_A,
        AssignRun("r", ("a",)),
    ]


def test_a_run_that_begins_anew_waits_for_its_agents_to_end_their_part() -> None:
    fleet = fleet_of("a", "b", "c")
    submit(fleet, "r", Selection(names=("a", "b")))
    assert fleet.handle(RunRequeued("r", ("a",)), S) == []
    fleet.handle(AgentReleased("b", "r"), S)
    assert fleet.handle(AgentReleased("a", "r"), S) == [AssignRun("r", ("a",))]


def test_a_run_that_begins_anew_gives_up_when_one_of_its_agents_is_gone() -> None:
    fleet = fleet_of("a", "b", "c")
    submit(fleet, "r", Selection(names=("a", "b", "c")))
    fleet.handle(RunRequeued("r", ("a", "b")), S)
    fleet.handle(AgentReleased("a", "r"), S)
    fleet.handle(AgentLeft("b", "bye"), S)
    fleet.handle(AgentHeard("a"), S + PATIENCE_NS)
    assert GiveUpRun("r", "agents a, b", ("a",)) in fleet.handle(
        TimePassed(), S + PATIENCE_NS
    )
    assert fleet.run_state("r") is QueueState.UNKNOWN


# What a coordinator before this one left.


@pytest.mark.parametrize("runs", [("r",), ()], ids=["goes on", "has ended its part"])
def test_agents_of_a_recovered_run_are_awaited_as_long_as_they_keep_up_the_load(
    runs: tuple[str, ...],
) -> None:
    fleet = Fleet()
    fleet.handle(RunRecovered("r", TARGETS, {"a": 3, "b": 1}, lease_ns=60 * S), 0)
    assert fleet.agent_state("a") is AgentState.SILENT
    back = AgentRegistered("a", "a-1", runs=runs, epoch=3)
    assert fleet.handle(back, S) == [ReportReturn("a", ("r",), S), TAKE_UP_A]
    assert fleet.agent_state("a") is AgentState.ASSIGNED
    fleet.handle(AgentHeard("a"), 65 * S)
    assert fleet.handle(TimePassed(), 65 * S) == [ReportLoss("b", ("r",), 65 * S, OVER)]


def test_an_agent_that_was_started_again_takes_its_part_of_the_run_with_it() -> None:
    recovered = Fleet()
    recovered.handle(RunRecovered("r", TARGETS, {"a": 3}), 0)
    for fleet in (recovered, agent_in(AgentState.ASSIGNED)):
        assert fleet.handle(AgentRegistered("a", "a-9", epoch=4), S) == [
            ReportLoss("a", ("r",), S, "it was started again"),
            TAKE_UP_A,
        ]


def test_a_recovered_run_keeps_its_targets() -> None:
    fleet = fleet_of("a")
    fleet.handle(RunRecovered("r", frozenset({"x"}), {}), 0)
    assert submit(fleet, "s", ONE, "x") == []
    assert fleet.handle(RunEnded("r"), S) == [AssignRun("s", ("a",))]


def test_the_least_busy_agent_of_a_host_comes_first() -> None:
    busy, idle = (
        Candidate(name, {}, "host", False, runs) for name, runs in (("a", 1), ("b", 0))
    )
    assert ONE.choose([busy, idle], fitting=2) == ("b",)
