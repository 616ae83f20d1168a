# SPDX-License-Identifier: Apache-2.0
"""One coordinator for each store and each Unix socket.

A second one would end the first one's live runs or take its agents. The locks end with
their process.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TextIO

from ldapslam.base.errors import ConfigError
from ldapslam.base.files import private
from ldapslam.coordinator.store_writer import when_there
from ldapslam.results.store import Store


@contextlib.contextmanager
def owned_store(store: Store) -> Iterator[None]:
    """Own the store alone within; ConfigError when another coordinator does."""
    what, remedy = f"store {store.url!r}", "give another --store"
    with contextlib.ExitStack() as stack:
        if store.path is not None:
            stack.enter_context(_owned_file(store.path, what, remedy))
        other = when_there(store.url, partial(store.claim, _own_name()))
        if other is not None:
            raise _in_use(what, other, remedy)
        yield


@contextlib.contextmanager
def owned_socket(path: Path) -> Iterator[None]:
    """Own the address alone within; a dead process's socket is free."""
    with _owned_file(path, f"address 'unix:{path}'", "listen on another address"):
        yield


@contextlib.contextmanager
def _owned_file(path: Path, what: str, remedy: str) -> Iterator[None]:
    lock_path = path.with_name(f"{path.name}.lock")
    try:
        lock_path.parent.mkdir(parents=True, exist_ok=True)
        while (lock := _locked(lock_path)) is None:
            pass
    except BlockingIOError as error:
        raise _in_use(what, str(error), remedy) from None
    except OSError as error:
        raise ConfigError(
            f"{what}: {str(lock_path)!r} cannot be locked: {error.strerror}",
            hint=f"make its folder writable, or {remedy}",
        ) from error
    with lock:
        lock.truncate(0)
        lock.write(_own_name())
        lock.flush()
        try:
            yield
        finally:
            # still locked: nobody else has it
            lock_path.unlink(missing_ok=True)


def _locked(path: Path) -> TextIO | None:
    """The locked file; None when its last owner just removed it. BlockingIOError with
    the owner's name."""
    file = open(path, "a+", opener=private, encoding="utf-8")
    with contextlib.ExitStack() as on_failure:
        on_failure.callback(file.close)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise BlockingIOError(file.read() or "another process") from None
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(file.fileno())):
                on_failure.pop_all()
                return file
    return None


def _own_name() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def _in_use(what: str, other: str, remedy: str) -> ConfigError:
    return ConfigError(
        f"{what} is in use by a coordinator",
        hint=f"it is {other}: stop it, or {remedy}",
    )
