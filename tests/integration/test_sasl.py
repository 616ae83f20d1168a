# SPDX-License-Identifier: Apache-2.0
"""SASL binds on a real slapd: as the set-up of connections, and as the load itself.

Whom a connection is bound as is shown by what it may do: only user.0 may compare
user.0's password. What was sent is compared with slapd's own counts.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import ldap
import pytest

from ldapslam.agent import _engine
from ldapslam.agent.engine.setup import add_streams
from ldapslam.base.errors import ExitCode
from ldapslam.directory.control_connection import ControlConnection
from ldapslam.jobs.connection_settings import BindSettings, ConnectionSettings
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.plan import agent_plan
from ldapslam.lab.people import PEOPLE_DN
from support.command_line import ldapslam
from support.engine import Result, collect, start
from support.lab import Lab
from support.sasl import PASSWORDS, SaslLab

COMPARE_TRUE, INVALID_CREDENTIALS = 6, 49
CLIENTS = 3

_JOB = """
name: sasl
targets: {{directory: "{uri}"}}
run: {{duration: 300ms, interval: 100ms}}
{settings}
streams:
  - name: load
    target: directory
    load: {{clients: {clients}, think_time: 5ms}}
    operations: [{operation}]
"""
_COMPARE = (
    f'{{compare: {{dn: "uid=user.0,{PEOPLE_DN}", attribute: userPassword,'
    f' value: "{PASSWORDS["user.0"].decode()}"}}}}'
)


def run_job(
    uri: str, settings: str = "", operation: str = _COMPARE, clients: int = CLIENTS
) -> Result:
    text = _JOB.format(uri=uri, settings=settings, operation=operation, clients=clients)
    plan = agent_plan(load_job_text(text, file="job", base=None), 0, 1, seed=1)
    engine: Any = _engine.Engine(plan, workers=1, realtime=False)
    add_streams(engine, plan)
    start(engine)
    return collect(engine)


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER_0_PASSWORD", PASSWORDS["user.0"].decode())


def sasl(mechanism: str, **more: str) -> str:
    parts = ", ".join(f"{key}: {value}" for key, value in more.items())
    return f"bind: {{sasl: {{mechanism: {mechanism}{', ' if parts else ''}{parts}}}}}"


def with_password(mechanism: str, **more: str) -> str:
    return sasl(mechanism, authcid="user.0", password="{env: USER_0_PASSWORD}", **more)


def assert_bound_as_user_0(outcome: Result) -> None:
    compares = outcome.count("succeeded")
    assert compares >= CLIENTS
    assert outcome.result_codes() == {COMPARE_TRUE: compares}


def quiet_counts(lab: Lab) -> dict[str, int]:
    """The supplier's counts once it has nothing of an earlier run to do."""
    server = lab.supplier
    current = "cn=Current,cn=Connections,cn=Monitor"
    for _ in range(1_000):
        [found] = lab.search(
            server, current, ldap.SCOPE_BASE, ["monitorCounter"]
        ).values()
        if int(found["monitorCounter"][0]) == 1:  # ours
            return lab.monitor_counts(server)
    pytest.fail("the server's connections do not end")


STEPS = [
    ("PLAIN", 1),
    # the client's first message, then its proof
    ("SCRAM-SHA-1", 2),
    ("SCRAM-SHA-256", 2),
    ("SCRAM-SHA-512", 2),
    # the server speaks first: an empty request asks for its challenge
    ("DIGEST-MD5", 2),
    ("CRAM-MD5", 2),
]


@pytest.mark.parametrize(("mechanism", "requests"), STEPS)
def test_clients_bind_with_a_password(
    sasl_lab: SaslLab, mechanism: str, requests: int
) -> None:
    server = sasl_lab.lab.supplier
    before = quiet_counts(sasl_lab.lab)
    outcome = run_job(server.uri, with_password(mechanism))
    after = sasl_lab.lab.monitor_counts(server)
    assert_bound_as_user_0(outcome)
    assert outcome.stream_count("binds") == requests * CLIENTS
    assert after["bind"] - before["bind"] == requests * CLIENTS
    assert after["compare"] - before["compare"] == outcome.count("completed")


@pytest.mark.parametrize(("mechanism", "requests"), STEPS)
def test_binds_of_several_steps_are_load(
    sasl_lab: SaslLab, mechanism: str, requests: int
) -> None:
    server = sasl_lab.lab.supplier
    before = quiet_counts(sasl_lab.lab)
    password = PASSWORDS["user.1"].decode()
    outcome = run_job(server.uri, operation=bind_as(mechanism, password))
    after = sasl_lab.lab.monitor_counts(server)
    binds = assert_all_bound(outcome, requests)
    assert after["bind"] - before["bind"] == requests * binds


# -- as the set-up ---------------------------------------------------------------------


def test_mechanism_runs_over_tls(sasl_lab: SaslLab) -> None:
    settings = (
        f"tls: {{ca_file: {sasl_lab.lab.ca_file}}}\n{with_password('SCRAM-SHA-256')}"
    )
    assert_bound_as_user_0(run_job(sasl_lab.lab.supplier.ldaps_uri, settings))


def test_external_is_the_user_of_the_unix_socket(sasl_lab: SaslLab) -> None:
    assert_bound_as_user_0(run_job(sasl_lab.lab.supplier.ldapi_uri, sasl("EXTERNAL")))


