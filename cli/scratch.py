# SPDX-License-Identifier: Apache-2.0
"""The temporary folder of a local fleet: made here, recognised here, removed here.

A coordinator removes the folder of a fleet whose command was killed. An argument names
the folder, so only one with our mark is removed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "ldapslam-fleet-"
_MARKER = ".ldapslam-fleet"


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A marked folder, which is removed at the end unless somebody already has."""
    with tempfile.TemporaryDirectory(
        prefix=_PREFIX, ignore_cleanup_errors=True
    ) as folder:
        (Path(folder) / _MARKER).touch(mode=0o600)
        yield Path(folder)


def is_scratch(folder: Path) -> bool:
    """Whether scratch_folder() made it, for this user: its name, owner and mark."""
    try:
        status = [folder.lstat(), (folder / _MARKER).lstat()]
    except OSError:
        return False
    return (
        folder.name.startswith(_PREFIX)
        and stat.S_ISDIR(status[0].st_mode)
        and stat.S_ISREG(status[1].st_mode)
        and all(each.st_uid == os.geteuid() for each in status)
    )


def remove_scratch(folder: Path) -> None:
    """Remove the folder if it is one of ours and still there."""
    if is_scratch(folder):
        shutil.rmtree(folder, ignore_errors=True)
