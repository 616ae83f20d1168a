# SPDX-License-Identifier: Apache-2.0
"""The lab against real slapds: it answers, replicates, counts, and leaves no trace."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import ldap
import psutil
import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.lab import Choices, LabError
from ldapslam.lab.lab_folder import OPEN_FILES
from ldapslam.lab.people import PERSON_PASSWORD
from support.lab import FAST, Lab
from support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("slapd_installed")


def admin_password(lab: Lab) -> str:
    return lab.admin_password_file.read_text()


def connect(uri: str, ca_file: Path) -> Any:
    connection = ldap.initialize(uri)
    connection.set_option(ldap.OPT_X_TLS_CACERTFILE, str(ca_file))
    connection.set_option(ldap.OPT_X_TLS_REQUIRE_CERT, ldap.OPT_X_TLS_DEMAND)
    connection.set_option(ldap.OPT_X_TLS_NEWCTX, 0)
    connection.set_option(ldap.OPT_NETWORK_TIMEOUT, 5)
    return connection


def test_every_server_answers_over_every_transport_with_its_certificate_verified(
    lab: Lab,
) -> None:
    person = f"uid=user.999,{lab.people_dn}"
    for server in lab.servers:
        for uri in (server.uri, server.ldaps_uri, server.ldapi_uri, "StartTLS"):
            is_start_tls = uri == "StartTLS"
            connection = connect(server.uri if is_start_tls else uri, lab.ca_file)
            if is_start_tls:
                connection.start_tls_s()
            # each of the people can bind
            connection.simple_bind_s(person, PERSON_PASSWORD)
            assert connection.whoami_s() == f"dn:{person}", uri
            connection.unbind_s()


def test_monitor_counts_are_the_clients_operations_without_the_labs_own(
    lab: Lab,
) -> None:
    before = lab.monitor_counts(lab.supplier)
    connection = connect(lab.supplier.uri, lab.ca_file)
    for number in range(7):
        connection.search_s(
            lab.people_dn, ldap.SCOPE_SUBTREE, f"(uid=user.{number})", ["cn"]
        )
    lab.position(lab.supplier)
    after = lab.monitor_counts(lab.supplier)
    connection.unbind_s()

    assert after["search"] - before["search"] == 7
    # python-ldap's first operation on a fresh connection is the search itself
    assert after["bind"] - before["bind"] == 0


def test_a_replica_that_was_down_catches_up_when_it_comes_back() -> None:
    with Lab(replicas=1, entries=10, choices=FAST) as lab:
        [replica] = lab.replicas
        lab.stop(replica)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", replica.port))
        connection = connect(lab.supplier.uri, lab.ca_file)
        connection.simple_bind_s(lab.admin_dn, admin_password(lab))
        connection.delete_s(f"uid=user.3,{lab.people_dn}")
        connection.unbind_s()

        lab.start(replica)
        lab.wait_in_sync(timeout_s=20)

        limits = Path(f"/proc/{replica.pid}/limits").read_text()
        [open_files] = [
            x for x in limits.splitlines() if x.startswith("Max open files")
        ]
        assert open_files.split()[3] == str(OPEN_FILES)


def test_a_line_that_slapd_does_not_know_is_reported_with_slapds_words() -> None:
    lab = Lab(entries=1, global_lines=["no-such-directive on"])
    with pytest.raises(LabError, match="no-such-directive") as caught:
        lab.up()
    assert str(caught.value.hint).startswith(
        "this slapd does not take one of the --set"
    )


def test_a_lab_runs_on_cpus_that_there_are() -> None:
    with pytest.raises(ConfigError, match="the lab cannot run on CPU 9999"):
        Lab(choices=Choices(cpus=frozenset({0, 9999}))).up()


# -- no trace -----------------------------------------------------------------------

_LIVE_ON = "import time; time.sleep(600)"
_HOLDER = """
import os, subprocess, sys
from ldapslam.lab import Lab
with Lab(entries=10) as lab:
    print(lab.folder, lab.supplier.pid, flush=True)
    {body}
"""


@pytest.mark.parametrize(
    ("body", "number"),
    [
        ("raise ValueError", None),
        ("os._exit(3)", None),
        (_LIVE_ON, signal.SIGTERM),
        pytest.param(_LIVE_ON, signal.SIGINT, marks=pytest.mark.long),
        pytest.param(_LIVE_ON, signal.SIGHUP, marks=pytest.mark.long),
        (f"subprocess.Popen(['sleep', '20']); {_LIVE_ON}", signal.SIGKILL),
        (f"os.fork(); {_LIVE_ON}", signal.SIGKILL),
    ],
)
def test_nothing_is_left_when_the_process_of_a_lab_has_ended(
    body: str, number: signal.Signals | None
) -> None:
    """Also while a child of that process lives on."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLDER.format(body=body)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        with process.stdout as output:
            folder, *pids = output.readline().split()
        if number is not None:
            process.send_signal(number)
        process.wait()
        wait_until(lambda: not os.path.exists(folder), "the end of the folder", 10)
        wait_until(lambda: not any(map(psutil.pid_exists, map(int, pids))), "the end")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def test_a_stopped_server_does_not_delay_the_end_for_long() -> None:
    with Lab(entries=1) as lab:
        os.kill(lab.supplier.pid, signal.SIGSTOP)
        began_s = time.monotonic()
    assert time.monotonic() - began_s < 5
