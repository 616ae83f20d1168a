# SPDX-License-Identifier: Apache-2.0
"""Certificates for holders of a join token, and their renewal.

Enrolment is the only call for strangers: it has its own address, and every refused
token reads the same. Guesses need no limit: a secret has 256 bits, and nothing is done
without it but to hash it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

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

#: Tokens that are looked at at the same time; the others wait.
_MOST_AT_A_TIME = 8
#: Renewals of one agent, which needs one in weeks; each is in the authority's register.
_RENEWAL_BURST = 5
_RENEWALS_PER_S = 1 / 3600


@dataclass(frozen=True, slots=True)
class Enrolment:
    """Where strangers enrol, and who signs for them."""

    listen: str
    authority: Authority


class EnrolmentService(EnrolmentServiceServicer):
    def __init__(self, enrolment: Enrolment, audit: AuditLog) -> None:
        self._authority = enrolment.authority
        self._audit = audit
        self._looking = asyncio.Semaphore(_MOST_AT_A_TIME)

    async def Enrol(self, content: bytes, context: Context) -> pb.EnrolReply:
        stranger = Caller("", STRANGER, str(context.peer())[:100])
        async with errors_to(context):
            try:
                request = read_request(pb.EnrolRequest, content)
                async with self._looking:
                    signed = await asyncio.to_thread(
                        self._authority.enrol, request.token, request.request_pem
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
                raise AccessRefused(
                    "the certificate was renewed too often", hint="try again in an hour"
                )
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
