# SPDX-License-Identifier: Apache-2.0
"""Certificates for holders of a join token, and their renewal.

Enrolment is the only call for strangers: it has its own address, attempts are limited
for each host and in total, and every refused token reads the same.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import unquote

from ldapslam.base.errors import AccessRefused
from ldapslam.coordinator.bounds import Bound, note_exceeded
from ldapslam.coordinator.security import access
from ldapslam.coordinator.security.access import STRANGER, Caller, caller
from ldapslam.coordinator.security.audit_log import Allowance, AuditLog
from ldapslam.coordinator.security.guard import Context, errors_to, read_request
from ldapslam.proto import enrolment_pb2 as pb
from ldapslam.proto.enrolment_pb2_grpc import (
    CertificateServiceServicer,
    EnrolmentServiceServicer,
)
from ldapslam.transport.pki.authority import Authority, Signed
from ldapslam.transport.pki.certificate import Role

#: Attempts of one host: at once, and per second.
_BURST = 5
_HOST_PER_S = 0.2
#: All hosts together.
_TOTAL_BURST = 50
_TOTAL_PER_S = 5.0
_MAX_HOSTS = 1024
#: Renewals of one agent, which needs one in weeks; each is in the authority's register.
_RENEWAL_BURST = 5
_RENEWALS_PER_S = 1 / 3600


class Attempts:
    """How often strangers may try."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._total = Allowance(_TOTAL_BURST, _TOTAL_PER_S, now_s())
        #: The last caller at the end.
        self._hosts: OrderedDict[str, Allowance] = OrderedDict()

    def take(self, peer: str) -> bool:
        """False: too many attempts of this host, or of all."""
        host, now_s = _host(peer), self._now_s()
        allowance = self._hosts.pop(host, None)
        allowance = allowance or Allowance(_BURST, _HOST_PER_S, now_s)
        self._hosts[host] = allowance
        if len(self._hosts) > _MAX_HOSTS:
            self._hosts.popitem(last=False)
        # the host's own first: it takes nothing from others
        return allowance.take(now_s) and self._total.take(now_s)


@dataclass(frozen=True, slots=True)
class Enrolment:
    """Where strangers enrol, and who signs for them."""

    listen: str
    authority: Authority
    attempts: Attempts = field(default_factory=Attempts)


class EnrolmentService(EnrolmentServiceServicer):
    def __init__(self, enrolment: Enrolment, audit: AuditLog) -> None:
        self._enrolment = enrolment
        self._audit = audit

    async def Enrol(self, content: bytes, context: Context) -> pb.EnrolReply:
        """`content` is not parsed yet: an attempt counts before anything is read."""
        stranger = Caller("", STRANGER, str(context.peer())[:100])
        async with errors_to(context):
            try:
                if not self._enrolment.attempts.take(stranger.peer):
                    note_exceeded(Bound.ENROLMENTS)
                    raise AccessRefused(
                        "too many attempts to enrol", hint="try again in a minute"
                    )
                request = read_request(pb.EnrolRequest.FromString, content)
                signed = await asyncio.to_thread(
                    self._enrolment.authority.enrol, request.token, request.request_pem
                )
            except AccessRefused as error:
                self._audit.refused(stranger, "enrol", str(error))
                raise
            identity = signed.identity
            access.enter(Caller(identity.name, identity.role, stranger.peer))
            return await _reply(self._audit, "enrol", signed)


class RenewalService(CertificateServiceServicer):
    def __init__(
        self,
        enrolment: Enrolment,
        audit: AuditLog,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._enrolment = enrolment
        self._audit = audit
        self._now_s = now_s
        self._allowances: dict[str, Allowance] = {}

    async def Renew(self, request: pb.RenewRequest, context: Context) -> pb.EnrolReply:
        who = caller()
        async with errors_to(context):
            if not who.is_certified:
                raise AccessRefused("there is no certificate to renew")
            if not self._may_renew(who.who):
                note_exceeded(Bound.RENEWALS)
                error = AccessRefused(
                    "the certificate was renewed too often", hint="try again in an hour"
                )
                self._audit.refused(who, "renew", str(error))
                raise error
            signed = await asyncio.to_thread(
                self._enrolment.authority.renew_for,
                who.who,
                Role(who.role),
                request.request_pem,
            )
            return await _reply(self._audit, "renew", signed)

    def _may_renew(self, name: str) -> bool:
        now_s = self._now_s()
        fresh = Allowance(_RENEWAL_BURST, _RENEWALS_PER_S, now_s)
        return self._allowances.setdefault(name, fresh).take(now_s)


async def _reply(audit: AuditLog, action: str, signed: Signed) -> pb.EnrolReply:
    identity = signed.identity
    await audit.note(action, identity.name, f"certificate {identity.serial:x}")
    return pb.EnrolReply(
        certificate_pem=signed.certificate_pem, authority_pem=signed.authority_pem
    )


def _host(peer: str) -> str:
    """The host of a peer such as `ipv4:192.0.2.7:4711`; of IPv6 its /64."""
    address = unquote(peer.partition(":")[2].rpartition(":")[0]).strip("[]")
    try:
        host = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(host, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((host, 64), strict=False))
    return str(host)
