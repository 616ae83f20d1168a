# SPDX-License-Identifier: Apache-2.0
"""The service for agents: they register, take commands, beat, report, leave."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

from ldapslam.base.clock_id import clock_id
from ldapslam.base.errors import (
    AccessRefused,
    FleetError,
    LdapSlamError,
    RunNotFound,
    StoreFull,
    StoreRefused,
    StoreTaken,
)
from ldapslam.base.names import MAX_NAME, NAME_RULE, is_name
from ldapslam.coordinator.active_fleet import ActiveFleet
from ldapslam.coordinator.bounds import Bound, note_exceeded, within_bounds
from ldapslam.coordinator.fleet import fleet as fleet_machine
from ldapslam.coordinator.fleet.clock import ClockSample
from ldapslam.coordinator.fleet.fleet import AgentState
from ldapslam.coordinator.fleet.link import AgentIdentity, AgentLink
from ldapslam.coordinator.runs import run as run_machine
from ldapslam.coordinator.runs.controller import ActiveRun
from ldapslam.coordinator.runs.ingest import (
    MonitorNews,
    interval_record,
    monitor_news,
    reported_facts,
)
from ldapslam.coordinator.runs.submission import check_version
from ldapslam.coordinator.security.access import caller
from ldapslam.coordinator.security.audit_log import note_of_caller
from ldapslam.coordinator.security.guard import Context
from ldapslam.proto import agent_pb2, monitor_pb2
from ldapslam.proto.agent_pb2_grpc import AgentServiceServicer
from ldapslam.proto.common_pb2 import Snapshot
from ldapslam.results.facts import AgentFacts
from ldapslam.results.monitor_rows import add_monitor_report
from ldapslam.results.records import IntervalRecord, Part, RunRecord
from ldapslam.transport.messages import ProtocolError, decode_facts, error_of

_log = logging.getLogger(__name__)

HEARTBEAT_INTERVAL_NS = 1_000_000_000
#: Refusals in a run's events; the log has all.
_MOST_REFUSALS = 100
_MAX_RUNS = 64
#: Times of samples are of the agent's clock.
_CLOCK_SLACK_NS = 60_000_000_000
#: A report of so many bytes, packed, takes some milliseconds to read.
_LONG_BYTES = 16_384

_Report = (
    agent_pb2.IntervalReport | agent_pb2.ProgressReport | monitor_pb2.MonitorReport
)

_COMMITTED = agent_pb2.ReportReply(status=agent_pb2.ReportReply.STATUS_COMMITTED)
_REPEATED = agent_pb2.ReportReply(status=agent_pb2.ReportReply.STATUS_DUPLICATE)


class _Stale(ProtocolError):
    """A report that is repeated, or of an earlier process or attempt: it is taken off
    the agent's spool, and changes nothing."""


