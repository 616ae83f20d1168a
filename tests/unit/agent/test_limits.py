# SPDX-License-Identifier: Apache-2.0
"""An agent's limits: what a share of a run asks for, what its operator allows, and how
many threads an engine gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ldapslam.agent.admission import admit
from ldapslam.agent.admission.limits import (
    AgentLimits,
    Part,
    check_part,
    describe_limits,
    part_of,
)
from ldapslam.agent.admission.target_rules import parse_rules
from ldapslam.base.errors import AgentLimitExceeded
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.plan import agent_plan

S = 1_000_000_000

JOB = """\
name: limits
targets: {{s: "ldap://127.0.0.1:1389"}}
run: {{duration: 60s, ramp_up: 10s}}
agents: {{count: 1}}
streams:
  - name: one
    target: s
    load: {load}
    operations: {operations}
"""
SEARCH = '[{search: {base: "dc=example,dc=com"}}]'
# a session of three requests, with a pause before the last one
SESSION = (
    '[{sequence: [{search: {base: "dc=a"}, name: x}, {search: {base: "dc=b"}, name: y},'
    ' {think: 500ms}, {search: {base: "dc=c"}, name: z}]}]'
)


def share(
    load: str, operations: str = SEARCH, *, agents: int = 1, index: int = 0
) -> Part:
    text = JOB.format(load=load, operations=operations)
    job = load_job_text(text, file="job", base=None)
    return part_of(agent_plan(job, index, agents, seed=1))


@pytest.mark.parametrize(
    ("load", "operations", "agents", "rate"),
    [
        ("{rate: 600/s, connections: 4}", SEARCH, 1, 600),
        # 4 connections over 2 agents: half of the arrivals
        ("{rate: 600/s, connections: 4}", SEARCH, 2, 300),
        # 3 over 2: the first has two of three
        ("{rate: 600/s, connections: 3}", SEARCH, 2, 400),
        ("{rate: 100/s, connections: 4}", SESSION, 1, 300),
        (
            "{stages: [{rate: 10/s, for: 30s}, {ramp_to: 90/s, for: 30s}]}",
            SEARCH,
            1,
            90,
        ),
        # 5 clients, each at most one request in 10 ms
        ("{clients: 5, think_time: 10ms}", SEARCH, 1, 500),
        # 2 sessions of 3 requests, each at least 500 ms + 1 s long
        ("{clients: 2, think_time: 1s}", SESSION, 1, 4),
        ("{clients: 2}", SESSION, 1, 12),
    ],
)
def test_the_peak_of_what_is_due(
    load: str, operations: str, agents: int, rate: float
) -> None:
    assert share(load, operations, agents=agents).peak_rate_per_s == pytest.approx(rate)


#: Of two operations one has no pause.
HALF_PAUSED = f"{SEARCH[:-1]}, {SESSION[1:]}"


@pytest.mark.parametrize("operations", [SEARCH, HALF_PAUSED])
def test_nothing_bounds_a_closed_loop_without_a_pause(operations: str) -> None:
    found = share("{clients: 2}", operations)
    assert found.peak_rate_per_s is None
    assert found.unbounded == ("one",)


def test_an_import_is_no_load() -> None:
    text = JOB.format(load="", operations="").partition("streams:")[0]
    text += "streams: [{name: a, target: s, type: bulk_load, options: {server: slapd}}]"
    job = load_job_text(text, file="job", base=None)
    found = part_of(agent_plan(job, 0, 1, seed=1))
    assert (found.peak_rate_per_s, found.unbounded) == (0, ())


def test_a_share_counts_its_own_connections_and_the_plans_length() -> None:
    found = share("{clients: 5}", agents=2, index=1)
    assert found.connections == 2
    assert found.duration_ns == 70 * S


def refusal(limits: dict[str, Any], **of_share: Any) -> AgentLimitExceeded | None:
    asked: dict[str, Any] = {
        "connections": 10,
        "peak_rate_per_s": 100.0,
        "unbounded": (),
        "duration_ns": 60 * S,
    }
    try:
        check_part(Part(**{**asked, **of_share}), AgentLimits(**limits), "a1")
    except AgentLimitExceeded as error:
        return error
    return None


@pytest.mark.parametrize(
    ("limits", "setting"),
    [
        ({}, None),
        ({"max_connections": 10}, None),
        ({"max_connections": 9}, "max-connections"),
        # an equal part of 20 for each of two runs is 10; of 19, 9
        ({"max_connections": 20, "max_runs": 2}, None),
        ({"max_connections": 19, "max_runs": 2}, "max-connections"),
        ({"max_rate_per_s": 100.0}, None),
        ({"max_rate_per_s": 99.9}, "max-rate"),
        ({"max_rate_per_s": 199.0, "max_runs": 2}, "max-rate"),
        ({"max_duration_ns": 60 * S}, None),
        ({"max_duration_ns": 60 * S - 1}, "max-duration"),
    ],
)
def test_what_is_more_than_allowed_is_refused(
    limits: dict[str, Any], setting: str | None
) -> None:
    error = refusal(limits)
    assert (error.setting if error else None) == setting
    if error is not None:
        assert "'a1'" in str(error)
        assert str(setting) in str(error.hint)


def test_a_limited_rate_refuses_what_has_no_bound() -> None:
    error = refusal({"max_rate_per_s": 1e6}, peak_rate_per_s=None, unbounded=("one",))
    assert error is not None
    assert "one" in str(error)
    assert "think time" in str(error.hint)
    assert refusal({}, peak_rate_per_s=None, unbounded=("one",)) is None


def test_limits_survive_the_way_to_the_engines_process() -> None:
    limits = AgentLimits(
        targets=parse_rules(["10.0.0.0/8:389", "ds1.example.com"]),
        max_connections=5,
        max_rate_per_s=1.5,
        max_duration_ns=S,
        spool_quota_bytes=1 << 30,
        max_runs=3,
        logs=("/var/log/slapd.log",),
        imports=("/data",),
        secrets=("env:A",),
        classes=("my",),
        own_files=("/k",),
        max_orphan_ns=5 * S,
    )
    assert AgentLimits.from_json(limits.to_json()) == limits
    # a message without limits is one of the defaults, which are the strictest
    assert AgentLimits.from_json("") == AgentLimits()


def test_limits_are_described_whatever_an_agent_says_of_them() -> None:
    limits = AgentLimits(max_connections=500, max_rate_per_s=2000.0)
    assert describe_limits(limits.document()) == [
        "loopback ldapi",
        "500 connections",
        "2000/s",
    ]
    assert describe_limits({"targets": 5, "max_connections": "many", "x": 1}) == []


def test_a_log_is_read_only_where_it_is_allowed(tmp_path: Path) -> None:
    log, secret = tmp_path / "slapd.log", tmp_path / "shadow"
    for path in (log, secret):
        path.touch()
    limits = AgentLimits(logs=(str(log),))
    assert limits.allows_log(str(log))
    assert not limits.allows_log(str(secret))
    # a way around by a link is none
    link = tmp_path / "link"
    link.symlink_to(secret)
    assert not AgentLimits(logs=(str(link),)).allows_log(str(link))
    assert not AgentLimits().allows_log(str(log))
    assert AgentLimits(logs=("any",)).allows_log(str(secret))


def test_imports_use_what_is_allowed_and_what_is_below_it(tmp_path: Path) -> None:
    place, program = tmp_path / "place", tmp_path / "program"
    place.mkdir()
    program.touch()
    (place / "out").symlink_to(tmp_path)
    limits = AgentLimits(imports=(str(place), str(program)))
    assert limits.allows_import(str(place / "a" / "b"))
    assert not limits.allows_import(str(tmp_path / "placebo"))
    # where it leads counts
    assert not limits.allows_import(str(place / "out" / "x"))
    assert not limits.allows_import(str(place / ".." / "x"))
    # a program is allowed itself, not for where it lies
    assert limits.allows_program(str(program))
    assert not limits.allows_program(str(place / "program"))
    assert not AgentLimits().allows_import(str(place))
    assert AgentLimits(imports=("any",)).allows_program("/bin/sh")


@pytest.mark.parametrize(("wanted", "workers"), [(0, 3), (None, 3), (8, 8)])
def test_the_number_of_workers(
    monkeypatch: pytest.MonkeyPatch, wanted: int | None, workers: int
) -> None:
    """One CPU is left to others."""
    monkeypatch.setattr(admit, "usable_cores", lambda: 4)
    assert admit.workers_for(wanted) == workers
