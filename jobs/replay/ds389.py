# SPDX-License-Identifier: Apache-2.0
"""389 Directory Server's access log, in its classic form and in JSON.

    [21/Nov/2026:12:54:06.014845650 +0000] conn=3 op=1 SRCH base="…" scope=2 filter="…"
    {"local_time":"2026-11-21T12:54:06.014845650 +0000","operation":"SEARCH",…}

JSON (nsslapd-accesslog-log-format: json) is one object a line; json-pretty, whose
objects go over several lines, is put together first. Internal operations are not
clients' and are counted as such. A request's time is that of its line, which the
server writes when a thread begins with it: after its wait in the queue (wtime).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from ldapslam.base.inert import parse_json
from ldapslam.jobs.replay.log import (
    DN,
    MONTHS,
    SCOPES,
    Clock,
    Convert,
    Event,
    RequestLines,
    fields_of,
)

_LINE = re.compile(
    r"\[(\d\d)/([A-Z][a-z]{2})/(\d{4}):(\d\d:\d\d:\d\d)(?:\.(\d{1,9}))? ([+-]\d{4})\] "
    r"conn=(\d+|Internal\(\d+\)) (.*)",
    re.DOTALL,
)
_OPERATION = re.compile(r"op=(-?\d+)(\(\d+\)\(\d+\))? (.*)", re.DOTALL)
_HEADER = re.compile(r"\s|$|389-Directory/|Fedora-Directory/")
_RESULT = re.compile(r"RESULT err=(?P<result>-?\d+) .*?\bnentries=(?P<entries>\d+)")
_ISO_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))? ?([+-]\d\d:?\d\d|Z)"
)


def is_line(line: str) -> bool:
    """Whether a line is one of 389-DS's access log."""
    return _LINE.match(line) is not None or (
        line.startswith("{") and ('"conn_id"' in line or line.strip() == "{")
    )


def events(
    lines: Iterable[str], clock: Clock, unusable: Counter[str]
) -> Iterator[Event]:
    """The events of one file's lines; others are counted by their reason."""
    for line in _joined(lines):
        if line.startswith("{"):
            event = _json_event(line, clock, unusable)
        else:
            event = _classic_event(line, clock, unusable)
        if event is not None:
            yield event


def _joined(lines: Iterable[str]) -> Iterator[str]:
    """Lines, with each object of json-pretty made one line."""
    held: list[str] = []
    for line in lines:
        if held:
            held.append(line)
            if line.rstrip() == "}":
                yield " ".join(held)
                held.clear()
        elif line.rstrip() == "{":
            held.append(line)
        else:
            yield line
    if held:
        yield " ".join(held)


def _classic_event(line: str, clock: Clock, unusable: Counter[str]) -> Event | None:
    match = _LINE.match(line)
    if match is None:
        if _HEADER.match(line) is None:
            unusable["lines of another kind"] += 1
        return None
    if not match[7].isdigit():
        unusable["operations of the server's own"] += " RESULT " not in match[8]
        return None
    connection = int(match[7])
    day = f"{match[3]}-{MONTHS.get(match[2], 0):02}-{match[1]}"
    time_ns = clock.time_ns(day, *match.group(4, 5, 6))
    if time_ns is None:
        unusable["lines of another kind"] += 1
        return None
    operation = _OPERATION.match(match[8])
    if operation is None:
        if " connection from " in match[8]:
            return Event(time_ns, connection, "open")
        return None  # the TLS version, and other remarks on the connection
    if operation[2]:
        unusable["operations of the server's own"] += " RESULT " not in match[8]
        return None
    number, text = int(operation[1]), operation[3]
    if text.startswith("fd="):
        return Event(time_ns, connection, "close")
    read = _read(text)
    if read is None:
        unusable["lines of another kind"] += 1
        return None
    return Event(time_ns, connection, read[0], number, read[1])


def _read(text: str) -> tuple[str, dict[str, Any]] | None:
    word = text.split(" ", 1)[0]
    if word == "RESULT":
        match = _RESULT.match(text)
        return ("result", fields_of(match, _CONVERT)) if match else None
    if word in ("SORT", "VLV", "STAT", "ENTRY", "REFERRAL", "EXTENDED"):
        return "detail", {}
    return _REQUESTS.read(text)


def _attributes(names: list[str]) -> tuple[str, ...]:
    """The names that the server did not cut off its line."""
    return tuple(name for name in names if not name.endswith("..."))


