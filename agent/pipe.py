# SPDX-License-Identifier: Apache-2.0
"""A child process of an agent: its side of the pipe, and its life.

Frames come on stdin and go out on stdout, which nothing else can reach; prints go to
stderr, the log. When the agent dies, its end of stdin closes and the process ends; the
kernel's parent-death signal is the second guard.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Generic, NoReturn, Protocol, TypeVar

from google.protobuf.message import Message

from ldapslam.base.errors import EngineError, LdapSlamError
from ldapslam.base.log_format import format_of_parent, set_up_log
from ldapslam.base.process import EXIT_ORPHANED, end_with_parent
from ldapslam.transport.messages import encode_frame, failure_message, read_frame

_log = logging.getLogger(__name__)

R = TypeVar("R", bound=Message)
E = TypeVar("E", bound=Message)


class Pipe(Generic[R, E]):
    """Frames to and from the agent; requests are read by a thread of their own."""

    def __init__(
        self,
        requests: BinaryIO,
        events: BinaryIO,
        request_type: type[R],
        event_type: type[E],
    ) -> None:
        self._events = events
        self._event_type = event_type
        self._requests: queue.SimpleQueue[R] = queue.SimpleQueue()
        self._reader = threading.Thread(
            target=self._read, args=(requests, request_type), name="requests"
        )
        self._reader.daemon = True
        self._reader.start()

    def _read(self, requests: BinaryIO, request_type: type[R]) -> None:
        try:
            while request := read_frame(requests, request_type):
                self._requests.put(request)
        except LdapSlamError as error:
            _log.error("%s", error)
        # the main thread may be in the engine
        os._exit(EXIT_ORPHANED)

    def next(self) -> R:
        return self._requests.get()

    def next_before(self, mono_ns: int) -> R | None:
        """The next request; None when there is none in time."""
        left_s = max(0, mono_ns - time.monotonic_ns()) / 1e9
        try:
            return self._requests.get(timeout=left_s)
        except queue.Empty:
            return None

    def send(self, **kind: Any) -> None:
        try:
            self._events.write(encode_frame(self._event_type(**kind)))
            self._events.flush()
        except BrokenPipeError:
            os._exit(EXIT_ORPHANED)


def _own_pipe(request_type: type[R], event_type: type[E]) -> Pipe[R, E]:
    """Frames on the original stdin and stdout, which nothing else can reach then."""
    requests, events = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return Pipe(
        os.fdopen(requests, "rb"), os.fdopen(events, "wb"), request_type, event_type
    )


class Course(Protocol):
    """What a process is there for."""

    def execute(self) -> None: ...


def serve(
    request_type: type[R],
    event_type: type[E],
    make: Callable[[Pipe[R, E], Any], Course],
) -> int:
    """Take the request to prepare, execute what `make` makes of it; the exit status. A
    failure is the last event, `failed`."""
    log_fields = set_up_log(format_of_parent())
    # the agent decides what a signal to the terminal's process group means
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    pipe = _own_pipe(request_type, event_type)
    request = pipe.next()
    # only now: before its request, a forked process is not the agent's child
    end_with_parent()
    if request.WhichOneof("kind") != "prepare":
        _log.error("expected a request to prepare")
        return 1
    prepare: Any = getattr(request, "prepare")  # noqa: B009  of any such message
    run_id = prepare.run.run_id
    log_fields["run_id"], log_fields["agent"] = run_id, prepare.agent
    try:
        make(pipe, prepare).execute()
    except LdapSlamError as error:
        _log.error("run %s: %s", run_id, error)
        pipe.send(failed=failure_message(error))
        return 1
    except Exception as error:
        _log.exception("run %s failed", run_id)
        failure = EngineError(f"{type(error).__name__}: {error}")
        pipe.send(failed=failure_message(failure))
        return 1
    return 0


@contextlib.contextmanager
def repeated(call: Callable[[], None], every_s: float) -> Iterator[None]:
    """Within, call regularly on another thread; not after it."""
    is_over = threading.Event()

    def work() -> None:
        while not is_over.wait(every_s):
            call()

    thread = threading.Thread(target=work, name="repeated", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def end(status: int) -> NoReturn:
    """End the whole process."""
    logging.shutdown()
    # sys.exit would wait for the lock of the thread that reads stdin
    os._exit(status)
