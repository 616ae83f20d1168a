# SPDX-License-Identifier: Apache-2.0
"""The files that a job names, while the job is read.

A template, a table of rates: some fields are right only if the file that they name is.
Who reads a job says where its files are (`with available(files):` around validation);
fields ask `read_file`. Where nobody says so, as when a text is checked by itself, files
are not looked into: `read_file` is then None, which is no fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from ldapslam.base.fault import Fault, expected

#: Longest file that is read whole: templates and tables, not feeds of values.
MAX_BYTES = 16 << 20


@dataclass(frozen=True)
class JobFiles:
    """Files by name as the job file has it: where they are, or what is in them."""

    places: Mapping[str, Path | bytes] = field(default_factory=dict)
    #: Where the others are to be found; None: they are not looked for.
    base: Path | None = None

    def find(self, name: str) -> Path | bytes | None:
        """Where a file is, which need not exist; None: not looked for."""
        if name in self.places:
            return self.places[name]
        return None if self.base is None else (self.base / name).absolute()


_current: ContextVar[JobFiles | None] = ContextVar("files", default=None)


@contextmanager
def available(files: JobFiles) -> Iterator[None]:
    """Within it, fields may look into these files."""
    token = _current.set(files)
    try:
        yield
    finally:
        _current.reset(token)


def read_file(name: str) -> str | None:
    """The text of a file that a job names, UTF-8; None where files are not looked into,
    and where there is none, which is a fault of its own. A Fault says what else."""
    files = _current.get()
    place = files.find(name) if files else None
    if isinstance(place, Path):
        try:
            if place.stat().st_size > MAX_BYTES:
                raise expected(f"a file of at most {MAX_BYTES} bytes", name)
            place = place.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Fault(
                f"{name!r} cannot be read: {error.strerror}", "name a readable file"
            ) from None
    if place is None:
        return None
    try:
        return place.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = place[: error.start].count(b"\n") + 1
        raise Fault(
            f"{name!r} line {line}: expected UTF-8, got 0x{place[error.start]:02x}",
            "save the file as UTF-8",
        ) from None
