# SPDX-License-Identifier: Apache-2.0
"""What is told of an ended run, and where it may be sent."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.coordinator.outputs.deliver import parse_allowed
from ldapslam.coordinator.outputs.notification import (
    content,
    headline,
    mail,
    notification,
)
from support.store import RUN_ID, Scenario, run_record

NOW = datetime(2026, 3, 1, 12, 2, tzinfo=UTC)


def test_the_document_says_what_became_of_the_run() -> None:
    record = run_record(Scenario(run={"verdict": "FAIL"}))
    link = "https://reports.example.com/{run_id}/report.html"
    document = notification(record, ["p99 was 8 ms"], link=link)
    assert json.loads(content(document)) == {
        "schema": "ldapslam.notification/1",
        "text": f"FAIL: directory-mix, run {RUN_ID} finished: p99 was 8 ms",
        "run_id": RUN_ID,
        "job": "directory-mix",
        "state": "finished",
        "state_detail": "",
        "verdict": "FAIL",
        "reasons": ["p99 was 8 ms"],
        "submitted_utc": "2026-03-01T12:00:00.000000Z",
        "submitted_by": "ana@workstation",
        "schedule_id": None,
        "started_utc": "2026-03-01T12:00:02.000000Z",
        "finished_utc": "2026-03-01T12:01:23.000000Z",
        "agents": ["load1", "load2"],
        "link": f"https://reports.example.com/{RUN_ID}/report.html",
        "report": f"ldapslam report {RUN_ID}",
    }


@pytest.mark.parametrize(
    ("fields", "reasons", "text"),
    [
        ({"verdict": "PASS"}, [], "PASS: directory-mix, run {} finished"),
        (
            {"state": "cancelled", "state_detail": "by ana"},
            [],
            "no verdict: directory-mix, run {} cancelled: by ana",
        ),
        (
            {"verdict": "INVALID", "state": "failed", "state_detail": "agent lost"},
            ["an interval is missing", "books"],
            "INVALID: directory-mix, run {} failed: an interval is missing",
        ),
    ],
)
def test_the_headline(fields: dict[str, str], reasons: list[str], text: str) -> None:
    record = run_record(Scenario(run=fields))
    assert headline(record, reasons) == text.format(RUN_ID)


def test_a_mail_has_the_fields_as_text_and_the_document_attached() -> None:
    record = run_record(Scenario(run={"verdict": "FAIL"}))
    document = notification(record, ["p99 was 8 ms", "errors"])
    message = mail(
        document,
        sender="slam@example.com",
        recipient="ops@example.org",
        now_utc=NOW,
    )
    assert message["Subject"] == document["text"]
    assert message["To"] == "ops@example.org"
    assert message["Message-ID"] == f"<{RUN_ID}.ops-example-org@example.com>"
    text = message.get_body(("plain",))
    assert text is not None
    lines = text.get_content().splitlines()
    assert "verdict    FAIL" in lines
    assert "- p99 was 8 ms" in lines
    [attached] = message.iter_attachments()
    assert json.loads(attached.get_content()) == document


def test_what_a_job_says_cannot_add_fields_to_a_mail() -> None:
    name = "mix\r\nBcc: victim@example.com\n\nbody"
    record = run_record(Scenario(run={"job_name": name, "state_detail": name}))
    message = mail(
        notification(record, [name]),
        sender="slam@example.com",
        recipient="ops@example.com",
        now_utc=NOW,
    )
    head = message.as_bytes().partition(b"\n\n")[0].lower()
    assert b"\nbcc:" not in head
    assert message["Bcc"] is None


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.9.1",
        "0.0.0.0",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::7f00:1",
        "::127.0.0.1",
        "::ffff:0:127.0.0.1",
        "fec0::1",
        "64:ff9b::a9fe:a9fe",
        "169.254.169.254",
        "fe80::1",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "192.0.2.1",
        "224.0.0.1",
        "ff02::1",
        "255.255.255.255",
        "240.0.0.1",
        "2002:7f00:1::",
    ],
)
def test_submissions_may_not_send_to_what_only_the_coordinator_reaches(
    address: str,
) -> None:
    assert not parse_allowed(()).permit("hooks.example.com")(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "64:ff9b::808:808"])
def test_submissions_may_send_to_public_addresses(address: str) -> None:
    assert parse_allowed(()).permit("hooks.example.com")(address)


def test_networks_and_hosts_that_the_operator_allows_are_permitted() -> None:
    allowed = parse_allowed(("10.1.0.0/16", "fd00::/8", "Hooks.internal", "127.0.0.1"))
    permit = allowed.permit("other.example.com")
    assert permit("10.1.2.3")
    assert permit("::ffff:10.1.2.3")
    assert permit("fd00::1")
    assert permit("127.0.0.1")
    assert not permit("127.0.0.2")
    assert not permit("10.2.0.1")
    assert allowed.permit("hooks.INTERNAL")("192.168.0.1")


@pytest.mark.parametrize("text", ["10.0.0.0/99", "https://x/", "a/b", ""])
def test_what_is_neither_host_nor_network_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--notify-allow"):
        parse_allowed((text,))
