# SPDX-License-Identifier: Apache-2.0
"""Situations of a run, each made for real, and what a careful engineer would call them:
the verdict, its exit code, and the cause that the reasons name.

`--repeats N` has each N times in a row.
"""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import ldap
import pytest

from ldapslam.agent._engine import Responder
from ldapslam.base.errors import ExitCode, LdapSlamError
from ldapslam.cli.outcome import show_outcome
from support.fake_ldap import (
    FakeLdap,
    Peer,
    Request,
    answer,
    answer_with,
    never,
    notice_of_disconnection,
    reference,
    result,
    send_and_stay,
)
from support.invocation import with_json
from support.lab import Lab
from support.scene import Scene

MS = 1_000_000
CODES = {"PASS": ExitCode.PASS, "FAIL": ExitCode.FAIL, "INVALID": ExitCode.INVALID}
#: No verdict: the run never began.
NEVER = "never"

OPEN = {"rate": "400/s", "arrivals": "poisson", "connections": 16}
CLOSED = {"clients": 4, "think_time": "5ms"}
UNPACED = {"clients": 4}
#: What 200 requests of 10 ms a second are all that it can carry.
NARROW = {"rate": "400/s", "connections": 2, "in_flight": 1}

BASE = {"search": {"base": "dc=example,dc=com", "scope": "base"}}
PEOPLE = {"search": {"base": "dc=example,dc=com", "filter": "(uid=user.[0-999])"}}
NOBODY = {"search": {"base": "dc=example,dc=com", "filter": "(uid=nobody.[0-9])"}}
COMPARE = {
    "compare": {"dn": "dc=example,dc=com", "attribute": "dc", "value": "example"}
}
MODIFY = {
    "modify": {
        "dn": "uid=user.[0-99],ou=people,dc=example,dc=com",
        "replace": {"description": "[0-999999]"},
    }
}
MODIFY_NOBODY = {
    "modify": {
        "dn": "uid=nobody.[0-9],ou=people,dc=example,dc=com",
        "replace": {"description": "x"},
    }
}
WRONG_BIND = {
    "bind": {"dn": "uid=user.[0-99],ou=people,dc=example,dc=com", "password": "wrong"}
}
ADD_AGAIN = {
    "add": {
        "dn": "uid=user.[0-99],ou=people,dc=example,dc=com",
        "entry": {
            "objectClass": ["inetOrgPerson"],
            "uid": "user.[0-99]",
            "cn": "x",
            "sn": "x",
        },
    }
}
FAST = "load.*.response_time.p99 < 100ms"
LENIENT = "load.*.response_time.p99 < 1s"

_EACH = itertools.count(1)


def close_when_idle(peer: Peer) -> bool:
    """As a balancer does, after 100 ms."""
    assert isinstance(peer.stream, socket.socket)
    peer.stream.settimeout(0.1)
    return True


def close_after_50(peer: Peer, request: Request) -> bool:
    return answer(peer, request) and peer.requests < 50


def leave_at_times(peer: Peer, request: Request) -> bool:
    """With a notice of disconnection, at 0.3 % of the requests."""
    if next(_EACH) % 333:
        return answer(peer, request)
    peer.send(notice_of_disconnection(52))
    return False


DIRECTORIES: Mapping[str, Callable[[], FakeLdap]] = {
    "busy": lambda: FakeLdap(answer_with(51)),
    "elsewhere": lambda: FakeLdap(send_and_stay(lambda r: reference(r) + result(r))),
    "wrong": lambda: FakeLdap(send_and_stay(lambda r: result(replace(r, tag=0x66)))),
    "mute": lambda: FakeLdap(never),
    "idle": lambda: FakeLdap(answer, on_connect=close_when_idle),
    "limited": lambda: FakeLdap(close_after_50),
    "leaving": lambda: FakeLdap(leave_at_times),
}

#: Long enough for what holds from the first request on.
SHORT = {"duration": "3s"}

#: Other work on the machine is not what most situations are about.
SHARED = {
    "disturbed_intervals": "50%",
    "loop_share": "100%",
    "send_lag_p99": "50ms",
}


