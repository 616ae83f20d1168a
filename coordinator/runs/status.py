# SPDX-License-Identifier: Apache-2.0
"""Runs as operators are told of them, from what the store has."""

from __future__ import annotations

from collections.abc import Iterable

from ldapslam.base.errors import LdapSlamError
from ldapslam.proto import operator_pb2 as pb
from ldapslam.results.records import EventRecord, RunRecord
from ldapslam.transport.messages import failure_message


def stored_status(
    record: RunRecord, events: Iterable[EventRecord] = ()
) -> pb.RunStatus:
    """Of a run that nobody carries out."""
    failure = record.manifest.failure
    error = LdapSlamError.from_dict(failure) if failure else None
    return status_message(record, events, error, record.planned_ns)


def status_message(
    record: RunRecord,
    events: Iterable[EventRecord],
    error: LdapSlamError | None,
    planned_ns: int,
) -> pb.RunStatus:
    return pb.RunStatus(
        run_id=record.run_id,
        job_name=record.job_name,
        state=record.state,
        state_detail=record.state_detail,
        failure=failure_message(error) if error is not None else None,
        submitted_utc=record.submitted_utc,
        submitted_by=record.submitted_by,
        t0_utc=record.t0_utc or "",
        finished_utc=record.finished_utc or "",
        agents=record.agents,
        planned_ns=planned_ns,
        events=[event_message(event) for event in events],
        verdict=record.verdict or "",
        priority=record.priority,
        schedule_id=record.schedule_id or "",
    )


def event_message(event: EventRecord) -> pb.RunEvent:
    return pb.RunEvent(at_utc=event.at_utc, kind=event.kind, text=event.text)
