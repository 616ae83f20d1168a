# SPDX-License-Identifier: Apache-2.0
"""What is told of an ended run: a JSON document, and the same as a mail. Pure.

`text` is the headline that chat services show (Slack, Mattermost and others take a
document with that key).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any

from ldapslam.results.records import RunRecord

SCHEMA = "ldapslam.notification/1"

_MAX_REASONS = 20
_MAX_SUBJECT = 200


def notification(
    record: RunRecord, reasons: Sequence[str], *, link: str | None = None
) -> dict[str, Any]:
    """The document; `link` may hold {run_id}."""
    return {
        "schema": SCHEMA,
        "text": headline(record, reasons),
        "run_id": record.run_id,
        "job": record.job_name,
        "state": record.state,
        "state_detail": record.state_detail,
        "verdict": record.verdict,
        "reasons": list(reasons[:_MAX_REASONS]),
        "submitted_utc": record.submitted_utc,
        "submitted_by": record.submitted_by,
        "schedule_id": record.schedule_id,
        "started_utc": record.t0_utc,
        "finished_utc": record.finished_utc,
        "agents": list(record.agents),
        "link": link.replace("{run_id}", record.run_id) if link else None,
        "report": f"ldapslam report {record.run_id}",
    }


def headline(record: RunRecord, reasons: Sequence[str]) -> str:
    """`FAIL: directory-mix, run 2026… finished: p99 …`."""
    text = f"{record.verdict or 'no verdict'}: {record.job_name}, run {record.run_id} "
    text += record.state
    why = reasons[0] if reasons else record.state_detail
    return _one_line(f"{text}: {why}" if why else text)


def content(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, indent=1).encode()


def mail(
    document: dict[str, Any], *, sender: str, recipient: str, now_utc: datetime
) -> EmailMessage:
    """The document as a mail of plain text, with the JSON attached."""
    message = EmailMessage()
    message["From"] = sender
    message["To"] = recipient
    message["Date"] = format_datetime(now_utc.astimezone(UTC))
    # the same for each attempt: a receiver that has it twice can tell
    domain = sender.rpartition("@")[2] or "localhost"
    message["Message-ID"] = f"<{document['run_id']}.{_key(recipient)}@{domain}>"
    message["Auto-Submitted"] = "auto-generated"
    message["Subject"] = _one_line(document["text"])[:_MAX_SUBJECT]
    message.set_content(_text(document))
    message.add_attachment(
        content(document),
        maintype="application",
        subtype="json",
        filename="notification.json",
    )
    return message


def _text(document: dict[str, Any]) -> str:
    fields = {
        "run": document["run_id"],
        "job": document["job"],
        "verdict": document["verdict"] or "none",
        "state": document["state"],
        "because": document["state_detail"],
        "submitted": f"{document['submitted_utc']} by {document['submitted_by']}",
        "started": document["started_utc"],
        "finished": document["finished_utc"],
        "agents": ", ".join(document["agents"]),
        "link": document["link"],
        "report": document["report"],
    }
    lines = [
        f"{name:<10} {_one_line(value)}" for name, value in fields.items() if value
    ]
    if document["reasons"]:
        lines += ["", "Reasons:"]
        lines += [f"- {_one_line(reason)}" for reason in document["reasons"]]
    return "\n".join([*lines, ""])


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _key(recipient: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in recipient)
