# SPDX-License-Identifier: Apache-2.0
"""Monitors of real servers: they count what a client did, and notice a restart."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ldap
import numpy as np
import pytest

from ldapslam.agent.monitoring import reading
from ldapslam.agent.monitoring.reading import Monitor
from ldapslam.base.errors import BindRejected, TargetError
from ldapslam.lab import Choices
from ldapslam.reports.collect.telemetry import restarted_at
from ldapslam.results.records import STARTED
from support.lab import LOGGED, Lab
from support.monitored import monitors, opened, sampled, target
from support.waiting import wait_until

_SEARCHES, _COMPARES, _FAILED_BINDS = 50, 7, 3
_LIMIT_S = 30.0


def client(uri: str, lab: Lab) -> Any:
    connection = ldap.initialize(uri)
    connection.set_option(ldap.OPT_NETWORK_TIMEOUT, 5)
    connection.simple_bind_s(lab.admin_dn, lab.admin_password_file.read_text())
    return connection


def work(uri: str, lab: Lab) -> None:
    """Known numbers of operations, all answered."""
    connection = client(uri, lab)
    person = f"uid=user.1,{lab.people_dn}"
    for _ in range(_SEARCHES):
        assert connection.search_s(person, ldap.SCOPE_BASE)
    for _ in range(_COMPARES):
        assert connection.compare_s(person, "uid", b"user.1")
    for _ in range(_FAILED_BINDS):
        with pytest.raises(ldap.INVALID_CREDENTIALS):
            connection.simple_bind_s(person, "wrong")
    connection.unbind_s()


def ended(monitor: Monitor) -> dict[str, float]:
    """Counts of a log that has all of `work`.

    A server writes the line of a result after it has sent it: another thread
    may write the unbind that follows before.
    """
    refused = "results[invalidCredentials]"

    def is_complete() -> bool:
        found = sampled(monitor)
        return found["unbind"] >= 1 and found.get(refused, 0) >= _FAILED_BINDS

    wait_until(is_complete, "the unbind and the last result in the log")
    return sampled(monitor)


def directory(uri: str, lab: Lab, control: Counter[str]) -> Monitor:
    access = target(lab.admin_dn, lab.admin_password_file, control)
    (monitor,) = monitors(uri, "[{directory: server}]", access)
    return monitor


def missing(found: dict[str, float]) -> set[str]:
    return {
        name.partition("[")[0] for name, value in found.items() if math.isnan(value)
    }


# slapd.


def test_slapd_counts_what_a_client_did(lab: Lab) -> None:
    uri, control = lab.supplier.uri, Counter[str]()
    with opened(directory(uri, lab, control)) as monitor:
        before, asked = sampled(monitor), control.copy()
        work(uri, lab)
        after = sampled(monitor)
        own = control - asked
    rises = {name: after[name] - before[name] for name in after}
    assert rises["compare_initiated"] == _COMPARES
    assert rises["bind_initiated"] == 1 + _FAILED_BINDS
    # of a reading's own searches, those behind the operations' are in the next one's
    assert rises["search_initiated"] == _SEARCHES + own["search"]
    of_kinds = (
        rise
        for name, rise in rises.items()
        if name.endswith("_initiated") and name != "operations_initiated"
    )
    assert rises["operations_initiated"] == sum(of_kinds)
    assert rises["operations_initiated"] >= _SEARCHES + _COMPARES + 1 + _FAILED_BINDS
    assert rises["connects"] == 1
    assert rises["bytes_sent"] > 0
    assert after["entries_sent"] - before["entries_sent"] >= _SEARCHES


def test_slapd_says_of_itself_what_its_version_knows(lab: Lab, tmp_path: Path) -> None:
    """To a monitor with a bind of its own."""
    password = tmp_path / "password"
    password.write_text("wrong")
    control = Counter[str]()
    access = target("cn=nobody", password, control)
    (refused,) = monitors(lab.supplier.uri, "[{directory: server}]", access)
    with pytest.raises(BindRejected):
        refused.open()
    wanted = (
        f"[{{directory: server, bind: {{dn: '{lab.admin_dn}', "
        f"password: {{file: {lab.admin_password_file}}}}}}}]"
    )
    (monitor,) = monitors(lab.supplier.uri, wanted, access)
    with opened(monitor):
        found = sampled(monitor)
    # in slapd 2.5 back-mdb is built without it
    assert missing(found) <= {"not_indexed"}
    assert found["threads_max"] == 16
    assert found["threads_active"] >= 1
    pages = found["mdb_pages_used[dc=example,dc=com]"]
    assert 0 < pages < found["mdb_pages_max[dc=example,dc=com]"]
    assert abs(found[STARTED] - time.time()) < 24 * 3600


def test_replica_says_that_it_follows(lab: Lab) -> None:
    (replica,) = lab.replicas
    connection = client(lab.supplier.uri, lab)
    change = [(ldap.MOD_REPLACE, "description", [b"monitored"])]
    connection.modify_s(f"uid=user.2,{lab.people_dn}", change)
    connection.unbind_s()
    lab.wait_in_sync(timeout_s=10)
    with opened(directory(replica.uri, lab, Counter())) as monitor:
        found = sampled(monitor)
    (provider,) = [name for name in found if name.startswith("syncrepl_connected")]
    assert lab.supplier.uri in provider
    assert found[provider] == 1
    assert found[provider.replace("connected", "persist")] == 1
    assert -1 < found["newest_change_age[dc=example,dc=com]"] < _LIMIT_S


def test_numbers_of_an_entry_are_read(lab: Lab) -> None:
    access = target(lab.admin_dn, lab.admin_password_file)
    wanted = (
        "[{entry: 'cn=Bytes,cn=Statistics,cn=Monitor', target: server, "
        "counters: [monitorCounter], attributes: [noSuchThing]}]"
    )
    (monitor,) = monitors(lab.supplier.uri, wanted, access)
    with opened(monitor):
        first, second = sampled(monitor), sampled(monitor)
    assert second["monitorCounter"] > first["monitorCounter"]
    assert math.isnan(second["noSuchThing"])


@pytest.fixture(scope="module")
def own_lab(slapd_installed: None) -> Iterator[Lab]:
    """One slapd, to be restarted; its log has every operation."""
    with Lab(entries=100, choices=LOGGED) as lab:
        yield lab


def test_restart_of_slapd_is_noticed_by_its_monitors(own_lab: Lab) -> None:
    server = own_lab.supplier
    first_pid = server.pid
    access = target(own_lab.admin_dn, own_lab.admin_password_file)
    # of all slapds on this host, the one that serves
    of_server, of_host, of_process = monitors(
        server.uri, "[{directory: server}, {host: server, processes: [slapd]}]", access
    )
    assert of_host.name.startswith("host ")
    assert f"({first_pid})" in of_process.name
    with opened(of_server), opened(of_process):
        rows = {one.name: [one.sample()] for one in (of_server, of_process)}
        # slapd says when it began in whole seconds
        began_s = sampled(of_server)[STARTED]
        wait_until(lambda: time.time() > began_s + 1, "the next second")
        own_lab.stop(server)
        for one in (of_server, of_process):
            with pytest.raises(TargetError):
                one.sample()
        own_lab.start(server)
        for one in (of_server, of_process):
            rows[one.name].append(one.sample())
            found = restarted_at(one.metrics, np.array(rows[one.name]))
            assert found == [1], one.name


def test_log_of_slapd_has_the_same_counts(own_lab: Lab) -> None:
    check_log(own_lab, "slapd.log", "openldap")


def _never(connection: Any) -> bool:
    return False


def test_what_an_idle_time_out_keeps_from_slapd_is_not_in_the_tally(
    slapd_installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    choices = Choices(options=[("loglevel", "stats"), ("idletimeout", "1")])
    with Lab(entries=1, choices=choices) as lab:
        server, control = lab.supplier, Counter[str]()
        log = server.folder / "slapd.log"

        def wait_for_time_outs(number: int) -> None:
            wait_until(
                lambda: log.read_text().count("(idletimeout)") >= number,
                "the idle time-out",
            )

        with opened(directory(server.uri, lab, Counter())) as other:
            before = sampled(other)
        with opened(directory(server.uri, lab, control)) as monitor:
            asked = control.copy()
            sampled(monitor)
            searches = (control - asked)["search"]
            for number, has_hung_up in enumerate(
                (reading._has_hung_up, _never), start=1
            ):
                wait_for_time_outs(number)
                monkeypatch.setattr(reading, "_has_hung_up", has_hung_up)
                asked = control.copy()
                # a new connection, within the same sample
                assert sampled(monitor)["connections"] >= 1
                assert control - asked == {"bind": 1, "search": searches}
            monkeypatch.undo()
            wait_for_time_outs(3)
        assert control["unbind"] == 0
        own: Counter[str] = Counter()
        with opened(directory(server.uri, lab, own)) as other:
            after = sampled(other)
            asked = own.copy()
        # the first one's last searches, and its unbind, came after its counts
        binds = after["bind_initiated"] - before["bind_initiated"]
        assert binds == control["bind"] + asked["bind"]
        assert after["unbind_initiated"] - before["unbind_initiated"] == 1


# 389-DS.


def test_389_ds_counts_what_a_client_did(ds389: Lab) -> None:
    uri, control = ds389.supplier.uri, Counter[str]()
    with opened(directory(uri, ds389, control)) as monitor:
        before, asked = sampled(monitor), control.copy()
        work(uri, ds389)
        connection = client(uri, ds389)
        connection.simple_bind_s("", "")
        after = sampled(monitor)
        own = control - asked
        connection.unbind_s()
    rises = {name: after[name] - before[name] for name in after}
    assert rises["compare_initiated"] == _COMPARES
    # an anonymous bind counts once
    assert rises["bind_initiated"] == 1 + _FAILED_BINDS + 2
    assert rises["search_initiated"] == _SEARCHES + own["search"]
    assert rises["connects"] == 2
    # of newer versions
    assert missing(after) <= {"work_queue", "threads_active"}
    assert after["entry_cache_tries[userRoot]"] >= after["entry_cache_hits[userRoot]"]
    assert after["connections"] >= 1
    assert "bdb_commits" in after or "mdb_write_commits" in after


def check_log(lab: Lab, name: str, log_format: str) -> None:
    """The log has the same counts as the server."""
    uri, log = lab.supplier.uri, lab.supplier.folder / name
    (monitor,) = monitors(uri, f"[{{log: {log}, format: {log_format}}}]")
    with opened(monitor):
        work(uri, lab)
        found = ended(monitor)
    assert found["search"] == _SEARCHES
    assert found["compare"] == _COMPARES
    assert found["bind"] == 1 + _FAILED_BINDS
    assert found["results[invalidCredentials]"] == _FAILED_BINDS


def test_log_of_389_ds_has_the_same_counts(ds389: Lab) -> None:
    check_log(ds389, "log/access", "389ds")


def test_389_ds_says_how_its_agreements_go(ds389_trio: Lab) -> None:
    supplier, replicas = ds389_trio.supplier, ds389_trio.replicas
    with opened(directory(supplier.uri, ds389_trio, Counter())) as monitor:
        before = sampled(monitor)
        connection = client(supplier.uri, ds389_trio)
        change = [(ldap.MOD_REPLACE, "description", [b"monitored"])]
        connection.modify_s(f"uid=user.3,{ds389_trio.people_dn}", change)
        connection.unbind_s()
        ds389_trio.wait_in_sync(timeout_s=30)
        # told of when the agreement's session ends
        agreements = [name for name in before if name.startswith("changes_sent")]
        assert len(agreements) == len(replicas)
        wait_until(
            lambda: all(sampled(monitor)[one] > before[one] for one in agreements),
            "the changes that were sent",
        )
        after = sampled(monitor)
    assert all(
        value == 0 for name, value in after.items() if name.startswith("update_status")
    )
    for replica in replicas:
        with opened(directory(replica.uri, ds389_trio, Counter())) as monitor:
            found = sampled(monitor)
        assert -2 < found["newest_change_age[dc=example,dc=com]"] < 2 * _LIMIT_S
