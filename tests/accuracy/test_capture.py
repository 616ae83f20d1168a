# SPDX-License-Identifier: Apache-2.0
"""Mean service times against the wire: a packet capture of the same run on loopback.

Sixteen clients search as fast as they are answered, as searchrate does, or an open loop
has sixteen requests in flight on a connection. The capture pairs each request with its
answer by connection and message id; it knows nothing of the engine.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from support.engine import (
    SERVICE_TIME,
    S,
    in_process,
    open_stream,
    search,
    stream,
    uniform,
)
from support.lab import Lab
from support.labs import LAB_ENTRIES
from support.network import refuse
from support.rivals import crowded

pytestmark = pytest.mark.accuracy

_CLIENTS = 16
_READY_S = 20.0


@pytest.fixture
def dumpcap() -> str:
    """The program, where it may be used."""
    program = shutil.which("dumpcap")
    if program is None or shutil.which("tshark") is None:
        refuse("dumpcap and tshark cannot be found: `apt-get install tshark`")
    if subprocess.run([program, "-D"], capture_output=True).returncode != 0:
        refuse("dumpcap may not capture here: needs root or CAP_NET_RAW")
    return program


@contextmanager
def capture(program: str, port: int, path: Path) -> Iterator[None]:
    """All packets of one port of the loopback interface, none missed."""
    argv = [program, "-q", "-i", "lo", "-B", "64", "-P"]
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
    """Of every request that has an answer: the time between the last byte of one and
    the last byte of the other.

    Told apart by message ids: packets of two CPUs may be captured out of their order.
    """
    argv = ["tshark", "-r", str(path), "-n", "-Y", "tcp.len > 0", "-T", "fields"]
    argv += ["-e", "frame.time_epoch", "-e", "tcp.srcport", "-e", "tcp.dstport"]
    argv += ["-e", "tcp.seq", "-e", "tcp.payload", "-d", f"tcp.port=={port},data"]
    fields = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    segments: dict[tuple[str, bool], dict[int, tuple[float, bytes]]] = {}
    for line in fields.splitlines():
        at, source, destination, sequence, payload = line.split("\t")
        is_request = destination == str(port)
        key = (source if is_request else destination), is_request
        segments.setdefault(key, {})[int(sequence)] = float(at), bytes.fromhex(payload)
    times = []
    for (client, is_request), sent in segments.items():
        if is_request:
            requests = dict(messages(sent))
            # the last is the result's, which may follow its entry's
            answers = dict(messages(segments.get((client, False), {})))
            times += [
                (answers[number] - requests[number]) * 1e6
                for number in requests.keys() & answers.keys()
            ]
    return times


def messages(segments: dict[int, tuple[float, bytes]]) -> Iterator[tuple[int, float]]:
    """Message id and time of the last byte of each LDAP message of one direction."""
    rest = b""
    for _, (at_s, payload) in sorted(segments.items()):
        rest += payload
        while len(rest) > 6:
            assert rest[0] == 0x30, rest
            long_form = rest[1] & 0x7F if rest[1] & 0x80 else 0
            start = 2 + long_form
            length = int.from_bytes(rest[2:start], "big") if long_form else rest[1]
            if len(rest) < start + length:
                break
            assert rest[start] == 0x02, rest
            id_end = start + 2 + rest[start + 1]
            yield int.from_bytes(rest[start + 2 : id_end], "big"), at_s
            rest = rest[start + length :]


@pytest.mark.parametrize("is_starved", [False, True], ids=["alone", "starved"])
@pytest.mark.parametrize("in_flight", [1, 16])
def test_mean_agrees_with_a_packet_capture(
    lab: Lab, dumpcap: str, tmp_path: Path, in_flight: int, is_starved: bool
) -> None:
    """To 1 %, or 30 us. Responses that a client takes in one read share the stamp of
    the last one: where that moves the mean, they are counted."""
    uri = lab.supplier.uri
    port = int(uri.rpartition(":")[2])
    path = tmp_path / "run.pcap"
    operations = [search(uniform(0, LAB_ENTRIES - 1))]
    load = (
        stream(uri, connections=_CLIENTS, operations=operations)
        if in_flight == 1
        else open_stream(
            uri,
            4000,
            arrivals="poisson",
            connections=2,
            in_flight=in_flight,
            operations=operations,
        )
    )
    with ExitStack() as stack:
        stack.enter_context(capture(dumpcap, port, path))
        pid, future = stack.enter_context(
            in_process(load, duration_ns=4 * S, interval_ns=S)
        )
        if is_starved:
            stack.enter_context(crowded([psutil.Process(pid)], 2))
        outcome = future.result()
    times = service_times_us(path, port)
    assert len(times) == outcome.count("completed") > 1_000
    histogram = outcome.histogram(SERVICE_TIME)
    ours, theirs = histogram.sum_ns / histogram.total / 1e3, sum(times) / len(times)
    shared = outcome.stream_count("shared_stamps")
    print(
        f"mean of {len(times)}: reported {ours:.2f} us, on the wire {theirs:.2f} us, "
        f"{shared} stamps shared"
    )
    if ours != pytest.approx(theirs, rel=0.01, abs=30):
        # no response has a stamp from before it came
        assert ours > theirs
        assert shared > 0.01 * len(times)
