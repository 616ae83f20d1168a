# SPDX-License-Identifier: Apache-2.0
"""A closed loop's mean against the wire: a packet capture of the same run on loopback.

As searchrate does, sixteen clients search as fast as they are answered. The capture
pairs each request with its answer by connection, from the last byte of one to the last
byte of the other; it knows nothing of the engine.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ldapslam.lab import Lab
from support.engine import SERVICE_TIME, S, in_process, search, stream, uniform
from support.slapd import LAB_ENTRIES

pytestmark = pytest.mark.accuracy

_CLIENTS = 16
_READY_S = 20.0


@pytest.fixture
def dumpcap() -> str:
    """The program, where it may be used."""
    program = shutil.which("dumpcap")
    reason = None
    if program is None or shutil.which("tshark") is None:
        reason = "dumpcap and tshark cannot be found: `apt-get install tshark`"
    elif subprocess.run([program, "-D"], capture_output=True).returncode != 0:
        reason = "dumpcap may not capture here: needs root or CAP_NET_RAW"
    if reason is None:
        assert program is not None
        return program
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def capture(program: str, port: int, path: Path) -> Iterator[None]:
    """All packets of one port of the loopback interface, none missed."""
    argv = [program, "-q", "-i", "lo", "-B", "64", "-s", "96", "-P"]
    argv += ["-f", f"tcp port {port} or udp port {port}", "-w", str(path)]
    log = path.with_suffix(".log")
    with log.open("w") as output, subprocess.Popen(argv, stderr=output) as process:
        try:
            deadline_s = time.monotonic() + _READY_S
            while "File:" not in log.read_text():
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline_s, log.read_text()
                time.sleep(0.01)
            yield
            push_out(port)
            wait_until_written(path)
        finally:
            process.terminate()
            process.wait(_READY_S)
    received = log.read_text().rpartition("received/dropped on interface")[2]
    assert "/0 " in received, f"packets were dropped: {log.read_text()}"


def push_out(port: int) -> None:
    """Packets are passed on in blocks of 256 KiB, and one that is not full may be kept
    for good: fill two more with datagrams that nobody listens for."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(8_000):
            sender.sendto(bytes(64), ("127.0.0.1", port))


def wait_until_written(path: Path) -> None:
    deadline_s = time.monotonic() + _READY_S
    size, since_s = -1, 0.0
    while time.monotonic() - since_s < 1.0:
        assert time.monotonic() < deadline_s, f"{path} grows on"
        if (now := path.stat().st_size) != size:
            size, since_s = now, time.monotonic()
        time.sleep(0.05)


def service_times_us(path: Path, port: int) -> list[float]:
    """Of every request that has an answer: the time between the two.

    Told apart by message ids: packets of two CPUs may be captured out of their order.
    """
    argv = ["tshark", "-r", str(path), "-n", "-Y", "tcp.len > 0", "-T", "fields"]
    argv += ["-e", "frame.time_epoch", "-e", "tcp.srcport", "-e", "tcp.dstport"]
    argv += ["-e", "tcp.payload", "-d", f"tcp.port=={port},data"]
    fields = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    sent: dict[tuple[str, int], float] = {}
    answered: dict[tuple[str, int], float] = {}
    for line in fields.splitlines():
        at, source, destination, payload = line.split("\t")
        number = message_id(bytes.fromhex(payload))
        if destination == str(port):
            sent[source, number] = float(at)
        else:  # the last is the result's, which may follow its entry's
            key = destination, number
            answered[key] = max(answered.get(key, 0.0), float(at))
    return [(answered[key] - sent[key]) * 1e6 for key in sent if key in answered]


def message_id(payload: bytes) -> int:
    """Of the first LDAP message in a segment."""
    long_form = payload[1] & 0x7F if payload[1] & 0x80 else 0
    at = 2 + long_form
    assert payload[0] == 0x30, payload
    assert payload[at] == 0x02, payload
    return int.from_bytes(payload[at + 2 : at + 2 + payload[at + 1]], "big")


def test_mean_of_a_closed_loop_agrees_with_a_packet_capture(
    lab: Lab, dumpcap: str, tmp_path: Path
) -> None:
    uri = lab.supplier.uri
    port = int(uri.rpartition(":")[2])
    path = tmp_path / "run.pcap"
    load = stream(
        uri, connections=_CLIENTS, operations=[search(uniform(0, LAB_ENTRIES - 1))]
    )
    with capture(dumpcap, port, path):
        with in_process(load, duration_ns=4 * S, interval_ns=S) as (_, future):
            outcome = future.result()
    times = service_times_us(path, port)
    assert len(times) == outcome.count("completed") > 5_000
    histogram = outcome.histogram(SERVICE_TIME)
    ours, theirs = histogram.sum_ns / histogram.total / 1e3, sum(times) / len(times)
    print(f"mean of {len(times)}: reported {ours:.2f} us, on the wire {theirs:.2f} us")
    assert ours == pytest.approx(theirs, rel=0.02)
