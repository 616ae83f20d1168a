# SPDX-License-Identifier: Apache-2.0
"""Processes by /proc: found by name, and known again; facts and figures of the host."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest

from ldapslam.agent.host import HostSampler, host_facts, shares_host, usable_cores
from ldapslam.agent.monitoring.host import (
    ProcessId,
    ProcessMonitor,
    command_line,
    identify,
    listening_at,
    processes_of,
    statistics_of,
)
from ldapslam.base.errors import TargetError

#: A name with a space and a bracket, as the kernel may have it.
_NAMED = "import ctypes; ctypes.CDLL(None).prctl(15, b'a) b (c', 0, 0, 0); "
_WAIT = "print('ready', flush=True); input()"


@pytest.fixture
def child() -> subprocess.Popen[str]:
    return start()


def start() -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _NAMED + _WAIT, "a-test-process"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.communicate("\n")


def test_own_process_is_read() -> None:
    own = identify(os.getpid())
    assert own is not None
    figures = statistics_of(own, psutil.boot_time())
    assert figures is not None
    assert 0 < time.time() - figures["started"] < 24 * 3600
    assert figures["threads"] >= 1
    assert figures["open_files"] >= 3
    assert figures["memory_virtual"] > figures["memory_resident"] > 1e6
    assert figures["memory_resident"] > figures["memory_shared"]
    assert figures["memory_data"] > figures["memory_stack"] > 0
    assert figures["cpu_user"] + figures["cpu_system"] == pytest.approx(
        time.process_time(), abs=0.1
    )


def test_process_is_found_by_its_names(child: subprocess.Popen[str]) -> None:
    try:
        for name in ("a) b (c", Path(sys.executable).name):
            assert child.pid in [one.pid for one in processes_of(name)], name
        assert "a-test-process" in command_line(child.pid)
    finally:
        end(child)


def test_ended_process_is_no_other_one(child: subprocess.Popen[str]) -> None:
    known = identify(child.pid)
    assert known is not None
    assert statistics_of(known, 0.0) is not None
    another = ProcessId(known.pid, known.start_ticks + 1)
    assert statistics_of(another, 0.0) is None
    end(child)
    assert statistics_of(known, 0.0) is None
    assert identify(child.pid) is None
    assert command_line(child.pid) == ()


def test_monitor_takes_the_process_that_was_started_instead(
    child: subprocess.Popen[str],
) -> None:
    monitor = ProcessMonitor("m", 0, "a) b (c", child.pid)
    assert monitor.open()["pid"] == child.pid
    (began, *_) = monitor.sample()
    end(child)
    with pytest.raises(TargetError, match=f"process {child.pid} of"):
        monitor.sample()
    successor = start()
    try:
        (later, *_) = monitor.sample()
    finally:
        end(successor)
    assert later > began


def test_facts_of_a_process_have_none_of_its_arguments(
    child: subprocess.Popen[str],
) -> None:
    facts = ProcessMonitor("m", 0, "a) b (c", child.pid).open()
    end(child)
    assert facts == {"pid": child.pid, "command": sys.executable}


def test_listening_process_is_found_by_its_uri(tmp_path: Path) -> None:
    path = tmp_path / "ldapi"
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as local,
    ):
        local.bind(str(path))
        local.listen()
        port = server.getsockname()[1]
        for uri in (
            f"ldap://127.0.0.1:{port}",
            f"ldaps://[::1]:{port}",
            f"ldapi://{quote(str(path), safe='')}",
        ):
            assert listening_at([uri]) == {os.getpid()}, uri


# Facts and figures of the host are there, in range, and JSON.


def test_facts_are_json_and_name_the_host() -> None:
    facts = json.loads(json.dumps(host_facts()))
    assert facts["cores_usable"] == usable_cores() >= 1
    assert facts["memory_bytes"] > 0
    assert facts["libldap"].startswith("OpenLDAP 2.")
    assert {"host_name", "cpu_model", "kernel", "clock_source", "python"} <= set(facts)


def test_figures_are_shares() -> None:
    sampler = HostSampler()
    sum(range(200_000))
    for figures in (sampler.sample(), sampler.sample()):
        for share in (figures.cpu_utilisation, figures.steal_share):
            assert 0 <= share <= 1


def test_hiccups_are_those_since_the_last_sample() -> None:
    told = iter([(900, 0), (60_000, 0), (7_000_000, 9_000_000)])
    sampler = HostSampler(lambda: next(told))
    first, second = sampler.sample(), sampler.sample()
    assert (first.hiccup_max_ns, first.stalled_ns) == (60_000, 0)
    assert (second.hiccup_max_ns, second.stalled_ns) == (7_000_000, 9_000_000)
    assert not HostSampler().sample().HasField("hiccup_max_ns")


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        (["127.0.0.1"], True),
        (["::1"], True),
        (["/run/slapd/ldapi"], True),
        (["192.0.2.7", "127.0.0.2"], True),
        (["192.0.2.7"], False),
        ([], False),
    ],
)
def test_loopback_and_sockets_are_this_host(
    addresses: list[str], expected: bool
) -> None:
    assert shares_host(addresses) is expected
