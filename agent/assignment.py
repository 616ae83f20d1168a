# SPDX-License-Identifier: Apache-2.0
"""Moves a run's job from the agent to a child process.

The files of a job may have millions of lines: the agent writes them to the child's
folder, neither process keeps their bytes, and the engine maps them.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.model import Job
from ldapslam.proto.common_pb2 import RunAssignment


def store_files(run: RunAssignment, folder: Path) -> None:
    """Move the files that a run brings to `folder`; their names stay, without bytes."""
    for name, path in _paths(run, folder).items():
        path.write_bytes(run.files[name])
        run.files[name] = b""


def load_assignment(run: RunAssignment, folder: Path) -> Job:
    """The job as delivered; its files are where `store_files` put them."""
    return load_job_text(
        run.job_text,
        file=run.job_file,
        base=None,
        overrides=list(run.overrides),
        files=_paths(run, folder),
    )


def _paths(run: RunAssignment, folder: Path) -> dict[str, Path]:
    # not by their names, which come from the peer
    return {
        name: folder / f"file-{number}" for number, name in enumerate(sorted(run.files))
    }


def trim_heap() -> None:
    """Return free heap to the kernel: the C library keeps it after a large job."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's own
    if trim is not None:
        trim(0)
