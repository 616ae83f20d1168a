# SPDX-License-Identifier: Apache-2.0
"""Which monitors an agent has: of the servers, and of what is on its own host."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ldapslam.agent.monitoring.choose import monitors_for
from ldapslam.agent.monitoring.host import host_name
from ldapslam.agent.monitoring.reading import Monitor, TargetAccess
from ldapslam.base.errors import ConfigError, FleetError
from ldapslam.base.units import NS_PER_S
from ldapslam.jobs.connection_settings import (
    BindSettings,
    ConnectionSettings,
    TlsSettings,
)
from ldapslam.jobs.load import load_job_text

JOB = """\
name: monitored
targets:
  supplier: ldap://ds1
  replica: [ldap://ds2, ldap://ds3]
run: {{duration: 10s}}
streams:
  - name: readers
    target: replica
    load: {{clients: 1}}
    operations: [{{search: {{base: ""}}}}]
monitors: {monitors}
"""
ACCESS = ConnectionSettings(
    tls=TlsSettings(start_tls=True, ca_file="ca.pem"),
    bind=BindSettings("cn=job", b"secret"),
    connect_timeout_ns=NS_PER_S,
)


def chosen(
    wanted: str,
    *,
    local: tuple[str, ...] = (),
    has_directories: bool = True,
    may_read: Callable[[str], bool] = lambda path: True,
) -> list[Monitor]:
    job = load_job_text(JOB.format(monitors=wanted), file="job.yaml", base=None)
    return monitors_for(
        job,
        access=lambda uri: TargetAccess(ACCESS, lambda kind: None),
        is_local=lambda uri: uri in local,
        has_directories=has_directories,
        may_read=may_read,
    )


def names(monitors: list[Monitor]) -> list[str]:
    return [monitor.name for monitor in monitors]


def test_each_server_of_a_role_has_a_monitor() -> None:
    found = chosen("[{directory: replica}, {directory: supplier, every: 2s}]")
    assert names(found) == [
        "replica ldap://ds2",
        "replica ldap://ds3",
        "supplier ldap://ds1",
    ]
    # 0: the run's interval
    assert [monitor.every_ns for monitor in found] == [0, 0, 2 * NS_PER_S]


def test_only_one_agent_reads_the_servers() -> None:
    wanted = "[{directory: replica}, {entry: 'cn=a', target: supplier, counters: [b]}]"
    assert chosen(wanted, has_directories=False) == []
    assert names(chosen(wanted))[-1] == "cn=a of supplier ldap://ds1"


def test_host_is_read_by_an_agent_on_it_and_once() -> None:
    wanted = "[{host: supplier, every: 5s}, {host: replica, every: 1s}]"
    assert chosen(wanted) == []
    (found,) = chosen(wanted, local=("ldap://ds1", "ldap://ds3"))
    assert found.name == f"host {host_name()}"
    assert found.every_ns == NS_PER_S
    (found,) = chosen(wanted, local=("ldap://ds1",))
    assert found.every_ns == 5 * NS_PER_S


LOG = "log: /var/log/slapd.log, format: openldap"
LOG_NAME = f"log /var/log/slapd.log on {host_name()}"
ENTRY = "entry: 'cn=a', target: supplier"
VALUES = f"{{{ENTRY}, attributes: [b, c]}}"


@pytest.mark.parametrize(
    ("wanted", "local", "expected"),
    [
        # a program that does not run has a monitor too
        (
            "{host: supplier, processes: [no-such-program, no-such-program]}",
            "ldap://ds1",
            [f"host {host_name()}", f"no-such-program on {host_name()}"],
        ),
        # a log is read where its server is, or any server if it is of no role
        (f"{{{LOG}, target: supplier}}", "ldap://ds1", [LOG_NAME]),
        (f"{{{LOG}, target: supplier}}", "ldap://ds2", []),
        (f"{{{LOG}, target: supplier}}", "", []),
        (f"{{{LOG}}}", "ldap://ds3", [LOG_NAME]),
        # monitors of an entry differ in the names of their values
        (
            f"{VALUES}, {{{ENTRY}, counters: [b]}}, {VALUES}",
            "",
            [
                "cn=a (b, c) of supplier ldap://ds1",
                "cn=a (b/s) of supplier ldap://ds1",
            ],
        ),
    ],
)
def test_monitors_are_named_by_what_they_read(
    wanted: str, local: str, expected: list[str]
) -> None:
    assert names(chosen(f"[{wanted}]", local=(local,))) == expected


def test_log_that_the_agents_operator_does_not_allow_is_refused() -> None:
    wanted = "[{log: /etc/shadow, format: openldap}]"
    with pytest.raises(FleetError, match="/etc/shadow"):
        chosen(wanted, local=("ldap://ds1",), may_read=lambda path: False)


def test_same_monitor_twice_is_one() -> None:
    wanted = "[{directory: supplier, every: 1s}, {directory: supplier, every: 2s}]"
    (found,) = chosen(wanted)
    assert found.every_ns == NS_PER_S


def test_own_bind_takes_the_place_of_the_jobs(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("other\n")
    job = load_job_text(
        JOB.format(
            monitors="[{directory: supplier, bind: {dn: 'cn=monitor', "
            f"password: {{file: {password}}}}}}}]"
        ),
        file="job.yaml",
        base=None,
    )
    target = TargetAccess(ACCESS, lambda kind: None)
    access = target.bound_as(job.monitors[0].bind).access
    assert (access.bind.dn, access.bind.password) == ("cn=monitor", b"other")
    assert (access.tls.start_tls, access.tls.ca_file) == (True, "ca.pem")
    assert target.bound_as(None) is target


def test_password_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ConfigError):
        chosen(
            "[{directory: supplier, bind: {dn: 'cn=m', password: {file: /no/such}}}]"
        )
