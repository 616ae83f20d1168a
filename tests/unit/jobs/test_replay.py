# SPDX-License-Identifier: Apache-2.0
"""From a log to load: shapes, rates, statistical jobs, requests, schedules, traces."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ldapslam.base.errors import ConfigError, JobErrors
from ldapslam.base.yaml_text import tree_lines
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.model import Job
from ldapslam.jobs.plan import agent_plan
from ldapslam.jobs.replay.log import NS_PER_S, Log, Operation, Session
from ldapslam.jobs.replay.options import KINDS, Trace
from ldapslam.jobs.replay.read import prepare, read_logs
from ldapslam.jobs.replay.statistical_job import (
    StatisticalLoad,
    dn_shape,
    filter_shape,
    statistical_load,
)
from ldapslam.jobs.replay.trace import (
    Identity,
    Pace,
    Requests,
    Skipped,
    schedule,
)
from ldapslam.jobs.sampling import sample_plans

MS = 1_000_000
S = NS_PER_S


def trace(**options: Any) -> Trace:
    return Trace.model_validate({"logs": ["x.log"], **options})


def log_of(*sessions: Session) -> Log:
    """A log from 0 to the last session's end."""
    ends = [s.end_ns or s.start_ns for s in sessions]
    times = [one.time_ns for s in sessions for one in s.operations]
    return Log(list(sessions), first_ns=0, last_ns=max([*ends, *times]))


def session(
    start_ns: int, operations: Sequence[Operation], end_ns: int | None = None
) -> Session:
    return Session(start_ns, end_ns, True, list(operations))


def search(time_ns: int, text: str = "(uid=a)", **fields: Any) -> Operation:
    settings: dict[str, Any] = {"dn": "dc=example", "filter": text, "result": 0}
    return Operation(time_ns, 1, "search", **{**settings, **fields})


# -- shapes


@pytest.mark.parametrize(
    ("text", "shape", "values"),
    [
        ("(uid=a)", "(uid=\0)", ["a"]),
        ("(objectClass=*)", "(objectClass=*)", []),
        ("(cn=*)", "(cn=*)", []),
        ("(cn=a*b*)", "(cn=\0*\0*)", ["a", "b"]),
        (
            "(&(objectClass=person)(|(uid=x)(mail=x@y)))",
            "(&(objectClass=person)(|(uid=\0)(mail=\0)))",
            ["x", "x@y"],
        ),
        ("(sn>=b)", "(sn>=\0)", ["b"]),
        ("(cn:caseExactMatch:=q)", "(cn:caseExactMatch:=\0)", ["q"]),
        (r"(cn=\28a\29)", "(cn=\0)", [r"\28a\29"]),
    ],
)
def test_a_filters_shape_has_its_values_as_holes(
    text: str, shape: str, values: list[str]
) -> None:
    assert filter_shape(text) == (shape, values)


def test_a_dns_shape_has_holes_for_its_values() -> None:
    assert dn_shape(r"cn=a\,b+sn=c,dc=x") == "cn=\0+sn=\0,dc=\0"


# -- statistical jobs


def load_of(*sessions: Session, credentials: str | None = None) -> StatisticalLoad:
    return statistical_load(log_of(*sessions), "logged", credentials)


def load(made: StatisticalLoad) -> Job:
    tree = {
        "name": "logged",
        "targets": {"directory": "ldap://ds1.example.com"},
        "run": {"duration": "10s"},
        "streams": made.streams,
    }
    text = "\n".join(tree_lines(tree))
    return load_job_text(text, file="made", base=None, files=made.files)


def poisson(rate_per_s: float, seconds: float, seed: int = 1) -> list[int]:
    drawn = random.Random(seed)
    times: list[int] = []
    now = drawn.expovariate(rate_per_s)
    while now < seconds:
        times.append(round(now * S))
        now += drawn.expovariate(rate_per_s)
    return times


