# SPDX-License-Identifier: Apache-2.0
"""The allow-list holds: what it does not name sees no connection, whatever a name means
later and wherever a server refers to."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

import ldap
import pytest

from ldapslam.agent.admission.addresses import Location
from ldapslam.agent.admission.limits import AgentLimits
from ldapslam.agent.admission.preflight import Probe, preflight
from ldapslam.agent.admission.target_rules import parse_rules
from ldapslam.base.errors import BindRejected, TargetUnreachable
from ldapslam.directory.access import connect
from ldapslam.jobs.connection_settings import BindSettings, ConnectionSettings
from support.fake_ldap import (
    SEARCH_REFERENCE,
    SEARCH_REQUEST,
    AfterSome,
    Behaviour,
    FakeLdap,
    Peer,
    Request,
    answer,
    ldap_result,
    message,
    reset,
    tlv,
)
from support.fleet import FleetOfProcesses
from support.intervals import stored_intervals

#: Of no host anywhere (RFC 2606): whoever looks it up finds nothing.
NAME = "ds.example.invalid"
REFERRAL = 10
_RESPONSE = {0x60: 0x61, SEARCH_REQUEST: 0x65}


@pytest.fixture
def elsewhere() -> Iterator[FakeLdap]:
    """Another directory on this host, which nothing may connect to."""
    with FakeLdap(answer) as server:
        yield server
        assert server.connections == 0


def referring_to(port: int, *, references: bool = True) -> Behaviour:
    """Answers everything with references and a referral to that port."""
    uri = f"ldap://127.0.0.1:{port}/dc=example,dc=com".encode()

    def refer(peer: Peer, request: Request) -> bool:
        parts = b""
        if references and request.tag == SEARCH_REQUEST:
            parts += message(request.message_id, SEARCH_REFERENCE, tlv(0x04, uri))
        referral = tlv(0xA3, tlv(0x04, uri))
        tag = _RESPONSE.get(request.tag, request.tag + 2)
        parts += message(request.message_id, tag, ldap_result(REFERRAL) + referral)
        return peer.send(parts)

    return refer


def access(**changes: Any) -> ConnectionSettings:
    return ConnectionSettings(
        bind=BindSettings("cn=admin", b"secret"),
        connect_timeout_ns=5_000_000_000,
        **changes,
    )


# -- python-ldap -----------------------------------------------------------------------


def test_python_ldap_goes_where_it_was_resolved_and_does_not_look_the_name_up() -> None:
    with FakeLdap(answer) as server:
        uri = f"ldap://{NAME}:{server.port}"
        locations = {uri: f"127.0.0.2/1 127.0.0.1/{server.port}"}
        connection = connect(uri, access(addresses=locations))
        assert connection.search_ext_s("dc=a", ldap.SCOPE_BASE, "(cn=*)") is not None
        connection.unbind_s()
        assert server.connections == 1
        with pytest.raises(TargetUnreachable, match=r"connect to 127\.0\.0\.1 port 1:"):
            connect(uri, access(addresses={uri: "127.0.0.1/1"}))


def test_libldap_makes_no_second_connection_when_the_first_is_lost() -> None:
    with FakeLdap(AfterSome(0, reset)) as server:
        locations = {server.uri: f"127.0.0.1/{server.port}"}
        connection = connect(server.uri, access(addresses=locations))
        for _ in range(3):
            with pytest.raises((ldap.SERVER_DOWN, ldap.CONNECT_ERROR)):
                connection.search_ext_s("dc=a", ldap.SCOPE_BASE, "(cn=*)")
        assert server.connections == 1


@pytest.mark.parametrize("is_pinned", [True, False], ids=["address", "name"])
def test_python_ldap_follows_neither_referrals_nor_references(
    elsewhere: FakeLdap, is_pinned: bool
) -> None:
    with FakeLdap(referring_to(elsewhere.port)) as server:
        where = f"127.0.0.1/{server.port}" if is_pinned else ""
        connection = connect(server.uri, access(addresses={server.uri: where}))
        with pytest.raises(ldap.REFERRAL):
            connection.search_ext_s("dc=a", ldap.SCOPE_SUBTREE, "(cn=*)")
        with pytest.raises(ldap.REFERRAL):
            connection.modify_s("dc=a", [(ldap.MOD_REPLACE, "cn", [b"x"])])
        connection.unbind_s()


def test_a_bind_that_is_referred_elsewhere_is_rejected(elsewhere: FakeLdap) -> None:
    refer = referring_to(elsewhere.port)
    with FakeLdap(answer, on_bind=refer) as server:
        with pytest.raises(BindRejected) as caught:
            connect(server.uri, access())
        assert caught.value.result_code == REFERRAL
        with pytest.raises(BindRejected):
            preflight(Probe(server.uri))


def test_the_questions_before_a_run_follow_no_referral(elsewhere: FakeLdap) -> None:
    with FakeLdap(referring_to(elsewhere.port)) as server:
        facts = preflight(Probe(server.uri))
    assert facts["control_operations"] == {"bind": 1, "search": 1, "unbind": 1}
    assert "naming_contexts" not in facts


def test_the_questions_before_a_run_go_to_the_address_that_was_checked() -> None:
    with FakeLdap(answer) as server:
        uri = f"ldap://{NAME}:{server.port}"
        location = Location(uri, ("127.0.0.1",), server.port, is_name_safe=False)
        assert preflight(Probe(uri), location)["addresses"] == ["127.0.0.1"]


# -- runs of a fleet -------------------------------------------------------------------

SEARCH = {"search": {"base": "dc=example,dc=com", "filter": "(uid=user.[0-9])"}}
ENGINE: dict[str, Any] = {"name": "engine", "operations": [SEARCH]}
PYTHON: dict[str, Any] = {
    "name": "python",
    "python": {
        "class": "support.python_jobs:Lookups",
        "operations": ["find", "miss"],
        "options": {"base": "dc=example,dc=com"},
    },
}
PROCESS: dict[str, Any] = {
    "name": "process",
    "type": "burst",
    "options": {"client": "process", "base": "dc=example,dc=com"},
}


def job(
    *uris: str, streams: Sequence[dict[str, Any]] = (ENGINE,), **fields: Any
) -> str:
    load = {"clients": 2, "think_time": "20ms"}
    return json.dumps(
        {
            "name": "limits",
            "targets": {"s": list(uris)},
            "run": {"duration": "1s", "interval": "200ms", "drain": "1s"},
            "streams": [{"target": "s", "load": load, **one} for one in streams],
            **fields,
        }
    )


def limits(*rules: str, **others: Any) -> str:
    allowed = {"classes": ("any",), "secrets": ("any",), **others}
    return AgentLimits(targets=parse_rules(rules), **allowed).to_json()


def test_a_load_follows_neither_referrals_nor_references(
    fleet: FleetOfProcesses, elsewhere: FakeLdap
) -> None:
    streams = [ENGINE, PYTHON]
    if shutil.which("ldapsearch") is not None:
        streams.append(PROCESS)
    with FakeLdap(referring_to(elsewhere.port)) as server:
        fleet.start_coordinator()
        fleet.start_agent("a", limits=limits(f"127.0.0.1:{server.port}"))
        fleet.wait_for_agents("a")
        run_id = fleet.submit(job(server.uri, streams=streams))
        fleet.wait_for(run_id, "finished")
    with fleet.opened_store() as store:
        codes = {
            (row.stream, code)
            for record in stored_intervals(store, run_id)
            for row in record.operations
            for code in row.result_codes
        }
    assert codes == {(one["name"], REFERRAL) for one in streams}


def test_a_target_that_is_not_allowed_is_not_connected_to(
    fleet: FleetOfProcesses, elsewhere: FakeLdap
) -> None:
    with FakeLdap(answer) as server:
        rule = f"127.0.0.1:{server.port}"
        fleet.start_coordinator()
        fleet.start_agent("a", limits=limits(rule))
        fleet.start_agent("without-rule", limits="")
        fleet.wait_for_agents("a", "without-rule")
        # refused as well where it is one of several
        for uris in ((elsewhere.uri,), (server.uri, elsewhere.uri)):
            run_id = fleet.submit(job(*uris, agents={"names": ["a"]}))
            failure = fleet.wait_for(run_id, "failed").failure
            assert failure.error_class == "TargetNotAllowed"
            assert f"it is at 127.0.0.1; allowed are {rule}" in failure.message
            assert "--allow-target" in failure.values_json
        assert server.connections == 0
        # without a rule an agent loads its own host alone
        own = {"names": ["without-rule"]}
        run_id = fleet.submit(job("ldap://192.0.2.1", agents=own))
        failure = fleet.wait_for(run_id, "failed").failure
        assert failure.error_class == "TargetNotAllowed"
        assert "allowed are loopback ldapi" in failure.message
        fleet.wait_for(fleet.submit(job(server.uri, agents=own)), "finished")
        assert server.connections > 0


BEYOND: dict[str, dict[str, Any]] = {
    "max-connections": {"max_connections": 1},
    "max-rate": {"max_rate_per_s": 10.0},
    "max-duration": {"max_duration_ns": 900_000_000},
}


def test_a_share_beyond_the_limits_is_refused_before_any_connection(
    fleet: FleetOfProcesses, elsewhere: FakeLdap
) -> None:
    fleet.start_coordinator()
    for setting, allowed in BEYOND.items():
        fleet.start_agent(setting, limits=limits(**allowed))
    # two runs at a time: an equal part for each
    fleet.start_agent("halved", limits=limits(max_connections=3), max_runs=2)
    fleet.wait_for_agents(*BEYOND, "halved")
    for agent in (*BEYOND, "halved"):
        run_id = fleet.submit(job(elsewhere.uri, agents={"names": [agent]}))
        failure = fleet.wait_for(run_id, "failed").failure
        assert failure.error_class == "AgentLimitExceeded"
        setting = agent if agent in BEYOND else "max-connections"
        assert f"raise `{setting}`" in json.loads(failure.values_json)["hint"]
