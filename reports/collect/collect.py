# SPDX-License-Identifier: Apache-2.0
"""One pass over a run's intervals, in bounded memory.

Adds counters and merges histograms by operation, stream, agent and worker, and makes
the timeline. Intervals come as columns, some thousand rows at a time: a run of hours
has millions of histograms. A long run is read in parts that begin where a point of the
charts does, by several processes, and the parts are added up. Memory grows with
the number of operations, agents, workers and points of the charts; with the length of
the run, only by the numbers of the intervals that each agent sent. Nothing is judged or
rounded here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ldapslam import __version__
from ldapslam.base.arrays import Flags, Floats, Integers, Places, Unsigned
from ldapslam.base.causes import FAILURE_CAUSES, LOSS_CAUSES
from ldapslam.base.errors import StoreError
from ldapslam.jobs.fields.thresholds import parse_threshold
from ldapslam.jobs.run_plan import plan_document
from ldapslam.proto.fields import (
    CONNECTION_COUNTERS,
    EARLIEST_TIMES,
    GAUGES,
    LAYOUT,
    OPERATION_COUNTERS,
    SLOTS,
    STREAM_TIMES,
)
from ldapslam.reports.collect.intervals import (
    SHOWN,
    AgentSlots,
    Durations,
    MemberSlots,
    OperationSlots,
    Reports,
    Slots,
    StreamSlots,
    reports_of,
    worker_shares,
)
from ldapslam.reports.collect.kept import decoded
from ldapslam.reports.collect.points import TimelineBuilder, gaps_of
from ldapslam.reports.collect.timeline import NS_PER_S, Plan, with_facts
from ldapslam.reports.collect.totals import (
    CLOCK_STEP_LIMIT_NS,
    DISTURBANCES,
    DISTURBED,
    GENERATOR_LAGS,
    IN_DOUBT,
    STEPS_KEPT,
    UNANSWERED_METRICS,
    AgentTotals,
    Collected,
    OperationTotals,
    Responses,
    StreamTotals,
    first_messages,
    known,
    unanswered,
)
from ldapslam.reports.pool import in_order
from ldapslam.reports.uncertainty import BATCHES
from ldapslam.results.collected import CollectedPart, content_of, kept
from ldapslam.results.columns import extent, streams_of, windows
from ldapslam.results.digest import sha256_of
from ldapslam.results.facts import AgentFacts
from ldapslam.results.histogram import Block, joined
from ldapslam.results.records import RunRecord
from ldapslam.results.store import Store
from ldapslam.results.window import Columns, OperationRows, Window

_FOR_EVER_NS = 1 << 62
#: Of more, the response times over time of each by itself would cost too much.
_MOST_AGENTS_OVER_TIME = 64


@dataclass(frozen=True)
class Part:
    """Intervals of a run that follow each other, and what it takes to collect them."""

    run: RunRecord
    plan: Plan
    #: Operations that have their place in the report without any row.
    operations: Sequence[tuple[str, str]]
    #: Agents that ended before the plan did -> their last interval.
    ended: Mapping[str, int]
    indexes: Sequence[int]
    bytes_per_interval: int
    #: The numbers that its intervals may have.
    span: range

    @cached_property
    def made_of(self) -> str:
        """SHA-256 of all that its content depends on, but the reports."""
        known = self.run.agents, self.operations, sorted(self.ended.items())
        plan = plan_document(self.run.plan)
        for stream in plan["streams"]:
            for operation in stream["operations"]:
                # an agent tells them when it has seen them; nothing here reads them
                operation.pop("expected_codes", None)
        return sha256_of([__version__, LAYOUT, known, plan])

    def is_made_as(self, kept: CollectedPart | None) -> bool:
        """Would it be collected in the same way?"""
        return kept is not None and (kept.last_index, kept.made_of) == (
            self.span.stop - 1,
            self.made_of,
        )

    def collect(self, store: Store) -> Collected:
        collector = _Collector(self)
        for window in windows(
            store, self.run.run_id, self.indexes, self.bytes_per_interval
        ):
            collector.add(window)
        return collector.finish()


class _Collector:
    def __init__(self, part: Part) -> None:
        self._plan = part.plan
        self._validity = part.run.plan.validity
        # shares of less than a tenth of an interval say little
        self._fragment_ns = part.plan.interval_s * NS_PER_S / 10
        self._has_agents = 1 < len(part.run.agents) <= _MOST_AGENTS_OVER_TIME
        self._operations = {key: OperationTotals() for key in part.operations}
        self._streams: defaultdict[str, StreamTotals] = defaultdict(StreamTotals)
        self._agents = {agent: AgentTotals() for agent in part.run.agents}
        self._measure_start_ns: int | None = None
        self._measure_end_ns: int | None = None
        self._intervals = 0
        thresholds = map(parse_threshold, part.run.plan.thresholds)
        self._timeline = TimelineBuilder(
            part.plan,
            part.run.agents,
            part.ended,
            [one for one in thresholds if one.is_of_stream],
        )
        self._ends_ns = np.array([one.end_ns for one in part.plan.intervals], np.int64)
        self._batches = part.plan.batches(BATCHES)
        self._loads_end_ns = {
            stream.name: stream.end_ns
            for stream in part.run.plan.streams
            if stream.end_ns
        }

    def add(self, window: Window) -> None:
        reports = reports_of(window, self._ends_ns)
        self._add_reports(window.reports, reports)
        servers = {
            name
            for rows in window.operations.values()
            for name in rows.columns["server"]
        }
        slots = Slots(
            reports,
            self._timeline.points_of(reports),
            self._timeline.complete_of(reports),
            self._add_workers(window, reports),
            MemberSlots.of(reports.agents * self._has_agents, len(reports.indexes)),
            MemberSlots.of(sorted(servers) * (servers != {""}), len(reports.indexes)),
        )
        lags_ns = np.zeros(reports.slot.size, np.uint64)
        by_operation: dict[tuple[str, str], dict[bool, OperationRows]]
        by_operation = defaultdict(dict)
        for (stream, operation, measured), rows in window.operations.items():
            by_operation[stream, operation][measured] = rows
        for key, groups in by_operation.items():
            totals = self._operations.setdefault(key, OperationTotals())
            for measured, rows in groups.items():
                self._add_rows(key, totals, rows.columns, slots, measured)
                if measured:
                    totals.result_codes.update(rows.result_codes)
                    totals.diagnostic_messages = first_messages(
                        totals.diagnostic_messages, rows.diagnostic_messages
                    )
                for server in set(filter(None, rows.columns["server"])):
                    self._add_server(key, totals, server, rows, reports, measured)
            slots.operations[key] = self._add_times(key, totals, groups, slots, lags_ns)
        slots.streams = self._add_streams(window, reports)
        self._add_waits(slots)
        self._add_disturbances(window, slots, lags_ns)
        self._timeline.add(slots)

    def finish(self) -> Collected:
        of_operations = (stream for stream, _ in self._operations)
        streams = dict.fromkeys([*of_operations, *self._streams])
        return Collected(
            timeline=self._timeline.finish(),
            complete=self._timeline.complete,
            operations=self._operations,
            streams={stream: self._streams[stream] for stream in streams},
            agents=self._agents,
            measure_start_ns=self._measure_start_ns,
            measure_end_ns=self._measure_end_ns,
            intervals=self._intervals,
        )

    # Reports, workers and hosts.

    def _add_reports(self, columns: Columns, reports: Reports) -> None:
        self._intervals += reports.slot.size
        in_measure = reports.in_measure
        if in_measure.any():
            start_ns = int(reports.start_ns[in_measure].min())
            end_ns = int(reports.end_ns[in_measure].max())
            self._measure_start_ns = known(min, self._measure_start_ns, start_ns)
            self._measure_end_ns = known(max, self._measure_end_ns, end_ns)
        numbers = columns["interval_index"]
        for code, name in enumerate(reports.agents):
            agent = self._agents.setdefault(name, AgentTotals())
            theirs = reports.agent == code
            agent.seen.update(numbers[theirs & ~reports.is_final].tolist())
            for place in np.flatnonzero(theirs & reports.is_final).tolist():
                agent.final_index = int(numbers[place])
            for place in np.flatnonzero(theirs & reports.is_cut).tolist():
                agent.cut = int(numbers[place]), int(columns["end_ns"][place])
            _add_host(agent, columns, np.flatnonzero(theirs & in_measure))
        self._add_clock_steps(columns)

    def _add_clock_steps(self, columns: Columns) -> None:
        steps_ns = columns["clock_step_ns"]
        for place in np.flatnonzero(steps_ns).tolist():
            agent, step_ns = self._agents[columns["agent"][place]], int(steps_ns[place])
            if abs(step_ns) > abs(agent.clock_step_ns):
                agent.clock_step_ns = step_ns
            if abs(step_ns) > CLOCK_STEP_LIMIT_NS:
                agent.stepped += 1
                if len(agent.clock_steps_ns) < STEPS_KEPT:
                    index = int(columns["interval_index"][place])
                    agent.clock_steps_ns[index] = step_ns

    def _add_workers(self, window: Window, reports: Reports) -> AgentSlots:
        rows = window.workers
        busy, waited = worker_shares(rows)
        self._add_measured_workers(rows, reports, busy, waited)
        every = np.arange(reports.slot.size)
        return AgentSlots(
            wall_ns=reports.sum(every, reports.end_ns - reports.start_ns),
            completed=reports.sum((), ()),
            busy_share=reports.largest(rows["report"], busy),
            run_queue_share=reports.largest(rows["report"], waited),
        )

    def _add_measured_workers(
        self, rows: Columns, reports: Reports, busy: Floats, waited: Floats
    ) -> None:
        agents = reports.agent[rows["report"]].tolist()
        numbers, models = rows["worker"].tolist(), rows["model"]
        groups: defaultdict[tuple[str, str, int], list[int]] = defaultdict(list)
        for row in np.flatnonzero(reports.in_measure[rows["report"]]).tolist():
            name = reports.agents[agents[row]]
            groups[name, models[row], numbers[row]].append(row)
        for (name, model, worker), members in groups.items():
            agent, chosen = self._agents[name], np.array(members)
            wall_ns = rows["wall_ns"][chosen]
            agent.worker_cpu_ns += int(rows["cpu_ns"][chosen].sum())
            agent.worker_busy_ns += int(rows["busy_ns"][chosen].sum())
            agent.worker_wall_ns += int(wall_ns.sum())
            totals = agent.workers[model, worker]
            totals.wall_ns += int(wall_ns.sum())
            whole = chosen[wall_ns >= self._fragment_ns]
            totals.highest_busy_share = float(
                busy[whole].max(initial=totals.highest_busy_share)
            )
            totals.highest_run_queue_share = float(
                waited[whole].max(initial=totals.highest_run_queue_share)
            )

    # Operations.

    def _add_rows(
        self,
        key: tuple[str, str],
        totals: OperationTotals,
        rows: Columns,
        slots: Slots,
        measured: bool,
    ) -> None:
        """The counters of an operation, measured ones or others."""
        reports, places = slots.reports, rows["report"]
        batch, agent = self._batch_of(reports)[places], reports.agent[places]
        within = reports.in_measure[places]
        whole = _sum(rows)
        totals.whole.update(whole)
        if measured:
            totals.measured.update(whole)
            for number, counts in _sums(rows, batch):
                totals.batches[number].measured.update(counts)
                totals.batches[number].times.unanswered += unanswered(counts)
            for code, counts in _sums(rows, agent):
                self._agents[reports.agents[code]].operations[key].update(counts)
        slots.agents.completed += reports.sum(places, rows["completed"])
        for number, counts in _sums(rows, batch, within):
            if counts["completed"]:
                totals.completed_in_measure += counts["completed"]
                totals.succeeded_in_measure += counts["succeeded"]
                totals.batches[number].completed += counts["completed"]
                totals.batches[number].succeeded += counts["succeeded"]
        for code, counts in _sums(rows, agent, within):
            name = reports.agents[code]
            self._agents[name].completed_in_measure += counts["completed"]

    def _add_server(
        self,
        key: tuple[str, str],
        totals: OperationTotals,
        server: str,
        of_all: OperationRows,
        reports: Reports,
        measured: bool,
    ) -> None:
        """One server's part of an operation."""
        of_server, rows = totals.servers[server], of_all.columns
        chosen = np.array(rows["server"]) == server
        within = chosen & reports.in_measure[rows["report"]]
        of_server.completed_in_measure += _sum(rows, within)["completed"]
        whole = _sum(rows, chosen)
        of_server.whole.update(whole)
        if not measured:
            return
        of_server.measured.update(whole)
        for metric in UNANSWERED_METRICS:
            packed = of_all.histograms.get((metric, self._plan.wanted_of(key)))
            if packed and (theirs := chosen[packed.rows]).any():
                of_server.times[metric].add_block(packed.read(theirs))

    def _add_times(
        self,
        key: tuple[str, str],
        totals: OperationTotals,
        groups: Mapping[bool, OperationRows],
        window: Slots,
        lags_ns: Unsigned,
    ) -> OperationSlots:
        """The operation by interval; its histograms are added to the totals and to the
        window's members, and the longest lag of the generator in each report to
        `lags_ns`."""
        wanted = self._plan.wanted_of(key)
        reports, by_agent, by_server = window.reports, window.by_agent, window.by_server
        servers = {name: code for code, name in enumerate(by_server.names)}
        slots = OperationSlots.of(len(reports.indexes))
        blocks: dict[str, list[Block]] = {metric: [] for metric in SHOWN}
        places: dict[str, list[Places]] = {metric: [] for metric in SHOWN}
        measured: list[Flags] = []
        of_servers: list[Places] = []
        for is_measured, found in groups.items():
            rows = found.columns
            slots.add_counters(reports, rows)
            codes = np.array([servers.get(name, 0) for name in rows["server"]], np.intp)
            if by_agent.names:
                by_agent.add_counters(reports, rows, reports.agent[rows["report"]])
            if servers:
                by_server.add_counters(reports, rows, codes)
            for one, packed in found.histograms.items():
                metric, outcome = one
                block, where = packed.read(), rows["report"][packed.rows]
                if is_measured:
                    totals.histograms[one].add_block(block)
                else:
                    over = block.headers["overflow"].tolist()
                    totals.unmeasured_overflow += sum(over)
                if metric == "service_time":
                    service, slot = window.service_of(key[0]), reports.slot[where]
                    np.add.at(service.sum_ns, slot, block.headers["sum_ns"])
                    np.maximum.at(service.longest_ns, slot, block.headers["max_ns"])
                if is_measured and metric in GENERATOR_LAGS:
                    np.maximum.at(lags_ns, where, block.headers["max_ns"])
                if metric in SHOWN and (metric in GENERATOR_LAGS or outcome == wanted):
                    blocks[metric].append(block)
                    places[metric].append(where)
                    if metric == "response_time":
                        measured.append(np.full(where.size, is_measured))
                        of_servers.append(codes[packed.rows])
        for metric, some in blocks.items():
            if not some:
                continue
            durations = Durations(joined(some), np.concatenate(places[metric]), reports)
            slots.times[metric] = durations
            points = int(window.point[-1]) + 1
            point = window.point[durations.slot]
            complete = np.where(window.complete[durations.slot], point, -1)
            slots.points[metric] = durations.by(complete, points)
            if metric == "response_time":
                if number := len(by_agent.names):
                    place = reports.agent[durations.where] * points + point
                    by_agent.times.append(durations.by(place, number * points))
                if number := len(by_server.names):
                    place = np.concatenate(of_servers) * points + point
                    place = np.where(complete < 0, -1, place)
                    by_server.times.append(durations.by(place, number * points))
                chosen = np.concatenate(measured)
                durations.add_by(
                    self._batch_of(reports),
                    lambda number: totals.batches[number].times,
                    chosen,
                )
                durations.add_by(
                    reports.agent,
                    lambda code: self._agents[reports.agents[code]].response_times[key],
                    chosen,
                )
        return slots

    def _batch_of(self, reports: Reports) -> Places:
        """By report."""
        last = self._batches.size - 1
        by_slot = self._batches[np.minimum(reports.indexes, last)]
        return by_slot[reports.slot]

    # Streams.

    def _add_streams(self, window: Window, reports: Reports) -> dict[str, StreamSlots]:
        """The streams by interval."""
        rows = window.streams
        slots: dict[str, StreamSlots] = {}
        names = np.array(rows["stream"], object)
        for name in dict.fromkeys(rows["stream"]):
            totals, is_theirs = self._streams[name], names == name
            theirs = np.flatnonzero(is_theirs)
            places, servers = rows["report"][theirs], rows["server"][theirs]
            is_measured = reports.in_measure[places]
            measured = theirs[is_measured]
            totals.unable_ns += sum(rows["unable_ns"][measured].tolist())
            for server in dict.fromkeys(servers.tolist()):
                own = servers == server
                for counter in (*CONNECTION_COUNTERS, *FAILURE_CAUSES, *LOSS_CAUSES):
                    if number := sum(rows[counter][theirs[own]].tolist()):
                        totals.servers[server][counter] += number
                chosen = theirs[own & is_measured]
                for index, responses in _responses(rows, chosen, reports):
                    others = totals.responses.get((server, index), responses)
                    totals.responses[server, index] = responses.with_others(others)
            for row in measured[rows["down_ns"][measured] > 0].tolist():
                place = (
                    rows["server"][row],
                    reports.indexes[reports.slot[rows["report"][row]]],
                )
                totals.down_ns[place] += int(rows["down_ns"][row])
            for time, packed in window.set_ups.items():
                if (chosen := is_theirs[packed.rows]).any():
                    totals.set_up[time].add_block(packed.read(chosen))
            last_ns = int(rows["last_done_ns"][theirs].max()) or None
            totals.last_done_ns = known(max, totals.last_done_ns, last_ns)
            for code in sorted(set(reports.agent[places].tolist())):
                self._agents[reports.agents[code]].streams.add(name)
            slots[name] = {
                gauge: reports.sum(places, rows[gauge][theirs]).sum(0)
                for gauge in GAUGES
            }
        return slots

    def _add_waits(self, slots: Slots) -> None:
        """Add the arrivals that waited at the end of the last interval."""
        reports = slots.reports
        measured = np.zeros(len(reports.indexes), np.bool_)
        measured[reports.slot[reports.in_measure]] = True
        starts_ns = self._starts_ns(np.array(reports.indexes, np.intp))
        for name, gauges in slots.streams.items():
            totals = self._streams[name]
            has_load = measured & (
                starts_ns < self._loads_end_ns.get(name, _FOR_EVER_NS)
            )
            if has_load.any():
                last = np.flatnonzero(has_load)[-1]
                at_end = reports.indexes[last], int(gauges["backlog"][last])
                totals.waiting = known(max, totals.waiting, at_end)

    # The generator.

    def _add_disturbances(
        self, window: Window, slots: Slots, lags_ns: Unsigned
    ) -> None:
        """The measured intervals in which the generator was disturbed."""
        reports, columns, limits = slots.reports, window.reports, self._validity
        lengths_ns = np.maximum(reports.end_ns - reports.start_ns, 1)
        busy, waited = np.zeros(lengths_ns.size), np.zeros(lengths_ns.size)
        shares = worker_shares(window.workers)
        whole = window.workers["wall_ns"] >= self._fragment_ns
        where = window.workers["report"][whole]
        np.maximum.at(busy, where, shares[0][whole])
        np.maximum.at(waited, where, shares[1][whole])
        throttled, steal = columns["throttled_ns"] / lengths_ns, columns["steal_share"]
        hiccups_ns = columns["hiccup_max_ns"]
        found = (
            (lags_ns > limits.stall_ns) | (hiccups_ns > limits.stall_ns),
            busy > limits.busy_share,
            waited > limits.run_queue_share,
            steal > limits.run_queue_share,
            throttled > limits.run_queue_share,
        )
        every = np.logical_or.reduce(found)
        slots.disturbed = np.zeros(len(reports.indexes), np.bool_)
        slots.disturbed[reports.slot[every]] = True
        for (stream, operation, measured), found_rows in window.operations.items():
            if measured:
                rows = found_rows.columns
                of_rows = (every & reports.in_measure)[rows["report"]]
                totals = self._operations[stream, operation]
                for name in IN_DOUBT:
                    totals.disturbed[name] += int(rows[name][of_rows].sum())
        stalls_ns = np.fmax(np.fmax(lags_ns, hiccups_ns), self._late_ns(reports))
        for place in np.flatnonzero(reports.in_measure).tolist():
            agent = self._agents[reports.agents[reports.agent[place]]]
            length_ns = int(lengths_ns[place])
            agent.wall_ns += length_ns
            if stalls_ns[place] > limits.stall_ns:
                agent.stalled[reports.indexes[reports.slot[place]]] = int(
                    stalls_ns[place]
                )
            if not every[place]:
                continue
            agent.disturbed_ns[DISTURBED] += length_ns
            for name, is_so in zip(DISTURBANCES, found, strict=True):
                agent.disturbed_ns[name] += length_ns * bool(is_so[place])

    def _late_ns(self, reports: Reports) -> Integers:
        """Return how late each interval began or ended: events in between count in the
        interval before, also where the load itself went on."""
        last = self._ends_ns.size - 1
        numbers = np.minimum(np.array(reports.indexes, np.intp)[reports.slot], last)
        late_ns: Integers = np.maximum(
            reports.end_ns - self._ends_ns[numbers],
            reports.start_ns - self._starts_ns(numbers),
        )
        return late_ns

    def _starts_ns(self, numbers: Places) -> Integers:
        """Of planned intervals."""
        starts_ns: Integers = np.where(numbers > 0, self._ends_ns[numbers - 1], 0)
        return starts_ns