def nothing(scene: Scene) -> None:
    """Let the run have its load."""


@dataclass(frozen=True)
class Situation:
    verdict: str
    #: In the reasons.
    says: str = ""
    #: `canned`, `slapd`, `slapd/anonymous`, `389ds`, `nobody`, or one of DIRECTORIES.
    target: str = "canned"
    #: In the notes.
    notes: str = ""
    load: Mapping[str, Any] = field(default_factory=lambda: OPEN)
    operations: Sequence[Mapping[str, Any]] = (PEOPLE,)
    #: Of the responder: weight and ms.
    delays: Sequence[tuple[int, float]] = ((1, 1),)
    thresholds: Sequence[str] = ()
    #: Begins a moment after the load.
    act: Callable[[Scene], None] = nothing
    #: Fields of the job, of its stream, of its run, of `validity`.
    job: Mapping[str, Any] = field(default_factory=dict)
    stream: Mapping[str, Any] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)
    validity: Mapping[str, Any] = field(default_factory=lambda: SHARED)
    #: Of the agents that take part.
    agents: str = "a"


def then(*acts: Callable[[Scene], None]) -> Callable[[Scene], None]:
    """One after the other."""

    def act(scene: Scene) -> None:
        for one in acts:
            one(scene)

    return act


def wait(for_s: float) -> Callable[[Scene], None]:
    return lambda _: time.sleep(for_s)


def load_directory(scene: Scene) -> None:
    """Somebody else searches, about as much as the run."""
    assert scene.server is not None
    connection: Any = ldap.initialize(scene.server.uri)
    end_s = time.monotonic() + 2.0
    while time.monotonic() < end_s:
        connection.search_s("dc=example,dc=com", ldap.SCOPE_BASE)
    connection.unbind_s()


MONITORED = {"monitors": [{"directory": "server", "every": "200ms"}]}

#: One of each cause, for `make test`.
QUICK = {
    "slow": Situation("FAIL", "≥ ", delays=[(1, 150)], thresholds=(FAST,), run=SHORT),
    "overloaded": Situation(
        "FAIL",
        "no connection was free: ",
        load={**NARROW, "max_backlog": 50},
        delays=[(1, 10)],
        run=SHORT,
    ),
    "dies, closed": Situation(
        "FAIL", "unavailable", load=CLOSED, act=lambda s: s.die()
    ),
    "generator stood still": Situation(
        "INVALID",
        "sent too late",
        thresholds=(FAST,),
        act=lambda s: s.stop_generator(0.5),
    ),
    "data that is not there": Situation(
        "FAIL", "searches found nothing", "slapd", operations=(NOBODY,), run=SHORT
    ),
    "hopeless, ended early": Situation(
        "FAIL",
        "was missed for",
        delays=[(1, 150)],
        thresholds=("load.search.response_time.p50 < 100ms for 2s, abort",),
        run={"duration": "10m"},
    ),
    "slapd, its host and its process are read": Situation(
        "PASS",
        target="slapd",
        job={
            "monitors": [
                {"directory": "server", "every": "200ms"},
                {"host": "server", "processes": ["slapd"], "every": "200ms"},
            ]
        },
        thresholds=(
            "host(server).cpu <= 100%",
            "process(server).cpu_per_operation < 20ms",
            "host(server).cpu_per_operation < 200ms",
            "process(server).memory_resident.max < 2GiB",
            "directory(server).threads_max > 1",
            "server.search.per_sent > 90%",
            "server.search.per_sent < 1.01",
        ),
        run=SHORT,
    ),
}

