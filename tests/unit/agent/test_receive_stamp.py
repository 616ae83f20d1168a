# SPDX-License-Identifier: Apache-2.0
"""When something was received, seen before somebody else reads it."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from ldapslam.agent.replication.watch import ReceiveStamp

MS = 1_000_000


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a TCP connection: one that sends, one that reads."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = socket.create_connection(listener.getsockname())
        reader, _ = listener.accept()
        with sender, reader:
            yield sender, reader


def _spin(duration_ns: int) -> None:
    end_ns = time.monotonic_ns() + duration_ns
    while time.monotonic_ns() < end_ns:
        pass


def _wait_until_stamped(
    sender: socket.socket, reader: socket.socket, stamp: ReceiveStamp
) -> None:
    """The kernel begins to stamp a moment after its first socket asks for it."""
    for _ in range(1_000):
        sender.sendall(b"x")
        after_ns = time.monotonic_ns()
        _spin(5 * MS)
        received_ns = stamp.wait(1)
        assert received_ns is not None
        assert len(reader.recv(1)) == 1
        if received_ns < after_ns + 4 * MS:
            return
    pytest.fail("the kernel does not stamp")


def test_the_stamp_is_of_the_arrival_not_of_the_look(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    sender, reader = ends
    stamp = ReceiveStamp(reader.fileno())
    assert stamp.wait(0) is None
    _wait_until_stamped(sender, reader, stamp)
    before_ns = time.monotonic_ns()
    sender.sendall(b"x" * 5_000)
    after_ns = time.monotonic_ns()
    _spin(50 * MS)  # the reader is late
    received_ns = stamp.wait(1)
    assert received_ns is not None
    # two readings of the wall clock may differ by what the clock is slewed meanwhile
    assert before_ns - MS <= received_ns <= after_ns + 20 * MS
    # nothing was taken out
    assert len(reader.recv(10_000)) == 5_000
    stamp.close()
    # the descriptor is still its owner's
    sender.sendall(b"y")
    assert reader.recv(1) == b"y"


def test_a_peer_that_is_gone_is_something_to_read(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    sender, reader = ends
    stamp = ReceiveStamp(reader.fileno())
    sender.close()
    assert stamp.wait(1) is not None
    stamp.close()
