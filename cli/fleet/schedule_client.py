# SPDX-License-Identifier: Apache-2.0
"""Schedules, maintenance windows and the audit log, as operators call for them."""

from __future__ import annotations

from typing import Any

from ldapslam.base.errors import ConfigError
from ldapslam.cli.client import Client, operator_name
from ldapslam.proto import operator_pb2
from ldapslam.proto import schedule_pb2 as pb
from ldapslam.proto.schedule_pb2_grpc import ScheduleServiceStub
from ldapslam.transport.diagnosis import explained_errors

#: The coordinator checks the job, and settles what is due, before it answers.
_CALL_TIMEOUT_S = 30.0


class ScheduleClient(Client):
    """A connection to one coordinator; a context manager."""

    def _call(self, method: str, request: Any) -> Any:
        stub = ScheduleServiceStub(self._channel)  # type: ignore[no-untyped-call]
        with explained_errors(self.address, self._files):
            return getattr(stub, method)(request, timeout=_CALL_TIMEOUT_S)

    def submit_request(self, request: operator_pb2.SubmitJobRequest) -> str:
        """Have a job run, with all that a request may say; the run's id."""
        with explained_errors(self.address, self._files):
            reply = self._stub.SubmitJob(request, timeout=_CALL_TIMEOUT_S)
        return str(reply.run_id)

    def create(self, request: pb.CreateScheduleRequest) -> pb.ScheduleStatus:
        status: pb.ScheduleStatus = self._call("CreateSchedule", request)
        return status

    def schedules(self) -> list[pb.ScheduleStatus]:
        """All of them, by name."""
        reply = self._call("ListSchedules", pb.ListSchedulesRequest())
        return list(reply.schedules)

    def schedule(self, name: str) -> pb.ScheduleStatus:
        """One by id, name, or the beginning of an id."""
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
            hint=ids or "`ldapslam schedule list` shows all",
        )

    def change(
        self, name: str, change: pb.ChangeScheduleRequest.Change
    ) -> pb.ScheduleStatus:
        request = pb.ChangeScheduleRequest(
            schedule=name, change=change, changed_by=operator_name()
        )
        status: pb.ScheduleStatus = self._call("ChangeSchedule", request)
        return status

    def remove(self, name: str) -> None:
        request = pb.RemoveScheduleRequest(schedule=name, removed_by=operator_name())
        self._call("RemoveSchedule", request)

    def add_window(self, window: pb.MaintenanceWindow) -> pb.MaintenanceWindow:
        window.created_by = operator_name()
        kept: pb.MaintenanceWindow = self._call("AddMaintenance", window)
        return kept

    def windows(self) -> list[pb.MaintenanceWindow]:
        """All of them, by name."""
        reply = self._call("ListMaintenance", pb.ListMaintenanceRequest())
        return list(reply.windows)

    def remove_window(self, name: str) -> None:
        request = pb.RemoveMaintenanceRequest(window=name, removed_by=operator_name())
        self._call("RemoveMaintenance", request)

    def audit(self, limit: int) -> list[pb.AuditEntry]:
        """The newest entries, newest first; 0 is all."""
        reply = self._call("ListAudit", pb.ListAuditRequest(limit=limit))
        return list(reply.entries)
