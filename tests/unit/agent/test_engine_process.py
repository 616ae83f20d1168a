# SPDX-License-Identifier: Apache-2.0
"""From the assignment to the engine's calls, and from its errors to ours."""

from __future__ import annotations

import asyncio
import queue
import resource
import threading
import time
from pathlib import Path

import pytest

from ldapslam.agent import children
from ldapslam.agent.admission.admit import check_open_files, raise_open_files
from ldapslam.agent.assignment import load_assignment, store_files
from ldapslam.agent.engine.process import RunProcess, stop_on_request, typed_error
from ldapslam.agent.lease import Lease
from ldapslam.base.causes import OWN_CAUSES
from ldapslam.base.errors import (
    BindRejected,
    EngineError,
    FleetError,
    TargetUnreachable,
    TlsHandshakeFailed,
)
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.plan import AgentPlan, StreamPlan, agent_plan
from ldapslam.jobs.requests.template import UNIQUE, ValueSource, first_unique
from ldapslam.proto import engine_pb2 as pb
from ldapslam.proto.common_pb2 import RunAssignment
from support.fleet import job_text


def plan_of(text: str, index: int = 0, count: int = 1) -> AgentPlan:
    return agent_plan(load_job_text(text, file="job", base=None), index, count, 7)


def test_files_are_written_under_names_of_our_own(tmp_path: Path) -> None:
    name = "../../../etc/ca.pem"
    run = RunAssignment(
        run_id="r",
        job_file="job.json",
        job_text=job_text(tls={"ca_file": name}).encode(),
        overrides=["run.duration=3s"],
        files={name: b"certificate"},
    )
    store_files(run, tmp_path)
    assert dict(run.files) == {name: b""}
    job = load_assignment(run, tmp_path)
    assert job.run.duration_ns == 3_000_000_000
    (file,) = tmp_path.iterdir()
    assert file.read_bytes() == b"certificate"
    (stream,) = agent_plan(job, 0, 1, 0).streams
    assert stream.connection.tls.ca_file == str(file)


ADDS = """\
name: adds
targets: {server: "ldap://127.0.0.1:1"}
run: {duration: 1s}
streams:
- name: writers
  target: server
  load: {clients: 1}
  operations:
  - add: {dn: "cn=[unique].[0-9],dc=com", entry: {objectClass: device}}
"""


def planned(folder: Path, run_id: str, index: int = 0) -> StreamPlan:
    """What the engine's process of an agent is to do in this run."""
    run = RunAssignment(
        run_id=run_id, job_file="job.yaml", job_text=ADDS.encode(), seed=5
    )
    run.agent_index, run.agent_count = index, 1
    request = pb.PrepareEngine(run=run, agent="a", files_folder=str(folder))
    (stream,) = RunProcess(None, request)._plan.streams  # type: ignore[arg-type]
    return stream


def drawn(stream: StreamPlan) -> list[tuple[bytes, list[ValueSource]]]:
    """The texts of the stream's one operation."""
    (operation,) = stream.operations
    texts = [*(text for _, text in operation.lets), operation.template]
    return [(text.program, list(text.values)) for text in texts]


def uniques_of(stream: StreamPlan) -> list[int]:
    return [one.lo for _, of in drawn(stream) for one in of if one.kind == UNIQUE]


def others_of(stream: StreamPlan) -> list[tuple[bytes, list[ValueSource]]]:
    return [
        (program, [one for one in values if one.kind != UNIQUE])
        for program, values in drawn(stream)
    ]


def test_two_runs_of_one_seed_draw_the_same_but_for_unique_numbers(
    tmp_path: Path,
) -> None:
    one, again, other = (planned(tmp_path, run) for run in ("r1", "r1", "r2"))
    assert one == again
    assert uniques_of(one) == [first_unique("r1")]
    assert uniques_of(other) == [first_unique("r2")] != uniques_of(one)
    assert others_of(one) == others_of(other)


class ConnectError(Exception):
    """As the engine raises it."""

    def __init__(
        self, uri: str, stage: str, code: int, detail: str, cause: str = "refused"
    ) -> None:
        super().__init__(uri, stage, code, detail, cause)
        self.uri, self.stage, self.code, self.detail = uri, stage, code, detail
        self.cause = cause