def _responses(
    rows: Columns, chosen: Places, reports: Reports
) -> Iterator[tuple[int, Responses]]:
    """Yield the numbers of the intervals that the chosen rows are of, and their
    responses over all agents."""
    slots = reports.slot[rows["report"][chosen]]
    found = np.zeros((len(STREAM_TIMES), len(reports.indexes)), np.int64)
    for times, name in zip(found, STREAM_TIMES, strict=True):
        values = rows[name][chosen].astype(np.int64)
        if name in EARLIEST_TIMES:
            times[:] = _FOR_EVER_NS
            np.minimum.at(times, slots[values > 0], values[values > 0])
            times[times == _FOR_EVER_NS] = 0
        else:
            (np.bitwise_or if name in SLOTS else np.maximum).at(times, slots, values)
    for slot in sorted(set(slots.tolist())):
        yield reports.indexes[slot], Responses(*found[:, slot].tolist())


def _add_host(agent: AgentTotals, columns: Columns, places: Places) -> None:
    """The agent's reports at these places."""
    lengths_ns = (columns["end_ns"] - columns["start_ns"])[places]
    used, steal, throttled_ns, hiccups_ns, stalled_ns = (
        columns[name][places]
        for name in (
            "cpu_utilisation",
            "steal_share",
            "throttled_ns",
            "hiccup_max_ns",
            "stalled_ns",
        )
    )
    there = ~np.isnan(used)
    # one after the other: a sum of floats depends on their order
    parts = np.append(agent.cpu_utilisation_ns, (used * lengths_ns)[there])
    agent.cpu_utilisation_ns = float(np.cumsum(parts)[-1])
    agent.cpu_utilisation_wall_ns += int(lengths_ns[there].sum())
    if not np.isnan(steal).all():
        highest = float(np.nanmax(steal))
        agent.highest_steal_share = known(max, agent.highest_steal_share, highest)
    agent.throttled_ns += int(np.nansum(throttled_ns))
    there = ~np.isnan(hiccups_ns)
    if there.any():
        longest_ns = int(hiccups_ns[there].max())
        agent.longest_hiccup_ns = known(max, agent.longest_hiccup_ns, longest_ns)
        agent.stalled_ns += int(np.nansum(stalled_ns[there]))
        agent.hiccups_wall_ns += int(lengths_ns[there].sum())