HEALTHY = {
    "healthy slapd": Situation(
        "PASS",
        target="slapd",
        operations=(BASE,),
        thresholds=(LENIENT, "load.*.errors <= 0%"),
    ),
    "healthy, open": Situation("PASS", thresholds=(LENIENT,)),
    "healthy, closed": Situation("PASS", load=CLOSED, thresholds=(LENIENT,)),
    "closed, unpaced": Situation("PASS", load={"clients": 4}, thresholds=(LENIENT,)),
    "uniform arrivals": Situation("PASS", load={**OPEN, "arrivals": "uniform"}),
    "few requests": Situation(
        "PASS",
        load={**OPEN, "rate": "20/s"},
        thresholds=("load.search.response_time.p90 < 1s",),
    ),
    "two agents": Situation("PASS", agents="ab", thresholds=(LENIENT,)),
    "phases": Situation(
        "PASS", run={"ramp_up": "1s", "warm_up": "500ms", "cool_down": "500ms"}
    ),
    "stages": Situation(
        "PASS",
        load={
            "connections": 16,
            "stages": [
                {"rate": "100/s", "for": "2s"},
                {"ramp_to": "400/s", "for": "2s"},
            ],
        },
    ),
    "a count": Situation("PASS", load=CLOSED, stream={"count": 500}),
    "connections replaced as planned": Situation(
        "PASS", load=CLOSED, stream={"connection": {"reconnect_every": 20}}
    ),
    "slapd, reads and writes": Situation(
        "PASS", target="slapd", operations=(PEOPLE, MODIFY, COMPARE)
    ),
    "slapd, ldapi": Situation("PASS", target="slapd/ldapi", thresholds=(LENIENT,)),
    "slapd, ldaps": Situation("PASS", target="slapd/ldaps", thresholds=(LENIENT,)),
    "slapd, counted": Situation("PASS", target="slapd", job=MONITORED),
    "389-DS": Situation("PASS", target="389ds", thresholds=(LENIENT,)),
    "389-DS, closed, reads and writes": Situation(
        "PASS", target="389ds", load=CLOSED, operations=(PEOPLE, MODIFY)
    ),
    "a rate that is reached": Situation(
        "PASS", target="slapd", thresholds=("load.search.throughput > 370/s",)
    ),
    "a tail that is short enough": Situation(
        "PASS", delays=[(499, 1), (1, 200)], thresholds=(FAST,)
    ),
    "failures that are expected": Situation(
        "PASS",
        target="slapd",
        operations=({**MODIFY_NOBODY, "expect": ["noSuchObject"]},),
    ),
    "nothing found, as the job says": Situation(
        "PASS",
        target="slapd",
        operations=(NOBODY,),
        thresholds=("load.search.empty <= 100%",),
    ),
    "errors, as the job allows": Situation(
        "PASS", target="busy", thresholds=("load.search.errors <= 100%",)
    ),
    "hangs in the warm-up": Situation(
        "PASS",
        run={"warm_up": "3s"},
        act=lambda s: s.hang(1.0),
        thresholds=(FAST,),
    ),
    "hangs in the cool-down": Situation(
        "PASS",
        run={"duration": "4s", "cool_down": "3s"},
        act=then(wait(4.0), lambda s: s.hang(1.0)),
        thresholds=(FAST,),
    ),
    "hangs for a moment": Situation(
        "PASS",
        act=lambda s: s.hang(0.3),
        thresholds=("load.search.response_time.p50 < 100ms",),
    ),
    "generator stood still, for no matter": Situation(
        "PASS",
        thresholds=("load.search.response_time.p50 < 100ms",),
        act=lambda s: s.stop_generator(0.1),
        validity={**SHARED, "send_lag_p99": "1s"},
    ),
    "coordinator killed and restarted": Situation(
        "PASS", act=lambda s: s.restart_coordinator(), thresholds=(LENIENT,)
    ),
    "agent cut off for a while": Situation("PASS", act=lambda s: s.cut("a", 2.0)),
    "seldom asked": Situation(
        "PASS", load={"rate": "0.5/s", "connections": 2}, run={"duration": "12s"}
    ),
    "closes idle connections": Situation(
        "PASS",
        target="idle",
        notes="closed by the server while idle",
        load={"clients": 4, "think_time": "150ms"},
        thresholds=("load.*.response_time.p90 < 1s",),
    ),
    "limits requests of a connection": Situation(
        "PASS",
        target="limited",
        notes="after 50 requests on average",
        load=CLOSED,
        thresholds=(LENIENT,),
    ),
    "leaves at times": Situation(
        "PASS",
        target="leaving",
        notes="after a notice of disconnection",
        load=CLOSED,
        thresholds=(LENIENT,),
    ),
    "connections between agent and coordinator reset": Situation(
        "PASS", act=lambda s: s.relays["a"].reset()
    ),
}

