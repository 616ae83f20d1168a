# SPDX-License-Identifier: Apache-2.0
"""The coordinator as its operators call it: one method per call, our own errors.

The only module of cli/ that imports grpc. What comes back are the messages of
operator.proto.
"""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

import grpc

from ldapslam.jobs.errors import RunNotFound
from ldapslam.proto import operator_pb2 as pb
from ldapslam.proto.address import DEFAULT_PORT, grpc_target
from ldapslam.proto.codec import CHANNEL_OPTIONS, rpc_errors
from ldapslam.proto.messages import PROTOCOL_VERSION, build_version
from ldapslam.proto.operator_pb2_grpc import OperatorServiceStub

COORDINATOR_VARIABLE = "LDAPSLAM_COORDINATOR"
DEFAULT_COORDINATOR = f"127.0.0.1:{DEFAULT_PORT}"

_CALL_TIMEOUT_S = 10.0


def default_coordinator() -> str:
    """The coordinator when the command line names none."""
    return os.environ.get(COORDINATOR_VARIABLE) or DEFAULT_COORDINATOR


def operator_name() -> str:
    """Who calls, as the runs' records have it: user@host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user id without a name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


class Client:
    """A connection to one coordinator; a context manager."""

    def __init__(self, address: str) -> None:
        """`address` is HOST:PORT or unix:PATH; nothing is sent yet."""
        self.address = address
        self._channel = grpc.insecure_channel(
            grpc_target(address), options=CHANNEL_OPTIONS
        )
        self._stub = OperatorServiceStub(self._channel)  # type: ignore[no-untyped-call]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._channel.close()

    def submit(
        self,
        job_text: bytes,
        *,
        job_file: str,
        overrides: Sequence[str],
        files: Mapping[str, bytes],
    ) -> str:
        """Have a job run; the run's id."""
        request = pb.SubmitJobRequest(
            protocol_version=PROTOCOL_VERSION,
            build=build_version(),
            job_file=job_file,
            job_text=job_text,
            overrides=overrides,
            files=files,
            submitted_by=operator_name(),
        )
        with rpc_errors(self.address):
            reply = self._stub.SubmitJob(request, timeout=_CALL_TIMEOUT_S)
        return str(reply.run_id)

    def runs(self, limit: int = 0) -> list[pb.RunStatus]:
        """The newest runs, newest first; 0 is all."""
        with rpc_errors(self.address):
            reply = self._stub.ListRuns(
                pb.ListRunsRequest(limit=limit), timeout=_CALL_TIMEOUT_S
            )
        return list(reply.runs)

    def run(self, name: str) -> pb.RunStatus:
        """One run by id, the beginning of an id, or `latest`."""
        if name == "latest":
            runs = self.runs(limit=1)
            if not runs:
                raise RunNotFound(name, hint="this coordinator has no runs yet")
            name = runs[0].run_id
        with rpc_errors(self.address):
            status: pb.RunStatus = self._stub.GetRun(
                pb.GetRunRequest(run_id=name), timeout=_CALL_TIMEOUT_S
            )
        return status

    def watch(self, run_id: str) -> Iterator[pb.RunUpdate]:
        """What happens to a run, until it ends."""
        with rpc_errors(self.address):
            yield from self._stub.WatchRun(pb.WatchRunRequest(run_id=run_id))

    def cancel(self, run_id: str) -> pb.RunStatus:
        """Have a run end early; returns before it has."""
        request = pb.CancelRunRequest(run_id=run_id, cancelled_by=operator_name())
        with rpc_errors(self.address):
            status: pb.RunStatus = self._stub.CancelRun(
                request, timeout=_CALL_TIMEOUT_S
            )
        return status

    def agents(self) -> list[pb.AgentStatus]:
        with rpc_errors(self.address):
            reply = self._stub.ListAgents(
                pb.ListAgentsRequest(), timeout=_CALL_TIMEOUT_S
            )
        return list(reply.agents)

    def health(self, timeout_s: float = _CALL_TIMEOUT_S) -> str:
        """SERVING or NOT_SERVING, as the coordinator says of itself."""
        from grpc_health.v1 import health_pb2, health_pb2_grpc

        stub = health_pb2_grpc.HealthStub(self._channel)
        with rpc_errors(self.address):
            reply = stub.Check(health_pb2.HealthCheckRequest(), timeout=timeout_s)
        names = health_pb2.HealthCheckResponse.ServingStatus
        return str(names.Name(reply.status))

    def fetch(self, run_id: str) -> Iterator[bytes]:
        """A run's archive, for Store.import_run."""
        with rpc_errors(self.address):
            for chunk in self._stub.FetchRun(pb.FetchRunRequest(run_id=run_id)):
                yield chunk.content