CONNECT_ERRORS = [
    ("resolve", 0, TargetUnreachable),
    ("connect", 111, TargetUnreachable),
    ("tls", -11, TlsHandshakeFailed),
    ("bind", 49, BindRejected),
    ("bind", -5, TargetUnreachable),
]


@pytest.mark.parametrize(("stage", "code", "expected"), CONNECT_ERRORS)
def test_a_connection_that_fails_is_the_targets_error(
    stage: str, code: int, expected: type[Exception]
) -> None:
    error = typed_error(
        ConnectError("ldap://ds1", stage, code, "some detail"),
        plan_of(job_text("ldap://ds1")),
    )
    assert isinstance(error, expected)
    assert "ldap://ds1" in str(error)
    assert "some detail" in str(error)


@pytest.mark.parametrize("cause", OWN_CAUSES)
def test_a_connection_that_this_host_cannot_make_is_no_fault_of_the_target(
    cause: str,
) -> None:
    failure = ConnectError("ldap://ds1", "connect", -1, "some detail", cause)
    error = typed_error(failure, plan_of(job_text()))
    assert type(error) is FleetError
    assert error.hint == OWN_CAUSES[cause].remedy


def test_a_plan_of_more_connections_than_files_is_refused_before_connecting() -> None:
    plan = plan_of(job_text(clients=1000))
    check_open_files(plan, 1064)
    with pytest.raises(FleetError, match=r"needs 1,064 open files, it may have 1,063"):
        check_open_files(plan, 1063)


def test_all_the_files_that_the_host_allows_are_used() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        assert raise_open_files() > 256
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_another_error_stays_what_it_is() -> None:
    error = ValueError("x")
    assert typed_error(error, plan_of(job_text())) is error


class StoppableEngine:
    """Remembers that it was stopped."""

    def __init__(self) -> None:
        self.stopped = threading.Event()

    def stop(self) -> None:
        self.stopped.set()


class FakePipe:
    """Gives the requests that come."""

    def __init__(self) -> None:
        self.requests: queue.SimpleQueue[pb.EngineRequest] = queue.SimpleQueue()

    def next(self) -> pb.EngineRequest:
        return self.requests.get()


STOP = pb.EngineRequest(stop=pb.StopEngine())


def test_a_request_stops_the_engine_from_beside() -> None:
    pipe, engine = FakePipe(), StoppableEngine()
    with stop_on_request(pipe, engine):  # type: ignore[arg-type]
        pipe.requests.put(STOP)
        assert engine.stopped.wait(5.0)


def test_an_engine_that_is_done_is_not_stopped_any_more() -> None:
    pipe, engine = FakePipe(), StoppableEngine()
    with stop_on_request(pipe, engine):  # type: ignore[arg-type]
        (thread,) = (one for one in threading.enumerate() if one.name == "stop")
    pipe.requests.put(STOP)
    thread.join(5.0)
    assert not engine.stopped.is_set()


def test_a_process_without_a_lease_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(folder: Path) -> Lease:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(children, "Lease", fail)
    command = ["touch", str(tmp_path / "started")]
    work = tmp_path / "work"
    launch = children.EngineChild.launch(
        RunAssignment(run_id="r"),
        pb.PrepareEngine(),
        work=work,
        log_path=tmp_path / "log",
        command=command,
    )
    with pytest.raises(EngineError, match="No space left"):
        asyncio.run(launch)
    assert not list(work.iterdir())
    assert not (tmp_path / "started").exists()


def test_a_lease_is_over_until_it_is_extended_and_while_its_host_is_suspended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, engine = Lease(tmp_path), Lease(tmp_path)
    assert engine.is_over
    agent.extend(time.monotonic_ns() + 60 * 10**9)
    assert not engine.is_over
    read = time.clock_gettime_ns
    monkeypatch.setattr(time, "clock_gettime_ns", lambda id: read(id) + 61 * 10**9)
    assert engine.is_over
    agent.extend(time.monotonic_ns() + 60 * 10**9)  # after the host woke up
    assert not engine.is_over