TARGETS_FAULT = {
    "hangs": Situation("FAIL", "unavailable", act=lambda s: s.hang(2.6)),
    "half of it fails": Situation(
        "FAIL",
        "noSuchObject",
        "slapd",
        operations=(BASE, MODIFY_NOBODY),
        thresholds=(FAST,),
    ),
    "slow, closed": Situation(
        "FAIL", "≥ 100ms", load=CLOSED, delays=[(1, 150)], thresholds=(FAST,)
    ),
    "slow, two agents": Situation(
        "FAIL", "≥ ", delays=[(1, 150)], thresholds=(FAST,), agents="ab"
    ),
    "a tail that is too long": Situation(
        "FAIL", "≥ ", delays=[(19, 1), (1, 200)], thresholds=(FAST,)
    ),
    "one operation of two fails": Situation(
        "FAIL", "load.modify", "slapd", operations=(PEOPLE, MODIFY_NOBODY)
    ),
    "one operation of two finds nothing": Situation(
        "FAIL",
        "searches found nothing",
        "slapd",
        operations=(
            {"name": "root", **BASE},
            {"name": "nobody", **NOBODY},
        ),
    ),
    "wrong passwords": Situation(
        "FAIL", "invalidCredentials", "slapd", operations=(WRONG_BIND,), load=CLOSED
    ),
    "no right to write": Situation(
        "FAIL", "strongerAuthRequired", "slapd/anonymous", operations=(MODIFY,)
    ),
    "entries that are there already": Situation(
        "FAIL", "entryAlreadyExists", "slapd", operations=(ADD_AGAIN,)
    ),
    "too many entries for the limit": Situation(
        "FAIL",
        "sizeLimitExceeded",
        "slapd",
        load=CLOSED,
        operations=(
            {
                "search": {
                    "base": "dc=example,dc=com",
                    "filter": "(objectClass=*)",
                    "size_limit": 2,
                }
            },
        ),
    ),
    "389-DS, no such object": Situation(
        "FAIL", "noSuchObject", "389ds", operations=(MODIFY_NOBODY,)
    ),
    "busy": Situation("FAIL", "busy", "busy"),
    "refers to other servers": Situation("FAIL", "references came", "elsewhere"),
    "responses of another type": Situation("FAIL", "an invalid response", "wrong"),
    "answers nothing": Situation("FAIL", "no connection was free", "mute"),
    "time-outs": Situation(
        "FAIL",
        "timed out",
        delays=[(9, 1), (1, 1000)],
        stream={"request_timeout": "100ms"},
    ),
    "overloaded, waits for seconds": Situation(
        "FAIL",
        "≥ ",
        load=NARROW,
        delays=[(1, 10)],
        thresholds=(FAST,),
        run={"drain": "10s"},
    ),
    "more than it carries, but served after the load": Situation(
        "FAIL",
        "no connection was free: ",
        load={**NARROW, "rate": "230/s"},
        delays=[(1, 10)],
        run={"drain": "10s"},
    ),
    "slower than asked for": Situation(
        "FAIL",
        "threshold failed: load.search.throughput",
        load=CLOSED,
        delays=[(1, 10)],
        thresholds=("load.search.throughput > 1000/s",),
    ),
    "hangs, closed": Situation(
        "FAIL", "unavailable", load=CLOSED, act=lambda s: s.hang(2.6)
    ),
    "hangs for too short a time to be an outage, but not for a p99": Situation(
        "FAIL", "≥ ", thresholds=(FAST,), act=lambda s: s.hang(0.5)
    ),
    "dies": Situation("FAIL", "unavailable", act=lambda s: s.die()),
    "slapd hangs": Situation("FAIL", "unavailable", "slapd", act=lambda s: s.hang(2.6)),
    "slapd hangs, closed": Situation(
        "FAIL", "unavailable", "slapd", load=CLOSED, act=lambda s: s.hang(2.6)
    ),
    "389-DS hangs": Situation(
        "FAIL", "unavailable", "389ds", act=lambda s: s.hang(2.6)
    ),
    "slapd restarts": Situation(
        "FAIL",
        "unavailable",
        "slapd",
        load=CLOSED,
        act=lambda s: s.restart_directory(0.5),
    ),
    "slapd restarts, and clients back off": Situation(
        "FAIL",
        "unavailable",
        "slapd",
        load={"clients": 8, "think_time": "5ms"},
        stream={"connection": {"reconnect_wait": "200ms"}},
        act=lambda s: s.restart_directory(4.0),
        run={"duration": "8s"},
    ),
    "slapd restarts, and is watched": Situation(
        "FAIL",
        "restarted",
        "slapd",
        job=MONITORED,
        act=lambda s: s.restart_directory(0.0),
    ),
    "two agents, one directory that dies": Situation(
        "FAIL", "unavailable", agents="ab", act=lambda s: s.die()
    ),
}