@pytest.mark.parametrize("start_tls", [False, True], ids=["ldaps", "start_tls"])
def test_external_is_the_subject_of_the_clients_certificate(
    sasl_lab: SaslLab, start_tls: bool
) -> None:
    server, client = sasl_lab.lab.supplier, sasl_lab.client
    settings = (
        f"tls: {{ca_file: {sasl_lab.lab.ca_file}, start_tls: {str(start_tls).lower()},"
        f" cert_file: {client.certificate_file}, key_file: {client.key_file}}}\n"
        + sasl("EXTERNAL")
    )
    outcome = run_job(server.uri if start_tls else server.ldaps_uri, settings)
    assert_bound_as_user_0(outcome)
    assert outcome.stream_count("extended") == (CLIENTS if start_tls else 0)


def test_gssapi_binds_with_a_ticket(gssapi_lab: Lab) -> None:
    # by its name: that is the one that the ticket is for
    uri = gssapi_lab.supplier.uri.replace("127.0.0.1", "localhost")
    outcome = run_job(uri, sasl("GSSAPI"))
    assert_bound_as_user_0(outcome)
    # the ticket, an empty answer to the server's, the choice of no security layer
    assert outcome.stream_count("binds") == 3 * CLIENTS


def test_wrong_password_is_refused_with_the_servers_words(
    sasl_lab: SaslLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USER_0_PASSWORD", "wrong")
    with pytest.raises(_engine.ConnectError) as caught:
        run_job(sasl_lab.lab.supplier.uri, with_password("SCRAM-SHA-256"))
    assert (caught.value.stage, caught.value.code) == ("bind", INVALID_CREDENTIALS)
    assert "authentication failure" in caught.value.detail


def test_check_binds_and_compares_as_the_load_will(
    sasl_lab: SaslLab, tmp_path: Path
) -> None:
    def check(authcid: str) -> tuple[int, Any]:
        settings = sasl(
            "SCRAM-SHA-256", authcid=authcid, password="{env: USER_0_PASSWORD}"
        )
        job = tmp_path / "job.yaml"
        job.write_text(
            _JOB.format(
                uri=sasl_lab.lab.supplier.uri,
                settings=settings,
                operation=_COMPARE,
                clients=1,
            )
        )
        ended = ldapslam("check", job, "--json")
        return ended.returncode, json.loads(ended.stdout)

    code, found = check("user.0")
    assert code == ExitCode.PASS
    assert any("SASL SCRAM-SHA-256 user.0" in line for line in found["plan"])
    (compare,) = found["samples"]
    assert compare["result_codes"] == {str(COMPARE_TRUE): compare["sent"]}
    # the password is not user.1's
    code, found = check("user.1")
    assert code == ExitCode.TARGET
    assert found["samples"] == []


@pytest.mark.parametrize("as_load", [False, True], ids=["set-up", "load"])
def test_mechanism_that_libsasl_lacks_is_named_with_those_it_has(
    sasl_lab: SaslLab, as_load: bool
) -> None:
    uri = sasl_lab.lab.supplier.uri
    run = (
        partial(run_job, uri, operation=bind_as("SCRAM-SHA-3", "secret"))
        if as_load
        else partial(run_job, uri, with_password("SCRAM-SHA-3"))
    )
    with pytest.raises(_engine.ConnectError) as caught:
        run()
    assert caught.value.stage == "bind"
    assert "no mechanism 'SCRAM-SHA-3' on this host; it has" in caught.value.detail


# -- as the load -----------------------------------------------------------------------


def bind_as(mechanism: str, password: str, authcid: str = "user.1") -> str:
    return (
        f'{{bind: {{sasl: {{mechanism: {mechanism}, authcid: "{authcid}",'
        f' password: "{password}"}}}}}}'
    )


def assert_all_bound(outcome: Result, requests: int = 1) -> int:
    binds: int = outcome.count("succeeded")
    assert binds >= CLIENTS
    assert outcome.result_codes() == {0: binds}
    assert outcome.count("requests") == requests * binds
    return binds


@pytest.mark.parametrize("place", ["uri", "ldapi_uri"])
def test_a_control_connection_ends_when_its_unbind_was_counted(
    sasl_lab: SaslLab, place: str
) -> None:
    server = sasl_lab.lab.supplier
    before = quiet_counts(sasl_lab.lab)
    bind = BindSettings(
        mechanism="DIGEST-MD5", authcid="user.0", password=PASSWORDS["user.0"]
    )
    access, control = ConnectionSettings(bind=bind), Counter[str]()
    ControlConnection.open(getattr(server, place), access, control).close()
    after = sasl_lab.lab.monitor_counts(server)
    assert control["unbind"] == after["unbind"] - before["unbind"] == 1


@pytest.mark.parametrize("mechanism", ["EXTERNAL", "ANONYMOUS"])
def test_binds_without_credentials_are_load(sasl_lab: SaslLab, mechanism: str) -> None:
    server = sasl_lab.lab.supplier
    before = quiet_counts(sasl_lab.lab)
    outcome = run_job(server.ldapi_uri, operation=f"{{{sasl(mechanism)}}}")
    after = sasl_lab.lab.monitor_counts(server)
    assert after["bind"] - before["bind"] == assert_all_bound(outcome)


def test_binds_with_a_ticket_are_load(gssapi_lab: Lab) -> None:
    uri = gssapi_lab.supplier.uri.replace("127.0.0.1", "localhost")
    outcome = run_job(uri, operation=f"{{{sasl('GSSAPI')}}}")
    assert_all_bound(outcome, requests=3)


def test_wrong_password_is_a_failed_bind_and_the_load_goes_on(
    sasl_lab: SaslLab,
) -> None:
    outcome = run_job(
        sasl_lab.lab.supplier.uri, operation=bind_as("SCRAM-SHA-1", "wrong")
    )
    failed = outcome.count("failed")
    assert failed >= CLIENTS
    assert outcome.count("succeeded") == 0
    codes: dict[int, Any] = outcome.result_codes()
    assert codes == {INVALID_CREDENTIALS: failed}