def _sums(
    rows: Columns, groups: Places, chosen: Flags | None = None
) -> Iterator[tuple[int, Counter[str]]]:
    """Yield each group that has some of the chosen rows, and the sums of its
    counters."""
    kept = slice(None) if chosen is None else chosen
    group, counted = groups[kept], [rows[name][kept] for name in OPERATION_COUNTERS]
    sums = np.zeros((int(group.max(initial=-1)) + 1, len(counted)), np.int64)
    np.add.at(sums, group, np.array(counted).T)
    for number in sorted(set(group.tolist())):
        pairs = zip(OPERATION_COUNTERS, sums[number].tolist(), strict=True)
        yield number, Counter({name: amount for name, amount in pairs if amount})


def _sum(rows: Columns, chosen: Flags | None = None) -> Counter[str]:
    """The sums of the counters of the chosen rows."""
    all_in_one = np.zeros(rows["report"].size, np.intp)
    return next((counts for _, counts in _sums(rows, all_in_one, chosen)), Counter())


# A run as a whole.


def parts_of_run(
    store: Store, run: RunRecord, facts: Mapping[str, AgentFacts]
) -> list[Part]:
    """All of a run, in parts that follow each other. Sums of floats depend on the
    parts, so the parts do not depend on the host."""
    run = replace(run, plan=with_facts(run.plan, facts))
    found = extent(store, run.run_id)
    plan = Plan(run.plan, found.last)
    planned = [
        (stream.name, operation.name)
        for stream in run.plan.streams
        if not stream.is_replay  # a replay has the operations of its log
        for operation in stream.operations
    ]
    ended = {
        agent: last
        for agent, last in found.finals.items()
        if last <= len(plan.intervals)
        and plan.all_counted(streams_of(store, run.run_id, agent))
    }
    made = []
    for span in plan.parts(len(run.agents)):
        start, end = (
            bisect_left(found.indexes, one) for one in (span.start, span.stop)
        )
        known = {agent: last for agent, last in ended.items() if last < span.stop}
        indexes = found.indexes[start:end]
        size = found.bytes_per_interval
        if indexes or not span.start:
            made.append(Part(run, plan, planned, known, indexes, size, span))
    return made


def collect_run(
    store: Store, parts: Sequence[Part], *, from_reports: bool = False
) -> Collected:
    """Collect the parts of a run. A part that was collected while the run went on is
    taken from the store; `from_reports`: it is not."""
    run, plan = parts[0].run, parts[0].plan
    stored = {} if from_reports else kept(store, run.run_id)
    known = {
        one.span: stored[one.span.start]
        for one in parts
        if one.is_made_as(stored.get(one.span.start))
    }
    others = [one.collect for one in parts if one.span not in known]
    with closing(in_order(store, others)) as found:
        each = (
            _kept(store, one, known[one.span]) if one.span in known else next(found)
            for one in parts
        )
        collected = next(each)
        for later in each:
            collected.add(later)
    due = plan.shown if run.state == "finished" else collected.last_index + 1
    collected.timeline.gaps = gaps_of(plan, collected.complete, due)
    return collected


def _kept(store: Store, part: Part, known: CollectedPart) -> Collected:
    """What is kept of a part, or what its reports say where that cannot be read."""
    with suppress(StoreError):
        if content := content_of(store, part.run.run_id, known):
            return decoded(content)
    return part.collect(store)
