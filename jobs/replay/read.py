# SPDX-License-Identifier: Apache-2.0
"""Reads the files of a log, rotated and compressed ones too, into one `Log`; makes a
replay ready of it.

The only module of this package that opens files. Which server wrote a file is seen from
its lines; the files are put in the order of their first line's time, however they are
named or given.
"""

from __future__ import annotations

import gzip
import itertools
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from ldapslam.base.errors import ConfigError
from ldapslam.jobs.replay import ds389, openldap
from ldapslam.jobs.replay.log import NS_PER_S, Assembler, Event, Log, plausible, spread
from ldapslam.jobs.replay.options import Trace
from ldapslam.jobs.replay.trace import Identity, Pace, Requests, Schedule, schedule

_FORMATS: tuple[ModuleType, ...] = (openldap, ds389)
_GZIP = b"\x1f\x8b"
#: Lines in which the first one of an operation must be found.
_PROBED_LINES = 10_000
#: The year after the one that stamps without a year are given.
_YEAR_AFTER_NS = (
    int(datetime(openldap.YEAR_WITHOUT_YEAR + 1, 1, 1, tzinfo=UTC).timestamp())
    * NS_PER_S
)
_HALF_A_YEAR_NS = 182 * 86_400 * NS_PER_S
#: Longer ones are not a directory server's.
_MAX_LINE_CHARACTERS = 1 << 20


@dataclass(frozen=True)
class _File:
    path: Path
    format: ModuleType
    first_ns: int
    #: Its stamps have no year, and those of another file are of December.
    is_of_next_year: bool = False


def read_logs(paths: Sequence[Path]) -> Log:
    """All that the files say; a ConfigError names a file that is no such log."""
    files = _in_order([_probe(path) for path in paths])
    assembler = Assembler()
    log = assembler.log
    for file in files:
        with _lines(file.path) as lines:
            clock = file.format.Clock()
            if file.is_of_next_year:
                clock.begin_next_year()
            counted = _count(lines, log)
            events: Iterator[Event] = plausible(
                file.format.events(counted, clock, log.unusable), log.unusable
            )
            events = itertools.chain(list(itertools.islice(events, 1)), events)
            if clock.is_coarse:
                log.is_coarse = True
                events = spread(events)
            for event in events:
                assembler.add(event)
    return assembler.finish()


def _in_order(files: list[_File]) -> list[_File]:
    """By the time of their first line; where stamps have no year, the months before a
    gap of half a year are those of the year after."""
    files = sorted(files, key=lambda file: file.first_ns)
    has_no_year = files and files[-1].first_ns < _YEAR_AFTER_NS
    for number in range(1, len(files)):
        gap_ns = files[number].first_ns - files[number - 1].first_ns
        if has_no_year and gap_ns > _HALF_A_YEAR_NS:
            later = [replace(file, is_of_next_year=True) for file in files[:number]]
            return files[number:] + later
    return files


def _count(lines: Iterable[str], log: Log) -> Iterator[str]:
    for line in lines:
        log.lines += 1
        yield line


def _probe(path: Path) -> _File:
    with _lines(path) as lines:
        head = list(itertools.islice(lines, _PROBED_LINES))
    for line in head:
        for form in _FORMATS:
            if form.is_line(line):
                unusable: Counter[str] = Counter()
                events: Iterable[Any] = form.events(head, form.Clock(), unusable)
                first = next(iter(events), None)
                return _File(path, form, first.time_ns if first else 0)
    what = "a log of OpenLDAP (loglevel stats) or of 389 Directory Server"
    raise ConfigError(
        f"expected {what}, got {str(path)!r}",
        hint=f"none of its first {_PROBED_LINES:,} lines is of that kind",
    )


@contextmanager
def _lines(path: Path) -> Iterator[Iterable[str]]:
    """A file's lines; bytes that are not UTF-8 become U+FFFD."""
    try:
        with path.open("rb") as raw:
            is_compressed = raw.read(2) == _GZIP
        opened: TextIO
        if is_compressed:
            opened = gzip.open(path, "rt", encoding="utf-8", errors="replace")
        else:
            opened = path.open(encoding="utf-8", errors="replace")
        with opened as stream:
            yield _until_broken(stream)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"the log {str(path)!r} cannot be read: {reason}") from error


def _until_broken(stream: TextIO) -> Iterator[str]:
    """Lines as long as they come: a compressed file may still be being written."""
    while True:
        try:
            line = stream.readline(_MAX_LINE_CHARACTERS)
        except (EOFError, gzip.BadGzipFile, zlib.error):
            return
        if not line:
            return
        yield line.rstrip("\r\n")


def connections_needed(trace: Trace, paths: Sequence[Path]) -> int:
    """Connections that a trace needs for its whole log at its speed; ConfigError."""
    pace = Pace(0, sys.maxsize, trace.factor, trace.skip_ns)
    requests = Requests(trace, 0, Identity("", b""))
    return len(schedule(read_logs(paths), pace, requests).connections)


def prepare(
    name: str,
    trace: Trace,
    log: Log,
    pace: Pace,
    *,
    connections: int,
    seed: int,
    identity: Identity | None = None,
) -> Schedule:
    """The schedule of the trace of the stream `name`; ConfigError when the connections
    are not enough, or when there is nothing to send."""
    made = schedule(log, pace, Requests(trace, seed, identity))
    needed = len(made.connections)
    if needed > connections:
        raise ConfigError(
            f"at speed {trace.speed} the log of the stream {name!r} needs {needed} "
            f"connections, and its trace has {connections}",
            hint=f"--set streams.{name}.load.trace.connections={needed}",
        )
    if made.total == 0:
        reasons = "; ".join(f"{why} ({n})" for (_, why), n in made.skipped.items())
        raise ConfigError(
            "nothing of the log can be replayed", hint=reasons or "it has no requests"
        )
    return made
