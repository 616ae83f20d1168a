# SPDX-License-Identifier: Apache-2.0
"""What a line of a log looks like: text for people, or one JSON object a line.

    {"time": "2026-03-01T12:00:00.000123Z", "level": "INFO",
     "logger": "ldapslam.coordinator.runs.controller", "message": "run 2026… running",
     "run_id": "2026…"}

`run_id` and `agent` are there where they are known: of a process that serves one of
them (`LogFields`), given by `extra`, or named in the call itself, whose format says
`run %s` and `agent %s` before them. A traceback is one line as all the rest. The
children of a process follow it by an environment variable.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
import warnings
from datetime import UTC, datetime
from typing import Any

from ldapslam.base.inert import inert

#: Tells child processes the format.
FORMAT_VARIABLE = "LDAPSLAM_LOG_FORMAT"
FORMATS = ("text", "json")

_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_FIELDS = {"run": "run_id", "agent": "agent"}
# each placeholder of a format, with the word before it where that names a field
_PLACEHOLDER = re.compile(
    r"%%|(?:\b(run|agent) (?=%[sr]))?%[-+ #0]*\d*(?:\.\d+)?[a-zA-Z]"
)

LogFields = dict[str, str]


class JsonFormatter(logging.Formatter):
    """One JSON object for each record."""

    def __init__(self, fields: LogFields) -> None:
        super().__init__()
        self._fields = fields

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _utc(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": without_passwords(record.getMessage()),
            **self._fields,
            **_named(record),
        }
        for name in _FIELDS.values():
            if value := getattr(record, name, None):
                line[name] = str(value)
        if record.exc_info:
            line["traceback"] = without_passwords(self.formatException(record.exc_info))
        if record.stack_info:
            line["stack"] = without_passwords(self.formatStack(record.stack_info))
        return inert(json.dumps(line, ensure_ascii=False, default=str))


class _TextFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__(_TEXT)

    def format(self, record: logging.LogRecord) -> str:
        return inert(super().format(record))


def _utc(time_s: float) -> str:
    moment = datetime.fromtimestamp(time_s, UTC)
    return moment.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def _named(record: logging.LogRecord) -> LogFields:
    found: LogFields = {}
    if not isinstance(record.args, tuple) or not isinstance(record.msg, str):
        return found
    words = [
        match[1] for match in _PLACEHOLDER.finditer(record.msg) if match[0] != "%%"
    ]
    for word, value in zip(words, record.args, strict=False):
        if word and value is not None:
            found.setdefault(_FIELDS[word], str(value))
    return found


def format_of_parent() -> str:
    chosen = os.environ.get(FORMAT_VARIABLE, "")
    return chosen if chosen in FORMATS else FORMATS[0]


def set_up_log(log_format: str, *, level: int = logging.WARNING) -> LogFields:
    """Set up logging to stderr for this process and its children; fields to fill in."""
    fields: LogFields = {}
    as_json = log_format == "json"
    logging.basicConfig(stream=sys.stderr)
    root = logging.getLogger()
    root.setLevel(level)
    for handler in root.handlers:
        # not the handlers of others, such as tests
        if type(handler) is logging.StreamHandler:
            handler.setFormatter(JsonFormatter(fields) if as_json else _TextFormatter())
    if log_format != format_of_parent():
        os.environ[FORMAT_VARIABLE] = log_format
    if as_json:
        _take_what_would_be_printed()
    return fields


def is_json() -> bool:
    return any(
        isinstance(handler.formatter, JsonFormatter)
        for handler in logging.getLogger().handlers
    )


def _take_what_would_be_printed() -> None:
    """Log warnings and failed threads, which would be printed."""
    logging.captureWarnings(True)
    warnings.formatwarning = _one_line
    threading.excepthook = _log_thread


def _one_line(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    return f"{category.__name__}: {message} ({filename}:{lineno})"


def _log_thread(failed: threading.ExceptHookArgs) -> None:
    if failed.exc_value is None or failed.exc_type is SystemExit:
        return
    logging.getLogger(__name__).error(
        "thread %s failed",
        failed.thread.name if failed.thread else "?",
        exc_info=(failed.exc_type, failed.exc_value, failed.exc_traceback),
    )


# The password of scheme://user:password@host, even with an unescaped `@`, and of
# `?password=…`; braces hold a reference.
_PASSWORD = re.compile(
    r"(?<=://)([^:/@\s]*):[^@\n]*(?:@[^@/\s]*)*@"
    r"|(password=)(?!\{)[^&\s]+",
    re.IGNORECASE,
)


def without_passwords(text: str) -> str:
    """A text, such as an argument, with the passwords of its URLs masked."""
    return _PASSWORD.sub(
        lambda found: f"{found[2]}***" if found[2] else f"{found[1]}:***@", text
    )