class AgentService(AgentServiceServicer):
    def __init__(self, fleet: ActiveFleet) -> None:
        self._fleet = fleet
        self._writer = fleet.writer

    async def Register(
        self, request: agent_pb2.RegisterRequest, context: Context
    ) -> agent_pb2.RegisterReply:
        """Take an agent in, or back after a broken connection."""
        name = request.name
        check_version(name, request.protocol_version, request.build)
        if not is_name(name):
            raise FleetError(
                f"agent name {name[:MAX_NAME]!r} cannot be used",
                hint=f"give one with --name that has {NAME_RULE}",
            )
        identity = AgentIdentity(
            name=name,
            instance=request.instance_id,
            epoch=request.epoch,
            build=request.build,
            host_facts=decode_facts(request.host_facts_json),
            limits=decode_facts(request.limits_json),
            shares_clock=bool(request.clock_id) and request.clock_id == clock_id(),
            host_id=request.host_id,
        )
        link = self._fleet.links.get(name)
        is_other = link is not None and link.identity.instance != identity.instance
        is_there = self._fleet.machine.agent_state(name) is not AgentState.SILENT
        if link is not None and is_other and link.is_streaming and is_there:
            raise FleetError(
                f"an agent named {name!r} is already registered",
                hint="give each agent a --name of its own",
            )
        event = fleet_machine.AgentRegistered(
            name,
            identity.instance,
            dict(request.labels),
            tuple(dict.fromkeys(part.run_id for part in request.runs)),
            identity.epoch,
            min(max(1, request.max_runs), _MAX_RUNS),
            request.restricted,
            request.host_id,
        )
        reply = agent_pb2.RegisterReply(
            build=request.build,
            heartbeat_interval_ns=HEARTBEAT_INTERVAL_NS,
            store_id=self._writer.store.store_id,
        )
        for command in self._fleet.machine.handle(event, self._fleet.now_ns()):
            if isinstance(command, fleet_machine.ReconcileAgent):
                reply.session_id, reply.resumed = self._reconcile(identity, request)
            else:
                self._fleet.execute(command)
        _log.info("agent %s registered, epoch %d", name, identity.epoch)
        return reply

    def _reconcile(
        self, identity: AgentIdentity, request: agent_pb2.RegisterRequest
    ) -> tuple[str, bool]:
        """Compare what the agent holds with what its runs know of it; its session, and
        whether that goes on."""
        name, monitored = identity.name, set(request.monitored_runs)
        # that of a process before it has ended with its loss
        link = self._fleet.links.get(name)
        is_resumed = link is not None
        if link is None:
            link = AgentLink(identity, self._fleet.now_ns())
            self._fleet.links[name] = self._fleet.sessions[link.session_id] = link
        parts = {part.run_id: part.state for part in request.runs}
        for run_id, run in list(self._fleet.runs.items()):
            if not is_resumed and run_id in parts and run.has_live_part(name):
                run.take_up_part(name, parts[run_id])
            if run_id in monitored:
                run.take_up_monitor(name)
            elif not is_resumed and run.has_open_watch(name):
                # in a session that goes on the order to monitor may be on its way
                reason = "the agent was started again"
                run.feed(run_machine.MonitorEnded(name, reason))
        for run_id in monitored - self._fleet.runs.keys():
            end = agent_pb2.EndMonitoring(run_id=run_id)
            link.send(agent_pb2.Command(end_monitoring=end))
        return link.session_id, is_resumed

    async def Commands(
        self, request: agent_pb2.CommandsRequest, context: Context
    ) -> AsyncGenerator[agent_pb2.Command, None]:
        """What an agent is told, until its session ends."""
        self._check_session(request.session_id)
        link = self._fleet.sessions.get(request.session_id)
        if link is None:
            raise FleetError("the session is not known", hint="register again")
        name = link.identity.name
        try:
            async with aclosing(link.commands(request.last_command)) as commands:
                self._fleet.feed(fleet_machine.AgentListens(name))
                async for command in commands:
                    yield command
        finally:
            if self._fleet.links.get(name) is link and not link.is_streaming:
                self._fleet.feed(fleet_machine.AgentHungUp(name))

    async def Heartbeat(
        self, request: agent_pb2.HeartbeatRequest, context: Context
    ) -> agent_pb2.HeartbeatReply:
        """A sign of life; the clock's two times are taken here."""
        received_ns = self._fleet.now_ns()
        link = self._hear(request.session_id)
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
        if request.HasField("load"):
            link.load = request.load
        return agent_pb2.HeartbeatReply(
            known=True, received_mono_ns=received_ns, sent_mono_ns=self._fleet.now_ns()
        )

    def _hear(self, session_id: str) -> AgentLink | None:
        """Take the call as a sign of life of its session; None when it is over."""
        self._check_session(session_id)
        link = self._fleet.sessions.get(session_id)
        if link is not None:
            self._fleet.feed(fleet_machine.AgentHeard(link.identity.name))
        return link

    def _check_session(self, session_id: str) -> None:
        """AccessRefused when an agent uses the session of another one."""
        who, link = caller(), self._fleet.sessions.get(session_id)
        if who.is_certified and link is not None and link.identity.name != who.who:
            raise AccessRefused(f"the session is not that of agent {who.who!r}")

    async def Leave(
        self, request: agent_pb2.LeaveRequest, context: Context
    ) -> agent_pb2.LeaveReply:
        """The agent ends in order."""
        self._check_session(request.session_id)
        link = self._fleet.sessions.get(request.session_id)
        if link is not None:
            name = link.identity.name
            self._fleet.feed(fleet_machine.AgentLeft(name, request.reason))
        return agent_pb2.LeaveReply()

    async def Reports(
        self, requests: AsyncIterator[agent_pb2.IntervalReports], context: Context
    ) -> AsyncGenerator[agent_pb2.IntervalReplies, None]:
        """Take an agent's intervals until it hangs up."""
        async for request in requests:
            yield await self.take_intervals(request)

    async def take_intervals(
        self, request: agent_pb2.IntervalReports
    ) -> agent_pb2.IntervalReplies:
        """Commit intervals together; the replies are the acknowledgements. With an
        error, which is raised when all are done, the agent sends them all again."""
        self._hear(request.session_id)
        calls = map(self._take_interval, request.reports)
        taking = [asyncio.ensure_future(call) for call in calls]
        await asyncio.gather(*taking, return_exceptions=True)
        replies = [task.result() for task in taking]
        # again, as a commit may take long: the agent's lease counts from now
        self._hear(request.session_id)
        return agent_pb2.IntervalReplies(replies=replies)

    async def _take_interval(
        self, report: agent_pb2.IntervalReport
    ) -> agent_pb2.ReportReply:
        try:
            run_record, part = await self._admit(report)
            record, snapshot = await _read(report, run_record)
            async with self._addition(report, part):
                taken = await self._writer.add_interval(report.run_id, record)
        except (ProtocolError, RunNotFound) as error:
            return self._refuse_report(report, error)
        except StoreTaken:
            raise  # the run is another coordinator's now
        except (StoreFull, StoreRefused) as error:
            # any other fault may pass: the agent keeps the report, and sends it again
            live = self._live_part(report)
            if live is not None:
                live.feed(run_machine.StoreFailed(error))
            raise
        if taken.refusal:
            return self._refuse_report(report, FleetError(taken.refusal))
        run = self._fleet.runs.get(report.run_id)
        if taken.is_new and run is not None:
            run.add_snapshot(report.agent, snapshot)
            run.note_progress(report.agent, record.end_ns)
        return _COMMITTED if taken.is_new else _REPEATED

    async def ReportProgress(
        self, report: agent_pb2.ProgressReport, context: Context
    ) -> agent_pb2.ReportReply:
        """Have the run's machine take an agent's progress, and commit what follows."""
        try:
            _, stored = await self._admit(report)
            event, facts = _progress(report)
        except _Stale:
            return _REPEATED
        except (ProtocolError, RunNotFound) as error:
            self._fail_part(report, error)
            link = self._fleet.links.get(report.agent)
            is_of_now = link is not None and link.identity.epoch == report.epoch
            if is_of_now and report.WhichOneof("kind") in ("finished", "failed"):
                # the agent has ended its part, whatever the report says
                self._release(report)
            return self._refuse_report(report, error)
        run = self._fleet.runs.get(report.run_id)
        is_end = isinstance(event, run_machine.AgentFinished | run_machine.AgentFailed)
        if is_end and not stored.is_sealed:
            await self._seal_part(report, stored)
        if run is not None:
            is_known = stored.is_sealed
            if isinstance(event, run_machine.AgentPrepared):
                is_known = run.part(report.agent) is not run_machine.Part.ASSIGNED
            # a repeated report must not be counted again
            if facts.model_fields_set and not is_known:
                run.add_facts(report.agent, facts)
            if is_end:
                run.add_clock_drift(report.agent)
            run.feed(event)
        if is_end:
            if run is not None:
                run.drop_agent(report.agent)
            self._release(report)
        try:
            await self._writer.flush(report.run_id)
        except StoreRefused as error:
            if run is not None:
                run.feed(run_machine.StoreFailed(error))
            raise
        return _COMMITTED

    async def ReportMonitor(
        self, report: monitor_pb2.MonitorReport, context: Context
    ) -> agent_pb2.ReportReply:
        """Commit what a monitor found, and tell the run's machine."""
        run_id, agent = report.run_id, report.agent
        run = self._live_part(report)
        is_monitoring = run is not None and run.has_open_watch(agent)
        try:
            record, part = await self._admit(report)
            until_ns = record.planned_ns
            if run is not None:
                until_ns = run.elapsed_ns + _CLOCK_SLACK_NS
            is_ready = report.event.WhichOneof("kind") == "ready"
            if is_ready and not (run and run.awaits_monitor(agent)):
                raise _Stale("the run does not wait for monitors of the agent")
            news = await asyncio.to_thread(monitor_news, report, until_ns)
            if news.monitors or news.samples:
                await self._add_monitor_report(report, news, part, is_monitoring)
        except _Stale:
            return _REPEATED
        except (ProtocolError, RunNotFound) as error:
            if is_monitoring and run is not None:
                run.refuse_monitor(agent, str(error))
            elif (link := self._fleet.links.get(agent)) is not None:
                end = agent_pb2.EndMonitoring(run_id=run_id)
                link.send(agent_pb2.Command(end_monitoring=end))
            return self._refuse_report(report, error)
        # not before: it may have ended meanwhile
        if run is not None and run.has_open_watch(agent):
            run.add_monitor_facts(news.facts)
            run.feed(news.event)
        await self._writer.flush(run_id)
        return _COMMITTED

    async def _add_monitor_report(
        self,
        report: monitor_pb2.MonitorReport,
        news: MonitorNews,
        part: Part,
        is_monitoring: bool,
    ) -> None:
        async with self._addition(report, part):
            refusal = await self._writer.call(
                add_monitor_report,
                self._writer.store,
                report.run_id,
                report.agent,
                report.attempt,
                news.monitors,
                news.samples,
                report.ByteSize(),
                is_monitoring=is_monitoring,
            )
        if refusal:
            raise ProtocolError(refusal)

    async def _seal_part(self, report: agent_pb2.ProgressReport, part: Part) -> None:
        run = self._fleet.runs.get(report.run_id)
        if run is not None:
            run.seal_part(report.agent)
            return
        seal, run_id = self._writer.store.seal_part, report.run_id
        async with self._addition(report, part):
            await self._writer.call(seal, run_id, report.agent, report.attempt)

    @asynccontextmanager
    async def _addition(self, report: _Report, part: Part) -> AsyncIterator[None]:
        """Within, more of a run may be stored; a run that has ended is judged again
        with what a lost agent adds. The store knows whether something was added:
        callers hang up, and its connections break."""
        run_id, agent = report.run_id, report.agent
        if run_id in self._fleet.runs or part.is_sealed:
            yield
            return
        verdicts = self._fleet.verdicts
        standing = await verdicts.before_late(run_id)
        try:
            yield
        finally:
            detail = f"reports of agent {agent!r} came after the run's end"
            note = note_of_caller("late_reports", run_id, detail, by=agent)
            verdicts.note_late(run_id, standing, note)

    def _release(self, report: agent_pb2.ProgressReport) -> None:
        self._fleet.feed(fleet_machine.AgentReleased(report.agent, report.run_id))

    async def _admit(self, report: _Report) -> tuple[RunRecord, Part]:
        """Return the run of a report, and the reporter's part of it. Each report must
        come from the process and the attempt that were given the part. RunNotFound,
        ProtocolError; _Stale."""
        within_bounds(report)
        run_id, agent = report.run_id, report.agent
        run = self._fleet.runs.get(run_id)
        if run is not None:
            record, part = run.record, run.stored_part(agent)
        else:
            store = self._writer.store
            record = await self._writer.call(store.run, run_id)
            if record.run_id != run_id:
                raise RunNotFound(run_id)
            part = await self._writer.call(store.part, run_id, agent)
        if agent not in record.agents:
            raise ProtocolError(f"agent {agent!r} has no part in run {run_id!r}")
        if (report.epoch, report.attempt) != (part.epoch, part.attempt):
            _log.info("run %s: a stale report of agent %s", run_id, agent)
            raise _Stale("it is of another process of the agent, or another attempt")
        return record, part

    def _live_part(self, report: _Report) -> ActiveRun | None:
        """The report's run, if it is live and the agent is in it."""
        run = self._fleet.runs.get(report.run_id)
        return run if run is not None and report.agent in run.record.agents else None

    def _refuse_report(
        self, report: _Report, error: LdapSlamError
    ) -> agent_pb2.ReportReply:
        run_id = report.run_id[:MAX_NAME]
        _log.warning("a report of run %r was refused: %s", run_id, error)
        run = self._live_part(report)
        if run is not None and run.refusals >= _MOST_REFUSALS:
            note_exceeded(Bound.REFUSALS)
        elif run is not None:
            run.refusals += 1
            text = f"a report of agent {report.agent!r} was refused: {error}"
            run.add_event("report_refused", text)
        return agent_pb2.ReportReply(
            status=agent_pb2.ReportReply.STATUS_REFUSED, detail=str(error)
        )

    def _fail_part(
        self, report: agent_pb2.ProgressReport, error: LdapSlamError
    ) -> None:
        """The run would wait in vain for this step of its agent."""
        run, link = self._live_part(report), self._fleet.links.get(report.agent)
        if run is None:
            return
        if link is not None:
            stop = agent_pb2.StopRun(
                run_id=report.run_id, reason=str(error), abandon=True
            )
            link.send(agent_pb2.Command(stop=stop))
        run.feed(run_machine.AgentFailed(report.agent, error))


