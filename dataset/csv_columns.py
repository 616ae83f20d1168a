# SPDX-License-Identifier: Apache-2.0
"""The fields of a CSV file as files of values: a line for each row.

The generator takes the value for an entry by its number, from a file that is mapped;
so the rows, which may be many, never are in memory.
"""

from __future__ import annotations

import csv
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from ldapslam.base.errors import ConfigError
from ldapslam.base.fault import did_you_mean


@dataclass(frozen=True)
class CsvColumns:
    rows: int = 0
    #: File of each field that was wanted.
    paths: dict[str, str] = field(default_factory=dict)


def split_columns(
    path: Path,
    fields: Collection[str],
    folder: Path,
    *,
    delimiter: str = ",",
    has_header: bool = False,
) -> CsvColumns:
    """Write the wanted fields (numbers from 0, or names of the header) to files in
    `folder`. ConfigError where the file cannot be read, or a row has no such field."""
    paths: dict[str, str] = {}
    count = 0
    try:
        with path.open(newline="", encoding="utf-8-sig") as file, ExitStack() as stack:
            rows = csv.reader(file, delimiter=delimiter, strict=True)
            header = next(rows, []) if has_header else []
            wanted = [(name, _number(name, header, path)) for name in fields]
            outputs = []
            for index, (name, number) in enumerate(wanted):
                paths[name] = str(folder / f"field-{index}")
                output = stack.enter_context(
                    (folder / f"field-{index}").open("w", encoding="utf-8", newline="")
                )
                outputs.append((output, number))
            for row in filter(None, rows):  # without empty lines
                count += 1
                for output, number in outputs:
                    output.write(_value(row, number, path, rows.line_num) + "\n")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(
            f"CSV file {str(path)!r} cannot be read: {error}",
            hint="expected UTF-8 and quotes as in RFC 4180; --csv-delimiter names the "
            "delimiter",
        ) from None
    if count == 0:
        raise ConfigError(f"CSV file {str(path)!r} has no rows", hint="add a row")
    return CsvColumns(count, paths)


def _number(name: str, header: list[str], path: Path) -> int:
    if name in header:
        return header.index(name)
    if name.isascii() and name.isdigit() and len(name) < 10:
        return int(name)
    raise ConfigError(
        f"CSV file {str(path)!r} has no field {name!r}",
        hint=did_you_mean(name, header, "fields")
        if header
        else "give its number, from 0, or --csv-header",
    )


def _value(row: list[str], number: int, path: Path, line: int) -> str:
    if number >= len(row):
        raise ConfigError(
            f"{path}:{line}: the row has {len(row)} fields, field {number} is wanted",
            hint="fields are counted from 0",
        )
    value = row[number]
    if "\n" in value or "\r" in value:
        raise ConfigError(
            f"{path}:{line}: field {number} has a line break in it",
            hint="values of entries have none: take it out",
        )
    return value
