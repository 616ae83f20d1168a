# SPDX-License-Identifier: Apache-2.0
"""The agent as a whole, without its connection: its slots, its spool, its leaving.

No gRPC here: client.py feeds this and empties the spool.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from ldapslam.agent import run as machine
from ldapslam.agent.children import remove_left_over
from ldapslam.agent.ledgers.folder import folders_left
from ldapslam.agent.monitoring.observation import Observations
from ldapslam.agent.run import AgentRunEvent
from ldapslam.agent.settings import AgentSettings
from ldapslam.agent.slot import Slot, work_folder
from ldapslam.agent.spool import Spool
from ldapslam.proto import agent_pb2

_log = logging.getLogger(__name__)
_TICK_S = 0.25


class AgentSession:
    """One agent: feed it, and have it serve."""

    def __init__(
        self,
        settings: AgentSettings,
        spool: Spool,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.settings = settings
        self.spool = spool
        #: Set when the spool has something to deliver.
        self.has_reports = asyncio.Event()
        #: Set when the agent is to stop serving.
        self.leaving: asyncio.Future[machine.LeaveFleet]
        self.leaving = asyncio.get_running_loop().create_future()
        self._slots = [Slot(self, now_ns) for _ in range(settings.max_runs)]
        #: Run -> the slot that has it, from the order to prepare on.
        self._places: dict[str, Slot] = {}
        self._left: list[machine.LeaveFleet] = []
        self._observations = Observations(settings, spool, self.has_reports)
        if len(spool):
            self.has_reports.set()

    @property
    def runs(self) -> dict[str, str]:
        """The runs under way -> their states."""
        return {slot.run_id: str(slot.state) for slot in self._slots if slot.run_id}

    @property
    def observed_runs(self) -> list[str]:
        return self._observations.runs

    def post(self, event: AgentRunEvent) -> None:
        """Have every slot take an event, after those already posted."""
        for slot in self._slots:
            slot.post(event)
        if isinstance(event, machine.CoordinatorHeard):
            self._observations.heard()

    def take_command(self, command: agent_pb2.Command) -> None:
        """An order of the coordinator."""
        kind = command.WhichOneof("kind")
        self._observations.take_command(command)
        if kind == "prepare":
            run_id = command.prepare.run_id
            slot = self._places.setdefault(run_id, self._place_for(run_id))
            slot.prepare(command.prepare)
        elif kind == "start":
            start = command.start
            self._tell(machine.StartReceived(start.run_id, start.t0_mono_ns))
        elif kind == "stop":
            stop = command.stop
            self._tell(machine.StopReceived(stop.run_id, stop.reason, stop.abandon))
        elif kind is None:
            _log.warning("unknown command %d", command.number)

    def _place_for(self, run_id: str) -> Slot:
        """Its own slot, a free one, or one that will say that it is busy."""
        taken = set(map(id, self._places.values()))
        free = [slot for slot in self._slots if id(slot) not in taken]
        return self._places.get(run_id) or (free or self._slots)[0]

    def _tell(self, event: machine.StartReceived | machine.StopReceived) -> None:
        slot = self._places.get(event.run_id)
        if slot is not None:
            slot.post(event)

    def slot_idle(self, slot: Slot) -> None:
        """For the slot: it has nothing to do."""
        for run_id in [name for name, one in self._places.items() if one is slot]:
            del self._places[run_id]

    def slot_left(self, order: machine.LeaveFleet) -> None:
        """For a slot: it takes no more runs."""
        self._left.append(order)
        at_once = [one for one in self._left if one.at_once]
        if (at_once or len(self._left) >= len(self._slots)) and not self.leaving.done():
            self.leaving.set_result((at_once or self._left)[0])

    async def serve(self) -> None:
        """Work until cancelled; then nothing of ours is left running."""
        remove_left_over(work_folder(self.spool))
        self._tell_of_entries_left()
        tasks = [asyncio.create_task(slot.serve()) for slot in self._slots]
        try:
            while True:
                # one that failed ends the agent
                done, _ = await asyncio.wait(
                    tasks, timeout=_TICK_S, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    task.result()
                self.post(machine.TimePassed())
                self._observations.end_orphans()
        finally:
            await self._observations.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _tell_of_entries_left(self) -> None:
        """Of runs that could not remove what they added: their process was killed."""
        spool = self.spool.folder
        for folder in folders_left(spool):
            _log.error(
                "run %s left entries in a directory: `ldapslam run --cleanup %s "
                "--spool %s` removes them",
                folder.name,
                folder.name,
                spool,
            )

    async def end_observations(self) -> None:
        """Of runs that go on without this agent, or have to end."""
        await self._observations.end_all()

    async def wait_until_delivered(self, timeout_s: float) -> bool:
        """False: there are reports that the coordinator has not acknowledged."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while len(self.spool):
                    await asyncio.sleep(0.02)
        return not len(self.spool)
