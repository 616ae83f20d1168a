# SPDX-License-Identifier: Apache-2.0
"""The monitor process: watches servers and hosts during one run.

    python -m ldapslam.agent.monitoring.process

Before the load it reads the servers' counts and settings. From T0 on it samples the
monitors, each in a thread of its own: a server that does not answer delays no other's
samples. After the load it waits for the replicas, compares them and reads the counts
again. Frames as in pipe.py. It is a process of its own, off the measured path, with a
cost of its own. What a server does not say is missing, with the reason; it never ends
the run.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ldapslam.agent import pipe
from ldapslam.agent.admission.grants import check_secrets
from ldapslam.agent.admission.limits import AgentLimits
from ldapslam.agent.assignment import load_assignment
from ldapslam.agent.monitoring.choose import monitors_for
from ldapslam.agent.monitoring.reading import Monitor
from ldapslam.agent.monitoring.servers import (
    ObservedServers,
    ServerReadings,
    failure_of,
)
from ldapslam.agent.pipe import end, repeated, serve
from ldapslam.base.errors import LdapSlamError
from ldapslam.directory.replication import ReplicationServer, verify_replication
from ldapslam.proto import monitor_pb2 as pb
from ldapslam.results.facts import (
    MonitorFacts,
    Observed,
    ObserverCost,
    ReplicationFacts,
)
from ldapslam.results.records import MonitorDescription
from ldapslam.transport.messages import facts_json

_log = logging.getLogger(__name__)

Pipe = pipe.Pipe[pb.MonitorRequest, pb.MonitorEvent]

_FLUSH_NS = 1_000_000_000
#: The coordinator gives up a monitor that is not heard for 30 s.
_SIGN_S = 5.0


class MonitorProcess:
    """One run, from the first order to the last word."""

    def __init__(self, pipe: Pipe, request: pb.PrepareMonitor) -> None:
        self._pipe = pipe
        self._run = request.run
        self._job = load_assignment(request.run, Path(request.files_folder))
        self._agent = request.agent
        self._limits = limits = AgentLimits.from_json(request.limits_json)
        self._is_first = request.run.agent_index == 0
        self._servers = ObservedServers(self._job, limits, request.agent)
        self._begun_utc_s = time.time()
        self._sampling = Sampling(self._job.run.interval_ns)
        read = self._servers.counted() if self._is_first else []
        self._readings = ServerReadings(self._servers, read)

    def execute(self) -> None:
        check_secrets(self._job, self._limits, self._agent)
        watched = self._watch()
        if not watched and not self._readings.found:
            self._finish(Observed())
            return
        self._readings.before()
        ready = pb.MonitorReady(
            monitors=[_description(one) for one in watched],
            facts_json=self._facts(Observed()),
        )
        self._pipe.send(ready=ready)
        conclude = self._serve()
        self._sampling.stop()
        self._flush()
        found = Observed()
        with repeated(self._give_sign, _SIGN_S):
            if conclude.verify and self._is_first and self._job.verify is not None:
                found = Observed(replication=self._verify())
            self._readings.after()
        self._finish(found)

    def _give_sign(self) -> None:
        self._pipe.send(samples=pb.MonitorSamples())

    def _watch(self) -> list[MonitorDescription]:
        monitors = monitors_for(
            self._job,
            access=self._servers.target,
            is_local=self._servers.is_local,
            has_directories=self._is_first,
            may_read=self._limits.allows_log,
        )
        return self._sampling.open(monitors)

    def _serve(self) -> pb.ConcludeMonitor:
        while True:
            request = self._pipe.next_before(time.monotonic_ns() + _FLUSH_NS)
            if request is None:
                self._flush()
            elif request.HasField("start"):
                self._sampling.start(request.start.t0_mono_ns)
            elif request.HasField("conclude"):
                return request.conclude

    def _flush(self) -> None:
        if samples := self._sampling.taken():
            self._pipe.send(samples=pb.MonitorSamples(samples=samples))

    def _verify(self) -> ReplicationFacts:
        assert self._job.verify is not None
        ended_s = time.monotonic()
        try:
            found = verify_replication(
                [
                    ReplicationServer(
                        uri, self._servers.access(uri), self._servers.control(uri)
                    )
                    for uri in self._servers.every()
                ],
                self._job.verify.replication,
                load_ended_s=ended_s,
                seed=self._run.seed,
                begun_utc_s=self._begun_utc_s,
            )
        except Exception as error:
            return ReplicationFacts(failure=failure_of("replication", error))
        return ReplicationFacts.parsed(found)

    def _facts(self, found: Observed) -> str:
        observations = Observed(observations=self._readings.found)
        return facts_json(found.updated(observations).document())

    def _finish(self, found: Observed) -> None:
        if self._sampling.has_monitors:
            used = os.times()
            cost = ObserverCost(cpu_s=used.user + used.system)
            found = found.updated(Observed(observer_cost=cost))
        self._pipe.send(finished=pb.MonitorFinished(facts_json=self._facts(found)))


def _description(description: MonitorDescription) -> pb.MonitorDescription:
    return pb.MonitorDescription(
        name=description.name,
        metrics=[
            pb.MonitorMetric(
                name=metric.name, unit=metric.unit, is_counter=metric.kind == "counter"
            )
            for metric in description.metrics
        ],
        facts_json=facts_json(description.facts.document()),
    )


def main() -> int:
    return serve(pb.MonitorRequest, pb.MonitorEvent, MonitorProcess)


#: Monitors opened at the same time; each may have to wait for its server.
_OPENED_AT_A_TIME = 32
#: Time for a sample under way at the end.
_JOIN_S = 5.0


class Sampling:
    """Open, start, take, stop: in this order, from one thread."""

    def __init__(self, interval_ns: int) -> None:
        self._interval_ns = interval_ns
        self._monitors: list[Monitor] = []
        self._threads: list[threading.Thread] = []
        self._over = threading.Event()
        self._taken: queue.SimpleQueue[pb.MonitorSample] = queue.SimpleQueue()

    @property
    def has_monitors(self) -> bool:
        return bool(self._monitors)

    def open(self, monitors: Iterable[Monitor]) -> list[MonitorDescription]:
        """Open all at once; one that fails is described by its failure."""
        self._monitors = list(monitors)
        with ThreadPoolExecutor(_OPENED_AT_A_TIME, "monitor") as pool:
            return list(pool.map(_opened, self._monitors))

    def start(self, t0_mono_ns: int) -> None:
        """The first samples are those of T0; once."""
        if self._threads:
            return
        for monitor in self._monitors:
            thread = threading.Thread(
                target=self._sample, args=(monitor, t0_mono_ns), daemon=True
            )
            thread.name = f"monitor {monitor.name}"
            thread.start()
            self._threads.append(thread)

    def taken(self) -> list[pb.MonitorSample]:
        samples = []
        while True:
            try:
                samples.append(self._taken.get_nowait())
            except queue.Empty:
                return samples

    def stop(self) -> None:
        """Take no more samples; wait a while for those under way."""
        self._over.set()
        until_s = time.monotonic() + _JOIN_S
        stuck: list[str] = []
        for thread in self._threads:
            thread.join(max(0.0, until_s - time.monotonic()))
            if thread.is_alive():
                stuck.append(thread.name)
        for monitor in self._monitors:
            if f"monitor {monitor.name}" not in stuck:
                monitor.close()
        if stuck:
            _log.warning("left: %s", ", ".join(stuck))

    def _sample(self, monitor: Monitor, t0_mono_ns: int) -> None:
        every_ns = monitor.every_ns or self._interval_ns
        at_ns = 0
        while not self._over.wait(_seconds_until(t0_mono_ns + at_ns)):
            begun_ns = time.monotonic_ns()
            sample = pb.MonitorSample(monitor=monitor.name, at_ns=begun_ns - t0_mono_ns)
            try:
                sample.values.extend(monitor.sample())
            except LdapSlamError as error:
                sample.failure = str(error)
            except Exception as error:
                _log.exception("monitor %s", monitor.name)
                sample.failure = f"{type(error).__name__}: {error}"
            ended_ns = time.monotonic_ns()
            sample.took_ns = ended_ns - begun_ns
            self._taken.put(sample)
            passed = (ended_ns - t0_mono_ns) // every_ns + 1
            at_ns = max(at_ns + every_ns, passed * every_ns)


def _opened(monitor: Monitor) -> MonitorDescription:
    try:
        facts = MonitorFacts.parsed({**monitor.about, **monitor.open()})
    except Exception as error:
        failure = failure_of(f"monitor {monitor.name}", error)
        facts = MonitorFacts.parsed({**monitor.about, "failure": failure})
    return MonitorDescription(monitor.name, monitor.metrics, facts)


def _seconds_until(mono_ns: int) -> float:
    return max(0.0, (mono_ns - time.monotonic_ns()) / 1e9)


if __name__ == "__main__":
    end(main())
