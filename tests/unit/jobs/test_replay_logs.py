# SPDX-License-Identifier: Apache-2.0
"""Logs of real servers, in all forms that they are written in, and damaged ones.

`slapd-2.5.log` was written by OpenLDAP 2.5.13 (-d stats), `389-ds-2.3.log` by 389
Directory Server 2.3.1, both while ldap-utils asked for one of everything.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.base.yaml_text import tree_lines
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.replay.log import NS_PER_S, Log
from ldapslam.jobs.replay.read import read_logs
from ldapslam.jobs.replay.statistical_job import statistical_load

FOLDER = Path(__file__).parent / "replay_logs"
SLAPD, DS389 = FOLDER / "slapd-2.5.log", FOLDER / "389-ds-2.3.log"

BASE_FILTER = (
    r"(&(uid=user.1)(|(cn=*e*\C3\B1\28*)(sn>=A)(nosuch=1)(!(cn~=b))"
    "(cn:caseExactMatch:=q)))"
)


def kinds(log: Log) -> Counter[str]:
    return Counter(operation.kind for operation in log.operations())


def read_lines(folder: Path, *files: list[str]) -> Log:
    paths = []
    for number, lines in enumerate(files):
        path = folder / f"log.{number}"
        path.write_text("".join(f"{line}\n" for line in lines))
        paths.append(path)
    return read_logs(paths)


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_openldap_has_what_its_clients_asked() -> None:
    log = read_logs([SLAPD])
    assert kinds(log) == {
        **{"bind": 13, "search": 4, "add": 3, "modify": 1, "compare": 1},
        **{"delete": 1, "modify_dn": 1, "extended": 3, "unbind": 13},
    }
    assert len(log.sessions) == 13
    assert all(session.has_start and session.end_ns for session in log.sessions)
    # the add of an entry whose name is no DN: slapd logs its result alone
    reason = "results of requests that the log does not describe"
    assert log.unusable[reason] == 1
    assert log.duration_ns == 83_792_493
    search = next(one for one in log.operations() if one.kind == "search")
    assert search.filter == BASE_FILTER
    assert (search.dn, search.scope) == ("ou=people,dc=example,dc=com", "sub")
    assert search.attributes == ("cn", "mail")
    assert (search.result, search.entries, search.deref) == (0, 1, "never")
    codes = Counter(one.result for one in log.operations() if one.kind == "bind")
    assert codes == {0: 12, 49: 1}
    modify = next(one for one in log.operations() if one.kind == "modify")
    assert modify.attributes == ("description", "mail")


def test_389_ds_has_what_its_clients_asked() -> None:
    log = read_logs([DS389])
    assert kinds(log) == {
        **{"bind": 12, "search": 4, "add": 5, "modify": 1, "compare": 1},
        **{"delete": 1, "modify_dn": 1, "extended": 2, "unbind": 12},
    }
    assert len(log.sessions) == 12
    search = next(one for one in log.operations() if one.kind == "search")
    assert search.filter == BASE_FILTER
    assert search.attributes == ("cn", "mail")
    rename = next(one for one in log.operations() if one.kind == "modify_dn")
    assert (rename.new_rdn, rename.new_superior) == ("uid=user.2", None)
    assert log.first_ns % NS_PER_S == 943_411_681
    assert datetime.fromtimestamp(log.first_ns // NS_PER_S, UTC).isoformat() == (
        "2026-11-21T12:54:05+00:00"
    )


_DEBUG = re.compile(r"^([0-9a-f]+)\.([0-9a-f]{8}) 0x[0-9a-f]+ ")


def stamped(line: str, form: str) -> str:
    """A line of slapd's with another form of its stamp."""
    match = _DEBUG.match(line)
    if match is None:
        return line
    seconds, ns = int(match[1], 16), int(match[2], 16)
    at = datetime.fromtimestamp(seconds, UTC)
    return form.format(seconds=seconds, us=ns // 1000, at=at) + line[match.end() :]


@pytest.mark.parametrize(
    ("form", "is_exact"),
    [
        ("{seconds:x}.{us:05x} 0x7f00dbffe6c0 ", True),
        ("{seconds:x} ", False),
        ("{at:%b} {at.day:2} {at:%H:%M:%S} ds1 slapd[411]: ", False),
        ("{at:%b %d %H:%M:%S}.{us:06} ds1 slapd[411]: ", True),
        ("{at:%Y-%m-%dT%H:%M:%S}.{us:06}+00:00 ds1 slapd[411]: ", True),
        ("{at:%Y-%m-%dT%H:%M:%S}.{us:06}Z ds1 slapd ", True),
    ],
)
def test_all_forms_of_openldaps_stamps_are_read(
    tmp_path: Path, form: str, is_exact: bool
) -> None:
    lines = [stamped(line, form) for line in lines_of(SLAPD)]
    log = read_lines(tmp_path, lines)
    original = read_logs([SLAPD])
    assert kinds(log) == kinds(original)
    assert log.is_coarse is not is_exact
    if is_exact:
        assert abs(log.duration_ns - original.duration_ns) <= 1000
    else:
        # all within one second, spread over it in their order
        assert 0 < log.duration_ns < NS_PER_S
        times = [one.time_ns for one in log.operations()]
        assert times == sorted(times)
        assert len(set(times)) == len(times)


def test_syslog_goes_on_from_december_to_january(tmp_path: Path) -> None:
    begin = "Dec 30 12:00:00 ds1 slapd[1]: conn=1 fd=5 ACCEPT from IP=[::1]:1 (IP=)"
    december = 'Dec 31 12:00:00 ds1 slapd[1]: conn=1 op=0 DEL dn="cn=a"'
    january = 'Jan  1 12:00:00 ds1 slapd[1]: conn=1 op=1 DEL dn="cn=b"'
    for files in ([[begin, december, january]], [[january], [begin, december]]):
        log = read_lines(tmp_path, *files)
        assert [one.dn for one in log.operations()] == ["cn=a", "cn=b"]
        assert len(log.sessions) == 1
        assert abs(log.duration_ns - 2 * 86_400 * NS_PER_S) < NS_PER_S


def test_a_rotated_log_is_read_in_the_order_of_its_times(tmp_path: Path) -> None:
    lines = lines_of(SLAPD)
    middle = len(lines) // 2
    path = tmp_path / "slapd.log.1.gz"
    path.write_bytes(gzip.compress("\n".join(lines[:middle]).encode()))
    rest = tmp_path / "slapd.log"
    rest.write_text("\n".join(lines[middle:]))
    log = read_logs([rest, path])
    whole = read_logs([SLAPD])
    assert kinds(log) == kinds(whole)
    assert len(log.sessions) == len(whole.sessions)


def test_a_compressed_file_that_is_still_being_written_is_read_to_its_end(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(SLAPD.read_bytes())[:-700])
    log = read_logs([path])
    assert 0 < log.lines < len(lines_of(SLAPD))


@pytest.mark.parametrize("path", [SLAPD, DS389], ids=["slapd", "389-ds"])
def test_every_cut_of_a_line_is_survived(tmp_path: Path, path: Path) -> None:
    lines = lines_of(path)
    for number, line in enumerate(lines):
        if " SRCH " not in line:
            continue
        for cut in range(0, len(line), 7):
            damaged = [*lines[:number], line[:cut], *lines[number + 1 :]]
            log = read_lines(tmp_path, damaged)
            problems = [one.problem for one in log.operations() if one.problem]
            assert set(problems) <= {"the line is cut off"}
        break


def test_bytes_that_are_no_text_are_survived(tmp_path: Path) -> None:
    content = SLAPD.read_bytes().replace(b"user.1", b"user.\xff\x00")
    path = tmp_path / "log"
    path.write_bytes(content)
    assert kinds(read_logs([path])) == kinds(read_logs([SLAPD]))


def test_a_log_that_begins_in_the_middle_has_what_follows(tmp_path: Path) -> None:
    lines = lines_of(SLAPD)
    begin = next(n for n, line in enumerate(lines) if "op=1 SRCH base" in line)
    log = read_lines(tmp_path, lines[begin:])
    assert not log.sessions[0].has_start
    assert [one.kind for one in log.sessions[0].operations] == ["search", "unbind"]


def test_a_restarted_server_counts_its_connections_anew(tmp_path: Path) -> None:
    stamp = "6b0193e0.00000000 0x7f00dbffe6c0"
    later = "6b0193f0.00000000 0x7f00dbffe6c0"
    log = read_lines(
        tmp_path,
        [
            f"{stamp} conn=1000 fd=11 ACCEPT from IP=127.0.0.1:1 (IP=127.0.0.1:2)",
            f'{stamp} conn=1000 op=0 DEL dn="cn=a"',
            f"{later} conn=1000 fd=11 ACCEPT from IP=127.0.0.1:3 (IP=127.0.0.1:2)",
            f'{later} conn=1000 op=0 DEL dn="cn=b"',
        ],
    )
    assert [len(session.operations) for session in log.sessions] == [1, 1]
    assert log.sessions[0].end_ns is not None
    assert log.sessions[1].end_ns is None


SEARCHED = {"base_dn": "dc=example,dc=com", "scope": 2, "filter": "(uid=user.1)"}
JSON: list[dict[str, Any]] = [
    {"header": "389-Directory/3.1.2 B2025.001.0000", "version": "1.0"},
    {"operation": "CONNECTION", "fd": 64, "slot": 64, "tls": False},
    {"operation": "BIND", "op_id": 0, "bind_dn": "cn=dm", "method": "128"},
    {"operation": "RESULT", "op_id": 0, "tag": 97, "err": 0, "nentries": 0},
    {"operation": "SEARCH", "op_id": 1, **SEARCHED, "attrs": ["cn", "mail"]},
    {"operation": "RESULT", "op_id": 1, "err": 0, "nentries": 1, "notes": [{"a": "b"}]},
    {"operation": "SEARCH", "op_id": 1, "internal_op": True, **SEARCHED},
    {"operation": "MODRDN", "op_id": 2, "target_dn": "cn=a", "newrdn": "uid=user.2"},
    {"operation": "RESULT", "op_id": 2, "tag": 109, "err": 32, "nentries": 0},
    {"operation": "COMPARE", "op_id": 3, "target_dn": "cn=a", "cmp_attr": "sn"},
    {"operation": "SEARCH", "op_id": 4, "base_dn": "", "scope": 0, "filter": "(a=b..."},
    {"operation": "UNBIND", "op_id": 5},
    {"operation": "DISCONNECT", "fd": 64, "close_reason": "Cleanly Closed Connection"},
]


def _json_lines(indent: int | None) -> list[str]:
    lines = []
    for number, record in enumerate(JSON):
        time = f"2026-11-21T12:54:05.{number:09} +0000"
        whole = {"local_time": time, "conn_id": 7, **record}
        lines += json.dumps(whole, indent=indent).splitlines()
    return lines


@pytest.mark.parametrize("indent", [None, 4], ids=["json", "json-pretty"])
def test_389_ds_json_is_read(tmp_path: Path, indent: int | None) -> None:
    log = read_lines(tmp_path, _json_lines(indent))
    [session] = log.sessions
    assert [one.kind for one in session.operations] == [
        *("bind", "search", "modify_dn", "compare", "search", "unbind")
    ]
    search = session.operations[1]
    assert (search.dn, search.scope, search.filter) == (
        *("dc=example,dc=com", "sub", "(uid=user.1)"),
    )
    assert search.attributes == ("cn", "mail")
    assert search.entries == 1
    assert session.operations[2].new_rdn == "uid=user.2"
    assert session.operations[2].result == 32
    assert session.operations[4].problem == "a value of the line is cut off"
    assert log.unusable["operations of the server's own"] == 1
    assert session.end_ns is not None


def test_389_ds_internal_operations_are_not_its_clients(tmp_path: Path) -> None:
    stamp = "[21/Nov/2026:12:54:06.014845650 +0000]"
    log = read_lines(
        tmp_path,
        [
            f"{stamp} conn=3 fd=64 slot=64 SSL connection from 10.0.0.1 to 10.0.0.2",
            f"{stamp} conn=3 TLS1.3 128-bit AES-GCM",
            f'{stamp} conn=3 op=0 BIND dn="" method=sasl version=3 mech=GSSAPI',
            f'{stamp} conn=3 op=1(1)(0) SRCH base="cn=config" scope=0 filter="(a=b)"'
            " attrs=ALL",
            f'{stamp} conn=Internal(0) op=0(1)(0) MOD dn="cn=config"',
            f"{stamp} conn=Internal(0) op=0(1)(0) RESULT err=0 tag=48 nentries=0",
            f"{stamp} conn=3 op=-1 fd=64 closed - B1",
        ],
    )
    [session] = log.sessions
    assert [(one.kind, one.method) for one in session.operations] == [
        ("bind", "GSSAPI")
    ]
    assert log.unusable["operations of the server's own"] == 2


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("127.0.0.1 - - [21/Nov/2026:12:54:06 +0000] GET /\n")
    with pytest.raises(ConfigError, match="expected a log of OpenLDAP"):
        read_logs([path])
    with pytest.raises(ConfigError, match="cannot be read"):
        read_logs([tmp_path / "none"])


@pytest.mark.parametrize("path", [SLAPD, DS389], ids=["slapd", "389-ds"])
def test_damaged_logs_still_make_jobs_that_load(tmp_path: Path, path: Path) -> None:
    content = path.read_bytes()
    drawn = random.Random(7)
    awkward = b'"\\*()=&|!,+ \n\r[]{}:#%\xff\x00\xc3\xa9'
    for _ in range(40):
        damaged = bytearray(content)
        for _ in range(drawn.choice((1, 5, 50))):
            at = drawn.randrange(len(damaged))
            damaged[at : at + drawn.randrange(4)] = bytes(
                drawn.choices(awkward, k=drawn.randrange(4))
            )
        file = tmp_path / "log"
        file.write_bytes(damaged)
        made = statistical_load(read_logs([file]), "damaged", credentials="x")
        tree = {
            "name": "damaged",
            "targets": {"directory": "ldap://ds1.example.com"},
            "run": {"duration": "10s"},
            "streams": made.streams,
        }
        text = "\n".join(tree_lines(tree))
        load_job_text(text, file="made", base=None, files=made.files)


def test_a_line_whose_time_is_damaged_does_not_stretch_the_log(tmp_path: Path) -> None:
    lines = lines_of(SLAPD)
    lines[40] = lines[40].replace("6b0193e0", "fb0193e0")
    lines[60] = lines[60].replace("6b0193e0", "0b0193e0")
    log = read_lines(tmp_path, lines)
    assert log.unusable["lines whose time cannot be right"] == 2
    assert log.duration_ns == 83_792_493
