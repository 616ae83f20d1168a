# SPDX-License-Identifier: Apache-2.0
"""Follows a run to its end, and takes Ctrl-C as a request rather than an exception.

A thread receives the coordinator's updates; the main thread waits on a queue, which
signals may interrupt. An exception of a signal handler can leave gRPC's channel locked.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from types import FrameType

from ldapslam.base.errors import CoordinatorUnreachable, LdapSlamError
from ldapslam.cli.client import Client
from ldapslam.cli.console import say
from ldapslam.cli.progress import Progress
from ldapslam.proto import operator_pb2 as pb

#: An update, an error to raise, text for people, what a signal asks for; None: the end.
_Item = pb.RunUpdate | LdapSlamError | str | Callable[[], None] | None

#: Between attempts to find a coordinator again.
_PAUSE_S = 1.0


def follow(
    client: Client,
    run_id: str,
    progress: Progress,
    *,
    on_interrupt: Callable[[], None] | None = None,
    patience_s: float = 0.0,
) -> pb.RunStatus:
    """Show a run until it ends; its final status. The coordinator may be away for
    `patience_s` (runs survive its restart), else CoordinatorUnreachable. The first
    Ctrl-C or SIGTERM calls `on_interrupt`, if there is one; all others raise
    KeyboardInterrupt."""
    items: SimpleQueue[_Item] = SimpleQueue()
    threading.Thread(
        target=_receive,
        args=(client, run_id, items, patience_s),
        name="updates",
        daemon=True,
    ).start()
    with contextlib.ExitStack() as stack:
        if on_interrupt is not None:
            stack.enter_context(_first_signal_to(items, on_interrupt))
        while True:
            match items.get():
                case None:
                    return client.run(run_id)
                case LdapSlamError() as error:
                    raise error
                case str() as text:
                    say(text)
                case pb.RunUpdate() as update:
                    progress.show(update)
                case act:
                    act()


def follow_or_cancel(
    client: Client, run_id: str, progress: Progress
) -> tuple[pb.RunStatus, bool]:
    """As `follow`; the first signal cancels the run. Whether there was one, too."""
    is_interrupted = False

    def cancel() -> None:
        nonlocal is_interrupted
        is_interrupted = True
        say("interrupted: the run is cancelled and drains; again to end at once")
        client.cancel(run_id)

    return follow(client, run_id, progress, on_interrupt=cancel), is_interrupted


def _receive(
    client: Client, run_id: str, items: SimpleQueue[_Item], patience_s: float
) -> None:
    until_s: float | None = None  # while the coordinator is away
    while True:
        try:
            for update in client.watch(run_id):
                until_s = None
                items.put(update)
            items.put(None)
            return
        except CoordinatorUnreachable as error:
            if until_s is None:
                until_s = time.monotonic() + patience_s
                if patience_s:
                    items.put(
                        f"{error}; the run may go on: asking again for up to "
                        f"{patience_s:g} s"
                    )
            if time.monotonic() >= until_s:
                hint = f"when it is back, `ldapslam fleet watch {run_id}` goes on"
                items.put(
                    CoordinatorUnreachable(error.address, error.detail, hint=hint)
                    if patience_s
                    else error
                )
                return
            time.sleep(_PAUSE_S)
        except LdapSlamError as error:
            items.put(error)
            return


@contextlib.contextmanager
def _first_signal_to(
    items: SimpleQueue[_Item], on_interrupt: Callable[[], None]
) -> Iterator[None]:
    """Within, the first SIGINT or SIGTERM puts `on_interrupt` into the queue."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    previous = {number: signal.getsignal(number) for number in numbers}

    def on_signal(_: int, __: FrameType | None) -> None:
        restore()
        items.put(on_interrupt)  # put() may be called from a signal handler

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
