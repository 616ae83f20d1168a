# SPDX-License-Identifier: Apache-2.0
"""The agent's state machine: every edge, and every pair of state and event."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from ldapslam.agent.run import (
    DRAIN_SLACK_NS,
    LEASE_SLACK_NS,
    LEAST_COORDINATOR_TIMEOUT_NS,
    AgentRun,
    AgentRunEvent,
    AgentRunState,
    CleanUpProgressed,
    CoordinatorHeard,
    DrainEngine,
    EngineExited,
    EngineFailed,
    EngineFinished,
    EngineReady,
    EngineStarted,
    ExtendLease,
    IntervalClosed,
    KillEngine,
    LaunchEngine,
    LeaveFleet,
    PrepareReceived,
    RefuseEvent,
    ReportCleanUp,
    ReportFailed,
    ReportFinished,
    ReportInterval,
    ReportReady,
    ReportStarted,
    StartEngine,
    StartReceived,
    StopReceived,
    TerminateRequested,
    TimePassed,
)
from ldapslam.base.errors import FleetError, LdapSlamError, RunAborted

S = 1_000_000_000
GRACE_NS = 10 * S
TIMEOUT_NS = 60 * S
T0_NS = 2 * S
FACTS = {"kernel_stamps": True}
ERROR = RunAborted("for the test")
State = AgentRunState

#: The straight way: two planned intervals, then the drain.
WAY: dict[AgentRunState, tuple[AgentRunEvent, int]] = {
    State.PREPARING: (PrepareReceived("r", TIMEOUT_NS), 0),
    State.READY: (EngineReady(FACTS, 2, GRACE_NS), S),
    State.ARMED: (StartReceived("r", T0_NS), S),
    State.RUNNING: (EngineStarted(5), T0_NS),
    State.DRAINING: (IntervalClosed(1, "second"), 4 * S),
}


def agent_in(state: AgentRunState) -> AgentRun:
    """An agent that has come to `state` in run r on the straight way."""
    agent = AgentRun()
    for step, (event, now_ns) in WAY.items():
        if agent.state is state:
            break
        agent.handle(event, now_ns)
        assert agent.state is step
    assert agent.state is state
    return agent


EVENTS: tuple[AgentRunEvent, ...] = (
    PrepareReceived("r", TIMEOUT_NS),
    PrepareReceived("other", TIMEOUT_NS),
    StartReceived("r", T0_NS),
    StartReceived("other", T0_NS),
    StopReceived("r", "enough"),
    StopReceived("r", "enough", abandon=True),
    StopReceived("other", "enough"),
    EngineReady(FACTS, 2, GRACE_NS),
    EngineStarted(5),
    IntervalClosed(0, "first"),
    IntervalClosed(1, "second"),
    EngineFinished(FACTS),
    EngineFailed(ERROR),
    EngineExited("killed by SIGSEGV"),
    CoordinatorHeard(),
    TimePassed(),
    TerminateRequested("SIGTERM"),
    CleanUpProgressed(7),
)
(
    _PREPARE,
    _PREPARE_OTHER,
    _START,
    _START_OTHER,
    _STOP,
    _ABANDON,
    _STOP_OTHER,
    _READY,
    _STARTED,
    _INTERVAL,
    _LAST_INTERVAL,
    _FINISHED,
    _FAILED,
    _EXITED,
    _HEARD,
    _TIME,
    _TERMINATE,
    _CLEAN_UP,
) = range(len(EVENTS))

#: In each state with a run.
STAYS = (_PREPARE, _PREPARE_OTHER, _HEARD, _TIME)
ENDS = (_ABANDON, _EXITED, _FAILED)
#: State -> number of an event above -> state after it; what is not here is refused.
EDGES: dict[AgentRunState, dict[int, AgentRunState]] = {
    state: {
        **dict.fromkeys(STAYS, state),
        **dict.fromkeys(ENDS, State.IDLE),
        **others,
    }
    for state, others in {
        State.PREPARING: {
            _STOP: State.IDLE,
            _READY: State.READY,
            _TERMINATE: State.IDLE,
        },
        State.READY: {
            _START: State.ARMED,
            _STOP: State.IDLE,
            _TERMINATE: State.IDLE,
        },
        State.ARMED: {
            _STOP: State.DRAINING,
            _STARTED: State.RUNNING,
            _INTERVAL: State.ARMED,
            _LAST_INTERVAL: State.DRAINING,
            _FINISHED: State.IDLE,
            _TERMINATE: State.DRAINING,
            _CLEAN_UP: State.ARMED,
        },
        State.RUNNING: {
            _STOP: State.DRAINING,
            _INTERVAL: State.RUNNING,
            _LAST_INTERVAL: State.DRAINING,
            _FINISHED: State.IDLE,
            _TERMINATE: State.DRAINING,
            _CLEAN_UP: State.RUNNING,
        },
        State.DRAINING: {
            _STOP: State.DRAINING,
            _STARTED: State.DRAINING,
            _INTERVAL: State.DRAINING,
            _LAST_INTERVAL: State.DRAINING,
            _FINISHED: State.IDLE,
            _TERMINATE: State.DRAINING,
            _CLEAN_UP: State.DRAINING,
        },
    }.items()
}
EDGES[State.IDLE] = {
    _PREPARE: State.PREPARING,
    _PREPARE_OTHER: State.PREPARING,
    _HEARD: State.IDLE,
    _TERMINATE: State.IDLE,
}


@pytest.mark.parametrize(
    ("state", "number"), list(itertools.product(State, range(len(EVENTS))))
)
def test_every_event_in_every_state_does_what_the_table_says(
    state: AgentRunState, number: int
) -> None:
    agent = agent_in(state)
    event = EVENTS[number]
    commands = agent.handle(event, S + 1)
    expected = EDGES[state].get(number)
    if expected is None:
        assert commands == [RefuseEvent(event, state)]
    else:
        assert not any(isinstance(command, RefuseEvent) for command in commands)
    assert agent.state is (expected or state)
    assert (agent.run_id is None) == (agent.state is State.IDLE)


def failure_in(commands: Sequence[object]) -> LdapSlamError:
    (failure,) = (item for item in commands if isinstance(item, ReportFailed))
    return failure.error


def test_the_straight_way_from_the_order_to_the_last_report() -> None:
    agent = AgentRun()
    assert agent.handle(PrepareReceived("r", TIMEOUT_NS), 0) == [LaunchEngine("r")]
    assert agent.handle(EngineReady(FACTS, 2, GRACE_NS), S) == [ReportReady("r", FACTS)]
    assert agent.handle(StartReceived("r", T0_NS), S) == [
        StartEngine(T0_NS, TIMEOUT_NS + LEASE_SLACK_NS),
    ]
    assert agent.handle(EngineStarted(5), T0_NS) == [ReportStarted("r", 5)]
    assert agent.handle(IntervalClosed(0, "x"), 3 * S) == [ReportInterval("r", 0, "x")]
    assert agent.handle(IntervalClosed(1, "y"), 4 * S) == [
        ExtendLease(4 * S + GRACE_NS + DRAIN_SLACK_NS),
        ReportInterval("r", 1, "y"),
    ]
    assert agent.handle(IntervalClosed(2, "z"), 5 * S) == [ReportInterval("r", 2, "z")]
    assert agent.handle(EngineFinished(FACTS), 5 * S) == [
        ReportFinished("r", "", 3, FACTS)
    ]
    # the process's exit is no news any more
    event = EngineExited("exit status 0")
    assert agent.handle(event, 5 * S) == [RefuseEvent(event, State.IDLE)]


def test_the_engines_lease_begins_when_the_coordinator_was_last_heard() -> None:
    agent = agent_in(State.RUNNING)
    assert agent.handle(CoordinatorHeard(), 7 * S) == [
        ExtendLease(7 * S + TIMEOUT_NS + LEASE_SLACK_NS)
    ]


@pytest.mark.parametrize("reason", ["", "its agent did not extend the lease"])
def test_an_engine_may_end_before_its_plan_does(reason: str) -> None:
    """When it is through with its counts, or for want of a lease."""
    agent = agent_in(State.RUNNING)
    last = IntervalClosed(0, "x", is_final=True)
    assert agent.handle(last, 3 * S) == [ReportInterval("r", 0, "x")]
    states = [agent.state]
    assert agent.handle(EngineFinished(FACTS, reason), 3 * S) == [
        ReportFinished("r", reason, 1, FACTS)
    ]
    assert [*states, agent.state] == [State.DRAINING, State.IDLE]


def test_a_clean_up_that_makes_progress_may_take_longer_than_the_drain() -> None:
    agent = agent_in(State.DRAINING)
    limit_ns = GRACE_NS + DRAIN_SLACK_NS
    report = ReportCleanUp("r", 700)
    assert agent.handle(CleanUpProgressed(700), 3 * S + limit_ns) == [report]
    assert agent.handle(TimePassed(), 3 * S + 2 * limit_ns - 1) == []
    commands = agent.handle(TimePassed(), 3 * S + 2 * limit_ns)
    assert "did not end its drain" in str(failure_in(commands))


def test_sequence_numbers_begin_anew_with_each_run() -> None:
    agent = agent_in(State.DRAINING)
    agent.handle(EngineFinished(FACTS), 5 * S)
    agent.handle(PrepareReceived("r2", TIMEOUT_NS), 6 * S)
    agent.handle(EngineReady(FACTS, 2, GRACE_NS), 6 * S)
    agent.handle(StartReceived("r2", 7 * S), 6 * S)
    assert agent.handle(IntervalClosed(0, "x"), 8 * S) == [ReportInterval("r2", 0, "x")]


@pytest.mark.parametrize("state", [State.PREPARING, State.RUNNING])
def test_a_second_run_is_turned_away(state: AgentRunState) -> None:
    agent = agent_in(state)
    commands = agent.handle(PrepareReceived("other", TIMEOUT_NS), S)
    (report,) = commands
    assert isinstance(report, ReportFailed)
    assert report.run_id == "other"
    assert isinstance(report.error, FleetError)
    assert agent.run_id == "r"
    assert agent.handle(PrepareReceived("r", TIMEOUT_NS), S) == []


def test_an_order_to_start_that_comes_after_t0_fails_the_run() -> None:
    agent = agent_in(State.READY)
    commands = agent.handle(StartReceived("r", T0_NS), T0_NS + 1_500_000)
    assert commands[0] == KillEngine()
    assert "1.5 ms after T0" in str(failure_in(list(commands)))


@pytest.mark.parametrize("state", [State.PREPARING, State.READY])
def test_a_stop_before_the_load_kills_the_engine(state: AgentRunState) -> None:
    agent = agent_in(state)
    assert agent.handle(StopReceived("r", "cancelled"), S) == [
        KillEngine(),
        ReportFinished("r", "cancelled", 0, {}),
    ]


@pytest.mark.parametrize("state", [State.ARMED, State.RUNNING])
def test_a_stop_under_load_drains_and_says_why(state: AgentRunState) -> None:
    agent = agent_in(state)
    assert agent.handle(StopReceived("r", "cancelled"), S) == [DrainEngine()]
    assert agent.handle(IntervalClosed(0, "cut"), S) == [ReportInterval("r", 0, "cut")]
    assert agent.handle(EngineFinished(FACTS), S) == [
        ReportFinished("r", "cancelled", 1, FACTS)
    ]


def test_a_stop_in_the_planned_drain_does_not_make_it_an_early_end() -> None:
    agent = agent_in(State.DRAINING)
    assert agent.handle(StopReceived("r", "another agent was lost"), 5 * S) == []
    (report,) = agent.handle(EngineFinished(FACTS), 5 * S)
    assert isinstance(report, ReportFinished)
    assert report.early_reason == ""


@pytest.mark.parametrize("state", [State.PREPARING, State.RUNNING, State.DRAINING])
def test_an_abandoned_run_ends_at_once(state: AgentRunState) -> None:
    commands = agent_in(state).handle(StopReceived("r", "too long", abandon=True), S)
    assert commands[0] == KillEngine()
    assert "too long" in str(failure_in(list(commands)))


@pytest.mark.parametrize(
    "state",
    [State.PREPARING, State.READY, State.ARMED, State.RUNNING, State.DRAINING],
)
def test_a_crash_of_the_engine_fails_the_run_and_the_agent_serves_on(
    state: AgentRunState,
) -> None:
    agent = agent_in(state)
    commands = agent.handle(EngineExited("killed by SIGSEGV"), 5 * S)
    assert "SIGSEGV" in str(failure_in(list(commands)))
    assert agent.handle(PrepareReceived("next", TIMEOUT_NS), 6 * S) == [
        LaunchEngine("next")
    ]


def test_an_engine_overdue_in_its_drain_is_killed() -> None:
    agent = agent_in(State.DRAINING)
    deadline_ns = 4 * S + GRACE_NS + DRAIN_SLACK_NS
    assert agent.handle(TimePassed(), deadline_ns - 1) == []
    commands = agent.handle(TimePassed(), deadline_ns)
    assert commands[0] == KillEngine()
    assert isinstance(failure_in(list(commands)), RunAborted)


@pytest.mark.parametrize("state", [State.ARMED, State.RUNNING])
def test_load_without_a_coordinator_goes_on_for_the_coordinator_timeout(
    state: AgentRunState,
) -> None:
    agent = agent_in(state)
    agent.handle(CoordinatorHeard(), 5 * S)
    assert agent.handle(TimePassed(), 5 * S + TIMEOUT_NS - 1) == []
    assert agent.handle(TimePassed(), 5 * S + TIMEOUT_NS) == [DrainEngine()]
    (report,) = agent.handle(EngineFinished(FACTS), 70 * S)
    assert isinstance(report, ReportFinished)
    assert report.early_reason == "no coordinator for 60 s"


def test_an_coordinator_timeout_beyond_all_measure_is_a_year() -> None:
    machine = AgentRun()
    machine.handle(PrepareReceived("r1", 2**64 - 1), 0)
    machine.handle(EngineReady({}, 5, 0), 0)
    commands = machine.handle(StartReceived("r1", S), 0)
    (start,) = (one for one in commands if isinstance(one, StartEngine))
    assert start.lease_until_mono_ns < 2**56


def test_a_timeout_below_a_few_heartbeats_is_that_of_a_few_heartbeats() -> None:
    agent = AgentRun()
    agent.handle(PrepareReceived("r", 0), 0)
    assert agent.handle(TimePassed(), LEAST_COORDINATOR_TIMEOUT_NS - 1) == []
    assert agent.handle(TimePassed(), LEAST_COORDINATOR_TIMEOUT_NS) != []


@pytest.mark.parametrize("state", [State.PREPARING, State.READY])
def test_preparations_without_a_coordinator_are_given_up(state: AgentRunState) -> None:
    commands = agent_in(state).handle(TimePassed(), TIMEOUT_NS)
    assert commands[0] == KillEngine()
    assert isinstance(commands[1], ReportFinished)


def test_an_agent_told_to_end_drains_then_leaves() -> None:
    agent = agent_in(State.RUNNING)
    assert agent.handle(TerminateRequested("SIGTERM"), 3 * S) == [DrainEngine()]
    # no new run on the way out
    (refused,) = agent.handle(PrepareReceived("next", 0), 3 * S)
    assert isinstance(refused, ReportFailed)
    assert agent.handle(EngineFinished(FACTS), 4 * S) == [
        ReportFinished("r", "SIGTERM", 0, FACTS),
        LeaveFleet("SIGTERM"),
    ]


def test_an_idle_agent_told_to_end_leaves_and_takes_no_run() -> None:
    agent = AgentRun()
    commands = agent.handle(TerminateRequested("SIGTERM"), 0)
    assert commands == [LeaveFleet("SIGTERM")]
    (refused,) = agent.handle(PrepareReceived("next", 0), 0)
    assert isinstance(refused, ReportFailed)
    assert agent.state is State.IDLE


@pytest.mark.parametrize("state", [State.RUNNING, State.DRAINING])
def test_a_second_request_to_end_forces(state: AgentRunState) -> None:
    agent = agent_in(state)
    agent.handle(TerminateRequested("SIGTERM"), 3 * S)
    commands = agent.handle(TerminateRequested("SIGTERM"), 4 * S)
    assert commands[0] == KillEngine()
    assert isinstance(commands[1], ReportFailed)
    assert commands[2] == LeaveFleet("SIGTERM", at_once=True)
    assert agent.state is State.IDLE