NOT_THE_TARGETS = {
    "too short a run": Situation(
        "INVALID",
        "a longer run",
        "slapd",
        thresholds=("load.search.response_time.p99.99 < 100ms",),
    ),
    "beyond the generator": Situation(
        "INVALID",
        "an agent was disturbed",
        load={"rate": "2000k/s", "connections": 64, "max_backlog": 1000},
        delays=(),
    ),
    "generator stood still, closed": Situation(
        "INVALID",
        "disturbed",
        load=UNPACED,
        act=lambda s: s.stop_generator(1.5),
        validity={},
    ),
    "one generator of two stood still": Situation(
        "INVALID",
        "sent too late",
        agents="ab",
        thresholds=(FAST,),
        act=lambda s: s.stop_generator(0.7, "b"),
    ),
    "generator shares its CPU with eight others": Situation(
        "INVALID",
        "disturbed",
        load=UNPACED,
        act=lambda s: s.crowd("a"),
        validity={},
    ),
    "generator throttled": Situation(
        "INVALID",
        "disturbed",
        load=UNPACED,
        delays=(),
        act=lambda s: s.throttle("a", 20),
        validity={},
    ),
    "engine killed": Situation("INVALID", "engine", act=lambda s: s.kill_engine("a")),
    "agent killed": Situation("INVALID", "agent", act=lambda s: s.kill_agent("a")),
    "one agent of two killed, the other goes on": Situation(
        "INVALID",
        "agent",
        agents="ab",
        act=lambda s: s.kill_agent("b"),
        job={"on_agent_loss": "continue"},
    ),
    "agent cut off for good": Situation(
        "INVALID",
        "missing",
        job={"coordinator_timeout": "1s"},
        act=lambda s: s.cut("a"),
    ),
    "cancelled": Situation("INVALID", "cancelled", act=lambda s: s.cancel()),
    "clock stepped": Situation(
        "INVALID",
        "clock",
        "slapd/ldapi",
        agents="c",
        act=then(wait(0.5), lambda s: s.step_clock()),
    ),
    "somebody else on the directory": Situation(
        "INVALID", "others", "slapd", job=MONITORED, act=load_directory
    ),
    "a rate that chance decides": Situation(
        "INVALID", "not certain", thresholds=("load.search.throughput >= 400/s",)
    ),
    "a tail that is as long as the limit": Situation(
        "INVALID", "not certain", delays=[(99, 1), (1, 200)], thresholds=(FAST,)
    ),
    "no request in the measure phase": Situation(
        "INVALID",
        "before the measure phase",
        load=CLOSED,
        stream={"count": 20},
        run={"warm_up": "2s"},
    ),
}

