# SPDX-License-Identifier: Apache-2.0
"""The coordinator as its operators call it: one method per call, our own errors.

What comes back are the messages of operator.proto; what fails, fails as LdapSlamError.
"""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

from ldapslam.cli.security import operator_files
from ldapslam.jobs.errors import RunNotFound
from ldapslam.proto import operator_pb2 as pb
from ldapslam.proto.credentials import channel
from ldapslam.proto.diagnosis import explained_errors
from ldapslam.proto.messages import PROTOCOL_VERSION, build_version
from ldapslam.proto.operator_pb2_grpc import OperatorServiceStub

_CALL_TIMEOUT_S = 10.0


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
        """`address` is HOST:PORT or unix:PATH; nothing is sent yet.

        ConfigError where plain text is not allowed, or certificates cannot be used.
        """
        self.address = address
        self._files = operator_files(address)
        self._channel = channel(address, self._files)
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
        with explained_errors(self.address, self._files):
            reply = self._stub.SubmitJob(request, timeout=_CALL_TIMEOUT_S)
        return str(reply.run_id)

    def runs(self, limit: int = 0) -> list[pb.RunStatus]:
        """The newest runs, newest first; 0 is all."""
        with explained_errors(self.address, self._files):
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
        with explained_errors(self.address, self._files):
            status: pb.RunStatus = self._stub.GetRun(
                pb.GetRunRequest(run_id=name), timeout=_CALL_TIMEOUT_S
            )
        return status

    def watch(self, run_id: str) -> Iterator[pb.RunUpdate]:
        """What happens to a run, until it ends."""
        with explained_errors(self.address, self._files):
            yield from self._stub.WatchRun(pb.WatchRunRequest(run_id=run_id))

    def cancel(self, run_id: str) -> pb.RunStatus:
        """Have a run end early; returns before it has."""
        request = pb.CancelRunRequest(run_id=run_id, cancelled_by=operator_name())
        with explained_errors(self.address, self._files):
            status: pb.RunStatus = self._stub.CancelRun(
                request, timeout=_CALL_TIMEOUT_S
            )
        return status

    def agents(self) -> list[pb.AgentStatus]:
        with explained_errors(self.address, self._files):
            reply = self._stub.ListAgents(
                pb.ListAgentsRequest(), timeout=_CALL_TIMEOUT_S
            )
        return list(reply.agents)

    def health(self, timeout_s: float = _CALL_TIMEOUT_S) -> str:
        """SERVING or NOT_SERVING, as the coordinator says of itself."""
        from grpc_health.v1 import health_pb2, health_pb2_grpc

        stub = health_pb2_grpc.HealthStub(self._channel)
        with explained_errors(self.address, self._files):
            reply = stub.Check(health_pb2.HealthCheckRequest(), timeout=timeout_s)
        names = health_pb2.HealthCheckResponse.ServingStatus
        return str(names.Name(reply.status))

    def fetch(self, run_id: str) -> Iterator[bytes]:
        """A run's archive, for Store.import_run."""
        with explained_errors(self.address, self._files):
            for chunk in self._stub.FetchRun(pb.FetchRunRequest(run_id=run_id)):
                yield chunk.content
