# SPDX-License-Identifier: Apache-2.0
"""Lines of a log as JSON: what is in them, and that they stay lines."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest

from ldapslam.base.log_format import JsonFormatter, LogFields


def line(message: object, *arguments: Any, **more: Any) -> dict[str, Any]:
    """The record of such a call, formatted and read again."""
    fields: LogFields = more.pop("fields", {})
    record = logging.getLogger("ldapslam.x").makeRecord(
        *("ldapslam.x", logging.WARNING, "x.py", 1, message, arguments, None),
        extra=more.pop("extra", None),
    )
    record.created = 1_772_366_400.000123
    record.exc_info = more.pop("exc_info", None)
    text = JsonFormatter(fields).format(record)
    assert "\n" not in text
    found: dict[str, Any] = json.loads(text)
    return found


def test_a_line_has_time_in_utc_level_logger_and_message() -> None:
    assert line("%d reports wait", 3) == {
        "time": "2026-03-01T12:00:00.000123Z",
        "level": "WARNING",
        "logger": "ldapslam.x",
        "message": "3 reports wait",
    }


@pytest.mark.parametrize(
    ("call", "fields"),
    [
        (("run %s: %s", "r1", "x"), {"run_id": "r1"}),
        (("a report of run %r was refused: %s", "r1", "x"), {"run_id": "r1"}),
        (("agent %s is gone: %s", "a", "x"), {"agent": "a"}),
        (("%d %% of run %s on agent %s", 5, "r1", "a"), {"run_id": "r1", "agent": "a"}),
        (("%s: run %s", "run", "r2"), {"run_id": "r2"}),
        (("prerun %s", "r1"), {}),
        (("run %d times on agent %s", 3, "a"), {"agent": "a"}),
        (("no arguments: run %s",), {}),
    ],
)
def test_runs_and_agents_that_a_call_names_are_fields(
    call: tuple[Any, ...], fields: dict[str, str]
) -> None:
    found = line(*call)
    assert {key: found[key] for key in ("run_id", "agent") if key in found} == fields


def test_fields_of_the_process_are_in_every_line_and_the_calls_own_come_first() -> None:
    found = line("run %s ends", "r2", fields={"run_id": "r1", "agent": "a"})
    assert (found["run_id"], found["agent"]) == ("r2", "a")
    found = line("it ends", fields={"agent": "a"}, extra={"run_id": "r3"})
    assert (found["run_id"], found["agent"]) == ("r3", "a")


def test_a_traceback_is_part_of_its_line() -> None:
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        found = line("it failed", exc_info=sys.exc_info())
    assert "ValueError: first\nsecond" in found["traceback"]
    assert found["message"] == "it failed"


def test_line_breaks_and_control_characters_in_a_message_stay_in_their_line() -> None:
    assert line("%s", 'a\nb\x1b[31m"')["message"] == 'a\nb\x1b[31m"'


def test_passwords_of_urls_are_masked_also_in_tracebacks() -> None:
    url = "postgresql://u:hunter2@db/x"
    try:
        raise OSError(url)
    except OSError:
        found = line("store %s", url, exc_info=sys.exc_info())
    assert "hunter2" not in json.dumps(found)
    assert found["message"] == "store postgresql://u:***@db/x"
