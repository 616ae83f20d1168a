# SPDX-License-Identifier: Apache-2.0
"""Which files a job names, on its raw tree: known even where other fields are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from pydantic.fields import FieldInfo

from ldapslam.base.fault import Fault
from ldapslam.jobs.fields.sections import FileName, Kind, Section, field_of, sections_in
from ldapslam.jobs.reading.tree import Path
from ldapslam.jobs.requests.pattern import parse_pattern
from ldapslam.jobs.requests.template import FILE_RANDOM, FILE_SEQUENCE, ValueSource

_FILE_KIND = [part for part in get_args(FileName) if isinstance(part, Kind)][-1]


def named_files(
    section: type[Section], data: Any, path: Path = ()
) -> Iterator[tuple[Path, str]]:
    """The files that a raw tree of a section names, and the fields that do."""
    if not isinstance(data, dict):
        return
    for key, value in data.items():
        where = (*path, key)
        info = field_of(section, key)
        if info is None:
            continue
        if _is_file(info):
            yield from _names(value, where)
            continue
        inner = sections_in(info.annotation)
        for of_item in (one for one, in_list in inner if in_list):
            for index, item in enumerate(value if isinstance(value, list) else ()):
                yield from named_files(of_item, item, (*where, index))
        for alone in (one for one, in_list in inner if not in_list):
            yield from named_files(alone, value, where)
        if not inner:
            yield from _in_patterns(value, where)


def _names(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    for index, item in enumerate(value if isinstance(value, list) else ()):
        yield from _names(item, (*path, index))


def _is_file(info: FieldInfo) -> bool:
    return _FILE_KIND in info.metadata or _names_file(info.annotation)


def _names_file(annotation: Any) -> bool:
    return any(part == _FILE_KIND or _names_file(part) for part in get_args(annotation))


class AnyName(dict[str, int]):
    """Every name but one is that of a variable, for a pattern's syntax alone."""

    def __init__(self, but: str | None = None) -> None:
        super().__init__()
        self._but = but

    def __bool__(self) -> bool:
        return True

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.isidentifier() and name != self._but

    def __missing__(self, name: str) -> int:
        return 0


def _in_patterns(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """The files that the patterns of texts draw lines from."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _in_patterns(item, (*path, index))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _in_patterns(item, (*path, key))
    elif isinstance(value, str) and "file:" in value:
        try:
            sources = parse_pattern(value, AnyName()).sources
        except Fault:
            return
        for source in sources:
            if isinstance(source, ValueSource) and source.kind in (
                FILE_RANDOM,
                FILE_SEQUENCE,
            ):
                yield path, source.data.decode()
