# SPDX-License-Identifier: Apache-2.0
"""The live agents and runs of a coordinator. Executes the commands of fleet.py.

On the event loop; only the store has a thread (store_writer.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from ldapslam.base.errors import LdapSlamError, NotEnoughAgents
from ldapslam.coordinator.fleet import fleet as fleet_machine
from ldapslam.coordinator.fleet.fleet import Fleet
from ldapslam.coordinator.fleet.link import AgentLink
from ldapslam.coordinator.observer import Observer
from ldapslam.coordinator.runs import run as run_machine
from ldapslam.coordinator.runs.controller import ActiveRun
from ldapslam.coordinator.runs.judge import Verdicts
from ldapslam.coordinator.runs.submission import Submission
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.proto import agent_pb2
from ldapslam.results.facts import Manifest
from ldapslam.results.records import RunRecord, utc_text

_log = logging.getLogger(__name__)


class ActiveFleet:
    """All parts of a coordinator work on it."""

    def __init__(
        self,
        writer: StoreWriter,
        now_ns: Callable[[], int],
        verdicts: Verdicts,
        observers: Sequence[Observer],
    ) -> None:
        self.writer = writer
        self.now_ns = now_ns
        self.machine = Fleet()
        #: By agent, and by session.
        self.links: dict[str, AgentLink] = {}
        self.sessions: dict[str, AgentLink] = {}
        self.runs: dict[str, ActiveRun] = {}
        self.verdicts = verdicts
        self._observers = observers

    def feed(self, event: fleet_machine.FleetEvent) -> None:
        for command in self.machine.handle(event, self.now_ns()):
            self.execute(command)

    def _are_local(self, agents: Sequence[str]) -> bool:
        """Whether neither network nor other runs can delay the start."""
        links = [self.links.get(agent) for agent in agents]
        return len(self.runs) == 1 and all(
            link is not None and link.identity.shares_clock for link in links
        )

    def execute(self, command: fleet_machine.Command) -> None:
        match command:
            case fleet_machine.AssignRun(run_id, agents, left_out):
                assigned = run_machine.AgentsAssigned(agents, self._are_local(agents))
                self.runs[run_id].feed(assigned)
                if left_out:
                    names = ", ".join(left_out)
                    text = f"more agents than connections: {names} have no share"
                    self.runs[run_id].add_event("agents_left_out", text)
            case fleet_machine.GiveUpRun(run_id, wanted, available, ineligible):
                error = NotEnoughAgents(wanted, available, ineligible)
                self.runs[run_id].feed(run_machine.GaveUp(str(error), error))
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
            case fleet_machine.StopOrphan(name, run_id):
                stop = agent_pb2.StopRun(
                    run_id=run_id, reason="the run is over for this agent"
                )
                self.links[name].send(agent_pb2.Command(stop=stop))
            case fleet_machine.RefuseEvent(event, state):
                _log.debug("fleet, %s: refused %r", state, event)
            case fleet_machine.RefuseRun():
                pass  # only submit causes it, and asks before

    def _tell_runs(self, run_ids: tuple[str, ...], kind: str, text: str) -> None:
        for run_id in run_ids:
            if run_id in self.runs:
                self.runs[run_id].add_event(kind, text)

    def _lose(self, loss: fleet_machine.ReportLoss) -> None:
        level = logging.WARNING if loss.run_ids else logging.INFO
        _log.log(level, "agent %s is gone: %s", loss.name, loss.reason)
        if loss.is_gone:
            link = self.links.pop(loss.name, None)
            if link is not None:
                self.sessions.pop(link.session_id, None)
                link.close()
        for run_id in loss.run_ids:
            run = self.runs.get(run_id)
            if run is not None:
                run.feed(
                    run_machine.AgentVanished(loss.name, loss.silent_ns, loss.reason)
                )
                run.drop_agent(loss.name)

    def link(self, agent: str) -> AgentLink | None:
        return self.links.get(agent)

    def requeue(self, run_id: str, agents: tuple[str, ...]) -> None:
        """The run begins again with these agents."""
        event = fleet_machine.RunRequeued(run_id, agents)
        # after this round of commands
        asyncio.get_running_loop().call_soon(self.feed, event)

    def release_agents(self, run_id: str, agents: tuple[str, ...]) -> None:
        for agent in agents:
            event = fleet_machine.AgentReleased(agent, run_id)
            asyncio.get_running_loop().call_soon(self.feed, event)

    def load_begins(self, run_id: str) -> None:
        self.feed(fleet_machine.LoadBegins(run_id))

    def run_concluded(self, run: ActiveRun) -> None:
        self.runs.pop(run.run_id, None)
        self.feed(fleet_machine.RunEnded(run.run_id))
        self.verdicts.judge(run.record)

    def new_run(self, submission: Submission) -> ActiveRun:
        run = ActiveRun(submission, self, self.writer, self.now_ns, self._observers)
        self.runs[submission.run_id] = run
        run.announce()
        return run

    async def close_record(
        self, record: RunRecord, kind: str, error: LdapSlamError
    ) -> None:
        """End a run that is not live in this process."""
        store, run_id = self.writer.store, record.run_id
        now_utc = utc_text(datetime.now(UTC))
        self.writer.post(store.add_event, run_id, kind, str(error), now_utc)
        failure = Manifest(failure=error.to_dict())
        self.writer.post(store.set_manifest, run_id, failure)
        await self.writer.call(
            store.set_run_state, run_id, "failed", str(error), finished_utc=now_utc
        )
        self.writer.post(store.forget_submission, run_id)