def _method(text: str) -> str:
    if text == "AUTOBIND":
        return "EXTERNAL"
    if text.startswith("128 "):
        return "simple"
    return text.partition(" mech=")[2] or "SASL"


_CONVERT: Convert = {
    "result": int,
    "entries": int,
    "scope": lambda text: SCOPES.get(int(text), "sub"),
    "attributes": lambda text: _attributes((text or "").split()),
    "is_persistent": lambda text: "options=persistent" in text,
    "method": _method,
    "new_superior": lambda text: None if text == "(null)" else text,
}
_ENTRY = rf'[A-Z]+ {DN}(?: authzid="[^"]*")?[\s,]*$'
_REQUESTS = RequestLines(
    {
        "SRCH": r'SRCH base="(?P<dn>.*)" scope=(?P<scope>\d) filter="(?P<filter>.*)" '
        r'attrs=(?:ALL|"(?P<attributes>[^"]*)")(?P<is_persistent>.*)$',
        "BIND": rf"BIND {DN} method=(?P<method>\w+ version=\d(?: mech=\S+)?)",
        "AUTOBIND": r"(?P<method>AUTOBIND)",
        **dict.fromkeys(("ADD", "MOD", "DEL"), _ENTRY),
        "MODRDN": rf'MODRDN {DN} newrdn="(?P<new_rdn>.*)" '
        r'newsuperior="(?P<new_superior>[^"]*)"',
        "EXT": r'EXT oid="(?P<oid>[\d.]+)"',
    },
    _CONVERT,
)
_UPPER_CASE = "search bind add modify delete compare abandon unbind result".split()
_JSON_KINDS = {
    **{kind.upper(): kind for kind in _UPPER_CASE},
    "AUTOBIND": "bind",
    "MODRDN": "modify_dn",
    "EXTENDED_OP": "extended",
    "CONNECTION": "open",
    "DISCONNECT": "close",
}
#: Objects that say nothing of a request, or what other lines say too.
_JSON_REMARKS = frozenset(
    "STAT VLV SORT ENTRY REFERRAL EXTENDED_OP_INFO TLS_INFO TLS_CLIENT_INFO HAPROXY "
    "ERROR".split()
)


def _json_event(line: str, clock: Clock, unusable: Counter[str]) -> Event | None:
    try:
        record = parse_json(line)
    except ValueError:
        unusable["lines that are cut off"] += 1
        return None
    if not isinstance(record, dict) or "operation" not in record:
        return None  # the header of a file
    what = _JSON_KINDS.get(record["operation"])
    stamp = _ISO_TIME.match(str(record.get("local_time", "")))
    time_ns = clock.time_ns(*stamp.groups()) if stamp else None
    connection = record.get("conn_id")
    if record.get("internal_op"):
        unusable["operations of the server's own"] += what != "result"
        return None
    if what is None or time_ns is None or not isinstance(connection, int):
        if record["operation"] not in _JSON_REMARKS:
            unusable["lines of another kind"] += 1
        return None
    number = record.get("op_id", -1)
    if what in ("open", "close"):
        return Event(time_ns, connection, what)
    return Event(time_ns, connection, what, number, _json_fields(what, record))


def _json_fields(what: str, record: dict[str, Any]) -> dict[str, Any]:
    if what == "result":
        return {"result": record.get("err", 0), "entries": record.get("nentries", 0)}
    dn = record.get("base_dn", record.get("bind_dn", record.get("target_dn", "")))
    fields: dict[str, Any] = {"dn": dn}
    if what == "search":
        fields["scope"] = SCOPES.get(record.get("scope", 2), "sub")
        fields["filter"] = record.get("filter", "")
        fields["attributes"] = _attributes(record.get("attrs", []))
        fields["is_persistent"] = bool(record.get("psearch"))
    elif what == "bind":
        simple = str(record.get("method", "sasl")) == "128"
        fields["method"] = "simple" if simple else record.get("mech", "SASL")
    elif what == "modify_dn":
        fields["new_rdn"] = record.get("newrdn", "")
        fields["new_superior"] = record.get("newsup")
        fields["delete_old_rdn"] = record.get("deleteoldrdn", True)
    elif what == "compare":
        fields["attributes"] = (record.get("cmp_attr", ""),)
    elif what == "extended":
        fields["oid"] = record.get("oid", "")
    if any(
        isinstance(value, str) and value.endswith("...") for value in fields.values()
    ):
        return {"problem": "a value of the line is cut off"}  # beyond 512 bytes
    return fields
