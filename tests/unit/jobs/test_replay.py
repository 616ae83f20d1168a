# SPDX-License-Identifier: Apache-2.0
"""From a log to load: shapes, rates, statistical jobs, requests, schedules, traces."""

from __future__ import annotations

import random
from collections.abc import Sequence
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
            "SASL binds",
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
