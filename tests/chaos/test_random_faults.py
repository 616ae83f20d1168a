# SPDX-License-Identifier: Apache-2.0
"""Fault schedules drawn at random: whatever is broken, the books balance.

    pytest tests/chaos/test_random_faults.py --chaos-seed 17    repeats one

`make check-full` takes all seeds, several at a time. A fleet serves one schedule after
another; after a failure the next gets a new one. One has its store in a file, another
in PostgreSQL.
"""

from __future__ import annotations

import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise

import pytest

from support.books import Books, check_books, missing
from support.chaos_fleet import ChaosFleet
from support.fault_schedule import AGENTS, Fault, FaultSchedule, Kind, fault_schedule
from support.fleet import FINAL
from support.postgresql import end_backends, execute, lock_writes, postgresql

pytestmark = [pytest.mark.long, pytest.mark.chaos]

SEEDS = 500
#: A run comes to its end within that time after T0, whatever happens to it: the drain,
#: the coordinator's 30 s of patience for agents that do not answer, and some.
_END_S = 60.0
#: An agent says so and measures nothing, where it has missed T0.
_LATE = "the order to start came"
#: The names of processes that are coordinators by mistake.
_SECOND = "second-"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("--chaos-seed")
        metafunc.parametrize("seed", range(SEEDS) if chosen is None else [chosen])


class LastingFleets:
    """One for each kind of store, used until a test has failed with it."""

    def __init__(self) -> None:
        self._free: dict[bool, ChaosFleet] = {}
        self._all = ExitStack()
        self._server: str | None = None

    def take(self, *, is_postgresql: bool) -> ChaosFleet:
        """Yours, until you `give_back`; what is not given back is not used again."""
        fleet = self._free.pop(is_postgresql, None)
        if fleet is None:
            fleet = ChaosFleet(self._new_database() if is_postgresql else None)
            self._all.callback(fleet.close)
            fleet.begin(*AGENTS)
        return fleet

    def give_back(self, fleet: ChaosFleet) -> None:
        self._free[fleet.postgresql is not None] = fleet

    def _new_database(self) -> str:
        if self._server is None:
            self._server = self._all.enter_context(postgresql())
        execute(self._server, "DROP SCHEMA public CASCADE")
        execute(self._server, "CREATE SCHEMA public")
        return self._server

    def __enter__(self) -> LastingFleets:
        return self

    def __exit__(self, *_: object) -> None:
        self._all.close()


@pytest.fixture(scope="module")
def lasting() -> Iterator[LastingFleets]:
    with LastingFleets() as lasting:
        yield lasting


def test_whatever_fails_the_books_balance(lasting: LastingFleets, seed: int) -> None:
    schedule = fault_schedule(seed)
    print(schedule)
    print(f"repeat: pytest tests/chaos/test_random_faults.py --chaos-seed {seed}")
    fleet = lasting.take(is_postgresql=schedule.is_postgresql)
    try:
        carry_out(fleet, schedule)
    except BaseException:
        print(fleet.logs())
        fleet.close()
        raise
    lasting.give_back(fleet)


def carry_out(fleet: ChaosFleet, schedule: FaultSchedule) -> None:
    """The run, its faults, and what must hold after them."""
    fleet.use_report_relay(schedule.seed, schedule.call_faults)
    fleet.wait_for_agents(*AGENTS)
    run_id = fleet.submit_load(
        duration=f"{schedule.duration_s}s",
        agents={"names": list(schedule.agents)},
        on_agent_loss=schedule.on_agent_loss,
        coordinator_timeout=f"{schedule.coordinator_timeout_s:g}s",
    )
    rival = fleet.submit_load(duration="1s") if schedule.has_rival else None
    begin_s = time.monotonic()
    with Saboteur(fleet) as saboteur:
        early = [fault for fault in schedule.faults if fault.at_s < 0]
        # T0 is about so far away, if nothing keeps it from coming
        first_s = min((fault.at_s for fault in early), default=0.0)
        saboteur.bring_about(early, begin_s - first_s)
        t0_s = fleet.t0_s(run_id, _END_S)
        if t0_s is not None:
            late = [fault for fault in schedule.faults if fault.at_s >= 0]
            saboteur.bring_about(late, t0_s)
    fleet.heal(*AGENTS)
    left_s = begin_s + _END_S - time.monotonic()
    fleet.wait_for(run_id, *FINAL, timeout_s=max(left_s, 1.0))
    # an agent that the coordinator had given up may have more to tell
    fleet.heal(*AGENTS)
    # where it took long to store the first one, there was another
    t0_s = fleet.t0_s(run_id)
    books = check_books(fleet, run_id, killed=schedule.killed)
    check_end(schedule, books, t0_s, saboteur.begun_s)
    if rival is not None:
        fleet.wait_for(rival, *FINAL, timeout_s=_END_S)
        fleet.heal(*AGENTS)
        check_books(fleet, rival, killed=schedule.killed)
        check_alone(fleet, run_id, rival)


def check_alone(fleet: ChaosFleet, *runs: str) -> None:
    """By the directory's log, no two had load on it at one time."""
    loads = [fleet.directory.arrivals(fleet.numbers[run])["at_mono_ns"] for run in runs]
    spans = sorted((int(at.min()), int(at.max())) for at in loads if at.size)
    for (_, end_ns), (begin_ns, _) in pairwise(spans):
        assert end_ns < begin_ns, "two loads on one target"


