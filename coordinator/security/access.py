# SPDX-License-Identifier: Apache-2.0
"""Callers, and the roles that each method needs. Pure; guard.py applies it.

A method that is not in the table is nobody's. Without certificates only this host's
users, or a trusted network, can connect: such callers have all roles and name
themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from ldapslam.base.errors import AccessRefused
from ldapslam.transport.pki.certificate import Role

#: Role of a caller without a certificate.
LOCAL = "local"
STRANGER = "none"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a call."""

    who: str
    #: A Role, LOCAL or STRANGER.
    role: str
    peer: str

    @property
    def is_certified(self) -> bool:
        return bool(self.who)


#: The caller of schedules.
NOBODY = Caller("", LOCAL, "")

_caller: ContextVar[Caller] = ContextVar("caller", default=NOBODY)


def caller() -> Caller:
    """The caller of the current call."""
    return _caller.get()


def caller_name(fallback: str) -> str:
    """The name in the caller's certificate, or else `fallback`."""
    return _caller.get().who or fallback


def enter(who: Caller) -> None:
    """Make `who` the caller in this task and in those that it starts."""
    _caller.set(who)


_AGENT = frozenset({Role.AGENT})
_OPERATOR = frozenset({Role.OPERATOR})
_READER = frozenset({Role.OPERATOR, Role.VIEWER})
_ANYONE = frozenset({Role.AGENT, Role.OPERATOR, Role.VIEWER})

_BY_SERVICE: Mapping[str, Mapping[str, frozenset[Role]]] = {
    "ldapslam.v1.AgentService": {
        "Register": _AGENT,
        "Commands": _AGENT,
        "Heartbeat": _AGENT,
        "ReportInterval": _AGENT,
        "ReportProgress": _AGENT,
        "ReportMonitor": _AGENT,
        "Leave": _AGENT,
    },
    "ldapslam.v1.OperatorService": {
        "SubmitJob": _OPERATOR,
        "CancelRun": _OPERATOR,
        "ListRuns": _READER,
        "GetRun": _READER,
        "WatchRun": _READER,
        "ListAgents": _READER,
        "FetchRun": _READER,
    },
    "ldapslam.v1.ScheduleService": {
        "CreateSchedule": _OPERATOR,
        "ChangeSchedule": _OPERATOR,
        "RemoveSchedule": _OPERATOR,
        "AddMaintenance": _OPERATOR,
        "RemoveMaintenance": _OPERATOR,
        "ListSchedules": _READER,
        "ListMaintenance": _READER,
        "ListAudit": _READER,
    },
    "ldapslam.v1.CertificateService": {"Renew": _AGENT},
    # served on the enrolment address alone
    "ldapslam.v1.EnrolmentService": {"Enrol": frozenset()},
    "grpc.health.v1.Health": {"Check": _ANYONE, "List": _ANYONE, "Watch": _ANYONE},
}

#: Full name of a method -> roles that may call it.
ROLES: Mapping[str, frozenset[Role]] = {
    f"/{service}/{method}": roles
    for service, methods in _BY_SERVICE.items()
    for method, roles in methods.items()
}

#: Methods in whose request an agent names itself -> the field.
_OWN_NAME = {
    "/ldapslam.v1.AgentService/Register": "name",
    "/ldapslam.v1.AgentService/ReportInterval": "agent",
    "/ldapslam.v1.AgentService/ReportProgress": "agent",
    "/ldapslam.v1.AgentService/ReportMonitor": "agent",
}


def check_role(method: str, who: Caller) -> None:
    if not who.is_certified and who.role == LOCAL:
        return
    roles = ROLES.get(method, frozenset())
    if who.role not in roles:
        wanted = " or ".join(sorted(roles)) or "nobody"
        name = method.rpartition("/")[2]
        raise AccessRefused(
            f"{who.role} {who.who!r} may not call {name}, which is for {wanted}",
            hint="use a certificate with that role: ldapslam pki issue --role …",
        )


def check_own_name(method: str, who: Caller, request: Any) -> None:
    field = _OWN_NAME.get(method)
    if field is None or not who.is_certified:
        return
    said = str(getattr(request, field))
    if said != who.who:
        raise AccessRefused(
            f"the certificate is that of agent {who.who!r}, the call is made as "
            f"{said[:80]!r}",
            hint="start the agent with the --name that its certificate has, or "
            "without --name",
        )
