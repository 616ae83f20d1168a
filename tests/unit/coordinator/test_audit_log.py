# SPDX-License-Identifier: Apache-2.0
"""What the audit log has, and how little of it strangers can fill."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ldapslam.coordinator.security.access import NOBODY, STRANGER, Caller, enter
from ldapslam.coordinator.security.audit_log import AuditLog
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.results import audit
from ldapslam.results.audit import AuditRecord
from ldapslam.results.store import Store
from ldapslam.transport.pki.certificate import Role

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
