# SPDX-License-Identifier: Apache-2.0
"""The books of a run, whatever happened to it: three counts that must agree.

The engines' tallies say what was measured, the directory's log what arrived, the store
what was kept (tallied_engine.py, counting_ldap.py). `check_books` holds, for any run:

- no interval is in the store twice, and each is what the engine measured, to the bit;
- what was measured and is not in the store is the last that an agent had measured when
  it, or its engine, was killed;
- the directory had exactly the requests that were counted as sent; of an engine that
  was killed, also those of the interval that it had begun;
- histograms hold as many values as there were responses;
- the report lists as gaps exactly what is not in the store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import ceil

from ldapslam.results.histogram import Histogram
from ldapslam.results.records import RunRecord
from support.chaos_fleet import AGENTS, INTERVAL_S, ChaosFleet
from support.fleet import FINAL
from support.intervals import Interval, stored_intervals
from support.tallied_engine import read_tally

#: Intervals that may be on their way from an engine to the spool, at most: on a busy
#: host, an agent's process gets no CPU for half a second now and then.
_ON_THE_WAY = 8
_ANSWERED = ("succeeded", "failed", "expected")

Intervals = dict[int, Interval]


@dataclass(frozen=True)
class Books:
    """What the three say, by agent."""

    run: RunRecord
    measured: dict[str, Intervals]
    stored: dict[str, Intervals]
    #: Monotonic times of arrival at the directory, in seconds.
    arrived_s: dict[str, list[float]]

    def is_complete(self, agent: str) -> bool:
        """Did its engine come to its end, so that all that it sent is counted?"""
        return any(record.final for record in self.measured[agent].values())


def open_books(fleet: ChaosFleet, run_id: str) -> Books:
    """As they are now; an interval that is stored twice fails."""
    with fleet.opened_store() as store:
        run = store.run(run_id)
        stored = _by_index(stored_intervals(store, run_id))
    measured = {
        agent: {
            snapshot.index: Interval.of(agent, 0, snapshot.index, snapshot)
            for snapshot in read_tally(fleet.tally(agent), run_id)
        }
        for agent in run.agents
    }
    arrived_s: dict[str, list[float]] = {}
    numbers: set[int] = set()
    for at_ns, _, number in fleet.directory.arrivals(fleet.numbers[run_id]).tolist():
        assert number not in numbers, f"number {number} was sent twice"
        numbers.add(number)
        agent = run.agents[number % len(run.agents)]
        arrived_s.setdefault(agent, []).append(at_ns / 1e9)
    stored = {agent: stored.get(agent, {}) for agent in run.agents}
    return Books(run, measured, stored, arrived_s)


def _by_index(records: Iterable[Interval]) -> dict[str, Intervals]:
    found: dict[str, Intervals] = {}
    for record in records:
        known = found.setdefault(record.agent, {})
        assert record.index not in known, f"{record.agent} {record.index} twice"
        known[record.index] = record
    return found


def check_books(
    fleet: ChaosFleet,
    run_id: str,
    *,
    killed: Mapping[str, float] | None = None,
    has_lost_requests: bool = False,
) -> Books:
    """Assert all of the above; `killed` are agents that were, or whose engine was, and
    how long before that they had taken nothing from their engine, in seconds.

    A directory that was killed has lost requests that were on their way to it.
    """
    books, killed = open_books(fleet, run_id), killed or {}
    for agent in books.run.agents:
        _check_stored(books, agent, killed.get(agent))
        if has_lost_requests:
            counted = _counted(books, agent)
            arrived = len(books.arrived_s.get(agent, []))
            assert counted["completed"] <= arrived <= counted["sent"]
        else:
            _check_sent(books, agent, is_killed=agent in killed)
        for record in books.stored[agent].values():
            _check_histograms(record)
    _check_gaps(fleet, books)
    return books


def check_ended(
    fleet: ChaosFleet, run_id: str, *killed: str, state: str = "finished"
) -> Books:
    """Assert that the run ends in this state, that the agents are idle again, and that
    the books balance. A finished run without a killed agent lacks nothing."""
    status = fleet.wait_for(run_id, *FINAL, timeout_s=60.0)
    assert status.state == state, f"{status.state_detail}\n{fleet.logs()}"
    fleet.heal(*AGENTS)
    books = check_books(fleet, run_id, killed=dict.fromkeys(killed, 0.0))
    if state == "finished" and not killed:
        assert missing(books) == set()
    return books


def _check_stored(books: Books, agent: str, held_s: float | None) -> None:
    measured, stored = books.measured[agent], books.stored[agent]
    for index, record in stored.items():
        assert index in measured, f"{agent} never measured interval {index}"
        same = replace(record, attempt=0, sequence=index)
        assert measured[index] == same, f"{agent}, interval {index}"
    lost = sorted(measured.keys() - stored.keys())
    if held_s is not None:
        last = sorted(measured)[-_ON_THE_WAY - ceil(held_s / INTERVAL_S) :]
        assert set(lost) <= set(last), f"{agent} lacks {lost} of {sorted(measured)}"
    else:
        assert lost == [], f"{agent} measured {sorted(measured)}"


def _counted(books: Books, agent: str) -> Counter[str]:
    """What its engines measured in all."""
    counted: Counter[str] = Counter()
    for record in books.measured[agent].values():
        for row in record.operations:
            counted["sent"] += row.sent
            counted["completed"] += row.completed
    return counted


def _check_sent(books: Books, agent: str, *, is_killed: bool) -> None:
    sent = _counted(books, agent)["sent"]
    arrived = len(books.arrived_s.get(agent, []))
    if books.is_complete(agent):
        assert arrived == sent, f"{agent}: {arrived} arrived, {sent} counted"
        return
    if not arrived and not sent:
        return
    assert is_killed, f"{agent} was not killed, and its engine did not end"
    planned = (books.run.plan.streams[0].rate_per_s or 0) / len(books.run.agents)
    # the interval that was under way, and the time until the engine noticed
    most = sent + planned * (INTERVAL_S + 1.0) + 2
    assert sent <= arrived <= most, f"{agent}: {arrived} arrived, {sent} counted"


def _check_histograms(record: Interval) -> None:
    for row in record.operations:
        values: Counter[str] = Counter()
        for (metric, outcome), packed in row.histograms.items():
            if outcome in _ANSWERED:
                histogram = Histogram.merge([packed])
                values[metric] += histogram.total + histogram.overflow
        for metric, count in values.items():
            assert count == row.completed, f"{record.agent} {record.index} {metric}"
        assert values or not row.completed


def _check_gaps(fleet: ChaosFleet, books: Books) -> None:
    # every test loads this module, as a plugin; the report is for those who check books
    from ldapslam.reports.summarise import summarise

    with fleet.opened_store() as store:
        summary = summarise(store, books.run.run_id)
    listed = {
        (gap.agent, index)
        for gap in summary.completeness.gaps
        for index in range(gap.first_index, gap.last_index + 1)
    }
    listed |= {(one.agent, one.index) for one in summary.completeness.partials}
    assert listed == missing(books), f"{books.run.state}: {books.run.state_detail}"


def missing(books: Books) -> set[tuple[str, int]]:
    """(agent, interval) that the run should have whole, and has not.

    The drain follows the planned ones. A run that was ended early owes the intervals
    that were over when it was told to drain; else those that any agent reached.
    """
    ends_ns = books.run.plan.boundaries_ns
    planned = len(ends_ns)
    whole = {
        agent: {
            record.index
            for record in records.values()
            if not record.final and record.end_ns >= ends_ns[record.index]
        }
        for agent, records in books.stored.items()
    }
    due = max((index + 1 for one in whole.values() for index in one), default=0)
    ending = books.run.manifest.ending
    drained_ns = ending.drained_ns if ending else None
    if books.run.state == "finished":
        due = planned
    elif drained_ns is not None:
        due = sum(end_ns <= drained_ns for end_ns in ends_ns)
    lacking = set()
    for agent, records in books.stored.items():
        lacking |= {(agent, index) for index in range(due) if index not in whole[agent]}
        cut = {index for index, record in records.items() if not record.final}
        lacking |= {(agent, index) for index in cut - whole[agent]}
        has_ended = any(record.final for record in records.values())
        if not has_ended and books.run.state == "finished":
            lacking.add((agent, planned))
    return lacking
