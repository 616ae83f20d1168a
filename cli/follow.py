# SPDX-License-Identifier: Apache-2.0
"""Follows a run to its end, and takes Ctrl-C as a request rather than an exception.

A thread receives the coordinator's updates. The main thread waits on a queue, which a
signal may interrupt at any point without harm; gRPC's own waiting is not so forgiving:
an exception out of a signal handler can leave its channel locked for good.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from types import FrameType

from ldapslam.cli.client import Client
from ldapslam.cli.progress import Progress
from ldapslam.jobs.errors import LdapSlamError
from ldapslam.proto import operator_pb2 as pb


class _Ended:
    """The stream of updates has come to its end."""


class _Interrupted:
    """Ctrl-C or SIGTERM."""


_Item = pb.RunUpdate | LdapSlamError | _Ended | _Interrupted


def follow(
    client: Client,
    run_id: str,
    progress: Progress,
    *,
    on_interrupt: Callable[[], None] | None = None,
) -> pb.RunStatus:
    """Show a run until it ends; its final status.

    The first Ctrl-C or SIGTERM calls `on_interrupt`, if there is one, and following
    goes on; a second one raises KeyboardInterrupt, as do all without it.
    """
    items: SimpleQueue[_Item] = SimpleQueue()
    threading.Thread(
        target=_receive, args=(client, run_id, items), name="updates", daemon=True
    ).start()
    with contextlib.ExitStack() as stack:
        if on_interrupt is not None:
            stack.enter_context(_first_signal_to(items))
        while True:
            match items.get():
                case _Ended():
                    return client.run(run_id)
                case LdapSlamError() as error:
                    raise error
                case _Interrupted():
                    assert on_interrupt is not None
                    on_interrupt()
                case update:
                    progress.show(update)


def _receive(client: Client, run_id: str, items: SimpleQueue[_Item]) -> None:
    try:
        for update in client.watch(run_id):
            items.put(update)
    except LdapSlamError as error:
        items.put(error)
    else:
        items.put(_Ended())


@contextlib.contextmanager
def _first_signal_to(items: SimpleQueue[_Item]) -> Iterator[None]:
    """Within, the first SIGINT or SIGTERM becomes an item of the queue."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    previous = {number: signal.getsignal(number) for number in numbers}

    def on_signal(_: int, __: FrameType | None) -> None:
        restore()
        items.put(_Interrupted())  # put() may be called from a signal handler

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    for number in numbers:
        # One that is ignored, as in a shell's background job, stays ignored.
        if previous[number] is not signal.SIG_IGN:
            signal.signal(number, on_signal)
    try:
        yield
    finally:
        restore()