MIXTURES = {
    "slow, and the generator stood still": Situation(
        "FAIL",
        "≥ ",
        delays=[(1, 150)],
        thresholds=("load.search.response_time.p50 < 100ms",),
        act=lambda s: s.stop_generator(0.3),
    ),
    "slow, and the agent was killed": Situation(
        "INVALID",
        "agent",
        delays=[(1, 150)],
        thresholds=(FAST,),
        act=lambda s: s.kill_agent("a"),
    ),
    "fails, and the generator stood still": Situation(
        "FAIL",
        "noSuchObject",
        "slapd",
        operations=(MODIFY_NOBODY,),
        act=lambda s: s.stop_generator(0.5),
    ),
    "overloaded, and the agent cut off for a while": Situation(
        "FAIL",
        "no connection was free: ",
        load={**NARROW, "max_backlog": 50},
        delays=[(1, 10)],
        act=lambda s: s.cut("a", 1.0),
    ),
    "dies, and the coordinator too": Situation(
        "FAIL",
        "unavailable",
        act=then(lambda s: s.die(), lambda s: s.restart_coordinator()),
    ),
    "hangs, and the generator stands still right after": Situation(
        "FAIL",
        "unavailable",
        act=then(lambda s: s.hang(2.4), lambda s: s.stop_generator(0.3)),
    ),
}

ALL = {**QUICK, **HEALTHY, **TARGETS_FAULT, **NOT_THE_TARGETS, **MIXTURES}


def job_of(situation: Situation, uri: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": "situation",
        "targets": {"server": uri},
        "agents": {"names": list(situation.agents)},
        "run": {
            "duration": "5s",
            "interval": "500ms",
            "drain": "2s",
            **situation.run,
        },
        "seed": 1,
        "streams": [
            {
                "name": "load",
                "target": "server",
                "load": situation.load,
                "operations": list(situation.operations),
                **situation.stream,
            }
        ],
        "thresholds": list(situation.thresholds),
        "validity": dict(situation.validity),
        **fields,
        **situation.job,
    }


def set_up(
    scene: Scene, situation: Situation, request: pytest.FixtureRequest, stack: ExitStack
) -> dict[str, Any]:
    """The target; the job against it."""
    product, _, way = situation.target.partition("/")
    scene.server = None
    if product == "canned":
        delays = [(weight, int(ms * MS)) for weight, ms in situation.delays]
        scene.responder = Responder(delays=delays)
        scene.responder.start()
        return job_of(situation, scene.responder.uri)
    if product in DIRECTORIES:
        return job_of(situation, stack.enter_context(DIRECTORIES[product]()).uri)
    lab: Lab = request.getfixturevalue(
        {"slapd": "slapd_trio", "389ds": "ds389_trio"}[product]
    )
    scene.lab, scene.server = lab, lab.supplier
    uri = {
        "ldapi": lab.supplier.ldapi_uri,
        "ldaps": lab.supplier.ldaps_uri,
    }.get(way, lab.supplier.uri)
    fields: dict[str, Any] = {}
    if way == "ldaps":
        fields["tls"] = {"verify": False}
    if way != "anonymous":
        password = {"file": str(lab.admin_password_file)}
        fields["bind"] = {"dn": lab.admin_dn, "password": password}
    return job_of(situation, uri, **fields)


def mark_of(situation: Situation) -> pytest.MarkDecorator:
    """Where the generator is at fault, the rest of the host must not help or hinder."""
    is_own = situation.verdict == "INVALID"
    return pytest.mark.accuracy if is_own else pytest.mark.long


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else mark_of(situation))
        for name, situation in ALL.items()
    ],
)
def test_a_situation_gets_its_verdict(
    scene: Scene, name: str, request: pytest.FixtureRequest
) -> None:
    situation = ALL[name]
    for _ in range(request.config.getoption("--repeats")):
        with ExitStack() as stack:
            stack.callback(scene.mend)
            scene.run_job(set_up(scene, situation, request, stack))
            situation.act(scene)
            summary = scene.judged()
        assert summary.verdict == situation.verdict, summary.reasons
        assert situation.says in "; ".join(summary.reasons)
        assert situation.notes in "; ".join(summary.notes)
        with with_json():
            assert show_outcome(summary) == CODES[situation.verdict]


def test_a_run_without_a_directory_never_begins(scene: Scene) -> None:
    scene.run_job(job_of(Situation(NEVER), "ldap://127.0.0.1:1"))
    with pytest.raises(LdapSlamError) as caught:
        scene.judged()
    assert caught.value.exit_code is ExitCode.TARGET