async def _read(
    report: agent_pb2.IntervalReport, run: RunRecord
) -> tuple[IntervalRecord, Snapshot]:
    """Aside where it is long: others wait for this thread."""
    if len(report.packed) < _LONG_BYTES:
        return interval_record(report, run.plan)
    return await asyncio.to_thread(interval_record, report, run.plan)


def _progress(
    report: agent_pb2.ProgressReport,
) -> tuple[run_machine.RunEvent, AgentFacts]:
    """The machine's event of a report, and its facts."""
    agent = report.agent
    match report.WhichOneof("kind"):
        case "ready":
            facts = reported_facts(report.ready.facts_json)
            return run_machine.AgentPrepared(agent), AgentFacts().updated(facts)
        case "started":
            error_us = report.started.start_error_ns / 1000
            return run_machine.AgentStarted(agent), AgentFacts(start_error_us=error_us)
        case "cleaning_up":
            return run_machine.PartProgressed(agent), AgentFacts()
        case "finished":
            finished = report.finished
            facts = reported_facts(finished.facts_json)
            ended = run_machine.AgentFinished(agent, finished.early_reason)
            return ended, AgentFacts().updated(facts)
        case "failed":
            error = error_of(report.failed)
            return run_machine.AgentFailed(agent, error), AgentFacts()
        case _:
            raise ProtocolError("a progress report without progress")
