# SPDX-License-Identifier: Apache-2.0
"""Renewal: an agent has what it needs, and cannot fill the authority's register."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

from ldapslam.coordinator.security.access import Caller, enter
from ldapslam.coordinator.security.audit_log import AuditLog
from ldapslam.coordinator.security.enrolment import Enrolment, RenewalService
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.proto import enrolment_pb2 as pb
from ldapslam.transport.pki.authority import Authority
from ldapslam.transport.pki.certificate import Role, build_request, new_key
from support.bounds import exceeds
from support.call_context import CallContext, Refused


def test_an_agent_may_renew_a_few_times_and_then_once_an_hour(tmp_path: Path) -> None:
    now_s = 0.0
    authority = Authority.create(tmp_path / "pki", "test")
    for name in ("a", "b"):
        token = authority.token(name, Role.AGENT, timedelta(hours=1))
        authority.enrol(token.proof, build_request(new_key(), name))
    request = pb.RenewRequest(request_pem=build_request(new_key(), "a"))

    async def work() -> list[str]:
        nonlocal now_s
        writer = StoreWriter(str(tmp_path / "results.sqlite"))
        try:
            service = RenewalService(
                Enrolment("127.0.0.1:0", authority), AuditLog(writer), lambda: now_s
            )

            async def renews(name: str) -> bool:
                enter(Caller(name, Role.AGENT, "ipv4:192.0.2.7:1"))
                try:
                    await service.Renew(request, CallContext())
                except Refused:
                    return False
                return True

            with exceeds():
                assert [await renews("a") for _ in range(5)] == [True] * 5
            with exceeds(RENEWALS=2):
                assert [await renews("a") for _ in range(2)] == [False] * 2
            assert await renews("b")
            now_s = 3600.0
            assert [await renews("a") for _ in range(2)] == [True, False]
            return [one.identity.name for one in authority.issued()]
        finally:
            await writer.close()

    names = asyncio.run(work())
    assert (names.count("a"), names.count("b")) == (1 + 6, 1 + 1)
