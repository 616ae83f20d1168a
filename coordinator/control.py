# SPDX-License-Identifier: Apache-2.0
"""The coordinator without its wire: agents' sessions, the queue, runs, ingest.

Holds the fleet's state machine and one run machine for each live run, carries out what
they decide, and answers what server.py is asked. All on one event loop; only the store
has a thread (journal.py). Raises our errors; no gRPC here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime

from ldapslam.coordinator import fleet as fleet_machine
from ldapslam.coordinator import run as run_machine
from ldapslam.coordinator.clock import ClockSample
from ldapslam.coordinator.conduct import ActiveRun, status_message
from ldapslam.coordinator.facts import agent_facts
from ldapslam.coordinator.fleet import Fleet
from ldapslam.coordinator.ingest import interval_record
from ldapslam.coordinator.journal import Journal
from ldapslam.coordinator.link import AgentIdentity, AgentLink
from ldapslam.coordinator.submission import (
    Submission,
    check_version,
    load_submission,
)
from ldapslam.jobs.errors import (
    FleetError,
    LdapSlamError,
    NotEnoughAgents,
    RunAborted,
    RunNotFound,
)
from ldapslam.proto import agent_pb2
from ldapslam.proto import operator_pb2 as pb
from ldapslam.proto.messages import ProtocolError, decode_facts, error_of, facts_json
from ldapslam.reports.results.records import FINAL_STATES, RunRecord, utc_text

_log = logging.getLogger(__name__)

HEARTBEAT_INTERVAL_NS = 1_000_000_000
_TICK_S = 0.25
#: A tick so late says that this process stood still, not that agents were silent.
_STALL_S = 1.0
_MAX_NAME = 64

_Report = agent_pb2.IntervalReport | agent_pb2.ProgressReport


class Coordinator:
    """Start it, call it, stop it: all on one event loop."""

    def __init__(
        self, journal: Journal, now_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._journal = journal
        self._now_ns = now_ns
        self._fleet = Fleet()
        self._links: dict[str, AgentLink] = {}
        self._sessions: dict[str, AgentLink] = {}
        self._runs: dict[str, ActiveRun] = {}
        self._ticker: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Close the books on runs that a previous coordinator left open."""
        for record in await self._journal.call(self._journal.store.runs):
            if record.state not in FINAL_STATES:
                error = RunAborted("the coordinator was restarted")
                await self._close_record(record, "coordinator_restarted", error)
        self._ticker = asyncio.create_task(self._tick())

    async def _close_record(
        self, record: RunRecord, kind: str, error: LdapSlamError
    ) -> None:
        store, run_id = self._journal.store, record.run_id
        now_utc = utc_text(datetime.now(UTC))
        self._journal.post(store.add_event, run_id, kind, str(error), now_utc)
        self._journal.post(store.set_manifest, run_id, {"failure": error.to_dict()})
        await self._journal.call(
            store.set_run_state, run_id, "failed", str(error), finished_utc=now_utc
        )

    async def stop(self, timeout_s: float = 0.0) -> None:
        """Cancel what is live and give it so long to drain."""
        runs = list(self._runs.values())
        for run in runs:
            run.feed(run_machine.CancelRequested("the coordinator, which is stopping"))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                for run in runs:
                    await run.concluded.wait()
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.gather(self._ticker, return_exceptions=True)
        for link in self._links.values():
            link.close()
        await self._journal.flush()

    async def _tick(self) -> None:
        before_s = time.monotonic()
        while True:
            await asyncio.sleep(_TICK_S)
            now_s = time.monotonic()
            is_stalled, before_s = now_s - before_s > _STALL_S, now_s
            if not is_stalled:
                # after a stall, what agents sent meanwhile is taken first
                self._feed_fleet(fleet_machine.TimePassed())
            for run in list(self._runs.values()):
                if not run.state.is_final:
                    run.feed(run_machine.TimePassed())

    # The fleet's machine.

    def _feed_fleet(self, event: fleet_machine.FleetEvent) -> None:
        for command in self._fleet.handle(event, self._now_ns()):
            self._execute(command)

    def _execute(self, command: fleet_machine.Command) -> None:
        match command:
            case fleet_machine.AssignRun(run_id, agents, left_out):
                self._runs[run_id].feed(run_machine.AgentsAssigned(agents))
                if left_out:
                    names = ", ".join(left_out)
                    text = f"more agents than connections: {names} have no share"
                    self._runs[run_id].add_event("agents_left_out", text)
            case fleet_machine.ReportLoss(name, run_id, silent_ns, reason):
                level = logging.INFO if run_id is None else logging.WARNING
                _log.log(level, "agent %s is gone: %s", name, reason)
                link = self._links.pop(name, None)
                if link is not None:
                    self._sessions.pop(link.session_id, None)
                    link.close()
                run = self._runs.get(run_id or "")
                if run is not None:
                    run.feed(run_machine.AgentVanished(name, silent_ns, reason))
                    run.drop_agent(name)
            case fleet_machine.StopStray(name, run_id):
                stop = agent_pb2.StopRun(
                    run_id=run_id, reason="the run is over for this agent"
                )
                self._links[name].send(agent_pb2.Command(stop=stop))
            case fleet_machine.RefuseEvent(event, state):
                _log.debug("fleet, %s: refused %r", state, event)
            case fleet_machine.RefuseRun():
                pass  # only submit causes it, and asks before

    def link(self, agent: str) -> AgentLink | None:
        """The agent's session, if it has one."""
        return self._links.get(agent)

    def run_concluded(self, run_id: str) -> None:
        """For ActiveRun: its end is committed."""
        self._runs.pop(run_id, None)
        self._feed_fleet(fleet_machine.RunEnded(run_id))

    # Agents.

    def register(self, request: agent_pb2.RegisterRequest) -> agent_pb2.RegisterReply:
        """Take an agent in, or back after a broken connection."""
        name = request.name
        check_version(name, request.protocol_version, request.build)
        if not name.strip() or len(name) > _MAX_NAME or not name.isprintable():
            raise FleetError(
                f"agent name {name[:_MAX_NAME]!r} cannot be used",
                hint=f"give 1 to {_MAX_NAME} printable characters with --name",
            )
        identity = AgentIdentity(
            name=name,
            instance=request.instance_id,
            epoch=request.epoch,
            build=request.build,
            labels=dict(request.labels),
            host_facts=decode_facts(request.host_facts_json),
        )
        link = self._links.get(name)
        is_resumed = link is not None and link.identity.instance == identity.instance
        if link is not None and not is_resumed and link.is_streaming:
            raise FleetError(
                f"an agent named {name!r} is already registered",
                hint="give each agent a --name of its own",
            )
        event = fleet_machine.AgentRegistered(
            name,
            identity.instance,
            identity.labels,
            request.runs[0].run_id if request.runs else None,
        )
        commands = self._fleet.handle(event, self._now_ns())
        # a loss is that of the session before: it ends before the new one begins
        losses = [c for c in commands if isinstance(c, fleet_machine.ReportLoss)]
        for loss in losses:
            self._execute(loss)
        if not is_resumed:
            link = AgentLink(identity, self._now_ns())
            self._links[name] = self._sessions[link.session_id] = link
        assert link is not None, "a resumed session has a link"
        for command in commands[len(losses) :]:
            self._execute(command)
        _log.info("agent %s registered, epoch %d", name, identity.epoch)
        return agent_pb2.RegisterReply(
            session_id=link.session_id,
            build=request.build,
            heartbeat_interval_ns=HEARTBEAT_INTERVAL_NS,
            resumed=is_resumed,
        )

    def commands(
        self, request: agent_pb2.CommandsRequest
    ) -> AsyncGenerator[agent_pb2.Command, None]:
        """What an agent is told, until its session ends."""
        link = self._sessions.get(request.session_id)
        if link is None:
            raise FleetError("the session is not known", hint="register again")
        return link.commands(request.last_command)

    def heartbeat(
        self, request: agent_pb2.HeartbeatRequest, received_ns: int
    ) -> agent_pb2.HeartbeatReply:
        """A sign of life; the clock's two times are taken here."""
        link = self._sessions.get(request.session_id)
        if link is None:
            return agent_pb2.HeartbeatReply(known=False)
        link.confirm(request.last_command)
        for sample in request.samples:
            link.add_sample(
                ClockSample(
                    sample.agent_sent_mono_ns,
                    sample.coordinator_received_mono_ns,
                    sample.coordinator_sent_mono_ns,
                    sample.agent_received_mono_ns,
                ),
                received_ns,
            )
        self._feed_fleet(fleet_machine.AgentHeard(link.identity.name))
        return agent_pb2.HeartbeatReply(
            known=True, received_mono_ns=received_ns, sent_mono_ns=self._now_ns()
        )

    def leave(self, request: agent_pb2.LeaveRequest) -> agent_pb2.LeaveReply:
        """The agent ends in order."""
        link = self._sessions.get(request.session_id)
        if link is not None:
            name = link.identity.name
            self._feed_fleet(fleet_machine.AgentLeft(name, request.reason))
        return agent_pb2.LeaveReply()

    async def take_interval(
        self, report: agent_pb2.IntervalReport
    ) -> agent_pb2.ReportReply:
        """Commit an interval; the reply is the acknowledgement."""
        try:
            run_record = await self._reporters_run(report.run_id, report.agent)
            record = await asyncio.to_thread(interval_record, report, run_record.plan)
            is_new = await self._journal.call(
                self._journal.store.add_interval, report.run_id, record
            )
        except (ProtocolError, RunNotFound) as error:
            return self._refuse_report(report, error)
        run = self._runs.get(report.run_id)
        if is_new and run is not None:
            run.add_snapshot(report.agent, report.snapshot)
        status = agent_pb2.ReportReply.Status
        return agent_pb2.ReportReply(
            status=status.STATUS_COMMITTED if is_new else status.STATUS_DUPLICATE
        )

    async def take_progress(
        self, report: agent_pb2.ProgressReport
    ) -> agent_pb2.ReportReply:
        """Have the run's machine take an agent's progress, and commit what follows."""
        try:
            await self._reporters_run(report.run_id, report.agent)
            event, facts = _progress(report)
        except (ProtocolError, RunNotFound) as error:
            self._fail_part(report, error)
            return self._refuse_report(report, error)
        run = self._runs.get(report.run_id)
        is_end = isinstance(event, run_machine.AgentFinished | run_machine.AgentFailed)
        if run is not None:
            if facts:
                run.add_facts(report.agent, facts)
            if is_end:
                run.add_clock_drift(report.agent)
            run.feed(event)
        if is_end:
            if run is not None:
                run.drop_agent(report.agent)
            self._feed_fleet(fleet_machine.AgentReleased(report.agent, report.run_id))
        await self._journal.flush()
        return agent_pb2.ReportReply(status=agent_pb2.ReportReply.STATUS_COMMITTED)

    async def _reporters_run(self, run_id: str, agent: str) -> RunRecord:
        run = self._runs.get(run_id)
        if run is not None:
            record = run.record
        else:
            record = await self._journal.call(self._journal.store.run, run_id)
            if record.run_id != run_id:
                raise RunNotFound(run_id)
        if agent not in record.agents:
            raise ProtocolError(f"agent {agent!r} has no part in run {run_id!r}")
        return record

    def _live_part(self, report: _Report) -> ActiveRun | None:
        """The run that the report is of, when it is live and the agent part of it."""
        run = self._runs.get(report.run_id)
        return run if run is not None and report.agent in run.record.agents else None

    def _refuse_report(
        self, report: _Report, error: LdapSlamError
    ) -> agent_pb2.ReportReply:
        _log.warning("a report of run %r was refused: %s", report.run_id, error)
        run = self._live_part(report)
        if run is not None:
            text = f"a report of agent {report.agent!r} was refused: {error}"
            run.add_event("report_refused", text)
        return agent_pb2.ReportReply(
            status=agent_pb2.ReportReply.STATUS_REFUSED, detail=str(error)
        )

    def _fail_part(
        self, report: agent_pb2.ProgressReport, error: LdapSlamError
    ) -> None:
        """Without this step of its agent the run would wait in vain."""
        run, link = self._live_part(report), self._links.get(report.agent)
        if run is None:
            return
        if link is not None:
            stop = agent_pb2.StopRun(
                run_id=report.run_id, reason=str(error), abandon=True
            )
            link.send(agent_pb2.Command(stop=stop))
        run.feed(run_machine.AgentFailed(report.agent, error))

    # Operators.

    async def submit(self, request: pb.SubmitJobRequest) -> pb.SubmitJobReply:
        """Queue a job; refused when it has faults or the fleet too few agents."""
        now_utc = datetime.now(UTC)
        submission = await asyncio.to_thread(load_submission, request, now_utc)
        # to its end even if the caller goes away: no record without a run
        await asyncio.shield(self._accept(submission))
        return pb.SubmitJobReply(run_id=submission.record.run_id)

    async def _accept(self, submission: Submission) -> None:
        record, selection = submission.record, submission.selection
        _raise_refusal(self._fleet.refusal(record.run_id, selection))
        # first of all: load whose results could not be stored must not begin
        await self._journal.call(self._journal.store.create_run, record)
        try:
            # agents may have left since
            _raise_refusal(self._fleet.refusal(record.run_id, selection))
        except NotEnoughAgents as error:
            await self._close_record(record, "not_enough_agents", error)
            raise
        run = ActiveRun(submission, self, self._journal, self._now_ns)
        self._runs[record.run_id] = run
        self._feed_fleet(
            fleet_machine.RunSubmitted(record.run_id, selection, submission.targets)
        )
        await self._journal.flush()

    async def runs(self, limit: int) -> pb.ListRunsReply:
        """The newest runs; 0 is all."""
        records = await self._journal.call(self._journal.store.runs)
        wanted = records[:limit] if limit else records
        return pb.ListRunsReply(runs=[self._brief(record) for record in wanted])

    def _brief(self, record: RunRecord) -> pb.RunStatus:
        run = self._runs.get(record.run_id)
        return run.status() if run is not None else _stored_status(record)

    async def run(self, name: str) -> pb.RunStatus:
        """One run, by its id or the beginning of it."""
        run_id = await self._full_id(name)
        run = self._runs.get(run_id)
        if run is not None:
            return run.status()
        store = self._journal.store
        record = await self._journal.call(store.run, run_id)
        status = _stored_status(record)
        for event in await self._journal.call(store.events, run_id):
            status.events.add(at_utc=event.at_utc, kind=event.kind, text=event.text)
        return status

    async def watch(self, name: str) -> AsyncGenerator[pb.RunUpdate, None]:
        """The run's state now, and what happens until its end."""
        run_id = await self._full_id(name)
        run = self._runs.get(run_id)
        if run is None:
            yield pb.RunUpdate(status=await self.run(run_id))
            return
        updates = run.subscribe()
        try:
            while (update := await updates.get()) is not None:
                yield update
        finally:
            run.unsubscribe(updates)

    async def cancel(self, request: pb.CancelRunRequest) -> pb.RunStatus:
        """Have a run end early; one that has ended stays as it is."""
        run_id = await self._full_id(request.run_id)
        run = self._runs.get(run_id)
        if run is None:
            return await self.run(run_id)
        was_queued = run.state is run_machine.RunState.QUEUED
        run.feed(run_machine.CancelRequested(request.cancelled_by))
        if was_queued:
            self._feed_fleet(fleet_machine.RunWithdrawn(run_id))
        return run.status()

    def agents(self) -> pb.ListAgentsReply:
        """Every agent that has registered with this coordinator, by name."""
        now_ns = self._now_ns()
        reply = pb.ListAgentsReply()
        for record in self._fleet.agents():
            status = reply.agents.add(
                name=record.name,
                state=str(record.state),
                labels=record.labels,
                run_ids=[record.run_id] if record.run_id else [],
                silent_ns=now_ns - record.heard_ns,
            )
            link = self._links.get(record.name)
            if link is None:
                continue
            status.build = link.identity.build
            status.host_facts_json = facts_json(link.identity.host_facts)
            offset = link.clock_offset(now_ns)
            if offset is not None:
                status.clock_offset_ns = offset.offset_ns
                status.clock_offset_bound_ns = offset.bound_ns
        return reply

    async def fetch(self, name: str) -> AsyncGenerator[bytes, None]:
        """The archive of a run, in chunks."""
        run_id = await self._full_id(name)
        async with contextlib.aclosing(self._journal.export(run_id)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _full_id(self, name: str) -> str:
        record = await self._journal.call(self._journal.store.run, name)
        return record.run_id


def _raise_refusal(refusal: fleet_machine.RefuseRun | None) -> None:
    if refusal is not None:
        raise NotEnoughAgents(refusal.wanted, refusal.available)


def _progress(
    report: agent_pb2.ProgressReport,
) -> tuple[run_machine.RunEvent, dict[str, object]]:
    """The machine's event of a report, and the facts that came with it."""
    agent = report.agent
    match report.WhichOneof("kind"):
        case "ready":
            facts = agent_facts(report.ready.facts_json)
            return run_machine.AgentPrepared(agent), facts
        case "started":
            error_us = report.started.start_error_ns / 1000
            return run_machine.AgentStarted(agent), {"start_error_us": error_us}
        case "cleaning_up":
            entries_left = report.cleaning_up.entries_left
            return run_machine.CleanUpProgressed(agent, entries_left), {}
        case "finished":
            finished = report.finished
            facts = agent_facts(finished.facts_json)
            # counted once already, when the agent was ready
            facts.pop("control_operations", None)
            return run_machine.AgentFinished(agent, finished.early_reason), facts
        case "failed":
            return run_machine.AgentFailed(agent, error_of(report.failed)), {}
        case _:
            raise ProtocolError("a progress report without progress")


def _stored_status(record: RunRecord) -> pb.RunStatus:
    failure = record.manifest.get("failure")
    error = LdapSlamError.from_dict(failure) if failure else None
    phases = record.plan.get("phases") or [{"end_ns": 0}]
    return status_message(record, [], error, phases[-1]["end_ns"])