def test_the_mix_of_a_log_becomes_weights_and_its_rate_a_rate() -> None:
    times = poisson(100, 20)
    drawn = random.Random(3)
    operations = [
        search(at, f"(uid=user.{drawn.randrange(100)})", attributes=("cn", "mail"))
        if number % 4
        else Operation(at, number, "modify", f"uid=user.{drawn.randrange(100)},dc=x")
        for number, at in enumerate(times)
    ]
    made = load_of(session(0, operations))
    [stream] = load(made).streams
    assert sorted(made.files) == ["logged-modify-dn.txt", "logged-search-value1.txt"]
    assert stream.load.kind == "open"
    assert stream.load.arrivals == "poisson"
    assert stream.load.rate is not None
    assert stream.load.rate.per_s == pytest.approx(len(times) / 20, rel=0.01)
    weights = {one.kind: one.weight for one in stream.operations}
    assert weights == {"search": len(times) * 3 // 4, "modify": -(-len(times) // 4)}
    body = {one.kind: one.body for one in stream.operations}
    search_filter = "(uid=[file:logged-search-value1.txt])"
    assert body["search"].model_dump()["filter"] == search_filter
    assert body["search"].model_dump()["attributes"] == ["cn", "mail"]
    assert body["modify"].model_dump()["dn"] == "[file:logged-modify-dn.txt]"


def test_a_rate_that_changes_becomes_a_file_of_stages() -> None:
    times = [*poisson(20, 10), *(10 * S + at for at in poisson(200, 10, 2))]
    operations = [search(at) for at in times]
    made = load_of(session(0, operations))
    [stream] = load(made).streams
    assert stream.load.kind == "open"
    segments = stream.load.segments()
    assert len(segments) >= 15
    assert segments[2].a * S == pytest.approx(20, rel=0.7)
    assert segments[15].a * S == pytest.approx(200, rel=0.3)


def test_a_log_of_one_moment_makes_a_job_that_loads() -> None:
    [stream] = load(load_of(session(0, [search(0)]))).streams
    assert stream.load.kind == "open"
    assert stream.load.rate is not None
    assert stream.load.rate.per_s == 1


def test_words_become_a_feed_that_keeps_how_often_each_came() -> None:
    words = ["smith"] * 30 + ["jones"] * 10 + [r"o\28x\29"] * 5
    operations = [search(n * MS, f"(sn={word})") for n, word in enumerate(words)]
    made = load_of(session(0, operations))
    [operation] = load(made).streams[0].operations
    search_filter = "(sn=[file:logged-search-value1.txt])"
    assert operation.body.model_dump()["filter"] == search_filter
    lines = made.files["logged-search-value1.txt"].decode().splitlines()
    assert (lines.count("smith"), lines.count("jones"), lines.count("o(x)")) == (
        *(30, 10, 5),
    )


def test_values_of_a_dn_that_go_together_become_a_feed_of_whole_dns() -> None:
    dns = [f"uid=u{n},ou={'abc'[n % 3]},dc=x" for n in range(30)]
    operations = [search(n * MS, dn=dn) for n, dn in enumerate(dns)]
    made = load_of(session(0, operations))
    assert made.files["logged-search-dn.txt"].decode().splitlines() == dns
    load(made)


def test_connections_that_end_make_connections_that_end() -> None:
    sessions = [
        session(
            n * 100 * MS,
            [search(n * 100 * MS + k) for k in range(5)],
            n * 100 * MS + 99,
        )
        for n in range(20)
    ]
    [stream] = load(load_of(*sessions)).streams
    assert stream.connection.reconnect_operations == 5
    assert stream.load.connections == 1


def test_binds_have_a_stream_of_their_own_and_need_credentials() -> None:
    operations = [
        *(search(n * MS) for n in range(30)),
        *(Operation(n * MS, 1, "bind", f"uid=u{n},dc=x", result=0) for n in range(10)),
    ]
    without = load_of(session(0, operations))
    assert without.left_out == {"bind: the log has no passwords (--credentials)": 10}
    assert len(load(without).streams) == 1
    made = load_of(session(0, operations), credentials="password")
    binds = load(made).streams[1]
    assert binds.name == "binds"
    assert binds.load.kind == "open"
    assert binds.in_flight == 1


def test_what_is_left_out_is_counted_by_its_reason() -> None:
    operations = [
        *(search(n * MS) for n in range(3)),
        Operation(4 * MS, 1, "add", "cn=a"),
        search(5 * MS, problem="the line is cut off"),
        Operation(6 * MS, 1, "extended", oid="1.2.3"),
    ]
    made = load_of(session(0, operations))
    assert made.left_out == {
        "add: the log does not have the entries": 1,
        "the line is cut off": 1,
        "extended operations 1.2.3": 1,
    }


def test_what_a_log_holds_cannot_write_the_job() -> None:
    evil = "x\nrun: {duration: 1s}\r\n# \u2028#"
    operations = [
        search(0),
        search(MS, f"(uid={evil})"),
        search(2 * MS, dn=f"cn={evil}"),
        search(3 * MS, "(uid=a: b #[c])", dn="cn=- {x}"),
        Operation(4 * MS, 1, "extended", oid=evil),
    ]
    made = load_of(session(0, operations))
    job = load(made)
    assert job.run.duration_ns == 10 * S
    [stream] = job.streams
    assert [one.name for one in stream.operations] == ["search-1", "search-2"]
    assert made.left_out["lines with control characters"] == 2


# -- requests


def requests(**options: Any) -> Requests:
    return Requests(trace(**options), 1, Identity("cn=me", b"secret"))


@pytest.mark.parametrize(
    ("operation", "options", "reason"),
    [
        (search(0, "(uid="), {}, "the filter is cut off"),
        (search(0, is_persistent=True), {}, "persistent searches"),
        (search(0, dn="cn=\ufffd"), {}, "not UTF-8"),
        (Operation(0, 1, "bind", "cn=a"), {}, "no passwords"),
        (
            Operation(0, 1, "bind", "cn=a", method="GSSAPI"),
            {"binds": {"password": "x"}},
            "GSSAPI binds",
        ),
        (Operation(0, 1, "modify", "cn=a"), {}, "no `modifies`"),
        (Operation(0, 1, "add", "cn=a"), {}, "no `adds`"),
        (Operation(0, 1, "delete", "cn=a"), {}, "`deletes: true`"),
        (Operation(0, 1, "modify_dn", "cn=a"), {"renames": True}, "the new name"),
        (Operation(0, 1, "modify_dn", "cn=a", new_rdn="cn=b"), {}, "`renames: true`"),
        (Operation(0, 1, "extended", oid="1.2"), {}, "extended operations"),
        (Operation(0, 1, "abandon"), {}, "abandons"),
    ],
)
def test_what_cannot_be_replayed_has_a_reason(
    operation: Operation, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(Skipped, match=reason):
        requests(**options).make(operation)


def test_a_search_is_the_one_of_the_log() -> None:
    body = requests().make(
        search(0, "(cn=[x])", scope="one", deref="always", attributes=("cn",))
    )
    assert body == bytes.fromhex(
        "63 2c 04 0a 64633d6578616d706c65 0a0101 0a0103 020100 020100 010100"
        " a3 09 0402 636e 0403 5b785d 3004 0402 636e".replace(" ", "")
    )


def test_binds_are_as_whom_the_job_says() -> None:
    bind = Operation(0, 1, "bind", "cn=a")
    population = requests(binds={"password": "pass"}).make(bind)
    assert population == b"\x60\x0f\x02\x01\x03\x04\x04cn=a\x80\x04" + b"pass"
    configured = requests(binds={"as_configured": True}).make(bind)
    assert b"cn=me" in configured
    assert configured.endswith(b"\x80\x06secret")
    anonymous = requests(binds={"as_configured": True}).make(Operation(0, 1, "bind"))
    assert anonymous == b"\x60\x07\x02\x01\x03\x04\x00\x80\x00"


def test_an_added_entry_has_the_attributes_of_its_name() -> None:
    adds = {"adds": {"entry": {"objectClass": ["top", "person"], "sn": "x", "CN": "y"}}}
    body = requests(**adds).make(Operation(0, 1, "add", r"cn=a\2C\62+sn=\,c,dc=x"))
    assert b"\x04\x02cn1\x05\x04\x03a,b" in body
    assert b"\x04\x02sn1\x04\x04\x02,c" in body
    assert b"objectclass1\x0d\x04\x03top\x04\x06person" in body


def test_the_same_seed_makes_the_same_requests() -> None:
    modify = Operation(0, 1, "modify", "cn=a")
    first, second = (requests(modifies={}) for _ in range(2))
    assert first.make(modify) == second.make(modify)
    assert first.make(modify) != second.make(search(0))


# -- schedules


def test_sessions_that_do_not_overlap_take_turns_on_a_connection() -> None:
    sessions = [
        session(n * S, [search(n * S + 10)], n * S + 500 * MS) for n in range(5)
    ]
    made = schedule(log_of(*sessions), Pace(0, 100 * S), requests())
    assert len(made.connections) == 1
    unbinds = [one for one in made.connections[0] if one.body == b"\x42\x00"]
    # set up again when the next session begins, and not at all after the last
    assert [one.connect_ns for one in unbinds] == [
        S,
        2 * S,
        3 * S,
        4 * S,
        (1 << 64) - 1,
    ]


def test_what_is_skipped_and_what_is_beyond_the_run_are_counted() -> None:
    operations = [search(n * S) for n in range(10)]
    pace = Pace(0, 5 * S, 1.0, skip_ns=2 * S)
    made = schedule(log_of(session(0, operations)), pace, requests())
    assert made.requests == {"search": 5}
    assert made.skipped == {
        ("search", "in the part that the job skips"): 2,
        ("search", "after the end of the run"): 3,
    }


def test_too_few_connections_are_told_with_the_number_needed() -> None:
    log = log_of(*(session(0, [search(0)], 10 * S) for _ in range(7)))
    with pytest.raises(
        ConfigError, match="needs 7 connections, and its trace has 6"
    ) as caught:
        prepare("log", trace(), log, Pace(0, 20 * S), connections=6, seed=1)
    assert caught.value.hint == "--set streams.log.load.trace.connections=7"


# -- in a job

JOB = """\
name: replayed
targets: {{directory: ldap://ds1.example.com}}
run: {{duration: 10s, warm_up: 2s}}
streams:
  - name: log
    target: directory
    load:
      trace:
        logs: [slapd.log]
        connections: 7
        speed: {speed}
        binds: {{password: secret}}
"""


def test_a_replay_is_planned_with_its_logs_and_its_speed() -> None:
    text = JOB.format(speed="2x")
    job = load_job_text(text, file="job", base=None)
    [stream] = agent_plan(job, 1, 3, 1).streams
    assert stream.model == "open"
    assert (stream.connections, stream.total_connections) == (2, 7)
    assert stream.replay is not None
    assert stream.replay.pace.speed == 2.0
    pace = stream.replay.pace
    assert (pace.start_ns, pace.end_ns) == (2 * S, 12 * S)
    assert [one.name for one in stream.operations] == list(KINDS)
    again = load_job_text(job.canonical_text(), file="job", base=None)
    assert again == job
    assert job.named_files() == ("slapd.log",)
    assert list(sample_plans(job, 10)) == []


LOG = Path(__file__).parent / "replay_logs/slapd-2.5.log"


def connections_of(speed: str) -> int:
    """Connections of a trace of the log that does not say how many."""
    text = JOB.format(speed=speed).replace("        connections: 7\n", "")
    job = load_job_text(text, file="job", base=None, files={"slapd.log": LOG})
    planned = agent_plan(job, 0, 1, 1).streams[0]
    assert planned.replay is not None
    schedule = prepare(
        planned.name,
        planned.replay.trace,
        read_logs([LOG]),
        planned.replay.pace,
        connections=planned.connections,
        seed=1,
        identity=Identity("", b""),
    )
    assert planned.connections == len(schedule.connections)
    return planned.connections


def test_a_trace_has_the_connections_that_its_log_needs_at_its_speed() -> None:
    needed = [connections_of(speed) for speed in ("0.5x", "1x", "100x")]
    assert needed == sorted(needed)
    assert needed[0] < needed[-1]


def test_a_log_that_cannot_be_read_is_a_fault_of_its_trace() -> None:
    text = JOB.format(speed="1x").replace("        connections: 7\n", "")
    with pytest.raises(JobErrors, match="expected a log of OpenLDAP"):
        load_job_text(text, file="job", base=None, files={"slapd.log": Path(__file__)})


def test_as_fast_as_possible_is_a_closed_loop() -> None:
    text = JOB.format(speed="max")
    job = load_job_text(text, file="job", base=None)
    assert agent_plan(job, 0, 1, 1).streams[0].model == "closed"


# Logs of real servers, in all forms that they are written in, and damaged ones.
# `slapd-2.5.log` was written by OpenLDAP 2.5.13 (-d stats), `389-ds-2.3.log` by 389
# Directory Server 2.3.1, both while ldap-utils asked for one of everything.


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
