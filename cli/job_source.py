# SPDX-License-Identifier: Apache-2.0
"""Where a command's job comes from: a file, or the command's own options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ldapslam.jobs.load import load_job
from ldapslam.jobs.model import Job


class JobSource(Protocol):
    """A job as it is submitted: its text, and the same text checked."""

    @property
    def name(self) -> str:
        """What the run's manifest calls it."""

    def content(self) -> bytes: ...

    def load(self, overrides: Sequence[str] = ()) -> Job: ...


@dataclass(frozen=True)
class JobFile:
    """A job file."""

    path: Path

    @property
    def name(self) -> str:
        return str(self.path)

    def content(self) -> bytes:
        return self.path.read_bytes()

    def load(self, overrides: Sequence[str] = ()) -> Job:
        return load_job(self.path, overrides)
