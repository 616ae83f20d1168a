# SPDX-License-Identifier: Apache-2.0
"""Files for their owner alone, written whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ldapslam.jobs.errors import ConfigError

#: Names in the folder that `ldapslam pki issue` makes.
CERTIFICATE_FILE, KEY_FILE, AUTHORITY_FILE = "cert.pem", "key.pem", "ca.pem"


def make_private_folder(folder: Path) -> None:
    """Make it, with its parents; what is there is closed to others."""
    with errors_of(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)


def write_private(path: Path, content: bytes) -> None:
    """Put a file in place of what is there; its owner alone can read it."""
    with errors_of(path):
        descriptor, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        try:
            with open(descriptor, "wb") as file:  # mkstemp: 0600
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(scratch).replace(path)
        except BaseException:
            Path(scratch).unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Within, no other process changes the folder."""
    with errors_of(folder):
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def errors_of(path: Path) -> Iterator[None]:
    """Within, what the file system refuses is a ConfigError that names the path."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be written: {error.strerror}",
            hint="is the folder there, and writable for this user?",
        ) from error