def check_end(
    schedule: FaultSchedule,
    books: Books,
    t0_s: float | None,
    begun_s: dict[Fault, float],
) -> None:
    """State, gaps and the load's end are what they may be under these faults."""
    run = books.run
    assert run.state in FINAL
    assert run.state != "cancelled"
    is_early = t0_s is not None and any(at_s < t0_s for at_s in begun_s.values())
    # a connection that was lost right before T0
    is_late = bool(schedule.call_faults) and _LATE in run.state_detail
    if schedule.is_harmless and not is_early and not is_late:
        assert run.state == "finished", run.state_detail
        for agent, index in missing(books):
            # an engine that stood still over the plan's end has all of that in one
            assert agent in schedule.stopped
            last = max(i for i, one in books.stored[agent].items() if not one.final)
            assert index >= last
    if run.state == "failed":
        assert run.state_detail
    for agent, times_s in books.arrived_s.items():
        assert t0_s is not None, "load without a start"
        after_s = {fault: at_s - t0_s for fault, at_s in begun_s.items()}
        ends_s = schedule.load_ends_s(agent, after_s)
        assert times_s[-1] - t0_s < ends_s, f"load of {agent}, {after_s}"


class Saboteur:
    """Brings faults about, each at its time and in a thread of its own; within the
    block. What goes wrong with that is raised at its end."""

    def __init__(self, fleet: ChaosFleet) -> None:
        self._fleet = fleet
        self._threads: list[threading.Thread] = []
        self._errors: list[BaseException] = []
        #: When each was there, in this host's monotonic time.
        self.begun_s: dict[Fault, float] = {}

    def bring_about(self, faults: list[Fault], t0_s: float) -> None:
        """T0 in this host's monotonic time."""
        for fault in faults:
            thread = threading.Thread(target=self._run, args=(fault, t0_s))
            thread.start()
            self._threads.append(thread)

    def _run(self, fault: Fault, t0_s: float) -> None:
        try:
            time.sleep(max(0.0, t0_s + fault.at_s - time.monotonic()))
            undo = _begin(self._fleet, fault)
            self.begun_s[fault] = time.monotonic()
            time.sleep(fault.length_s)
            undo()
        except BaseException as error:
            self._errors.append(error)

    def __enter__(self) -> Saboteur:
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]


#: Starts and ends of a process are one at a time.
_starting = threading.Lock()


def _nothing() -> None:
    pass


def _begin(fleet: ChaosFleet, fault: Fault) -> Callable[[], None]:
    """Bring it about; what ends it."""
    key = fault.agent or "coordinator"
    match fault.kind:
        case Kind.KILL_AGENT | Kind.RESTART_COORDINATOR:
            with _starting:
                fleet.kill(key)
            return lambda: _start_again(fleet, key)
        case Kind.TERMINATE_AGENT:
            fleet.send_signal(key, signal.SIGTERM)
            return _nothing
        case Kind.KILL_ENGINE | Kind.STOP_ENGINE:
            return _signal_engine(fleet, key, fault.kind)
        case Kind.STOP_AGENT | Kind.STOP_COORDINATOR:
            fleet.send_signal(key, signal.SIGSTOP)
            return lambda: fleet.send_signal(key, signal.SIGCONT)
        case Kind.LOCK_STORE:
            return _lock(fleet)
        case Kind.END_BACKENDS:
            assert fleet.postgresql is not None
            end_backends(fleet.postgresql)
            return _nothing
        case Kind.SECOND_COORDINATOR:
            return _start_second(fleet)
    relay = fleet.relays[key]
    match fault.kind:
        case Kind.CUT_LINK:
            relay.cut()
        case Kind.CUT_REPLIES:
            relay.cut(up=False)
        case Kind.RESET_LINK:
            relay.reset()
        case Kind.DELAY:
            relay.delay_s = 0.2
            return lambda: setattr(relay, "delay_s", 0.0)
    return relay.mend


def _signal_engine(fleet: ChaosFleet, agent: str, kind: Kind) -> Callable[[], None]:
    engine = fleet.engine(agent)
    if engine is None or not engine.is_running():
        return _nothing  # its part is over
    if kind is Kind.KILL_ENGINE:
        engine.kill()
        return _nothing
    engine.suspend()

    def resume() -> None:
        if engine.is_running():
            engine.resume()

    return resume


def _lock(fleet: ChaosFleet) -> Callable[[], None]:
    if fleet.postgresql is None:
        # closed by another thread than opened it
        file = sqlite3.connect(
            fleet.store, isolation_level=None, timeout=30, check_same_thread=False
        )
        file.execute("BEGIN IMMEDIATE")
        return file.close
    return lock_writes(fleet.postgresql)


def _start_second(fleet: ChaosFleet) -> Callable[[], None]:
    """It may even get the store, where the first one is down, or where the server has
    just ended the first one's connections: that one ends then. It comes back."""
    with _starting:
        key = f"{_SECOND}{len(fleet.processes)}"
        store = fleet.postgresql or fleet.store
        second = fleet.start_second(key, f"unix:{fleet.folder}/{key}", store)

    def end() -> None:
        with _starting:
            if second.poll() is not None:
                return  # it got nothing, or the first one's return has ended it
            fleet.kill(key)
        if "listening on" in (fleet.folder / f"{key}.log").read_text():
            fleet.wait_for_end("coordinator")
            _start_again(fleet, "coordinator")

    return end


def _start_again(fleet: ChaosFleet, key: str) -> None:
    with _starting:
        if fleet.processes[key].poll() is None:
            return  # another fault's end has done it
        if key == "coordinator":
            for other, process in fleet.processes.items():
                if other.startswith(_SECOND) and process.poll() is None:
                    fleet.kill(other)
            try:
                fleet.start_coordinator()
            except AssertionError as error:
                # a start waits for 10 s; who looks after it starts it again
                if "stayed locked" not in str(error):
                    raise
                fleet.start_coordinator()
        else:
            fleet.start_agent(key)
