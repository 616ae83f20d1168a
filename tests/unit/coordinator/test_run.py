# SPDX-License-Identifier: Apache-2.0
"""The run's state machine: every edge, and every pair of state and event.

Its length is that of the table, and of the walks through the machine.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from ldapslam.base.errors import (
    AgentLost,
    AgentUnreachable,
    BindRejected,
    FleetError,
    LdapSlamError,
    NotEnoughAgents,
    RunAborted,
    StoreError,
)
from ldapslam.coordinator.runs.run import (
    AgentFailed,
    AgentFinished,
    AgentPrepared,
    AgentsAssigned,
    AgentStarted,
    AgentVanished,
    CancelRequested,
    Command,
    ConcludeMonitors,
    ConcludeRun,
    Ending,
    EndMonitors,
    GaveUp,
    MonitorEnded,
    MonitorPrepared,
    MonitorProgressed,
    MonitorServers,
    Part,
    PartProgressed,
    PrepareAgents,
    RecordEvent,
    RecordState,
    RefuseEvent,
    ReleaseAgents,
    RequeueRun,
    Run,
    RunEvent,
    RunLimits,
    RunState,
    StartAgents,
    StartDelayed,
    StopAgents,
    StoreFailed,
    ThresholdMissed,
    TimePassed,
    Watch,
)

S = 1_000_000_000
LIMITS = RunLimits(
    planned_ns=30 * S,
    grace_ns=10 * S,
    prepare_ns=60 * S,
    start_lead_ns=1 * S,
    slack_ns=5 * S,
)
CONTINUE = RunLimits(30 * S, 10 * S, stop_on_loss=False, slack_ns=5 * S)
MISSED = ThresholdMissed("missed for 10 s: p99 < 5ms for 10s, abort")
ERROR = BindRejected("ldap://ds1", "cn=admin", 49, "")
FULL = StoreError("the disk is full")
LOST = AgentVanished("a", 4 * S, "silent")
FINISHES = ConcludeRun(RunState.FINISHED, "", None)

# The clock of the walks below: assigned at 0, ready at 1 s, T0 at 2 s.
ASSIGNED_NS, READY_NS, STARTED_NS, PLAN_OVER_NS = 0, 1 * S, 2 * S, 32 * S


def run_in(state: RunState, limits: RunLimits = LIMITS) -> Run:
    """A run of agents a and b that has come to `state` on the straight way."""
    run = Run(limits)
    ways: dict[RunState, list[tuple[RunEvent, int]]] = {
        RunState.PREPARING: [(AgentsAssigned(("a", "b")), ASSIGNED_NS)],
        RunState.READY: [
            (AgentPrepared("a"), READY_NS),
            (AgentPrepared("b"), READY_NS),
        ],
        RunState.RUNNING: [
            (AgentStarted("a"), STARTED_NS),
            (AgentStarted("b"), STARTED_NS),
        ],
        RunState.DRAINING: [(TimePassed(), PLAN_OVER_NS)],
        RunState.FINISHED: [
            (AgentFinished("a"), PLAN_OVER_NS),
            (AgentFinished("b"), PLAN_OVER_NS),
        ],
    }
    if state is RunState.CANCELLED:
        run.handle(CancelRequested("me"), 0)
        return run
    if state is RunState.FAILED:
        run.handle(AgentsAssigned(("a",)), ASSIGNED_NS)
        run.handle(AgentFailed("a", ERROR), ASSIGNED_NS)
        return run
    if state is RunState.ABORTED:
        run = run_in(RunState.RUNNING, limits)
        run.handle(MISSED, STARTED_NS)
        for agent in "ab":
            run.handle(AgentFinished(agent, MISSED.text), STARTED_NS)
        return run
    for step, events in ways.items():
        if run.state is state:
            break
        for event, now_ns in events:
            run.handle(event, now_ns)
        assert run.state is step
    assert run.state is state
    return run


#: One event of each kind; what it leads to from each state. A pair that is not here is
#: refused. Two agents: what one of them says rarely moves the run by itself.
EVENTS: tuple[RunEvent, ...] = (
    AgentsAssigned(("a", "b")),
    AgentPrepared("a"),
    StartDelayed(),
    AgentStarted("a"),
    AgentFinished("a"),
    AgentFailed("a", ERROR),
    LOST,
    CancelRequested("me"),
    TimePassed(),
    PartProgressed("a"),
    MonitorPrepared("a"),
    MonitorProgressed("a"),
    MonitorEnded("a"),
    GaveUp("nobody came"),
    StoreFailed(FULL),
    MISSED,
)
UNDER_WAY = (
    RunState.PREPARING,
    RunState.READY,
    RunState.RUNNING,
    RunState.DRAINING,
)
STAYS = (
    AgentPrepared,
    TimePassed,
    PartProgressed,
    MonitorPrepared,
    MonitorProgressed,
    MonitorEnded,
)
FAILS = (AgentFailed, AgentVanished, StoreFailed)
LEADS_TO: dict[tuple[RunState, type], RunState] = {
    **{(state, event): state for state in UNDER_WAY for event in STAYS},
    **{(state, event): RunState.DRAINING for state in UNDER_WAY for event in FAILS},
    **{(state, CancelRequested): RunState.DRAINING for state in UNDER_WAY[:3]},
    (RunState.QUEUED, AgentsAssigned): RunState.PREPARING,
    (RunState.QUEUED, CancelRequested): RunState.CANCELLED,
    (RunState.QUEUED, GaveUp): RunState.CANCELLED,
    (RunState.PREPARING, AgentFinished): RunState.DRAINING,
    (RunState.READY, StartDelayed): RunState.READY,
    (RunState.READY, AgentStarted): RunState.READY,
    (RunState.READY, AgentFinished): RunState.DRAINING,
    (RunState.RUNNING, AgentStarted): RunState.RUNNING,
    (RunState.RUNNING, AgentFinished): RunState.RUNNING,
    (RunState.RUNNING, ThresholdMissed): RunState.DRAINING,
    (RunState.DRAINING, AgentStarted): RunState.DRAINING,
    (RunState.DRAINING, AgentFinished): RunState.DRAINING,
}


@pytest.mark.parametrize(
    ("state", "event"),
    list(itertools.product(RunState, EVENTS)),
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_every_event_in_every_state_does_what_the_table_says(
    state: RunState, event: RunEvent
) -> None:
    run = run_in(state)
    commands = run.handle(event, PLAN_OVER_NS - 1 if state is RunState.RUNNING else 3)
    expected = LEADS_TO.get((state, type(event)))
    if expected is None:
        assert commands == [RefuseEvent(event, state)]
        assert run.state is state
    else:
        assert not any(isinstance(command, RefuseEvent) for command in commands)
        assert run.state is expected


def test_an_agent_that_makes_progress_may_take_longer_than_the_drain() -> None:
    run = run_in(RunState.DRAINING)
    limit_ns = LIMITS.grace_ns + LIMITS.slack_ns
    assert run.handle(PartProgressed("b"), PLAN_OVER_NS + limit_ns - 1) == []
    # one that goes on with its load gets no more
    far_ns = LIMITS.planned_ns + 2 * LIMITS.grace_ns
    now_ns = PLAN_OVER_NS + limit_ns + 1
    assert run.handle(PartProgressed("b", far_ns), now_ns) == []
    assert run.handle(TimePassed(), PLAN_OVER_NS + 2 * limit_ns - 2) == []
    run.handle(TimePassed(), PLAN_OVER_NS + 2 * limit_ns)
    assert run.state is RunState.FAILED


def test_the_straight_way_from_queue_to_finish() -> None:
    run = Run(LIMITS)
    agents = ("a", "b")
    assert run.handle(AgentsAssigned(agents), 0) == [
        RecordState(RunState.PREPARING),
        PrepareAgents(agents),
    ]
    assert run.handle(AgentPrepared("b"), 5) == []
    # T0 is start_lead (1 s) after the last agent is ready
    assert run.handle(AgentPrepared("a"), 7) == [
        RecordState(RunState.READY),
        StartAgents(agents, 7 + S, 7 + S // 2),
    ]
    assert run.t0_ns == 7 + S
    assert run.handle(AgentStarted("a"), 8 + S) == []
    assert run.handle(AgentStarted("b"), 8 + S) == [RecordState(RunState.RUNNING)]
    assert run.handle(TimePassed(), 7 + 31 * S - 1) == []
    assert run.handle(TimePassed(), 7 + 31 * S) == [RecordState(RunState.DRAINING)]
    assert run.handle(AgentFinished("a"), 32 * S) == []
    assert run.handle(AgentFinished("b"), 32 * S) == [FINISHES]


def test_a_start_that_took_long_to_store_is_put_off_for_twice_as_long() -> None:
    run = run_in(RunState.READY)
    for lead, now_ns in ((2, 3 * S), (4, 7 * S)):
        t0_ns = now_ns + lead * S
        assert run.handle(StartDelayed(), now_ns) == [
            StartAgents(("a", "b"), t0_ns, now_ns + lead * S // 2)
        ]
        assert run.t0_ns == t0_ns
    assert run.handle(TimePassed(), 11 * S + LIMITS.slack_ns - 1) == []


@pytest.mark.parametrize(
    ("agents", "lead_ms"), [(1, 420), (2, 440), (30, 1000), (256, 1280)]
)
def test_agents_on_the_coordinators_host_are_told_of_t0_sooner(
    agents: int, lead_ms: int
) -> None:
    run = Run(LIMITS)
    names = tuple(map(str, range(agents)))
    run.handle(AgentsAssigned(names, are_local=True), 0)
    for name in names:
        run.handle(AgentPrepared(name), 7)
    assert run.t0_ns == 7 + lead_ms * S // 1000


REPEATED: list[tuple[RunState, RunEvent]] = [
    (RunState.READY, AgentPrepared("a")),
    (RunState.RUNNING, AgentStarted("b")),
    (RunState.DRAINING, AgentFinished("a")),
    (RunState.DRAINING, StoreFailed(FULL)),
]


@pytest.mark.parametrize(("state", "event"), REPEATED)
def test_a_repeated_report_changes_nothing(state: RunState, event: RunEvent) -> None:
    run = run_in(state)
    run.handle(event, 40 * S)
    assert run.handle(event, 40 * S) == []
    assert run.state is state


def test_what_an_agent_of_another_run_says_is_refused() -> None:
    run = run_in(RunState.RUNNING)
    event = AgentFinished("stranger")
    assert run.handle(event, 3 * S) == [RefuseEvent(event, RunState.RUNNING)]


#: State, limits, event of agent a, note of it, and the error in which the run ends.
FAILURES: list[tuple[RunState, RunLimits, RunEvent, str, str, LdapSlamError]] = [
    # an error of the target before the load, whatever a loss leads to
    *(
        (state, limits, AgentFailed("a", ERROR), "agent_failed", str(ERROR), ERROR)
        for state in (RunState.PREPARING, RunState.READY)
        for limits in (LIMITS, CONTINUE)
    ),
    *(
        (state, LIMITS, LOST, "agent_lost", "silent", AgentLost("a", 4.0))
        for state in (RunState.RUNNING, RunState.DRAINING)
    ),
]


@pytest.mark.parametrize(
    ("state", "limits", "event", "kind", "text", "error"), FAILURES
)
def test_the_failure_or_loss_of_an_agent_stops_the_others(
    state: RunState,
    limits: RunLimits,
    event: RunEvent,
    kind: str,
    text: str,
    error: LdapSlamError,
) -> None:
    run = run_in(state, limits)
    assert run.handle(event, 33 * S) == [
        RecordEvent(kind, f"agent 'a': {text}"),
        RecordState(RunState.DRAINING, str(error)),
        StopAgents(("b",), str(error)),
    ]
    (end,) = run.handle(AgentFinished("b", "stopped"), 34 * S)
    assert isinstance(end, ConcludeRun)
    assert (end.state, end.detail) == (RunState.FAILED, str(error))
    assert type(end.error) is type(error)


def test_the_first_of_two_failures_is_the_reason() -> None:
    run = run_in(RunState.PREPARING)
    run.handle(AgentFailed("a", ERROR), S)
    second = RunAborted("also")
    assert run.handle(AgentFailed("b", second), S) == [
        RecordEvent("agent_failed", f"agent 'b': {second}"),
        ConcludeRun(RunState.FAILED, str(ERROR), ERROR),
    ]


#: Events of a run that goes on with the agents that it has, and how it ends.
CONTINUED: list[tuple[tuple[RunEvent, ...], ConcludeRun]] = [
    ((LOST, TimePassed(), AgentFinished("b")), FINISHES),
    ((TimePassed(), AgentFinished("b"), LOST), FINISHES),
    ((LOST, AgentFailed("b", ERROR)), ConcludeRun(RunState.FAILED, str(ERROR), ERROR)),
]


@pytest.mark.parametrize(("events", "end"), CONTINUED)
def test_with_continue_a_run_ends_with_the_last_of_its_agents(
    events: tuple[RunEvent, ...], end: ConcludeRun
) -> None:
    run = run_in(RunState.RUNNING, CONTINUE)
    commands = [one for event in events for one in run.handle(event, PLAN_OVER_NS)]
    assert not any(isinstance(one, StopAgents) for one in commands)
    assert commands[-1] == end


@pytest.mark.parametrize(
    ("state", "reason"), [(RunState.READY, ""), (RunState.RUNNING, "received SIGTERM")]
)
def test_an_agent_that_ends_early_unasked_is_a_loss(
    state: RunState, reason: str
) -> None:
    run = run_in(state)
    event, _, stop = run.handle(AgentFinished("a", reason), 3 * S)
    assert isinstance(event, RecordEvent)
    assert event.kind == "agent_early"
    assert reason in event.text
    assert isinstance(stop, StopAgents)
    (end,) = run.handle(AgentFinished("b", "stopped"), 4 * S)
    assert isinstance(end, ConcludeRun)
    assert end.state is RunState.FAILED


CANCEL = CancelRequested("me@here")
CANCELLED = "cancelled by me@here"
#: State, event, kind of the note of it, and how the run ends.
STOPS: list[tuple[RunState, RunEvent, str, ConcludeRun]] = [
    *(
        (state, CANCEL, "cancel", ConcludeRun(RunState.CANCELLED, CANCELLED, None))
        for state in (RunState.PREPARING, RunState.READY, RunState.RUNNING)
    ),
    (
        *(RunState.RUNNING, MISSED, "aborted"),
        ConcludeRun(RunState.ABORTED, MISSED.text, None),
    ),
    (
        *(RunState.RUNNING, StoreFailed(FULL), "store_failed"),
        ConcludeRun(RunState.FAILED, str(FULL), FULL),
    ),
]


@pytest.mark.parametrize(("state", "event", "kind", "end"), STOPS)
def test_what_ends_the_load_stops_the_agents_and_is_the_reason(
    state: RunState, event: RunEvent, kind: str, end: ConcludeRun
) -> None:
    run = run_in(state)
    assert run.handle(event, 3 * S) == [
        RecordEvent(kind, end.detail),
        RecordState(RunState.DRAINING, end.detail),
        StopAgents(("a", "b"), end.detail),
    ]
    assert run.handle(AgentFinished("a", end.detail), 4 * S) == []
    # a loss on the way down changes nothing about why it ends
    assert run.handle(AgentVanished("b", 4 * S, "silent"), 5 * S)[-1] == end


def test_what_an_aborted_run_has_left_is_verified() -> None:
    limits = replace(LIMITS, monitored=True)
    run = Run(limits)
    run.handle(AgentsAssigned(("a",)), 0)
    for event in (MonitorPrepared("a"), AgentPrepared("a"), AgentStarted("a"), MISSED):
        run.handle(event, S)
    assert run.handle(AgentFinished("a"), 2 * S) == [ConcludeMonitors(("a",), True)]


def test_a_run_in_the_queue_ends_at_once() -> None:
    error = NotEnoughAgents("2 agents", ("a",))
    failed = RunState.FAILED
    for event, kind, end in (
        (CANCEL, "cancel", ConcludeRun(RunState.CANCELLED, CANCELLED, None)),
        (GaveUp(str(error), error), "gave_up", ConcludeRun(failed, str(error), error)),
    ):
        assert Run(LIMITS).handle(event, S) == [RecordEvent(kind, end.detail), end]


@pytest.mark.parametrize(
    ("state", "answer", "deadline_ns"),
    [
        (RunState.PREPARING, AgentPrepared("a"), LIMITS.prepare_ns),
        # T0 is 1 s after READY_NS, and messages get slack_ns (5 s) on their way
        (RunState.READY, AgentStarted("a"), READY_NS + S + LIMITS.slack_ns),
    ],
)
def test_an_agent_that_does_not_answer_in_time_fails_the_run(
    state: RunState, answer: RunEvent, deadline_ns: int
) -> None:
    run = run_in(state)
    run.handle(answer, S)
    assert run.handle(TimePassed(), deadline_ns - 1) == []
    commands = run.handle(TimePassed(), deadline_ns)
    reasons = [one.reason for one in commands if isinstance(one, StopAgents)]
    assert any("'b' did not answer" in reason for reason in reasons)
    assert run.state is RunState.DRAINING


def test_agents_overdue_in_the_drain_are_abandoned() -> None:
    run = run_in(RunState.DRAINING)
    run.handle(AgentFinished("a"), 33 * S)
    deadline_ns = PLAN_OVER_NS + LIMITS.grace_ns + LIMITS.slack_ns
    assert run.handle(TimePassed(), deadline_ns - 1) == []
    event, stop, end = run.handle(TimePassed(), deadline_ns)
    assert isinstance(event, RecordEvent)
    assert stop == StopAgents(("b",), "the drain took too long", abandon=True)
    assert isinstance(end, ConcludeRun)
    assert end.state is RunState.FAILED
    assert isinstance(end.error, AgentUnreachable)


@pytest.mark.parametrize(
    "state", [RunState.PREPARING, RunState.READY, RunState.DRAINING]
)
def test_no_agent_is_overdue_while_the_store_takes_no_writes(state: RunState) -> None:
    """It cannot be heard: a report is acknowledged when it is stored."""
    run, twin = run_in(state), run_in(state)
    away = TimePassed("the database is away")
    from_ns, away_ns = 2 * S, 65 * S
    assert run.handle(away, from_ns) == [RecordEvent("store_away", away.store_failure)]
    for now_ns in (from_ns + S, from_ns + 50 * S):
        assert run.handle(away, now_ns) == []
    for after_ns in range(0, 60 * S, S // 2):
        commands = run.handle(TimePassed(), from_ns + away_ns + after_ns)
        assert repr(commands) == repr(twin.handle(TimePassed(), from_ns + after_ns))
    assert run.state is not state


def test_a_cancelled_run_with_an_overdue_agent_stays_cancelled() -> None:
    run = run_in(RunState.RUNNING)
    run.handle(CancelRequested("me"), 3 * S)
    commands = run.handle(TimePassed(), 3 * S + LIMITS.grace_ns + LIMITS.slack_ns)
    assert commands[-1] == ConcludeRun(RunState.CANCELLED, "cancelled by me", None)


def test_an_agent_that_is_through_before_the_others_start_is_known_is_no_failure() -> (
    None
):
    run = run_in(RunState.READY)
    run.handle(AgentStarted("a"), STARTED_NS)
    assert run.handle(AgentFinished("a"), STARTED_NS) == []
    assert run.state is RunState.READY
    assert run.handle(AgentStarted("b"), STARTED_NS) == [RecordState(RunState.RUNNING)]
    assert run.handle(AgentFinished("b"), STARTED_NS) == [FINISHES]


# A quorum.

QUORUM = RunLimits(30 * S, 10 * S, prepare_ns=60 * S, quorum=2)


def preparing(*prepared: str, limits: RunLimits = QUORUM) -> Run:
    run = Run(limits)
    run.handle(AgentsAssigned(("a", "b", "c")), 0)
    for agent in prepared:
        assert run.handle(AgentPrepared(agent), S) == []
    return run


def begins_anew(*agents: str, without: str) -> list[Command]:
    text = f"begins again without {without}"
    return [
        RecordEvent("quorum", text),
        StopAgents(agents, text),
        RecordState(RunState.QUEUED, text),
        RequeueRun(agents),
    ]


@pytest.mark.parametrize("is_last", [False, True])
def test_a_run_begins_anew_without_an_agent_that_failed(is_last: bool) -> None:
    """As soon as the others are ready."""
    run = preparing("a", "b") if is_last else preparing("a")
    commands = run.handle(AgentFailed("c", ERROR), 2 * S)
    assert commands[0] == RecordEvent("agent_left_out", f"c: {ERROR}")
    if not is_last:
        assert len(commands) == 1
        commands += run.handle(AgentPrepared("b"), 3 * S)
    assert commands[1:] == begins_anew("a", "b", without="c")
    assert run.state is RunState.QUEUED
    # what its agents say of the attempt before is of no interest
    late = AgentFinished("a", "stopped")
    assert run.handle(late, 2 * S) == [RefuseEvent(late, RunState.QUEUED)]
    run.handle(AgentsAssigned(("a", "b")), 3 * S)
    assert run.handle(AgentPrepared("a"), 4 * S) == []
    assert isinstance(run.handle(AgentPrepared("b"), 4 * S)[-1], StartAgents)


def test_a_run_begins_anew_without_an_agent_that_is_overdue() -> None:
    run = preparing("a", "c")
    assert run.handle(TimePassed(), 60 * S - 1) == []
    error = str(AgentUnreachable("b", 60.0))
    assert run.handle(TimePassed(), 60 * S) == [
        StopAgents(("b",), error, abandon=True),
        RecordEvent("agent_left_out", error),
        *begins_anew("a", "c", without="b"),
    ]


@pytest.mark.parametrize(
    "events",
    [(AgentFailed("c", ERROR), AgentFailed("b", ERROR)), (TimePassed(),) * 3],
    ids=["failures", "time"],
)
def test_a_run_below_its_quorum_fails(events: tuple[RunEvent, ...]) -> None:
    run = preparing("a")
    for event in events:
        run.handle(event, 60 * S)
    assert run.state is RunState.DRAINING
    assert run.ending.state is RunState.FAILED


# What a coordinator before this one left.


#: State, parts and ending that were stored, what the agents say then, and its answer.
RESUMED: list[tuple[RunState, dict[str, Part], Ending, list[RunEvent], Command]] = [
    (
        *(RunState.RUNNING, {"a": Part.STARTED, "b": Part.ENDED}, Ending()),
        [TimePassed(), AgentFinished("b"), AgentFinished("a")],
        FINISHES,
    ),
    (
        *(RunState.READY, {"a": Part.PREPARED, "b": Part.STARTED}, Ending()),
        [AgentStarted("a")],
        RecordState(RunState.RUNNING),
    ),
    (
        *(RunState.DRAINING, {"a": Part.STARTED}),
        Ending(RunState.CANCELLED, CANCELLED),
        [AgentFinished("a", "stopped")],
        ConcludeRun(RunState.CANCELLED, CANCELLED, None),
    ),
    (RunState.DRAINING, {"a": Part.ENDED}, Ending(), [], FINISHES),
    # a loss between two entries of the journal is not forgotten
    (
        *(RunState.RUNNING, {"a": Part.LOST, "b": Part.STARTED}, Ending(), []),
        StopAgents(("b",), str(AgentLost("a", 0.0))),
    ),
]


@pytest.mark.parametrize(("state", "parts", "ending", "events", "answer"), RESUMED)
def test_a_resumed_run_goes_on_where_it_was(
    state: RunState,
    parts: dict[str, Part],
    ending: Ending,
    events: list[RunEvent],
    answer: Command,
) -> None:
    run = Run(LIMITS)
    commands = run.resume(state, parts, 2 * S, ending, 10 * S)
    for event in events:
        assert answer not in commands
        commands = run.handle(event, 32 * S)
    assert commands[-1] == answer


OBSERVED = replace(LIMITS, monitored=True, monitor_prepare_ns=20 * S, verify_ns=100 * S)


#: The straight way of a run of agents a and b with monitors, up to its load.
OBSERVED_WAY: tuple[RunEvent, ...] = (
    AgentsAssigned(("a", "b")),
    MonitorPrepared("a"),
    MonitorPrepared("b"),
    AgentPrepared("a"),
    AgentPrepared("b"),
    AgentStarted("a"),
    AgentStarted("b"),
)


def observed(steps: int = 1) -> Run:
    """A run that has gone so far."""
    run = Run(OBSERVED)
    for event in OBSERVED_WAY[:steps]:
        run.handle(event, 0)
    return run


def observed_in_load() -> Run:
    """Its load is over; a has ended."""
    run = observed(len(OBSERVED_WAY))
    run.handle(TimePassed(), PLAN_OVER_NS)
    assert run.handle(AgentFinished("a"), PLAN_OVER_NS) == []
    return run


ENDS: tuple[tuple[RunEvent, ...], ...] = (
    (AgentFinished("a"), AgentFinished("b")),
    (AgentFailed("a", ERROR), AgentFinished("b")),
    (LOST, AgentFinished("b")),
    (CancelRequested("me"), AgentFinished("a"), AgentFinished("b")),
    (StoreFailed(FULL), AgentFinished("a")),
)


@pytest.mark.parametrize("believed_gone", [(), ("a",), ("b",), ("a", "b")])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("steps", range(1, len(OBSERVED_WAY) + 1))
def test_a_run_that_ends_ends_the_monitors_of_all_its_agents(
    steps: int, end: tuple[RunEvent, ...], believed_gone: tuple[str, ...]
) -> None:
    run = Run(OBSERVED)
    way = [*OBSERVED_WAY[:steps], *map(MonitorEnded, believed_gone), *end]
    commands = [one for event in way for one in run.handle(event, 0)]
    now_ns = 0
    while not run.state.is_final:
        now_ns += 60 * S
        commands += run.handle(TimePassed(), now_ns)
    place = next(
        place for place, one in enumerate(commands) if isinstance(one, ConcludeRun)
    )
    assert commands[place - 1] == EndMonitors(("a", "b"))
    assert set(run.watches.values()) == {Watch.ENDED}


def test_agents_are_told_to_prepare_when_every_monitor_has() -> None:
    run = Run(OBSERVED)
    assert run.handle(AgentsAssigned(("a", "b")), 0) == [
        RecordState(RunState.PREPARING),
        MonitorServers(("a", "b")),
    ]
    assert run.handle(MonitorPrepared("a"), 0) == []
    assert run.handle(MonitorPrepared("a"), 0) == []
    assert run.handle(MonitorPrepared("b"), 0) == [PrepareAgents(("a", "b"))]
    assert run.handle(MonitorPrepared("b"), 0) == []


def test_a_monitor_that_has_nothing_to_see_or_cannot_holds_nothing_up() -> None:
    run = observed()
    assert run.handle(MonitorEnded("a"), 0) == []
    text = "monitor of agent 'b': it fell over"
    assert run.handle(MonitorEnded("b", "it fell over"), 0) == [
        RecordEvent("observer_failed", text),
        PrepareAgents(("a", "b")),
    ]
    # and none is awaited at the end
    for event in (*OBSERVED_WAY[3:], AgentFinished("a")):
        run.handle(event, 0)
    assert run.handle(AgentFinished("b"), 0) == [EndMonitors(("a", "b")), FINISHES]


def test_a_run_is_not_begun_when_a_monitor_is_refused_what_it_needs() -> None:
    run = observed()
    refusal = FleetError("may not read the log")
    text = "monitor of agent 'a': may not read the log"
    assert run.handle(MonitorEnded("a", str(refusal), refusal), 0) == [
        RecordEvent("observer_failed", text),
        ReleaseAgents(("a", "b")),
        EndMonitors(("a", "b")),
        ConcludeRun(RunState.FAILED, text, refusal),
    ]


def test_agents_prepare_without_monitors_that_take_too_long() -> None:
    run = observed()
    run.handle(MonitorPrepared("a"), 0)
    assert run.handle(TimePassed(), 20 * S - 1) == []
    assert run.handle(TimePassed(), 20 * S) == [
        RecordEvent("observer_overdue", "the monitors of b took too long"),
        EndMonitors(("b",)),
        PrepareAgents(("a", "b")),
    ]
    # from now on agents have the time that they have without monitors
    assert run.handle(TimePassed(), 80 * S - 1) == []
    assert run.handle(TimePassed(), 80 * S) != []


def test_monitors_conclude_when_every_agent_has_ended() -> None:
    run = observed_in_load()
    assert run.handle(AgentFinished("b"), PLAN_OVER_NS) == [
        ConcludeMonitors(("a", "b"), verify=True)
    ]
    assert run.state is RunState.DRAINING
    assert run.handle(MonitorEnded("a"), PLAN_OVER_NS) == []
    assert run.handle(MonitorEnded("b"), PLAN_OVER_NS) == [
        EndMonitors(("a", "b")),
        FINISHES,
    ]


def test_a_run_ends_without_monitors_that_are_not_heard() -> None:
    run = observed_in_load()
    run.handle(AgentFinished("b"), PLAN_OVER_NS)
    assert run.handle(TimePassed(), PLAN_OVER_NS + 5 * S - 1) == []
    assert run.handle(TimePassed(), PLAN_OVER_NS + 5 * S) == [
        RecordEvent("observer_overdue", "the monitors of a, b took too long"),
        EndMonitors(("a", "b")),
        FINISHES,
    ]


def test_a_monitor_at_work_is_awaited_up_to_a_limit() -> None:
    run = observed_in_load()
    run.handle(AgentFinished("b"), PLAN_OVER_NS)
    run.handle(MonitorEnded("b"), PLAN_OVER_NS)
    limit_ns = PLAN_OVER_NS + 105 * S
    for now_ns in range(PLAN_OVER_NS, limit_ns, 4 * S):
        assert run.handle(TimePassed(), now_ns) == []
        assert run.handle(MonitorProgressed("a"), now_ns) == []
        assert run.handle(MonitorProgressed("b"), now_ns) == []
    assert run.handle(TimePassed(), limit_ns)[-1] == FINISHES


def test_who_cancels_the_wait_for_replicas_keeps_the_run() -> None:
    run = observed_in_load()
    (refused,) = run.handle(CancelRequested("me"), PLAN_OVER_NS)
    assert isinstance(refused, RefuseEvent)
    run.handle(AgentFinished("b"), PLAN_OVER_NS)
    assert run.handle(CancelRequested("me"), PLAN_OVER_NS) == [
        RecordEvent("cancel", "cancelled by me"),
        EndMonitors(("a", "b")),
        FINISHES,
    ]


def test_after_a_run_that_went_wrong_replicas_are_not_verified() -> None:
    run = observed_in_load()
    commands = run.handle(AgentFailed("b", ERROR), PLAN_OVER_NS)
    assert commands[-1] == ConcludeMonitors(("a", "b"), verify=False)
    assert run.state is RunState.DRAINING
    run.handle(MonitorEnded("a"), PLAN_OVER_NS)
    *_, end = run.handle(MonitorEnded("b"), PLAN_OVER_NS)
    assert end == ConcludeRun(RunState.FAILED, str(ERROR), ERROR)


@pytest.mark.parametrize("event", [CancelRequested("me"), LOST])
def test_agents_that_have_not_been_told_of_the_run_are_released(
    event: RunEvent,
) -> None:
    run = observed()
    commands = run.handle(event, 0)
    assert run.state.is_final
    (released,) = [one for one in commands if isinstance(one, ReleaseAgents)]
    assert "b" in released.agents
    (ended,) = [one for one in commands if isinstance(one, EndMonitors)]
    assert "b" in ended.agents
    assert not any(isinstance(one, StopAgents) for one in commands)


def test_a_quorum_begins_anew_with_monitors_of_its_own() -> None:
    limits = RunLimits(30 * S, 10 * S, quorum=1, monitored=True)
    run = Run(limits)
    run.handle(AgentsAssigned(("a", "b")), 0)
    run.handle(MonitorPrepared("a"), 0)
    commands = run.handle(AgentVanished("b", 4 * S, "silent"), 0)
    assert commands[-1] == PrepareAgents(("a",))
    commands = run.handle(AgentPrepared("a"), 0)
    # b may be back with its monitor
    assert EndMonitors(("a", "b")) in commands
    assert commands[-1] == RequeueRun(("a",))
    assert run.handle(AgentsAssigned(("a",)), 0)[-1] == MonitorServers(("a",))
    assert run.handle(MonitorPrepared("a"), 0) == [PrepareAgents(("a",))]


@pytest.mark.parametrize("observed", [False, True])
def test_the_last_that_is_not_ready_vanishes_and_the_quorum_begins_anew(
    observed: bool,
) -> None:
    run = Run(RunLimits(30 * S, 10 * S, quorum=1, monitored=observed))
    run.handle(AgentsAssigned(("a", "b")), 0)
    if observed:
        run.handle(MonitorPrepared("a"), 0)
        run.handle(MonitorPrepared("b"), 0)
    run.handle(AgentPrepared("a"), 0)
    commands = run.handle(AgentVanished("b", 4 * S, "silent"), 0)
    assert commands[-1] == RequeueRun(("a",))
    begin = run.handle(AgentsAssigned(("a",)), 0)
    if observed:
        assert begin[-1] == MonitorServers(("a",))
        begin = run.handle(MonitorPrepared("a"), 0)
    assert begin[-1] == PrepareAgents(("a",))


def test_a_resumed_run_still_has_its_monitors() -> None:
    run = Run(OBSERVED)
    parts = {"a": Part.ENDED, "b": Part.STARTED}
    assert run.resume(RunState.DRAINING, parts, 0, Ending(), 0) == []
    assert run.handle(AgentFinished("b"), 0) == [
        ConcludeMonitors(("a", "b"), verify=True)
    ]
    partly = Run(OBSERVED)
    partly.resume(RunState.DRAINING, parts, 0, Ending(), 0, ["a"])
    assert partly.handle(AgentFinished("b"), 0) == [
        ConcludeMonitors(("b",), verify=True)
    ]
    again = Run(OBSERVED)
    over = dict.fromkeys(parts, Part.ENDED)
    commands = again.resume(RunState.DRAINING, over, 0, Ending(), 0)
    assert commands == [ConcludeMonitors(("a", "b"), verify=True)]
