# SPDX-License-Identifier: Apache-2.0
"""Which roles may call what, who a caller is, and what the audit log has of it."""

from __future__ import annotations

import importlib
import logging
from pathlib import Path

import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor

from ldapslam import proto
from ldapslam.base.errors import AccessRefused
from ldapslam.coordinator.security.access import (
    LOCAL,
    NOBODY,
    ROLES,
    STRANGER,
    Caller,
    caller,
    caller_name,
    check_own_name,
    check_role,
    enter,
)
from ldapslam.coordinator.security.audit_log import Allowance, AuditLog
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.proto.agent_pb2 import IntervalReport, IntervalReports
from ldapslam.results import audit
from ldapslam.results.audit import AuditRecord
from ldapslam.results.store import Store
from ldapslam.transport.pki.certificate import Role

PROTO = Path(next(iter(proto.__path__)))
AGENT = Caller("a1", Role.AGENT, "ipv4:192.0.2.7:1")
LOCAL_CALLER = Caller("", LOCAL, "unix:")
REPORTS = "/ldapslam.v1.AgentService/Reports"


def described() -> list[MethodDescriptor]:
    """Every method of every .proto of ours."""
    return [
        method
        for path in sorted(PROTO.glob("*.proto"))
        for service in importlib.import_module(
            f"ldapslam.proto.{path.stem}_pb2"
        ).DESCRIPTOR.services_by_name.values()
        for method in service.methods
    ]


def test_every_method_of_every_service_is_in_the_table() -> None:
    ours = {f"/{m.containing_service.full_name}/{m.name}" for m in described()}
    assert len(ours) > 20
    assert ours == {path for path in ROLES if path.startswith("/ldapslam.")}


def test_agents_have_the_agents_service_alone_and_viewers_change_nothing() -> None:
    for path, roles in ROLES.items():
        _, service, method = path.split("/")
        is_agents = service.endswith((".AgentService", ".CertificateService"))
        is_health = service == "grpc.health.v1.Health"
        assert (Role.AGENT in roles) == (is_agents or is_health), path
        if Role.VIEWER in roles and not is_health:
            assert method.startswith(("List", "Get", "Watch", "Fetch")), path
        if service.endswith((".OperatorService", ".ScheduleService")):
            assert Role.OPERATOR in roles, path
        assert Role.COORDINATOR not in roles


@pytest.mark.parametrize("method", ["/other.Service/Method", "/ldapslam.v1.New/Call"])
@pytest.mark.parametrize("role", list(Role))
def test_a_method_that_is_not_in_the_table_is_nobodys(method: str, role: Role) -> None:
    with pytest.raises(AccessRefused, match="which is for nobody"):
        check_role(method, Caller("x", role, ""))


def test_a_local_caller_has_all_roles_and_a_stranger_none() -> None:
    for method in ROLES:
        check_role(method, LOCAL_CALLER)
        with pytest.raises(AccessRefused):
            check_role(method, Caller("", STRANGER, ""))


def test_each_of_several_reports_of_an_agent_has_its_own_name() -> None:
    own, other = IntervalReport(agent="a1"), IntervalReport(agent="a2")
    check_own_name(REPORTS, AGENT, IntervalReports(reports=[own, own]))
    mixed = IntervalReports(reports=[own, other])
    with pytest.raises(AccessRefused, match="certificate is that of agent 'a1'"):
        check_own_name(REPORTS, AGENT, mixed)
    check_own_name(REPORTS, LOCAL_CALLER, mixed)


def test_the_certificates_name_comes_before_what_the_caller_says() -> None:
    assert caller() == NOBODY
    assert caller_name("root@host") == "root@host"
    enter(AGENT)
    try:
        assert (caller(), caller_name("root@host")) == (AGENT, "a1")
    finally:
        enter(NOBODY)


def test_an_allowance_is_a_burst_and_then_a_rate() -> None:
    allowance = Allowance(3, 0.5, now_s=100.0)
    assert [allowance.take(100.0) for _ in range(4)] == [True, True, True, False]
    assert [allowance.take(101.0), allowance.take(102.0)] == [False, True]
    assert [allowance.take(1e6) for _ in range(4)] == [True, True, True, False]
    # a clock that goes back gives nothing
    assert not allowance.take(5.0)


def test_in_whatever_an_agent_names_itself_the_name_is_its_own() -> None:
    """A new message of the service must not be forgotten."""
    named = [
        (method, field)
        for method in described()
        if method.containing_service.name == "AgentService"
        for field in ("agent", "name")
        if field in method.input_type.fields_by_name
    ]
    assert len(named) >= 3
    for method, field in named:
        path = f"/{method.containing_service.full_name}/{method.name}"
        request = message_factory.GetMessageClass(method.input_type)
        check_own_name(path, AGENT, request(**{field: "a1"}))
        for other in ("a2", "A1", ""):
            with pytest.raises(AccessRefused, match="the certificate is that of"):
                check_own_name(path, AGENT, request(**{field: other}))
            check_own_name(path, LOCAL_CALLER, request(**{field: other}))


# What the audit log has, and how little of it strangers can fill.


OLGA = Caller("olga", Role.OPERATOR, "ipv4:192.0.2.7:4711")
SOMEBODY = Caller("", STRANGER, "ipv4:198.51.100.9:1")


async def test_who_did_what_is_kept_newest_first(writer: StoreWriter) -> None:
    log = AuditLog(writer)
    await log.note("submit", "run-1", "job.yaml", by="root@host")
    enter(OLGA)
    await log.note("cancel", "run-1", by="root@host")
    enter(NOBODY)
    cancel, submit = await writer.call(audit.newest, writer.store, 0)
    assert (submit.who, submit.role, submit.action) == ("root@host", "local", "submit")
    assert (cancel.who, cancel.role, cancel.peer) == ("olga", "operator", OLGA.peer)
    assert (submit.number, cancel.number) == (1, 2)
    assert (submit.subject, submit.detail) == ("run-1", "job.yaml")


async def test_a_million_refusals_are_a_few_lines(
    writer: StoreWriter, caplog: pytest.LogCaptureFixture
) -> None:
    now_s = 0.0
    caplog.set_level(logging.ERROR)
    log = AuditLog(writer, lambda: now_s)
    for number in range(10_000):
        now_s = number / 100  # a hundred seconds in all
        log.refused(SOMEBODY, "Enrol" * 1000, "x" * 100_000)
    await writer.flush()
    records = await writer.call(audit.newest, writer.store, 0)
    # fifty at once, five a minute
    assert len(records) == 58
    assert all(len(f"{record}") < 2000 for record in records)
    assert {(record.role, record.peer) for record in records} == {
        ("none", SOMEBODY.peer)
    }


async def test_how_many_refusals_were_left_out_is_said_with_the_next(
    writer: StoreWriter,
) -> None:
    now_s = 0.0
    log = AuditLog(writer, lambda: now_s)
    for _ in range(75):
        log.refused(SOMEBODY, "Enrol", "no")
    now_s = 60.0
    log.refused(SOMEBODY, "Enrol", "no")
    await writer.flush()
    last, before = await writer.call(audit.newest, writer.store, 2)
    assert last.detail == "no (and 25 refusals before, not written)"
    assert before.detail == "no"


def test_a_text_that_a_caller_chose_is_cut_and_holds_no_zero(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.sqlite") as store:
        record = AuditRecord(
            "2026-11-21", "w" * 9999, "r", "p", "a", "s\0t", "d" * 9999
        )
        audit.add(store, record)
        [kept] = audit.newest(store)
    assert (len(kept.who), len(kept.detail), kept.subject) == (501, 501, "s\\u0000t")
