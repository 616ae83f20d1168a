# SPDX-License-Identifier: Apache-2.0
"""The engine's process: one for each run, child of the agent.

    python -m ldapslam.agent.engine.process

Takes EngineRequest frames on stdin, gives EngineEvent frames on stdout, logs to stderr
(pipe.py). It loads the job, runs the preflight, lets the engine connect, waits for T0
and passes snapshots on. A crash costs a run, not the agent. Secrets are references,
which are resolved here from the environment.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ldapslam.agent import pipe
from ldapslam.agent.admission import preflight
from ldapslam.agent.admission.admit import admit, ask_servers, workers_for
from ldapslam.agent.admission.grants import check_grants
from ldapslam.agent.admission.limits import AgentLimits
from ldapslam.agent.assignment import load_assignment
from ldapslam.agent.engine.setup import (
    Part,
    compose,
    native_first,
    packed_names,
    snapshot_message,
    with_traces,
)
from ldapslam.agent.host import HostSampler, host_facts, shares_host
from ldapslam.agent.lease import Lease
from ldapslam.agent.ledgers.cleanup import (
    Operations,
    RunLedgers,
    added,
    clean_up_earlier,
    run_ledgers,
)
from ldapslam.agent.pipe import end, serve
from ldapslam.base.causes import OWN_CAUSES
from ldapslam.base.errors import (
    BindRejected,
    FleetError,
    TargetUnreachable,
    TlsHandshakeFailed,
)
from ldapslam.jobs.plan import AgentPlan, agent_plan, phase_at
from ldapslam.jobs.requests.template import first_unique
from ldapslam.proto import engine_pb2 as pb
from ldapslam.proto.common_pb2 import CleaningUp
from ldapslam.transport.messages import facts_json

if TYPE_CHECKING:
    from ldapslam.agent._engine import Engine, HiccupMeter

_log = logging.getLogger(__name__)

_SNAPSHOT_WAIT_NS = 1_000_000_000
_START_POLL_S = 0.001

Pipe = pipe.Pipe[pb.EngineRequest, pb.EngineEvent]


class RunProcess:
    """One run, from the request to prepare to the last snapshot."""

    def __init__(self, pipe: Pipe, request: pb.PrepareEngine) -> None:
        self._pipe = pipe
        self._run = request.run
        self._request = request
        self._job = load_assignment(request.run, Path(request.files_folder))
        self._lease = Lease(Path(request.files_folder))
        self._plan = native_first(
            agent_plan(
                self._job,
                self._run.agent_index,
                self._run.agent_count,
                self._run.seed,
                unique_from=first_unique(self._run.run_id),
            )
        )
        self._limits = AgentLimits.from_json(request.limits_json)
        self._workers = workers_for(request.workers)
        self._facts: dict[str, Any] = {}
        #: What it took to remove what earlier runs had left.
        self._cleaned: Operations = {}

    def execute(self) -> None:
        targets = self._ask_targets()
        self._plan, replays = with_traces(self._plan, Path(self._request.files_folder))
        self._facts = {
            "host": host_facts(),
            "targets": targets,
            "control_operations": added(
                preflight.control_operations(targets), self._cleaned
            ),
            "shares_host_with_target": shares_host(
                address for target in targets for address in target["addresses"]
            ),
            **({"replays": replays} if replays else {}),
        }
        run_id, folder = self._run.run_id, self._request.ledger_folder
        with run_ledgers(folder, run_id, self._plan) as ledgers:
            engine = compose(
                self._plan, self._new_engine, self._limits, ledgers.folder, self._lease
            )
            try:
                try:
                    engine.prepare()
                except Exception as error:
                    raise typed_error(error, self._plan) from error
                self._drive(engine, ledgers)
            finally:
                engine.close()

    def _ask_targets(self) -> list[dict[str, Any]]:
        """Check what the operator allows before anything is connected, or imported.
        Entries that earlier runs left would be in the way of what is asked then."""
        check_grants(self._job, self._plan, self._limits, self._request.agent)
        self._plan, locations = admit(
            self._plan, self._request, self._limits, self._workers
        )
        if folder := self._request.ledger_folder:
            uris = {uri for stream in self._plan.streams for uri in stream.uris}
            self._cleaned = clean_up_earlier(Path(folder).parents[1], uris)
        return ask_servers(self._plan, locations)

    def _new_engine(self) -> Engine:
        # late, so that a broken module is a failure like others
        module = importlib.import_module("ldapslam.agent._engine")
        engine: Engine = module.Engine(
            self._plan,
            workers=self._workers,
            realtime=self._request.realtime,
            lease=self._lease.memory,
        )
        return engine

    def _drive(self, engine: Part, ledgers: RunLedgers) -> None:
        self._pipe.send(
            ready=pb.EngineReady(
                facts_json=self._facts_json(engine),
                interval_count=len(self._plan.boundaries_ns),
                grace_ns=self._plan.grace_ns,
            )
        )
        request = self._pipe.next()
        if request.WhichOneof("kind") != "start":
            return  # a stop before the start: nothing was measured
        t0_mono_ns = request.start.t0_mono_ns
        ledgers.note_begin(time.time() + (t0_mono_ns - time.monotonic_ns()) / 1e9)
        engine.start(t0_mono_ns)
        with (
            stop_on_request(self._pipe, engine),
            contextlib.closing(self._new_hiccup_meter()) as meter,
        ):
            sampler = self._wait_for_start(engine, t0_mono_ns, meter)
            end_ns = self._pass_snapshots_on(engine, sampler, ledgers)
        early_reason = ""
        if end_ns < self._plan.boundaries_ns[-1] and self._lease.is_over:
            early_reason = "its agent did not extend the lease"
            _log.error("the load ended: %s", early_reason)
        # the others were in `ready`
        self._facts = ledgers.clean_up(self._tell_of_clean_up)
        self._facts["later_operations"] = added(
            engine.facts().get("python_requests", {}), ledgers.operations
        )
        self._pipe.send(
            finished=pb.EngineFinished(
                facts_json=self._facts_json(engine), early_reason=early_reason
            )
        )

    def _tell_of_clean_up(self, entries_left: int) -> None:
        self._pipe.send(cleaning_up=CleaningUp(entries_left=entries_left))

    def _new_hiccup_meter(self) -> HiccupMeter:
        """Of real-time priority only where all workers ask for it: such a thread does
        not see what others wait for."""
        module = importlib.import_module("ldapslam.agent._engine")
        is_realtime = self._request.realtime and all(
            stream.engine == "native" and stream.model == "open"
            for stream in self._plan.streams
        )
        meter: HiccupMeter = module.HiccupMeter(realtime=is_realtime)
        return meter

    def _wait_for_start(
        self, engine: Part, t0_mono_ns: int, meter: HiccupMeter
    ) -> HostSampler:
        while (left_ns := t0_mono_ns - time.monotonic_ns()) > 0:
            time.sleep(left_ns / 1e9)
        sampler = HostSampler(meter.take)
        # the last worker's error; this thread may wake later
        while (error_ns := engine.facts()["start_error_ns"]) is None:
            time.sleep(_START_POLL_S)
        self._pipe.send(started=pb.EngineStarted(start_error_ns=error_ns))
        return sampler

    def _pass_snapshots_on(
        self, engine: Part, sampler: HostSampler, ledgers: RunLedgers
    ) -> int:
        """Return the end of the last interval in ns after T0."""
        names = packed_names(self._plan)
        index = 0
        is_final = False
        while not is_final:
            snapshot = engine.snapshot(index, _SNAPSHOT_WAIT_NS)
            ledgers.note_alive()
            if snapshot is None:
                continue
            is_final = snapshot["final"]
            self._pipe.send(
                snapshot=snapshot_message(
                    snapshot,
                    names,
                    phase=phase_at(self._plan.phases, snapshot["start_ns"]),
                    host=sampler.sample(),
                )
            )
            index += 1
            end_ns: int = snapshot["end_ns"]
        return end_ns

    def _facts_json(self, engine: Part) -> str:
        granted = engine.facts()
        del granted["start_error_ns"]  # travels by itself, in `started`
        return facts_json({**self._facts, **granted})


@contextlib.contextmanager
def stop_on_request(pipe: Pipe, engine: Part) -> Iterator[None]:
    """Within, a request stops the engine at once."""
    guard = threading.Lock()
    is_over = False

    def wait() -> None:
        pipe.next()
        with guard:
            if not is_over:
                engine.stop()

    thread = threading.Thread(target=wait, name="stop", daemon=True)
    thread.start()
    try:
        yield
    finally:
        with guard:
            is_over = True


def typed_error(error: Exception, plan: AgentPlan) -> Exception:
    """The engine's ConnectError as the error it stands for; others unchanged."""
    if type(error).__name__ != "ConnectError":
        return error
    uri: str = getattr(error, "uri", "")
    stage: str = getattr(error, "stage", "")
    code: int = getattr(error, "code", 0)
    detail: str = getattr(error, "detail", "")
    if own := OWN_CAUSES.get(getattr(error, "cause", "")):
        reason = f"this agent cannot connect to {uri!r}: {own.words}: {detail}"
        return FleetError(reason, hint=own.remedy)
    if stage == "tls":
        return TlsHandshakeFailed(uri, detail)
    if stage == "bind" and code > 0:
        users = (one.connection.bind.dn for one in plan.streams if uri in one.uris)
        return BindRejected(uri, next(users, None), code, detail)
    return TargetUnreachable(uri, f"{stage}: {detail}")


def main(make_run: Callable[[Pipe, pb.PrepareEngine], RunProcess] = RunProcess) -> int:
    """Serve one run; the exit status. Tests replace `make_run`."""
    gc.set_threshold(700, 10, 10)  # Python's own: short searches delay no request
    return serve(pb.EngineRequest, pb.EngineEvent, make_run)


if __name__ == "__main__":
    end(main())
