# SPDX-License-Identifier: Apache-2.0
"""The plan of a run, as its job gives it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ldapslam.base.errors import StoreRefused
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.planning import run_plan
from ldapslam.jobs.run_plan import (
    PlannedOperation,
    PlannedStream,
    RunPlan,
    plan_document,
    plan_of,
)

S = 1_000_000_000

JOB = """\
name: planned
targets:
  supplier: ldap://ds1.example.com
  replica: [ldap://ds2.example.com, ldap://ds3.example.com]
run: {duration: 10s, ramp_up: 1s, warm_up: 1s}
streams:
"""


def plan_of_job(text: str) -> RunPlan:
    return run_plan(load_job_text(text, file="job.yaml", base=None))


def planned(
    load: str = "{clients: 3}",
    operations: str = "[{search: {base: dc=com}}]",
    *more: str,
) -> PlannedStream:
    """The plan of one stream, read again as it is stored."""
    lines = ["- name: load", "  target: replica", f"  load: {load}"]
    lines += [f"  operations: {operations}", *(f"  {line}" for line in more)]
    plan = plan_of_job(JOB + "".join(f"  {line}\n" for line in lines))
    assert plan_of(json.loads(json.dumps(plan_document(plan)))) == plan
    (stream,) = plan.streams
    return stream


def test_a_closed_stream() -> None:
    search = "{base: dc=com, filter: (uid=a), size_limit: 20}"
    assert planned(
        "{clients: 3, think_time: 5ms}",
        f"[{{search: {search}, expect: [success, noSuchObject]}}]",
        "count: 1000",
        "start_after: 2s",
        "stop_after: 8s",
        "connection: {reconnect_every: 1}",
    ) == PlannedStream(
        name="load",
        target="replica",
        uris=("ldap://ds2.example.com", "ldap://ds3.example.com"),
        identity="anonymous",
        tls="no TLS",
        model="closed",
        clients=3,
        connections=3,
        think_time_ns=5_000_000,
        reconnect_operations=1,
        count=1000,
        start_ns=2 * S,
        end_ns=8 * S,
        operations=(
            PlannedOperation(
                name="search",
                kind="search",
                about="(uid=a) at and below dc=com",
                size_limit=20,
                expected_codes=(32,),
            ),
        ),
    )


def test_it_says_what_each_operation_is_about() -> None:
    dn = "uid=[0-9],dc=example,dc=com"
    operations = {
        "search: {base: '', scope: base, attributes: [cn, sn]}": "(objectClass=*) at "
        "the root DSE, attributes cn sn",
        "let: {n: '[0-4999%0000]'}, search: {base: dc=com, scope: one, filter: "
        "'(uid=[n])'}": "(uid=[n]) one level below dc=com, n = [0-4999%0000]",
        "add: {template: person.template, under: dc=com}": "entries of person.template "
        "under dc=com",
        f"modify: {{dn: '{dn}', replace: {{sn: a}}, add: {{l: b, cn: c}}}}": f"{dn}: "
        "replace sn, add l cn",
        "delete: {of: o2}": "entries of o2",
        f"bind: {{dn: '{dn}', password: a}}": dn,
        "bind: {anonymous: true}": "anonymous",
        "extended: {who_am_i: true}": "",
    }
    items = (f"{{name: o{n}, {text}}}" for n, text in enumerate(operations))
    stream = planned(operations=f"[{', '.join(items)}]")
    assert [one.about for one in stream.operations] == list(operations.values())


@pytest.mark.parametrize(
    ("given", "uri", "told"),
    [
        ("", "ldap://a", ("anonymous", "no TLS")),
        (
            "bind: {dn: cn=admin, password: {env: A}}, tls: {start_tls: true}",
            "ldap://a",
            ("cn=admin", "StartTLS"),
        ),
        (
            "bind: {sasl: {mechanism: EXTERNAL}}, tls: {verify: false}",
            "ldaps://a",
            ("SASL EXTERNAL", "TLS, certificates not checked"),
        ),
        ("", "ldapi://%2Fa", ("anonymous", "Unix socket")),
    ],
)
def test_it_says_as_whom_and_how_protected(
    given: str, uri: str, told: tuple[str, str]
) -> None:
    text = f"""
name: who
targets: {{a: "{uri}"}}
run: {{duration: 10s}}
streams:
  - {{name: one, target: a, load: {{clients: 1}},
     operations: [{{search: {{base: ""}}}}], {given}}}
"""
    (one,) = plan_of_job(text).streams
    assert (one.identity, one.tls) == told


def test_a_rate_is_that_of_the_measure_phase() -> None:
    steady = planned("{rate: 150/s, connections: 4}")
    assert (steady.rate_per_s, steady.peak_rate_per_s) == (150, 150)
    assert (steady.clients, steady.connections) == (None, 4)
    # 5 s at 100/s, then 5 s from 100/s to 300/s: 200/s
    staged = planned("{stages: [{rate: 100/s, for: 5s}, {ramp_to: 300/s, for: 5s}]}")
    assert (staged.rate_per_s, staged.peak_rate_per_s) == (150, 300)
    # of a ramp that the measure phase cuts, what it reaches: 100/s + 200/s * 5/8
    cut = planned("{stages: [{rate: 100/s, for: 5s}, {ramp_to: 300/s, for: 8s}]}")
    assert cut.peak_rate_per_s == 225


def due(load: str, start_s: int, end_s: int, *more: str) -> float | None:
    """Arrivals by the stored plan; ramp_up and warm_up take 1 s each, then 10 s."""
    stream = planned(load, "[{search: {base: dc=com}}]", *more)
    return stream.arrivals_due(start_s * S, end_s * S)


@pytest.mark.parametrize(
    ("load", "ramp_up", "measure"),
    [
        ("rate: 150/s", 75, 1500),
        ("rate: 150/s, arrivals: poisson, connections: 1", 75, 1500),
        ("stages: [{rate: 100/s, for: 5s}, {ramp_to: 300/s, for: 5s}]", 50, 1500),
        # the first ramp begins at zero, and the last rate holds
        ("stages: [{ramp_to: 300/s, for: 5s}]", 0, 750 + 1500),
        ("stages: [{rate: 100/s, for: 2s}, {rate: 0/s, for: 1s}]", 50, 200),
    ],
)
def test_planned_arrivals_are_those_of_the_rate(
    load: str, ramp_up: float, measure: float
) -> None:
    load = f"{{{load}}}"
    assert due(load, 0, 1) == pytest.approx(ramp_up)
    assert due(load, 2, 12) == pytest.approx(measure)
    parts = [due(load, second, second + 1) or 0 for second in range(12)]
    assert sum(parts) == pytest.approx(due(load, 0, 12))
    assert due(load, 12, 20) == 0


def test_planned_arrivals_end_with_their_stream() -> None:
    steady = "{rate: 100/s}"
    span = ("start_after: 3s", "stop_after: 8s")
    assert due(steady, 0, 12, *span) == pytest.approx(500)
    assert due(steady, 3, 4, *span) == pytest.approx(100)
    # 50 and 100 before the measure phase, then 250 of the count
    assert due(steady, 0, 12, "count: 400") == pytest.approx(400)
    assert due(steady, 2, 12, "count: 400") == pytest.approx(250)
    assert due(steady, 6, 12, "count: 400") == 0


def test_nothing_is_planned_where_no_rate_says_so() -> None:
    assert due("{clients: 3}", 2, 12) is None


def test_the_first_request_of_a_session_and_paged_searches_are_marked() -> None:
    steps = """[
      {bind: {dn: "uid=a,dc=com", password: secret}, repeat: 3},
      {search: {base: "dc=com", filter: "(uid=*)", page_size: 100}},
      {unbind: {}}]"""
    operations = planned(operations=f"[{{sequence: {steps}}}]").operations
    assert [one.kind for one in operations] == ["bind", "search", "unbind"]
    assert [one.is_first for one in operations] == [True, False, False]
    assert [one.per_session for one in operations] == [3, 1, 1]
    assert [one.is_paged for one in operations] == [False, True, False]


def test_requests_as_somebody_else_are_in_the_plan() -> None:
    operations = "[{bind: {dn: cn=a, password: x}}, {search: {base: ''}}]"
    mixed = planned(operations=operations)
    assert mixed.identity_change.startswith("'search' runs as the user whose 'bind'")


def test_servers_whose_directories_are_monitored_are_counted() -> None:
    stream = "  - {name: a, target: supplier, load: {clients: 1}, "
    text = JOB + stream + 'operations: [{search: {base: ""}}]}\n'
    monitors = "monitors: [{directory: replica}, {host: supplier}]\n"
    counted = plan_of_job(text + monitors).counted
    assert counted == ("ldap://ds2.example.com", "ldap://ds3.example.com")
    assert plan_of_job(text).counted == ()


@pytest.mark.parametrize(
    "change", [{"version": 2}, {"speed": 1}, {"streams": [{}]}, {"boundaries_ns": "1s"}]
)
def test_a_document_that_is_no_plan_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(StoreRefused, match=next(iter(change))):
        plan_of({**plan_document(RunPlan()), **change})
