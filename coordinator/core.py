# SPDX-License-Identifier: Apache-2.0
"""What the coordinator holds, and how it carries out what its fleet machine decides.

One event loop, one thread: agents' sessions, the fleet's state machine, the live runs.
Only the store has a thread of its own (journal.py). Agents' calls are answered by
agent_calls.py, operators' and the scheduler's by operator_calls.py; control.py puts
them together.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from ldapslam.coordinator import fleet as fleet_machine
from ldapslam.coordinator import run as run_machine
from ldapslam.coordinator.conduct import ActiveRun
from ldapslam.coordinator.fleet import Fleet
from ldapslam.coordinator.hooks import Hooks, WaitingRun
from ldapslam.coordinator.journal import Journal
from ldapslam.coordinator.link import AgentLink
from ldapslam.jobs.errors import LdapSlamError, NotEnoughAgents
from ldapslam.proto import agent_pb2
from ldapslam.reports.results import submissions
from ldapslam.reports.results.records import RunRecord, utc_text

_log = logging.getLogger(__name__)


class Core:
    """The state of a coordinator."""

    def __init__(
        self,
        journal: Journal,
        now_ns: Callable[[], int] = time.monotonic_ns,
        hooks: Hooks | None = None,
    ) -> None:
        self._journal = journal
        self._now_ns = now_ns
        self._hooks = hooks or Hooks()
        self._fleet = Fleet()
        #: By agent, and by session.
        self._links: dict[str, AgentLink] = {}
        self._sessions: dict[str, AgentLink] = {}
        self._runs: dict[str, ActiveRun] = {}
        self._judging: set[asyncio.Task[None]] = set()
        #: Waiting runs that may not be given agents, and what is asked of new ones.
        self._held: frozenset[str] = frozenset()
        self._hindrance: Callable[[WaitingRun], str] = lambda _: ""

    def _feed_fleet(self, event: fleet_machine.FleetEvent) -> None:
        for command in self._fleet.handle(event, self._now_ns()):
            self._execute(command)

    def _are_local(self, agents: Sequence[str]) -> bool:
        links = [self._links.get(agent) for agent in agents]
        return all(link is not None and link.identity.shares_clock for link in links)

    def _execute(self, command: fleet_machine.Command) -> None:
        match command:
            case fleet_machine.AssignRun(run_id, agents, left_out):
                assigned = run_machine.AgentsAssigned(agents, self._are_local(agents))
                self._runs[run_id].feed(assigned)
                if left_out:
                    names = ", ".join(left_out)
                    text = f"more agents than connections: {names} have no share"
                    self._runs[run_id].add_event("agents_left_out", text)
            case fleet_machine.GiveUpRun(run_id, wanted, available, misfits):
                error = NotEnoughAgents(wanted, available, misfits)
                self._runs[run_id].feed(run_machine.GaveUp(str(error), error))
            case fleet_machine.ReportSilence(name, run_ids, silent_ns):
                text = (
                    f"nothing heard of agent {name!r} for {silent_ns / 1e9:.1f} s; "
                    "the run goes on as long as the agent keeps up its load"
                )
                self._tell_runs(run_ids, "agent_silent", text)
            case fleet_machine.ReportReturn(name, run_ids, silent_ns):
                text = f"agent {name!r} is heard again after {silent_ns / 1e9:.1f} s"
                self._tell_runs(run_ids, "agent_heard", text)
            case fleet_machine.ReportLoss():
                self._lose(command)
            case fleet_machine.StopStray(name, run_id):
                stop = agent_pb2.StopRun(
                    run_id=run_id, reason="the run is over for this agent"
                )
                self._links[name].send(agent_pb2.Command(stop=stop))
            case fleet_machine.RefuseEvent(event, state):
                _log.debug("fleet, %s: refused %r", state, event)
            case fleet_machine.RefuseRun():
                pass  # only submit causes it, and asks before

    def _tell_runs(self, run_ids: tuple[str, ...], kind: str, text: str) -> None:
        for run_id in run_ids:
            if run_id in self._runs:
                self._runs[run_id].add_event(kind, text)

    def _lose(self, loss: fleet_machine.ReportLoss) -> None:
        level = logging.WARNING if loss.run_ids else logging.INFO
        _log.log(level, "agent %s is gone: %s", loss.name, loss.reason)
        if loss.is_gone:
            link = self._links.pop(loss.name, None)
            if link is not None:
                self._sessions.pop(link.session_id, None)
                link.close()
        for run_id in loss.run_ids:
            run = self._runs.get(run_id)
            if run is not None:
                run.feed(
                    run_machine.AgentVanished(loss.name, loss.silent_ns, loss.reason)
                )
                run.drop_agent(loss.name)

    # What runs ask for (conduct.Fleet).

    def link(self, agent: str) -> AgentLink | None:
        """The agent's session, if it has one."""
        return self._links.get(agent)

    def requeue(self, run_id: str, agents: tuple[str, ...]) -> None:
        """The run begins anew with these agents."""
        event = fleet_machine.RunRequeued(run_id, agents)
        # after this round of the run's commands, not within it
        asyncio.get_running_loop().call_soon(self._feed_fleet, event)

    def release_agents(self, run_id: str, agents: tuple[str, ...]) -> None:
        """They have no part in the run."""
        for agent in agents:
            event = fleet_machine.AgentReleased(agent, run_id)
            asyncio.get_running_loop().call_soon(self._feed_fleet, event)

    def run_concluded(self, run: ActiveRun) -> None:
        """Its end is committed."""
        self._runs.pop(run.run_id, None)
        self._feed_fleet(fleet_machine.RunEnded(run.run_id))
        self._judge_later(run.record)

    def _judge_later(self, record: RunRecord) -> None:
        task = asyncio.create_task(self._judge(record))
        self._judging.add(task)
        task.add_done_callback(self._judging.discard)

    async def _judge(self, record: RunRecord) -> None:
        """Have the run judged, and tell of it: the last that happens to a run."""
        verdict: str | None = None
        if self._hooks.judge is not None:
            try:
                verdict = await self._hooks.judge(record.run_id)
                if verdict is not None:
                    store = self._journal.store
                    await self._journal.call(store.set_verdict, record.run_id, verdict)
            except Exception:
                _log.exception("run %s cannot be judged", record.run_id)
        record = replace(record, verdict=verdict)
        for observer in self._hooks.observers:
            try:
                observer.run_judged(record)
            except Exception:
                _log.exception("run %s: an observer failed", record.run_id)

    async def _close_record(
        self, record: RunRecord, kind: str, error: LdapSlamError
    ) -> None:
        """End a run that never was, or is no more, in this process."""
        store, run_id = self._journal.store, record.run_id
        now_utc = utc_text(datetime.now(UTC))
        self._journal.post(store.add_event, run_id, kind, str(error), now_utc)
        self._journal.post(store.set_manifest, run_id, {"failure": error.to_dict()})
        await self._journal.call(
            store.set_run_state, run_id, "failed", str(error), finished_utc=now_utc
        )
        self._journal.post(submissions.forget, store, run_id)
