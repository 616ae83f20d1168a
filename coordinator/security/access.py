# SPDX-License-Identifier: Apache-2.0
"""Callers, and the roles that each method needs. Pure; guard.py applies it.

A method that is not in the table is nobody's. Without certificates only this host's
users, or a trusted network, can connect: such callers have all roles and name
themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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

#: Service -> roles -> methods that they may call.
_BY_SERVICE: Mapping[str, Mapping[frozenset[Role], str]] = {
    "ldapslam.v1.AgentService": {
        _AGENT: "Register Commands Heartbeat Reports ReportProgress "
        "ReportMonitor Leave",
    },
    "ldapslam.v1.OperatorService": {
        _OPERATOR: "SubmitJob CancelRun",
        _READER: "ListRuns GetRun WatchRun ListAgents FetchRun",
    },
    "ldapslam.v1.ScheduleService": {
        _OPERATOR: "CreateSchedule ChangeSchedule RemoveSchedule",
        _READER: "ListSchedules ListAudit",
    },
    "ldapslam.v1.CertificateService": {_AGENT: "Renew"},
    # served on the enrolment address alone
    "ldapslam.v1.EnrolmentService": {frozenset(): "Enrol"},
    "grpc.health.v1.Health": {_ANYONE: "Check List Watch"},
}
#: Full name of a method -> roles that may call it.
ROLES: Mapping[str, frozenset[Role]] = {
    f"/{service}/{method}": roles
    for service, allowed in _BY_SERVICE.items()
    for roles, methods in allowed.items()
    for method in methods.split()
}
#: Methods with requests in which an agent names itself -> the names in a request.
_OWN_NAMES: Mapping[str, Callable[[Any], Iterable[str]]] = {
    "/ldapslam.v1.AgentService/Register": lambda request: (request.name,),
    "/ldapslam.v1.AgentService/Reports": lambda request: (
        report.agent for report in request.reports
    ),
    "/ldapslam.v1.AgentService/ReportProgress": lambda report: (report.agent,),
    "/ldapslam.v1.AgentService/ReportMonitor": lambda report: (report.agent,),
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
            hint="use a certificate with that role: ldapslam fleet pki issue --role …",
        )


def check_own_name(method: str, who: Caller, request: Any) -> None:
    names_in = _OWN_NAMES.get(method)
    if names_in is None or not who.is_certified:
        return
    said = next((name for name in names_in(request) if name != who.who), None)
    if said is not None:
        raise AccessRefused(
            f"the certificate is that of agent {who.who!r}, the call is made as "
            f"{said[:80]!r}",
            hint="start the agent with the --name that its certificate has, or "
            "without --name",
        )
