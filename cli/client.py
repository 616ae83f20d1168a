# SPDX-License-Identifier: Apache-2.0
"""A coordinator as its operators call it: one method per call, our own errors.

Calls return messages of operator.proto and schedule.proto; failures are LdapSlamErrors.
"""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Self

import click

from ldapslam import __version__
from ldapslam.base.errors import ConfigError, LdapSlamError, RunNotFound
from ldapslam.cli.options import COORDINATOR_VARIABLE, DEFAULT_COORDINATOR
from ldapslam.cli.security import operator_files
from ldapslam.proto import operator_pb2 as pb
from ldapslam.proto import schedule_pb2 as spb
from ldapslam.transport.messages import PROTOCOL_VERSION, checked

_CALL_TIMEOUT_S = 10.0
#: The coordinator checks a job, and settles what is due, before it answers.
_SUBMIT_TIMEOUT_S = 30.0


def operator_name() -> str:
    """The caller in the records of runs: user@host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user id without a name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def job_request(
    job_text: bytes,
    *,
    job_file: str,
    overrides: Sequence[str] = (),
    files: Mapping[str, bytes] | None = None,
    lab: Mapping[str, str] | None = None,
) -> pb.SubmitJobRequest:
    """The request to run a job."""
    return pb.SubmitJobRequest(
        protocol_version=PROTOCOL_VERSION,
        build=__version__,
        job_file=job_file,
        job_text=job_text,
        overrides=overrides,
        files=files,
        lab=lab,
        submitted_by=operator_name(),
    )


class Client:
    """A connection to one coordinator; a context manager."""

    def __init__(self, address: str) -> None:
        """`address` is HOST:PORT or unix:PATH; nothing is sent yet. ConfigError."""
        # commands that read a store alone need no gRPC
        from ldapslam.proto.operator_pb2_grpc import OperatorServiceStub
        from ldapslam.transport.credentials import channel
        from ldapslam.transport.diagnosis import explained_errors

        self.address = address
        files = operator_files(address)
        self._explained_errors = partial(explained_errors, address, files)
        self._channel = channel(address, files)
        self._stub = OperatorServiceStub(self._channel)  # type: ignore[no-untyped-call]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def _call(
        self, method: Any, request: Any, timeout_s: float = _CALL_TIMEOUT_S
    ) -> Any:
        with self._explained_errors():
            return checked(method(request, timeout=timeout_s))

    def schedule_call(self, method: str, request: Any) -> Any:
        """A call of ScheduleService; its reply."""
        from ldapslam.proto.schedule_pb2_grpc import ScheduleServiceStub

        stub = ScheduleServiceStub(self._channel)  # type: ignore[no-untyped-call]
        return self._call(getattr(stub, method), request, _SUBMIT_TIMEOUT_S)

    def submit(self, request: pb.SubmitJobRequest) -> str:
        """Run a job; the run's id."""
        return str(self._call(self._stub.SubmitJob, request, _SUBMIT_TIMEOUT_S).run_id)

    def runs(self, limit: int = 0) -> list[pb.RunStatus]:
        """The newest runs, newest first; 0 is all."""
        reply = self._call(self._stub.ListRuns, pb.ListRunsRequest(limit=limit))
        return list(reply.runs)

    def run(self, name: str) -> pb.RunStatus:
        """One run by id, the beginning of an id, or `latest`."""
        if name == "latest":
            runs = self.runs(limit=1)
            if not runs:
                raise RunNotFound(name, hint="this coordinator has no runs yet")
            name = runs[0].run_id
        status: pb.RunStatus = self._call(
            self._stub.GetRun, pb.GetRunRequest(run_id=name)
        )
        return status

    def watch(self, run_id: str) -> Iterator[pb.RunUpdate]:
        """What happens to a run, until it ends."""
        with self._explained_errors():
            updates = self._stub.WatchRun(pb.WatchRunRequest(run_id=run_id))
            yield from map(checked, updates)

    def cancel(self, run_id: str) -> pb.RunStatus:
        """End a run early; returns before it has ended."""
        request = pb.CancelRunRequest(run_id=run_id, cancelled_by=operator_name())
        status: pb.RunStatus = self._call(self._stub.CancelRun, request)
        return status

    def agents(self) -> list[pb.AgentStatus]:
        return list(self._call(self._stub.ListAgents, pb.ListAgentsRequest()).agents)

    def health(self) -> str:
        """SERVING or NOT_SERVING, in the coordinator's own words."""
        from grpc_health.v1 import health_pb2, health_pb2_grpc

        stub = health_pb2_grpc.HealthStub(self._channel)
        reply = self._call(stub.Check, health_pb2.HealthCheckRequest())
        names = health_pb2.HealthCheckResponse.ServingStatus
        return str(names.Name(reply.status))

    def fetch(self, run_id: str) -> Iterator[bytes]:
        """A run's archive, for Store.import_run."""
        with self._explained_errors():
            for chunk in self._stub.FetchRun(pb.FetchRunRequest(run_id=run_id)):
                yield chunk.content

    def schedules(self) -> list[spb.ScheduleStatus]:
        request = spb.ListSchedulesRequest()
        return list(self.schedule_call("ListSchedules", request).schedules)

    def schedule(self, name: str) -> spb.ScheduleStatus:
        """One schedule by id, name, or the beginning of an id."""
        found = self.schedules()
        matching = [one for one in found if name in (one.schedule_id, one.name)] or [
            one for one in found if one.schedule_id.startswith(name)
        ]
        if len(matching) == 1:
            return matching[0]
        ids = ", ".join(one.schedule_id for one in matching)
        raise ConfigError(
            f"there is no schedule {name!r}"
            if not matching
            else f"{len(matching)} ids begin with {name!r}",
            hint=ids or "`ldapslam fleet schedule list` shows all",
        )


def completed_by(
    names: Callable[[Client], Iterable[str]],
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """For the shell's completion: names that a coordinator has; none without one."""

    def complete(
        context: click.Context, _: click.Parameter, incomplete: str
    ) -> list[str]:
        address = (
            context.params.get("coordinator")
            or os.environ.get(COORDINATOR_VARIABLE)
            or DEFAULT_COORDINATOR
        )
        try:
            with Client(address) as client:
                return [one for one in names(client) if one.startswith(incomplete)]
        except LdapSlamError:
            return []

    return complete
